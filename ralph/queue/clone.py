"""What a working clone holds that its mirror lacks: commits, staged files, changed files, repositories inside it.

What the mirror cannot take over is an `Obstacle`. An agent may amend, reset, detach HEAD or drop a stash; git keeps all
these commits, though no ref leads to them. They are read through a view of ours on the clone's objects (`seeing_only`).
"""

import contextlib
import os
import re
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from ralph.core.errors import RepoError
from ralph.core.text import few
from ralph.git.command import last_line
from ralph.queue.repos.mirror import PATIENCE, Mirror
from ralph.queue.repos.remote import FANOUT, Bare, seeing_only
from ralph.state.project import EXCLUDES

CLONES, LEFTOVERS = "refs/ralph/clones", "refs/ralph/leftovers"
"""Where a mirror keeps what only a clone had: commits and staged files, and files that were not committed."""
_HEX = re.compile(r"[0-9a-f]+")
_MOST_NAMED = 3
"""Items of a reason that are named; the others are counted."""
_READ_BY_GIT = frozenset({".git", ".gitignore", ".gitattributes", ".gitmodules"})
"""What git reads in every folder of a working tree."""
_REPOSITORY = "160000"
"""How git writes that an entry is the commit of another repository."""


class Obstacle(StrEnum):
    """The kinds of things that keep a clone."""

    NO_DIRECTORY = "no directory"
    NO_MIRROR = "no mirror"
    BROKEN = "broken"
    NO_BRANCH = "no branch"
    BLOCKING = "blocking"
    """A named pipe or a device where git expects a file of its own."""
    WORKTREES = "worktrees"
    COMMITS = "commits"
    REPOSITORIES = "repositories"
    UNREADABLE = "unreadable"
    FILES = "files"


_WHY = {
    Obstacle.NO_DIRECTORY: "it is not a directory",
    Obstacle.NO_MIRROR: "its mirror is gone, so its work exists nowhere else",
    Obstacle.BROKEN: "its git repository is broken: {detail}",
    Obstacle.NO_BRANCH: "branch {detail} or part of its history is missing",
    Obstacle.BLOCKING: "git would wait forever to read {items}",
    Obstacle.WORKTREES: "it has another worktree in {items}",
    Obstacle.COMMITS: "{detail}",
    Obstacle.REPOSITORIES: "it contains another repository in {items}, whose history may exist nowhere else",
    Obstacle.UNREADABLE: "cannot read {items}",
    Obstacle.FILES: "not committed: {items}",
}


@dataclass(frozen=True, slots=True)
class Unsaved:
    """Something in a clone that the mirror does not have and cannot take over."""

    what: Obstacle
    items: tuple[str, ...] = ()
    """Commits, or paths: all of them, as far as they can be listed."""
    detail: str = field(default="", compare=False)
    """More about it, in git's words as a rule; they may name a passing file, so they are not compared."""

    def is_part_of(self, other: "Unsaved") -> bool:
        """Tell whether it is no more than the other one says."""
        return self.what is other.what and set(self.items) <= set(other.items)

    @property
    def why(self) -> str:
        """The reason to stay, as people read it."""
        return _WHY[self.what].format(detail=self.detail, items=few(self.items, _MOST_NAMED))


@dataclass(frozen=True, slots=True)
class Found:
    """What is in a clone that is about to go."""

    branch: str
    tip: str = ""
    """The last commit of its branch."""
    refs: Mapping[str, str] = field(default_factory=dict[str, str])
    unsaved: tuple[Unsaved, ...] = ()

    def has(self, *obstacles: Obstacle) -> bool:
        return any(each.what in obstacles for each in self.unsaved)

    @property
    def why(self) -> str:
        """Why the clone stays; empty: all that it holds can be saved."""
        return "; ".join(each.why for each in self.unsaved)


