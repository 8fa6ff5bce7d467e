"""The table of goals: its columns at each width, and their content."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial

from rich.cells import cell_len
from rich.segment import Segment

from ralph.core.errors import RalphError
from ralph.core.goal import goal_name
from ralph.core.secrets import without_login
from ralph.core.text import ago, format_count, lasting, time_of_day
from ralph.dashboard.board import Board
from ralph.dashboard.reasons import reason_line
from ralph.dashboard.rows import Kept, Line, Words, alarm, cell, fitted, gauge, line
from ralph.queue.goals import BatchGoal, State, front_matter_of
from ralph.ui.terminal import Look, Row, one_line
from ralph.ui.theme import style

_GAP = Segment("  ")
_BAR = 8
_LEAST_NAME = 6
_LEAST_TITLE, _WIDEST_TITLE = 12, 36
_LEAST_ACTIVITY = {60: 10, 72: 14, 95: 16, 120: 38}
"""Cells for a goal's activity, by the excess width; wider tables give it even more."""
_ACTIVITY = "activity"
_STARTING, _BEGUN = "starting", 10.0
"""Seconds after which a session has started, even if it has printed nothing."""
_SIGNS = {
    State.RUNNING: ("●", Look.ACCENT),
    State.QUEUED: ("○", Look.QUIET),
    State.DRAFT: ("·", Look.QUIET),
    State.DONE: ("✓", Look.GOOD),
    State.STUCK: ("✗", Look.BAD),
    State.CANCELLED: ("-", Look.QUIET),
    State.UNDONE: ("↶", Look.WARN),
}


def sign(board: Board, goal: BatchGoal) -> Words:
    """Return a goal's state as one character."""
    if goal.state is not State.RUNNING:
        return _SIGNS[goal.state]
    if board.is_cut_off(goal):
        return "!", Look.WARN
    if board.is_merging(goal):
        return "◆", Look.SOFT
    status = board.status(goal)
    return ("◌", Look.WARN) if status is not None and status.until is not None else _SIGNS[State.RUNNING]


def activity(board: Board, goal: BatchGoal) -> tuple[str, str]:
    """Return what a goal does, or why not, and for how long if that matters."""
    match goal.state:
        case State.RUNNING:
            return _at_work(board, goal)
        case State.QUEUED:
            return _queued(board, goal)
        case State.DRAFT:
            return "draft", ""
        case State.DONE | State.STUCK | State.CANCELLED | State.UNDONE:
            return reason_line(goal.why) or goal.state, ago(board.now - goal.updated_at)


def _queued(board: Board, goal: BatchGoal) -> tuple[str, str]:
    """What keeps a queued goal from starting: other goals, or its account."""
    if goal.id in board.lineup.waits:
        return board.lineup.waits[goal.id], ""
    told, account = board.bulletin, board.agents.get(goal.id, "")
    if told is not None and goal.unmerged is None:  # a merge uses no account
        if account in told.refused:
            return f"waiting: {account} blocked, see g{told.refused[account]}", ""
        if account in told.waits:
            return f"waiting for {account}'s usage limit", f"{lasting(told.waits[account] - board.now)} left"
    if told is not None and told.fetching and (far := told.fetching.get(without_login(goal.repo))) is not None:
        return ": ".join(filter(None, ["fetching", far])), ""
    return (f"retrying: {reason_line(goal.why)}" if goal.why else "queued"), ""


def _at_work(board: Board, goal: BatchGoal) -> tuple[str, str]:
    if board.is_cut_off(goal):
        return "interrupted", ""
    if goal.cancelling:
        return "cancelling", ""
    if board.is_merging(goal):
        in_line = () if board.bulletin is None else board.bulletin.merging
        waits = goal.id in in_line and goal.id not in merging_now(board)
        return ("waiting to merge" if waits else "merging"), ""
    status = board.status(goal)
    if status is None:
        return "starting", ""
    if status.until is not None:
        return status.doing, f"{lasting(status.until - board.now)} left"
    seconds = board.now - status.since if status.since else 0.0
    # An agent that prints plain text is silent until its first line.
    doing = "working" if status.doing == _STARTING and seconds >= _BEGUN else status.doing
    return doing, lasting(seconds) if status.since else ""


def elapsed(board: Board, goal: BatchGoal) -> float:
    """How long a goal was worked on, over all attempts."""
    status = None if board.is_merging(goal) else board.status(goal)  # its last attempt is included
    return goal.seconds if status is None else status.worked(board.now)


