"""The live view of a run: a thread of its own draws what it is handed and hears keys. No fault of it is the run's."""

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TextIO

from ralph.core.errors import fault_of
from ralph.core.events import Event, SessionEnded, Tag, Text, ToolEnd, ToolOutput, ToolStart, ToolStatus
from ralph.core.limits import Limits
from ralph.core.status import StatusFold
from ralph.core.text import plural
from ralph.core.usage import Spend
from ralph.ui.console import Console
from ralph.ui.draw import Line, Tone
from ralph.ui.footer import Footer, RunKeys, status_line
from ralph.ui.keys import Key, Keyboard
from ralph.ui.render import Paragraph
from ralph.ui.terminal import Output, in_foreground
from ralph.ui.transcript import TonedTelling, toned

Item = Event | Paragraph
"""An event, or words that are no event's."""


Taken = tuple[Item, str, bool]
"""An item, the moment it was read, and whether it is passed over: counted then, and not drawn."""

_MOST_BYTES = 4_000_000
"""What waits to be drawn, as it was journaled; of what a view that is that far behind is handed, little is kept."""

_MOST_ITEMS = 100_000
"""What waits at all. A view takes it ten times a second: one that has so much before it has stood still for long."""

_MOST_WAITING = 500
"""Items that are still worth drawing one by one: nobody reads more in a few seconds."""

_MOST_TELLING = 500
"""Of what an agent may say without end, and is drawn all the same, that much at once."""

_KEPT_THOUGHT = 1000
"""Letters that are kept of a thought that is not drawn: it may be a plan."""

_AGENTS = (Text, ToolStart, ToolOutput, ToolEnd)
"""What an agent says and does. All else is rare, and tells where a run stands: it is always drawn."""


def _is_common(item: Item) -> bool:
    """Whether it is one of many of an agent's; a note tells more than that, and the end of a call that has failed."""
    kind = type(item)
    if kind is ToolStart or kind is ToolOutput:
        return True
    if isinstance(item, ToolEnd):
        return item.status is not ToolStatus.FAIL
    return isinstance(item, Text) and item.tag is not Tag.SYS


def _counts(item: Item) -> bool:
    """Whether it is counted if it is not drawn. Of texts a thought is, for it may be a plan."""
    return not isinstance(item, Text) or item.tag is Tag.THINK


def _in_brief(item: Item) -> Item:
    """As much of it as is needed to count it."""
    match item:
        case ToolStart():
            return ToolStart(item.id, item.name, {})
        case ToolOutput():
            return ToolOutput(item.id, "\n" * (item.text.count("\n") + (not item.text.endswith("\n"))))
        case Text(tag=Tag.THINK):
            return Text(Tag.THINK, item.text[:_KEPT_THOUGHT])
        case _:
            return item


def _is_kept(item: Item) -> bool:
    return _counts(item) or not _is_common(item)


