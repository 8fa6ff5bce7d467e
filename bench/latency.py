"""Latency: an event's way from the agent's write to the reader of ralph's stdout, on one monotonic clock."""

import os
import re
import statistics
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from bench.arena import LIMIT_REACHED, AgentPlan, Arena
from bench.figures import Figure, Unmeasurable, interleave
from bench.peers import Sdk

_STAMP = re.compile(rb"stamp (\d+)\.")
_GAP_US = 2000
_SIZE = 200
_LONGEST_STAMP = 32
_JUDGED = "ralph, --json"


def measure(arena: Arena, brief: bool) -> list[Figure]:
    events, rounds = (200, 2) if brief else (1000, 7)
    agent: AgentPlan = {"MODE": "stamps", "TEXT": arena.text(_SIZE), "COUNT": events, "GAP_US": _GAP_US}
    commands: dict[str, Sequence[str | Path]] = {
        _JUDGED: arena.run_argv("--json"),
        "ralph, plain": arena.run_argv(),
        "cat (floor)": ["/bin/sh", "-c", f"claude < {arena.prompt} | cat"],
    }
    if isinstance(arena.peers.sdk, Sdk):
        commands["claude-agent-sdk"] = [*arena.peers.sdk.reader, arena.agent, "--echo"]
    taken: dict[str, list[list[float]]] = {name: [] for name in commands}

    def once(name: str) -> float:
        taken[name].append(_delays(arena, commands[name], agent, events))
        return 0.0

    interleave({name: lambda name=name: once(name) for name in commands}, rounds)
    figures: list[Figure] = []
    for name, delays in taken.items():
        target = 1.0 if name == _JUDGED else None
        p50 = [statistics.median(each) for each in delays]
        figures.append(Figure(f"event to stdout, p50: {name}", p50, "ms", target))
        figures.append(Figure(f"event to stdout, p99: {name}", [_p99(each) for each in delays], "ms"))
    return figures


def _p99(values: list[float]) -> float:
    return sorted(values)[int(len(values) * 0.99)]


def _delays(arena: Arena, argv: Sequence[str | Path], agent: AgentPlan, events: int) -> list[float]:
    """Return the milliseconds from each stamp to the read that got it."""
    delays: list[float] = []
    with arena.repository() as tree, arena.running(argv, tree, agent, stdout=subprocess.PIPE) as process:
        rest = b""
        while process.stdout and (chunk := os.read(process.stdout.fileno(), 1 << 16)):
            now = time.monotonic_ns()
            seen = rest + chunk
            end = 0
            for stamp in _STAMP.finditer(seen):
                delays.append((now - int(stamp[1])) / 1e6)
                end = stamp.end()
            rest = seen[max(end, len(seen) - _LONGEST_STAMP) :]
        arena.finish(process, 0, LIMIT_REACHED)
    if len(delays) < events:
        raise Unmeasurable(f"only {len(delays)} of {events} events reached the stdout of {argv}")
    return delays[:events]
