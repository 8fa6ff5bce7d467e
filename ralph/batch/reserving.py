"""Whose branch it is: queues share a mirror, and two goals of one name must not work on one branch."""

from ralph.batch.bare import flat
from ralph.queue.repos.mirror import Mirror

_EMPTY_TREE = b""


def reserve(mirror: Mirror, branch: str, owner: str) -> bool:
    """Have a branch for one goal alone, for as long as it is not released; False: it is another's."""
    tree = mirror.bare.git("mktree", said=_EMPTY_TREE).strip()
    who = mirror.upstream.identity(mirror.bare)
    mark = mirror.bare.git("commit-tree", tree, "-m", owner, pinned=who).strip()
    if mirror.bare.run("update-ref", _ref(branch), mark, "")[0] == 0:  # "": only if there is none
        return True
    return mirror.bare.git("log", "-1", "--format=%B", _ref(branch), "--").strip() == owner


def release(mirror: Mirror, branch: str) -> None:
    """Let others have it."""
    mirror.bare.run("update-ref", "-d", _ref(branch))


def _ref(branch: str) -> str:
    return f"refs/ralph/owner/{flat(branch)}"
