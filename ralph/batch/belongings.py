"""The commits that a working clone holds by itself, whatever names them: a branch, a reflog, nothing at all.

An agent may amend, reset, detach HEAD, drop a stash, or keep a repository of its own in the clone; git keeps all these
commits, though no ref leads to them. They are read through a repository of ours that sees the clone's objects and
nothing else of it: neither its settings nor its alternates, its commit-graph or its word on what is shallow.
"""

import contextlib
import os
import re
import tempfile
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ralph.batch.bare import Bare
from ralph.batch.mirror import FETCH, PATIENCE, Mirror
from ralph.batch.origins import Origins, origins, refs
from ralph.gitcommand import last_line

_FANOUT = re.compile(r"[0-9a-f]{2}")
_HEX = re.compile(r"[0-9a-f]+")
_CONFIG = "[core]\n\trepositoryformatversion = 0\n\tbare = true\n\tmultiPackIndex = false\n\tcommitGraph = false\n"
_UNNAMED = "refs/unnamed"
_REPOSITORY = "160000"
"""How git writes that an entry is the commit of another repository."""


@dataclass(frozen=True, slots=True)
class Unnamed:
    """What a clone holds that no ref of the mirror's leads to."""

    tips: tuple[str, ...] = ()
    """Commits: the last of each line, all others come before them."""
    staged: tuple[str, ...] = ()
    """Files as they were added to the index, and never committed."""
    obstacle: str = ""
    """Why not all of it can be had."""


def unnamed(mirror: Mirror, clone: Path, commits: Sequence[str] = ()) -> Unnamed:
    """Find what a clone's own objects hold that no ref of the mirror's leads to; nothing is written.

    `commits` are kept in any case, and so is what is in their trees.
    """
    store = clone / ".git" / "objects"
    if not store.is_dir():
        return Unnamed(obstacle="it has no objects of its own")
    with _view(store) as view:
        own, obstacle = _commits(mirror, view)
        seeing = sight(view.path)
        tips, fault = _tips(mirror, own, seeing) if own and not obstacle else ((), "")
        staged, unread = _staged(mirror, clone / ".git" / "index", commits, seeing)
        return Unnamed(tips, staged, obstacle or fault or unread)


def _tips(mirror: Mirror, commits: Sequence[str], seeing: Mapping[str, str]) -> tuple[tuple[str, ...], str]:
    """Of these commits those that nothing in the mirror leads to, and none of the others; or what is missing."""
    beyond = ("--stdin", "--not", "--all")
    status, out, err = mirror.bare.run("rev-list", "--parents", *beyond, said=_lines(commits), pinned=seeing)
    if status != 0:
        return (), f"not all of its history is there: {last_line(err)}"
    rows = [line.split() for line in out.splitlines()]
    parents = {parent for _, *before in rows for parent in before}
    tips = tuple(sha for sha, *_ in rows if sha not in parents)
    if not tips:
        return (), ""
    status, _, err = mirror.bare.run("rev-list", "--objects", "--quiet", *beyond, said=_lines(tips), pinned=seeing)
    return (tips, "") if status == 0 else ((), f"not all of its files are there: {last_line(err)}")


def _staged(
    mirror: Mirror, index: Path, commits: Sequence[str], seeing: Mapping[str, str]
) -> tuple[tuple[str, ...], str]:
    """The files in a clone's index that are in none of these commits; or why that cannot be told.

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


def bring_over(mirror: Mirror, clone: Path, tips: Sequence[str], below: str) -> None:
    """Take these commits over from a clone, with all that comes before them, and these files; as refs below a name."""
    with _view(clone / ".git" / "objects") as view:
        (view.path / "objects" / "info" / "alternates").write_text(f"{mirror.path.resolve() / 'objects'}\n")
        (view.path / "packed-refs").write_text("".join(f"{sha} {_UNNAMED}/{sha}\n" for sha in sorted(tips)))
        mirror.bare.git(*FETCH, "--no-tags", "--", str(view.path), f"+{_UNNAMED}/*:{below}/*")


def inner_history(mirror: Mirror, clone: Path) -> str:
    """A repository within a clone, ignored or set aside as it may be, that has commits which may be nowhere else."""
    known = {store: origins(mirror.bare, store.parent) for store in _inner_stores(clone)}
    fetched = [tip for each in known.values() for tip in each.tips]  # by any: one may have been cloned from another
    for store, each in known.items():
        with _view(store) as view:
            own, obstacle = _commits(mirror, view)
            if obstacle or each.hashing != Origins.hashing:
                return str(_named(store, clone))
            left = _beyond(view, store.parent, _lacking(mirror.bare, own), fetched)
        if left is None or (left and not any(_has(mirror, source, left, clone) for source in each.sources)):
            return str(_named(store, clone))
    return ""


def _has(mirror: Mirror, git_dir: Path, commits: Sequence[str], clone: Path) -> bool:
    """Tell whether refs of a repository elsewhere on this machine lead to these commits; beside a clone all may go."""
    try:
        if git_dir.resolve().is_relative_to(clone.parent.resolve()):
            return False
        with _view(git_dir / "objects") as view:
            tips = list(refs(mirror.bare, git_dir).values())
            return not _lacking(view, [*commits, *tips]) and _beyond(view, git_dir, commits, tips) == []
    except (OSError, RuntimeError, ValueError):  # unreadable, links that lead in a circle, a NUL in a path
        return False


def _beyond(view: Bare, git_dir: Path, commits: Sequence[str], tips: Sequence[str]) -> list[str] | None:
    """Those of these commits that none of the tips leads to; None: that cannot be told."""
    if not commits:
        return []
    if (cut := git_dir / "shallow").is_file():
        (view.path / "shallow").write_bytes(cut.read_bytes())
    absent = set(_lacking(view, tips))
    asked = _lines([*commits, *(f"^{sha}" for sha in tips if sha not in absent)])
    status, out, _ = view.run("rev-list", "--stdin", said=asked)
    return out.split() if status == 0 else None


def linked_worktree(clone: Path) -> str:
    """A further working tree of a clone's repository, which could have what is not committed, and is useless alone."""
    for told in sorted((clone / ".git" / "worktrees").glob("*/gitdir")):
        with contextlib.suppress(OSError, ValueError):
            pointer = Path(told.read_text("utf-8", "surrogateescape").rstrip("\n"))
            if (told.parent / pointer).parent.is_dir():
                return str(pointer.parent)
    return ""


