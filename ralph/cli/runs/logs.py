"""`ralph-runs logs`: the latest run of a goal, told as it was, and on for as long as it runs."""

import itertools
import math
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ralph.cli.runs import flags

if TYPE_CHECKING:  # loaded when the command is called
    from ralph.core.events import Event
    from ralph.core.ndjson import Oversized
    from ralph.ui.console import Console

_TICK = 0.5
_LOOK = 6
"""Ticks between two looks whether anybody serves the queue: of a server's, each is a connection."""


def logs(
    goal: flags.Id,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the goal no longer runs.")] = False,
    db: flags.Db = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print events as NDJSON.")] = False,
) -> None:
    """Show what happened in the latest run of a goal, as `ralph run` shows it."""
    from ralph.core.errors import RalphError, UsageError
    from ralph.dashboard.transcript import event_in
    from ralph.queue.goals import State
    from ralph.queue.open import find, is_cut_off, whereabouts
    from ralph.queue.paths import premises
    from ralph.ui.console import Console, write_json
    from ralph.ui.terminal import Outlet

    place = whereabouts(db)
    store, (found,) = find(place, [goal])
    quarters = premises(place.ralph_dir, store.queue_id)
    file = quarters.run_directory(found) / "events.ndjson"
    following = follow and found.state is State.RUNNING and not is_cut_off(place, [found])
    if not file.exists() and not following:
        raise UsageError(f"{found.label} {found.name} has not run yet: it is {found.state}")
    outlet = Outlet(sys.stdout, patience=math.inf)  # whoever pages through them takes his time
    console = Console(outlet, root=str(quarters.clone(found)))

    turns = itertools.count(1)

    def runs() -> bool:
        now = store.goal(found.id)
        looks = next(turns) % _LOOK == 0
        return following and now.state is State.RUNNING and not (looks and is_cut_off(place, [now]))

    for line in _lines(file, runs):
        if (told := event_in(line)) is None:
            continue
        if as_json and isinstance(line, bytes):
            write_json(outlet, line + b"\n")
        else:
            _draw(*told, console)
        if outlet.closed:
            break
    if follow and is_cut_off(place, [store.goal(found.id)]):
        Outlet(sys.stderr).write(f"note: {found.label} was cut off; it goes on with: ralph-runs run{place.flag}\n")
    if outlet.fault is not None:
        raise RalphError(f"stdout: {outlet.fault.strerror}", "let it be written elsewhere, or free some space")


def _lines(file: Path, runs: Callable[[], bool]) -> "Iterator[bytes | Oversized]":
    """Yield the whole lines of a file, and those that are added for as long as the goal runs."""
    from ralph.dashboard.transcript import RunFile

    with RunFile(file) as run:
        while True:
            is_running = runs()  # asked before the last look, so that nothing is missed
            yield from run.lines()
            if not is_running:
                return
            time.sleep(_TICK)


def _draw(event: "Event", at: str, console: "Console") -> None:
    from ralph.dashboard.transcript import framed

    if (said := framed(event, at)) is not None:
        console.say(said.label, said.text)
    else:
        console([event], at, b"")