class Backlog:
    """One thread puts, another takes. Each figure is written by one of them alone."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Item, str, bool, int]] = deque()
        self._put, self._taken = 0, 0
        self._turned_away, self._passed_over, self._told = 0, 0, 0

    def put(self, items: Sequence[Item], at: str, size: int) -> None:
        """Hand over what was read together, of so many bytes."""
        share = size // max(1, len(items))
        if self._put - self._taken <= _MOST_BYTES:
            self._put += share * len(items)
            self._waiting.extend([(item, at, False, share) for item in items])
            return
        is_full = len(self._waiting) > _MOST_ITEMS
        kept = [item for item in items if (not isinstance(item, _AGENTS) if is_full else _is_kept(item))]
        self._turned_away += len(items) - len(kept)
        self._waiting.extend([(_in_brief(item), at, _is_common(item), 0) for item in kept])

    def take(self, most: int, telling: int = _MOST_TELLING) -> Iterator[Taken]:
        """The next items: whatever has waited too long, most of it passed over, and then so many more.

        One by one: thousands of them, held together, cost more than all that is done with them.
        """
        drawn = 0
        while (waiting := len(self._waiting)) > _MOST_WAITING or (waiting and drawn < most):
            item, at, passed_over, size = self._waiting.popleft()
            self._taken += size
            if waiting > _MOST_WAITING and not passed_over and isinstance(item, _AGENTS):
                passed_over = telling <= 0 or _is_common(item)
                telling -= not passed_over
            if passed_over:
                self._passed_over += 1
            else:
                drawn += 1
            if not passed_over or _counts(item):
                yield item, at, passed_over

    def take_all(self) -> Iterator[Taken]:
        """What is left; of that, too, no more than anybody reads."""
        return self.take(len(self._waiting))

    def left_out(self) -> int:
        """How many items were left out since this was last asked."""
        so_far = self._turned_away + self._passed_over
        told, self._told = self._told, so_far
        return so_far - told


_TURN = 0.1
_FRAME = 0.25
"""Seconds between two looks for keys and events, and between two status lines."""

_ONE_RETURN = 1.0
"""Seconds in which two signs that somebody else had the terminal are of one and the same."""

_NOTE = 1.0
"""Seconds between two notes of what was left out."""

_MOST_AT_ONCE = 50
"""Events that are drawn in one turn: more than anybody reads, and few enough to cost next to nothing."""

_MOST_UNDRAWN = 500
"""Lines that are kept for a terminal that is held still, or are shown at once of what is passed over."""

_LONGEST_END = 75.0
"""Seconds that the end of a run waits for its view: somewhat more than an outlet waits for its reader."""

_TONES = {"ralph": Tone.STRONG, "result": Tone.STRONG, "note": Tone.WARN, "next": Tone.CALM}


@dataclass(frozen=True, slots=True)
class LiveTerminal:
    """The terminal that a view is drawn in."""

    outlet: Output
    stdin: TextIO | None
    stdout: TextIO | None
    colour: bool
    continued: Callable[[], int]
    """How often ralph was stopped and went on: somebody else has drawn there since."""
    suspend: Callable[[], None]
    """Stop as Ctrl-Z does; returns when ralph goes on."""


@dataclass(frozen=True, slots=True)
class LiveRun:
    """What is said of a run besides its events."""

    limits: Limits
    spent: Spend
    root: str
    seconds: Callable[[], float]
    """How long this start has taken."""
    now: Callable[[], float]
    """The time of day."""


class LiveView:
    """A screen. The run's thread hands over what is to be shown; should the view break, it goes on in plain lines."""

    def __init__(self, ground: LiveTerminal, course: LiveRun, reins: RunKeys, console: Console) -> None:
        self._drawing = _Drawing(ground, course, reins)
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
        self._hand_over(events, at, len(lines))

    def say(self, label: str, text: str) -> None:
        """Show words that are no event's."""
        self._hand_over([Paragraph(label, text, _TONES.get(label, Tone.DIM))], "", len(text))

    def close(self) -> None:
        """Have what is left drawn and the foot taken off; the terminal is as it was then."""
        self._drawing.closing.set()
        self._is_over.wait(_LONGEST_END)
        self._give_way()

    def _hand_over(self, items: Sequence[Item], at: str, size: int) -> None:
        self._drawing.backlog.put(items, at, size)
        self._give_way()

    def _give_way(self) -> None:
        """If the view is over, write what it has not drawn as plain lines."""
        if self.is_live:
            return
        if self._fault is not None:
            self._console.say("note", f"the live view has broken ({self._fault!r}); plain lines go on")
            self._fault = None
        undrawn, self._drawing.undrawn = self._drawing.undrawn, []
        for item, at, passed_over in (*undrawn, *self._drawing.backlog.take_all()):
            if isinstance(item, Paragraph):
                self._admit()
                self._console.say(item.label, item.text)
            elif not passed_over:
                with contextlib.suppress(Exception):  # what broke the view may break this, and nothing else with it
                    self._console([item], at, b"")
        self._admit()

    def _admit(self) -> None:
        """Say in plain lines, too, what was left out."""
        if number := self._drawing.backlog.left_out():
            self._console.say("", _left_out(number))

    def _live(self) -> None:
        self._fault = fault_of(self._drawing.draw)
        self._is_over.set()


