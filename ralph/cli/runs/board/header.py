"""The first lines: which queue, who serves it, how many goals stand where, and what they have used of what they may."""

import math
from collections.abc import Callable, Container
from dataclasses import dataclass

from ralph.core.text import format_count, format_money
from ralph.dashboard.board import Board
from ralph.queue.goals import State
from ralph.queue.stats import left_of
from ralph.ui.draw import Line, Tone, alarm, cells, gauge, joined, lasting, line, plain

_BAR = 10
_BUDGET, _COST, _FIGURE = 9, 5, 2
"""How much it is worth to be shown: what has a limit, and what has none."""
_ENDLESS = 100_000
_SILENT = 15.0
"""Seconds of silence after which a worker is not what it seems: it writes how it stands every few."""
_TONES = {State.RUNNING: Tone.CALM, State.STUCK: Tone.BAD, State.DONE: Tone.GOOD}


def header(board: Board, columns: int) -> Line:
    """Which queue this is, and who works on it."""
    told = board.bulletin
    slots = "" if told is None else f"{told.slots} slot{'' if told.slots == 1 else 's'}"
    parts = [
        (9, line(("ralph-runs", Tone.STRONG))),
        (8, _mark(board)),
        (1, line((board.queue, Tone.DIM))),
        (5 if board.silence < _SILENT else 8, _server(board)),
        (4, line(slots)),
        (3, line("" if told is None else f"up {lasting(board.now - told.since)}")),
    ]
    return joined(parts, columns)


def _mark(board: Board) -> Line:
    """What is out of the ordinary."""
    if board.fault:
        return line(("the queue cannot be read", Tone.BAD))  # why stands where there is room: see `needs`
    if board.is_stopping:
        return line(("STOPPING", Tone.WARN))
    return line(("PAUSED: nothing is started", Tone.WARN)) if board.paused else ()


def _server(board: Board) -> Line:
    if board.bulletin is None:
        return line(f"worked on by {board.served}" if board.served else "nobody works on it")
    named = f"{board.bulletin.host}:{board.bulletin.pid}"
    if board.silence < _SILENT:
        return line(named)
    return line((f"{named} has said nothing for {lasting(board.silence)}", Tone.WARN))


def totals(board: Board, columns: int, most: int) -> list[Line]:
    """How many goals stand where, and what they have used: on a line each, or both on one."""
    count = len(board.lineup.goals)
    each = [
        (6 if state in _TONES else 5, line((f"{number} {_word(board, state)}", _TONES.get(state, Tone.PLAIN))))
        for state in (State.RUNNING, State.STUCK, State.QUEUED, State.DRAFT, State.CANCELLED, State.DONE)
        if (number := board.lineup.counts.get(state))
    ]
    goals = [(4, line(f"{count} goal{'' if count == 1 else 's'}" if count else "no goals yet")), *each]
    if most < 2:
        measures = _measures(board, with_bars=False)
        return [joined([*goals, *sorted(measures, key=lambda ranked: -ranked[0])[:1]], columns)]
    used = _used(board, columns)
    return [joined(goals, columns), *([joined(used, columns)] if used else [])]


def _word(board: Board, state: State) -> str:
    return "cut off" if state is State.RUNNING and not board.served else state


def _used(board: Board, columns: int) -> list[tuple[int, Line]]:
    """What was used since the worker began, and what is probably still to come; bars go before any budget does."""
    measures = _measures(board, with_bars=True)
    budgets = [(rank, part) for rank, part in measures if rank > _COST]
    if cells(joined(budgets, _ENDLESS)) > columns:
        measures = _measures(board, with_bars=False)
    return [*measures, *_to_come(board)]


def _measures(board: Board, *, with_bars: bool) -> list[tuple[int, Line]]:
    """Money, tokens and time, of their budgets; of these the one that is nearest to its end is the last to go."""
    told = board.bulletin
    if told is None:
        cost = sum(goal.cost_usd for goal in board.lineup.goals)
        return [(1, line(f"{format_money(cost)} in all"))] if cost else []
    seconds = told.elapsed(board.now) if told.budget.seconds else 0.0
    used = [
        _Used("cost", told.spent_usd, told.budget.cost_usd, format_money),
        _Used("tokens", told.spent_tokens, told.budget.tokens, lambda number: f"{format_count(int(number))} tokens"),
        _Used("time", seconds, told.budget.seconds, lasting),
    ]
    by_need = sorted(used, key=lambda each: -each.urgency(told.unseen))
    ranks = {each.name: _BUDGET - place for place, each in enumerate(by_need) if each.most}
    return [
        (ranks.get(each.name, _COST if each.name == "cost" else _FIGURE), each.line(told.unseen, with_bar=with_bars))
        for each in used
        if each.most or each.used
    ]


@dataclass(frozen=True, slots=True)
class _Used:
    """A measure of what goals use, and what they may."""

    name: str
    used: float
    most: float | None
    write: Callable[[float], str]

    def urgency(self, unseen: Container[str]) -> float:
        """How much somebody should see it: what does not hold, then what is nearest to its end."""
        if not self.most:
            return -1.0
        return math.inf if self.name in unseen else self.used / self.most

    def line(self, unseen: Container[str], *, with_bar: bool) -> Line:
        if not self.most:
            return line(self.write(self.used))
        percent = min(100 * self.used / self.most, 999.0)
        share = line(f"{self.write(self.used).removesuffix(' tokens')} of {self.write(self.most)} ")
        if self.name in unseen:  # a bar would say how much is left
            known = f"at least {plain(share).rstrip()}" if self.used else f"{self.name} unknown"
            return line((f"{known}: --max-{self.name} cannot hold", Tone.WARN))
        bar = (*gauge(percent, _BAR), (" ", Tone.PLAIN)) if with_bar else ()
        return (*share, *bar, (f"{percent:.0f}%", alarm(percent)))


def _to_come(board: Board) -> list[tuple[int, Line]]:
    """By what is done; a figure that goes beyond what is left of its budget stands out."""
    foretold, told = board.forecast, board.bulletin
    if foretold is None or told is None:
        return []
    short = foretold.exceeds(left_of(told))
    cost, seconds = foretold.cost_usd, foretold.seconds
    return [
        (
            4,
            line((f"about {format_money(cost.about)} to come", _tone("cost" in short)))
            if cost and cost.about >= 0.01
            else (),
        ),
        (
            3,
            line((f"about {lasting(seconds.about)} left", _tone("time" in short)))
            if seconds and seconds.about >= 1 and not board.stands_still
            else (),
        ),
    ]


def _tone(is_short: bool) -> Tone:
    return Tone.WARN if is_short else Tone.DIM
