"""What an index and a file of settings say about themselves: paths that git passes over, and entries."""

from collections.abc import Collection
from pathlib import Path

from ralph.git.command import run_git, succeeded
from ralph.git.repo import Repo

_SKIPPED = "S"
"""How `git ls-files -v` marks a path that is not to be in the working tree."""

Stamp = tuple[int, int, int]


def index_stamp(repo: Repo) -> Stamp:
    """Tell one state of the index from another without reading it."""
    try:
        found = (repo.git_dir / "index").stat()
    except OSError:
        return 0, 0, 0
    return found.st_ino, found.st_mtime_ns, found.st_size


def flagged(repo: Repo) -> frozenset[str]:
    """Return the paths that git takes for unchanged; in a sparse checkout some are missing by design."""
    listing = ("ls-files", "-v", "-z")
    entries = succeeded(repo.root, listing, run_git(repo.root, *listing, pinned=repo.pinned)).split("\0")
    marked = [(entry[0], entry[2:]) for entry in entries if entry and (entry[0].islower() or entry[0] == _SKIPPED)]
    if any(mark == _SKIPPED for mark, _ in marked) and _is_sparse(repo):
        marked = [(mark, path) for mark, path in marked if mark.upper() != _SKIPPED]
    return frozenset(path for _, path in marked)


def unflag(repo: Repo, paths: Collection[str]) -> None:
    """Have git look at these paths again."""
    said = "\0".join(paths).encode("utf-8", "surrogateescape")
    for flag in ("--no-assume-unchanged", "--no-skip-worktree"):
        asking = ("update-index", flag, "-z", "--stdin")
        succeeded(repo.root, asking, run_git(repo.root, *asking, said=said, pinned=repo.pinned))


def _is_sparse(repo: Repo) -> bool:
    return run_git(repo.root, "config", "--type=bool", "core.sparseCheckout", pinned=repo.pinned)[1].strip() == "true"


def entries_of(settings: bytes) -> list[str] | None:
    """Return the entries of a file of settings, each a key and its value; None if git cannot read it."""
    asking = ("config", "--file=-", "--no-includes", "--list", "-z")
    status, out, _ = run_git(Path("/"), *asking, said=settings)
    return [entry for entry in out.split("\0") if entry] if status == 0 else None
