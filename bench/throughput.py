"""Stream throughput: one session that prints 2 KB events as fast as they are read.

Time runs from the message's arrival at the agent until the reader is through: for ralph and `cat` until the process is
gone, with its commit; for claude-agent-sdk, which keeps nothing on disk, until it has seen the last message.
"""

import subprocess

from bench.arena import LIMIT_REACHED, Arena, Unmeasurable
from bench.figures import Figure, interleave, ratios
from bench.peer import Peer

_SIZE = 2000


def measure(arena: Arena, peer: Peer | Unmeasurable, *, rounds: int, megabytes: int) -> list[Figure]:
    agent: dict[str, str | int] = {"MODE": "stream", "SIZE": _SIZE, "COUNT": megabytes * 1_000_000 // (2 * _SIZE)}
    contestants = {"ralph": lambda: _ralph(arena, agent), "cat": lambda: _cat(arena, agent)}
    if isinstance(peer, Peer):
        contestants["sdk"] = lambda: _sdk(arena, peer, agent)
    taken = interleave(contestants, rounds)
    events = f"{megabytes} MB of 2 KB events"
    faster = ratios(taken["sdk"], taken["ralph"]) if isinstance(peer, Peer) else []
    missing = str(peer) if isinstance(peer, Unmeasurable) else ""
    return [
        Figure(f"{events}: claude-agent-sdk's time / ralph's", faster, target=3, at_least=True, missing=missing),
        Figure(f"{events}: ralph's time / `cat > file`'s (floor)", ratios(taken["ralph"], taken["cat"])),
    ]


def _ralph(arena: Arena, agent: dict[str, str | int]) -> float:
    """Everything on: raw log, events.ndjson, meter, NDJSON on stdout."""
    with arena.repository() as tree, arena.running(arena.run_argv(iterations=1), tree, agent) as process:
        return _seconds(arena, arena.finish(process, LIMIT_REACHED))


def _cat(arena: Arena, agent: dict[str, str | int]) -> float:
    with (
        arena.repository() as tree,
        arena.running(["/bin/sh", "-c", f"claude < {arena.prompt} | cat > ../raw.ndjson"], tree, agent) as process,
    ):
        return _seconds(arena, arena.finish(process))


def _sdk(arena: Arena, peer: Peer, agent: dict[str, str | int]) -> float:
    with (
        arena.repository() as tree,
        arena.running([*peer.reader, arena.agent], tree, agent, stdout=subprocess.PIPE) as process,
    ):
        last = (process.stdout.read() if process.stdout else b"").split()[-1:]
        arena.finish(process)
        return _seconds(arena, int(last[0]))


def _seconds(arena: Arena, until: int) -> float:
    return (until - arena.message_came_at()) / 1e9
