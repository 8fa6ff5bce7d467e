"""The end of a working clone: it goes when everything in it is safe in the mirror, and not before."""

import contextlib
import os
import secrets
import tempfile
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from ralph.batch.bare import Bare
from ralph.batch.belongings import bring_over, inner_history, linked_worktree, seen, unnamed
from ralph.batch.mirror import FETCH, PATIENCE, Mirror
from ralph.batch.removal import remove_tree
from ralph.gitcommand import last_line
from ralph.windows import EXCLUDES

_CLONES, _LEFTOVERS = "refs/ralph/clones", "refs/ralph/leftovers"


@contextlib.contextmanager
def _nobody_else() -> Generator[bool]:
    yield True


def discard(
    mirror: Mirror,
    clone: Path,
    branch: str,
    *,
    finished: bool = False,
    claim: Callable[[], AbstractContextManager[bool]] = _nobody_else,
) -> str:
    """Remove a working clone if everything in it is safe here; else say why it stays.

    `finished`: its goal is done, and the name of its branch may be another's by now, so nothing is written to that.
    `claim` tells at the last moment whether it may still go, and keeps everyone from it for that moment.
    """
    going = clone.with_name(f".{clone.name}.going")
    remove_tree(going)
    if not os.path.lexists(clone):
        return ""
    found = examine(mirror, clone, branch)
    if found.obstacle:
        return found.obstacle
    tip = found.tip if finished else mirror.save(clone, branch, None)
    if tip is None:
        return f"it has no branch {branch}, or not all of its history"
    below = f"{_CLONES}/{clone.name}/{_stamp()}"
    _take_over(mirror, clone, found.refs, below)
    safe = [tip]
    if left := uncommitted(mirror, clone, tip):
        if (leftovers := _keep(mirror, clone, branch, tip, left)) is None:
            return _not_committed(left)
        safe.append(leftovers)
    # Last: what the refs lead to, and what the files hold, is here by now.
    if (more := unnamed(mirror, clone, safe)).obstacle:
        return more.obstacle
    if more.tips or more.staged:
        bring_over(mirror, clone, [*more.tips, *more.staged], f"{below}/unnamed")
    with claim() as ours:
        if not ours:
            return "it was taken up again"
        clone.rename(going)  # first: half removed, by a process that was killed, it would be taken for broken, and stay
    remove_tree(going)
    return ""


@dataclass(frozen=True, slots=True)
class Found:
    """What is in a clone that is about to go, or why it cannot."""

    obstacle: str = ""
    tip: str = ""
    """The last commit of its branch."""
    refs: Mapping[str, str] = field(default_factory=dict[str, str])


def examine(mirror: Mirror, clone: Path, branch: str) -> Found:
    """Look whether all that a clone holds could be kept here; nothing is written."""
    if clone.is_symlink() or not clone.is_dir():
        return Found("it is no directory")
    status, out, err = mirror.bare.run("ls-remote", "--", str(clone), limit=PATIENCE)
    if status != 0:
        return Found(f"its git repository is broken: {last_line(err)}")
    refs = {ref: sha for sha, _, ref in (line.partition("\t") for line in out.splitlines())}
    tip = refs.get(f"refs/heads/{branch}")
    if tip is None:
        return Found(f"it has no branch {branch}, or not all of its history")
    if tree := linked_worktree(clone):
        return Found(f"a further working tree of it is in {tree}")
    if (more := unnamed(mirror, clone)).obstacle:
        return Found(more.obstacle)
    with seen(clone) as pinned:
        if inner := _inner(mirror, clone, tip, pinned) or inner_history(mirror, clone):
            return Found(f"a repository of its own is in {inner}: its history may be nowhere else")
        left = uncommitted(mirror, clone, tip, pinned)
    if any(path.endswith("/") for path in left):  # a repository inside this one: its history would not come along
        return Found(_not_committed(left))
    return Found("", tip, refs)


