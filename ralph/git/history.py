"""Messages and changes of commits, in a working tree or a bare mirror."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from ralph.core.errors import RepoError
from ralph.core.text import plural
from ralph.git.command import last_line, run_git

_FAR_ENOUGH = 20_000
"""Commits to look through."""
_EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
_PLAIN = ("diff", "--no-ext-diff", "--no-textconv", "--no-color", "--submodule=short")


class GitCall(Protocol):
    """Runs git in one repository; returns its exit status, output and complaints."""

    def __call__(self, *args: str) -> tuple[int, str, str]: ...


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """A changed file; lines are not counted in a binary file."""

    path: str
    added: int | None
    removed: int | None


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes between two commits; `base` None means everything up to `head`."""

    base: str | None
    head: str
    files: tuple[ChangedFile, ...]

    @property
    def size(self) -> str:
        """Return the size, such as `3 files, +120 -4`."""
        if not self.files:
            return "no changes"
        added, removed = (sum(count or 0 for count in counts) for counts in zip(*self._counts(), strict=True))
        return f"{plural(len(self.files), 'file')}, +{added:,} -{removed:,}"

    def _counts(self) -> list[tuple[int | None, int | None]]:
        return [(each.added, each.removed) for each in self.files]


def git_in(root: Path) -> GitCall:
    """Run git in a working tree."""
    return partial(run_git, root)


def commits_on(git: GitCall, revision: str, since: str | None = None) -> list[tuple[str, float, str]]:
    """Return the first-parent commits of a branch (id, time, message), oldest first; empty without a branch.

    Those after `since`, if it is part of the branch; else the latest ones.
    """
    known = since is not None and git("merge-base", "--is-ancestor", since, revision)[0] == 0
    span = [f"{since}..{revision}"] if known else [f"--max-count={_FAR_ENOUGH}", revision]
    status, out, _ = git("log", "--reverse", "-z", "--first-parent", "--format=%H%n%ct%n%B", *span, "--")
    entries = (entry.split("\n", 2) for entry in out.split("\0") if entry) if status == 0 else ()
    return [(sha, float(at), message) for sha, at, message in entries]


def parent_of(git: GitCall, commit: str) -> str | None:
    """Return the parent commit; None for the first. Raise `RepoError` if the commit is missing."""
    if git("cat-file", "-e", f"{commit}^{{commit}}")[0] != 0:
        raise _gone(commit)
    status, out, _ = git("rev-parse", "--verify", "--quiet", f"{commit}^")
    return out.strip() if status == 0 else None


def changes_between(git: GitCall, base: str | None, head: str) -> Changes:
    """Return which files were changed between two commits, and by how many lines."""
    out = _compared(git, base, head, "--numstat", "-z", "--no-renames")
    rows = (entry.split("\t", 2) for entry in out.split("\0") if entry)
    files = (ChangedFile(path, _count(added), _count(removed)) for added, removed, path in rows)
    return Changes(base, head, tuple(files))


def patch_between(git: GitCall, base: str | None, head: str) -> str:
    """Return the changes between two commits as a patch."""
    return _compared(git, base, head, "--find-renames")


def _compared(git: GitCall, base: str | None, head: str, *how: str) -> str:
    for commit in filter(None, (base, head)):
        if git("cat-file", "-e", f"{commit}^{{commit}}")[0] != 0:
            raise _gone(commit)
    status, out, err = git(*_PLAIN, *how, base or _EMPTY_TREE, head, "--")
    if status != 0:
        raise RepoError(f"cannot compare {head[:10]} with {(base or 'nothing')[:10]}: {last_line(err)}")
    return out


def _gone(commit: str) -> RepoError:
    return RepoError(
        f"commit {commit[:10]} is no longer in the repository",
        "a reset or rebase dropped it, and git removed it; the remaining commits: git reflog",
    )


def _count(figure: str) -> int | None:
    return int(figure) if figure.isdecimal() else None
