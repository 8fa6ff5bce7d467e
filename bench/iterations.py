"""The cost of an iteration, and whether it grows: ralph against a shell loop with the same agent and the same git.

An iteration ends when the reader of stdout sees its end. Start-up is left out: the clock runs from the end of iteration
20 to the end of the last one. Every iteration has another summary of 2 KB. The shell loop has no summarizer, so ralph
runs without one for that figure; the Ruby original can't. In the long run ralph has one after every tenth iteration.
Growth is also measured in processor time: other work moves the wall clock of a long run more than any growth would.
"""

import contextlib
import itertools
import re
import shlex
import subprocess
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.arena import LIMIT_REACHED, AgentPlan, Arena
from bench.figures import Figure, Unmeasurable, interleave, ratios
from bench.peers import Ruby
from ralph.git.command import (
    _ENVIRONMENT,  # the flags themselves: a copy would not stay the same
    _GUARDS,
)

_SETTLED = 20
_NO_SUMMARIES = {"RALPH_SUMMARY_EVERY": "0"}
_SUMMARY = 2000
_END = re.compile(rb".{0,100}iteration_ended")
_RUBY_START = re.compile(rb"Iteration \d+$")


@dataclass(frozen=True, slots=True)
class _End:
    """The end of an iteration: the clock, and the processor time of the loop and of all children it has waited for."""

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


def measure(arena: Arena, brief: bool) -> list[Figure]:
    overhead = _overhead(arena, count=50, rounds=4 if brief else 15)
    return overhead if brief else overhead + _growth(arena, count=2000, rounds=2)


def _overhead(arena: Arena, count: int, rounds: int) -> list[Figure]:
    contestants = {
        "ralph": lambda: by_ralph(arena, count),
        "shell": lambda: _settled(_shell(arena, count)),
    }
    ruby = arena.peers.ruby
    if isinstance(ruby, Ruby):
        contestants["ruby"] = lambda: _settled(by_ruby(arena, ruby, count))
    taken = interleave(contestants, rounds)
    name = "shell loop with the same agent and git"
    return [
        Figure(f"iteration: ralph / {name}", ratios(taken["ralph"], taken["shell"]), target=1.5),
        Figure(
            f"iteration: the Ruby original, with its summarizer / {name}",
            ratios(taken["ruby"], taken["shell"]) if "ruby" in taken else [],
            missing=str(ruby) if isinstance(ruby, Unmeasurable) else "",
        ),
    ]


def _growth(arena: Arena, count: int, rounds: int) -> list[Figure]:
    ends: dict[str, list[list[_End]]] = {"ralph": [], "shell": []}
    interleave(
        {
            "ralph": lambda: ends["ralph"].append(_ralph(arena, count)) or 0.0,
            "shell": lambda: ends["shell"].append(_shell(arena, count)) or 0.0,
        },
        rounds,
    )
    figures: list[Figure] = []
    for loop, target in (("ralph", 1.2), ("shell", None)):
        name = f"last / first tenth of {count} iterations, 2 KB summaries: {loop}"
        wall = [_last_by_first([end.wall for end in each]) for each in ends[loop]]
        cpu = [_last_by_first([end.cpu for end in each]) for each in ends[loop]]
        figures += [Figure(f"{name}, time", wall, target=target), Figure(f"{name}, processor time", cpu, target=target)]
    return figures


def by_ralph(arena: Arena, count: int) -> float:
    """Return the seconds that ralph takes for an iteration, without summaries and without its start."""
    return _settled(_ralph(arena, count, _NO_SUMMARIES))


def _ralph(arena: Arena, count: int, extra: Mapping[str, str] | None = None) -> list[_End]:
    with _loop(arena, lambda _: arena.run_argv("--json", iterations=count), _END, extra) as (process, found):
        ends = list(found)
        arena.finish(process, LIMIT_REACHED)
    return ends


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

    with _loop(arena, argv, _END) as (process, found):
        ends = list(found)
        arena.finish(process)
    return ends


def by_ruby(arena: Arena, ruby: Ruby, count: int) -> list[_End]:
    """Stop the Ruby original at the start of an iteration more than asked for: its agent never says DONE."""
    with _loop(arena, lambda _: ruby.loop, _RUBY_START) as (_, found):
        starts = list(itertools.islice(found, count + 1))
    if len(starts) <= count:
        raise Unmeasurable(f"the Ruby original ended at iteration {len(starts)} of {count}")
    return starts[1:]


@contextlib.contextmanager
def _loop(
    arena: Arena,
    argv: Callable[[Path], list[str]],
    mark: re.Pattern[bytes],
    extra: Mapping[str, str] | None = None,
) -> Generator[tuple[subprocess.Popen[bytes], Iterator[_End]]]:
    """Start a loop; hand out its process, and the time of each line on its stdout that matches `mark`."""
    agent: AgentPlan = {"MODE": "turn", "TEXT": arena.text(_SUMMARY), "TOUCH": "work.txt"}
    with (
        arena.repository() as tree,
        arena.running(argv(tree), tree, agent, stdout=subprocess.PIPE, extra=extra) as process,
    ):
        loop = psutil.Process(process.pid)
        lines = process.stdout or ()
        yield process, (_End(time.perf_counter(), sum(loop.cpu_times()[:4])) for line in lines if mark.match(line))


def _settled(ends: Sequence[_End]) -> float:
    """Return the seconds that an iteration takes once the loop has settled."""
    return (ends[-1].wall - ends[_SETTLED - 1].wall) / (len(ends) - _SETTLED)


def _last_by_first(ends: Sequence[float]) -> float:
    """Divide the last tenth's time by the first tenth's."""
    tenth = len(ends) // 10
    return (ends[-1] - ends[-1 - tenth]) / (ends[tenth] - ends[0])
