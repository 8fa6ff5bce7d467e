"""`ralph tell`, `pause`, `resume`, `stop` and `wake`: a word to a run that is under way."""

import time
from typing import TYPE_CHECKING, Annotated

import typer

from ralph.cli import flags
from ralph.core.errors import UsageError

if TYPE_CHECKING:  # loaded by the command that is called, not by all
    from ralph.core.guidance import Act
    from ralph.state.known_runs import Entry

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


def _steered(goal: str | None, act: str) -> "Entry":
    from ralph.core.guidance import Act
    from ralph.state.known_runs import roster

    run = roster().find_live(goal)
    _post(run, Act(act), "")
    return run


def _post(run: "Entry", act: "Act", text: str) -> int:
    from ralph.core.text import timestamp
    from ralph.state.inbox import Mailbox
    from ralph.state.journal import Journal, Saved
    from ralph.system import environ

    saved = Journal(run.directory).load()
    if isinstance(saved, Saved) and saved.run.id == environ.without_redirections().get("RALPH_RUN_ID"):
        raise UsageError("a session does not steer the run that holds it", "leave that to the user")
    return Mailbox(run.directory).post(act, text, timestamp(time.time()))


def _refuse_if_finished(run: "Entry") -> None:
    from ralph.state.journal import Journal, Saved

    saved = Journal(run.directory).load()
    if not run.is_live and isinstance(saved, Saved) and saved.finished:
        raise UsageError(f"the last run of {run.goal} is done: there is no next session", "start a new one: ralph run")
