"""Overhead of an iteration, and whether it grows: ralph against a shell loop that has the same agent and the same git.

Time is taken where the reader of stdout sees an iteration end. Start-up is left out: what counts lies between the end
of iteration 20 and the end of the last one. The shell loop has no summarizer, so ralph goes without one for that
figure; in the long run it has one after every tenth iteration. Growth is looked for in processor time as well: over
the minutes that a long run takes, other work on the machine moves the wall clock more than any growth would, as the
shell loop shows.
"""

import shlex
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.arena import LIMIT_REACHED, Arena
from bench.figures import Figure, interleave, ratios
from ralph.gitcommand import _ENVIRONMENT, _GUARDS  # the flags themselves: a copy would not stay the same

_SETTLED = 20
_NO_SUMMARIES = {"RALPH_SUMMARY_EVERY": "0"}
_SUMMARY = 2000


@dataclass(frozen=True, slots=True)
class _End:
    """When an iteration ended: on the clock, and in processor time of the loop and all that it has waited for."""

    wall: float
    cpu: float


# One agent, one log, one `add`, one `commit`, one line on stdout: the least that an iteration can be.
_LOOP = """
export {environment}
i=0
while [ $i -lt {count} ]; do
    i=$((i+1))
    claude < {prompt} > {logs}/$i.ndjson 2> {logs}/$i.stderr || exit 1
    git {flags} add --all || exit 1
    git {flags} commit --quiet --allow-empty --no-verify --message "ralph: iteration $i" || exit 1
    echo iteration_ended
done
"""


def measure(arena: Arena, *, rounds: int, count: int, long_rounds: int, long_count: int) -> list[Figure]:
    short = {
        "ralph": lambda: _settled(_ralph(arena, count, _NO_SUMMARIES)),
        "shell": lambda: _settled(_shell(arena, count)),
    }
    taken = interleave(short, rounds)
    grown: dict[str, list[list[_End]]] = {"ralph": [], "shell": []}
    long = {
        "ralph": lambda: grown["ralph"].append(_ralph(arena, long_count)) or 0.0,
        "shell": lambda: grown["shell"].append(_shell(arena, long_count)) or 0.0,
    }
    interleave(long, long_rounds)
    overhead = ratios(taken["ralph"], taken["shell"])
    figures = [Figure("iteration: ralph / shell loop with the same agent and git", overhead, target=1.5)]
    for loop, target in (("ralph", 1.2), ("shell", None)):
        name = f"last / first tenth of {long_count} iterations, 2 KB summaries: {loop}"
        wall = [_growth([end.wall for end in ends]) for ends in grown[loop]]
        cpu = [_growth([end.cpu for end in ends]) for ends in grown[loop]]
        figures += [Figure(f"{name}, time", wall, target=target), Figure(f"{name}, processor time", cpu, target=target)]
    return figures


def _ralph(arena: Arena, count: int, extra: Mapping[str, str] | None = None) -> list[_End]:
    return _ends(arena, lambda _: arena.run_argv(iterations=count), LIMIT_REACHED, extra)


def _shell(arena: Arena, count: int) -> list[_End]:
    def argv(tree: Path) -> list[str]:
        logs = tree.parent / "logs"
        logs.mkdir()
        script = _LOOP.format(
            environment=shlex.join(f"{name}={value}" for name, value in _ENVIRONMENT.items()),
            count=count,
            prompt=arena.prompt,
            logs=logs,
            flags=shlex.join(_GUARDS),
        )
        return ["/bin/sh", "-c", script]

    return _ends(arena, argv, 0)


def _ends(
    arena: Arena, argv: Callable[[Path], list[str]], exit_code: int, extra: Mapping[str, str] | None = None
) -> list[_End]:
    """Run a loop; return when each of its iterations ended."""
    agent = {"MODE": "turn", "SIZE": _SUMMARY, "TOUCH": "work.txt"}
    with (
        arena.repository() as tree,
        arena.running(argv(tree), tree, agent, stdout=subprocess.PIPE, extra=extra) as process,
    ):
        loop = psutil.Process(process.pid)
        ends = [
            _End(time.perf_counter(), sum(loop.cpu_times()[:4]))
            for line in process.stdout or ()
            if b"iteration_ended" in line[:100]
        ]
        arena.finish(process, exit_code)
    return ends


def _settled(ends: Sequence[_End]) -> float:
    """Seconds an iteration takes once the loop has settled."""
    return (ends[-1].wall - ends[_SETTLED - 1].wall) / (len(ends) - _SETTLED)


def _growth(ends: Sequence[float]) -> float:
    """How the last tenth compares with the first."""
    tenth = len(ends) // 10
    return (ends[-1] - ends[-1 - tenth]) / (ends[tenth] - ends[0])
