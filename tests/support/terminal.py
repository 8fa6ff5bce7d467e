"""A real pseudo-terminal with ralph or a shell in it: keys go in, what is on the screen comes out, as people see it."""

from __future__ import annotations

import itertools
import os
import pty
import select
import sys
import termios
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self

import pyte
import pyte.modes
import pyte.screens
import pytest

from tests.support.waiting import PATIENCE, WITNESSES, comes_true, kill_tree, wait_until

_ROWS = 24
_BEGIN, _END = b"\x1b[?2026h", b"\x1b[?2026l"
"""Around what a terminal is to show at once."""


class Screen:
    """What a terminal shows of all that was written to it, and what has scrolled away."""

    def __init__(self, columns: int, rows: int = _ROWS) -> None:
        self._screen = pyte.HistoryScreen(columns, rows, history=100_000)
        self._stream = pyte.ByteStream(self._screen)
        self._held = b""

    def feed(self, data: bytes) -> None:
        """Show what was written; half a frame is not shown before its end, as a terminal of today has it."""
        self._held += data
        begun = self._held.rfind(_BEGIN)
        whole = len(self._held) if begun < 0 or _END in self._held[begun:] else begun
        for length in range(1, len(_BEGIN)):  # what may be half of the word that begins one
            if self._held.endswith(_BEGIN[:length]):
                whole = min(whole, len(self._held) - length)
        self._stream.feed(self._held[:whole])
        self._held = self._held[whole:]

    def resize(self, columns: int, rows: int) -> None:
        """Cut what no longer fits, as xterm does; others fold it."""
        self._screen.resize(rows, columns)

    @property
    def rows(self) -> list[str]:
        """The rows that can be seen, without the empty ones below."""
        return "\n".join(row.rstrip() for row in self._screen.display).rstrip("\n").split("\n")

    @property
    def looks(self) -> str:
        """The rows that can be seen, with what is not plain in brackets: `[bold red|failed]`."""
        return "\n".join(
            "".join(_marked(self._screen.buffer[row], self._screen.columns)) for row in range(len(self.rows))
        )

    @property
    def colours(self) -> set[tuple[str, str]]:
        """The colours of letters, each with that of what is behind it."""
        letters = [letter for row in self._screen.buffer.values() for letter in row.values() if letter.data.strip()]
        return {(letter.fg, letter.bg) for letter in letters}

    @property
    def text(self) -> str:
        """Everything from the first line on, also what has scrolled away."""
        history = ["".join(row[column].data for column in sorted(row)).rstrip() for row in self._screen.history.top]
        return "\n".join([*history, *self.rows])

    @property
    def title(self) -> str:
        return self._screen.title

    @property
    def is_as_a_shell_expects(self) -> bool:
        """The cursor is to be seen, lines wrap, nothing is coloured."""
        modes = self._screen.mode
        plain = self._screen.cursor.attrs == self._screen.default_char
        return not self._screen.cursor.hidden and pyte.modes.DECAWM in modes and plain


def _marked(row: Mapping[int, pyte.screens.Char], columns: int) -> Iterator[str]:
    """Yield runs of letters that look alike."""
    letters = [row[column] for column in range(columns)]
    while letters and letters[-1].data == " " and not letters[-1].reverse:
        letters.pop()
    for look, run in itertools.groupby(letters, key=_look):
        text = "".join(letter.data for letter in run)
        yield f"[{look}|{text}]" if look and text.strip() else text


def _look(letter: pyte.screens.Char) -> str:
    named = {"bold": letter.bold, "reverse": letter.reverse, "italics": letter.italics}
    words = [name for name, is_so in named.items() if is_so]
    return " ".join([*words, *([letter.fg] if letter.fg != "default" else [])])


def read_terminal(descriptor: int) -> bytes:
    """All that was written on the other side so far: one read may return the first of it, while the rest is on its way.

    Only who asks whether there is more has the kernel hand over what it holds back (Linux: `n_tty_poll`).
    """
    data = b""
    while select.select([descriptor], [], [], 0)[0]:
        data += os.read(descriptor, 65536)
    return data