def _not_committed(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
    return f"not committed: {', '.join(paths[:3])}{more}"


def _inner(mirror: Mirror, clone: Path, tip: str, pinned: Mapping[str, str]) -> str:
    """A folder of which the commit names nothing but a commit of another repository, and that holds something.

    Neither what is in it nor the history in its `.git` comes along with ours, and git counts it as unchanged.
    """
    entries = mirror.bare.git("ls-tree", "-r", "-z", "--full-tree", tip, pinned=pinned).split("\0")
    listed = (entry.partition("\t") for entry in entries)
    links = [path for what, _, path in listed if what.startswith("160000 ")]
    return next((path for path in links if (clone / path).is_dir() and any((clone / path).iterdir())), "")


def _keep(mirror: Mirror, clone: Path, branch: str, tip: str, paths: Sequence[str]) -> str | None:
    """Commit what a clone has beside its commits, a check's leavings say, under `refs/ralph/leftovers/`."""
    with tempfile.TemporaryDirectory(prefix="ralph-index-") as folder:
        pinned = {"GIT_INDEX_FILE": f"{folder}/index", "GIT_WORK_TREE": str(clone)}
        mirror.bare.git("read-tree", tip, pinned=pinned)
        said = "".join(f"{path}\0" for path in paths).encode("utf-8", "surrogateescape")
        taking = ("-C", str(clone), "update-index", "--add", "--remove", "-z", "--stdin")
        if mirror.bare.run(*taking, said=said, pinned=pinned)[0] != 0:
            return None  # a pipe, a file that cannot be read
        tree = mirror.bare.git("write-tree", pinned=pinned).strip()
    who = mirror.upstream.identity(mirror.bare)
    kept = mirror.bare.git("commit-tree", tree, "-p", tip, "-m", "left in the clone", pinned=who).strip()
    mirror.bare.git("update-ref", f"{_LEFTOVERS}/{branch}/{_stamp()}", kept)
    return kept


def kept_below(clone: Path, branch: str) -> tuple[str, str]:
    """Where a mirror keeps what only a clone had: commits and the like, and files that were not committed."""
    return f"{_CLONES}/{clone.name}", f"{_LEFTOVERS}/{branch}"


def kept(bare: Bare, clone: Path, branch: str) -> list[str]:
    """The refs under which a mirror keeps it; a clone of that name in another queue may have left some of them.

    None of a mirror that is broken: whoever asks about a goal is told the rest of it all the same.
    """
    status, out, _ = bare.run("for-each-ref", "--format=%(refname)", *kept_below(clone, branch))
    return out.split() if status == 0 else []


def uncommitted(mirror: Mirror, clone: Path, tip: str, seeing: Mapping[str, str] | None = None) -> list[str]:
    """What in the clone's files is not in the commit, and not ignored; found without the clone's own settings.

    Those could name programs (`filter.*.clean`), which git would run to compare; and so could the settings of a
    repository inside the clone that is part of the commit: git diff-files runs git status in it.
    """
    with tempfile.TemporaryDirectory(prefix="ralph-index-") as folder:
        pinned = {"GIT_INDEX_FILE": f"{folder}/index", "GIT_WORK_TREE": str(clone), **(seeing or {})}
        mirror.bare.git("read-tree", tip, pinned=pinned)
        mirror.bare.run("update-index", "-q", "--refresh", pinned=pinned)
        comparing = ("diff-files", "--ignore-submodules=all", "--name-only", "-z")
        changed = mirror.bare.git("-C", str(clone), *comparing, pinned=pinned)
        # Of `.git/info/exclude` only what ralph itself writes there: an agent could hide its work from us by the rest.
        ours = (f"--exclude={pattern}" for pattern in EXCLUDES)
        listing = ("ls-files", "--others", "--exclude-standard", *ours, "-z")
        untracked = mirror.bare.git("-C", str(clone), *listing, pinned=pinned)
    return [path for path in (changed + untracked).split("\0") if path]


def _take_over(mirror: Mirror, clone: Path, refs: Mapping[str, str], below: str) -> None:
    """Fetch what a clone's other refs (a branch, a tag, the stash) name and the mirror has not."""
    asked = "".join(f"{sha}\n" for sha in refs.values()).encode()
    known = mirror.bare.git("cat-file", "--batch-check=%(objectname)", said=asked).splitlines()
    new = [ref for ref, found in zip(refs, known, strict=True) if found.endswith(" missing")]
    if wanted := [f"+{ref}:{below}/{ref}" for ref in new if "^{}" not in ref]:
        mirror.bare.git(*FETCH, "--no-tags", "--", str(clone), *wanted)


def _stamp() -> str:
    """When this was; and no other has it: two queues can have a clone of one name, and share a mirror."""
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(3)}"
