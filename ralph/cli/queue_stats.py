"""`ralph-runs stats` and `gc`: what a queue has come to, and what of its files can go."""

import contextlib
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ralph.cli import flags
from ralph.core.text import format_size, plural
from ralph.dashboard.report import look_at_kept
from ralph.queue.clone import Obstacle
from ralph.queue.gc import Holding, What
from ralph.ui.draw import columns

if TYPE_CHECKING:
    from ralph.queue.gc import Claim, GarbageCollection
    from ralph.queue.goals import BatchGoal
    from ralph.queue.open import QueueAddress
    from ralph.queue.stats import Forecast, QueueStats, Sums, Typical
    from ralph.queue.store import Store


def gc_document(found: Sequence[Holding], moved: int = 0, *, deleted: bool) -> dict[str, object]:
    """What `ralph-runs gc` found; `deleted`: what goes has gone, and the mirrors have taken over so many bytes."""
    return {
        "deleted": deleted,
        "bytes": sum(holding.size for holding in found if holding.goes),
        "moved": moved,
        "goes": [_holding(holding) for holding in found if holding.goes],
        "stays": [_holding(holding) for holding in found if not holding.goes],
    }


def _holding(holding: Holding) -> dict[str, object]:
    goal = holding.goal
    return {
        "path": str(holding.path),
        "what": holding.what,
        "goal": "" if goal is None else goal.label,
        "name": "" if goal is None else goal.name,
        "state": "" if goal is None else goal.state,
        "bytes": holding.size,
        "why": holding.why,
        "unsaved": [{"what": each.what, "items": list(each.items), "why": each.why} for each in holding.unsaved],
        "mirror": str(holding.mirror or ""),
        "kept": list(holding.kept),
    }


_MOST_KEPT = 5
_MOST_LOST = 10
"""Lines for each kind of thing that is lost with a clone."""
_LOST = {
    Obstacle.WORKTREES: "working tree",
    Obstacle.COMMITS: "commit",
    Obstacle.REPOSITORIES: "git repository",
    Obstacle.UNREADABLE: "folder",
    Obstacle.FILES: "file",
}
_LOST_UNSEEN = {
    Obstacle.NO_DIRECTORY: "what is in its place",
    Obstacle.NO_MIRROR: "everything",
    Obstacle.BROKEN: "what git cannot read",
    Obstacle.COMMITS: "what git cannot read",
}
"""What cannot be listed. A clone without its branch loses nothing: its commits are saved by themselves."""


def gc_lines(
    found: Sequence[Holding], ralph_dir: Path, moved: int = 0, *, deleted: bool, forced: bool = False, flag: str = ""
) -> list[str]:
    """What `ralph-runs gc` found; `deleted`: what goes has gone, and the mirrors have taken over so many bytes."""
    goes = [holding for holding in found if holding.goes]
    stays = [holding for holding in found if not holding.goes]
    freed = format_size(sum(holding.size for holding in goes))
    total = f"{'removed' if deleted else 'can go'}: {freed} in {ralph_dir}"
    lines = [total, *_holdings(goes, ralph_dir)] if goes else ["nothing to remove"]
    if saved := [line for holding in goes for line in _kept(holding)]:
        taken_over = f", {format_size(moved)} of it in the mirrors now" if moved > 0 else ""
        lines += ["", f"what was only there is kept{taken_over}; look at it with:", *saved]
    if stays:
        lines += ["", "stays:", *_holdings(stays, ralph_dir)]
    if goes and not deleted:
        kept = "what is only in a clone is saved to its mirror first"
        lines += ["", f"remove it with: ralph-runs gc --delete{flag}; {kept}"]
    if any(holding.unsaved for holding in stays) and not forced:
        lines += ["", f"remove a clone that stays with: ralph-runs gc --force ID{flag}; it says first what is lost"]
    return lines


def losses(found: Sequence[Holding], ralph_dir: Path) -> list[str]:
    """What `ralph-runs gc --force` will remove, what is lost for good with it, and what stays all the same."""
    goes = [holding for holding in found if holding.goes]
    stays = [holding for holding in found if not holding.goes]
    lines = [f"goes: {format_size(sum(holding.size for holding in goes))} in {ralph_dir}", *_holdings(goes, ralph_dir)]
    if rows := [row for holding in goes for row in _lost(holding)]:
        told = (f"  {line}" for line in columns(rows, [0, 0, 0], None))
        lines += ["", "lost for good, besides what git ignores:", *told]
    else:
        lines += ["", "nothing is lost but what git ignores: the mirror keeps the rest"]
    return [*lines, *(["", "stays:", *_holdings(stays, ralph_dir)] if stays else []), ""]