class InTerminal:
    """A program in the foreground of a terminal of its own; at the end of its `with` block it is gone."""

    def __init__(
        self, argv: Sequence[str], cwd: Path, env: Mapping[str, str], columns: int = 80, rows: int = _ROWS
    ) -> None:
        self._said = b""
        self._exit_code: int | None = None
        self.screen = Screen(columns, rows)
        size = (rows, columns)
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            termios.tcsetwinsize(0, size)
            os.chdir(cwd)
            os.execve(argv[0], list(argv), {"TERM": "xterm", **env})

    def press(self, keys: str) -> None:
        os.write(self._terminal, keys.encode())

    def resize(self, columns: int, rows: int = _ROWS) -> None:
        """Change the terminal's size, as a person does who pulls at its corner."""
        _ = self.said
        self.screen.resize(columns, rows)
        termios.tcsetwinsize(self._terminal, (rows, columns))

    @property
    def said(self) -> str:
        """All that it has written so far, with every escape sequence."""
        while self._said is not None and select.select([self._terminal], [], [], 0)[0]:
            try:
                data = os.read(self._terminal, 65536)
            except OSError:  # the other side is closed
                break
            if not data:
                break
            self._said += data
            self.screen.feed(data)
        return self._said.decode("utf-8", "replace")

    @property
    def rows(self) -> list[str]:
        """What can be seen right now."""
        _ = self.said
        return self.screen.rows

    @property
    def text(self) -> str:
        """What can be seen, and scrolled to."""
        _ = self.said
        return self.screen.text

    def shows(self, words: str, timeout: float = PATIENCE) -> None:
        """Wait until the words can be seen; fail the test when they never are, at once when the program has ended."""
        wait_until(lambda: self._is_seen(words) or self._has_ended(), f"{words!r} on the screen", timeout)
        if not self._is_seen(words):
            pytest.fail(f"it ended without {words!r} on the screen\n{self._testimony()}")

    def _is_seen(self, words: str) -> bool:
        return any(words in row for row in self.rows)

    def _testimony(self) -> str:
        state = "has ended" if self._has_ended() else "still runs"
        return "\n".join([f"process {self.pid} {state}; its screen:", *self.rows])

    @property
    def echoes(self) -> bool:
        """Whether the terminal shows what is typed, as a shell expects."""
        return bool(termios.tcgetattr(self._terminal)[3] & termios.ECHO)

    def reset(self) -> None:
        """Set the terminal as a shell likes it: it does so when the program is stopped, and goes on later."""
        settings = termios.tcgetattr(self._terminal)
        settings[3] |= termios.ICANON | termios.ECHO
        termios.tcsetattr(self._terminal, termios.TCSANOW, settings)

    def wait(self, timeout: float = 180) -> int:
        """Wait for its end and return its exit code."""
        if not comes_true(self._has_ended, timeout):
            pytest.fail(f"it was still running after {timeout:g} s:\n{self.said}\n{self._testimony()}")
        assert self._exit_code is not None
        return self._exit_code

    def _has_ended(self) -> bool:
        _ = self.said  # a terminal that nobody reads holds its writer up
        if self._exit_code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._exit_code = os.waitstatus_to_exitcode(status)
        return self._exit_code is not None

    def __enter__(self) -> Self:
        WITNESSES.append(self._testimony)
        return self

    def __exit__(self, *_: object) -> None:
        WITNESSES.remove(self._testimony)
        if not self._has_ended():
            kill_tree(self.pid)
            os.waitpid(self.pid, 0)
        os.close(self._terminal)


class RalphInTerminal(InTerminal):
    """`ralph args…`, or another module of its."""

    def __init__(
        self,
        args: Sequence[str],
        cwd: Path,
        env: Mapping[str, str],
        columns: int = 80,
        rows: int = _ROWS,
        module: str = "ralph",
    ) -> None:
        super().__init__([sys.executable, "-P", "-m", module, *args], cwd, env, columns, rows)
