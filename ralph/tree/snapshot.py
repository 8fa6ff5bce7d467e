"""The whole work tree as it stood before a read-only pass, and the way back to it.

Kept are all files that git does not ignore, tracked or not, clean or dirty, byte by byte; every `.gitignore`; and of
the repository what is staged, where HEAD, branches and tags are, a merge or the like in progress, the stash, hooks and
configuration. The copies are plain files, not git's objects: filters and line endings would change what goes through
those, and an agent can prune them. They cost as much room and time as the tree itself.

Hooks, configuration and `info/` are those of all work trees of the repository. They are put back even if somebody else
may have changed them meanwhile: a hook or a filter of an agent's runs as the user. What stood there is put aside.

Not kept: ignored files, what is inside submodules and other repositories within this one, ralph's own `.ralph/state`,
`.ralph/logs` and `.ralph/runs`, and what git fetched meanwhile.
"""

import contextlib
import hashlib
import shutil
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ralph import jsonline
from ralph.errors import DiskError, RepoError
from ralph.files import make_private_directory, replace_file
from ralph.gitcommand import run_git, succeeded
from ralph.gitrepo import Repo
from ralph.tree.keptfiles import KeptFiles
from ralph.tree.keptrefs import KeptRefs, detached_head, stash_log
from ralph.tree.listing import TreeListing, own_excludes
from ralph.tree.shelf import Shelf

_OF_THE_TREE = (
    "HEAD", "index", "MERGE_HEAD", "MERGE_MODE", "MERGE_MSG", "SQUASH_MSG", "AUTO_MERGE", "CHERRY_PICK_HEAD",
    "REVERT_HEAD", "BISECT_START", "BISECT_LOG", "BISECT_NAMES", "BISECT_TERMS", "config.worktree", "rebase-merge",
    "rebase-apply", "sequencer",
)  # fmt: skip
_EXCLUDES = "excludes"
MANIFEST = "manifest.json"
_VERSION = 1
_OF_THE_REPOSITORY = ("config", "hooks", "info")


