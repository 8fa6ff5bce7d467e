"""The lines above and below the goals: the queue, its totals and budget; keys and questions."""

import math
from collections.abc import Callable, Container
from dataclasses import dataclass

from rich.cells import cell_len
from rich.table import Table

from ralph.core.text import format_count, format_money, lasting, plural
from ralph.dashboard.board import Board, PageKind
from ralph.dashboard.rows import Line, alarm, cell, gauge, joined, line, plain, width
from ralph.dashboard.view import Asks, Question, View, chosen
from ralph.queue.goals import State
from ralph.queue.stats import left_of
from ralph.ui.terminal import Look, flat
from ralph.ui.theme import safe

_HELP = {
    "Look": (
        ("↑ ↓ j k", "move; PgUp, PgDn, Home, End: jump"),
        ("/", "filter by id, name, title or repository"),
        ("f", "show one state only; Esc shows all again"),
        ("o", "sort by state, need, id, latest news, cost"),
        ("Enter", "open the goal's transcript; Esc goes back"),
        ("v", "show its diff against the base branch"),
        ("l", "show its log: iterations and summaries"),
        ("d", "in a transcript: more detail, or less"),
    ),
    "Steer": (
        ("t", "send the goal's agent a message"),
        ("r", "retry a goal that is stuck or cancelled"),
        ("w", "wake a goal that waits for a usage limit"),
        ("c", "cancel the goal (asks); its branch is kept"),
        ("p", "pause: start no new goals; again: resume"),
    ),
}

_MEANT = {"c": "cancel {}", "r": "retry {}", "t": "send {} a message", "w": "wake {}"}
"""The question if the user did not select the goal."""


def keyline(board: Board, view: View, columns: int) -> Line:
    """Return the bottom line of a screen."""
    if view.prompt is not None:
        return _prompt(board, view.prompt, columns)
    if view.message:
        return line((view.message, Look.WARN))
    if view.helping:
        return line(("any key goes back", Look.QUIET))
    return _keys(board, view, columns)


_ROOM_FOR_WHY = 60
"""Cells that a terminal has where the whole reason stands beside the keys."""


def _keys(board: Board, view: View, columns: int) -> Line:
    if view.open is not None:
        keys = [(9, "Esc", "back"), (9, "↑↓", "scroll"), (3, "End", "follow")]
        keys += [(2, "d", "detail")] if view.kind is PageKind.TRANSCRIPT else []
    else:
        keys = [(6, "↑↓", "move"), (9, "Enter", "open"), (5, "/", "filter"), (3, "f", "state"), (2, "o", "sort")]
    keys += [(3, "v", "diff"), (3, "l", "log")]
    goal = chosen(board, view)
    waits = goal is not None and board.is_waiting(goal)
    keys += [*([(8, "w", "wake")] if waits else []), (5, "c", "cancel"), (7, "r", "retry"), (6, "t", "tell")]
    keys += [(4, "p", "resume" if board.paused else "pause"), (8, "?", "help"), (8, "q", _quit(board))]
    why = "nothing can continue by itself" if columns >= _ROOM_FOR_WHY else "only stuck goals"
    settled = line((f"{why}: r retries, q leaves", Look.WARN)) if board.is_settled else ()
    parts = [(rank, line((key, Look.STRONG), (f" {does}", Look.QUIET))) for rank, key, does in keys]
    return joined([(10, settled), *parts], columns)


def _quit(board: Board) -> str:
    if not board.ours or board.is_settled:
        return "leave"
    return "kill" if board.is_stopping else "stop"


def _end(board: Board) -> str:
    """The question before the worker stops; the second time it stops at once."""
    return "already stopping: kill running goals?" if board.is_stopping else "stop? goals continue at the next start"


