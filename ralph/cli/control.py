"""`ralph status`, `tell`, `pause`, `resume`, `stop` and `wake`: look at runs, and speak to one that is under way."""

import time
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from ralph.cli import flags
from ralph.core.errors import UsageError
from ralph.core.guidance import Guidance

if TYPE_CHECKING:
    from ralph.core.guidance import Act
    from ralph.state.known_runs import KnownRun

_PENDING = {"pause": "pauses before the next session", "stop": "stops after this iteration"}


def status(
    goal: flags.LiveGoal = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON array.")] = False,
) -> None:
    """Show the live runs, and those of this repository: where they stand, and what they have spent."""
    from ralph.core import ndjson
    from ralph.state.known_runs import roster

    runs = roster()
    entries = runs.known() if goal is None else [runs.find(goal)]
    outlines = [_outline(entry) for entry in entries]
    if as_json:
        typer.echo(ndjson.encode([asdict(outline) for outline in outlines]))
    elif not outlines:
        typer.echo("no run is live, and none is known in this repository")
    else:
        typer.echo("\n\n".join("\n".join(_lines(outline)) for outline in outlines))


@dataclass(frozen=True, slots=True)
class Outline:
    """What a run's directory tells of it."""

    goal: str
    repo: str
    live: bool
    pid: int | None
    directory: str
    state: str
    since: str = ""
    until: float | None = None
    tool: str = ""
    asked: tuple[str, ...] = ()
    """What it is to do after this iteration: `pause`, `stop`."""
    branch: str = ""
    iteration: int | None = None
    failures: int = 0
    cost_usd: float | None = None
    tokens: int | None = None
    session_cost_usd: float | None = None
    context_pct: float | None = None
    summary: str = ""
    guidance: tuple[Guidance, ...] = ()


def _outline(entry: "KnownRun") -> Outline:
    from ralph.core.status import RunStatus, standing
    from ralph.state.journal import Journal, Saved
    from ralph.state.known_runs import latest_events

    journal = Journal(entry.directory)
    saved = journal.load()
    place = Outline(entry.goal, entry.repo, entry.is_live, entry.pid, str(entry.directory), "")
    if not isinstance(saved, Saved):
        return replace(place, state="its record is damaged; the next start rebuilds it")
    ended = journal.ending() or "cut off; the same command goes on"
    stands = standing(latest_events(entry.directory)) if entry.is_live else RunStatus(ended)
    if entry.is_live and stands.ended:  # that was the last start; this one has not said anything yet
        stands = RunStatus("beginning")
    run, used, last = saved.run, stands.session, saved.run.history.last
    return replace(
        place,
        state=stands.doing,
        since=stands.since,
        until=stands.until,
        tool=stands.tool,
        asked=_asked(entry, stands.is_paused) if entry.is_live else (),
        branch=run.branch,
        iteration=run.iteration,
        failures=run.failed,
        cost_usd=run.spend.cost_usd if run.spend.costed else None,
        tokens=run.spend.tokens if run.spend.knows_tokens else None,
        session_cost_usd=used.cost_usd if used else None,
        context_pct=used.context_pct if used else None,
        summary=last.summary if last else "",
        guidance=run.guidance,
    )


def _asked(entry: "KnownRun", is_paused: bool) -> tuple[str, ...]:
    """What was asked for and has not come yet: of a run's words, those since its start are heeded."""
    from ralph.core.guidance import Act, Steering
    from ralph.core.text import instant
    from ralph.state.inbox import Inbox

    helm = Steering(
        lambda: [word for word in Inbox(entry.directory).read() if (instant(word.at) or 0.0) >= entry.since]
    )
    helm.listen()
    pending = {Act.PAUSE: helm.paused and not is_paused, Act.STOP: helm.stopping}
    return tuple(str(act) for act, is_pending in pending.items() if is_pending)


