"""The sections of the benchmark, in the order of the results; one module each."""

from collections.abc import Callable
from dataclasses import dataclass

from bench import (
    clones,
    dashboard,
    iterations,
    latency,
    live,
    memory,
    queues,
    ralph_claude,
    startup,
    stream,
    worker,
)
from bench.arena import Arena
from bench.figures import Figure


@dataclass(frozen=True, slots=True)
class Section:
    """A title and the function that measures; a brief measurement takes few rounds and small sizes."""

    title: str
    measure: Callable[[Arena, bool], list[Figure]]
    has_ratios: bool = False
    """It has ratios with targets, which the short form judges."""


SECTIONS: dict[str, Section] = {
    "startup": Section("Start-up", startup.measure, has_ratios=True),
    "ralph-claude": Section("ralph-claude", ralph_claude.measure, has_ratios=True),
    "iterations": Section("Iterations", iterations.measure, has_ratios=True),
    "stream": Section("Stream", stream.measure, has_ratios=True),
    "latency": Section("Latency", latency.measure),
    "memory": Section("Memory", memory.measure, has_ratios=True),
    "live": Section("Live view", live.measure),
    "clones": Section("Working clones", clones.measure),
    "queue": Section("Queue", queues.measure, has_ratios=True),
    "worker": Section("Queue worker", worker.measure),
    "dashboard": Section("Dashboard", dashboard.measure),
}
