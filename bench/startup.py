"""Start-up: the installed console script against the bare interpreter."""

import os
import time
from pathlib import Path

from bench.arena import Arena, Unmeasurable
from bench.figures import Figure, interleave, ratios


def measure(arena: Arena, *, python: Path, rounds: int) -> list[Figure]:
    commands = {
        "floor": [str(python), "-I", "-c", "pass"],
        "version": [str(arena.ralph), "--version"],
        "help": [str(arena.ralph), "run", "--help"],
    }
    contestants = {name: lambda argv=argv: _seconds(arena, argv) for name, argv in commands.items()}
    interleave(contestants, 2)  # the files are in memory then
    taken = interleave(contestants, rounds)
    return [
        Figure("`ralph --version` / `python -I -c pass`", ratios(taken["version"], taken["floor"]), target=6),
        Figure("`ralph run --help` / `python -I -c pass`", ratios(taken["help"], taken["floor"]), target=12),
    ]


def _seconds(arena: Arena, argv: list[str]) -> float:
    """Time a spawn and its wait, with nothing of ours between them."""
    silence = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]
    environment = arena.environment({})
    begun = time.perf_counter()
    pid = os.posix_spawn(argv[0], argv, environment, file_actions=silence)
    status = os.waitpid(pid, 0)[1]
    taken = time.perf_counter() - begun
    if status:
        raise Unmeasurable(f"{argv} ended with status {status}")
    return taken