def _lost(holding: Holding) -> Iterator[list[str]]:
    """A row for each thing that a clone takes with it; of many, the first and how many more there are."""
    for each in holding.unsaved:
        if what := _LOST[each.what] if each.items else _LOST_UNSEEN.get(each.what, ""):
            items = each.items or (each.why,)
            more = len(items) - _MOST_LOST
            yield from ([_named(holding), what, item] for item in items[:_MOST_LOST])
            yield from ([_named(holding), what, f"and {more} more"] for _ in range(more > 0))


def _kept(holding: Holding) -> list[str]:
    """How to look at what a clone that is gone has left; of much, the first and how to see the rest."""
    if holding.mirror is None or holding.goal is None:
        return []
    git = ["git", "-C", str(holding.mirror)]
    lines = [f"  {shlex.join([*git, 'show', ref])}" for ref in holding.kept[:_MOST_KEPT]]
    if (more := len(holding.kept) - _MOST_KEPT) > 0:
        all_of_it = look_at_kept(holding.mirror, holding.path, holding.goal.branch)
        lines.append(f"  and {more} more of {holding.goal.label}: {all_of_it}")
    return lines


def _holdings(found: Sequence[Holding], ralph_dir: Path) -> list[str]:
    """Each with its size and the reason, which is never cut: it may say what there is to do."""
    rows = [[_named(holding, ralph_dir), format_size(holding.size), holding.why] for holding in found]
    return [f"  {line}" for line in columns(rows, [0, 0, 0], None, {1})]


def _named(holding: Holding, ralph_dir: Path | None = None) -> str:
    goal = holding.goal
    if goal is None:
        return str(holding.path.relative_to(ralph_dir) if ralph_dir else holding.path)
    passing = {What.SET_ASIDE: ", set aside", What.HALF: ", half removed"}
    return f"{goal.label} {goal.name}{passing.get(holding.what, '')}"


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
    as_json: flags.PrintJson = False,
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
    from ralph.queue.gc import settled, weigh
    from ralph.queue.open import find, whereabouts

    place = whereabouts(db)
    store, goals = find(place, words)
    clearing = _clearing(place, store)
    for goal in goals:
        if why := clearing.in_use(goal):
            hint = f"wait for it, or give it up with: {place.command('cancel', goal.label)}"
            raise UsageError(f"{goal.label} {goal.name} {why}: its clone stays", hint)
    found = clearing.forced(goals)
    goes = any(holding.goes for holding in found)
    if goes and (not as_json or (_is_asked() and not dry_run)):
        typer.echo("\n".join(losses(found, place.ralph_dir)), err=as_json)
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


def _only_one(place: "QueueAddress", store: "Store") -> contextlib.AbstractContextManager[object]:
    from ralph.core.errors import UsageError
    from ralph.queue.paths import queue_paths
    from ralph.state.lock import OwnedLock, Owner

    def refused(owner: Owner) -> UsageError:
        return UsageError(f"process {owner.pid or '?'} is removing clones of this queue already", "wait for it")

    return OwnedLock(queue_paths(place.ralph_dir, store.queue_id).root / "gc.lock", {}, refused)


def _clearing(place: "QueueAddress", store: "Store | None") -> "GarbageCollection":
    from ralph.queue.gc import GarbageCollection
    from ralph.queue.open import serving
    from ralph.queue.paths import queue_paths

    if store is None:
        return GarbageCollection(queue_paths(place.ralph_dir, "none yet"), {})
    quarters = queue_paths(place.ralph_dir, store.queue_id)
    goals = store.some(quarters.numbers())
    return GarbageCollection(quarters, {quarters.clone(goal).name: goal for goal in goals}, serving(place.url))


def _remove(
    clearing: "GarbageCollection",
    place: "QueueAddress",
    store: "Store",
    found: "Sequence[Holding]",
    *,
    forced: bool = False,
) -> "dict[Path, Holding]":
    """Remove what can go; return what became of it: where what was in it is kept, or why it stays."""
    from ralph.queue.open import unless_served

    def claim(goal: "BatchGoal | None") -> contextlib.AbstractContextManager[bool]:
        return unless_served(place.url) if goal is None else store.as_seen(goal)

    return {holding.path: _removed(clearing, holding, claim, forced=forced) for holding in found if holding.goes}


