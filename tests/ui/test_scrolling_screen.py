"""A footer below what scrolls, on a real terminal and on one that wraps what no longer fits."""

from __future__ import annotations

import codecs
import os
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

import pytest
from rich.segment import Segment

from ralph.ui.output import Output
from ralph.ui.terminal import Look, Row, ScrollingScreen
from ralph.ui.theme import render, safe, style
from tests.support.hostile import TEXTS, steering
from tests.support.rows import rows
from tests.support.terminal import Screen


def line(text: str, look: Look = Look.PLAIN) -> Row:
    return [Segment(text, style(look))]


TEXT: Row = [Segment("\x1b[2J\u202e\x07")]
BELOW: list[Row] = [[], line("status " * 9, Look.STRONG), line("keys")]


class Sheet:
    """A foot in a real terminal, and what can be seen there."""

    def __init__(self, ours: int, stream: TextIO, columns: int, rows: int) -> None:
        self._ours, self._stream = ours, stream
        self.screen = Screen(columns, rows)
        self.resize(columns, rows)
        self.foot = ScrollingScreen(Output(stream), colour=True)
        self._decoder = codecs.getincrementaldecoder("utf-8")()  # a terminal hands out bytes, not letters
        self.written = ""

    def resize(self, columns: int, rows: int) -> None:
        termios.tcsetwinsize(self._stream.fileno(), (rows, columns))
        self.screen.resize(columns, rows)

    def write(self, above: list[Row], below: list[Row]) -> list[str]:
        self.foot.write(above, below)
        return self.look()

    def look(self) -> list[str]:
        while True:
            try:
                data = os.read(self._ours, 65536)
            except BlockingIOError:
                return self.screen.rows
            self.screen.feed(data)
            self.written += self._decoder.decode(data)


@contextmanager
def sheet(columns: int = 80, rows: int = 24) -> Iterator[Sheet]:
    ours, theirs = os.openpty()
    os.set_blocking(ours, False)
    with os.fdopen(theirs, "w") as stream:
        yield Sheet(ours, stream, columns, rows)
    os.close(ours)


def test_what_is_written_scrolls_above_and_the_foot_stays_below() -> None:
    with sheet(rows=6) as place:
        place.write([line("first")], BELOW)
        for number in range(50):
            place.write([line(f"line {number}")], BELOW)
        assert place.screen.rows == ["line 47", "line 48", "line 49", "", ("status " * 9).strip(), "keys"]
        scrolled = place.screen.text.split("\n")
        assert scrolled[:-3] == ["first", *(f"line {number}" for number in range(50))], "each once, and no foot between"


def test_at_the_end_only_what_has_scrolled_is_left() -> None:
    with sheet() as place:
        place.write([line("one")], BELOW)
        place.foot.close()
        assert place.look() == ["one"]
        assert place.screen.is_as_a_shell_expects


def test_while_there_is_a_foot_what_is_pasted_is_told_from_keys() -> None:
    marked, bare = "\x1b[?2004h", "\x1b[?2004l"
    with sheet() as place:
        place.write([line("one")], [])
        assert marked not in place.written
        place.write([line("two")], BELOW)
        place.write([line("three")], BELOW)
        assert (place.written.count(marked), place.written.count(bare)) == (1, 0)
        place.foot.forget()  # a shell may have set it otherwise
        place.write([], BELOW)
        assert (place.written.count(marked), place.written.count(bare)) == (2, 0)
        place.write([line("farewell")], [])
        place.foot.close()
        place.look()
        assert (place.written.count(marked), place.written.count(bare)) == (2, 1)


def test_what_has_not_changed_is_not_written_again() -> None:
    with sheet() as place:
        place.write([], BELOW)
        before = place.written
        place.write([], BELOW)
        assert place.written == before


def test_under_what_a_shell_has_written_it_is_drawn_anew() -> None:
    with sheet() as place:
        place.write([line("one")], BELOW)
        place.screen.feed(b"\r\n[1]+ Stopped\r\n$ fg\r\n")
        place.foot.forget()
        shown = place.write([line("two")], BELOW)
        assert shown[4:8] == ["[1]+ Stopped", "$ fg", "two", ""]


def test_a_row_that_is_too_long_is_wrapped_by_the_terminal_and_the_footer_is_cut() -> None:
    command = "next       ralph run goal.md --max-iterations 20 --max-cost 12.50"
    with sheet(columns=40) as place:
        shown = place.write([line(command)], BELOW)
        assert command in place.written, "a terminal that wraps it copies it whole"
        assert shown[0] + shown[1] == command
        assert shown[-2].startswith("status status")
        assert len(shown[-2]) < 40
        assert place.write([], [line("one")])[2:] == ["one"]


@pytest.mark.parametrize("columns", [10, 23, 35, 60])
def test_in_a_terminal_that_folds_a_narrower_foot_is_still_taken_off_whole(columns: int) -> None:
    """What tmux makes of the rows, done by hand: pyte, as xterm, cuts them."""
    with sheet(columns=80) as place:
        place.write([line("one")], BELOW)
        place.look()
        folded = [
            text[start : start + columns]
            for text in (("status " * 9).rstrip() + " ", "keys")
            for start in range(0, len(text), columns)
        ]
        place.resize(columns, 24)
        place.screen.feed(b"\x1bcone\r\n\r\n" + "\r\n".join(folded).encode())
        shown = place.write([line("two")], BELOW)
        assert shown[:3] == ["one", "two", ""]
        assert len(shown) == 5


@rows("size", [(1, 1), (2, 2), (9, 24), (80, 1), (80, 2), (80, 3), (500, 200), (0, 0)])
def test_any_size_will_do(size: tuple[int, int]) -> None:
    with sheet() as place:
        place.write([line("one")], BELOW)
        termios.tcsetwinsize(place._stream.fileno(), (size[1], size[0]))  # pyte itself knows no screen of nothing
        for above in ([], [line("two " * 30)], []):
            place.foot.write(above, BELOW)
        place.foot.close()
        place.look()
        assert not steering(place.written)


@rows("name", TEXTS)
def test_nothing_hostile_gets_through(name: str) -> None:
    said = render(safe(TEXTS[name][:5000]), 50)[0] if TEXTS[name].strip() else []
    with sheet(columns=60) as place:
        place.write([said, TEXT], [[], said, TEXT])
        place.write([said], BELOW)
        assert not steering(place.written)
        assert place.screen.title == ""
        assert place.screen.rows[-1] == "keys"
        assert place.screen.is_as_a_shell_expects
