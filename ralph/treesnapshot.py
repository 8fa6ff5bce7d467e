"""The whole work tree as it stood before a read-only pass, and the way back to it.

Kept are all files that git does not ignore, tracked or not, clean or dirty, byte by byte; every `.gitignore`; and of
the repository what is staged, where HEAD and the branches are, a merge or the like in progress, the stash, hooks and
configuration. The copies are plain files, not git's objects: filters and line endings would change what goes through
those, and an agent can prune them. They cost as much room and time as the tree itself.

Not kept: ignored files, what is inside submodules and other repositories within this one, ralph's own `.ralph/state`,
`.ralph/logs` and `.ralph/runs`, and what git fetched meanwhile.
"""

import contextlib
import hashlib
import shutil
from collections.abc import Collection, Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ralph.errors import DiskError, RepoError
from ralph.files import make_private_directory
from ralph.gitcommand import run_git, succeeded
from ralph.gitrepo import Repo
from ralph.keptfiles import Change, KeptFiles
from ralph.shelf import Shelf
from ralph.treelisting import TreeListing, own_excludes

UNDONE = "refs/ralph/undone"
"""Where commits are kept that were made meanwhile and taken off their branch."""

_OF_THE_TREE = (
    "HEAD", "index", "MERGE_HEAD", "MERGE_MODE", "MERGE_MSG", "SQUASH_MSG", "AUTO_MERGE", "CHERRY_PICK_HEAD",
    "REVERT_HEAD", "BISECT_START", "BISECT_LOG", "BISECT_NAMES", "BISECT_TERMS", "config.worktree", "rebase-merge",
    "rebase-apply", "sequencer",
)  # fmt: skip
_EXCLUDES = "excludes"
_OF_THE_REPOSITORY = ("config", "hooks", "info", "refs/stash", "logs/refs/stash")


@dataclass(frozen=True, slots=True)
class TreeSnapshot:
    """A work tree as it stood. `store` holds the copies; should ralph be killed, they can be read there as they are.

    While it is restored, nothing else may work in the tree.
    """

    repo: Repo
    store: Path
    heads: dict[str, str]
    staged: str
    tree: KeptFiles
    git: tuple[KeptFiles, ...]

    @classmethod
    def take(cls, repo: Repo, store: Path) -> "TreeSnapshot":
        """Record the work tree. The copies go to `store`, a directory of ralph's own that is not there yet."""
        with _named_faults(repo.root):
            make_private_directory(store.parent)
            store.mkdir(mode=0o700)
            try:
                git = tuple(_git_places(repo, store))
                for place in git:
                    place.keep(place.found())
                (store / _EXCLUDES).write_bytes(own_excludes(repo))
                tree = KeptFiles(repo.root, store / "tree")
                listing = TreeListing(repo, repo.git_dir / "index", store / _EXCLUDES, ours=[store])
                tree.keep(listing.files(), listing.untracked_folders())
                tree.keep(path for path in listing.rule_files(tree) if path not in tree.files)
                return cls(repo, store, _heads(repo), _staged(repo), tree, git)
            except (OSError, RepoError):
                shutil.rmtree(store, ignore_errors=True)
                raise

    def discard(self) -> None:
        """Forget the copies."""
        shutil.rmtree(self.store, ignore_errors=True)

    def changes(self, keep: Collection[str] = ()) -> list[str]:
        """Say what is no longer as it was; the paths in `keep` do not matter.

        Of what new ignore rules hide, only the rules are seen.
        """
        with _named_faults(self.repo.root):
            found = self._git_changes()
            found += [f"{word} {ref}" for ref, word in self._moved_heads(_heads(self.repo))]
            found += [f"{word} {path}" for path, word in self.tree.differing() if path not in keep]
            listing = self._listing()
            return found + [
                f"added {path}" for path in self._added(listing.files() + listing.rule_files(self.tree), keep)
            ]

    def restore(self, aside: Path, keep: Collection[str] = ()) -> list[str]:
        """Put everything back but the paths in `keep`; say what was undone.

        What stood in the way, and what is new, is moved to a folder in `aside`; commits stay under `refs/ralph/undone`.
        Files come first: they can be put back even where git cannot be run any more.
        """
        with _named_faults(self.repo.root):
            shelf = Shelf(aside)
            tips = self._tips()
            undone = self._git_changes()
            undone += [f"{word} {path}" for path, word in self.tree.restore(shelf, keep)]
            for place in self.git:
                place.restore(shelf)
                for path in place.added():
                    place.shelve(path, shelf)
            self.repo.clear_stale_locks()
            undone += self._restore_heads(tips)
            undone += [f"added {path}" for path in self._take_away(shelf, keep, self._listing(aside))]
            for place in (*self.git, self.tree):
                place.close()
        return undone

    def _listing(self, *ours: Path) -> TreeListing:
        """By the index as it was: an ignored file that was staged since is no new one."""
        return TreeListing(self.repo, self.git[0].copies / "index", self.store / _EXCLUDES, ours=[self.store, *ours])

    def _take_away(self, shelf: Shelf, keep: Collection[str], listing: TreeListing) -> list[str]:
        """Move what is new aside, and leave no new directory empty; name the files.

        New ignore rules come first, the outermost before those whose folders they may hide: what else is new is then
        found by the rules that stood.
        """
        taken: list[str] = []
        while rules := self._added(listing.rule_files(self.tree), keep):
            taken += self._shelve([path for path in rules if path.count("/") == rules[0].count("/")], shelf)
        taken += self._shelve(self._added(listing.files(), keep), shelf)
        for folder in listing.untracked_folders():
            self.tree.remove_if_empty(folder)
        return taken

    def _shelve(self, paths: list[str], shelf: Shelf) -> list[str]:
        for path in paths:
            self.tree.shelve(path, shelf)
            self.tree.leave_no_folder(path)
        return paths

    def _added(self, paths: Sequence[str], keep: Collection[str]) -> list[str]:
        """Which of them are there and were not."""
        tree = self.tree
        inside = tuple(f"{path}/" for path in tree.nested)
        return [
            path
            for path in dict.fromkeys(paths)
            if path not in tree.files
            and path not in tree.folders
            and path not in keep
            and not f"{path}/".startswith(inside)
            and tree.has(path)
        ]

    # The repository.

    def _git_changes(self) -> list[str]:
        """Say what differs in the repository's own files."""
        words = {"HEAD": "moved HEAD", "refs/stash": "changed the stash"}
        found: list[str] = []
        for place in self.git:
            paths = [path for path, _ in place.differing()] + place.added()
            found += [
                words.get(path, f"changed .git/{path}") for path in paths if path not in ("index", "logs/refs/stash")
            ]
        return found if self._is_staged_as_before() else [*found, "changed what is staged"]

    def _is_staged_as_before(self) -> bool:
        """Compare what the index says, not its bytes: to look at the status is enough to have it written anew."""
        try:
            return _staged(self.repo) == self.staged
        except RepoError:
            return False

    def _tips(self) -> list[str]:
        """The commits that branches, stash and HEAD are at; none where git cannot be run any more."""
        with contextlib.suppress(RepoError):
            head = self.repo.head()
            return [*_heads(self.repo).values(), *([head] if head else [])]
        return []

    def _moved_heads(self, now: dict[str, str]) -> list[Change]:
        return [
            (ref, "deleted" if ref not in now else "added" if ref not in self.heads else "moved")
            for ref in dict.fromkeys([*self.heads, *now])
            if now.get(ref) != self.heads.get(ref) and ref != "refs/stash"  # a file, put back with its log
        ]

    def _restore_heads(self, tips: Sequence[str]) -> list[str]:
        """Put the branches back; of `tips`, what was reached by none of them stays under a ref of its own."""
        now = _heads(self.repo)
        moved = self._moved_heads(now)
        known = set(self.heads.values())
        new = [sha for sha in dict.fromkeys([*tips, *now.values()]) if sha not in known and self._is_new(sha)]
        kept = [f"{UNDONE}/{number}" for number, _ in enumerate(new, self._next_number())]
        # Two transactions: git does not make refs/heads/a where refs/heads/a/b is, even if it deletes that as well.
        self._update_refs(
            [f"create {ref} {sha}" for ref, sha in zip(kept, new, strict=True)]
            + [f"delete {ref}" for ref, word in moved if word == "added"]
        )
        self._update_refs([f"update {ref} {self.heads[ref]}" for ref, word in moved if word != "added"])
        return [f"{word} {ref}" for ref, word in moved] + [f"committed: kept as {ref}" for ref in kept]

    def _is_new(self, sha: str) -> bool:
        """Tell whether a commit is reached by none of the branches as they were."""
        before = "".join(f"^{head}\n" for head in self.heads.values())
        status, out, _ = _run(self.repo, "rev-list", "--max-count=1", "--stdin", said=f"{sha}\n{before}")
        return status != 0 or bool(out.strip())

    def _next_number(self) -> int:
        refs = _git(self.repo, "for-each-ref", "--format=%(refname)", UNDONE).split()
        numbers = [ref.rpartition("/")[2] for ref in refs]
        return max((int(number) for number in numbers if number.isdecimal()), default=0) + 1

    def _update_refs(self, commands: Sequence[str]) -> None:
        if commands:
            _git(self.repo, "update-ref", "--no-deref", "--stdin", said="".join(f"{line}\n" for line in commands))


