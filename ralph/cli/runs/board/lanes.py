"""What goals wait for in a row: their merges, one at a time for each repository, and usage limits."""

import time

from ralph.dashboard.board import Board
from ralph.dashboard.table import merging_now
from ralph.ui.draw import Line, Tone, lasting

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
