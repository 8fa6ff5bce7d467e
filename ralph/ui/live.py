"""The live view of a run: a thread of its own draws what it is handed and reads keys. Its faults never stop the run.

rich renders every row, once; the rest of its live display does not serve here: `rich.live.Live` writes from a thread of
its own and blocks while the terminal is stopped, knows no Ctrl-Z, and draws all that it is handed, however much.
"""

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TextIO, get_args

from rich.rule import Rule

from ralph.core.errors import fault_of
from ralph.core.events import AgentEvent, CheckStarted, Event, SessionEnded, SessionEvent
from ralph.core.limits import Limits
from ralph.core.status import RunStatus, StatusFold
from ralph.core.text import plural
from ralph.core.usage import Spend
from ralph.ui.console import Console
from ralph.ui.keys import Key, Keyboard
from ralph.ui.output import Output
from ralph.ui.render import Detail, Divider, FinishedCall, Paragraph, Said, last_lines
from ralph.ui.run_keys import RunKeys
from ralph.ui.status_line import Activity, activities, activity_lines, status_line
from ralph.ui.terminal import Look, Row, ScrollingScreen, in_foreground
from ralph.ui.theme import render, style
from ralph.ui.transcript import TranscriptRenderer

_MOST_WAITING = 100
"""Of what an agent says and does; nobody reads more in a few seconds."""

_MOST_CHARACTERS = 4_000_000
"""The same, in characters."""

_MOST_NOTABLE = 500
"""The same for more important parts: failed calls, plans and notes."""


class Taken(NamedTuple):
    """Something to draw."""

    said: Said
    by_agent: bool
    left_out: int
    """How much was left out before it, where ralph itself says it: it may sum that up."""


class Backlog:
    """What waits to be drawn. Where that is too much, the oldest of what an agent says and does is left out."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Said, bool]] = deque()
        self._notable: deque[Taken] = deque()
        """Older than all that waits."""
        self._characters = 0
        self._left_out = 0
        self._notable_of_agents = 0

    def __len__(self) -> int:
        return len(self._waiting) + len(self._notable)

    def put(self, said: Said, *, by_agent: bool) -> None:
        """Have it drawn in its turn. What ralph itself says is never left out."""
        self._waiting.append((said, by_agent))
        self._characters += _characters(said)
        while len(self._waiting) > _MOST_WAITING or (self._characters > _MOST_CHARACTERS and self._waiting):
            self._leave_out(*self._waiting.popleft())

    def take(self) -> Taken | None:
        """Take the next one."""
        if self._notable:
            taken = self._notable.popleft()
            self._notable_of_agents -= taken.by_agent
            return taken
        if not self._waiting:
            return None
        said, by_agent = self._waiting.popleft()
        self._characters -= _characters(said)
        return Taken(said, by_agent, 0 if by_agent else self.left_out())

    def left_out(self) -> int:
        """Return how much was skipped since the last note."""
        number, self._left_out = self._left_out, 0
        return number

    def _leave_out(self, said: Said, by_agent: bool) -> None:
        self._characters -= _characters(said)
        is_fleeting = not isinstance(said, Divider) and said.fleeting
        if by_agent and (is_fleeting or self._notable_of_agents >= _MOST_NOTABLE):
            self._left_out += 1
        else:
            self._notable.append(Taken(said, by_agent, 0 if by_agent else self.left_out()))
            self._notable_of_agents += by_agent


def _characters(said: Said) -> int:
    match said:
        case Paragraph():
            return len(said.text)
        case FinishedCall():
            given = () if said.start is None else said.start.input.values()
            return len(said.output) + sum(len(value) for value in given if isinstance(value, str))
        case Divider():
            return 0


_BY_AGENT = frozenset({*get_args(AgentEvent), *get_args(SessionEvent)} - {SessionEnded})

_MOST_CHECK = 4000
"""Bytes of the check's output that are kept: its last."""

_MOST_OUTPUT = 8
"""Lines of output that a footer shows."""


class _Feed:
    """What the run's thread hands to the view's. Each takes turns with the other, for moments."""

    def __init__(self, detail: Detail, course: "LiveRun") -> None:
        self.words = TranscriptRenderer(detail, course.root)
        self._turn = threading.Lock()
        self._backlog = Backlog()
        self._status = StatusFold(spent=course.spent)
        self._check = b""

    def __len__(self) -> int:
        return len(self._backlog)

    def put(self, events: Sequence[Event], at: str) -> None:
        with self._turn:
            for event in events:
                self._status.take(event, at)
                if isinstance(event, CheckStarted):
                    self._check = b""
                for said in self.words.tell(event, at):
                    self._backlog.put(said, by_agent=type(event) in _BY_AGENT)

    def say(self, said: Paragraph) -> None:
        with self._turn:
            self._backlog.put(said, by_agent=False)

    def print_check(self, data: bytes) -> None:
        with self._turn:
            self._check = (self._check + data)[-_MOST_CHECK:]

    def take(self) -> Taken | None:
        with self._turn:
            return self._backlog.take()

    def left_out(self) -> int:
        with self._turn:
            return self._backlog.left_out()

    @property
    def status(self) -> RunStatus:
        with self._turn:
            return self._status.status

    def activities(self, now: float) -> list[Activity]:
        """What goes on right now, with the last lines that it printed."""
        with self._turn:
            return activities(
                self._status.status,
                now=now,
                output_of=lambda call: last_lines(self.words.output_of(call), _MOST_OUTPUT),
                check_output=last_lines(self._check.decode("utf-8", "replace"), _MOST_OUTPUT),
                root=self.words.root,
            )


