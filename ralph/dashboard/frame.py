"""A board as the lines of a screen: any board, any view of it, any size."""

import math
from collections import Counter
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, replace

from ralph.core.text import format_count, format_money, plural
from ralph.dashboard.board import Board, Happening, TranscriptPage
from ralph.dashboard.lines import worded
from ralph.dashboard.needs import needs_lines
from ralph.dashboard.table import activity, clock, columns_for, heading, lanes, row, sign
from ralph.dashboard.view import Asks, Question, View, chosen, place, scrolled, shown
from ralph.queue.goals import BatchGoal, State
from ralph.queue.stats import left_of
from ralph.ui.draw import (
    Line,
    Tone,
    alarm,
    cell,
    cells,
    gauge,
    joined,
    lasting,
    letters_within,
    line,
    plain,
    rule,
    width,
)
from ralph.ui.terminal import flat, one_line

_HELP = (
    ("↑ ↓ j k", "move; PgUp, PgDn, Home and End: further"),
    ("Enter", "open the goal's transcript; Esc goes back"),
    ("/", "only goals with a text in id, name, title, repo"),
    ("f", "only goals of one state; Esc shows all again"),
    ("p", "pause: nothing new is started; again: resume"),
    ("c", "cancel the goal (asks); its branch is kept"),
    ("r", "try again what is stuck or cancelled"),
    ("w", "wake a goal that waits for a usage limit"),
    ("t", "tell the goal's agent something"),
    ("d", "in a transcript: more detail, or less"),
)

_MEANT = {"c": "cancel {}", "r": "try {} again", "t": "tell {} something", "w": "wake {}"}
"""What is asked about a goal that nobody has chosen."""


def keyline(board: Board, view: View, columns: int) -> Line:
    """The bottom line of any screen."""
    if view.prompt is not None:
        return _prompt(board, view.prompt, columns)
    if view.message:
        return line((view.message, Tone.WARN))
    if view.helping:
        return line(("any key goes back", Tone.DIM))
    return _keys(board, view, columns)


def _keys(board: Board, view: View, columns: int) -> Line:
    if view.open is not None:
        keys = [(9, "Esc", "back"), (9, "↑↓", "scroll"), (3, "End", "follow"), (4, "d", "detail")]
    else:
        keys = [(6, "↑↓", "move"), (9, "Enter", "open"), (5, "/", "filter"), (3, "f", "state")]
    goal = chosen(board, view)
    waits = goal is not None and board.is_waiting(goal)
    keys += [*([(8, "w", "wake")] if waits else []), (7, "c", "cancel"), (6, "r", "retry"), (6, "t", "tell")]
    keys += [(4, "p", "resume" if board.paused else "pause"), (8, "?", "help"), (8, "q", _quit(board))]
    parts = [(rank, line((key, Tone.STRONG), (f" {does}", Tone.DIM))) for rank, key, does in keys]
    return joined(parts, columns)


def _quit(board: Board) -> str:
    if not board.ours:
        return "leave"
    return "kill" if board.is_stopping else "stop"


def _end(board: Board) -> str:
    """What is asked before the worker is asked to end: the second time it no longer waits for anybody."""
    return "it is stopping: kill what runs?" if board.is_stopping else "stop? goals go on at the next start"


def _prompt(board: Board, prompt: Question, columns: int) -> Line:
    goal = board.lineup.known.get(prompt.goal)
    named = "" if goal is None else f"{goal.label} {goal.name}"
    match prompt.asks:
        case Asks.QUIT:
            return line((_end(board), Tone.WARN), "  y: yes", ("  any other key: no", Tone.DIM))
        case Asks.SUSPEND:
            return _unwatched(columns)
        case Asks.CANCEL:
            return line((f"cancel {named}?", Tone.WARN), "  y: yes", ("  any other key: no", Tone.DIM))
        case Asks.MEANT:
            asked = _MEANT.get(prompt.key, "is {} meant").format(f"g{prompt.goal}")
            said = f"the selection moved by itself: {asked}?"
            return line((said, Tone.WARN), "  y: yes", ("  any other key: no", Tone.DIM))
        case Asks.FILTER:
            return _typing("filter: ", prompt, columns)
        case Asks.TELL:
            return _typing(f"{prompt.note}: " if prompt.note else f"tell {named}: ", prompt, columns)