class _Drawing:
    """What the view's own thread does and knows."""

    def __init__(self, ground: LiveTerminal, course: LiveRun, reins: RunKeys) -> None:
        self.backlog = Backlog()
        self.closing = threading.Event()
        self._ground, self._course, self._reins = ground, course, reins
        self._telling = TonedTelling(reins.detail, course.root)
        self._status = StatusFold(spent=course.spent)
        self._foot = Footer(ground.outlet, colour=ground.colour)
        self.undrawn: list[Taken] = []
        """What was taken, and is not on the screen yet: should the view break, it is told in plain lines."""
        self._unseen: list[Line] = []
        """What was told while the terminal was held still."""
        self._below: list[Line] = []
        self._drawn_at = 0.0
        self._returns: int = ground.continued()
        self._returned_at = 0.0
        self._told_at = 0.0

    def draw(self) -> None:
        """Draw until the view is closed, and leave the terminal as it was."""
        with Keyboard(self._ground.stdin, draws=True) as keyboard:
            try:
                while not self.closing.is_set():
                    self._turn(keyboard, keyboard.listen(_TURN))
                self._foot.take_off([*self._unseen, *self._lines(self.backlog.take_all()), *self._left_out()])
                self.undrawn.clear()
            finally:
                self._foot.take_off()

    def _turn(self, keyboard: Keyboard, keys: Sequence[str]) -> None:
        if Key.SUSPEND in keys:
            self._suspend(keyboard)
        self._reins.press_all([key for key in keys if key is not Key.SUSPEND], self._status.status)
        self._telling.detail = self._reins.detail
        self._look_who_was_here(keyboard)
        if not self._foot.is_clear:  # what waits too long is counted, and told; what is rare is drawn later
            room = _MOST_UNDRAWN - len(self._unseen)
            self._unseen += self._lines(self.backlog.take(0, room), room)
            return
        above = [*self._unseen, *self._lines(self.backlog.take(_MOST_AT_ONCE))]
        self._unseen = []
        now = time.monotonic()
        if now - self._told_at >= _NOTE:
            self._told_at = now
            above += self._left_out()
        if keys or now - self._drawn_at >= _FRAME:
            self._drawn_at = now
            self._below = self._rows(keyboard) if in_foreground(self._ground.stdout) else []
        self._foot.write(above, self._below)
        self.undrawn.clear()

    def _suspend(self, keyboard: Keyboard) -> None:
        """Stop, with the terminal as a shell expects it."""
        self._foot.take_off()
        keyboard.give_back()
        self._ground.suspend()

    def _look_who_was_here(self, keyboard: Keyboard) -> None:
        """Draw anew where a shell has written: below what it wrote.

        That ralph was continued and that the terminal is set otherwise are two signs of it, and may come one by one.
        """
        returns, now = self._ground.continued() + keyboard.returns, time.monotonic()
        if returns != self._returns and now - self._returned_at > _ONE_RETURN:
            self._returned_at, self._drawn_at = now, 0.0
            self._foot.forget()
        self._returns = returns

    def _lines(self, taken: Iterable[Taken], room: int = _MOST_UNDRAWN) -> list[Line]:
        """What to write of them; `room`: how many lines of those that are passed over."""
        lines: list[Line] = []
        for item, at, passed_over in taken:
            if not passed_over:
                self.undrawn.append((item, at, passed_over))
            if isinstance(item, Paragraph | SessionEnded):  # what sums up what came before it
                lines += self._left_out()
            if isinstance(item, Paragraph):
                lines += toned(item)
                continue
            self._status.take(item, at)
            if passed_over:
                plan = self._telling.lines_passed_over(item, at)
                lines += plan if len(lines) < room else ()
                continue
            lines += self._telling.lines(item, at)
        return lines

    def _left_out(self) -> list[Line]:
        """Say what was too much to draw; it is counted all the same."""
        if not (number := self.backlog.left_out()):
            return []
        return toned(Paragraph("", _left_out(number), words=Tone.DIM))

    def _rows(self, keyboard: Keyboard) -> list[Line]:
        """The foot: where the run stands, and what keys do."""
        course, columns, stands = self._course, self._foot.size[0] - 1, self._status.status
        status = status_line(
            stands,
            columns=columns,
            now=course.now(),
            seconds=course.seconds(),
            limits=course.limits,
            root=course.root,
        )
        return [(), status, self._reins.words(stands, columns)] if keyboard.is_heard else [(), status]


def _left_out(number: int) -> str:
    return f"… {plural(number, 'event')} left out; all is in the log"