_TURN = 0.1
_FRAME = 0.25
"""Seconds between two looks for keys and events, and between two footers."""

_ONE_RETURN = 1.0
"""Seconds in which two signs that somebody else had the terminal are of one and the same."""

_NOTE = 1.0
"""Seconds between two notes about skipped output."""

_MOST_AT_ONCE = 20
"""Paragraphs that are drawn in one turn: more than anybody reads."""

_MOST_TIME = 0.003
"""Seconds of processor time after which a turn draws no more of them: a busy agent's run needs the processor, too."""

_FEW = 30
"""Paragraphs that may wait while Markdown is rendered."""

_MOST_ACTIVITY = 8
"""Rows for what goes on and what it prints."""

_LONGEST_END = 75.0
"""Seconds that the end of a run waits for its view: somewhat more than an output waits for its reader."""

_TONES = {"ralph": Look.STRONG, "result": Look.STRONG, "note": Look.WARN, "next": Look.ACCENT}


@dataclass(frozen=True, slots=True)
class LiveTerminal:
    """The terminal that a view is drawn in."""

    output: Output
    stdin: TextIO | None
    stdout: TextIO | None
    colour: bool
    continued: Callable[[], int]
    """How often ralph was stopped and went on: somebody else has drawn there since."""
    suspend: Callable[[], None]
    """Stop as Ctrl-Z does; returns when ralph goes on."""


@dataclass(frozen=True, slots=True)
class LiveRun:
    """Facts about a run that are not in its events."""

    limits: Limits
    spent: Spend
    root: str
    seconds: Callable[[], float]
    """How long this start has taken."""
    now: Callable[[], float]
    """The time of day."""


class LiveView:
    """A screen. The run's thread hands over what is to be shown; should the view break, it goes on in plain lines."""

    def __init__(self, terminal: LiveTerminal, course: LiveRun, keys: RunKeys, console: Console) -> None:
        self._feed = _Feed(keys.detail, course)
        self._drawing = _Drawing(terminal, course, keys, self._feed)
        self._console = console
        self._is_over = threading.Event()
        self._fault: Exception | None = None
        try:
            threading.Thread(target=self._live, name="view", daemon=True).start()
        except RuntimeError as error:  # the system has no thread left
            self._fault = error
            self._is_over.set()

    @property
    def is_live(self) -> bool:
        return not self._is_over.is_set()

    def __call__(self, events: Sequence[Event], at: str, lines: bytes) -> None:
        """Take events that were read together; they are drawn soon."""
        if self.is_live:
            if (fault := fault_of(partial(self._feed.put, events, at))) is None:
                self._give_way()
                return
            self.close()
            self._fault = fault
        self._give_way()
        self._console(events, at, lines)

    def say(self, label: str, text: str) -> None:
        """Show words that are no event's."""
        self._feed.say(Paragraph(label, text, _TONES.get(label, Look.QUIET)))
        self._give_way()

    def print_check(self, data: bytes) -> None:
        """Show what the check prints, while it runs."""
        self._feed.print_check(data)

    def close(self) -> None:
        """Draw the rest, remove the footer, and restore the terminal."""
        self._drawing.closing.set()
        self._is_over.wait(_LONGEST_END)
        self._give_way()

    def _give_way(self) -> None:
        """If the view is over, write what it has not drawn as plain lines."""
        if self.is_live:
            return
        if self._fault is not None:
            self._console.say("note", f"the live view failed ({self._fault!r}); using plain text")
            self._fault = None
        undrawn, self._drawing.undrawn = self._drawing.undrawn, []
        for said in undrawn:
            self._write_plain(said)
        while (taken := self._feed.take()) is not None:
            self._write_left_out(taken.left_out)
            self._write_plain(taken.said)
        self._write_left_out(self._feed.left_out())

    def _write_plain(self, said: Said) -> None:
        with contextlib.suppress(Exception):  # what broke the view may break this, and nothing else with it
            self._console.show(self._feed.words.plain(said))

    def _write_left_out(self, number: int) -> None:
        if number:
            self._console.say("", _left_out(number))

    def _live(self) -> None:
        self._fault = fault_of(self._drawing.draw)
        self._is_over.set()


