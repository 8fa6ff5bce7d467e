"""The live view of `ralph run` in a real terminal of 120 columns and 40 rows.

The session has a hundred calls a second, each of two lines of 2 KB; no agent is a tenth as busy. The view's cost is the
processor time of `ralph run` with it, less that of `ralph run --quiet`, which draws nothing, as a share of a core.
`stream` measures how much the view slows down a session at full speed.
"""

import time
from collections.abc import Sequence

from bench.arena import LIMIT_REACHED, AgentPlan, Arena
from bench.figures import Figure, Unmeasurable, interleave
from bench.terminal import run_in_terminal

_SIZE = 2000
_GAP_US = 10_000


def measure(arena: Arena, brief: bool) -> list[Figure]:
    pairs, rounds = (300, 2) if brief else (800, 5)
    busy: AgentPlan = {"MODE": "stream", "TEXT": arena.text(_SIZE), "COUNT": pairs, "GAP_US": _GAP_US}
    shares = interleave(
        {"view": lambda: _share(arena, busy, []), "quiet": lambda: _share(arena, busy, ["--quiet"])}, rounds
    )
    view = [with_it - without for with_it, without in zip(shares["view"], shares["quiet"], strict=True)]
    return [
        Figure("100 calls a second, processor: with the view - without", view, "%", target=3),
        Figure("100 calls a second, processor: all of `ralph run --quiet`", shares["quiet"], "%"),
    ]


def _share(arena: Arena, agent: AgentPlan, flags: Sequence[str]) -> float:
    """Return the percentage of one core that a run takes in a terminal."""
    with arena.repository() as tree:
        begun = time.monotonic()
        shown = run_in_terminal(arena.run_argv(*flags), tree, arena.run_environment(tree, agent))
        wall = time.monotonic() - begun
    if shown.exit_code != LIMIT_REACHED:
        raise Unmeasurable(f"ralph ended with {shown.exit_code} in a terminal: {shown.output[-500:]!r}")
    if not flags and b"p: pause" not in shown.output:
        raise Unmeasurable("no view was drawn")
    return 100 * (shown.used.ru_utime + shown.used.ru_stime) / wall
