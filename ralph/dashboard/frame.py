"""A board as the lines of a screen: any board, any view of it, any size."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from ralph.cli.runs.board.header import header, totals
from ralph.cli.runs.board.keyline import help_page, keyline
from ralph.cli.runs.board.lanes import clock, lanes
from ralph.cli.runs.board.view import View, place, scrolled, shown
from ralph.dashboard.board import Board, Happening, Transcript
from ralph.dashboard.lines import worded
from ralph.dashboard.needs import needs_lines
from ralph.dashboard.table import activity, columns_for, heading, row, sign
from ralph.queue.goals import BatchGoal
from ralph.ui.draw import Line, Tone, cell, joined, line, rule
from ralph.ui.terminal import one_line

_FEW = 14
"""Rows of a terminal below which sections have no headings, and figures share a line."""

_MOST_EVENTS = 12
_TONES = {"done": Tone.GOOD, "stuck": Tone.BAD, "retry": Tone.WARN, "waiting": Tone.WARN, "note": Tone.WARN}


def frame(board: Board, view: View, columns: int, rows: int) -> tuple[View, list[Line]]:
    """The lines of a screen of this size, and the view with what it has come to know of the room that it has."""
    bottom = keyline(board, view, columns)
    if rows < 2:
        return view, [bottom][:rows]
    if view.helping:
        body = help_page(board)
    elif view.open is not None:
        view, body = _transcript(board, view, columns, rows - 1)
    else:
        view, body = _overview(board, view, columns, rows - 1)
    body = body[: rows - 1]
    return view, [*body, *[()] * (rows - 1 - len(body)), bottom]


def _overview(board: Board, view: View, columns: int, rows: int) -> tuple[View, list[Line]]:
    """All goals: what needs a person on top, what happened last at the bottom."""
    goals = shown(board, view)
    is_low = rows < _FEW
    top = [header(board, columns), *totals(board, columns, 1 if is_low else 2)]
    titled = int(rows >= _FEW - 4 or goals is not board.lineup.goals)  # what is not shown is always said
    left = rows - len(top) - titled
    wanted = max(1, len(goals))
    least = min(wanted, max(4, left * 2 // 5))
    needs = needs_lines(board, columns, _room_for_needs(left, least))
    if needs and not is_low and left - least - len(needs) > 0:
        needs = [rule("needs a person", columns), *needs]
    spare = max(0, left - least - len(needs))
    between = lanes(board)[: min(spare, max(1, left // 5))]
    spare -= len(between)
    happened = min(len(board.news), spare, 1 + left // 6)
    table = min(wanted, least + spare - happened)
    table = max(1, min(table, left - len(needs) - len(between)))
    view, listed = _goals(board, view, goals, columns, table, titled=bool(titled))
    lines = [*top, *needs, *listed]
    events = _events(board, columns, rows - len(lines) - len(between), titled=not is_low)
    gap = rows - len(lines) - len(between) - len(events)
    return view, [*lines, *[()] * gap, *between, *events]


def _room_for_needs(left: int, least: int) -> int:
    """Lines for what needs a person: a third, and one at any rate, for nothing is more worth knowing."""
    if left < 3:
        return 0
    return max(1, min(left - least, left // 3))


def _goals(
    board: Board, view: View, goals: tuple[BatchGoal, ...], columns: int, room: int, *, titled: bool
) -> tuple[View, list[Line]]:
    """The list of goals in so many rows, the cursor's among them."""
    chosen = columns_for(board, columns)
    lines = [_filtered(view, columns) or heading(chosen)] if titled else []
    if not goals:
        nothing = (
            "no goal is like that; Esc shows all"
            if board.lineup.goals
            else f"no goals; ralph-runs add{board.flag} GOAL.md --queue"
        )
        return replace(view, top=0, room=room), [*lines, line((f"  {nothing}", Tone.DIM))]
    is_cut = len(goals) > room > 1
    view = scrolled(view, goals, room - 1 if is_cut else room)
    at = place(goals, view)
    last = min(view.top + view.room, len(goals))
    lines += [row(board, goals[number], chosen, columns, at_cursor=number == at) for number in range(view.top, last)]
    return view, [*lines, _more(goals, view.top, last, columns)] if is_cut else lines