def examine(mirror: Mirror | None, clone: Path, branch: str) -> Found:
    """Look for what a clone holds that the mirror could not take over; nothing is written."""
    if mirror is None:
        return Found(branch, unsaved=(Unsaved(Obstacle.NO_MIRROR),))
    if clone.is_symlink() or not clone.is_dir():
        return Found(branch, unsaved=(Unsaved(Obstacle.NO_DIRECTORY),))
    if blocking := _blocking_files(clone):
        return Found(branch, unsaved=(Unsaved(Obstacle.BLOCKING, blocking),))
    unsaved: list[Unsaved] = []
    status, out, err = mirror.bare.run("ls-remote", "--", str(clone), limit=PATIENCE)
    listed = (line.partition("\t") for line in out.splitlines() if status == 0)
    refs = {ref: sha for sha, _, ref in listed if sha.strip("0")}  # one that a crash emptied names nothing
    tip = refs.get(f"refs/heads/{branch}", "")
    if status != 0:
        unsaved.append(Unsaved(Obstacle.BROKEN, detail=last_line(err)))
    elif not tip:
        unsaved.append(Unsaved(Obstacle.NO_BRANCH, detail=branch))
    if trees := _linked_worktrees(clone):
        unsaved.append(Unsaved(Obstacle.WORKTREES, trees))
    if gap := unnamed(mirror, clone).unsaved:
        unsaved.append(gap)
    with seeing_only(clone / ".git" / "objects") as view:
        pinned = {} if gap else view.lent()
        nowhere = set(mirror.bare.lacking([*refs.values()], pinned))
        if missing := [f"{sha} {ref}" for ref, sha in refs.items() if sha in nowhere and not gap]:
            unsaved.append(
                Unsaved(Obstacle.COMMITS, tuple(missing), f"its {missing[0][41:]} points to a missing object")
            )
        whole = tip if tip and tip not in nowhere else any_tip(mirror, branch)
        unsaved += _beside_commits(mirror, clone, whole, pinned)
    return Found(branch, tip, refs, tuple(unsaved))


_MOST_CHANGED = 20_000
"""Changed lines of a diff that is read by people; of a larger one, the files alone."""
_GLANCE = 30.0
"""Seconds that git has for what is only looked at."""
_CHANGED_LINES = re.compile(r"(\d+) (?:insertion|deletion)")


def changes_in(mirror: Mirror, clone: Path, branch: str, squash: str | None = None) -> str:
    """Return what a goal changed, read without the clone's settings; empty: nothing.

    Of a merged goal, that is its commit on the base (`squash`); of another, how its branch differs from where it began.
    """
    between = f"{squash}^!" if squash is not None else _since_it_began(mirror, clone, branch)
    comparing = ("diff", "--no-ext-diff", "--no-textconv", "--no-color")
    with seeing_only(clone / ".git" / "objects") as view:
        size = mirror.bare.git(*comparing, "--shortstat", between, pinned=view.lent())
        is_large = sum(map(int, _CHANGED_LINES.findall(size))) > _MOST_CHANGED
        how = ("--stat=200",) if is_large else ()
        return mirror.bare.git(*comparing, *how, between, pinned=view.lent())


def _since_it_began(mirror: Mirror, clone: Path, branch: str) -> str:
    status, out, _ = mirror.bare.run("ls-remote", "--", str(clone), f"refs/heads/{branch}", limit=_GLANCE)
    tip = (out.partition("\t")[0] if status == 0 else "") or mirror.tip(branch)
    if not tip:
        raise RepoError(f"branch {branch} no longer exists", "it is merged, or not started yet")
    return f"{mirror.base(branch).tip}...{tip}"


def any_tip(mirror: Mirror, branch: str) -> str:
    """Return a commit to compare files with if the clone's own is unavailable: any will do."""
    return mirror.tip(branch) or mirror.base(branch).tip


