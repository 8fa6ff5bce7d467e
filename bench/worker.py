"""The queue worker: its cost with many silent children, and the way from `add` to the agent's start.

The children's agents hang, so that only ralph's own cost counts: the worker alone, and each `ralph run` with its
guardian, beside a bare agent as the floor. Processor time is taken over a quiet stretch, as a share of one core.

The way to the agent begins when `ralph-runs add --queue` has ended, at any moment of the worker's rhythm, and ends when
the agent has its message: queue, clone and the start of a `ralph run` lie between. The floor is that start alone.
"""

import contextlib
import random
import time
from collections.abc import Callable, Generator, Iterable
from pathlib import Path

import psutil

from bench.arena import LIMIT_REACHED, AgentPlan, Arena
from bench.figures import Figure, Unmeasurable, interleave, ratios
from bench.processes import MIB, kernel_bytes, processor_seconds

_START_LIMIT = 300.0
_RHYTHM = 0.5
_GOAL = "# Goal {number}\n\n## Objective\nThere is no end to this.\n"


def measure(arena: Arena, brief: bool) -> list[Figure]:
    return [*_rest(arena, 6, 3.0), *_starts(arena, 3)] if brief else [*_rest(arena, 50, 30.0), *_starts(arena, 12)]


def _rest(arena: Arena, count: int, quiet: float) -> list[Figure]:
    with arena.repository() as tree, _worker(arena, tree, {"MODE": "hang"}, "run", "--max", str(count)) as start:
        worker = start(_goals(tree, count))
        agents = _agents(arena, worker, count)
        own = [process for process in worker.children(recursive=True) if process not in agents]
        before, begun = processor_seconds(worker), time.monotonic()
        before_own = sum(map(processor_seconds, own))
        time.sleep(quiet)
        taken = time.monotonic() - begun
        busy = [100 * (processor_seconds(worker) - before) / taken]
        busy_own = [100 * (sum(map(processor_seconds, own)) - before_own) / taken / count]
        held = [_pss([worker])]
        held_own = [_pss(own) / count]
        floor = [_pss(agents) / count]
    return [
        Figure(f"queue worker with {count} silent children: PSS", held, "MiB"),
        Figure(f"queue worker with {count} silent children: processor, over {quiet:.0f} s", busy, "%"),
        Figure("each child (`ralph run` and its guardian): PSS", held_own, "MiB"),
        Figure("each child (`ralph run` and its guardian): processor", busy_own, "%"),
        Figure("a bare agent (floor): PSS", floor, "MiB"),
    ]


def _starts(arena: Arena, rounds: int) -> list[Figure]:
    with arena.repository() as tree, _worker(arena, tree, {"MODE": "turn"}, "work") as start:
        worker = start([])
        goals = iter(_goals(tree, rounds + 1))

        def added() -> float:
            _until(lambda: not worker.children(), worker)
            time.sleep(random.uniform(0, _RHYTHM))  # noqa: S311
            arena.started.unlink(missing_ok=True)
            ended = _add(arena, tree, next(goals))
            _until(arena.started.exists, worker)
            return (arena.message_came_at() - ended) / 1e9

        contestants = {"added": added, "direct": lambda: _direct(arena)}
        interleave(contestants, 1)  # so that the mirror exists
        taken = interleave(contestants, rounds)
    return [
        Figure("`add` to the agent's start / `ralph run` to its start", ratios(taken["added"], taken["direct"])),
        Figure("`add` to the agent's start", taken["added"], "s"),
        Figure("`ralph run` in a ready clone to the agent's start (floor)", taken["direct"], "s"),
    ]


def _direct(arena: Arena) -> float:
    arena.started.unlink(missing_ok=True)
    with arena.repository() as tree:
        begun = time.monotonic_ns()
        with arena.running(arena.run_argv("--json"), tree, {"MODE": "turn"}) as process:
            arena.finish(process, LIMIT_REACHED)
    return (arena.message_came_at() - begun) / 1e9


@contextlib.contextmanager
def _worker(
    arena: Arena, tree: Path, agent: AgentPlan, *command: str
) -> Generator[Callable[[Iterable[Path]], psutil.Process]]:
    """Hand out a function that starts a queue worker with goals; on leaving, stop it and its children."""
    with contextlib.ExitStack() as stack:

        def start(goals: Iterable[Path]) -> psutil.Process:
            files = [str(goal) for goal in goals]
            argv = [
                arena.ralph.with_name("ralph-runs"),
                *command,
                *files,
                *([f"--repo={tree}", "--merge=direct"] if files else []),
            ]
            return psutil.Process(stack.enter_context(arena.running([*argv, "--quiet"], tree, agent)).pid)

        yield start


def _add(arena: Arena, tree: Path, goal: Path) -> int:
    """Queue a goal; return when that was done on the monotonic clock, in nanoseconds."""
    argv = [
        arena.ralph.with_name("ralph-runs"),
        "add",
        "--queue",
        "--merge=direct",
        "--max-iterations=1",
        f"--repo={tree}",
        goal,
    ]
    with arena.running(argv, tree, {}) as process:
        return arena.finish(process)


def _goals(tree: Path, count: int) -> list[Path]:
    folder = tree.parent / "goals"
    folder.mkdir()
    for number in range(count):
        (folder / f"goal-{number}.md").write_text(_GOAL.format(number=number))
    return sorted(folder.iterdir())


def _agents(arena: Arena, worker: psutil.Process, count: int) -> list[psutil.Process]:
    """Wait until all agents have their message and everything is silent."""
    found: list[psutil.Process] = []

    def all_there() -> bool:
        found[:] = [process for process in worker.children(recursive=True) if _exe(process) == str(arena.agent)]
        return len(found) == count

    _until(all_there, worker, pause=1.0)
    time.sleep(5.0)
    return found


def _exe(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error):
        return process.exe()
    return ""


def _until(comes_true: Callable[[], bool], worker: psutil.Process, pause: float = 0.01) -> None:
    deadline = time.monotonic() + _START_LIMIT
    while not comes_true():
        if not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE or time.monotonic() > deadline:
            raise Unmeasurable("the queue worker ended, or did not start what it was given")
        time.sleep(pause)


def _pss(processes: Iterable[psutil.Process]) -> float:
    return sum(kernel_bytes(process.pid, "smaps_rollup", "Pss") for process in processes) / MIB