def _lines(outline: Outline) -> list[str]:
    """The outline for people: labels, and what is known."""
    from ralph.core.text import format_money, local_time
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
            else f"until {local_time(until, now := time.time())}, {max(0.0, until - now):.0f} s from now",
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
    return [f"{label:<11}{one_line(text, 200)}" for label, text in said.items() if text]


_LONGEST = 10_000
"""Characters of a guidance: more belongs into the goal, or into a file that it names."""


def tell(
    words: Annotated[
        list[str],
        typer.Argument(metavar="[GOAL] TEXT", help="The goal, unless only one run is live; then what to say, quoted."),
    ],
) -> None:
    """Tell the agent something: the next session of the run reads it, and is asked to acknowledge it."""
    from ralph.core.guidance import Act
    from ralph.state.known_runs import roster

    if len(words) > 2:
        raise UsageError(f"{len(words)} words where a goal and a text are expected", 'quote the text: ralph tell "…"')
    asked, text = (None, words[0]) if len(words) == 1 else (words[0], words[1])
    if not text.strip():
        raise UsageError("there is nothing to tell", 'ralph tell "what the next session should know"')
    if len(text) > _LONGEST:
        raise UsageError(
            f"{len(text):,} characters are too many for a guidance ({_LONGEST:,})",
            "write them to a file in the repository, and tell its name; or change the goal's file",
        )
    run = roster().find(asked)
    _refuse_if_finished(run)
    number = _post(run, Act.TELL, text.strip())
    when = "the next session is told" if run.is_live else "the run is not live; its next start tells it"
    typer.echo(f"guidance {number} for {run.goal}: {when}")


def pause(goal: flags.LiveGoal = None) -> None:
    """Hold the run after its iteration, until `ralph resume`."""
    run = _steered(goal, "pause")
    typer.echo(f"{run.goal} pauses after this iteration; go on with: ralph resume {run.goal}")


def resume(goal: flags.LiveGoal = None) -> None:
    """Let a paused run go on."""
    typer.echo(f"{_steered(goal, 'resume').goal} goes on")


def stop(goal: flags.LiveGoal = None) -> None:
    """End the run after its iteration, with exit code 130; the same `ralph run` goes on where it ended."""
    typer.echo(f"{_steered(goal, 'stop').goal} stops after this iteration")


def wake(goal: flags.LiveGoal = None) -> None:
    """Let a run that waits, for a quota say, go on now."""
    from ralph.core.guidance import Act
    from ralph.core.status import standing
    from ralph.state.known_runs import latest_events, roster

    run = roster().find_live(goal)
    stands = standing(latest_events(run.directory))
    if not stands.is_waiting:
        raise UsageError(f"{run.goal} does not wait for a time: it is {stands.doing}", "see: ralph status")
    _post(run, Act.WAKE, "")
    typer.echo(f"{run.goal} goes on now")


def _steered(goal: str | None, act: str) -> "KnownRun":
    from ralph.core.guidance import Act
    from ralph.state.known_runs import roster

    run = roster().find_live(goal)
    _post(run, Act(act), "")
    return run


def _post(run: "KnownRun", act: "Act", text: str) -> int:
    from ralph.core.text import timestamp
    from ralph.state.inbox import Inbox
    from ralph.state.journal import Journal, Saved
    from ralph.system import environ

    saved = Journal(run.directory).load()
    if isinstance(saved, Saved) and saved.run.id == environ.without_redirections().get("RALPH_RUN_ID"):
        raise UsageError("a session does not steer the run that holds it", "leave that to the user")
    return Inbox(run.directory).post(act, text, timestamp(time.time()))


def _refuse_if_finished(run: "KnownRun") -> None:
    from ralph.state.journal import Journal, Saved

    saved = Journal(run.directory).load()
    if not run.is_live and isinstance(saved, Saved) and saved.finished:
        raise UsageError(f"the last run of {run.goal} is done: there is no next session", "start a new one: ralph run")
