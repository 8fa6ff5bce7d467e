"""What a run has left in git, compared: to judge whether it moves, and to show what it did."""

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

from ralph.core.text import both_ends
from ralph.git.command import run_git

_FIGURE = re.compile(r"(\d+) (file|insertion|deletion)")
_LONGEST_LOOK = 20.0
_EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


def same_tree(root: Path, commits: Sequence[str], other: str) -> bool:
    """Tell whether one of `commits` holds the same files as `other`; a commit that is gone holds none."""
    asked = "".join(f"{commit}^{{tree}}\n" for commit in (other, *commits)).encode("utf-8", "replace")
    status, out, _ = run_git(root, "cat-file", "--batch-check=%(objectname)", said=asked)
    tree, *earlier = out.splitlines() or [""]
    return status == 0 and " " not in tree and tree in earlier


def elsewhere(root: Path, branch: str, nested: Sequence[str]) -> str:
    """A digest of all refs but `branch`, and of where the repositories within this one are."""
    _, refs, _ = run_git(root, "for-each-ref", "--format=%(refname) %(objectname)")
    seen = [line for line in refs.splitlines() if not line.startswith(f"refs/heads/{branch} ")]
    for path in nested:
        _, inner, _ = run_git(root / path, "for-each-ref", "--format=%(objectname)")
        _, head, _ = run_git(root / path, "rev-parse", "--verify", "--quiet", "HEAD")
        seen.append(f"{path} {head}{inner}")
    return hashlib.sha256("\n".join(seen).encode("utf-8", "replace")).hexdigest()[:32]


def changes(root: Path, base: str | None, most: int) -> str:
    """All that was changed since `base`: the files with their numbers, then the diff, both ends of it if it is long."""
    since = base or _EMPTY_TREE
    _, stat, _ = run_git(root, "diff", "--no-ext-diff", "--no-textconv", "--stat=100", since, "HEAD", "--")
    _, diff, _ = run_git(root, "diff", "--no-ext-diff", "--no-textconv", "--no-color", since, "HEAD", "--")
    return f"{both_ends(stat, most)}\n{both_ends(diff, most)}".strip()


def size_of_changes(root: Path, base: str | None) -> str:
    """How much was changed since `base`, such as `3 files, +120 -4`; empty if nothing was, or nobody can say."""
    args = ("diff", "--no-ext-diff", "--no-textconv", "--shortstat", base or _EMPTY_TREE, "HEAD", "--")
    status, out, _ = run_git(root, *args, limit=_LONGEST_LOOK)
    figures = {noun: int(number) for number, noun in _FIGURE.findall(out)} if status == 0 else {}
    if not (files := figures.get("file", 0)):
        return ""
    return (
        f"{files:,} file{'' if files == 1 else 's'}, +{figures.get('insertion', 0):,} -{figures.get('deletion', 0):,}"
    )
