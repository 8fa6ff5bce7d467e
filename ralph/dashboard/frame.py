"""Draws a board as rows: any board and any view, at any terminal size."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from rich.align import Align
from rich.panel import Panel

from ralph.core.text import plural, time_of_day
from ralph.dashboard.board import Board, GoalPage, Happening, Lineup, PageKind, SortOrder
from ralph.dashboard.lines import worded
from ralph.dashboard.margins import header, help_table, keyline, totals
from ralph.dashboard.needs import needs, needs_rows
from ralph.dashboard.preview import facts, preview, preview_panel, title
from ralph.dashboard.rows import FRAME, Kept, Line, Words, beside, cell, folded, joined, line, panel, row, ruled
from ralph.dashboard.table import Column, activity, columns_for, heading, lanes
from ralph.dashboard.table import row as goal_row
from ralph.dashboard.view import View, chosen, place, scrolled, shown
from ralph.queue.goals import BatchGoal
from ralph.ui.terminal import Look, Row, one_line
from ralph.ui.theme import render, style

_FEW = 14
"""Rows of a terminal below which sections have no titles, and totals share a line."""
_TWO_PANES, _THREE_PANES = 120, 180
"""Columns from which a preview fits beside the goals, and the news beside that."""
_LEAST_PANES = 20
"""Rows that panes need."""
_LEAST_PREVIEW = 5
"""Rows that a preview below the goals needs, including its title."""
_ROOMY = 28
"""Rows from which the preview gets a third, even if some goals are out of sight."""
_MOST_EVENTS = 12
_NEWS_LOOKS = {"done": Look.GOOD, "stuck": Look.BAD, "retry": Look.WARN, "waiting": Look.WARN, "note": Look.WARN}


@dataclass(frozen=True, slots=True)
class _Panes:
    """The widths of the goals, the preview and the news; 0: no such pane."""

    goals: int
    preview: int = 0
    news: int = 0


def _panes(columns: int, rows: int) -> _Panes:
    if columns < _TWO_PANES or rows < _LEAST_PANES:
        return _Panes(columns)
    if columns < _THREE_PANES:
        goals = columns * 3 // 5
        return _Panes(goals, columns - goals)
    goals, news = columns * 45 // 100, min(columns * 22 // 100, 60)
    return _Panes(goals, columns - goals - news, news)


def page_columns(view: View, columns: int, rows: int) -> int:
    """Return the width of the rows on a goal's page."""
    preview = _panes(columns, rows - 1).preview
    return preview - FRAME if preview and view.open is None else columns


