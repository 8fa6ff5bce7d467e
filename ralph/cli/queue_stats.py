"""`ralph-runs stats` and `gc`: figures about a queue, and cleaning up its files."""

import contextlib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from ralph.cli import flags
from ralph.cli.program import say, say_json, shown_task
from ralph.core.errors import ExitCode
from ralph.core.progress import TaskProgress

if TYPE_CHECKING:
    from pathlib import Path

    from ralph.queue.gc import Claim, GarbageCollection, Holding
    from ralph.queue.goals import BatchGoal
    from ralph.queue.open import QueueAddress
    from ralph.queue.stats import Forecast
    from ralph.queue.store import Store


def gc(
    goals: Annotated[
        list[str] | None, typer.Argument(metavar="[ID]...", help="With --force: the goals whose clones to remove.")
    ] = None,
    delete: Annotated[bool, typer.Option("--delete", help="Remove what can go; without this, only list it.")] = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="Remove the clones of these goals even if work in them is lost; asks first."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Remove nothing; list what would be removed or lost.")
    ] = False,
    db: flags.Db = None,
    as_json: flags.PrintJson = False,
) -> None:
    """Show which clones can go; --delete removes them.

    ralph lists how much space that frees, and what stays and why.

    A clone of a done or cancelled goal can go once all of its commits and uncommitted files are saved
    in the mirror. If something can't be saved, the clone stays. `gc --force ID...` removes it anyway: it lists
    what will be lost and, in a terminal, asks first. Exit code 1 means that something could not be removed.
    """
    from ralph.core.errors import UsageError

    if delete and (force or dry_run):
        raise UsageError(
            "--delete cannot be combined with --force or --dry-run",
            "leave --delete out: gc --force ID removes without it",
        )
    if force != bool(goals):
        lacks = (
            "--force needs at least one goal"
            if force
            else f"goals can be given only with --force: {(goals or [''])[0]}"
        )
        raise UsageError(lacks, "ralph-runs gc --force ID...; to see what stays and why: ralph-runs gc")
    if goals:
        _force(goals, db, dry_run=dry_run, as_json=as_json)
    else:
        _collect(db, delete=delete, as_json=as_json)


def _collect(db: str | None, *, delete: bool, as_json: bool) -> None:
    """Survey all files and, with `--delete`, remove what can go."""
    from ralph.queue.gc import settled, size_of_mirrors, weighed_anew
    from ralph.queue.open import existing, queue_address

    place = queue_address(db)
    store = existing(place)
    with _only_one(place, store) if delete and store is not None else contextlib.nullcontext():
        clearing = _clearing(place, store)
        with shown_task("looking at clones and mirrors") as report:
            found = clearing.survey(report)
        became = _remove(clearing, place, store, found) if delete and store is not None else {}
        before = size_of_mirrors(found)
        found = settled([became.get(holding.path, holding) for holding in (weighed_anew(found) if became else found)])
    _show(place, found, size_of_mirrors(found) - before, delete=delete, as_json=as_json)
    if any(not holding.goes for holding in became.values()):
        raise typer.Exit(ExitCode.FAILED)


def _force(words: Sequence[str], db: str | None, *, dry_run: bool, as_json: bool) -> None:
    """Remove the clones of the named goals after showing the user what would be lost."""
    from ralph.core.errors import UsageError
    from ralph.queue.gc import settled, weigh
    from ralph.queue.open import find, queue_address

    place = queue_address(db)
    store, goals = find(place, words)
    clearing = _clearing(place, store)
    for goal in goals:
        if why := clearing.in_use(goal):
            hint = f"wait for it to end, or cancel it: {place.command('cancel', goal.label)}"
            raise UsageError(f"cannot remove the clone of {goal.label} {goal.name}: the goal {why}", hint)
    with shown_task("looking at clones"):
        found = clearing.forced(goals)
    goes = any(holding.goes for holding in found)
    if goes and (not as_json or (_is_asked() and not dry_run)):
        from ralph.dashboard.gc_report import losses

        say(*losses(found, place.ralph_dir), err=as_json)
    if goes and not dry_run and not _agrees():
        say("nothing was removed", err=as_json)
        raise typer.Exit(ExitCode.FAILED)
    moved = 0
    if goes and not dry_run:
        before = weigh(place.ralph_dir / "mirrors").own
        with _only_one(place, store):
            became = _remove(clearing, place, store, found, forced=True)
        found = settled([became.get(holding.path, holding) for holding in found])
        moved = weigh(place.ralph_dir / "mirrors").own - before
    if as_json or not (goes and dry_run):
        _show(place, found, moved, delete=not dry_run, as_json=as_json, forced=True)
    if not dry_run and any(not holding.goes for holding in found):
        raise typer.Exit(ExitCode.FAILED)


def _is_asked() -> bool:
    """Tell whether someone can be asked: without a terminal, `--force` itself is the consent."""
    return sys.stdin is not None and sys.stdin.isatty()


