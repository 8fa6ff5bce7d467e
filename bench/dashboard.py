"""Dashboard: the cost of fifty rows that all change four times a second, in a real terminal of 200 by 60.

The figure is the processor time of the whole process that draws, from its first frames on. Reading the goals from the
queue counts, starting the process doesn't.
"""

import os
import pty
import select
import shutil
import sys
import tempfile
import termios
import time
from pathlib import Path

import psutil

from bench import drawn
from bench.arena import Arena
from bench.figures import Figure, Unmeasurable, interleave, ratios
from bench.processes import processor_seconds

_HERE = Path(__file__).parent.parent
_ROWS, _COLUMNS = 60, 200
_SETTLED = 2.0
"""Seconds after the first output that are not counted."""
_LONGEST_START = 60.0
_NAMES = {"ralph": "ralph", "rich": "a rich table, rebuilt", "lines": "lines by hand (floor)"}


def measure(arena: Arena, brief: bool) -> list[Figure]:
    seconds, rounds = (3.0, 2) if brief else (6.0, 5)
    folder = Path(tempfile.mkdtemp(prefix="queue-", dir=arena.root))
    drawn.fill(folder)
    taken = interleave({name: lambda name=name: _share(arena, name, folder, seconds) for name in _NAMES}, rounds)
    shutil.rmtree(folder)
    what = f"{drawn.GOALS} busy rows, {drawn.FRAMES} frames a second, share of a core"
    return [
        Figure(f"{what}: {_NAMES['ralph']}", taken["ralph"], "%", 5.0),
        *(Figure(f"{what}: {_NAMES[name]}", taken[name], "%") for name in ("rich", "lines")),
        Figure("the rich table's share / ralph's", ratios(taken["rich"], taken["ralph"]), "x"),
    ]


def _share(arena: Arena, contestant: str, folder: Path, seconds: float) -> float:
    """Return the percentage of one core that a contestant takes while it draws."""
    argv = [sys.executable, "-m", "bench.drawn", contestant, str(folder)]
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(_HERE)
        termios.tcsetwinsize(0, (_ROWS, _COLUMNS))
        os.execve(argv[0], argv, {**arena.environment({}), "TERM": "xterm-256color"})  # noqa: S606
    try:
        process = psutil.Process(pid)
        if not select.select([terminal], [], [], _LONGEST_START)[0]:
            raise Unmeasurable(f"the dashboard of {contestant} printed nothing")
        _read(terminal, _SETTLED)
        before, begun = processor_seconds(process), time.monotonic()
        drew = _read(terminal, seconds)
        used, took = processor_seconds(process) - before, time.monotonic() - begun
    except (psutil.Error, OSError) as error:
        raise Unmeasurable(f"the dashboard of {contestant} has ended: {error}") from error
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        os.close(terminal)
    least = seconds * drawn.FRAMES * drawn.GOALS * 20  # bytes: all rows, each frame
    if drew < least:
        raise Unmeasurable(f"the dashboard of {contestant} drew {drew} bytes, not {least:.0f}")
    return 100 * used / took


def _read(terminal: int, seconds: float) -> int:
    """Read the terminal for so long; return the number of bytes."""
    read, deadline = 0, time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        if select.select([terminal], [], [], left)[0]:
            read += len(os.read(terminal, 1 << 16))
    return read