def merging_now(board: Board) -> list[int]:
    """The goals that are merging now, at most one for each repository."""
    first: dict[str, int] = {}
    for number in () if board.bulletin is None else board.bulletin.merging:
        goal = board.lineup.known.get(number)
        first.setdefault("" if goal is None else goal.repo, number)
    return list(first.values())


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its name and width, and how to show a goal in it, as words or as a bar."""

    heading: str
    wide: int
    said: Callable[[Board, BatchGoal], Words | int | None]
    is_figure: bool = False
    at_least: int = 0
    """Cells that it can shrink to; 0: it cannot."""


def columns_for(board: Board, wide: int) -> list[Column]:
    """Return the columns that fit; the activity gets the remaining width and is not among them."""
    goals, repositories = board.lineup.goals, board.lineup.repositories
    names = _widest(
        (goal.name for goal in goals), _LEAST_NAME, 12 if wide < 52 else 16 if wide < 80 else 18 if wide < 95 else 24
    )
    has_titles = any(goal_name(goal.title) != goal.name for goal in goals)  # otherwise they repeat the names
    titles = _widest((goal.title for goal in goals), 5, _WIDEST_TITLE)
    repos = _widest(repositories.values(), 4, 16)
    context = Column("context", _BAR + 5, _percent) if wide >= 110 else Column("ctx", 4, _context, is_figure=True)
    ranked = (
        (9, Column("id", _widest((goal.label for goal in goals), 2, 20), lambda _, goal: (goal.label, Look.QUIET))),
        (9, Column("goal", names, lambda _, goal: (goal.name, _name_look(goal)))),
        (
            4 if has_titles else 0,
            Column("title", titles, lambda _, goal: _figure(goal, goal.title), at_least=min(titles, _LEAST_TITLE)),
        ),
        (6 if len(repositories) > 1 else 0, Column("repo", repos, _repository)),
        (0 if wide < 150 else 1, Column("tries", 5, _tries, is_figure=True)),
        (8, Column("iter", 5, _iteration, is_figure=True)),
        (7, Column("check", 5, _check)),
        (3, context),
        (2, Column("tokens", 7, _tokens, is_figure=True)),
        (8, Column("cost", 7, _cost, is_figure=True)),
        (5, Column("time", 6, _elapsed, is_figure=True)),
    )
    left = wide - 2 - next((least for most, least in _LEAST_ACTIVITY.items() if wide < most), 44)
    chosen: dict[int, Column] = {}
    for number, (rank, column) in sorted(enumerate(ranked), key=lambda each: -each[1][0]):
        if rank == 9 or (rank and (column.at_least or column.wide) + 2 <= left):
            chosen[number] = replace(column, wide=min(column.wide, left - 2)) if column.at_least else column
            left -= chosen[number].wide + 2
        elif rank:
            break
    return [chosen[number] for number in sorted(chosen)]


def _widest(texts: Iterable[str], least: int, most: int) -> int:
    return max(least, *(min(cell_len(one_line(text, most)), most) for text in texts), least)


def heading(chosen: Sequence[Column]) -> Row:
    """Return the headings."""
    cells = [cell(column.heading, column.wide, Look.QUIET, is_figure=column.is_figure) for column in chosen]
    spaced = [part for each in cells for part in (each, _GAP)]
    return [_GAP, *spaced, cell(_ACTIVITY, len(_ACTIVITY), Look.QUIET)]


def row(board: Board, goal: BatchGoal, chosen: Sequence[Column], wide: int, *, at_cursor: bool, kept: Kept) -> Row:
    """Return a goal's row, drawn again only if something in it changed; the selected row stands out."""
    left = wide - 2 - sum(column.wide + 2 for column in chosen)
    data = (sign(board, goal), tuple(column.said(board, goal) for column in chosen), _told(board, goal, left))
    layout = tuple((column.wide, column.is_figure) for column in chosen)
    return kept.get(("goal", data, layout, wide, at_cursor), partial(_drawn, data, layout, wide, at_cursor))


def _drawn(
    data: tuple[Words, Sequence[Words | int | None], Line],
    layout: Sequence[tuple[int, bool]],
    wide: int,
    at_cursor: bool,
) -> Row:
    (letter, look), cells, last = data
    segments = [cell(letter, 1, look), Segment(" ")]
    for said, (columns, is_figure) in zip(cells, layout, strict=True):
        if isinstance(said, int):
            segments += [Segment(text, style(tone)) for text, tone in gauge(said, _BAR)]
            segments.append(cell(f"{said}%", columns - _BAR, alarm(said), is_figure=True))
        else:
            text, look = said or ("", Look.PLAIN)
            segments.append(cell(text, columns, look, is_figure=is_figure))
        segments.append(_GAP)
    segments += [Segment(text, style(tone)) for text, tone in last]
    if at_cursor:
        return [Segment(part.text, style(Look.CHOSEN)) for part in fitted(segments, wide)]
    return fitted(segments, wide)


