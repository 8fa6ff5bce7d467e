"""`ralph-runs list`, `show` and `logs`: the queue, one goal, and the transcript of its latest run."""

import itertools
import math
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ralph.cli import completion, flags
from ralph.cli.program import say, say_json

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
        typer.Option(
            metavar="STATE",
            help="Show only goals in this state: draft, queued, running, done, stuck, cancelled or undone.",
            autocompletion=completion.goal_states,
        ),
    ] = None,
    everyone: Annotated[
        bool, typer.Option("--all", help="List every goal instead of the 200 most relevant ones.")
    ] = False,
    db: flags.Db = None,
    as_json: flags.PrintJson = False,
) -> None:
    """List goals with their state and cost."""
    from ralph.dashboard import report
    from ralph.dashboard.report import row
    from ralph.queue.news import PAUSED
    from ralph.queue.open import existing, is_cut_off, missing, queue_address

    wanted = _state(state)
    place = queue_address(db)
    store = existing(place)
    everything = [] if store is None else store.goals()
    goals = [goal for goal in everything if wanted in (None, goal.state)]
    cut_off = is_cut_off(place, everything)
    if as_json:
        say_json([row(goal, cut_off=cut_off) for goal in goals])
    elif goals:
        paused = [PAUSED.written(place.flag)] if store is not None and store.paused else []
        most = None if everyone else report.MOST_LISTED
        say(*report.overview(goals, everything, cut_off=cut_off, flag=place.flag, most=most), *paused)
    elif everything:
        say(f"no goal is {wanted}; {report.tally(everything, cut_off=cut_off)}")
    else:
        what = missing(place) if store is None else "the queue is empty"
        say(f"{what}; add goals with: {place.command('add', 'GOAL.md', '--queue')}")


def show(goal: flags.Id, db: flags.Db = None, as_json: flags.PrintJson = False) -> None:
    """Show a goal's state, history and next step."""
    from ralph.dashboard import report
    from ralph.dashboard.report import document
    from ralph.queue.open import find, queue_address

    place = queue_address(db)
    store, (found,) = find(place, [goal])
    known = known_of(found, place, store)
    if as_json:
        say_json(document(known))
    else:
        say(*report.details(known, store.goals(), flag=place.flag))


def known_of(goal: "BatchGoal", place: "QueueAddress", store: "Store") -> "GoalDetails":
    """Look up everything about a goal that is not in its row."""
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
        # A merged branch is removed from the mirror, so a branch that exists has work that is nowhere else.
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
        raise UsageError(
            f"--state: {written!r} is not one of {', '.join(State)}{did_you_mean(written, State)}",
            "leave it out to list the goals in every state",
        )
    return written


_TICK = 0.5
_LOOK = 6
"""Polls between two checks whether the queue has a worker: on a server, each check is a connection."""


def logs(
    goal: flags.Id,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Follow the run until it ends.")] = False,
    db: flags.Db = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print events as NDJSON.")] = False,
) -> None:
    """Show the transcript of a goal's latest run."""
    from ralph.core.errors import RalphError
    from ralph.dashboard.transcript import event_in
    from ralph.queue.goals import State
    from ralph.queue.open import find, is_cut_off, no_run, queue_address
    from ralph.queue.paths import queue_paths
    from ralph.ui.console import Console, write_json
    from ralph.ui.output import Output

    place = queue_address(db)
    store, (found,) = find(place, [goal])
    paths = queue_paths(place.ralph_dir, store.queue_id)
    file = paths.run_directory(found) / "events.ndjson"
    following = follow and found.state is State.RUNNING and not is_cut_off(place, [found])
    if not file.exists() and not following:
        raise no_run(found, place)
    output = Output(sys.stdout, timeout=math.inf)  # a pager may read slowly
    console = Console(output, root=str(paths.clone(found)))

    turns = itertools.count(1)

    def runs() -> bool:
        now = store.goal(found.id)
        looks = next(turns) % _LOOK == 0
        return following and now.state is State.RUNNING and not (looks and is_cut_off(place, [now]))

    for line in _lines(file, runs):
        if (told := event_in(line)) is None:
            continue
        if as_json and isinstance(line, bytes):
            write_json(output, line + b"\n")
        else:
            _draw(*told, console)
        if output.closed:
            break
    if follow and is_cut_off(place, [store.goal(found.id)]):
        Output(sys.stderr).write(
            f"note: {found.label} was interrupted; continue it with: {place.command('run', '--all')}\n"
        )
    if output.fault is not None:
        raise RalphError(
            f"cannot write to stdout: {output.fault.strerror}", "write to another place, or free some disk space"
        )


def _lines(file: Path, runs: Callable[[], bool]) -> "Iterator[bytes | Oversized]":
    """Yield the lines of a file, and those added while the goal runs."""
    from ralph.dashboard.transcript import RunFile

    with RunFile(file) as run:
        while True:
            is_running = runs()  # asked before the last read, so that nothing is missed
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
