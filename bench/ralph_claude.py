"""ralph-claude against the claude it stands in for: time to the first event, memory at that point, time to an answer.

Both get one message on stdin. For the first event nobody serves their endpoint: `system/init` comes before the model is
asked. Memory is the kernel's high-water mark of the process and its children. For the first answer a scripted model in
this process says one word at once; the clock stops at the first `assistant` event.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from bench.arena import Arena
from bench.figures import Figure, Unmeasurable, interleave, ratios
from bench.processes import kernel_bytes
from tests.support.api_replies import Say
from tests.support.messages_api import MessagesApi
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
    names = (
        "start to first event: ralph-claude / claude",
        "memory at the first event: ralph-claude / claude",
        "start to first answer: ralph-claude / claude",
    )
    targets = (1 / 3, 1 / 3, 0.8)
    if not real.exists():
        why = fetch.why_missing(tool, cache)
        return [Figure(name, [], target=target, missing=why) for name, target in zip(names, targets, strict=True)]
    held: dict[Path, list[float]] = {ours: [], real: []}
    contestants: dict[str, Callable[[], float]] = {
        "ours": lambda: _first_event(arena, ours, held),
        "real": lambda: _first_event(arena, real, held),
    }
    interleave(contestants, 1)  # so that the files are in memory
    for values in held.values():
        values.clear()
    taken = interleave(contestants, 4 if brief else 12)
    with MessagesApi(lambda _number, _request: Say("hello")) as api:
        answering: dict[str, Callable[[], float]] = {
            "ours": lambda: _first_answer(arena, ours, api.url),
            "real": lambda: _first_answer(arena, real, api.url),
        }
        interleave(answering, 1)
        answered = interleave(answering, 4 if brief else 12)
    return [
        Figure(names[0], ratios(taken["ours"], taken["real"]), target=targets[0]),
        Figure(names[1], ratios(held[ours], held[real]), target=targets[1]),
        Figure(names[2], ratios(answered["ours"], answered["real"]), target=targets[2]),
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


def _first_answer(arena: Arena, agent: Path, url: str) -> float:
    """Return the seconds from the start to the first message of the model."""
    with arena.repository() as tree, arena.prompt.open("rb") as prompt:
        begun = time.perf_counter()
        extra = _ALONE | {"ANTHROPIC_BASE_URL": url}
        with arena.running([agent, *_FLAGS], tree, {}, stdin=prompt, stdout=-1, extra=extra) as process:
            for line in process.stdout or ():
                if b'"type":"assistant"' in line:
                    return time.perf_counter() - begun
    raise Unmeasurable(f"{agent} never answered")


def _memory(process: psutil.Process) -> float:
    family = [process, *process.children(recursive=True)]
    return sum(kernel_bytes(member.pid, "status", "VmHWM") for member in family)
