"""ralph-claude beside the claude it stands in for: from the start to the first event, and what it holds by then.

Both get one message on stdin, as a harness gives it, and an endpoint that nobody serves: the first event is
`system/init`, which comes before the model is asked. Memory is what the kernel says that the process and its children
have held at most.
"""

import time
from collections.abc import Callable
from pathlib import Path

import psutil

from bench.arena import Arena, Unmeasurable
from bench.figures import Figure, interleave, ratios
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


def measure(arena: Arena, *, ours: Path, cache: Path, rounds: int) -> list[Figure]:
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
    interleave(contestants, 1)  # the files are in memory then
    for values in held.values():
        values.clear()
    taken = interleave(contestants, rounds)
    return [
        Figure(names[0], ratios(taken["ours"], taken["real"]), target=1 / 3),
        Figure(names[1], ratios(held[ours], held[real]), target=1 / 3),
    ]


def _first_event(arena: Arena, agent: Path, held: dict[Path, list[float]]) -> float:
    """Seconds from the start to the first line; the memory by then is noted in `held`."""
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
    return sum(_most_held(member.pid) for member in family)


def _most_held(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return float(line.split()[1])
    return 0.0