def _beside_commits(mirror: Mirror, clone: Path, tip: str, pinned: Mapping[str, str]) -> Iterator[Unsaved]:
    """Find what is in a clone's folders, not in its own history, and cannot be saved."""
    left = uncommitted(mirror, clone, tip, pinned)
    inner, unreadable = _inner_repositories(clone)
    inner |= {path.rstrip("/") for path in left if path.endswith("/")}
    inner |= _linked_repositories(mirror, clone, tip, pinned)
    if inner:
        yield Unsaved(Obstacle.REPOSITORIES, tuple(sorted(inner)))
    if unreadable:
        yield Unsaved(Obstacle.UNREADABLE, tuple(sorted(unreadable)))
    files = [path for path in left if not path.endswith("/") and not _can_be_read(clone / path)]
    if files:
        yield Unsaved(Obstacle.FILES, tuple(files))


def _blocking_files(clone: Path) -> tuple[str, ...]:
    """Find named pipes and devices where git expects a file of its own: it would wait for what nobody writes."""
    found: list[str] = []
    for folder, _, files in os.walk(clone):
        in_git = ".git" in Path(folder).relative_to(clone).parts
        for name in files if in_git else _READ_BY_GIT.intersection(files):
            with contextlib.suppress(OSError):  # it is gone by now; or a link that leads nowhere
                mode = (Path(folder) / name).stat().st_mode
                if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode):
                    found.append(os.path.relpath(Path(folder) / name, clone))
    return tuple(sorted(found))


def _can_be_read(path: Path) -> bool:
    """Tell whether git can save a path that has changed; one that was deleted is saved as such."""
    try:
        mode = path.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return os.access(path, os.R_OK) if stat.S_ISREG(mode) else stat.S_ISLNK(mode) or stat.S_ISDIR(mode)


def _linked_repositories(mirror: Mirror, clone: Path, tip: str, pinned: Mapping[str, str]) -> set[str]:
    """Return non-empty folders that the commit records only as a commit of another repository.

    Neither what is in them nor the history in their `.git` comes along with ours, and git counts them as unchanged.
    """
    entries = mirror.bare.git("ls-tree", "-r", "-z", "--full-tree", tip, pinned=pinned).split("\0")
    listed = (entry.partition("\t") for entry in entries)
    links = [path for what, _, path in listed if what.startswith(f"{_REPOSITORY} ")]
    return {path for path in links if any((clone / path).glob("*"))}


def uncommitted(mirror: Mirror, clone: Path, tip: str, seeing: Mapping[str, str] | None = None) -> list[str]:
    """What in the clone's files is not in the commit, and not ignored; found without the clone's own settings.

    Those could name programs (`filter.*.clean`), which git would run to compare; and so could the settings of a
    repository inside the clone that is part of the commit: git diff-files runs git status in it.
    """
    with tempfile.TemporaryDirectory(prefix="ralph-index-") as folder:
        pinned = {"GIT_INDEX_FILE": f"{folder}/index", "GIT_WORK_TREE": str(clone), **(seeing or {})}
        mirror.bare.git("read-tree", tip, pinned=pinned, limit=PATIENCE)
        mirror.bare.run("update-index", "-q", "--refresh", pinned=pinned, limit=PATIENCE)
        comparing = ("diff-files", "--ignore-submodules=all", "--name-only", "-z")
        changed = mirror.bare.git("-C", str(clone), *comparing, pinned=pinned, limit=PATIENCE)
        # Of `.git/info/exclude` only what ralph itself writes there: an agent could hide its work from us by the rest.
        ours = (f"--exclude={pattern}" for pattern in EXCLUDES)
        listing = ("ls-files", "--others", "--exclude-standard", *ours, "-z")
        untracked = mirror.bare.git("-C", str(clone), *listing, pinned=pinned, limit=PATIENCE)
    return [path for path in (changed + untracked).split("\0") if path]


@dataclass(frozen=True, slots=True)
class Unnamed:
    """What a clone holds that no ref of the mirror's leads to."""

    tips: tuple[str, ...] = ()
    """Commits: the last of each line, all others come before them."""
    staged: tuple[str, ...] = ()
    """Files as they were added to the index, and never committed."""
    unsaved: Unsaved | None = None
    """What of it cannot be read."""


