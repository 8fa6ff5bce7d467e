"""Events as lines a person can read, in any terminal, file or pipe."""

import textwrap
from collections.abc import Callable, Sequence
from typing import Protocol

from ralph.core.events import Event, Waiting
from ralph.core.text import format_clock
from ralph.ui.keys import WAKE_KEY
from ralph.ui.render import COMMANDS, Detail, Divider, FinishedCall, PlainRenderer, Said
from ralph.ui.terminal import LineInPlace, visible, visible_json

_LABEL = 9
_MARGIN = " " * (_LABEL + 2)


class Lines(Protocol):
    """Where lines are written to: an output, or what stands before one."""

    @property
    def width(self) -> int | None: ...
    def write(self, text: str) -> None: ...
    def write_bytes(self, data: bytes) -> None: ...


class Console:
    """A screen of plain lines: `label  text`, the label saying who speaks."""

    def __init__(self, output: Lines, detail: Detail = Detail.NORMAL, root: str = "") -> None:
        """Write to `output`; paths below `root` are shown relative to it."""
        self._output = output
        self._words = PlainRenderer(detail, root)
        self._wait: Waiting | None = None
        self._countdown = LineInPlace(output.write)

    def __call__(self, events: Sequence[Event], at: str | None, _lines: bytes) -> None:
        """Show events that were read together, `at` this moment if it is known."""
        if self._words.detail is Detail.QUIET:
            return
        width = self._output.width
        if lines := [line for event in events for line in self._lines_of(event, at, width)]:
            self._write(lines)

    def say(self, label: str, text: str) -> None:
        """Write a line that is no event's: header, recovery, farewell."""
        self._write(_labelled(label, text, self._output.width))

    def show(self, said: Said) -> None:
        """Write what a live view has not drawn."""
        self._write(_lines(said, self._output.width))

    def tick(self, now: float, *, keys: bool, redraws: bool) -> None:
        """Show a terminal how long a wait still takes: once, if it `redraws` nothing. `keys`: one of them ends it."""
        if self._words.detail is Detail.QUIET or self._wait is None or (width := self._output.width) is None:
            return
        if self._wait.until is None:
            line = "paused: `ralph resume` continues, `ralph stop` stops the run"
        else:
            left = format_clock(self._wait.until - now)
            line = f"{left} left · `ralph wake`{f' or {WAKE_KEY}' if keys else ''}: continue now"
        if not redraws:
            self._wait = None
            self._write(_labelled("", line, width))
        else:
            self._countdown.show(f"{_MARGIN}{line}", width - 1)

    def end_wait(self) -> None:
        """Take the countdown off the screen."""
        self._wait = None
        self._countdown.clear()

    def close_session(self) -> None:
        """Report tools and usage of a session without an end event, as in a log."""
        width = self._output.width
        self._write([line for said in self._words.close_session() for line in _lines(said, width)])

    def _write(self, lines: list[str]) -> None:
        self._countdown.clear()  # the new lines take its place
        self._output.write("".join(f"{line}\n" for line in lines))

    def _lines_of(self, event: Event, at: str | None, width: int | None) -> list[str]:
        if isinstance(event, Waiting):
            self._wait = event
        return [line for said in self._words.tell(event, at) for line in _lines(said, width)]


def _lines(said: Said, width: int | None) -> list[str]:
    match said:
        case Divider():
            return [f"── {said.what} {'─' * 40}"[:width]]
        case FinishedCall():
            return []  # plain lines get theirs as paragraphs
        case _:
            return _labelled(said.label, said.text, width)


def _folded(line: str, width: int) -> list[str]:
    """Fold a line at the terminal's edge, between words, keeping the column of labels free."""
    if len(line) <= width:
        return [line]
    words = line.lstrip()
    indent = line[: len(line) - len(words)]
    below = indent or " " * (_LABEL + 2)
    wrapped = textwrap.wrap(
        words, max(width, 40), initial_indent=indent, subsequent_indent=below, break_on_hyphens=False
    )
    return wrapped or [""]


def _labelled(label: str, text: str, width: int | None) -> list[str]:
    """Return the lines of a paragraph, folded to a terminal's `width`; a command to copy stays whole."""
    first, *rest = visible(text).rstrip().expandtabs(4).splitlines() or [""]
    line = f"{visible(label):<{_LABEL}}  {first}".rstrip()
    lines = [line, *(f"{_MARGIN}{line}".rstrip() for line in rest)] if rest else [line]
    return lines if width is None or label in COMMANDS else [part for each in lines for part in _folded(each, width)]


def json_screen(output: Lines) -> Callable[[Sequence[Event], str, bytes], None]:
    """A screen for programs: every event as the line that was journaled."""

    def show(_events: Sequence[Event], _at: str, lines: bytes) -> None:
        write_json(output, lines)

    return show


def write_json(output: Lines, lines: bytes) -> None:
    """Write lines of JSON: to a program as they are, to a terminal without anything that could steer it."""
    is_terminal = output.width is not None
    output.write_bytes(visible_json(lines.decode("utf-8", "replace")).encode("ascii") if is_terminal else lines)
