"""The goals as rows: the columns that a width has room for, and what a goal has in each."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ralph.core.text import format_count
from ralph.dashboard.board import Board
from ralph.queue.goals import BatchGoal, State
from ralph.ui.draw import Line, Tone, Words, ago, alarm, cell, cut, gauge, lasting, padded, width

_GAP = ("  ", Tone.PLAIN)
_BAR = 8
_LEAST_NAME = 6
_NONE = ""
_ACTIVITY = "doing"
_STARTING, _BEGUN = "starting", 10.0
"""Seconds after which a session has surely begun, whether or not it has said anything."""
_SIGNS = {
    State.RUNNING: ("●", Tone.CALM),
    State.QUEUED: ("○", Tone.DIM),
    State.DRAFT: ("·", Tone.DIM),
    State.DONE: ("✓", Tone.GOOD),
    State.STUCK: ("✗", Tone.BAD),
    State.CANCELLED: ("-", Tone.DIM),
}


def sign(board: Board, goal: BatchGoal) -> Words:
    """Where a goal stands, in a letter."""
    if goal.state is not State.RUNNING:
        return _SIGNS[goal.state]
    if board.is_cut_off(goal):
        return "!", Tone.WARN
    if board.is_merging(goal):
        return "◆", Tone.SOFT
    sight = board.sight(goal)
    return ("◌", Tone.WARN) if sight is not None and sight.until is not None else _SIGNS[State.RUNNING]


def activity(board: Board, goal: BatchGoal) -> tuple[str, str]:
    """What a goal does, or why it does not; and for how long, where that matters."""
    match goal.state:
        case State.RUNNING:
            return _at_work(board, goal)
        case State.QUEUED:
            return _queued(board, goal)
        case State.DRAFT:
            return "draft", ""
        case State.DONE | State.STUCK | State.CANCELLED:
            return goal.reason or goal.state, ago(board.now - goal.updated_at)


def _queued(board: Board, goal: BatchGoal) -> tuple[str, str]:
    """What keeps a goal from being started: others before it, or the account that it would use."""
    if goal.id in board.lineup.waits:
        return board.lineup.waits[goal.id], ""
    told, account = board.bulletin, board.agents.get(goal.id, "")
    if told is not None and goal.unmerged is None:  # what only has to be merged uses no account
        if account in told.refused:
            return f"waits: {account} refuses us, see g{told.refused[account]}", ""
        if account in told.waits:
            return f"waits for {account}'s usage limit", f"{lasting(told.waits[account] - board.now)} left"
    return (f"again: {goal.reason}" if goal.reason else "queued"), ""


def _at_work(board: Board, goal: BatchGoal) -> tuple[str, str]:
    if board.is_cut_off(goal):
        return "cut off", ""
    if goal.cancelling:
        return "is being cancelled", ""
    if board.is_merging(goal):
        in_line = () if board.bulletin is None else board.bulletin.merging
        waits = goal.id in in_line and goal.id not in merging_now(board)
        return ("waits to be merged" if waits else "merging"), ""
    sight = board.sight(goal)
    if sight is None:
        return "starting", ""
    if sight.until is not None:
        return sight.doing, f"{lasting(sight.until - board.now)} left"
    seconds = board.now - sight.since if sight.since else 0.0
    # Of an agent that prints plain text nothing is heard before its first line.
    doing = "at work" if sight.doing == _STARTING and seconds >= _BEGUN else sight.doing
    return doing, lasting(seconds) if sight.since else ""


def elapsed(board: Board, goal: BatchGoal) -> float:
    """How long a goal has been worked on, over all attempts."""
    sight = None if board.is_merging(goal) else board.sight(goal)  # then its last attempt is among them
    return goal.seconds if sight is None else sight.worked(board.now)


def merging_now(board: Board) -> list[int]:
    """Of the goals whose work is to be merged those whose turn it is: one of each repository."""
    first: dict[str, int] = {}
    for number in () if board.bulletin is None else board.bulletin.merging:
        goal = board.lineup.known.get(number)
        first.setdefault("" if goal is None else goal.repo, number)
    return list(first.values())


@dataclass(frozen=True, slots=True)
class Column:
    """What it is called, how wide it is, and what stands there for a goal."""

    heading: str
    wide: int
    said: Callable[[Board, BatchGoal], Line | str]
    is_figure: bool = False
    tone: Tone = Tone.PLAIN


def columns_for(board: Board, wide: int) -> list[Column]:
    """The columns that so many cells have room for; what a goal does gets the rest, and is none of them."""
    goals = board.lineup.goals
    ids = max((len(goal.label) for goal in goals), default=2)
    most_name = 12 if wide < 52 else 16 if wide < 72 else 18 if wide < 100 else 24 if wide < 150 else 34
    longest = max((width(cut(goal.name, most_name)) for goal in goals), default=0)
    named = Column("goal", max(longest, _LEAST_NAME), lambda _, goal: goal.name, tone=Tone.STRONG)
    chosen = [Column("id", ids, lambda _, goal: goal.label, tone=Tone.DIM), named]
    repositories = board.lineup.repositories
    if wide >= 100 and len(repositories) > 1:
        repos = max(width(cut(name, 20 if wide >= 150 else 12)) for name in repositories.values())
        chosen.append(Column("repo", max(repos, 4), lambda board, goal: board.lineup.repositories[goal.repo]))
    if wide >= 150:
        chosen.append(Column("tries", 5, _tries, is_figure=True))
    if wide >= 52:
        chosen.append(Column("iter", 4, _iteration, is_figure=True))
    if wide >= 100:
        chosen.append(Column("context", _BAR + 5, _context_gauge))
    elif wide >= 72:
        chosen.append(Column("ctx", 4, _context, is_figure=True))
    if wide >= 150:
        chosen.append(Column("tokens", 7, _tokens, is_figure=True))
    if wide >= 52:
        chosen.append(Column("cost", 7, _cost, is_figure=True))
    if wide >= 72:
        chosen.append(Column("time", 6, _elapsed, is_figure=True))
    return chosen


def heading(chosen: Sequence[Column]) -> Line:
    words = [cell(column.heading, column.wide, Tone.DIM, is_figure=column.is_figure) for column in chosen]
    return _spaced([("  ", Tone.PLAIN)], [(word,) for word in words], ((_ACTIVITY, Tone.DIM),))


def row(board: Board, goal: BatchGoal, chosen: Sequence[Column], wide: int, *, at_cursor: bool) -> Line:
    """A goal in its columns; one that keys are about stands out, over the whole width."""
    left = wide - 2 - sum(column.wide + 2 for column in chosen)
    letter, tone = sign(board, goal)
    line = _spaced(
        [(f"{letter} ", tone)],
        [_cell(column, board, goal) for column in chosen],
        _told(*activity(board, goal), left, goal),
    )
    if not at_cursor:
        return line
    text = "".join(words for words, _ in line)
    return ((padded(text, max(wide, width(text))), Tone.CHOSEN),)


def _spaced(first: list[Words], between: Sequence[Line], last: Line) -> Line:
    line = list(first)
    for words in between:
        line += [*words, _GAP]
    return (*line, *last)


def _cell(column: Column, board: Board, goal: BatchGoal) -> Line:
    said = column.said(board, goal)
    if not isinstance(said, str):
        return said
    tone = Tone.DIM if goal.state not in (State.RUNNING, State.STUCK) else column.tone
    return (cell(said, column.wide, tone, is_figure=column.is_figure),)


def _told(what: str, how_long: str, most: int, goal: BatchGoal) -> Line:
    """The last column: of what is at work, the time is worth more than the end of a long word."""
    tone = {State.RUNNING: Tone.PLAIN, State.STUCK: Tone.BAD}.get(goal.state, Tone.DIM)
    if how_long and most >= len(how_long) + (8 if goal.state is State.RUNNING else 30):
        said = cut(what, most - len(how_long) - 2)
        return ((f"{said}  ", tone), (how_long, Tone.DIM))
    return ((cut(what, most), tone),)


def _iteration(board: Board, goal: BatchGoal) -> str:
    sight = board.sight(goal)
    number = goal.iterations if sight is None else sight.iteration
    return str(number) if number else _NONE


def _tries(_: Board, goal: BatchGoal) -> str:
    return str(goal.attempts) if goal.starts else _NONE


def _percent(board: Board, goal: BatchGoal) -> float | None:
    sight = board.sight(goal)
    return None if sight is None else sight.context_pct


def _context(board: Board, goal: BatchGoal) -> Line | str:
    percent = _percent(board, goal)
    return _NONE if percent is None else (cell(f"{percent:.0f}%", 4, alarm(percent), is_figure=True),)


def _context_gauge(board: Board, goal: BatchGoal) -> Line | str:
    percent = _percent(board, goal)
    if percent is None:
        return _NONE
    return (*gauge(percent, _BAR), cell(f"{percent:.0f}%", 5, alarm(percent), is_figure=True))


def _tokens(board: Board, goal: BatchGoal) -> str:
    sight = board.sight(goal)
    tokens = goal.tokens if sight is None else sight.tokens
    return format_count(tokens) if tokens else _NONE


def _cost(board: Board, goal: BatchGoal) -> str:
    """In dollars and cents, so that figures stand under each other. Of an agent that names none it is not nothing."""
    sight = board.sight(goal)
    cost, named = (goal.cost_usd, goal.costed) if sight is None else (sight.cost_usd, sight.costed)
    if goal.starts and (cost or named):
        return f"${cost:.2f}" if cost >= 0.005 or not cost else "<$0.01"
    return "unknown" if goal.iterations or (sight is not None and sight.iteration > 1) else _NONE


def _elapsed(board: Board, goal: BatchGoal) -> str:
    return lasting(elapsed(board, goal)) if goal.starts else _NONE


_LABEL = 9


def lanes(board: Board) -> list[Line]:
    """A line for each lane that is in use, and for each account that waits."""
    return [*_merges(board), *_quotas(board)]


def _merges(board: Board) -> list[Line]:
    if board.bulletin is None or not board.bulletin.merging:
        return []
    now = merging_now(board)
    waiting = [number for number in board.bulletin.merging if number not in now]
    merged = ", ".join(_named(board, number) for number in now)
    queue = f"  then {', '.join(f'g{number}' for number in waiting)}" if waiting else ""
    return [((f"{'merging':<{_LABEL}}", Tone.SOFT), (merged, Tone.PLAIN), (queue, Tone.DIM))]


def _named(board: Board, number: int) -> str:
    goal = board.lineup.known.get(number)
    if goal is None:
        return f"g{number}"
    repositories = board.lineup.repositories
    where = f" ({repositories[goal.repo]})" if len(repositories) > 1 else ""
    return f"{goal.label} {goal.name}{where}"


def _quotas(board: Board) -> list[Line]:
    if board.bulletin is None:
        return []
    return [
        (
            (f"{'quota':<{_LABEL}}", Tone.WARN),
            (account, Tone.PLAIN),
            (f"  {lasting(until - board.now)} left", Tone.STRONG),
            (f"  until {clock(until)}: what uses it goes on by itself then", Tone.DIM),
        )
        for account, until in sorted(board.bulletin.waits.items(), key=lambda wait: wait[1])
    ]


def clock(at: float) -> str:
    """An instant as a watch on this machine's wall shows it."""
    try:
        return time.strftime("%H:%M:%S", time.localtime(at))
    except (ValueError, OverflowError, OSError):  # an instant that no calendar has
        return "--:--:--"
