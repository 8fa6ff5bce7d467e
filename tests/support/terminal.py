"""A real pseudo-terminal with ralph in it: keys go in, what is on the screen comes out."""

from __future__ import annotations

import os
import pty
import select
import sys
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.waiting import comes_true, kill_tree


class RalphInTerminal:
    """`ralph args…` in the foreground of a terminal of its own; at the end of its `with` block it is gone."""

    def __init__(self, args: Sequence[str], cwd: Path, env: Mapping[str, str], columns: int = 80) -> None:
        self._said = b""
        self._exit_code: int | None = None
        argv = [sys.executable, "-P", "-m", "ralph", *args]
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            os.chdir(cwd)
            os.execve(argv[0], argv, {"TERM": "xterm", **env})
        termios.tcsetwinsize(self._terminal, (24, columns))

    def press(self, keys: str) -> None:
        os.write(self._terminal, keys.encode())

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
        return self._said.decode("utf-8", "replace")

    @property
    def echoes(self) -> bool:
        """Whether the terminal shows what is typed, as a shell expects."""
        return bool(termios.tcgetattr(self._terminal)[3] & termios.ECHO)

    def reset(self) -> None:
        """Set the terminal as a shell likes it: it does so when the program is stopped, and goes on later."""
        settings = termios.tcgetattr(self._terminal)
        settings[3] |= termios.ICANON | termios.ECHO
        termios.tcsetattr(self._terminal, termios.TCSANOW, settings)

    def wait(self, timeout: float = 60) -> int:
        """Wait for its end and return its exit code."""
        if not comes_true(self._has_ended, timeout):
            raise AssertionError(f"ralph was still running after {timeout:g} s:\n{self.said}")
        assert self._exit_code is not None
        return self._exit_code

    def _has_ended(self) -> bool:
        _ = self.said  # a terminal that nobody reads holds its writer up
        if self._exit_code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._exit_code = os.waitstatus_to_exitcode(status)
        return self._exit_code is not None

    def __enter__(self) -> RalphInTerminal:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._has_ended():
            kill_tree(self.pid)
            os.waitpid(self.pid, 0)
        os.close(self._terminal)
