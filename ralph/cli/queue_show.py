"""`ralph-runs list`, `show` and `logs`: the queue, one goal of it, and what its latest run did."""

import itertools
import math
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ralph.cli import flags
from ralph.dashboard.report import row

if TYPE_CHECKING:
    from ralph.core.events import Event
    from ralph.core.ndjson import Oversized
    from ralph.dashboard.report import GoalDetails
    from ralph.queue.goals import BatchGoal
    from ralph.queue.open import QueueAddress
    from ralph.queue.store import Store
    from ralph.ui.console import Console


def list_(
    state: Annotated[
        str | None,
        typer.Option(metavar="STATE", help="Only goals that are draft, queued, running, done, stuck or cancelled."),
    ] = None,
    db: flags.Db = None,
    as_json: flags.PrintJson = False,
) -> None:
    """List the goals of the queue: where each stands, and what it has cost."""
    from ralph.core import ndjson
    from ralph.dashboard import report
    from ralph.queue.news import PAUSED
    from ralph.queue.open import existing, is_cut_off, missing, whereabouts

    wanted = _state(state)
    place = whereabouts(db)
    store = existing(place)
    everything = [] if store is None else store.goals()
    goals = [goal for goal in everything if wanted in (None, goal.state)]
    cut_off = is_cut_off(place, everything)
    if as_json:
        typer.echo(ndjson.encode([row(goal, cut_off=cut_off) for goal in goals]))
    elif goals:
        paused = [PAUSED.written(place.flag)] if store is not None and store.paused else []
        typer.echo("\n".join([*report.overview(goals, everything, cut_off=cut_off, flag=place.flag), *paused]))
    elif everything:
        typer.echo(f"no goal is {wanted}; {report.tally(everything, cut_off=cut_off)}")
    else:
        what = missing(place) if store is None else "the queue is empty"
        typer.echo(f"{what}; add goals with: {place.command('add', 'GOAL.md', '--queue')}")


def show(goal: flags.Id, db: flags.Db = None, as_json: flags.PrintJson = False) -> None:
    """Show a goal: its state and why, attempts, cost, branch, clone, what it comes after, history, the next step."""
    from ralph.core import ndjson
    from ralph.dashboard import report
    from ralph.dashboard.report import document
    from ralph.queue.open import find, whereabouts

    place = whereabouts(db)
    store, (found,) = find(place, [goal])
    known = known_of(found, place, store)
    if as_json:
        typer.echo(ndjson.encode(document(known)))
    else:
        typer.echo("\n".join(report.details(known, store.goals(), flag=place.flag)))


def known_of(goal: "BatchGoal", place: "QueueAddress", store: "Store") -> "GoalDetails":
    """Look up what there is of a goal besides its row."""
    from ralph.dashboard import report
    from ralph.dashboard.report import GoalDetails
    from ralph.queue.clone import kept
    from ralph.queue.open import is_cut_off
    from ralph.queue.paths import queue_paths
    from ralph.queue.repos.mirror import open_mirror

    working = queue_paths(place.ralph_dir, store.queue_id).clone(goal)
    bare = open_mirror(place.ralph_dir, goal.repo).bare
    has_mirror = bare.path.is_dir()
    return GoalDetails(
        goal,
        store.comments(goal),
        clone=working if working.is_dir() else None,
        # A branch that is merged is removed from the mirror: one that is there has work that is nowhere else.
        mirror=bare.path if has_mirror and bare.commit_at(f"refs/heads/{goal.branch}") else None,
        kept=kept(bare, working, goal.branch) if has_mirror else [],
        look=report.look_at_kept(bare.path, working, goal.branch),
        cut_off=is_cut_off(place, [goal]),
        paused=store.paused,
    )


def _state(written: str | None) -> str | None:
    from ralph.core.errors import UsageError
    from ralph.core.text import did_you_mean
    from ralph.queue.goals import State

    if written is not None and written not in list(State):
        raise UsageError(f"--state: {written!r} is not one of {', '.join(State)}{did_you_mean(written, State)}")
    return written


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
    from ralph.queue.paths import queue_paths
    from ralph.ui.console import Console, write_json
    from ralph.ui.terminal import Output

    place = whereabouts(db)
    store, (found,) = find(place, [goal])
    quarters = queue_paths(place.ralph_dir, store.queue_id)
    file = quarters.run_directory(found) / "events.ndjson"
    following = follow and found.state is State.RUNNING and not is_cut_off(place, [found])
    if not file.exists() and not following:
        raise UsageError(f"{found.label} {found.name} has not run yet: it is {found.state}")
    outlet = Output(sys.stdout, patience=math.inf)  # whoever pages through them takes his time
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
        Output(sys.stderr).write(f"note: {found.label} was cut off; it goes on with: ralph-runs run{place.flag}\n")
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
