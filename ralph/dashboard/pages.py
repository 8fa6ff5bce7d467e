"""The page of a goal: its transcript as the run writes it, its diff, its log, and its comments."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from ralph.core.errors import RalphError
from ralph.core.history import PastIteration
from ralph.core.text import format_duration, format_money, instant, local_minute, plural
from ralph.dashboard.board import Board, GoalPage, PageKind
from ralph.dashboard.rows import Line, Unrendered, folded, line, row
from ralph.dashboard.transcript import Reading
from ralph.dashboard.view import View, chosen
from ralph.queue.clone import changes_in
from ralph.queue.goals import BatchGoal, Comment, State
from ralph.queue.history import past_goal, squash_of_goal
from ralph.queue.open import QueueAddress
from ralph.queue.paths import queue_paths
from ralph.queue.repos.mirror import open_mirror
from ralph.queue.store import Store
from ralph.ui.history import check_words, patch_look, words
from ralph.ui.terminal import Look, Row

_REST = 0.2
"""Seconds that a goal must be selected before its run is read, so that moving through the list reads nothing."""
_AGAIN = 5.0
"""Seconds after which the diff and log of a running goal are read again."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a page was made from: another goal, width or state needs another page."""

    goal: int
    kind: PageKind
    columns: int
    changed_at: float


class Pages:
    """Makes pages. Close it at the end."""

    def __init__(self, place: QueueAddress, store: Store, beside: Callable[[Callable[[], None]], None]) -> None:
        """Make pages; `beside` runs slow work in another thread."""
        self._place, self._store, self._beside = place, store, beside
        self._paths = queue_paths(place.ralph_dir, store.queue_id)
        self._reading: Reading | None = None
        self._subject, self._since = 0, 0.0
        self._made: tuple[_Asked, float, GoalPage] | None = None
        self._remarks: tuple[int, float, list[Comment]] = (0, 0.0, [])

    def page(self, board: Board, view: View, columns: int) -> GoalPage | None:
        """Return the page of the open goal, else of the selected one, as far as it is known."""
        goal, now = chosen(board, view), time.monotonic()
        if goal is None:
            self.close()
            return None
        if goal.id != self._subject:
            self._subject, self._since = goal.id, now
        if view.open is None and now - self._since < _REST:
            return None
        if view.open is not None and view.kind is not PageKind.TRANSCRIPT:
            return self._slow_page(goal, view.kind, columns, now)
        page = self._transcript(goal, detailed=view.detailed, whole=view.open is not None).page(columns)
        if goal.state not in (State.STUCK, State.QUEUED, State.DRAFT):
            return page
        if self._remarks[:2] != (goal.id, goal.updated_at):
            self._remarks = (goal.id, goal.updated_at, [])
            self._beside(partial(self._read_remarks, goal))
        return replace(page, remarks=self._remarks[2])

    def _transcript(self, goal: BatchGoal, *, detailed: bool, whole: bool) -> Reading:
        reading = self._reading
        if reading is None or (reading.goal, reading.detailed, reading.is_whole) != (goal.id, detailed, whole):
            self.close()
            directory, clone = self._paths.run_directory(goal), self._paths.clone(goal)
            reading = Reading(goal.id, directory, clone, detailed=detailed, flag=self._place.flag, whole=whole)
            self._reading = reading
        return reading

    def close(self) -> None:
        if self._reading is not None:
            self._reading.close()
            self._reading = None

    def _read_remarks(self, goal: BatchGoal) -> None:
        comments = self._store.comments(goal)
        if self._remarks[:2] == (goal.id, goal.updated_at):
            self._remarks = (goal.id, goal.updated_at, comments)

    def _slow_page(self, goal: BatchGoal, kind: PageKind, columns: int, now: float) -> GoalPage:
        """Return the last version of a page, and start making a new one if something has changed."""
        asked = _Asked(goal.id, kind, columns, goal.updated_at)
        made = self._made
        if made is None or made[0] != asked or (goal.state is State.RUNNING and now - made[1] >= _AGAIN):
            is_same = made is not None and (made[0].goal, made[0].kind, made[0].columns) == (goal.id, kind, columns)
            page = made[2] if made is not None and is_same else GoalPage(goal.id, kind=kind, note="reading…")
            self._made = (asked, now, page)
            self._beside(partial(self._make, asked, goal))
        return GoalPage(goal.id, kind=kind) if self._made is None else self._made[2]

    def _make(self, asked: _Asked, goal: BatchGoal) -> None:
        make: Callable[[BatchGoal, int], GoalPage] = self._diff if asked.kind is PageKind.DIFF else self._log
        try:
            page = make(goal, asked.columns)
        except RalphError as error:
            page = GoalPage(goal.id, note=f"{error.message}\n{error.hint}".strip(), kind=asked.kind)
        if self._made is not None and self._made[0] == asked:
            self._made = (asked, self._made[1], page)

    def _diff(self, goal: BatchGoal, columns: int) -> GoalPage:
        mirror = open_mirror(self._place.ralph_dir, goal.repo)
        if not mirror.is_usable:
            return GoalPage(goal.id, note="its repository is not fetched yet", kind=PageKind.DIFF)
        text = changes_in(mirror, self._paths.clone(goal), goal.branch, squash_of_goal(mirror, goal))
        lines = [part for said in text.splitlines() for part in _pieces(said.expandtabs(4), columns)]
        return GoalPage(goal.id, Unrendered(lines, columns), note="nothing is committed yet", kind=PageKind.DIFF)

    def _log(self, goal: BatchGoal, columns: int) -> GoalPage:
        with past_goal(goal, self._place, self._store.queue_id) as found:
            iterations = found.past.iterations
        rows: list[Row] = []
        for each in iterations:
            said = line(words(each).strip() or "(no summary)")
            rows += [*folded(_heading(each), columns), *folded(said, columns), []]
        if iterations:
            rows.append(row(line((plural(len(iterations), "iteration"), Look.QUIET)), columns))
        return GoalPage(goal.id, rows, note="no finished iteration yet", kind=PageKind.LOG)


def _heading(each: PastIteration) -> Line:
    """Return the figures of an iteration, as `ralph-runs log` shows them."""
    check, look = ("", Look.PLAIN) if each.check is None else check_words(each.check)
    at = instant(each.at)
    figures = [
        "" if each.cost_usd is None else format_money(each.cost_usd),
        "" if each.seconds is None else format_duration(each.seconds),
        each.commit[:10],
        "" if at is None else local_minute(at),
    ]
    return line(
        (f"iteration {each.number}", Look.STRONG),
        (f" · {each.verdict}", Look.QUIET),
        *([(" · check ", Look.QUIET), (check, look)] if check else []),
        (f" · {' · '.join(filter(None, figures))}", Look.QUIET),
    )


def _pieces(said: str, columns: int) -> list[Line]:
    """Return a line of a diff in its color, wrapped."""
    look = patch_look(said)
    return [line((said[start : start + columns] or " ", look)) for start in range(0, max(len(said), 1), columns)]