def _agrees() -> bool:
    from ralph.ui.output import Output

    if not _is_asked():
        return True
    Output(sys.stderr).write("remove it? [y/N] ")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _only_one(place: "QueueAddress", store: "Store") -> contextlib.AbstractContextManager[object]:
    from ralph.core.errors import UsageError
    from ralph.queue.paths import queue_paths
    from ralph.state.lock import OwnedLock, Owner

    def refused(owner: Owner) -> UsageError:
        return UsageError(f"cannot remove clones: process {owner.pid or '?'} is already doing so", "wait for it to end")

    return OwnedLock(queue_paths(place.ralph_dir, store.queue_id).root / "gc.lock", {}, refused)


def _clearing(place: "QueueAddress", store: "Store | None") -> "GarbageCollection":
    from ralph.queue.gc import GarbageCollection
    from ralph.queue.open import serving
    from ralph.queue.paths import queue_paths

    if store is None:
        return GarbageCollection(queue_paths(place.ralph_dir, "none yet"), {})
    paths = queue_paths(place.ralph_dir, store.queue_id)
    goals = store.some(paths.numbers())
    return GarbageCollection(paths, {paths.clone(goal).name: goal for goal in goals}, serving(place.url))


def _remove(
    clearing: "GarbageCollection",
    place: "QueueAddress",
    store: "Store",
    found: "Sequence[Holding]",
    *,
    forced: bool = False,
) -> "dict[Path, Holding]":
    """Remove what can go; return for each folder where its work is saved, or why it stays."""
    from ralph.queue.open import unless_served

    def claim(goal: "BatchGoal | None") -> contextlib.AbstractContextManager[bool]:
        return unless_served(place.url) if goal is None else store.as_seen(goal)

    going = [holding for holding in found if holding.goes]
    became: dict[Path, Holding] = {}
    with shown_task("removing clones") as report:
        for holding in going:
            report(TaskProgress("clones", len(became), len(going)))
            became[holding.path] = _removed(clearing, holding, claim, forced=forced)
    return became


def _removed(clearing: "GarbageCollection", holding: "Holding", claim: "Claim", *, forced: bool) -> "Holding":
    from dataclasses import replace

    before = clearing.kept(holding)
    if fault := clearing.remove(holding, claim, forced=forced):
        return replace(holding, goes=False, why=f"not removed: {fault}")
    if before is None or (after := clearing.kept(holding)) is None:
        return holding
    return replace(holding, mirror=after[0], kept=tuple(sorted(after[1] - before[1])))


def _show(
    place: "QueueAddress",
    found: "Sequence[Holding]",
    moved: int,
    *,
    delete: bool,
    as_json: bool,
    forced: bool = False,
) -> None:
    """Print what was found; `moved` is how many bytes the mirrors have taken over."""
    from ralph.dashboard.gc_report import gc_document, gc_lines

    if as_json:
        say_json(gc_document(found, moved, deleted=delete))
    else:
        say(*gc_lines(found, place.ralph_dir, moved, deleted=delete, forced=forced, flag=place.flag))


def stats(db: flags.Db = None, as_json: flags.PrintJson = False) -> None:
    """Show totals, medians, failures and a forecast."""
    from dataclasses import asdict

    from ralph.dashboard import report
    from ralph.dashboard.reasons import reason_line
    from ralph.queue.goals import agent_of
    from ralph.queue.news import PAUSED
    from ralph.queue.open import existing, is_cut_off, missing, queue_address
    from ralph.queue.stats import tally

    place = queue_address(db)
    store = existing(place)
    goals = [] if store is None else store.goals()
    comments = [] if store is None else store.comments_after(0)
    agents = {goal.id: agent_of(goal, place.agent) for goal in goals}
    counted = tally(goals, agents, comments, reason_line)
    foretold = None if store is None else _forecast(place, store, goals)
    paused = store is not None and store.paused
    if as_json:
        found = {**counted.document(), "forecast": None if foretold is None else asdict(foretold), "paused": paused}
        say_json(found)
    elif goals:
        left = "" if foretold is None else foretold.words
        told = report.figures(counted, left, goals, cut_off=is_cut_off(place, goals))
        say(*told, *(["", PAUSED.written(place.flag)] if paused else []))
    else:
        what = missing(place) if store is None else "the queue is empty"
        say(f"{what}; add goals with: {place.command('add', 'GOAL.md', '--queue')}")


def _forecast(place: "QueueAddress", store: "Store", goals: "Sequence[BatchGoal]") -> "Forecast | None":
    """Forecast from the worker's figures, or, without a worker, for the configured number of slots."""
    from ralph.queue.open import serving
    from ralph.queue.stats import figures_of, forecast, foretold

    bulletin = store.bulletin() if serving(place.url) else None
    done = figures_of(goals)
    return forecast(goals, done, place.most) if bulletin is None else foretold(goals, done, bulletin)
