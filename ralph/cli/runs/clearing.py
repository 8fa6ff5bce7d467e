"""`ralph-runs gc`: what of a queue can go, how much that frees, what stays and why."""

import contextlib
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ralph.cli.runs import flags

if TYPE_CHECKING:  # loaded when the command is called
    from ralph.queue.gc import Claim, Clearing, Holding
    from ralph.queue.goals import BatchGoal
    from ralph.queue.open import Whereabouts
    from ralph.queue.store import Store

_FAILED = 1


def gc(
    goals: Annotated[
        list[str] | None, typer.Argument(metavar="[ID]...", help="With --force: the goals whose clones are removed.")
    ] = None,
    delete: Annotated[bool, typer.Option("--delete", help="Remove it; without this it is only said.")] = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="Remove the clones of these goals, and lose what cannot be saved; asks first."),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say it, and what --force would lose.")] = False,
    db: flags.Db = None,
    as_json: flags.AsJson = False,
) -> None:
    """Say what of the queue's files can go, how much that frees, and what stays and why; remove it with --delete.

    The clones of goals that are done or cancelled go, once every commit and all that is not committed in them is saved
    to the mirror; one with something that cannot be saved stays. `gc --force ID...` removes it all the same: it says
    what will be lost, and asks if it is started in a terminal. Exit code 1: something could not be removed.
    """
    from ralph.core.errors import UsageError

    if delete and (force or dry_run):
        raise UsageError("--delete goes with neither --force nor --dry-run", "--force ID removes by itself")
    if force != bool(goals):
        lacks = (
            "--force needs the goals whose clones are to go" if force else f"{(goals or [''])[0]}: only with --force"
        )
        raise UsageError(lacks, "ralph-runs gc --force ID...; ralph-runs gc lists what stays and why")
    if goals:
        _force(goals, db, dry_run=dry_run, as_json=as_json)
    else:
        _collect(db, delete=delete, as_json=as_json)


def _collect(db: str | None, *, delete: bool, as_json: bool) -> None:
    """Look at everything, and remove what the rule lets go."""
    from ralph.queue.gc import settled, size_of_mirrors, weighed_anew
    from ralph.queue.open import existing, whereabouts

    place = whereabouts(db)
    store = existing(place)
    with _only_one(place, store) if delete and store is not None else contextlib.nullcontext():
        clearing = _clearing(place, store)
        found = clearing.survey()
        became = _remove(clearing, place, store, found) if delete and store is not None else {}
        before = size_of_mirrors(found)
        found = settled([became.get(holding.path, holding) for holding in (weighed_anew(found) if became else found)])
    _show(place, found, size_of_mirrors(found) - before, delete=delete, as_json=as_json)
    if any(not holding.goes for holding in became.values()):
        raise typer.Exit(_FAILED)


def _force(words: Sequence[str], db: str | None, *, dry_run: bool, as_json: bool) -> None:
    """Remove the clones of the goals that the user names, once he knows what is lost with them."""
    from ralph.core.errors import UsageError
    from ralph.dashboard import report
    from ralph.queue.gc import settled, weigh
    from ralph.queue.open import find, whereabouts

    place = whereabouts(db)
    store, goals = find(place, words)
    clearing = _clearing(place, store)
    for goal in goals:
        if why := clearing.in_use(goal):
            hint = place.step(f"wait for it, or give it up with: ralph-runs cancel {goal.label}")
            raise UsageError(f"{goal.label} {goal.name} {why}: its clone stays", hint)
    found = clearing.forced(goals)
    goes = any(holding.goes for holding in found)
    if goes and (not as_json or (_is_asked() and not dry_run)):
        typer.echo("\n".join(report.losses(found, place.ralph_dir)), err=as_json)
    if goes and not dry_run and not _agrees():
        typer.echo("nothing was removed", err=as_json)
        raise typer.Exit(_FAILED)
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
        raise typer.Exit(_FAILED)


def _is_asked() -> bool:
    """Tell whether somebody can be asked: without a terminal, `--force` itself is the consent."""
    return sys.stdin is not None and sys.stdin.isatty()


def _agrees() -> bool:
    if not _is_asked():
        return True
    typer.echo("remove it? [y/N] ", nl=False, err=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _only_one(place: "Whereabouts", store: "Store") -> contextlib.AbstractContextManager[object]:
    from ralph.core.errors import UsageError
    from ralph.queue.paths import premises
    from ralph.state.lock import OwnedLock, Owner

    def refused(owner: Owner) -> UsageError:
        return UsageError(f"process {owner.pid or '?'} is removing clones of this queue already", "wait for it")

    return OwnedLock(premises(place.ralph_dir, store.queue_id).root / "gc.lock", {}, refused)


def _clearing(place: "Whereabouts", store: "Store | None") -> "Clearing":
    from ralph.queue.gc import Clearing
    from ralph.queue.open import serving
    from ralph.queue.paths import premises

    if store is None:
        return Clearing(premises(place.ralph_dir, "none yet"), {})
    quarters = premises(place.ralph_dir, store.queue_id)
    goals = store.some(quarters.numbers())
    return Clearing(quarters, {quarters.clone(goal).name: goal for goal in goals}, serving(place.url))


def _remove(
    clearing: "Clearing", place: "Whereabouts", store: "Store", found: "Sequence[Holding]", *, forced: bool = False
) -> "dict[Path, Holding]":
    """Remove what can go; return what became of it: where what was in it is kept, or why it stays."""
    from ralph.queue.open import unless_served

    def claim(goal: "BatchGoal | None") -> contextlib.AbstractContextManager[bool]:
        return unless_served(place.url) if goal is None else store.as_seen(goal)

    return {holding.path: _removed(clearing, holding, claim, forced=forced) for holding in found if holding.goes}


def _removed(clearing: "Clearing", holding: "Holding", claim: "Claim", *, forced: bool) -> "Holding":
    before = clearing.kept(holding)
    if fault := clearing.remove(holding, claim, forced=forced):
        return replace(holding, goes=False, why=f"not removed: {fault}")
    if before is None or (after := clearing.kept(holding)) is None:
        return holding
    return replace(holding, mirror=after[0], kept=tuple(sorted(after[1] - before[1])))


def _show(
    place: "Whereabouts",
    found: "Sequence[Holding]",
    moved: int,
    *,
    delete: bool,
    as_json: bool,
    forced: bool = False,
) -> None:
    """Say what was found; `moved`: bytes that the mirrors have taken over."""
    from ralph.core import ndjson
    from ralph.dashboard import report
    from ralph.dashboard.report import gc_document

    if as_json:
        typer.echo(ndjson.encode(gc_document(found, moved, deleted=delete)))
    else:
        told = report.gc_lines(found, place.ralph_dir, moved, deleted=delete, forced=forced, flag=place.flag)
        typer.echo("\n".join(told))
