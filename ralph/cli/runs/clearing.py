"""`ralph-runs gc`: what of a queue can go, how much that frees, what stays and why."""

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ralph.cli.runs import flags

if TYPE_CHECKING:  # loaded when the command is called
    from ralph.batch.clearing import Claim, Clearing, Holding
    from ralph.batch.goals import BatchGoal
    from ralph.batch.store import Store
    from ralph.cli.runs.queues import Whereabouts

_FAILED = 1


def gc(
    delete: Annotated[bool, typer.Option("--delete", help="Remove it; without this it is only said.")] = False,
    db: flags.Db = None,
    as_json: flags.AsJson = False,
) -> None:
    """Say what of the queue's files can go, how much that frees, and what stays and why; remove it with --delete.

    The clones of goals that are done or cancelled go, once every commit and all that is not committed in them is saved
    to the mirror; one with something that cannot be saved stays. Exit code 1: something could not be removed.
    """
    from ralph.batch.clearing import settled, size_of_mirrors, weighed_anew
    from ralph.cli.runs.queues import existing, whereabouts

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


def _only_one(place: "Whereabouts", store: "Store") -> contextlib.AbstractContextManager[object]:
    from ralph.batch.premises import premises
    from ralph.errors import UsageError
    from ralph.repolock import OwnedLock, Owner

    def refused(owner: Owner) -> UsageError:
        return UsageError(f"process {owner.pid or '?'} is removing clones of this queue already", "wait for it")

    return OwnedLock(premises(place.ralph_dir, store.queue_id).root / "gc.lock", {}, refused)


def _clearing(place: "Whereabouts", store: "Store | None") -> "Clearing":
    from ralph.batch.clearing import Clearing
    from ralph.batch.premises import premises
    from ralph.batch.sole import serving

    if store is None:
        return Clearing(premises(place.ralph_dir, "none yet"), {})
    quarters = premises(place.ralph_dir, store.queue_id)
    goals = store.some(quarters.numbers())
    return Clearing(quarters, {quarters.clone(goal).name: goal for goal in goals}, serving(place.url))


def _remove(
    clearing: "Clearing", place: "Whereabouts", store: "Store", found: "Sequence[Holding]"
) -> "dict[Path, Holding]":
    """Remove what can go; return what became of it: where what was in it is kept, or why it stays."""
    from ralph.batch.sole import unless_served

    def claim(goal: "BatchGoal | None") -> contextlib.AbstractContextManager[bool]:
        return unless_served(place.url) if goal is None else store.as_seen(goal)

    return {holding.path: _removed(clearing, holding, claim) for holding in found if holding.goes}


def _removed(clearing: "Clearing", holding: "Holding", claim: "Claim") -> "Holding":
    before = clearing.kept(holding)
    if fault := clearing.remove(holding, claim):
        return replace(holding, goes=False, why=f"not removed: {fault}")
    if before is None or (after := clearing.kept(holding)) is None:
        return holding
    return replace(holding, mirror=after[0], kept=tuple(sorted(after[1] - before[1])))


def _show(place: "Whereabouts", found: "Sequence[Holding]", moved: int, *, delete: bool, as_json: bool) -> None:
    """Say what was found; `moved`: bytes that the mirrors have taken over."""
    from ralph import jsonline
    from ralph.cli.runs import documents, tables

    if as_json:
        typer.echo(jsonline.encode(documents.clearing(found, moved, deleted=delete)))
    else:
        typer.echo("\n".join(tables.clearing(found, place.ralph_dir, moved, deleted=delete, flag=place.flag)))