def unnamed(mirror: Mirror, clone: Path, commits: Sequence[str] = ()) -> Unnamed:
    """Find what a clone's own objects hold that no ref of the mirror's leads to; nothing is written.

    `commits` are kept in any case, and so is what is in their trees.
    """
    store = clone / ".git" / "objects"
    if not store.is_dir():
        return Unnamed(unsaved=Unsaved(Obstacle.COMMITS, detail="it has no objects of its own"))
    with seeing_only(store) as view:
        own, broken = _commits(mirror, view)
        seeing = view.lent()
        tips, gap = _tips(mirror, own, seeing) if own else ((), "")
        staged, unread = _staged(mirror, clone / ".git" / "index", commits, seeing)
        if not (detail := broken or gap or unread):
            return Unnamed(tips, staged)
        lost = _titles(mirror, mirror.bare.lacking(own), seeing) if gap else ()
        return Unnamed(tips, staged, Unsaved(Obstacle.COMMITS, lost, detail))


def _titles(mirror: Mirror, commits: Sequence[str], seeing: Mapping[str, str]) -> tuple[str, ...]:
    """Commits with the first lines of their messages, newest first; what comes before them may be missing."""
    showing = ("rev-list", "--no-walk", "--no-commit-header", "--format=%H %s", "--stdin")
    status, out, _ = mirror.bare.run(*showing, said=lines_of(commits), pinned=seeing) if commits else (0, "", "")
    return tuple(out.splitlines() if status == 0 else commits)


def _tips(mirror: Mirror, commits: Sequence[str], seeing: Mapping[str, str]) -> tuple[tuple[str, ...], str]:
    """Of these commits those that nothing in the mirror leads to, and none of the others; or what is missing."""
    beyond = ("--stdin", "--not", "--all")
    status, out, err = mirror.bare.run("rev-list", "--parents", *beyond, said=lines_of(commits), pinned=seeing)
    if status != 0:
        return (), f"not all of its history is there: {last_line(err)}"
    rows = [line.split() for line in out.splitlines()]
    parents = {parent for _, *before in rows for parent in before}
    tips = tuple(sha for sha, *_ in rows if sha not in parents)
    if not tips:
        return (), ""
    status, _, err = mirror.bare.run("rev-list", "--objects", "--quiet", *beyond, said=lines_of(tips), pinned=seeing)
    return (tips, "") if status == 0 else ((), f"not all of its files are there: {last_line(err)}")


def _staged(
    mirror: Mirror, index: Path, commits: Sequence[str], seeing: Mapping[str, str]
) -> tuple[tuple[str, ...], str]:
    """Return the files in a clone's index that are in none of these commits, or why that is unknown.

    Also those that the mirror has, but perhaps by chance: `git gc` removes what no ref leads to.
    """
    if not index.exists():
        return (), ""
    pinned = {"GIT_INDEX_FILE": str(index)}
    status, out, err = mirror.bare.run("ls-files", "--stage", "-z", pinned=pinned, limit=PATIENCE)
    if status != 0:
        return (), f"its index cannot be read: {last_line(err)}"
    facts = [entry.split()[:2] for entry in out.split("\0") if entry]
    listing = ("ls-tree", "-r", "-z", "--full-tree")
    trees = "".join(mirror.bare.git(*listing, commit, pinned=seeing) for commit in commits)
    safe = {entry.partition("\t")[0].rpartition(" ")[2] for entry in trees.split("\0")}
    return tuple(dict.fromkeys(sha for mode, sha in facts if mode != _REPOSITORY and sha not in safe)), ""


def _linked_worktrees(clone: Path) -> tuple[str, ...]:
    """Further working trees of a clone's repository: each may hold changed files, and is useless without the clone."""
    found: list[str] = []
    for told in sorted((clone / ".git" / "worktrees").glob("*/gitdir")):
        with contextlib.suppress(OSError, ValueError):
            pointer = Path(told.read_text("utf-8", "surrogateescape").rstrip("\n"))
            if (told.parent / pointer).parent.is_dir():
                found.append(str(pointer.parent))
    return tuple(found)