@contextlib.contextmanager
def _named_faults(root: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise DiskError(error.filename or root, error) from error


# What git says.


def _git_places(repo: Repo, store: Path) -> Iterator[KeptFiles]:
    """The directory of this work tree in the repository, and that of the repository: usually the same."""
    common = Path(_git(repo, "rev-parse", "--path-format=absolute", "--git-common-dir").removesuffix("\n"))
    if common == repo.git_dir:
        yield KeptFiles(common, store / "git", (*_OF_THE_TREE, *_OF_THE_REPOSITORY), ".git/")
    else:
        yield KeptFiles(repo.git_dir, store / "git", _OF_THE_TREE, ".git/")
        yield KeptFiles(common, store / "common", _OF_THE_REPOSITORY, ".git-common/")


def _heads(repo: Repo) -> dict[str, str]:
    out = _git(repo, "for-each-ref", "--format=%(refname) %(objectname)", "refs/heads", "refs/stash")
    return {ref: sha for ref, _, sha in (line.partition(" ") for line in out.splitlines())}


def _staged(repo: Repo) -> str:
    """A digest of what the index says."""
    out = _git(repo, "ls-files", "-z", "--stage", "-v")
    return hashlib.sha256(out.encode("utf-8", "surrogateescape")).hexdigest()


def _run(repo: Repo, *args: str, said: str | None = None) -> tuple[int, str, str]:
    pinned = {"GIT_DIR": repo.git_dir, "GIT_WORK_TREE": repo.root, "GIT_INDEX_FILE": repo.git_dir / "index"}
    heard = None if said is None else said.encode("utf-8", "surrogateescape")
    return run_git(repo.root, *args, said=heard, pinned={name: str(path) for name, path in pinned.items()})


def _git(repo: Repo, *args: str, said: str | None = None) -> str:
    return succeeded(repo.root, args, _run(repo, *args, said=said))
