"""`ralph-runs gc` for people and programs: what can go, what is lost with it, what stays and why."""

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from ralph.core.text import format_size
from ralph.dashboard.report import look_at_kept
from ralph.queue.clone import Obstacle
from ralph.queue.gc import Holding, What
from ralph.ui.page import Part, Table, TableColumn, TableRow
from ralph.ui.theme import Look


def gc_document(found: Sequence[Holding], moved: int = 0, *, deleted: bool) -> dict[str, object]:
    """Return the result of `ralph-runs gc` as JSON; `deleted`: it was done, and the mirrors grew by `moved` bytes."""
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
"""Lines for each kind of loss."""
_LOST = {
    Obstacle.BLOCKING: "pipe",
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
"""What cannot be listed. A clone without its branch loses nothing: its commits are saved anyway."""


def gc_lines(
    found: Sequence[Holding], ralph_dir: Path, moved: int = 0, *, deleted: bool, forced: bool = False, flag: str = ""
) -> list[Part]:
    """Return the result of `ralph-runs gc` as text; `deleted`: it was done, and the mirrors grew by `moved` bytes."""
    goes = [holding for holding in found if holding.goes]
    stays = [holding for holding in found if not holding.goes]
    freed = format_size(sum(holding.size for holding in goes))
    total = f"{'removed' if deleted else 'can go'}: {freed} in {ralph_dir}"
    lines: list[Part] = [(total, Look.STRONG), _holdings(goes, ralph_dir)] if goes else ["nothing to remove"]
    if saved := [line for holding in goes for line in _kept(holding)]:
        taken_over = f", {format_size(moved)} of it now in the mirrors" if moved > 0 else ""
        lines += ["", f"saved work that existed only there{taken_over}; list it with:", *saved]
    if stays:
        lines += ["", ("stays:", Look.STRONG), _holdings(stays, ralph_dir)]
    if goes and not deleted:
        kept = "work that exists only in a clone is saved to its mirror first"
        lines += ["", f"remove it with: ralph-runs gc --delete{flag}; {kept}"]
    if any(holding.unsaved for holding in stays) and not forced:
        lines += [
            "",
            f"to remove a clone that stays: ralph-runs gc --force ID{flag} (it lists what would be lost, and asks)",
        ]
    return lines


def losses(found: Sequence[Holding], ralph_dir: Path) -> list[Part]:
    """List what `ralph-runs gc --force` will remove, what is lost for good, and what stays anyway."""
    goes = [holding for holding in found if holding.goes]
    stays = [holding for holding in found if not holding.goes]
    size = format_size(sum(holding.size for holding in goes))
    lines: list[Part] = [(f"goes: {size} in {ralph_dir}", Look.STRONG), _holdings(goes, ralph_dir)]
    if rows := [row for holding in goes for row in _lost(holding)]:
        heading = ("lost for good, along with files that git ignores:", Look.WARN)
        lines += ["", heading, Table([TableColumn("", whole=True), TableColumn("")], rows, indent=2)]
    else:
        lines += ["", "only files that git ignores are lost; the mirror keeps the rest"]
    if stays:
        lines += ["", ("stays:", Look.STRONG), _holdings(stays, ralph_dir)]
    return [*lines, ""]


def _lost(holding: Holding) -> Iterator[TableRow]:
    """One row for each loss of a clone; of many, the first ones and a count."""
    for each in holding.unsaved:
        if what := _LOST[each.what] if each.items else _LOST_UNSEEN.get(each.what, ""):
            items = each.items or (each.why,)
            more = len(items) - _MOST_LOST
            yield from (TableRow([_named(holding), what], item) for item in items[:_MOST_LOST])
            yield from (TableRow([_named(holding), what], f"and {more} more") for _ in range(more > 0))


def _kept(holding: Holding) -> list[str]:
    """How to look at saved work of a removed clone; of many, the first ones and how to list all."""
    if holding.mirror is None or holding.goal is None:
        return []
    git = ["git", "-C", str(holding.mirror)]
    lines = [f"  {shlex.join([*git, 'show', ref])}" for ref in holding.kept[:_MOST_KEPT]]
    if (more := len(holding.kept) - _MOST_KEPT) > 0:
        all_of_it = look_at_kept(holding.mirror, holding.path, holding.goal.branch)
        lines.append(f"  and {more} more of {holding.goal.label}: {all_of_it}")
    return lines


def _holdings(found: Sequence[Holding], ralph_dir: Path) -> Table:
    """Folders with size and reason. The reason is never cut, because it may name the next step."""
    rows = [TableRow([_named(holding, ralph_dir), format_size(holding.size)], holding.why) for holding in found]
    return Table([TableColumn(""), TableColumn("", right=True, whole=True)], rows, indent=2)


def _named(holding: Holding, ralph_dir: Path | None = None) -> str:
    goal = holding.goal
    if goal is None:
        return str(holding.path.relative_to(ralph_dir) if ralph_dir else holding.path)
    passing = {What.SET_ASIDE: ", set aside", What.HALF: ", half removed"}
    return f"{goal.label} {goal.name}{passing.get(holding.what, '')}"
