"""`ralph log` and `ralph diff`: what a run did, and what it changed."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from ralph.cli import completion
from ralph.cli.program import say, say_json

if TYPE_CHECKING:
    from pathlib import Path

    from ralph.core.history import PastIteration, PastRun
    from ralph.git.history import GitCall

PastGoal = Annotated[
    str | None,
    typer.Argument(
        metavar="[GOAL]",
        help="The goal's name or file, or an archived run; the default is this repository's latest run.",
        autocompletion=completion.past_runs,
    ),
]
Number = Annotated[int | None, typer.Option("--iteration", "-i", metavar="N", min=1, help="Show only this iteration.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print only JSON on stdout.")]


@dataclass(frozen=True, slots=True)
class LookBack:
    """A run as messages name it, and the commands that show more of it."""

    named: str
    log: str
    diff: str

    @classmethod
    def of(cls, past: "PastRun") -> "LookBack":
        return cls(past.goal, f"ralph log {past.goal}", f"ralph diff {past.goal}")


def log(goal: PastGoal = None, iteration: Number = None, as_json: AsJson = False) -> None:
    """Show what a run did, iteration by iteration.

    For each iteration: summary, check, cost, time and commit.

    -i shows the conversation of one iteration with the output of its tools; with --json, its events.
    """
    from ralph.core.records import to_record
    from ralph.state.past_runs import find_past_run
    from ralph.ui import history

    found = find_past_run(goal)
    if iteration is not None:
        retell_iteration(found.past, found.directory, iteration, LookBack.of(found.past), as_json=as_json)
    elif as_json:
        say_json(to_record(found.past))
    else:
        past = found.past
        earlier = (
            f"earlier runs: {', '.join(f'ralph log {name}' for name in past.earlier[-3:])}" if past.earlier else ""
        )
        say(*history.told(past), *way_on(past, found.directory, LookBack.of(past), earlier))


def way_on(past: "PastRun", directory: "Path | None", look: LookBack, earlier: str = "") -> list[str]:
    """Return the commands that show more of a run: a conversation only where its log is still there."""
    from ralph.state.past_runs import session_logs

    newest = past.iterations[-1].number if past.iterations else 1
    has_sessions = directory is not None and bool(session_logs(directory, newest))
    parts = [
        f"conversation: {look.log} -i {newest}" if has_sessions else "",
        f"changes: {look.diff}" if past.iterations else "",
        earlier,
    ]
    return ["", "; ".join(filter(None, parts))] if any(parts) else []


def diff(goal: PastGoal = None, iteration: Number = None, as_json: AsJson = False) -> None:
    """Show what a run changed, as a patch.

    The patch covers the whole run; -i shows one iteration.

    Control characters are escaped. For git apply, take the exact text from --json (key `patch`).
    """
    from ralph.core.errors import UsageError
    from ralph.git.history import parent_of
    from ralph.state.past_runs import find_past_run, require_iteration

    found = find_past_run(goal)
    past = found.past
    if iteration is not None:
        head = require_iteration(past, iteration, LookBack.of(past).log).commit
        base = parent_of(found.git, head)
    elif past.head is None:
        raise UsageError(f"{past.goal} has no finished iteration yet", f"see where it stands: {LookBack.of(past).log}")
    else:
        head = past.head
        base = past.base or parent_of(found.git, past.iterations[0].commit)
    title = past.goal if iteration is None else f"{past.goal} iteration {iteration}"
    show_changes(found.git, base, head, title, as_json=as_json)


def show_changes(git: "GitCall", base: str | None, head: str, title: str, *, as_json: bool) -> None:
    """Print the changes between two commits: their ids, the size and the patch."""
    from ralph.core.records import to_record
    from ralph.git.history import changes_between, patch_between
    from ralph.ui.history import patch_parts
    from ralph.ui.terminal import Look

    changes, patch = changes_between(git, base, head), patch_between(git, base, head)
    if as_json:
        say_json({**to_record(changes), "patch": patch})
        return
    span = f"{'' if base is None else base[:10]}..{head[:10]}"
    say((f"{title} · {span} · {changes.size}", Look.STRONG), *(["", *patch_parts(patch)] if patch else []))


def retell_iteration(past: "PastRun", directory: "Path | None", number: int, look: LookBack, *, as_json: bool) -> None:
    """Print the conversation of an iteration, each session as `ralph transcript` does, then its result."""
    from ralph.core.errors import UsageError
    from ralph.run.replay import retell
    from ralph.state.past_runs import require_iteration, session_logs
    from ralph.ui.render import Detail

    logs = [] if directory is None else session_logs(directory, number)
    is_unfinished = number == (past.iterations[-1].number if past.iterations else 0) + 1  # live, or its sessions failed
    ended = None if is_unfinished and logs else require_iteration(past, number, look.log)
    if not logs:
        raise UsageError(
            f"cannot find the log of iteration {number} of {look.named} on this machine",
            f"see what it changed: {look.diff} -i {number}",
        )
    for count, file in enumerate(logs, 1):
        if not as_json:
            say(*([""] if count > 1 else []), f"iteration {number}, session {count} of {len(logs)}: {file}")
        retell(str(file), "auto", as_json=as_json, detail=Detail.VERBOSE)
    if ended is not None and not as_json:
        say(*_outcome(ended))


def _outcome(ended: "PastIteration") -> list[str]:
    """Describe the iteration's result, which is not in the session's log."""
    from ralph.ui import history

    check = ended.check
    cell = history.check_cell(check)
    said = [] if check is None else [f"check      {cell if isinstance(cell, str) else cell[0]}"]
    if check is not None and not check.is_green:
        said += [f"           {line}" for line in check.output.rstrip().splitlines()]
    told = history.turns(ended)
    took = [] if told == history.UNKNOWN else [f"turns      {told}"]
    return ["", f"commit     {ended.commit[:10]} · {ended.verdict}", *took, *said]
