"""What a run knows beyond its commits, kept in the mirror after every iteration: with the branch, enough to go on.

`refs/ralph/state/<goal>` is a commit of the files below, without history. The commits' trailers tell the iterations
and what they cost; the summary of older iterations stands nowhere else.
"""

from pathlib import Path

from ralph.queue.repos.mirror import Mirror
from ralph.queue.repos.remote import flat
from ralph.system.files import make_private_directory, replace_file

_FILES = ("progress.jsonl", "summary.md", "run.json")
_TAKEN_UP = "summary.md"
"""Other files contain paths of one machine; `ralph run` rebuilds them from the commits."""


def keep_state(mirror: Mirror, branch: str, run_directory: Path) -> None:
    """Keep a run's state beside its branch."""
    entries: list[str] = []
    for name in _FILES:
        if (path := run_directory / name).is_file():
            blob = mirror.bare.git("hash-object", "-w", "--no-filters", "--", str(path)).strip()
            entries.append(f"100644 blob {blob}\t{name}\n")
    tree = mirror.bare.git("mktree", said="".join(entries).encode()).strip()
    who = mirror.upstream.identity(mirror.bare)
    commit = mirror.bare.git("commit-tree", tree, "-m", f"state of {branch}", pinned=who).strip()
    mirror.bare.git("update-ref", _state_ref(branch), commit)


def take_up_state(mirror: Mirror, branch: str, run_directory: Path) -> None:
    """Put back what a run that is known here by its branch alone had written down."""
    if run_directory.exists():
        return
    status, text, _ = mirror.bare.run("cat-file", "blob", f"{_state_ref(branch)}:{_TAKEN_UP}")
    if status == 0:
        make_private_directory(run_directory)
        replace_file(run_directory / _TAKEN_UP, text)


def _state_ref(branch: str) -> str:
    return f"refs/ralph/state/{branch.removeprefix('ralph/')}"


_EMPTY_TREE = b""


def reserve(mirror: Mirror, branch: str, owner: str) -> bool:
    """Have a branch for one goal alone, for as long as it is not released; False: it is another's."""
    tree = mirror.bare.git("mktree", said=_EMPTY_TREE).strip()
    who = mirror.upstream.identity(mirror.bare)
    mark = mirror.bare.git("commit-tree", tree, "-m", owner, pinned=who).strip()
    if mirror.bare.run("update-ref", _owner_ref(branch), mark, "")[0] == 0:  # "": only if there is none
        return True
    return mirror.bare.git("log", "-1", "--format=%B", _owner_ref(branch), "--").strip() == owner


def release(mirror: Mirror, branch: str) -> None:
    """Let others have it."""
    mirror.bare.run("update-ref", "-d", _owner_ref(branch))


def _owner_ref(branch: str) -> str:
    return f"refs/ralph/owner/{flat(branch)}"