def _commits(mirror: Mirror, view: Bare) -> tuple[list[str], str]:
    """The commits among somebody's objects; and which object, that the mirror has not, might be one and is broken."""
    packs = view.path / "objects" / "pack"
    listing = ("cat-file", "--batch-all-objects", "--unordered", "--batch-check=%(objecttype) %(objectname)")
    status, out, err = view.run(*listing, limit=PATIENCE)
    if status != 0:
        return [], f"its objects cannot be read: {last_line(err)}"
    rows = [line.split() for line in out.splitlines()]
    own = [second for first, second in rows if first == "commit"]
    unindexed = [pack.name for pack in packs.glob("*.pack") if not pack.with_suffix(".idx").is_file()]
    if unindexed or f"{packs}/" in err:
        return own, f"a pack of its objects cannot be read: {unindexed[0] if unindexed else last_line(err)}"
    if name := _named_otherwise(view.path / "objects"):
        return own, f"its objects have names that ralph cannot read: {name}"
    broken = [first for first, second in rows if second == "missing"]
    if not broken and any(line.startswith(("error:", "fatal:")) for line in err.splitlines()):
        return own, f"its objects cannot be read: {last_line(err)}"  # a folder of them
    if broken and (lost := mirror.bare.lacking(broken)):
        return own, f"its object {lost[0][:12]} is broken"
    return own, ""


def _named_otherwise(objects: Path) -> str:
    """An object, or a pack, whose name has not the length of a SHA-1: git passes over those without a word."""
    loose = (file.name for folder in objects.glob("[0-9a-f][0-9a-f]") for file in folder.iterdir())
    packed = (file.stem.removeprefix("pack-") for file in (objects / "pack").glob("*.pack"))
    return next((name for name in loose if _HEX.fullmatch(name) and len(name) != 38), "") or next(
        (name for name in packed if _HEX.fullmatch(name) and len(name) != 40), ""
    )


def _inner_repositories(clone: Path) -> tuple[set[str], set[str]]:
    """Every further git repository in a clone, ignored or not: one that a build fetched, a submodule, a bare one.

    They are known by their objects. Whether these are elsewhere, too, only their settings tell, which are an agent's.
    Also the folders that cannot be looked into: they may hold anything.
    """
    faults: list[OSError] = []
    found: set[str] = set()
    for folder, inside, _ in os.walk(clone, onerror=faults.append):
        where = Path(folder).relative_to(clone)
        if where.name == "objects" and _holds_objects(clone / where, inside, in_git=".git" in where.parts):
            inside.clear()
            if where != Path(".git/objects"):
                found.add(str(where.parent.parent if where.parent.name == ".git" else where.parent))
    return found, {os.path.relpath(fault.filename or clone, clone) for fault in faults}


def _holds_objects(folder: Path, inside: Sequence[str], *, in_git: bool) -> bool:
    """Tell whether a folder of this name is git's, or Git LFS's; also if the rest of the repository is gone."""
    fans = [name for name in inside if FANOUT.fullmatch(name)]
    if not fans and not {"pack", "info"} & set(inside):
        return False
    loose = (file.name for name in fans for file in folder.glob(f"{name}/*"))
    is_git = in_git or os.path.lexists(folder.parent / "HEAD") or any(folder.glob("pack/*.pack"))
    return is_git or any(len(name) in (38, 62) and _HEX.fullmatch(name) for name in loose)


def lines_of(words: Sequence[str]) -> bytes:
    return "".join(f"{word}\n" for word in words).encode()


def kept_below(clone: Path, branch: str) -> tuple[str, str]:
    """Where a mirror keeps what only a clone had: commits and uncommitted files."""
    return f"{CLONES}/{clone.name}", f"{LEFTOVERS}/{branch}"


def kept(bare: Bare, clone: Path, branch: str) -> list[str]:
    """The refs under which a mirror keeps it; a clone of that name in another queue may have left some of them.

    None for a broken mirror: the rest of a goal's facts are shown anyway.
    """
    status, out, _ = bare.run("for-each-ref", "--format=%(refname)", *kept_below(clone, branch))
    return out.split() if status == 0 else []