def _prompt(board: Board, prompt: Question, columns: int) -> Line:
    goal = board.lineup.known.get(prompt.goal)
    named = "" if goal is None else f"{goal.label} {goal.name}"
    match prompt.asks:
        case Asks.QUIT:
            return line((_end(board), Look.WARN), "  y: yes", ("  any other key: no", Look.QUIET))
        case Asks.SUSPEND:
            return _unwatched(columns)
        case Asks.CANCEL:
            return line((f"cancel {named}?", Look.WARN), "  y: yes", ("  any other key: no", Look.QUIET))
        case Asks.MEANT:
            asked = _MEANT.get(prompt.key, "is {} meant").format(f"g{prompt.goal}")
            said = f"the selection has moved: {asked}?"
            return line((said, Look.WARN), "  y: yes", ("  any other key: no", Look.QUIET))
        case Asks.FILTER:
            return _typing("filter: ", prompt, columns)
        case Asks.TELL:
            return _typing(f"{prompt.note}: " if prompt.note else f"tell {named}: ", prompt, columns)


def _unwatched(columns: int) -> Line:
    """Why Ctrl-Z asks first."""
    why = (
        "goals would keep running with no one watching the budget"
        if columns >= 100
        else "no one would watch the budget"
    )
    parts = [(9, line((why, Look.WARN))), (8, line("Ctrl-Z again: suspend anyway")), (7, line("q: stop the goals"))]
    return joined([*parts, (1, line(("any other key: no", Look.QUIET)))], columns)


