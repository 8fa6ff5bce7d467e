"""The queue at 10, 1,000 and 10,000 goals: `add`, `list --json`, `stats`, and the worker's turns.

`list` and `stats` are compared with the same command on an empty queue. `add` takes a folder of goal files in one call.
The worker serves goals that are all queued, with one slot whose agent hangs; the figure is its processor time over a
quiet stretch, as a share of one core. A command that doesn't finish within its limit counts as infinitely slow.
"""

import contextlib
import math
import shutil
import subprocess
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.arena import Arena
from bench.figures import Figure, Measure, Unmeasurable, interleave, ratios
from bench.processes import processor_seconds
from ralph.queue.database import default_url
from ralph.queue.store import open_store

_GOAL = "# Goal {number}\n\n## Objective\nPrüfe „{number}“ → 日本語 🙂.\n"
_LOOKS = {"`list --json`": ("list", "--json"), "`stats`": ("stats",)}
_ADD_TARGET, _LOOK_TARGET = 12.0, 3.0
_START_LIMIT = 300.0


def measure(arena: Arena, brief: bool) -> list[Figure]:
    if brief:
        return _figures(arena, (10, 100, 1_000), limit=30.0, add_rounds=1, look_rounds=3, quiet=3.0)
    return _figures(arena, (10, 1_000, 10_000), limit=180.0, add_rounds=3, look_rounds=9, quiet=10.0)


def _figures(
    arena: Arena, sizes: Sequence[int], *, limit: float, add_rounds: int, look_rounds: int, quiet: float
) -> list[Figure]:
    with arena.repository() as tree:
        scene = _Scene(arena, tree, limit)
        adds = _interleaved({size: lambda size=size: _add(scene, size) for size in sizes}, add_rounds)
        filled = {size: scene.filled(size) for size in sizes if math.isfinite(adds[size][0])}
        return [
            *_add_figures(sizes, adds),
            *_look_figures(scene, sizes, filled, look_rounds),
            *_turn_figures(scene, sizes, filled, quiet),
        ]


@dataclass(frozen=True, slots=True)
class _Scene:
    """The repository that all goals are for; goal files and queues lie beside it."""

    arena: Arena
    tree: Path
    limit: float

    def empty(self) -> Path:
        """Make the state directory of an empty queue."""
        state = Path(tempfile.mkdtemp(prefix="queue-", dir=self.tree.parent))
        store = open_store(default_url(state))
        if store is None:
            raise Unmeasurable(f"there can be no queue in {state}")
        store.close()
        return state

    def filled(self, size: int) -> Path:
        state = self.empty()
        self.add(state, size)
        return state

    def add(self, state: Path, size: int) -> float:
        """Add so many goals; return the seconds that takes."""
        goals = self.tree.parent / f"goals-{size}"
        if not goals.exists():
            goals.mkdir()
            for number in range(size):
                (goals / f"goal-{number}.md").write_text(_GOAL.format(number=number))
        return self.seconds(state, "add", "--queue", "--merge=direct", f"--repo={self.tree}", str(goals))

    def seconds(self, state: Path, *command: str) -> float:
        """Time a command of `ralph-runs`; one that doesn't finish within the limit takes for ever."""
        argv = [self.arena.ralph.with_name("ralph-runs"), *command]
        begun = time.perf_counter()
        with self.arena.running(argv, self.tree, {}, extra={"RALPH_DIR": str(state)}) as process:
            try:
                process.wait(self.limit)
            except subprocess.TimeoutExpired:
                return math.inf
            self.arena.finish(process)
            return time.perf_counter() - begun


def _add(scene: _Scene, size: int) -> float:
    state = scene.empty()
    try:
        return scene.add(state, size)
    finally:
        shutil.rmtree(state)


def _interleaved(contestants: Mapping[int, Measure], rounds: int) -> dict[int, list[float]]:
    """Interleave what finishes; what doesn't finish at the first try is not tried again."""
    first = {size: contestant() for size, contestant in contestants.items()}
    finishing = {str(size): contestants[size] for size, seconds in first.items() if math.isfinite(seconds)}
    taken = interleave(finishing, rounds)
    return {size: taken.get(str(size), [math.inf]) for size in contestants}


def _compared(above: Sequence[float], below: Sequence[float]) -> list[float]:
    return ratios(above, below) if all(map(math.isfinite, above)) else [math.inf]


def _add_figures(sizes: Sequence[int], adds: Mapping[int, Sequence[float]]) -> list[Figure]:
    *_, middle, most = sizes
    name = f"`add` of {most:,} goals / of {middle:,}"
    growth = Figure(name, _compared(adds[most], adds[middle]), target=_ADD_TARGET)
    return [growth, *(Figure(f"`add` of {size:,} goals", adds[size], "s") for size in sizes)]


def _look_figures(scene: _Scene, sizes: Sequence[int], filled: Mapping[int, Path], rounds: int) -> list[Figure]:
    figures: list[Figure] = []
    states = {0: scene.empty(), **filled}
    for words, argv in _LOOKS.items():
        looks = {size: lambda state=state, argv=argv: scene.seconds(state, *argv) for size, state in states.items()}
        taken = _interleaved(looks, rounds)
        for size in sizes:
            figures.append(
                Figure(
                    f"{words} with {size:,} goals / with none",
                    _compared(taken[size], taken[0]) if size in taken else [],
                    target=_LOOK_TARGET if size == sizes[-1] else None,
                    missing=_unfilled(scene),
                )
            )
    return figures


def _turn_figures(scene: _Scene, sizes: Sequence[int], filled: Mapping[int, Path], quiet: float) -> list[Figure]:
    return [
        Figure(
            f"the worker's turns with {size:,} goals, processor",
            [_turns(scene, filled[size], quiet)] if size in filled else [],
            "%",
            missing=_unfilled(scene),
        )
        for size in sizes
    ]


def _unfilled(scene: _Scene) -> str:
    return f"`add` doesn't finish within {scene.limit:.0f} s"


def _turns(scene: _Scene, state: Path, quiet: float) -> float:
    """Return the percentage of one core that the worker takes while its only child is silent."""
    with _worker(scene, state) as worker:
        before, begun = processor_seconds(worker), time.monotonic()
        time.sleep(quiet)
        used, took = processor_seconds(worker) - before, time.monotonic() - begun
    return 100 * used / took


@contextlib.contextmanager
def _worker(scene: _Scene, state: Path) -> Generator[psutil.Process]:
    """Start a worker with one slot, and wait until its agent hangs."""
    scene.arena.started.unlink(missing_ok=True)
    argv = [scene.arena.ralph.with_name("ralph-runs"), "work", "--max=1", "--quiet"]
    extra = {"RALPH_DIR": str(state)}
    with scene.arena.running(argv, scene.tree, {"MODE": "hang"}, extra=extra) as process:
        deadline = time.monotonic() + _START_LIMIT
        while not scene.arena.started.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                raise Unmeasurable(f"the queue worker started no agent within {_START_LIMIT:.0f} s")
            time.sleep(0.05)
        time.sleep(1.0)  # by then the start itself is over
        yield psutil.Process(process.pid)
