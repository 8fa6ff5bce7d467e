"""A process in a real terminal, of 120 columns and 40 rows as a rule, which is read as fast as it prints."""

import contextlib
import os
import pty
import resource
import select
import signal
import termios
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.figures import Unmeasurable
from bench.processes import processor_seconds

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
    pid, terminal = _started(argv, cwd, environment, _ROWS_AND_COLUMNS)
    output = _read(terminal)
    _, status, used = os.wait4(pid, 0)
    ended_at = time.monotonic_ns()
    os.close(terminal)
    return Shown(os.waitstatus_to_exitcode(status), output, ended_at, used)


_SETTLED = 5.0
"""Seconds after the start that are not counted."""
_LONGEST_END = 30.0
_BEAT = 0.5


@dataclass(frozen=True, slots=True)
class Drawn:
    """What a command that goes on for long takes and writes, once it has settled."""

    share: float
    """Percent of one core; of a command that starts agents, without them."""
    output: bytes


def draw_in_terminal(
    argv: list[str],
    cwd: Path,
    environment: Mapping[str, str],
    seconds: float,
    *,
    size: tuple[int, int] = _ROWS_AND_COLUMNS,
    beat: Callable[[float], None] = lambda _: None,
) -> Drawn:
    """Watch a command in a terminal for so long, then end it; `beat` is told every half second how long it has been."""
    with _running(argv, cwd, environment, size) as (process, terminal):
        _read_for(terminal, _SETTLED, lambda _: None)
        ours = [process, *(each for each in process.children() if each.exe() == process.exe())]  # ralph's guardian
        before, begun = sum(map(processor_seconds, ours)), time.monotonic()
        output = _read_for(terminal, seconds, beat)
        used, took = sum(map(processor_seconds, ours)) - before, time.monotonic() - begun
    return Drawn(100 * used / took, output)


@contextlib.contextmanager
def _running(
    argv: list[str], cwd: Path, environment: Mapping[str, str], size: tuple[int, int]
) -> Generator[tuple[psutil.Process, int]]:
    pid, terminal = _started(argv, cwd, environment, size)
    process = psutil.Process(pid)
    try:
        yield process, terminal
    except (psutil.Error, OSError) as error:
        raise Unmeasurable(f"{argv} has ended: {error}") from error
    finally:
        with contextlib.suppress(psutil.Error, OSError):
            process.send_signal(signal.SIGTERM)
            _read_for(terminal, _LONGEST_END, lambda _: None)
        os.kill(pid, signal.SIGKILL)  # nobody has waited for it: the id is still its own
        os.waitpid(pid, 0)
        os.close(terminal)


def _started(argv: list[str], cwd: Path, environment: Mapping[str, str], size: tuple[int, int]) -> tuple[int, int]:
    pid, terminal = pty.fork()
    if pid == 0:
        termios.tcsetwinsize(0, size)
        os.chdir(cwd)
        os.execve(argv[0], argv, {**environment, "TERM": "xterm-256color"})  # noqa: S606 - no shell is wanted
    return pid, terminal


def _read_for(terminal: int, seconds: float, beat: Callable[[float], None]) -> bytes:
    """Read a terminal for so long; an OSError once the last process that had it open is gone."""
    chunks: list[bytes] = []
    begun, next_beat = time.monotonic(), 0.0
    while (passed := time.monotonic() - begun) < seconds:
        if passed >= next_beat:
            beat(passed)
            next_beat += _BEAT
        if select.select([terminal], [], [], max(0.0, min(next_beat, seconds) - passed))[0]:
            chunks.append(os.read(terminal, 1 << 16))
    return b"".join(chunks)


def _read(terminal: int) -> bytes:
    chunks: list[bytes] = []
    while True:
        select.select([terminal], [], [])
        try:
            chunks.append(os.read(terminal, 65536))
        except OSError:  # EIO: the last process that had it open is gone
            return b"".join(chunks)