def _unwatched(columns: int) -> Line:
    """Why Ctrl-Z is not done at once."""
    why = "goals work on, and nobody would watch their budget" if columns >= 100 else "nobody would watch the budget"
    parts = [(9, line((why, Tone.WARN))), (8, line("Ctrl-Z again: suspend anyway")), (7, line("q: stop the goals"))]
    return joined([*parts, (1, line(("any other key: no", Tone.DIM)))], columns)


def _typing(label: str, prompt: Question, columns: int) -> Line:
    """What is typed, as far as it fits around the caret."""
    label = letters_within(flat(label), max(columns * 2 // 3 if prompt.note else columns // 2, 1))
    before, at, after = (
        flat(part)
        for part in (
            prompt.text[: prompt.caret],
            prompt.text[prompt.caret : prompt.caret + 1],
            prompt.text[prompt.caret + 1 :],
        )
    )
    room = max(columns - width(label) - 2, 1)
    while width(before) > room:
        before = before[-room:] if len(before) > room else before[1:]
    return (
        (label, Tone.WARN if prompt.note else Tone.CALM),
        (before, Tone.PLAIN),
        (at or " ", Tone.CHOSEN),
        (after, Tone.PLAIN),
    )


def help_page(board: Board) -> list[Line]:
    """What every key does."""
    stop = "kill what runs: the worker stops already" if board.is_stopping else "stop the worker, as Ctrl-C does"
    leave = f"{stop} (asks)" if board.ours else "leave; the worker goes on"
    keys = (*_HELP, ("q", leave))
    return [line(("Keys", Tone.STRONG)), (), *(line((f"  {key:<10}", Tone.STRONG), does) for key, does in keys)]


_BAR = 10
_BUDGET, _COST, _FIGURE = 9, 5, 2
"""How much it is worth to be shown: what has a limit, and what has none."""
_ENDLESS = 100_000
_SILENT = 15.0
"""Seconds of silence after which a worker is not what it seems: it writes how it stands every few."""
_STATE_TONES = {State.RUNNING: Tone.CALM, State.STUCK: Tone.BAD, State.DONE: Tone.GOOD}


def header(board: Board, columns: int) -> Line:
    """Which queue this is, and who works on it."""
    told = board.bulletin
    slots = "" if told is None else plural(told.slots, "slot")
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
        (
            6 if state in _STATE_TONES else 5,
            line((f"{number} {_word(board, state)}", _STATE_TONES.get(state, Tone.PLAIN))),
        )
        for state in (State.RUNNING, State.STUCK, State.QUEUED, State.DRAFT, State.CANCELLED, State.DONE)
        if (number := board.lineup.counts.get(state))
    ]
    goals = [(4, line(plural(count, "goal") if count else "no goals yet")), *each]
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
        _Measure("cost", told.spent_usd, told.budget.cost_usd, format_money),
        _Measure("tokens", told.spent_tokens, told.budget.tokens, lambda number: f"{format_count(int(number))} tokens"),
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


_FEW = 14
"""Rows of a terminal below which sections have no headings, and figures share a line."""

_MOST_EVENTS = 12
_NEWS_TONES = {"done": Tone.GOOD, "stuck": Tone.BAD, "retry": Tone.WARN, "waiting": Tone.WARN, "note": Tone.WARN}


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
    words = one_line(worded(news.kind, news.text, news.command, board.flag), max(columns, 1))
    tone = _NEWS_TONES.get(news.kind, Tone.PLAIN)
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


def _why_nothing(board: Board, goal: BatchGoal | None, told: TranscriptPage | None) -> str:
    """Why there is no transcript."""
    if goal is not None and not goal.starts:
        doing, _ = activity(board, goal)
        return "it has not started yet" + (f": {doing}" if doing != goal.state else "")
    return "reading…" if told is None else told.note or "nothing yet"


def _in_sight(told: TranscriptPage, view: View) -> tuple[list[Line], int]:
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
