"""The live view: the processor time of all of `ralph run` in a terminal of 120 columns and 40 rows, start-up left out.

The agent writes messages in Markdown, edits of twelve lines and commands that print twenty, in turn: ten a second, as a
busy one does, and a hundred. `ralph run --quiet`, which draws nothing, tells how much of it is the view's. How much the
view slows down a session at full speed is measured in `stream`.
"""

from bench.arena import AgentPlan, Arena
from bench.figures import Figure, Unmeasurable, interleave
from bench.terminal import draw_in_terminal

_TARGETS = {10: 8.0, 100: 20.0}
"""Messages or calls a second, and the percentage of a core that they may take."""
_LONGEST = 30
"""Seconds that the agent goes on: more than are measured."""


def measure(arena: Arena, brief: bool) -> list[Figure]:
    seconds, rounds = (4.0, 2) if brief else (10.0, 5)
    figures: list[Figure] = []
    for pace, target in _TARGETS.items():
        taken = interleave(
            {
                "view": lambda pace=pace: _share(arena, pace, seconds),
                "quiet": lambda pace=pace: _share(arena, pace, seconds, "--quiet"),
            },
            rounds,
        )
        what = f"{pace} messages or calls a second, share of a core: all of"
        figures += [
            Figure(f"{what} `ralph run`", taken["view"], "%", target),
            Figure(f"{what} `ralph run --quiet`", taken["quiet"], "%"),
        ]
    return figures


def _share(arena: Arena, pace: int, seconds: float, *flags: str) -> float:
    agent: AgentPlan = {"MODE": "play", "TEXT": arena.session(pace * _LONGEST), "GAP_US": 1_000_000 // pace}
    with arena.repository() as tree:
        drawn = draw_in_terminal([*arena.run_argv(*flags)], tree, arena.run_environment(tree, agent), seconds)
    if not flags and (b"p: pause" not in drawn.output or b"pytest -q" not in drawn.output):
        raise Unmeasurable(f"no view was drawn: {drawn.output[-500:]!r}")
    return drawn.share
