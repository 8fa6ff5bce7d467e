"""Two versions of ralph, interleaved: what a start, an iteration and a session's stream cost.

A figure is this version's time divided by the other's. Both run with the same agent, on the same kind of repository,
each with the Python environment that it is installed in.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from bench import iterations, startup, stream
from bench.arena import LIMIT_REACHED, Arena
from bench.figures import Figure, interleave, ratios

_SIZE = "2 KB"


def measure(arena: Arena, other: Path, brief: bool) -> list[Figure]:
    """Compare the arena's ralph with another program."""
    megabytes = 4 if brief else 60
    costs: dict[str, tuple[Callable[[Arena], float], int]] = {
        "`ralph --version`": (lambda place: startup.time_of(place, [str(place.ralph), "--version"]), 40),
        "from the command to the agent's first instruction": (_to_the_agent, 15),
        "an iteration": (lambda place: iterations.by_ralph(place, 50), 15),
        f"{megabytes} MB in events of {_SIZE}, plain": (lambda place: _stream(place, megabytes), 7),
        f"{megabytes} MB in events of {_SIZE}, --json": (lambda place: _stream(place, megabytes, "--json"), 7),
    }
    return [
        _compared(name, cost, arena, replace(arena, ralph=other), 2 if brief else rounds)
        for name, (cost, rounds) in costs.items()
    ]


def _compared(name: str, cost: Callable[[Arena], float], this: Arena, other: Arena, rounds: int) -> Figure:
    contestants = {"this": lambda: cost(this), "other": lambda: cost(other)}
    interleave(contestants, 1)  # so that the files are in memory
    taken = interleave(contestants, rounds)
    return Figure(f"{name}: this ralph / the other", ratios(taken["this"], taken["other"]))


def _to_the_agent(place: Arena) -> float:
    return startup.time_to_the_agent(place, place.run_argv("--json"), LIMIT_REACHED)


def _stream(place: Arena, megabytes: int, *flags: str) -> float:
    return stream.by_ralph(place, stream.streaming(place, _SIZE, megabytes), *flags)