def _typing(label: str, prompt: Question, columns: int) -> Line:
    """The text being typed, as far as it fits around the caret."""
    most = max(columns * 2 // 3 if prompt.note else columns // 2, 1)
    label = cell(flat(label), most).text.rstrip(" ") + " " if cell_len(flat(label)) > most else flat(label)
    before, at, after = (
        flat(part)
        for part in (
            prompt.text[: prompt.caret],
            prompt.text[prompt.caret : prompt.caret + 1],
            prompt.text[prompt.caret + 1 :],
        )
    )
    room = max(columns - cell_len(label) - 2, 1)
    while cell_len(before) > room:
        before = before[-room:] if len(before) > room else before[1:]
    return (
        (label, Look.WARN if prompt.note else Look.ACCENT),
        (before, Look.PLAIN),
        (at or " ", Look.CHOSEN),
        (after, Look.PLAIN),
    )


def help_table(board: Board) -> Table:
    """Return the table of keys, in two groups."""
    stop = (
        "kill running goals: the worker is already stopping" if board.is_stopping else "stop the worker, as Ctrl-C does"
    )
    leave = "leave" if board.is_settled else f"{stop} (asks)" if board.ours else "leave; the worker keeps running"
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for group, keys in _HELP.items():
        table.add_row(safe(group, Look.ACCENT), "")
        for key, does in keys:
            table.add_row(safe(f"  {key}", Look.STRONG), safe(does))
    table.add_row(safe("  q", Look.STRONG), safe(leave))
    return table


_BAR = 10
_BUDGET, _COST, _FIGURE = 9, 5, 2
"""How much room a figure deserves: with a limit, and without."""
_ENDLESS = 100_000
_SILENT = 15.0
"""Seconds of silence after which a worker seems to hang: it writes its status every few seconds."""
_STATE_TONES = {State.RUNNING: Look.ACCENT, State.STUCK: Look.BAD, State.DONE: Look.GOOD}


def header(board: Board, columns: int) -> Line:
    """Return which queue this is, and its worker."""
    told = board.bulletin
    slots = "" if told is None else plural(told.slots, "slot")
    parts = [
        (9, line(("ralph-runs", Look.STRONG))),
        (8, _mark(board)),
        (1, line((board.queue, Look.QUIET))),
        (5 if board.silence < _SILENT else 8, _server(board)),
        (4, line(slots)),
        (3, line("" if told is None else f"up {lasting(board.now - told.since)}")),
    ]
    return joined(parts, columns)


def _mark(board: Board) -> Line:
    """Anything unusual about the queue."""
    if board.fault:
        return line(("the queue cannot be read", Look.BAD))  # the reason is shown where there is room: see `needs`
    if board.is_stopping:
        return line(("STOPPING", Look.WARN))
    return line(("PAUSED: no goal starts", Look.WARN)) if board.paused else ()


def _server(board: Board) -> Line:
    if board.bulletin is None:
        return line(f"worker: {board.served}" if board.served else "no worker")
    named = f"{board.bulletin.host}:{board.bulletin.pid}"
    if board.silence < _SILENT:
        return line(named)
    return line((f"{named} silent for {lasting(board.silence)}", Look.WARN))


def totals(board: Board, columns: int, most: int) -> list[Line]:
    """Return how many goals are in each state and what they have used: on two lines, or both on one."""
    count = len(board.lineup.goals)
    each = [
        (
            6 if state in _STATE_TONES else 5,
            line((f"{number} {_word(board, state)}", _STATE_TONES.get(state, Look.PLAIN))),
        )
        for state in (State.RUNNING, State.STUCK, State.QUEUED, State.DRAFT, State.CANCELLED, State.UNDONE, State.DONE)
        if (number := board.lineup.counts.get(state))
    ]
    goals = [(4, line(plural(count, "goal") if count else "no goals yet")), *each]
    if most < 2:
        measures = _measures(board, with_bars=False)
        return [joined([*goals, *sorted(measures, key=lambda ranked: -ranked[0])[:1]], columns)]
    used = _used(board, columns)
    return [joined(goals, columns), *([joined(used, columns)] if used else [])]


def _word(board: Board, state: State) -> str:
    return "interrupted" if state is State.RUNNING and not board.served else state


def _used(board: Board, columns: int) -> list[tuple[int, Line]]:
    """What was used since the worker started, and the forecast; bars are dropped before budgets."""
    measures = _measures(board, with_bars=True)
    budgets = [(rank, part) for rank, part in measures if rank > _COST]
    if width(joined(budgets, _ENDLESS)) > columns:
        measures = _measures(board, with_bars=False)
    return [*measures, *_to_come(board)]


def _measures(board: Board, *, with_bars: bool) -> list[tuple[int, Line]]:
    """Money, tokens and time with their budgets; the one closest to its limit is dropped last."""
    told = board.bulletin
    if told is None:
        cost = sum(goal.cost_usd for goal in board.lineup.goals)
        return [(1, line(f"{format_money(cost)} in total"))] if cost else []
    seconds = told.elapsed(board.now) if told.budget.seconds else 0.0
    used = [
        _Measure("cost", told.spent_usd, told.budget.cost_usd, format_money),
        _Measure("tokens", told.spent_tokens, told.budget.tokens, lambda number: format_count(int(number)), " tokens"),
        _Measure("time", seconds, told.budget.seconds, lasting),
    ]
    by_need = sorted(used, key=lambda each: -each.urgency(told.unseen))
    ranks = {each.name: _BUDGET - place for place, each in enumerate(by_need) if each.most}
    return [
        (ranks.get(each.name, _COST if each.name == "cost" else _FIGURE), each.line(told.unseen, with_bar=with_bars))
        for each in used
        if each.most or each.used
    ]


@dataclass(frozen=True, slots=True)
class _Measure:
    """One measure of use, with its limit."""

    name: str
    used: float
    most: float | None
    write: Callable[[float], str]
    unit: str = ""

    def urgency(self, unseen: Container[str]) -> float:
        """How urgent it is: what cannot be enforced first, then what is closest to its limit."""
        if not self.most:
            return -1.0
        return math.inf if self.name in unseen else self.used / self.most

    def line(self, unseen: Container[str], *, with_bar: bool) -> Line:
        if not self.most:
            return line(self.write(self.used) + self.unit)
        percent = min(100 * self.used / self.most, 999.0)
        share = line(f"{self.write(self.used)} of {self.write(self.most)}{self.unit} ")
        if self.name in unseen:  # a bar would suggest that the rest is known
            known = f"at least {plain(share).rstrip()}" if self.used else f"{self.name} unknown"
            return line((f"{known}: --max-{self.name} can't be enforced", Look.WARN))
        bar = (*gauge(round(percent), _BAR), (" ", Look.PLAIN)) if with_bar else ()
        return (*share, *bar, (f"{percent:.0f}%", alarm(percent)))


def _to_come(board: Board) -> list[tuple[int, Line]]:
    """The forecast; a figure that exceeds the rest of its budget is highlighted."""
    foretold, told = board.forecast, board.bulletin
    if foretold is None or told is None:
        return []
    short = foretold.exceeds(left_of(told))
    cost, seconds = foretold.cost_usd, foretold.seconds
    return [
        (
            4,
            line((f"about {format_money(cost.about)} more to come", _tone("cost" in short)))
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


def _tone(is_short: bool) -> Look:
    return Look.WARN if is_short else Look.QUIET
