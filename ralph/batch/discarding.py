"""The end of a working clone: it goes when everything in it is safe in the mirror, and not before.

An agent may amend, reset, detach HEAD, drop a stash, or keep a repository of its own in the clone; git keeps all these
commits, though no ref leads to them. They are read through a repository of ours that sees the clone's objects and
nothing else of it: neither its settings nor its alternates, its commit-graph or its word on what is shallow.
"""

import contextlib
import os
import re
import secrets
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from ralph.batch.bare import Bare
from ralph.batch.mirror import FETCH, PATIENCE, Mirror
from ralph.batch.origins import Origins, origins, refs
from ralph.batch.removal import remove_tree
from ralph.gitcommand import last_line
from ralph.windows import EXCLUDES

_CLONES, _LEFTOVERS = "refs/ralph/clones", "refs/ralph/leftovers"
_FANOUT = re.compile(r"[0-9a-f]{2}")
_HEX = re.compile(r"[0-9a-f]+")
_CONFIG = "[core]\n\trepositoryformatversion = 0\n\tbare = true\n\tmultiPackIndex = false\n\tcommitGraph = false\n"
_UNNAMED = "refs/unnamed"
_REPOSITORY = "160000"
"""How git writes that an entry is the commit of another repository."""


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
