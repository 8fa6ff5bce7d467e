"""The live view of `ralph run` in a real terminal of 120 columns and 40 rows.

What it costs: a session with a hundred calls a second, each of two lines of 2 KB (no agent is a tenth as busy); the
processor time of `ralph run` with the view, less that of `ralph run --quiet`, which draws nothing, as a part of a core.

What it holds up: a session that prints as fast as it is read; the time until the run has ended, with its raw log and
its commit, against that of plain lines into a pipe.
"""

import os
import pty
import select
import subprocess
import termios
import time
from collections.abc import Sequence
from dataclasses import dataclass

from bench.arena import LIMIT_REACHED, Arena, Unmeasurable
from bench.figures import Figure, interleave, ratios

_SIZE = 2000
_GAP_US = 10_000
_TERMINAL = (40, 120)


def measure(arena: Arena, *, rounds: int, pairs: int, megabytes: int) -> list[Figure]:
    busy: dict[str, str | int] = {"MODE": "stream", "SIZE": _SIZE, "COUNT": pairs, "GAP_US": _GAP_US}
    flood: dict[str, str | int] = {"MODE": "stream", "SIZE": _SIZE, "COUNT": megabytes * 1_000_000 // (2 * _SIZE)}
    shares = interleave(
        {
            "view": lambda: _drawn(arena, busy, []).share,
            "quiet": lambda: _drawn(arena, busy, ["--quiet"]).share,
        },
        rounds,
    )
    taken = interleave(
        {"view": lambda: _drawn(arena, flood, []).seconds, "plain": lambda: _piped(arena, flood)}, rounds
    )
    view = [with_it - without for with_it, without in zip(shares["view"], shares["quiet"], strict=True)]
    return [
        Figure("100 calls a second, processor: with the view - without", view, "%", target=3),
        Figure("100 calls a second, processor: all of `ralph run --quiet`", shares["quiet"], "%"),
        Figure(
            f"{megabytes} MB at full speed, time: with the view / plain lines",
            ratios(taken["view"], taken["plain"]),
            target=1.1,
        ),
    ]


@dataclass(frozen=True, slots=True)
class _Taken:
    seconds: float
    """From the message's arrival at the agent to the end of the run."""
    share: float
    """Percent of one core."""


def _argv(arena: Arena, flags: Sequence[str]) -> list[str]:
    return [str(arena.ralph), "run", "--no-check", "--max-iterations=1", *flags, "../goal.md"]


def _drawn(arena: Arena, agent: dict[str, str | int], flags: Sequence[str]) -> _Taken:
    """A run in a terminal of its own, which is read as a terminal reads."""
    with arena.repository() as tree:
        environment = arena.environment(agent) | {"RALPH_DIR": str(tree.parent / "state"), "TERM": "xterm-256color"}
        begun = time.monotonic()
        pid, terminal = pty.fork()
        if pid == 0:
            termios.tcsetwinsize(0, _TERMINAL)
            os.chdir(tree)
            argv = _argv(arena, flags)
            os.execve(argv[0], argv, environment)  # noqa: S606 - it is ralph, in the child that the terminal is for
        said = _read(terminal)
        _, status, used = os.wait4(pid, 0)
        ended = time.monotonic_ns()
        os.close(terminal)
    if os.waitstatus_to_exitcode(status) != LIMIT_REACHED:
        raise Unmeasurable(f"ralph ended with {os.waitstatus_to_exitcode(status)}: {said[-500:]!r}")
    if flags == [] and b"p: pause" not in said:
        raise Unmeasurable("no view was drawn")
    wall = time.monotonic() - begun
    return _Taken((ended - arena.message_came_at()) / 1e9, 100 * (used.ru_utime + used.ru_stime) / wall)


def _read(terminal: int) -> bytes:
    said = b""
    while True:
        select.select([terminal], [], [])
        try:
            said += os.read(terminal, 65536)
        except OSError:  # the last who had it open is gone
            return said


def _piped(arena: Arena, agent: dict[str, str | int]) -> float:
    with (
        arena.repository() as tree,
        arena.running(_argv(arena, []), tree, agent, stdout=subprocess.PIPE) as process,
    ):
        while process.stdout and os.read(process.stdout.fileno(), 65536):
            pass
        return (arena.finish(process, LIMIT_REACHED) - arena.message_came_at()) / 1e9