def _told(board: Board, goal: BatchGoal, most: int) -> Line:
    """What the goal does; for a running goal the time matters more than the end of a long word."""
    what, how_long = activity(board, goal)
    look = {State.RUNNING: Look.PLAIN, State.STUCK: Look.BAD}.get(goal.state, Look.QUIET)
    if most < 1:
        return ()
    if how_long and most >= len(how_long) + (8 if goal.state is State.RUNNING else 30):
        return line((_within(what, most - len(how_long) - 2), look), (f"  {how_long}", Look.QUIET))
    return line((_within(what, most), look))


def _within(text: str, most: int) -> str:
    return cell(text, most).text.rstrip()


def _name_look(goal: BatchGoal) -> Look:
    return Look.STRONG if goal.state in (State.RUNNING, State.STUCK) else Look.QUIET


def _figure(goal: BatchGoal, text: str) -> Words | None:
    return (text, Look.PLAIN if goal.state in (State.RUNNING, State.STUCK) else Look.QUIET) if text else None


def _repository(board: Board, goal: BatchGoal) -> Words | None:
    return _figure(goal, board.lineup.repositories[goal.repo])


def iteration(board: Board, goal: BatchGoal) -> str:
    """Return the iteration and its limit if known; empty before the first."""
    status = board.status(goal)
    number = goal.iterations if status is None else status.iteration
    most = None if status is None else status.max_iterations
    if most is None:
        most = _limit(goal.settings.get("max_iterations"), goal.text, goal.path)
    return (f"{number}/{most}" if most and number <= most else str(number)) if number else ""


@lru_cache(maxsize=4096)
def _limit(setting: str | None, text: str, path: str) -> int | None:
    """Return the goal's own limit on iterations."""
    try:
        asked = str(setting or front_matter_of(text, path).get("max_iterations"))
    except RalphError:  # a goal of another version of ralph that this one cannot read
        return None
    return int(asked) if asked.isascii() and asked.isdecimal() else None


def _iteration(board: Board, goal: BatchGoal) -> Words | None:
    return _figure(goal, iteration(board, goal))


def _check(board: Board, goal: BatchGoal) -> Words | None:
    green = board.is_green(goal)
    return None if green is None else ("✓", Look.GOOD) if green else ("✗ red", Look.BAD)


def _tries(_: Board, goal: BatchGoal) -> Words | None:
    return _figure(goal, str(goal.attempts) if goal.starts else "")


def _percent(board: Board, goal: BatchGoal) -> int | None:
    status = board.status(goal)
    return None if status is None or status.context_pct is None else round(min(status.context_pct, 999.0))


def _context(board: Board, goal: BatchGoal) -> Words | None:
    percent = _percent(board, goal)
    return None if percent is None else (f"{percent}%", alarm(percent))


def _tokens(board: Board, goal: BatchGoal) -> Words | None:
    status = board.status(goal)
    tokens = goal.tokens if status is None else status.tokens
    return _figure(goal, format_count(tokens) if tokens else "")


def cost(board: Board, goal: BatchGoal) -> str:
    """Return the cost with cents, so that figures align; an unknown cost is not zero."""
    status = board.status(goal)
    spent, named = (goal.cost_usd, goal.costed) if status is None else (status.cost_usd, status.costed)
    if goal.starts and (spent or named):
        return f"${spent:.2f}" if spent >= 0.005 or not spent else "<$0.01"
    return "unknown" if goal.iterations or (status is not None and status.iteration > 1) else ""


def _cost(board: Board, goal: BatchGoal) -> Words | None:
    return _figure(goal, cost(board, goal))


def _elapsed(board: Board, goal: BatchGoal) -> Words | None:
    return _figure(goal, lasting(elapsed(board, goal)) if goal.starts else "")


_LABEL = 9


def lanes(board: Board) -> list[Line]:
    """Return a line for merges in progress, and one for each waiting account."""
    return [*_merges(board), *_quotas(board)]


def _merges(board: Board) -> list[Line]:
    if board.bulletin is None or not board.bulletin.merging:
        return []
    now = merging_now(board)
    waiting = [number for number in board.bulletin.merging if number not in now]
    merged = ", ".join(_named(board, number) for number in now)
    queue = f"  then {', '.join(f'g{number}' for number in waiting)}" if waiting else ""
    return [line((f"{'merging':<{_LABEL}}", Look.SOFT), merged, (queue, Look.QUIET))]


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
        line(
            (f"{'quota':<{_LABEL}}", Look.WARN),
            account,
            (f"  {lasting(until - board.now)} left", Look.STRONG),
            (f"  until {time_of_day(until)}, then continues", Look.QUIET),
        )
        for account, until in sorted(board.bulletin.waits.items(), key=lambda wait: wait[1])
    ]