class Frames:
    """The frames of one dashboard: what has not changed is not rendered again."""

    def __init__(self) -> None:
        self._kept = Kept()
        self._columns: tuple[Lineup, int, list[Column]] | None = None

    def frame(self, board: Board, view: View, columns: int, rows: int) -> tuple[View, list[Row]]:
        """Return the rows of a screen of this size, and the view updated with its size and position."""
        self._kept.next_frame()
        bottom = self._row(keyline(board, view, columns), columns)
        if rows < 2:
            return view, [bottom][:rows]
        if view.helping:
            body = self._help(board, columns, rows - 1)
        elif view.open is not None:
            view, body = self._page(board, view, columns, rows - 1)
        elif _panes(columns, rows - 1).preview:
            view, body = self._side_by_side(board, view, columns, rows - 1)
        else:
            view, body = self._one_column(board, view, columns, rows - 1)
        return view, [*_exactly(body, rows - 1), bottom]

    def _row(self, said: Line, columns: int) -> Row:
        return self._kept.get(("line", said, columns), partial(row, said, columns))

    def _needs(self, board: Board, columns: int, most: int) -> list[Row]:
        wanted = tuple(needs(board))
        return self._kept.get(("needs", wanted, columns, most), partial(needs_rows, wanted, columns, most))

    def _help(self, board: Board, columns: int, rows: int) -> list[Row]:
        table = Panel(help_table(board), title="keys", title_align="left", expand=False, border_style=style(Look.QUIET))
        drawn = render(Align.center(table, vertical="middle", height=rows), columns)
        if len(drawn) <= rows and columns >= 60:
            return drawn
        return render(help_table(board), columns)

    def _side_by_side(self, board: Board, view: View, columns: int, rows: int) -> tuple[View, list[Row]]:
        """Goals and preview side by side; news below the goals, or in a pane of their own."""
        panes = _panes(columns, rows)
        lines = [header(board, columns), *totals(board, columns, 2)]
        top = [self._row(each, columns) for each in lines]
        if wanted := self._needs(board, columns - FRAME, rows // 3):
            top += panel(wanted, line(("needs you", Look.WARN)), columns, len(wanted) + 2, Look.WARN)
        height = rows - len(top)
        goals = shown(board, view)
        goal = chosen(board, view)
        news = max(height - max(len(goals), 1) - 3, 0 if panes.news else height // 4)
        news = news if news > 4 else 0
        view, listed = self._goals(board, view, goals, panes.goals - FRAME, height - news - 3, titled=True)
        left = panel(listed, _caption(board, view), panes.goals, height - news)
        if news and panes.news and goal is not None:  # all news are beside it
            of_goal = replace(board, bulletin=None, news=tuple(each for each in board.news if each.goal == goal.id))
            told = self._latest(of_goal, panes.goals - FRAME, news - 2)
            left += panel(told, line((f"news of {goal.label}", Look.QUIET)), panes.goals, news)
        elif news:
            left += panel(self._latest(board, panes.goals - FRAME, news - 2), _LATEST, panes.goals, news)
        middle = preview_panel(board, goal, panes.preview, height, self._kept)
        if not panes.news:
            return view, [*top, *beside(left, middle)]
        told = self._latest(board, panes.news - FRAME, height - 2)
        return view, [*top, *beside(left, middle, panel(told, _LATEST, panes.news, height))]

    def _one_column(self, board: Board, view: View, columns: int, rows: int) -> tuple[View, list[Row]]:
        """The goals, what needs the user above them, and the preview and news below if there is room."""
        goals = shown(board, view)
        is_low = rows < _FEW
        lines = [header(board, columns), *totals(board, columns, 1 if is_low else 2)]
        top = [self._row(each, columns) for each in lines]
        titled = int(rows >= _FEW - 4 or view.text != "" or view.state is not None)  # hidden rows are always mentioned
        left = rows - len(top) - titled
        wanted = max(1, len(goals))
        least = min(wanted, max(4, left * 2 // 5))
        urgent = self._needs(board, columns, _room_for_needs(left, least))
        if urgent and not is_low and left - least - len(urgent) > 0:
            urgent = [self._rule("needs you", columns), *urgent]
        spare = max(0, left - least - len(urgent))
        between = [self._row(each, columns) for each in lanes(board)[: min(spare, max(1, left // 5))]]
        spare -= len(between)
        happened = min(len(board.news) + (not is_low), spare, 1 + left // 6) if board.news else 0
        table = max(1, min(wanted, left - len(urgent) - len(between) - happened))
        if rows >= _ROOMY:  # otherwise goals matter more
            table = max(1, min(table, max(least, left - len(urgent) - len(between) - happened - rows // 3)))
        view, listed = self._goals(board, view, goals, columns, table, titled=bool(titled))
        below = rows - len(top) - len(urgent) - len(listed) - len(between) - happened
        about = self._below(board, view, columns, below) if not is_low else []
        events = self._events(board, columns, happened, titled=not is_low)
        blank = rows - len(top) - len(urgent) - len(listed) - len(about) - len(between) - len(events)
        return view, [*top, *urgent, *listed, *about, *[[]] * blank, *between, *events]

    def _rule(self, said: str, columns: int) -> Row:
        return self._kept.get(("rule", said, columns), partial(ruled, line((said, Look.QUIET)), columns))

    def _below(self, board: Board, view: View, columns: int, room: int) -> list[Row]:
        """The preview below the goals."""
        goal = chosen(board, view)
        if goal is None or room < _LEAST_PREVIEW:
            return []
        named = title(board, goal)
        rule = self._kept.get(("rule", named, columns), partial(ruled, named, columns))
        return [rule, *preview(board, goal, columns, room - 1, self._kept)]

    def _goals(
        self, board: Board, view: View, goals: tuple[BatchGoal, ...], columns: int, room: int, *, titled: bool
    ) -> tuple[View, list[Row]]:
        """The list of goals in this many rows, including the selected one."""
        known = self._columns
        if known is None or known[0] is not board.lineup or known[1] != columns:
            self._columns = known = (board.lineup, columns, columns_for(board, columns))
        layout = known[2]
        filtered = _filtered(view, columns)
        rows = [self._row(filtered, columns) if filtered else heading(layout)] if titled else []
        if not goals:
            nothing = (
                "no goal matches; Esc shows all"
                if board.lineup.goals
                else f"no goals; ralph-runs add{board.flag} GOAL.md --queue"
            )
            return replace(view, top=0, room=room), [*rows, self._row(line((f"  {nothing}", Look.QUIET)), columns)]
        is_cut = len(goals) > room > 1
        view = scrolled(view, goals, room - 1 if is_cut else room)
        at = place(goals, view)
        last = min(view.top + view.room, len(goals))
        rows += [
            goal_row(board, goals[number], layout, columns, at_cursor=number == at, kept=self._kept)
            for number in range(view.top, last)
        ]
        return view, [*rows, self._row(_more(goals, view.top, last, columns), columns)] if is_cut else rows

    def _latest(self, board: Board, columns: int, room: int) -> list[Row]:
        """Current and latest events in a pane of their own: folded, the latest at the bottom."""
        between = [each for said in lanes(board) for each in self._fold(said, columns)]
        told: list[Row] = []
        for news in reversed(board.news):
            block = self._kept.get(("news", news, board.flag, columns), partial(_folded_event, board, news, columns))
            if len(between) + len(told) + len(block) > room:
                break
            told = [*block, *told]
        return [*between[:room], *told]

    def _fold(self, said: Line, columns: int) -> list[Row]:
        return self._kept.get(("fold", said, columns), partial(folded, said, columns))

    def _events(self, board: Board, columns: int, room: int, *, titled: bool) -> list[Row]:
        """The latest events, one line each, the latest at the bottom."""
        rule = [self._rule("latest", columns)] if titled and room > 2 else []
        most = min(room - len(rule), _MOST_EVENTS)
        return (
            [*rule, *(self._row(_event(board, news, columns), columns) for news in board.news[-most:])] if most else []
        )

    def _page(self, board: Board, view: View, columns: int, rows: int) -> tuple[View, list[Row]]:
        """One goal's page: its latest rows, or those scrolled to. The status of the run is always visible."""
        goal = board.lineup.known.get(view.open or 0)
        page = board.page
        if page is not None and (page.goal, page.kind) != (view.open, view.kind):
            page = None
        named = title(board, goal) if goal is not None else line(f"g{view.open}")
        named = (*named, *line((f" · {view.kind}", Look.ACCENT)))
        top = [self._row(named, columns) if rows < _FEW else ruled(named, columns)]
        figures = facts(board, goal, columns) if goal is not None and rows > 3 else ()
        foot = [self._row(figures, columns)] if figures else []
        room = max(rows - len(top) - len(foot), 1)
        view = replace(view, room=room)
        if page is None or not len(page.rows):
            why = _why_nothing(board, goal, page, view.kind)
            body = [self._row(line((f"  {words}", Look.QUIET)), columns) for words in why.split("\n")[:room]]
            return view, [*top, *_exactly(body, room), *foot]
        visible, below = _in_sight(page, view)
        if below and visible:
            said = (
                f"── {below:,} rows below: End {'follows again' if view.kind is PageKind.TRANSCRIPT else 'goes there'} "
            )
            visible = [*visible[:-1], self._row(line((said, Look.WARN)), columns)]
        return view, [*top, *_exactly(visible, room), *foot]


_LATEST: Line = (("latest", Look.QUIET),)


def _exactly(rows: Sequence[Row], height: int) -> list[Row]:
    return [*rows[:height], *[[]] * (height - len(rows))]


def _caption(board: Board, view: View) -> Line:
    """What the list shows, and in which order."""
    count = len(board.lineup.goals)
    by = "" if view.order is SortOrder.STATE else f" · by {view.order}"
    return line((plural(count, "goal"), Look.QUIET), (by, Look.QUIET))


def _room_for_needs(left: int, least: int) -> int:
    """Rows for what needs the user: a third of the screen, at least one."""
    if left < 3:
        return 0
    return max(1, min(left - least, left // 3 + 1))


def _filtered(view: View, columns: int) -> Line:
    """Mention the active filter in the headings."""
    if not view.text and view.state is None:
        return ()
    parts = [
        (1, line("only goals ", (f"that are {view.state}", Look.WARN)) if view.state else ()),
        (2, line("only goals with ", (f"“{view.text}”", Look.WARN)) if view.text else ()),
        (0, line(("Esc shows all", Look.QUIET))),
    ]
    return joined(parts, columns)


def _more(goals: Sequence[BatchGoal], top: int, last: int, columns: int) -> Line:
    """How many goals are out of sight."""
    below = Counter(goal.state for goal in goals[last:])
    rest = ", ".join(f"{count} {state}" for state, count in below.items())
    parts = [
        (2, line((f"  {top + 1}-{last} of {len(goals)}", Look.QUIET))),
        (1, line((f"below: {rest}" if rest else "end of the list", Look.QUIET))),
    ]
    return joined(parts, columns)


def _who(board: Board, news: Happening) -> str:
    goal = None if news.goal is None else board.lineup.known.get(news.goal)
    return "ralph-runs" if news.goal is None else f"g{news.goal}" if goal is None else f"{goal.label} {goal.name}"


def _words(board: Board, news: Happening) -> Words:
    text = one_line(worded(news.kind, news.text, news.command, board.flag), 400)
    return text, _NEWS_LOOKS.get(news.kind, Look.PLAIN)


def _event(board: Board, news: Happening, columns: int) -> Line:
    who = cell(_who(board, news), 12 if columns < 72 else 20).text
    return line((f"{time_of_day(news.at)}  ", Look.QUIET), who, "  ", _words(board, news))


def _folded_event(board: Board, news: Happening, columns: int) -> list[Row]:
    who = one_line(_who(board, news), 24)
    said = line((f"{time_of_day(news.at)[:5]} ", Look.QUIET), (f"{who} ", Look.QUIET), _words(board, news))
    return folded(said, columns)


def _why_nothing(board: Board, goal: BatchGoal | None, page: GoalPage | None, kind: PageKind) -> str:
    """Why the page is empty."""
    if kind is PageKind.TRANSCRIPT and goal is not None and not goal.starts:
        doing, _ = activity(board, goal)
        return "not started yet" + (f": {doing}" if doing != goal.state else "")
    return "reading…" if page is None else page.note or "nothing yet"


def _in_sight(page: GoalPage, view: View) -> tuple[list[Row], int]:
    """The visible rows, and how many there are below them."""
    if view.bottom is None and view.kind is not PageKind.TRANSCRIPT:
        end = min(page.left_out + view.room, page.end)  # a page that does not grow starts at its top
    else:
        end = page.end if view.bottom is None else max(min(view.bottom, page.end), page.left_out + 1)
    last = end - page.left_out
    return list(page.rows[max(0, last - view.room) : last]), page.end - end
