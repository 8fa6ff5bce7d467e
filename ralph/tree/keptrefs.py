"""Branches, tags and the stash as they were: recorded, compared and put back; commits that this leaves behind are kept.

All work trees of a repository share them. A branch that another one is on may be moved by whoever works there, so it is
only said to have moved; a stash that has grown may have grown there.
"""

import contextlib
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from ralph import jsonline
from ralph.gitcommand import run_git, succeeded
from ralph.gitrepo import Repo
from ralph.tree.keptfiles import Change, KeptFiles
from ralph.tree.shelf import Shelf

UNDONE = "refs/ralph/undone"
"""Where commits are kept that were made meanwhile and taken off their branch."""

_STASH = "refs/stash"
_LOG = "logs/refs/stash"
_ALIAS = "ref: "


@dataclass(frozen=True, slots=True)
class KeptRefs:
    """Where refs pointed, or for an alias to which one (`ref: `); the stash with its log, which holds all its entries.

    `own` is the branch of this work tree, `elsewhere` are those that some work tree was on.
    """

    repo: Repo
    log: KeptFiles
    refs: dict[str, str]
    own: str
    elsewhere: frozenset[str]

    @classmethod
    def record(cls, repo: Repo, log: KeptFiles) -> "KeptRefs":
        log.keep(log.found())
        return cls(repo, log, _refs(repo), f"refs/heads/{repo.branch()}", frozenset(_worktrees(repo)))

    def recorded(self) -> dict[str, object]:
        """What `recalled` needs besides the copy of the log, as JSON."""
        return {
            "refs": self.refs,
            "own": self.own,
            "elsewhere": sorted(self.elsewhere),
            "log": self.log.recorded(),
        }

    @classmethod
    def recalled(cls, repo: Repo, log: KeptFiles, recorded: object) -> "KeptRefs":
        """Take up what was recorded; ValueError or KeyError if it is damaged."""
        said = jsonline.mapping(recorded)
        log.recall(said["log"])
        refs = {ref: jsonline.text(sha) for ref, sha in jsonline.mapping(said["refs"]).items()}
        elsewhere = frozenset(jsonline.text(ref) for ref in jsonline.sequence(said["elsewhere"]))
        return cls(repo, log, refs, jsonline.text(said["own"]), elsewhere)

    def changes(self) -> list[str]:
        """Say what is not where it was, but for what is another work tree's."""
        moved = self._moved(_refs(self.repo))
        left = self._not_ours_to_move(moved).keys() - {f"refs/heads/{self.repo.branch()}"}  # HEAD is not put back yet
        return [_said(change) for change in moved if change[0] not in left]

    def _moved(self, now: dict[str, str]) -> list[Change]:
        moved = [
            (ref, "deleted" if ref not in now else "added" if ref not in self.refs else "moved")
            for ref in dict.fromkeys([*self.refs, *now])
            if now.get(ref) != self.refs.get(ref)
        ]
        if now.get(_STASH) == self.refs.get(_STASH) and (self.log.differing() or self.log.added()):
            moved.append((_STASH, "moved"))
        return moved

    def restore(self, head: str, shelf: Shelf) -> list[str]:
        """Put back what is not another work tree's; say what was done. `head` is where HEAD was before it was put back.

        What is reached by none of them any more stays under a ref of its own.
        """
        now = _refs(self.repo)
        moved = self._moved(now)
        left = self._not_ours_to_move(moved)
        undone = [(ref, word) for ref, word in moved if ref not in left]
        lost = [head, *(now.get(ref, "") for ref, _ in undone)]
        if _STASH in dict(undone):
            lost += _stashed(self.log.base)
        reached = [*self.refs.values(), *_stashed(self.log.copies), *(now[ref] for ref in left)]
        kept = self._keep(lost, reached)
        # Two transactions: git does not make refs/heads/a where refs/heads/a/b is, even if it deletes that as well.
        self._update([f"delete {ref}" for ref, word in undone if word == "added" and ref in now])
        back = {ref: self.refs[ref] for ref, word in undone if word != "added" and now.get(ref) != self.refs[ref]}
        self._update([f"update {ref} {sha}" for ref, sha in back.items() if not sha.startswith(_ALIAS)])
        for ref, target in back.items():
            if target.startswith(_ALIAS):
                _git(self.repo, "symbolic-ref", ref, target.removeprefix(_ALIAS))
        if _STASH in dict(undone):  # after the ref: to move it is to write to the log
            self.log.restore(shelf)
            for path in self.log.added():
                self.log.shelve(path, shelf)
        return [
            *(_said(change) + (f" (left: {left[change[0]]})" if change[0] in left else "") for change in moved),
            *(f"committed: kept as {ref}" for ref in kept),
        ]

    def _not_ours_to_move(self, moved: Collection[Change]) -> dict[str, str]:
        """Which refs are left where they are now, and why. A deleted branch comes back: nobody can lose by that."""
        worktrees = _worktrees(self.repo)
        elsewhere = (self.elsewhere | set(worktrees)) - {self.own}
        left = {ref: "another work tree's" for ref, word in moved if ref in elsewhere and word != "deleted"}
        if _STASH in dict(moved) and len(worktrees) > 1 and self._stash_has_only_grown():
            left[_STASH] = "other work trees share it"
        return left

    def _stash_has_only_grown(self) -> bool:
        with contextlib.suppress(OSError):
            before = (self.log.copies / _LOG).read_bytes() if _LOG in self.log.files else b""
            now = (self.log.base / _LOG).read_bytes()
            return now.startswith(before) and now != before
        return False

    def _keep(self, lost: Sequence[str], reached: Sequence[str]) -> list[str]:
        """Give refs of their own to those objects that are not reached from elsewhere; name the refs."""
        known = [sha for sha in reached if not sha.startswith(_ALIAS)]
        new = [sha for sha in dict.fromkeys(lost) if sha not in known and self._is_new(sha, known)]
        kept = [f"{UNDONE}/{number}" for number, _ in enumerate(new, self._next_number())]
        self._update([f"create {ref} {sha}" for ref, sha in zip(kept, new, strict=True)])
        return kept

    def _is_new(self, sha: str, known: Sequence[str]) -> bool:
        """Tell whether there is such an object, a commit or an annotated tag, and none of `known` leads to it."""
        if not _is_id(sha) or _run(self.repo, "cat-file", "-e", sha)[0] != 0:
            return False
        said = "".join(f"{line}\n" for line in (sha, *(f"^{one}" for one in known)))
        status, out, _ = _run(self.repo, "rev-list", "--objects", "--max-count=1", "--stdin", said=said)
        return status != 0 or bool(out.strip())

    def _next_number(self) -> int:
        refs = _git(self.repo, "for-each-ref", "--format=%(refname)", UNDONE).split()
        numbers = [ref.rpartition("/")[2] for ref in refs]
        return max((int(number) for number in numbers if number.isdecimal()), default=0) + 1

    def _update(self, commands: Sequence[str]) -> None:
        if commands:
            _git(self.repo, "update-ref", "--no-deref", "--stdin", said="".join(f"{line}\n" for line in commands))


