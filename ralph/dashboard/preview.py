"""The preview of one goal: its status, and what matters about its run in that state."""

from collections.abc import Sequence
from functools import partial
from itertools import dropwhile

from ralph.core.text import lasting, local_time
from ralph.dashboard.board import Board, GoalPage
from ralph.dashboard.needs import steps_by_keys
from ralph.dashboard.reasons import reason_line
from ralph.dashboard.report import next_step
from ralph.dashboard.rows import FRAME, Kept, Line, alarm, folded, gauge, joined, line, panel, row, ruled
from ralph.dashboard.table import activity, cost, elapsed, iteration, sign
from ralph.queue.goals import RALPH, BatchGoal, State
from ralph.ui.terminal import Look, Row

_BAR = 10
_REMARKS = 3
"""The latest comments that are shown."""
_LONGEST = 8_000
"""Characters of one text: no preview shows more."""

_TIGHT = 12
"""Rows below which sections have no rules."""
_LEAST_TRANSCRIPT, _ROOMY = 4, 8
"""Rows below which a transcript has no rule of its own, and above which a blank row fits."""
_CHECK = "the last check"
_TRANSCRIPT: Line = (("transcript", Look.QUIET),)

Section = tuple[str, str, Look]
"""A title, a text and its style."""


def title(board: Board, goal: BatchGoal) -> Line:
    """Return the goal's name and what it does."""
    letter, look = sign(board, goal)
    doing, how_long = activity(board, goal) if goal.state is State.RUNNING else ("", "")
    return (
        *line((f"{letter} ", look), (f"{goal.label} {goal.name}", Look.STRONG), (f" · {goal.state}", Look.QUIET)),
        *line((f" · {doing} {how_long}".rstrip(" ·"), Look.QUIET)),
    )


def facts(board: Board, goal: BatchGoal, columns: int) -> Line:
    """Return the figures of its run."""
    status = board.status(goal)
    percent = None if status is None or status.context_pct is None else round(min(status.context_pct, 999.0))
    bar = () if percent is None or columns < 50 else (*gauge(percent, _BAR), (" ", Look.PLAIN))
    green, number, spent = board.is_green(goal), iteration(board, goal), cost(board, goal)
    parts = [
        (9, line(f"iteration {number}" if number else "")),
        (7, line(("check ✓", Look.GOOD) if green else ("check ✗", Look.BAD)) if green is not None else ()),
        (6, () if percent is None else (*line("context "), *bar, (f"{percent}%", alarm(percent)))),
        (8, line(spent if spent != "unknown" else "cost unknown")),
        (5, line(lasting(elapsed(board, goal)) if goal.starts else "")),
        (2, line((goal.branch, Look.QUIET))),
    ]
    return joined(parts, columns)


def preview(board: Board, goal: BatchGoal, columns: int, height: int, kept: Kept) -> list[Row]:
    """Return at most this many rows about a goal: what its agent does, or why it is in its state."""
    figures = facts(board, goal, columns)
    top = [line((goal.title, Look.STRONG)) if goal.title != goal.name else (), figures]
    rows = [kept.get(("line", each, columns), partial(row, each, columns)) for each in top if each]
    page = board.page if board.page is not None and board.page.goal == goal.id else None
    room = height - len(rows)
    if goal.state is State.RUNNING and page is not None and page.rows:
        rows += [[]] if room > _ROOMY else []
        return [*rows, *_latest(page.rows, height - len(rows))][:height]
    sections = tuple(_sections(board, goal, page))
    rows += kept.get(("sections", sections, columns, room), partial(_told, sections, columns, room))
    if page is not None and page.rows and height - len(rows) > _LEAST_TRANSCRIPT:
        rows.append(kept.get(("rule", _TRANSCRIPT, columns), partial(ruled, _TRANSCRIPT, columns)))
        rows += _latest(page.rows, height - len(rows))
    return rows[:height]


def _latest(rows: Sequence[Row], room: int) -> list[Row]:
    """Return the last rows; blank ones in front of them would only look like a gap."""
    return list(dropwhile(lambda each: not any(part.text.strip() for part in each), rows[-room:] if room > 0 else ()))


def _sections(board: Board, goal: BatchGoal, page: GoalPage | None) -> list[Section]:
    """Return the sections, the most important first."""
    found: list[Section] = []
    if goal.state in (State.STUCK, State.CANCELLED, State.UNDONE, State.DONE) and goal.why:
        look = Look.BAD if goal.state is State.STUCK else Look.PLAIN
        found.append(("why" if goal.state is State.STUCK else "result", reason_line(goal.why), look))
    elif goal.state in (State.QUEUED, State.RUNNING):
        found.append(("", activity(board, goal)[0], Look.QUIET))
    if goal.state is State.STUCK:
        found.append(("next", steps_by_keys(next_step(goal), board.flag), Look.ACCENT))
    if page is not None and page.last_words:
        found.append(("the agent's last words", page.last_words, Look.PLAIN))
    if page is not None and page.is_green is False:
        found.append((_CHECK, page.check or "it printed nothing", Look.PLAIN))
    for remark in () if page is None else page.remarks[-_REMARKS:]:
        who = "ralph" if remark.author == RALPH else remark.author
        found.append((f"{who}, {local_time(remark.at, board.now)}", remark.text, Look.PLAIN))
    if (
        goal.state in (State.QUEUED, State.DRAFT, State.CANCELLED, State.UNDONE)
        or page is None
        or (not found and not page.rows)
    ):
        found.append(("goal", goal.text, Look.PLAIN))
    return [(title, text.strip()[:_LONGEST], look) for title, text, look in found if text.strip()]


def _told(sections: Sequence[Section], columns: int, room: int) -> list[Row]:
    """Return the sections below each other; of a long check output, the end."""
    is_tight = room < _TIGHT
    named = [
        (title, line((f"{title}: " if title and is_tight else "", Look.QUIET), (text, look)))
        for title, text, look in sections
    ]
    blocks = [(title, folded(said, columns)) for title, said in named]
    excess = sum(len(body) + (title != "" and not is_tight) for title, body in blocks) - room
    rows: list[Row] = []
    for title, body in blocks:
        if title and not is_tight:
            rows.append(ruled(line((title, Look.QUIET)), columns))
        is_long = title == _CHECK and excess > 0
        rows += body[min(excess, len(body) - 1) :] if is_long else body
    return rows


def preview_panel(board: Board, goal: BatchGoal | None, columns: int, height: int, kept: Kept) -> list[Row]:
    """Return the preview in a frame."""
    if goal is None:
        return panel([], line(("no goal", Look.QUIET)), columns, height)
    body = preview(board, goal, columns - FRAME, height - 2, kept)
    return panel(body, title(board, goal), columns, height)
