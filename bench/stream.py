"""Stream: one session that prints events as fast as they are read, at three payload sizes, in every output of ralph's.

Time runs from the message's arrival at the agent until the reader is through. For ralph, the Ruby original and `cat`
that is the end of the process, ralph's commit included. claude-agent-sdk writes no file: for it that is the last
message. ralph prints lines or `--json` into a file, or its live view into a terminal; all its logs are on.
"""

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from bench import payload
from bench.arena import LIMIT_REACHED, AgentPlan, Arena
from bench.figures import Figure, Unmeasurable, interleave, ratios
from bench.peers import Ruby, Sdk
from bench.terminal import run_in_terminal

_MEGABYTES = {"200 B": 10, "2 KB": 60, "20 KB": 150}
_BRIEF_MEGABYTES = {"200 B": 2, "2 KB": 40, "20 KB": 30}
_JUDGED = "2 KB"
_JUDGED_OUTPUT = "--json"
"""Events for a program, which is what the SDK gives; lines and views for a person are its callers' affair."""
_TARGET, _GOAL = 1.0, 3.0
_VIEW_TARGET = 1.1
_OUTPUTS = ("plain", "--json", "terminal")


def measure(arena: Arena, brief: bool) -> list[Figure]:
    figures: list[Figure] = []
    for size in payload.SIZES:
        megabytes = (_BRIEF_MEGABYTES if brief else _MEGABYTES)[size]
        rounds = 7 if not brief else 3 if size == _JUDGED else 1
        figures += _of_size(arena, size, megabytes, rounds)
    return figures


def _of_size(arena: Arena, size: str, megabytes: int, rounds: int) -> list[Figure]:
    agent = streaming(arena, size, megabytes)
    contestants: dict[str, Callable[[], float]] = {
        "plain": lambda: by_ralph(arena, agent),
        "--json": lambda: by_ralph(arena, agent, "--json"),
        "terminal": lambda: _in_terminal(arena, agent),
        "cat": lambda: _into_file(arena, ["/bin/sh", "-c", f"claude < {arena.prompt} | cat"], agent, 0),
    }
    sdk, ruby = arena.peers.sdk, arena.peers.ruby
    if isinstance(sdk, Sdk):
        contestants["sdk"] = lambda: _sdk(arena, sdk, agent)
    if isinstance(ruby, Ruby):
        contestants["ruby"] = lambda: by_ruby(arena, ruby, agent)
    taken = interleave(contestants, rounds)
    events = f"{megabytes} MB in events of {size}"
    judged = size == _JUDGED
    figures = [
        Figure(
            f"{events}: claude-agent-sdk's time / ralph's, {output}",
            ratios(taken["sdk"], taken[output]) if "sdk" in taken else [],
            target=_TARGET if judged and output == _JUDGED_OUTPUT else None,
            at_least=True,
            goal=_GOAL if judged and output == _JUDGED_OUTPUT else None,
            missing=_why(sdk),
        )
        for output in _OUTPUTS
    ]
    ruby_ratios = ratios(taken["ruby"], taken["plain"]) if "ruby" in taken else []
    return [
        *figures,
        Figure(
            f"{events}: ralph's time, terminal / plain",
            ratios(taken["terminal"], taken["plain"]),
            target=_VIEW_TARGET if judged else None,
        ),
        Figure(f"{events}: the Ruby original's time / ralph's, plain", ruby_ratios, missing=_why(ruby)),
        Figure(f"{events}: ralph's time, --json / `cat`'s (floor)", ratios(taken["--json"], taken["cat"])),
    ]


def streaming(arena: Arena, size: str, megabytes: int) -> AgentPlan:
    """Return the plan of an agent that prints that many megabytes in events of one size."""
    bytes_each = payload.SIZES[size]
    return {"MODE": "stream", "TEXT": arena.text(bytes_each), "COUNT": megabytes * 1_000_000 // (2 * bytes_each)}


def by_ralph(arena: Arena, agent: AgentPlan, *flags: str) -> float:
    """Return the seconds that ralph takes for one session, with its output in a file."""
    return _into_file(arena, arena.run_argv(*flags), agent, LIMIT_REACHED)


def _why(peer: Sdk | Ruby | Unmeasurable) -> str:
    return str(peer) if isinstance(peer, Unmeasurable) else ""


def _into_file(arena: Arena, argv: Sequence[str | Path], agent: AgentPlan, exit_code: int) -> float:
    with (
        arena.repository() as tree,
        (tree.parent / "stdout").open("wb") as stdout,
        arena.running(argv, tree, agent, stdout=stdout) as process,
    ):
        return _seconds(arena, arena.finish(process, exit_code))


def _in_terminal(arena: Arena, agent: AgentPlan) -> float:
    with arena.repository() as tree:
        shown = run_in_terminal(arena.run_argv(), tree, arena.run_environment(tree, agent))
    if shown.exit_code != LIMIT_REACHED:
        raise Unmeasurable(f"ralph ended with {shown.exit_code} in a terminal: {shown.output[-500:]!r}")
    return _seconds(arena, shown.ended_at)


def _sdk(arena: Arena, sdk: Sdk, agent: AgentPlan) -> float:
    with (
        arena.repository() as tree,
        arena.running([*sdk.reader, arena.agent], tree, agent, stdout=subprocess.PIPE) as process,
    ):
        last = (process.stdout.read() if process.stdout else b"").split()[-1:]
        arena.finish(process)
        return _seconds(arena, int(last[0]))


def by_ruby(arena: Arena, ruby: Ruby, agent: AgentPlan) -> float:
    """Run one session with the Ruby original, which ends when its agent says DONE."""
    return _into_file(arena, ruby.loop, {**agent, "SUMMARY": "DONE"}, 0)


def _seconds(arena: Arena, until: int) -> float:
    return (until - arena.message_came_at()) / 1e9