def _filtered(view: View, columns: int) -> Line:
    """What is not shown stands where the headings do."""
    if not view.text and view.state is None:
        return ()
    parts = [
        (1, line("only goals ", (f"that are {view.state}", Tone.WARN)) if view.state else ()),
        (2, line("only goals with ", (f"“{view.text}”", Tone.WARN)) if view.text else ()),
        (0, line(("Esc shows all", Tone.DIM))),
    ]
    return joined(parts, columns)


def _more(goals: Sequence[BatchGoal], top: int, last: int, columns: int) -> Line:
    """How many there are besides those in sight."""
    below = Counter(goal.state for goal in goals[last:])
    rest = ", ".join(f"{count} {state}" for state, count in below.items())
    parts = [
        (2, line((f"  {top + 1}-{last} of {len(goals)}", Tone.DIM))),
        (1, line((f"below: {rest}" if rest else "that is all", Tone.DIM))),
    ]
    return joined(parts, columns)


def _events(board: Board, columns: int, room: int, *, titled: bool) -> list[Line]:
    """What happened last, the latest at the bottom."""
    title = [rule("latest", columns)] if titled and room > 2 and board.news else []
    most = min(room - len(title), _MOST_EVENTS)
    return [*title, *(_event(board, news, columns) for news in board.news[-most:])] if most > 0 else []


def _event(board: Board, news: Happening, columns: int) -> Line:
    goal = None if news.goal is None else board.lineup.known.get(news.goal)
    who = "ralph-runs" if news.goal is None else f"g{news.goal}" if goal is None else f"{goal.label} {goal.name}"
    named = 12 if columns < 72 else 20
    words = one_line(worded(news.kind, news.text, board.flag), max(columns, 1))
    tone = _TONES.get(news.kind, Tone.PLAIN)
    return line((f"{clock(news.at)}  ", Tone.DIM), cell(who, named), "  ", (words, tone))


def _transcript(board: Board, view: View, columns: int, rows: int) -> tuple[View, list[Line]]:
    """One goal's run: its latest rows, or those that were scrolled to; how the run stands is always in sight."""
    goal = board.lineup.known.get(view.open or 0)
    told = board.transcript if board.transcript is not None and board.transcript.goal == view.open else None
    top = [_title(board, goal, columns)] if goal is not None else [line(f"g{view.open}")]
    foot = [told.status] if told is not None and told.status and rows > 3 else []
    room = max(rows - len(top) - len(foot), 1)
    view = replace(view, room=room)
    if told is None or not told.rows:
        lines = [line((f"  {words}", Tone.DIM)) for words in _why_nothing(board, goal, told).split("\n")[:room]]
        return view, [*top, *lines, *[()] * (room - len(lines)), *foot]
    visible, below = _in_sight(told, view)
    if below and visible:
        visible = [*visible[:-1], line((f"── {below:,} rows below: End follows again ", Tone.WARN))]
    return view, [*top, *visible, *[()] * (room - len(visible)), *foot]


def _why_nothing(board: Board, goal: BatchGoal | None, told: Transcript | None) -> str:
    """Why there is no transcript."""
    if goal is not None and not goal.starts:
        doing, _ = activity(board, goal)
        return "it has not started yet" + (f": {doing}" if doing != goal.state else "")
    return "reading…" if told is None else told.note or "nothing yet"


def _in_sight(told: Transcript, view: View) -> tuple[list[Line], int]:
    """The rows that are looked at, and how many there are below them."""
    end = told.end if view.bottom is None else max(min(view.bottom, told.end), told.left_out + 1)
    last = end - told.left_out
    return list(told.rows[max(0, last - view.room) : last]), told.end - end


def _title(board: Board, goal: BatchGoal, columns: int) -> Line:
    letter, tone = sign(board, goal)
    doing, how_long = activity(board, goal)
    parts = [
        (9, line((f"{letter} ", tone), (f"{goal.label} {goal.name}", Tone.STRONG))),
        (5, line(goal.state)),
        (3, line((f"{doing} {how_long}".strip(), Tone.DIM)) if doing != goal.state else ()),
        (1, line((goal.title if goal.title != goal.name else "", Tone.DIM))),
        (2, line((goal.branch, Tone.DIM))),
    ]
    return joined(parts, columns)
