"""ralph-claude against the claude it stands in for: time to the first event, and memory at that point.

Both get one message on stdin and an endpoint that nobody serves: the first event is `system/init`, which comes before
the model is asked. Memory is the kernel's high-water mark of the process and its children.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from bench.arena import Arena
from bench.figures import Figure, Unmeasurable, interleave, ratios
from bench.processes import kernel_bytes
from tools import fetch

_FLAGS = ("-p", "--verbose", "--input-format", "stream-json", "--output-format", "stream-json", "--model", "sonnet")
_ALONE = {
    "ANTHROPIC_BASE_URL": "http://127.0.0.1:9",
    "ANTHROPIC_AUTH_TOKEN": "dummy",
    "ANTHROPIC_API_KEY": "",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
}
"""Without these the real claude would call home."""


def measure(arena: Arena, brief: bool) -> list[Figure]:
    ours, cache = arena.ralph.with_name("ralph-claude"), fetch.cache_dir(os.environ)
    tool = fetch.pinned()["claude"]
    real = tool.path(cache)
    names = ("start to first event: ralph-claude / claude", "memory at the first event: ralph-claude / claude")
    if not real.exists():
        why = fetch.why_missing(tool, cache)
        return [Figure(name, [], target=1 / 3, missing=why) for name in names]
    held: dict[Path, list[float]] = {ours: [], real: []}
    contestants: dict[str, Callable[[], float]] = {
        "ours": lambda: _first_event(arena, ours, held),
        "real": lambda: _first_event(arena, real, held),
    }
    interleave(contestants, 1)  # so that the files are in memory
    for values in held.values():
        values.clear()
    taken = interleave(contestants, 4 if brief else 12)
    return [
        Figure(names[0], ratios(taken["ours"], taken["real"]), target=1 / 3),
        Figure(names[1], ratios(held[ours], held[real]), target=1 / 3),
    ]


def _first_event(arena: Arena, agent: Path, held: dict[Path, list[float]]) -> float:
    """Return the seconds from the start to the first line; add the memory at that point to `held`."""
    with arena.repository() as tree, arena.prompt.open("rb") as prompt:
        begun = time.perf_counter()
        with arena.running([agent, *_FLAGS], tree, {}, stdin=prompt, stdout=-1, extra=_ALONE) as process:
            line = process.stdout.readline() if process.stdout else b""
            taken = time.perf_counter() - begun
            if b'"init"' not in line:
                raise Unmeasurable(f"{agent} began with {line[:200]!r}")
            held[agent].append(_memory(psutil.Process(process.pid)))
    return taken


def _memory(process: psutil.Process) -> float:
    family = [process, *process.children(recursive=True)]
    return sum(kernel_bytes(member.pid, "status", "VmHWM") for member in family)
