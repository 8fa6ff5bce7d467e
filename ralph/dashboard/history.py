"""Goals that are looked back on, in words and as JSON: an undo, and what came after the goal."""

from collections.abc import Mapping, Sequence

from ralph.core.text import few, plural
from ralph.dashboard.report import row
from ralph.queue.goals import BatchGoal, State
from ralph.queue.merge.undo import LaterMerge, UndoConflict, UndoneMerge, built_on
from ralph.ui.page import Cell, Part, Table, TableColumn, TableRow
from ralph.ui.terminal import Look

_MOST_PATHS = 3
_COMMIT = 10
"""Characters of a commit's id that people read."""


def undone_document(goal: BatchGoal, outcome: UndoneMerge, goals: Sequence[BatchGoal]) -> dict[str, object]:
    """Return an undo for programs."""
    return {
        **row(goal),
        "base": outcome.branch,
        "merge": outcome.merge,
        "revert": outcome.revert,
        "paths": list(outcome.paths),
        "later": later_goals(goal, outcome.later, goals),
    }


def undone_parts(goal: BatchGoal, outcome: UndoneMerge, goals: Sequence[BatchGoal], flag: str = "") -> list[Part]:
    """Tell what an undo did, and which goals came after the one that was undone."""
    merged = f"its merge {outcome.merge[:_COMMIT]}"
    what = f"{outcome.branch} no longer contained {merged}"
    if outcome.revert:
        what = f"{outcome.branch} is at {outcome.revert[:_COMMIT]}, which reverts {merged}"
    parts: list[Part] = [f"{goal.label} {goal.name}: undone; {what} ({plural(len(outcome.paths), 'file')})"]
    if later := later_goals(goal, outcome.later, goals):
        columns = [TableColumn("id", whole=True), TableColumn("state", whole=True), TableColumn("goal")]
        rows = [TableRow([str(each["id"] or "-"), str(each["state"]), str(each["name"])], _tie(each)) for each in later]
        parts += ["", Table(columns, rows, "goals that came after it and may build on it"), ""]
        if waiting := [str(each["id"]) for each in later if each["after"] and each["state"] == State.QUEUED]:
            parts.append(f"{few(waiting, 5)} waits until it is done again")
    return [*parts, f"do it again: ralph-runs retry{flag} {goal.label}"]


def later_goals(goal: BatchGoal, later: Sequence[LaterMerge], goals: Sequence[BatchGoal]) -> list[dict[str, object]]:
    """Name the goals that came after one: merged later on its base, or after it by their `after`."""
    by_run = {each.run: each for each in goals if each.run}
    followers = {each.id: each for each in built_on(goal, goals)}
    found: list[dict[str, object]] = []
    for merge in later:
        other = by_run.get(merge.run)
        facts = {"commit": merge.commit, "shared": list(merge.shared)}
        if other is None:
            found.append({"id": None, "name": merge.commit[:_COMMIT], "state": "merged", "after": False, **facts})
        else:
            found.append(_named(other, after=followers.pop(other.id, None) is not None) | facts)
    return [*found, *(_named(each, after=True) | {"commit": None, "shared": []} for each in followers.values())]


def _named(goal: BatchGoal, *, after: bool) -> dict[str, object]:
    return {"id": goal.label, "name": goal.name, "state": str(goal.state), "after": after}


def _tie(later: Mapping[str, object]) -> Cell:
    """What connects a later goal with the one that is undone."""
    shared = later["shared"]
    paths = [str(path) for path in shared] if isinstance(shared, list) else []  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] - ours
    ties = ["comes after it" if later["after"] else "", f"changes {few(paths, _MOST_PATHS)}, too" if paths else ""]
    return " · ".join(filter(None, ties)), Look.QUIET


def conflict_words(goal: BatchGoal, conflict: UndoConflict, goals: Sequence[BatchGoal]) -> tuple[str, str]:
    """Say why a goal cannot be undone, and which later goals would have to go first."""
    paths = set(conflict.paths)
    in_the_way = [each for each in conflict.later if paths & {*each.shared}]
    by_run = {each.run: each.label for each in goals if each.run}
    known = [by_run[each.run] for each in reversed(in_the_way) if each.run in by_run]
    message = f"cannot undo {goal.label}: later commits changed the same lines of {few(conflict.paths, 5)}"
    if known:
        first = "; ".join(f"ralph-runs undo {label}" for label in known)
        return f"{message}; nothing was pushed", f"undo the later goals first: {first}; or change the files by hand"
    return f"{message}; nothing was pushed", "revert it by hand, or write a goal that does"
