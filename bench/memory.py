"""Memory of ralph's own processes, the agent apart: over a long stream, over one long line, and at rest."""

import contextlib
import subprocess
import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.arena import LIMIT_REACHED, Arena, Unmeasurable
from bench.figures import Figure
from bench.processes import MIB, kernel_bytes

_LINE = 64 * MIB
_START_LIMIT = 30.0
_PAUSE_US = 500_000
_REST = 1.0


def measure(arena: Arena, *, rounds: int, stream_rounds: int, megabytes: int) -> list[Figure]:
    pairs = megabytes * 1_000_000 // 4000
    streams = [_stream(arena, {"MODE": "stream", "SIZE": 2000, "COUNT": pairs}) for _ in range(stream_rounds)]
    lines = [_stream(arena, {"MODE": "line", "SIZE": _LINE}) for _ in range(rounds)]
    growth = [(stream.peak - stream.start) / MIB for stream in streams]
    return [
        Figure(f"{megabytes} MB stream: peak RSS - RSS at start", growth, "MiB", 40),
        Figure("one line of 64 MiB: ralph's peak RSS / the line", [line.highest / _LINE for line in lines]),
        Figure("at rest, agent silent: PSS", [_rest(arena) for _ in range(rounds)], "MiB", 35),
    ]


@dataclass(frozen=True, slots=True)
class _Memory:
    """RSS over the processes that ralph has when its agent begins, then and at most; `highest`: of the largest one."""

    start: int
    peak: int
    highest: int


def _stream(arena: Arena, agent: dict[str, str | int]) -> _Memory:
    with arena.repository() as tree, _started(arena, tree, agent | {"PAUSE_US": _PAUSE_US}) as process:
        start = {pid: kernel_bytes(pid, "status", "VmRSS") for pid in _own(arena, process.pid)}
        peak = dict(start)
        while process.poll() is None:
            for pid in start:  # not the git that commits in the end
                peak[pid] = max(peak[pid], kernel_bytes(pid, "status", "VmHWM"))
            time.sleep(0.02)
        arena.finish(process, LIMIT_REACHED)
    return _Memory(sum(start.values()), sum(peak.values()), max(peak.values()))


def _rest(arena: Arena) -> float:
    with arena.repository() as tree, _started(arena, tree, {"MODE": "hang"}) as process:
        time.sleep(_REST)
        return sum(kernel_bytes(pid, "smaps_rollup", "Pss") for pid in _own(arena, process.pid)) / MIB


@contextlib.contextmanager
def _started(arena: Arena, tree: Path, agent: dict[str, str | int]) -> Generator[subprocess.Popen[bytes]]:
    """Start ralph, and wait until its agent thinks."""
    arena.started.unlink(missing_ok=True)
    with arena.running(arena.run_argv(iterations=1), tree, agent) as process:
        deadline = time.monotonic() + _START_LIMIT
        while not arena.started.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                raise Unmeasurable("ralph did not bring its message to the agent")
            time.sleep(0.01)
        time.sleep(_PAUSE_US / 2e6)
        yield process


def _own(arena: Arena, pid: int) -> list[int]:
    """ralph and what it has started for itself: all but the agent."""
    found: list[int] = []
    with contextlib.suppress(psutil.Error):
        whole = psutil.Process(pid)
        for process in (whole, *whole.children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                if process.exe() != str(arena.agent):
                    found.append(process.pid)
    return found