def stash_log(common: Path, copies: Path) -> KeptFiles:
    """The log of the stash, to be recorded in `copies`."""
    return KeptFiles(common, copies, (_LOG,), ".git/")


def _stashed(base: Path) -> list[str]:
    """The entries of the stash, the last one first."""
    with contextlib.suppress(OSError):
        lines = (base / _LOG).read_text("utf-8", "replace").splitlines()
        return [line.split(" ")[1] for line in reversed(lines) if line.count(" ") > 1]
    return []


def detached_head(repo: Repo) -> str:
    """The commit that HEAD itself names; empty when it is on a branch. Read without git, which may not run any more."""
    with contextlib.suppress(OSError):
        head = (repo.git_dir / "HEAD").read_text("utf-8", "replace").strip()
        return head if _is_id(head) else ""
    return ""


def _is_id(text: str) -> bool:
    return re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", text) is not None


def _said(change: Change) -> str:
    ref, word = change
    return "changed the stash" if ref == _STASH else f"{word} {ref}"


def _refs(repo: Repo) -> dict[str, str]:
    shape = "--format=%(refname) %(objectname) %(symref)"
    out = _git(repo, "for-each-ref", shape, "refs/heads", "refs/tags", _STASH)
    rows = (line.split(" ") for line in out.splitlines())
    return {ref: f"{_ALIAS}{target}" if target else sha for ref, sha, target in rows}


def _worktrees(repo: Repo) -> list[str]:
    """The branch of each work tree that is there, this one among them; empty for one that is on none."""
    found: list[str] = []
    for block in _git(repo, "worktree", "list", "--porcelain").split("\n\n"):
        lines = block.splitlines()
        if lines and not any(line.startswith("prunable") for line in lines):
            found.append(next((line.removeprefix("branch ") for line in lines if line.startswith("branch ")), ""))
    return found


def _run(repo: Repo, *args: str, said: str | None = None) -> tuple[int, str, str]:
    pinned = {"GIT_DIR": str(repo.git_dir), "GIT_WORK_TREE": str(repo.root)}
    return run_git(repo.root, *args, said=None if said is None else said.encode(), pinned=pinned)


def _git(repo: Repo, *args: str, said: str | None = None) -> str:
    return succeeded(repo.root, args, _run(repo, *args, said=said))
