"""`ralph status`, `tell`, `pause`, `resume`, `stop` and `wake`: look at runs, and steer a live one."""

import time
from typing import TYPE_CHECKING, Annotated

import typer

from ralph.cli import completion, flags
from ralph.cli.program import say, say_json
from ralph.core.errors import UsageError

if TYPE_CHECKING:
    from ralph.state.known_runs import KnownRun, Outline
    from ralph.ui.page import FactList

_LONGEST_FACT = 400
_PENDING = {"pause": "pauses before the next session", "stop": "stops after this iteration"}


def status(
    goal: Annotated[
        str | None,
        typer.Argument(metavar="[GOAL]", help="The goal's name or file.", autocompletion=completion.known_runs),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON array.")] = False,
) -> None:
    """Show the live runs and those of this repository.

    For each run: its current activity, its cost, and its latest summary.
    """
    from dataclasses import asdict

    from ralph.state.known_runs import known_runs, outline

    runs = known_runs()
    entries = runs.known() if goal is None else [runs.find(goal)]
    outlines = [outline(entry) for entry in entries]
    if as_json:
        say_json([asdict(outline) for outline in outlines])
    elif not outlines:
        say("no run is live, and this repository has no runs yet")
    else:
        say(*[part for outline in outlines for part in ("", _facts(outline))][1:])


def _facts(outline: "Outline") -> "FactList":
    """The outline for people: labels, and what is known."""
    from ralph.core.text import format_duration, format_money, local_time
    from ralph.ui.page import FactList
    from ralph.ui.terminal import one_line

    until, cost, session = outline.until, outline.cost_usd, outline.session_cost_usd
    facts = {
        "goal": [outline.goal, f"process {outline.pid}" if outline.live else "not live"],
        "repo": [outline.repo, f"branch {outline.branch}" if outline.branch else ""],
        "state": [
            f"iteration {outline.iteration}" if outline.live and outline.iteration else "",
            outline.state,
            outline.tool,
            *(_PENDING[act] for act in outline.asked),
            ""
            if until is None
            else f"until {local_time(until, now := time.time())}, in {format_duration(max(0.0, until - now))}",
        ],
        "spent": [
            "" if cost is None else format_money(cost),
            "" if session is None else f"{format_money(session)} in this session",
            "" if outline.tokens is None else f"{outline.tokens:,} tokens",
            "" if outline.context_pct is None else f"context {outline.context_pct:.0f} %",
        ],
        "last": [outline.summary],
        "guidance": [f"{len(outline.guidance)} not acknowledged yet" if outline.guidance else ""],
        "run": [outline.directory],
    }
    said = {label: " · ".join(filter(None, parts)) for label, parts in facts.items()}
    return FactList({label: one_line(text, _LONGEST_FACT) for label, text in said.items()}, copied=("run",))


_LONGEST = 10_000
"""Characters of a message: more belongs in the goal, or in a file that it names."""


def tell(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[GOAL] TEXT",
            help="The goal (not needed if only one run is live), then the message in quotes.",
            autocompletion=completion.known_runs,
        ),
    ],
) -> None:
    """Send a message to the agent.

    The next session of the run reads and acknowledges it.
    """
    from ralph.core.guidance import Act
    from ralph.state.known_runs import known_runs

    if len(words) > 2:
        raise UsageError(
            f"{len(words)} arguments, but ralph tell takes a goal and a message",
            'put the message in quotes: ralph tell "..."',
        )
    asked, text = (None, words[0]) if len(words) == 1 else (words[0], words[1])
    if not text.strip():
        raise UsageError("the message is empty", 'ralph tell "what the next session should know"')
    if len(text) > _LONGEST:
        raise UsageError(
            f"the message is too long: {len(text):,} characters, at most {_LONGEST:,}",
            "put the text into a file in the repository and name that file, or edit the goal file",
        )
    run = known_runs().find(asked)
    if run.is_finished:
        raise UsageError(f"cannot tell {run.goal} anything: its last run is done", "start a new run: ralph run GOAL.md")
    number = run.post(Act.TELL, text.strip(), time.time()).message
    when = "the next session will read it" if run.is_live else "the run is not live; its next start will read it"
    say(f"guidance {number} for {run.goal}: {when}")


def pause(goal: flags.LiveGoal = None) -> None:
    """Pause a run after its iteration, until `ralph resume`."""
    run = _steered(goal, "pause")
    say(f"{run.goal} pauses after this iteration; continue with: ralph resume {run.goal}")


def resume(goal: flags.LiveGoal = None) -> None:
    """Continue a paused run."""
    say(f"{_steered(goal, 'resume').goal} continues")


def stop(goal: flags.LiveGoal = None) -> None:
    """Stop a run after its iteration.

    It exits with code 130; the same `ralph run` command continues it.
    """
    say(f"{_steered(goal, 'stop').goal} stops after this iteration")


def wake(goal: flags.LiveGoal = None) -> None:
    """Stop waiting (for a quota, for example) and continue now."""
    from ralph.core.guidance import Act
    from ralph.core.status import status_of
    from ralph.state.known_runs import known_runs, latest_events

    run = known_runs().find_live(goal)
    stands = status_of(latest_events(run.directory))
    if not stands.is_waiting:
        raise UsageError(
            f"cannot wake {run.goal}: it is not waiting, it is {stands.doing}", "see its state: ralph status"
        )
    run.post(Act.WAKE, "", time.time())
    say(f"{run.goal} continues now")


def _steered(goal: str | None, act: str) -> "KnownRun":
    from ralph.core.guidance import Act
    from ralph.state.known_runs import known_runs

    run = known_runs().find_live(goal)
    run.post(Act(act), "", time.time())
    return run
