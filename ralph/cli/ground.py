"""The work tree that a scout passes over: put back after every session, the copies kept until it is."""

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ralph import gitrepo, protected
from ralph.errors import RalphError, UsageError
from ralph.files import named_in_faults, replace_file
from ralph.gitrepo import Repo
from ralph.journal import Journal
from ralph.prompts import MAP
from ralph.tree.snapshot import MANIFEST, TreeSnapshot

_STORE = "before-"
_OWN = "own"
_LINK = "link"
_LET_STAND = re.compile(r" \((?:left: [^()]*|not kept)\)$|^committed: ")


@dataclass(frozen=True, slots=True)
class Undone:
    """What a session did to the tree; `drawn` is the map, if it wrote one to its place by itself."""

    deeds: tuple[str, ...]
    drawn: str


class Ground:
    """A tree as it was before a pass; besides, what git does not see of it.

    That is the user's own files of `.ralph/` where they are ignored, and a `.git` that is a file, as in a linked work
    tree: one that leads elsewhere would have git run another repository's hooks.
    """

    def __init__(self, tree: TreeSnapshot, files: protected.Snapshot | None, link: bytes | None, aside: Path) -> None:
        self._root = tree.repo.root
        self._tree, self._files, self._link, self._aside = tree, files, link, aside
        self._map = _written(self._root / MAP)
        self._is_back = True
        self.has_undone = False

    @classmethod
    def take(cls, repo: Repo, store: Path, aside: Path, pause: Callable[[], None]) -> "Ground":
        """Take it down; copies go to `store`, what a session leaves is moved to `aside`. `pause` may call it off."""
        tree, files = TreeSnapshot.take(repo, store, pause), protected.take(repo.root)
        files.store(store / _OWN)
        link = _link(repo.root)
        if link is not None:
            replace_file(store / _LINK, link)
        return cls(tree, files, link, aside)

    @classmethod
    def left_by_a_cut(cls, repo: Repo, store: Path, aside: Path) -> "Ground | None":
        """The ground of a pass that was killed, from its copies; None if they are not whole."""
        tree = TreeSnapshot.stored(repo, store)
        link = (store / _LINK).read_bytes() if (store / _LINK).is_file() else None
        return None if tree is None else cls(tree, protected.stored(store / _OWN), link, aside)

    @property
    def store(self) -> Path:
        return self._tree.store

    @property
    def unread(self) -> tuple[str, ...]:
        """What could not be copied, and will not be put back."""
        return self._tree.unread

    @property
    def map(self) -> bytes:
        """The map that stood in its place; empty if there was none."""
        return self._map[0]

    def changes(self) -> list[str]:
        """Say what is no longer as it was."""
        own = [] if self._files is None else self._files.changed(self._root)
        moved = ["changed .git"] if self._link not in (None, _link(self._root)) else []
        return [*moved, *self._tree.changes(), *(f"changed .ralph/{name}" for name in own)]

    def begin_session(self) -> None:
        self._is_back = False

    def put_back(self) -> Undone:
        """Undo whatever was changed, and say what that was; the map is told apart."""
        self._is_back = False
        now = _written(self._root / MAP)
        try:
            deeds = [*self._relink(), *self._tree.restore(self._aside)]
            own = [] if self._files is None else self._files.restore(self._root, self._aside)
        except RalphError as error:
            if not (self._root / ".git").exists():
                raise RalphError(
                    "the agent deleted .git: the history is gone; the files that were there are, what it added is, too",
                    f"clone the repository again; what .git held besides the history is in {self.store}",
                ) from error
            where = f"the tree as it was before the pass is in {self.store / 'tree'}"
            raise RalphError(f"{error.message} (while the tree was put back)", where) from error
        self._is_back = True
        told = [deed for deed in [*deeds, *(f"changed .ralph/{name}" for name in own)] if not _is_of_map(deed)]
        self.has_undone = self.has_undone or bool(told)
        drawn = now[0].decode("utf-8", "replace").strip() if now != self._map else ""
        self._map = _written(self._root / MAP)  # it was written anew, and another session may do so, too
        return Undone(tuple(map(told_deed, told)), drawn)

    def leave(self) -> None:
        """Forget the copies, unless the tree still needs them."""
        if self._is_back:
            self._tree.discard()

    def _relink(self) -> list[str]:
        if self._link is None or _link(self._root) == self._link:
            return []
        path = self._root / ".git"
        with named_in_faults(path):
            if path.is_symlink() or path.exists():
                self._aside.mkdir(parents=True, exist_ok=True)
                shutil.move(path, self._aside / f"git-{len(list(self._aside.iterdir()))}")
            path.write_bytes(self._link)
        return ["changed .git"]


def told_deed(deed: str) -> str:
    """A deed with what has become of it; of one that was let stand it says so itself."""
    return deed if _LET_STAND.search(deed) else f"{deed}; that was undone"


def journal_of_passes(directory: Path) -> Journal:
    """Where passes over a work tree are journaled, beside the runs of its goals; no goal is called that."""
    return Journal(directory / ".understand")


def store_in(directory: Path, at: str) -> Path:
    """A new place for copies."""
    return directory / f"{_STORE}{at.replace(':', '')}"


def cut_passes(root: Path, directory: Path) -> list[Ground]:
    """The grounds of passes that were killed, where anything is no longer as it was; the others are forgotten.

    To be asked by who holds the lock of the tree: the copies of a pass at work look the same.
    """
    journal = journal_of_passes(directory)
    found: list[Ground] = []
    for store in sorted(journal.directory.glob(f"{_STORE}*")):
        if not (store / MANIFEST).exists():  # it was killed before its agent began
            shutil.rmtree(store, ignore_errors=True)
            continue
        ground = Ground.left_by_a_cut(gitrepo.open_repo(root), store, journal.undone)
        if ground is None:
            raise UsageError(
                f"a `ralph understand` was cut off here, and its copies in {store} are damaged",
                f"look what of {store}/tree is missing here, then remove it: rm -r {store}",
            )
        if ground.changes():
            found.append(ground)
        else:
            ground.leave()
    return found


def refuse_after_a_cut_pass(root: Path, directory: Path) -> None:
    """Refuse to build on what a pass that was killed may have left; the user decides, for he may have worked since."""
    for ground in cut_passes(root, directory):
        raise UsageError(
            "a `ralph understand` was cut off here, and its agent may have changed files;"
            f" as they were, they are in {ground.store}/tree",
            "put the tree back as it was then: ralph understand --put-back;"
            f" or keep it as it is, and forget the copy: rm -r {ground.store}",
        )


def _is_of_map(deed: str) -> bool:
    return deed.partition(" ")[2] == MAP


def _link(root: Path) -> bytes | None:
    path = root / ".git"
    return path.read_bytes() if path.is_file() and not path.is_symlink() else None


def _written(path: Path) -> tuple[bytes, int]:
    """A file's bytes, and when they were written: who writes the same again has written it. A link is no file."""
    if not path.is_file() or path.is_symlink():
        return b"", 0
    with named_in_faults(path):
        return path.read_bytes(), path.stat().st_mtime_ns
