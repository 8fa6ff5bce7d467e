"""The work tree that a scout passes over: put back after every session, the copies kept until it is."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ralph import protected
from ralph.errors import RalphError, UsageError
from ralph.gitrepo import Repo
from ralph.journal import Journal
from ralph.prompts import MAP
from ralph.tree.snapshot import TreeSnapshot


@dataclass(frozen=True, slots=True)
class Undone:
    """What a session did to the tree; `drawn` is the map, if it wrote one to its place by itself."""

    deeds: tuple[str, ...]
    drawn: str


class Ground:
    """A tree as it was before a pass; and the user's own files of `.ralph/`, even where git ignores them."""

    def __init__(self, repo: Repo, store: Path, aside: Path, pause: Callable[[], None]) -> None:
        """Take it down; copies go to `store`, what a session leaves is moved to `aside`. `pause` may call it off."""
        self._root = repo.root
        self._aside = aside
        self.store = store
        self.map = drawn_map(self._root)
        self._tree = TreeSnapshot.take(repo, store, pause)
        self._files = protected.take(self._root)
        self._is_back = True

    @property
    def unread(self) -> tuple[str, ...]:
        """What could not be copied, and will not be put back."""
        return self._tree.unread

    def put_back(self) -> Undone:
        """Undo whatever was changed, and say what that was; the map is told apart."""
        self._is_back = False
        drawn = drawn_map(self._root)
        try:
            deeds = self._tree.restore(self._aside)
            deeds += [f"changed .ralph/{name}" for name in self._files.restore(self._root, self._aside)]
        except RalphError as error:
            if not (self._root / ".git").exists():
                raise RalphError(
                    "the agent deleted .git; the files are as they were, the history is gone",
                    f"clone the repository again; what .git held besides the history is in {self.store}",
                ) from error
            where = f"the tree as it was before the pass is in {self.store / 'tree'}"
            raise RalphError(f"{error.message} (while the tree was put back)", where) from error
        self._is_back = True
        told = tuple(told_deed(deed) for deed in deeds if not deed.endswith(MAP))
        return Undone(told, "" if drawn == self.map else drawn)

    def leave(self) -> None:
        """Forget the copies, unless the tree still needs them."""
        if self._is_back:
            self._tree.discard()

    def begin_session(self) -> None:
        self._is_back = False


def told_deed(deed: str) -> str:
    """A deed with what has become of it; of one that was let stand it says so itself."""
    return deed if deed.endswith(")") else f"{deed}; that was undone"


def journal_of_passes(directory: Path) -> Journal:
    """Where passes over a work tree are journaled, beside the runs of its goals; no goal is called that."""
    return Journal(directory / ".understand")


def cut_passes(repo: Repo, directory: Path) -> list[TreeSnapshot]:
    """The trees as they were before passes that were killed, where anything is no longer so."""
    stores = sorted(journal_of_passes(directory).directory.glob(f"{_STORE}*"))
    snapshots = [TreeSnapshot.stored(repo, store) for store in stores]
    return [snapshot for snapshot in snapshots if snapshot is not None and snapshot.changes()]


def refuse_after_a_cut_pass(repo: Repo, directory: Path) -> None:
    """Refuse to build on what a pass that was killed may have left; the user decides, for he may have worked since."""
    for snapshot in cut_passes(repo, directory):
        raise UsageError(
            "a `ralph understand` was cut off here, and its agent may have changed files;"
            f" as they were, they are in {snapshot.store}/tree",
            "put the tree back as it was then: ralph understand --put-back;"
            f" or keep it as it is, and forget the copy: rm -r {snapshot.store}",
        )


def store_in(directory: Path, at: str) -> Path:
    """A new place for copies."""
    return directory / f"{_STORE}{at.replace(':', '')}"


_STORE = "before-"


def drawn_map(root: Path) -> str:
    """The map that stands in its place; a link or the like is none."""
    path = root / MAP
    with contextlib.suppress(OSError):
        if path.is_file() and not path.is_symlink():
            return path.read_text("utf-8", "replace").strip()
    return ""