def sight(view: Path) -> dict[str, str]:
    """What lets a git command of the mirror's see a clone's objects as well."""
    path = str(view / "objects").replace("\\", "\\\\").replace('"', '\\"')
    return {"GIT_ALTERNATE_OBJECT_DIRECTORIES": f'"{path}"'}


@contextlib.contextmanager
def seen(clone: Path) -> Generator[dict[str, str]]:
    """What lets the mirror's git see a clone's objects without taking them over."""
    with _view(clone / ".git" / "objects") as view:
        yield sight(view.path)


@contextlib.contextmanager
def _view(store: Path) -> Generator[Bare]:
    """A passing repository of ours over somebody's objects."""
    with tempfile.TemporaryDirectory(prefix="ralph-view-") as folder:
        root = Path(folder)
        (root / "refs").mkdir()
        (root / "objects" / "info").mkdir(parents=True)
        (root / "HEAD").write_text("ref: refs/heads/none\n")
        (root / "config").write_text(_CONFIG)
        for entry in store.iterdir() if store.is_dir() else ():
            if entry.name == "pack" or _FANOUT.fullmatch(entry.name):
                (root / "objects" / entry.name).symlink_to(
                    entry.absolute()
                )  # unresolved: an agent can make a circle of links
        yield Bare(root)


def _commits(mirror: Mirror, view: Bare) -> tuple[list[str], str]:
    """The commits among somebody's objects; and which object, that the mirror has not, might be one and is broken."""
    packs = view.path / "objects" / "pack"
    listing = ("cat-file", "--batch-all-objects", "--unordered", "--batch-check=%(objecttype) %(objectname)")
    status, out, err = view.run(*listing, limit=PATIENCE)
    if status != 0:
        return [], f"its objects cannot be read: {last_line(err)}"
    unindexed = [pack.name for pack in packs.glob("*.pack") if not pack.with_suffix(".idx").is_file()]
    if unindexed or f"{packs}/" in err:
        return [], f"a pack of its objects cannot be read: {unindexed[0] if unindexed else last_line(err)}"
    if name := _named_otherwise(view.path / "objects"):
        return [], f"its objects are named in a way that is not read here: {name}"
    rows = [line.split() for line in out.splitlines()]
    broken = [first for first, second in rows if second == "missing"]
    if not broken and any(line.startswith(("error:", "fatal:")) for line in err.splitlines()):
        return [], f"its objects cannot be read: {last_line(err)}"  # a folder of them
    if broken and (lost := _lacking(mirror.bare, broken)):
        return [], f"its object {lost[0][:12]} is broken"
    return [second for first, second in rows if first == "commit"], ""


def _named_otherwise(objects: Path) -> str:
    """An object, or a pack, whose name has not the length of a SHA-1: git passes over those without a word."""
    loose = (file.name for folder in objects.glob("[0-9a-f][0-9a-f]") for file in folder.iterdir())
    packed = (file.stem.removeprefix("pack-") for file in (objects / "pack").glob("*.pack"))
    return next((name for name in loose if _HEX.fullmatch(name) and len(name) != 38), "") or next(
        (name for name in packed if _HEX.fullmatch(name) and len(name) != 40), ""
    )


def _lacking(bare: Bare, objects: Sequence[str]) -> list[str]:
    found = bare.git("cat-file", "--batch-check=%(objectname)", said=_lines(objects)).splitlines()
    return [sha for sha, line in zip(objects, found, strict=True) if line.endswith(" missing")]


def _lines(words: Sequence[str]) -> bytes:
    return "".join(f"{word}\n" for word in words).encode()


def _inner_stores(clone: Path) -> Iterator[Path]:
    """Every place for git's objects below a clone but its own: of a repository, a submodule, one without a tree."""
    own = clone / ".git" / "objects"
    for folder, inside, _ in os.walk(clone, onerror=_raised):
        here = Path(folder)
        if here.name == "objects" and {"pack", "info", *filter(_FANOUT.fullmatch, inside)} & set(inside):
            inside.clear()
            if here != own:
                yield here


def _raised(error: OSError) -> None:
    """What cannot be looked into may hold anything."""
    raise error


def _named(store: Path, clone: Path) -> Path:
    where = store.parent.relative_to(clone)
    return where.parent if where.name == ".git" else where