@dataclass(frozen=True, slots=True)
class TreeSnapshot:
    """A work tree as it stood. `store` holds the copies, plain files; should ralph be killed, see `stored`.

    While it is restored, nothing else may work in the tree.
    """

    repo: Repo
    store: Path
    refs: KeptRefs
    staged: str
    tree: KeptFiles
    git: tuple[KeptFiles, ...]

    @classmethod
    def take(cls, repo: Repo, store: Path, pause: Callable[[], None] = lambda: None) -> "TreeSnapshot":
        """Record the work tree. The copies go to `store`, a directory of ralph's own that is not there yet.

        `pause` is called between files; if it raises, the store is removed.
        """
        with _named_faults(repo.root):
            make_private_directory(store.parent)
            store.mkdir(mode=0o700)
            try:
                common = _common_dir(repo)
                refs = KeptRefs.record(repo, stash_log(common, store / "stash"))
                git = _git_places(repo, common, store)
                for place in git:
                    place.keep(place.found(), pause=pause)
                (store / _EXCLUDES).write_bytes(own_excludes(repo))
                tree = KeptFiles(repo.root, store / "tree")
                listing = TreeListing(repo, repo.git_dir / "index", store / _EXCLUDES, ours=[store])
                tree.keep(listing.files(), listing.untracked_folders(), pause)
                tree.keep(path for path in listing.rule_files(tree) if path not in tree.files)
                snapshot = cls(repo, store, refs, _staged(repo), tree, git)
                snapshot._write_manifest(common)
                return snapshot
            except BaseException:  # an interruption, too
                shutil.rmtree(store, ignore_errors=True)
                raise

    @classmethod
    def stored(cls, repo: Repo, store: Path) -> "TreeSnapshot | None":
        """Take up the snapshot in `store` that another process took of this tree; None if it is not whole."""
        try:
            said = jsonline.mapping(jsonline.decode((store / MANIFEST).read_text("utf-8")))
            common = Path(jsonline.text(said["common"]))
            # An agent may have written the manifest: it says nothing of where to write but what the repository says.
            if (
                (said["version"], said["root"], said["git_dir"]) != (_VERSION, str(repo.root), str(repo.git_dir))
                or (common != repo.git_dir and common / "worktrees" != repo.git_dir.parent)
                or not (store / _EXCLUDES).is_file()
            ):
                return None
            tree, git = KeptFiles(repo.root, store / "tree"), _git_places(repo, common, store)
            tree.recall(said["tree"])
            for place, recorded in zip(git, jsonline.sequence(said["git"]), strict=True):
                place.recall(recorded)
            refs = KeptRefs.recalled(repo, stash_log(common, store / "stash"), said["refs"])
            return cls(repo, store, refs, jsonline.text(said["staged"]), tree, git)
        except (OSError, ValueError, KeyError):
            return None

    def _write_manifest(self, common: Path) -> None:
        """Say that all is there, and what it is: the last thing to be written."""
        manifest = {
            "version": _VERSION,
            "root": str(self.repo.root),
            "git_dir": str(self.repo.git_dir),
            "common": str(common),
            "staged": self.staged,
            "refs": self.refs.recorded(),
            "git": [place.recorded() for place in self.git],
            "tree": self.tree.recorded(),
        }
        replace_file(self.store / MANIFEST, jsonline.encode_line(manifest))

    @property
    def unread(self) -> tuple[str, ...]:
        """What could not be read, and so is not kept; it is neither put back nor put aside."""
        return tuple(sorted(place.shelved_as + path for place in (self.tree, *self.git) for path in place.unread))

    def discard(self) -> None:
        """Forget the copies; the manifest first, for what is half removed must not be restored by the next process."""
        with contextlib.suppress(OSError):
            (self.store / MANIFEST).unlink()
        shutil.rmtree(self.store, ignore_errors=True)

    def changes(self) -> list[str]:
        """Say what is no longer as it was.

        Of what new ignore rules hide, only the rules are seen.
        """
        with _named_faults(self.repo.root):
            found = self._git_changes()
            found += self.refs.changes()
            found += [f"{word} {path}" for path, word in self.tree.differing()]
            found += [f"deleted {path}/ (not kept)" for path in self.tree.gone()]
            listing = self._listing()
            return found + [f"added {path}" for path in self._added(listing.files() + listing.rule_files(self.tree))]

    def restore(self, aside: Path) -> list[str]:
        """Put everything back; say what was undone.

        What was not is said as well, and ends in `(left: …)` or `(not kept)`.
        What stood in the way, and what is new, is moved to a folder in `aside`; commits stay under `refs/ralph/undone`.
        Files come first: they can be put back even where git cannot be run any more.
        """
        with _named_faults(self.repo.root):
            shelf = Shelf(aside)
            head = detached_head(self.repo)
            undone = self._git_changes()
            undone += [f"{word} {path}" for path, word in self.tree.restore(shelf)]
            undone += [f"deleted {path}/ (not kept)" for path in self.tree.gone()]
            for place in self.git:
                place.restore(shelf)
                for path in place.added():
                    place.shelve(path, shelf)
            self.repo.clear_stale_locks()
            undone += self.refs.restore(head, shelf)
            undone += [f"added {path}" for path in self._take_away(shelf, self._listing(aside))]
            for place in (*self.git, self.refs.log, self.tree):
                place.close()
        return undone

    def _listing(self, *ours: Path) -> TreeListing:
        """By the index as it was: an ignored file that was staged since is no new one."""
        return TreeListing(self.repo, self.git[0].copies / "index", self.store / _EXCLUDES, ours=[self.store, *ours])

    def _take_away(self, shelf: Shelf, listing: TreeListing) -> list[str]:
        """Move what is new aside, and leave no new directory empty; name the files.

        New ignore rules come first, the outermost before those whose folders they may hide: what else is new is then
        found by the rules that stood.
        """
        taken: list[str] = []
        while rules := self._added(listing.rule_files(self.tree)):
            taken += self._shelve([path for path in rules if path.count("/") == rules[0].count("/")], shelf)
        taken += self._shelve(self._added(listing.files()), shelf)
        for folder in listing.untracked_folders():
            self.tree.remove_if_empty(folder)
        return taken

    def _shelve(self, paths: list[str], shelf: Shelf) -> list[str]:
        for path in paths:
            self.tree.shelve(path, shelf)
            self.tree.leave_no_folder(path)
        return paths

    def _added(self, paths: Sequence[str]) -> list[str]:
        """Which of them are there and were not."""
        tree = self.tree
        inside = tuple(f"{path}/" for path in tree.nested)
        return [
            path
            for path in dict.fromkeys(paths)
            if path not in tree.files
            and path not in tree.folders
            and (not f"{path}/".startswith(inside) or tree.is_replaced(path))
            and not tree.is_unread(path)
            and tree.has(path)
        ]

    # The repository.

    def _git_changes(self) -> list[str]:
        """Say what differs in the repository's own files."""
        found: list[str] = []
        for place in self.git:
            paths = [path for path, _ in place.differing()] + place.added()
            found += ["moved HEAD" if path == "HEAD" else f"changed .git/{path}" for path in paths if path != "index"]
        return found if self._is_staged_as_before() else [*found, "changed what is staged"]

    def _is_staged_as_before(self) -> bool:
        """Compare what the index says, not its bytes: to look at the status is enough to have it written anew."""
        try:
            return _staged(self.repo) == self.staged
        except RepoError:
            return False


@contextlib.contextmanager
def _named_faults(root: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise DiskError(error.filename or root, error) from error


# What git says.


def _common_dir(repo: Repo) -> Path:
    return Path(_git(repo, "rev-parse", "--path-format=absolute", "--git-common-dir").removesuffix("\n"))


def _git_places(repo: Repo, common: Path, store: Path) -> tuple[KeptFiles, ...]:
    """The directory of this work tree in the repository, and that of the repository: usually the same."""
    if common == repo.git_dir:
        return (KeptFiles(common, store / "git", (*_OF_THE_TREE, *_OF_THE_REPOSITORY), ".git/"),)
    return (
        KeptFiles(repo.git_dir, store / "git", _OF_THE_TREE, ".git/"),
        KeptFiles(common, store / "common", _OF_THE_REPOSITORY, ".git-common/"),
    )


def _staged(repo: Repo) -> str:
    """A digest of what the index says."""
    out = _git(repo, "ls-files", "-z", "--stage", "-v")
    return hashlib.sha256(out.encode("utf-8", "surrogateescape")).hexdigest()


def _git(repo: Repo, *args: str) -> str:
    pinned = {"GIT_DIR": repo.git_dir, "GIT_WORK_TREE": repo.root, "GIT_INDEX_FILE": repo.git_dir / "index"}
    return succeeded(
        repo.root, args, run_git(repo.root, *args, pinned={name: str(path) for name, path in pinned.items()})
    )
