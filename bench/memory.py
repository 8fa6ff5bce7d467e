"""Memory of ralph's own processes, without the agent: over a long stream, over one long line, and at rest."""

import contextlib
import subprocess
import time
from collections.abc import Generator
from pathlib import Path

import psutil

from bench.arena import LIMIT_REACHED, AgentPlan, Arena
from bench.figures import Figure, Unmeasurable
from bench.processes import MIB, kernel_bytes

_SIZE = 2000
_LINE = 60_000_000
_START_LIMIT = 30.0
_PAUSE_US = 500_000
_REST = 1.0


def measure(arena: Arena, brief: bool) -> list[Figure]:
    megabytes, stream_rounds, rounds = (60, 1, 2) if brief else (500, 2, 5)
    stream: AgentPlan = {"MODE": "stream", "TEXT": arena.text(_SIZE), "COUNT": megabytes * 1_000_000 // (2 * _SIZE)}
    line: AgentPlan = {"MODE": "line", "TEXT": arena.text(_LINE)}
    growth = [_grown(arena, stream) / MIB for _ in range(stream_rounds)]
    by_line = [_grown(arena, line) / _LINE for _ in range(rounds)]
    return [
        Figure(f"{megabytes} MB stream: peak RSS - RSS at start", growth, "MiB", 40),
        Figure("one line of 60 MB: (peak RSS - RSS at start) / the line", by_line, target=3),
        Figure("at rest, agent silent: PSS", [_rest(arena) for _ in range(rounds)], "MiB", 35),
    ]


def _grown(arena: Arena, agent: AgentPlan) -> int:
    """Return how much the processes that ralph has when its agent starts grow until its end, in bytes."""
    with arena.repository() as tree, _started(arena, tree, {**agent, "PAUSE_US": _PAUSE_US}) as process:
        start = {pid: kernel_bytes(pid, "status", "VmRSS") for pid in _own(arena, process.pid)}
        peak = dict(start)
        while process.poll() is None:
            for pid in start:  # not the git that commits in the end
                peak[pid] = max(peak[pid], kernel_bytes(pid, "status", "VmHWM"))
            time.sleep(0.02)
        arena.finish(process, LIMIT_REACHED)
    return sum(peak.values()) - sum(start.values())


def _rest(arena: Arena) -> float:
    with arena.repository() as tree, _started(arena, tree, {"MODE": "hang"}) as process:
        time.sleep(_REST)
        return sum(kernel_bytes(pid, "smaps_rollup", "Pss") for pid in _own(arena, process.pid)) / MIB


@contextlib.contextmanager
def _started(arena: Arena, tree: Path, agent: AgentPlan) -> Generator[subprocess.Popen[bytes]]:
    """Start ralph, and wait until its agent has its message."""
    arena.started.unlink(missing_ok=True)
    with arena.running(arena.run_argv("--json"), tree, agent) as process:
        deadline = time.monotonic() + _START_LIMIT
        while not arena.started.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                raise Unmeasurable("ralph sent no message to the agent")
            time.sleep(0.01)
        time.sleep(_PAUSE_US / 2e6)
        yield process


def _own(arena: Arena, pid: int) -> list[int]:
    """Return ralph and its children, without the agent."""
    found: list[int] = []
    with contextlib.suppress(psutil.Error):
        whole = psutil.Process(pid)
        for process in (whole, *whole.children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                if process.exe() != str(arena.agent):
                    found.append(process.pid)
    return found
