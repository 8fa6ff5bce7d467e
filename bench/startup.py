"""Start-up: the console script against the bare interpreter, and the way from the command to the agent.

The way to the agent is the time from starting a process to the first instruction of the agent that it starts: `ralph
run` in a ready repository, claude-agent-sdk's `query`, and a shell as the floor.
"""

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from bench.arena import LIMIT_REACHED, Arena, noted_time
from bench.figures import Figure, Unmeasurable, interleave, ratios
from bench.peers import Sdk


def measure(arena: Arena, brief: bool) -> list[Figure]:
    return [*_commands(arena, rounds=15 if brief else 40), *_ways_to_the_agent(arena, rounds=3 if brief else 15)]


def _commands(arena: Arena, rounds: int) -> list[Figure]:
    commands = {
        "floor": [sys.executable, "-I", "-c", "pass"],
        "version": [str(arena.ralph), "--version"],
        "help": [str(arena.ralph), "run", "--help"],
    }
    contestants = {name: lambda argv=argv: time_of(arena, argv) for name, argv in commands.items()}
    interleave(contestants, 2)  # so that the files are in memory
    taken = interleave(contestants, rounds)
    return [
        Figure("`ralph --version` / `python -I -c pass`", ratios(taken["version"], taken["floor"]), target=6),
        Figure("`ralph run --help` / `python -I -c pass`", ratios(taken["help"], taken["floor"]), target=12),
    ]


def time_of(arena: Arena, argv: list[str]) -> float:
    """Time a spawn and its wait, with nothing else between them."""
    silence = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]
    environment = arena.environment({})
    begun = time.perf_counter()
    pid = os.posix_spawn(argv[0], argv, environment, file_actions=silence)
    status = os.waitpid(pid, 0)[1]
    taken = time.perf_counter() - begun
    if status:
        raise Unmeasurable(f"{argv} ended with status {status}")
    return taken


def _ways_to_the_agent(arena: Arena, rounds: int) -> list[Figure]:
    sdk = arena.peers.sdk
    contestants = {
        "ralph": lambda: time_to_the_agent(arena, arena.run_argv("--json"), LIMIT_REACHED),
        "shell": lambda: time_to_the_agent(arena, ["/bin/sh", "-c", f"claude < {arena.prompt}"], 0),
        "python": lambda: time_of(arena, [sys.executable, "-I", "-c", "pass"]),
    }
    if isinstance(sdk, Sdk):
        contestants["sdk"] = lambda: time_to_the_agent(arena, [*sdk.reader, arena.agent], 0)
    interleave(contestants, 1)
    taken = interleave(contestants, rounds)
    what = "from the command to the agent's first instruction"
    return [
        Figure(
            f"{what}: ralph / claude-agent-sdk",
            ratios(taken["ralph"], taken["sdk"]) if "sdk" in taken else [],
            missing=str(sdk) if isinstance(sdk, Unmeasurable) else "",
        ),
        Figure(f"{what}: ralph / `python -I -c pass`, to its end", ratios(taken["ralph"], taken["python"])),
        Figure(f"{what}: ralph", [1000 * seconds for seconds in taken["ralph"]], "ms"),
        Figure(f"{what}: a shell (floor)", [1000 * seconds for seconds in taken["shell"]], "ms"),
    ]


def time_to_the_agent(arena: Arena, argv: Sequence[str | Path], exit_code: int) -> float:
    """Time the way from the command to the agent's first instruction."""
    with arena.repository() as tree:
        begun = time.monotonic_ns()
        with arena.running(argv, tree, {"MODE": "turn"}) as process:
            arena.finish(process, exit_code)
    return (noted_time(arena.born) - begun) / 1e9
