"""The alternate screen: what is written, byte by byte, and what a person sees."""

from __future__ import annotations

import os
import pty
import sys
import termios
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TextIO

import pytest
from rich.segment import Segment

from ralph.ui.output import Output
from ralph.ui.terminal import FullScreen, Look, Row
from ralph.ui.theme import style
from tests.support.terminal import Screen
from tests.support.waiting import kill_tree, wait_until


def line(text: str, look: Look = Look.PLAIN) -> Row:
    return [Segment(text, style(look))]


CLOSED = ("\x1b[?2004l", "\x1b[?7h", "\x1b[?25h", "\x1b[?1049l")
"""What leaves a terminal as a shell expects it."""


class Easel:
    """A full screen in a terminal of its own, and what is to be seen there."""

    def __init__(self, ours: int, stream: TextIO) -> None:
        self._ours, self._stream = ours, stream
        self.screen = Screen(20, 5)
        self.resize(20, 5)
        self.full = FullScreen(Output(stream), colour=True)
        self.written = ""

    @property
    def descriptor(self) -> int:
        return self._stream.fileno()

    def resize(self, columns: int, rows: int) -> None:
        termios.tcsetwinsize(self._stream.fileno(), (rows, columns))
        self.screen.resize(columns, rows)

    def draw(self, rows: Sequence[Row]) -> str:
        """What is written for these rows."""
        self.look()
        before = len(self.written)
        self.full.draw(rows)
        self.look()
        return self.written[before:]

    def look(self) -> list[str]:
        with suppress(BlockingIOError):
            while data := os.read(self._ours, 65536):
                self.screen.feed(data)
                self.written += data.decode()
        return self.screen.rows


@contextmanager
def easel() -> Iterator[Easel]:
    ours, theirs = os.openpty()
    os.set_blocking(ours, False)
    with os.fdopen(theirs, "w") as stream:
        yield Easel(ours, stream)
    os.close(ours)


ROWS = [line("one"), line("two", Look.GOOD), line("three")]


def test_only_what_has_changed_is_written() -> None:
    with easel() as place, place.full:
        place.draw(ROWS)
        assert place.look() == ["one", "two", "three"]
        assert place.draw(ROWS) == ""
        written = place.draw([ROWS[0], line("TWO"), ROWS[2]])
        assert place.look() == ["one", "TWO", "three"]
        assert "\x1b[2;1H" in written
        assert "one" not in written
        assert "three" not in written


def test_the_last_column_of_a_full_row_is_not_erased_again() -> None:
    """After it the cursor waits in the last cell: tmux 3.3a, as xterm, erases that if it is told to erase the rest."""
    with easel() as place, place.full:
        written = place.draw([line("x" * 20), line("y" * 20, Look.GOOD)])
        assert "\x1b[1;1H\x1b[K" + "x" * 20 + "\x1b[2;1H\x1b[K\x1b[32m" + "y" * 20 + "\x1b[0m\x1b[?2026l" in written
        assert place.look() == ["x" * 20, "y" * 20]


def test_rows_that_are_gone_are_cleared_and_those_without_room_are_left_out() -> None:
    with easel() as place, place.full:
        place.draw([line(f"row {number}") for number in range(9)])
        assert place.look() == [f"row {number}" for number in range(5)]
        place.draw([line("alone")])
        assert place.look() == ["alone"]


def test_after_somebody_else_has_written_everything_is_drawn_anew() -> None:
    with easel() as place, place.full:
        place.draw(ROWS)
        place.screen.feed(b"\x1b[1;1H$ fg\r\nsomebody else\r\n")
        assert place.draw(ROWS) == ""
        place.full.redraw()
        place.draw(ROWS)
        assert place.look() == ["one", "two", "three"]


def test_in_a_terminal_of_another_size_everything_is_drawn_anew() -> None:
    with easel() as place, place.full:
        place.draw([line("a row that is too long for it")])
        assert place.look() == ["a row that is too lo"]
        place.resize(40, 3)
        place.draw([line("a row that is too long for it"), *ROWS])
        assert place.look() == ["a row that is too long for it", "one", "two"]


def test_the_terminal_is_left_as_it_was_also_by_a_fault() -> None:
    with easel() as place:
        with suppress(RuntimeError), place.full:
            place.draw(ROWS)
            raise RuntimeError
        place.look()
        closing = place.written[place.written.rindex("three") :]
        assert all(sequence in closing for sequence in CLOSED)
        assert place.screen.is_as_a_shell_expects


def test_what_a_terminal_that_is_held_still_has_not_shown_is_drawn_again() -> None:
    with easel() as place, place.full:
        place.draw(ROWS)
        termios.tcflow(place.descriptor, termios.TCOOFF)
        place.draw([line("never"), *ROWS])
        place.draw([line("seen"), *ROWS])
        assert place.look() == ["one", "two", "three"]
        termios.tcflow(place.descriptor, termios.TCOON)
        place.draw([line("seen"), *ROWS])
        assert place.look() == ["seen", "one", "two", "three"]


_PROGRAM = """
import select, sys, termios
from rich.segment import Segment
from ralph.ui.output import Output
from ralph.ui.terminal import FullScreen
with FullScreen(Output(sys.stdout, in_haste=lambda: True), colour=True) as screen:
    screen.draw([[Segment("ready")]])
    if sys.argv[1] == "off":
        termios.tcflow(1, termios.TCOOFF)
    while select.select([], [1], [], 0.01)[1]:  # until the terminal is held still
        pass
"""


@pytest.mark.parametrize("how", ["off", "Ctrl-S"])
def test_in_a_terminal_that_is_held_still_it_ends_all_the_same(how: str) -> None:
    pid, ours = pty.fork()
    if pid == 0:
        termios.tcsetwinsize(0, (5, 20))
        os.execv(sys.executable, [sys.executable, "-c", _PROGRAM, how])
    written = b""

    def has(words: str) -> bool:
        nonlocal written
        with suppress(OSError):
            written += os.read(ours, 4096)
        return words.encode() in written

    os.set_blocking(ours, False)
    try:
        wait_until(lambda: has("ready"), "the first frame")
        if how == "Ctrl-S":
            os.write(ours, b"\x13")
        for sequence in CLOSED:
            wait_until(lambda sequence=sequence: has(sequence), repr(sequence))
    finally:
        kill_tree(pid)
        os.waitpid(pid, 0)
        os.close(ours)