def _removed(clearing: "GarbageCollection", holding: "Holding", claim: "Claim", *, forced: bool) -> "Holding":
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
    """Say what was found; `moved`: bytes that the mirrors have taken over."""
    from ralph.core import ndjson

    if as_json:
        typer.echo(ndjson.encode(gc_document(found, moved, deleted=delete)))
    else:
        told = gc_lines(found, place.ralph_dir, moved, deleted=delete, forced=forced, flag=place.flag)
        typer.echo("\n".join(told))


_LABEL = 10
_MOST_REASONS = 10


def stats(db: flags.Db = None, as_json: flags.PrintJson = False) -> None:
    """Show the queue in figures: states, attempts, cost, tokens and time, failures, and what is left to come."""
    from ralph.core import ndjson
    from ralph.dashboard import report
    from ralph.queue.goals import agent_of
    from ralph.queue.news import PAUSED
    from ralph.queue.open import existing, is_cut_off, missing, whereabouts
    from ralph.queue.stats import tally

    place = whereabouts(db)
    store = existing(place)
    goals = [] if store is None else store.goals()
    comments = [] if store is None else store.comments_after(0)
    agents = {goal.id: agent_of(goal, place.agent) for goal in goals}
    counted = tally(goals, agents, comments)
    foretold = None if store is None else _forecast(place, store, goals)
    paused = store is not None and store.paused
    if as_json:
        found = {**counted.document(), "forecast": None if foretold is None else asdict(foretold), "paused": paused}
        typer.echo(ndjson.encode(found))
    elif goals:
        lines = _lines(counted, foretold, report.tally(goals, cut_off=is_cut_off(place, goals)))
        typer.echo("\n".join([*lines, *(["", PAUSED.written(place.flag)] if paused else [])]))
    else:
        what = missing(place) if store is None else "the queue is empty"
        typer.echo(f"{what}; add goals with: {place.command('add', 'GOAL.md', '--queue')}")


def _forecast(place: "QueueAddress", store: "Store", goals: "Sequence[BatchGoal]") -> "Forecast | None":
    """By what the queue worker says of itself, if there is one; else with as many slots as the next one would have."""
    from ralph.queue.open import serving
    from ralph.queue.stats import figures_of, forecast, foretold

    bulletin = store.bulletin() if serving(place.url) else None
    done = figures_of(goals)
    return forecast(goals, done, place.most) if bulletin is None else foretold(goals, done, bulletin)


def _lines(counted: "QueueStats", foretold: "Forecast | None", states: str) -> list[str]:
    from ralph.ui.terminal import one_line

    took = ", ".join(f"{count} took {plural(number, 'attempt')}" for number, count in counted.attempts.items())
    facts = {
        "goals": states,
        "in all": _used(counted.total),
        "done": took,
        "each": f"{each} (median of those done)" if (each := _used(counted.typical)) else "",
        "left": "" if foretold is None else foretold.words,
    }
    lines = [f"{label:<{_LABEL}} {text}" for label, text in facts.items() if text]
    lines += _groups("repo", counted.repos) + _groups("agent", counted.agents)
    if counted.failures:
        lines += ["", "failures"]
        lines += [f"{count:>5}  {one_line(why, 200)}" for why, count in list(counted.failures.items())[:_MOST_REASONS]]
        if (more := len(counted.failures) - _MOST_REASONS) > 0:
            lines.append(f"       and {plural(more, 'other reason')}: --json has them")
    return lines


def _used(used: "Sums | Typical") -> str:
    from ralph.core.text import format_duration, format_money

    parts = [
        format_money(used.cost_usd) if used.cost_usd else "",
        f"{used.tokens:,.0f} tokens" if used.tokens else "",
        format_duration(used.seconds) if used.seconds else "",
    ]
    return " · ".join(filter(None, parts))


def _groups(heading: str, groups: "Mapping[str, Sums]") -> list[str]:
    """A row for each; nothing where there is but one: what is said of all is said of it."""
    import sys

    from ralph.core.text import format_duration, format_money
    from ralph.ui.draw import columns
    from ralph.ui.terminal import Output

    if len(groups) < 2:
        return []
    rows = [["goals", "done", "cost", "tokens", "time", heading]]
    for name, sums in groups.items():
        cost = "unknown" if sums.cost_usd is None else format_money(sums.cost_usd)
        tokens = "unknown" if sums.tokens is None else f"{sums.tokens:,}"
        figures = [str(sums.goals), str(sums.done), cost, tokens]
        rows.append([*figures, format_duration(sums.seconds) if sums.seconds else "-", name])
    return ["", *columns(rows, [5, 5, 9, 13, 8, 80], Output(sys.stdout).width, right=range(5))]
