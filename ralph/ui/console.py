"""Events as lines a person can read, in any terminal, file or pipe."""

import textwrap
from collections.abc import Callable, Sequence
from typing import Protocol

from ralph.core.events import Event, Waiting
from ralph.core.text import format_clock
from ralph.ui.keys import WAKE_KEY
from ralph.ui.render import COMMANDS, Detail, Divider, Paragraph, PlainTelling
from ralph.ui.terminal import visible, visible_json

_LABEL = 9
_MARGIN = " " * (_LABEL + 2)


class Lines(Protocol):
    """Where lines are written to: an outlet, or what stands before one."""

    @property
    def width(self) -> int | None: ...
    def write(self, text: str) -> None: ...
    def write_bytes(self, data: bytes) -> None: ...


class Console:
    """A screen of plain lines: `label  text`, the label saying who speaks."""

    def __init__(self, outlet: Lines, detail: Detail = Detail.NORMAL, root: str = "") -> None:
        """Write to `outlet`; paths below `root` are shown relative to it."""
        self._outlet = outlet
        self._telling = PlainTelling(detail, root)
        self._wait: Waiting | None = None
        self._countdown = ""

    def __call__(self, events: Sequence[Event], at: str | None, _lines: bytes) -> None:
        """Show events that were read together, `at` this moment if it is known."""
        if self._telling.detail is Detail.QUIET:
            return
        lines = [line for event in events for line in self.lines(event, at)]
        if lines:
            self._write(lines)

    def say(self, label: str, text: str) -> None:
        """Write a line that is no event's: header, recovery, farewell."""
        self._write(_labelled(label, text))

    def tick(self, now: float, *, keys: bool, redraws: bool) -> None:
        """Show a terminal how long a wait still takes: once, if it `redraws` nothing. `keys`: one of them ends it."""
        if self._telling.detail is Detail.QUIET or self._wait is None or (width := self._outlet.width) is None:
            return
        if self._wait.until is None:
            line = "paused: `ralph resume` goes on, `ralph stop` ends the run"
        else:
            left = format_clock(self._wait.until - now)
            line = f"{left} left · `ralph wake`{f' or {WAKE_KEY}' if keys else ''}: go on now"
        if not redraws:
            self._wait = None
            self._write([f"{' ' * (_LABEL + 2)}{line}"])
        elif line != self._countdown:
            self._outlet.write(f"\r{' ' * (_LABEL + 2)}{line}"[:width] + "\x1b[K")
            self._countdown = line

    def end_wait(self) -> None:
        """Take the countdown off the screen."""
        self._wait = None
        if self._countdown:
            self._countdown = ""
            self._outlet.write("\r\x1b[K")

    def close_session(self) -> None:
        """Say what was done and used in a session of which nobody says that it has ended: a log's."""
        self._write([line for said in self._telling.close_session() for line in _lines(said)])

    def _write(self, lines: list[str]) -> None:
        width = self._outlet.width
        if self._countdown:  # what is written below it takes its place
            self._countdown = ""
            self._outlet.write("\r\x1b[K")
        folded = lines if width is None else [part for line in lines for part in _folded(line, width)]
        self._outlet.write("".join(f"{line}\n" for line in folded))

    def lines(self, event: Event, at: str | None) -> list[str]:
        """What to show of an event."""
        if isinstance(event, Waiting):
            self._wait = event
        return [line for said in self._telling.tell(event, at) for line in _lines(said)]


def _lines(said: Paragraph | Divider) -> list[str]:
    return [f"── {said.what} " + "─" * 40] if isinstance(said, Divider) else _labelled(said.label, said.text)


def _folded(line: str, width: int) -> list[str]:
    """Fold a line at the terminal's edge, between words, keeping the column of labels free; a command stays whole."""
    if line[:_LABEL].rstrip() in COMMANDS:
        return [line]
    if len(line) <= width or line.startswith("──"):  # a rule is cut
        return [line[:width]]
    words = line.lstrip()
    indent = line[: len(line) - len(words)]
    below = indent or " " * (_LABEL + 2)
    wrapped = textwrap.wrap(
        words, max(width, 40), initial_indent=indent, subsequent_indent=below, break_on_hyphens=False
    )
    return wrapped or [""]


def _labelled(label: str, text: str) -> list[str]:
    first, *rest = visible(text).rstrip().expandtabs(4).splitlines() or [""]
    line = f"{visible(label):<{_LABEL}}  {first}".rstrip()
    return [line, *(f"{_MARGIN}{line}".rstrip() for line in rest)] if rest else [line]


def json_screen(outlet: Lines) -> Callable[[Sequence[Event], str, bytes], None]:
    """A screen for programs: every event as the line that was journaled."""

    def show(_events: Sequence[Event], _at: str, lines: bytes) -> None:
        write_json(outlet, lines)

    return show


def write_json(outlet: Lines, lines: bytes) -> None:
    """Write lines of JSON: to a program as they are, to a terminal without anything that could steer it."""
    is_terminal = outlet.width is not None
    outlet.write_bytes(visible_json(lines.decode("utf-8", "replace")).encode("ascii") if is_terminal else lines)