class _Drawing:
    """What the view's own thread does and knows."""

    def __init__(self, terminal: LiveTerminal, course: LiveRun, keys: RunKeys, feed: _Feed) -> None:
        self.closing = threading.Event()
        self._terminal, self._course, self._keys, self._feed = terminal, course, keys, feed
        self._screen = ScrollingScreen(terminal.output, colour=terminal.colour)
        self.undrawn: list[Said] = []
        """Taken and not on the screen yet: should the view break, it is written in plain lines."""
        self._footer: list[Row] = []
        self._size = (0, 0)
        self._tall = 0
        """Rows below what scrolls. A footer that gets smaller leaves them until lines fill them: nothing jumps."""
        self._drawn_at = 0.0
        self._noted_at = 0.0
        self._returns: int = terminal.continued()
        self._returned_at = 0.0

    def draw(self) -> None:
        """Draw until the view is closed, and leave the terminal as it was."""
        with Keyboard(self._terminal.stdin, draws=True) as keyboard:
            try:
                while not self.closing.is_set():
                    self._take_turn(keyboard, keyboard.listen(_TURN))
                self._screen.close(self._rows(is_last=True))
                self.undrawn.clear()
            finally:
                self._screen.close()

    def _take_turn(self, keyboard: Keyboard, keys: Sequence[str]) -> None:
        if Key.SUSPEND in keys:
            self._suspend(keyboard)
        self._keys.press_all([key for key in keys if key is not Key.SUSPEND], self._feed.status)
        self._feed.words.detail = self._keys.detail
        self._look_who_was_here(keyboard)
        if not self._screen.is_clear:
            return  # while the terminal is stopped, what comes waits
        above = [*self._rows()]
        now = time.monotonic()
        if now - self._noted_at >= _NOTE:
            self._noted_at = now
            above += self._left_out(self._feed.left_out())
        is_behind = len(self._feed) > _FEW
        if keys or (above and not is_behind) or now - self._drawn_at >= _FRAME:
            self._drawn_at = now
            self._size = self._screen.size
            is_ours = in_foreground(self._terminal.stdout)
            self._footer = self._footer_rows(has_keys=keyboard.is_heard) if is_ours else []
        self._write(above)
        self.undrawn.clear()

    def _write(self, above: Sequence[Row]) -> None:
        footer, (_, height) = self._footer, self._size
        room = min(self._tall - len(above), height // 2) - len(footer) if footer else 0
        padded: list[Row] = [*([[]] * room), *footer]
        self._screen.write(above, padded)
        self._tall = len(padded)

    def _suspend(self, keyboard: Keyboard) -> None:
        """Stop, with the terminal as a shell expects it."""
        self._screen.close()
        keyboard.give_back()
        self._terminal.suspend()

    def _look_who_was_here(self, keyboard: Keyboard) -> None:
        """Redraw below the output of a shell.

        That ralph was continued and that the terminal is set otherwise are two signs of it, and may come one by one.
        """
        returns, now = self._terminal.continued() + keyboard.returns, time.monotonic()
        if returns != self._returns and now - self._returned_at > _ONE_RETURN:
            self._returned_at, self._drawn_at, self._tall = now, 0.0, 0
            self._screen.forget()
        self._returns = returns

    def _rows(self, *, is_last: bool = False) -> Iterator[Row]:
        """Draw what waits: some of it or, at the end, all of it."""
        columns, begun = self._screen.size[0], time.thread_time()
        quickly = len(self._feed) > _FEW
        for _ in range(len(self._feed) if is_last else _MOST_AT_ONCE):
            if (taken := self._feed.take()) is None:
                break
            self.undrawn.append(taken.said)
            yield from self._left_out(taken.left_out)
            yield from self._feed.words.rows(taken.said, columns, quickly=quickly)
            if not is_last and time.thread_time() - begun > _MOST_TIME:
                break
        if is_last:
            yield from self._left_out(self._feed.left_out())

    def _left_out(self, number: int) -> list[Row]:
        """Say how much was too much to draw; it is counted all the same."""
        if not number:
            return []
        return self._feed.words.rows(Paragraph("", _left_out(number), words=Look.QUIET), self._screen.size[0])

    def _footer_rows(self, *, has_keys: bool) -> list[Row]:
        """What goes on, where the run stands, and what keys do."""
        course, (columns, height), now = self._course, self._size, self._course.now()
        columns -= 1  # see `ScrollingScreen`
        stands = self._feed.status
        room = max(1, min((height - 6) // 3, _MOST_ACTIVITY))
        lines = [
            *activity_lines(self._feed.activities(now), columns=columns, now=now, room=room),
            status_line(stands, columns=columns, now=now, seconds=course.seconds(), limits=course.limits),
            *([self._keys.words(stands, columns)] if has_keys else []),
        ]
        rule = render(Rule(style=style(Look.QUIET)), columns)
        return [*rule[:1], *(row for line in lines for row in render(line, columns)[:1])]


def _left_out(number: int) -> str:
    return f"… {plural(number, 'event')} left out; the log has all of them"
