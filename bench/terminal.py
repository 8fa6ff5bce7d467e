"""A process in a real terminal of 120 columns and 40 rows, which is read as fast as it prints."""

import os
import pty
import resource
import select
import termios
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_ROWS_AND_COLUMNS = (40, 120)


@dataclass(frozen=True, slots=True)
class Shown:
    """How a process in a terminal ended, and everything it printed."""

    exit_code: int
    output: bytes
    ended_at: int
    """On the monotonic clock, in nanoseconds."""
    used: resource.struct_rusage


def run_in_terminal(argv: list[str], cwd: Path, environment: Mapping[str, str]) -> Shown:
    """Run a command in a terminal of its own until it ends."""
    pid, terminal = pty.fork()
    if pid == 0:
        termios.tcsetwinsize(0, _ROWS_AND_COLUMNS)
        os.chdir(cwd)
        os.execve(argv[0], argv, {**environment, "TERM": "xterm-256color"})  # noqa: S606 - no shell is wanted
    output = _read(terminal)
    _, status, used = os.wait4(pid, 0)
    ended_at = time.monotonic_ns()
    os.close(terminal)
    return Shown(os.waitstatus_to_exitcode(status), output, ended_at, used)


def _read(terminal: int) -> bytes:
    chunks: list[bytes] = []
    while True:
        select.select([terminal], [], [])
        try:
            chunks.append(os.read(terminal, 65536))
        except OSError:  # EIO: the last process that had it open is gone
            return b"".join(chunks)
