"""The settings in a repository's `.git`: an agent without a sandbox can write them, and ralph's own git reads them.

Git runs programs that settings name: filters, hooks, fsmonitor and more. Hooks and fsmonitor are off in ralph's git;
filters may be the user's own (Git LFS, git-crypt), so they stay. Ralph remembers what stood there when a run began and
puts it back after each session, before it runs git. A copy on disk is for the next start: it is there for as long as a
session may have changed something.
"""

import contextlib
import re
import shutil
import stat
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from ralph.core.errors import RalphError
from ralph.git.command import run_git, succeeded
from ralph.git.repo import Repo, open_repo
from ralph.state import project
from ralph.state.journal import Journal
from ralph.state.project import Entry, File, Snapshot, move_aside, read_entry, write_entry
from ralph.system.files import named_in_faults

FOLDER = "git"
"""The name of the copy in the directory of a run."""
_NAMES = ("config", "info/attributes", "info/exclude")
_OWN_NAMES = ("config.worktree", "info/sparse-checkout")
"""Those of each working tree."""
_CONFIGS = ("config", "config.worktree")
_HARMLESS = re.compile(
    r"branch\..+|remote\..+\.(url|pushurl|fetch|push|tagopt|prune|gh-resolved)"
    r"|submodule\..+\.(url|active)|lfs\..+\.access|(pull|advice|color)\..+|init\.defaultbranch"
)
"""Settings that run no program in ralph's git and change no file in it; the user may change them while a run works."""


@dataclass(frozen=True, slots=True)
class GitSettings:
    """The settings of a repository as they stood, and the paths that its index has git pass over."""

    entries: Mapping[str, Entry]
    flagged: frozenset[str]

    def changed(self, repo: Repo) -> list[str]:
        """Name the files that differ in more than a harmless setting."""
        return [name for name, entry in self.entries.items() if _differs(name, entry, read_entry(_place(repo, name)))]

    def restore(self, repo: Repo, aside: Path) -> list[str]:
        """Put the settings back; what stood in their place is moved to `aside`. Name the files, as in `.git`."""
        undone = self.changed(repo)
        for name in undone:
            place = _place(repo, name)
            with named_in_faults(place):
                aside.mkdir(parents=True, exist_ok=True)
                if place.parent.is_symlink():
                    place.parent.unlink()
                place.parent.mkdir(exist_ok=True)
                mode = _mode(place)
                if place.is_symlink() or place.exists():
                    move_aside(place, aside)
                write_entry(place, self.entries[name])
                if mode is not None and isinstance(self.entries[name], File):
                    place.chmod(mode)
        return undone

    def store(self, folder: Path) -> None:
        """Keep a copy of the files for the next start: whole or not at all."""
        with named_in_faults(folder):
            fresh = folder.with_name(f".{folder.name}.new")
            shutil.rmtree(fresh, ignore_errors=True)
            for name, entry in self.entries.items():
                (fresh / name).parent.mkdir(parents=True, exist_ok=True)
                write_entry(fresh / name, entry)
            shutil.rmtree(folder, ignore_errors=True)
            fresh.rename(folder)


def take(repo: Repo) -> GitSettings:
    """Read the settings of a repository, and the flags of its index."""
    entries = {name: read_entry(_place(repo, name)) for name in (*_NAMES, *_OWN_NAMES)}
    return GitSettings(entries, _flagged(repo))


def restore_after_a_cut(root: Path, runs: Path, aside: Path) -> list[str]:
    """Put back what the sessions of killed starts changed, and say so; `runs` is where the repository's runs are."""
    undone: list[str] = []
    for folder in cut_in(runs) if root.is_dir() else []:
        kept = GitSettings({name: read_entry(folder / name) for name in (*_NAMES, *_OWN_NAMES)}, frozenset())
        undone += kept.restore(open_repo(root), aside)
        drop(folder)
    files = ", ".join(f".git/{name}" for name in dict.fromkeys(undone))
    return (
        [f"{files} changed while a run was interrupted: restored; the changed version is in {aside}"] if files else []
    )


def cut_in(runs: Path) -> list[Path]:
    """Find the copies that killed starts left behind."""
    return sorted(runs.glob(f"*/{FOLDER}")) if runs.is_dir() else []


def drop(folder: Path) -> None:
    """Remove the copy: nothing can have changed since the settings were put back."""
    shutil.rmtree(folder, ignore_errors=True)


class GuardedSettings:
    """The settings of the repository that a run works in, from its beginning to its end."""

    def __init__(self, repo: Repo, settings: GitSettings, folder: Path) -> None:
        """`folder` is for the copy, which `drop` removes at the end."""
        self._repo, self._settings, self._folder = repo, settings, folder
        settings.store(folder)
        self._stamp = _index_stamp(repo)

    def undo(self, aside: Path) -> list[str]:
        """Undo what a session changed; name it, as paths from the root of the repository."""
        if not (self._repo.git_dir / "HEAD").exists():
            return []  # there is no repository any more, and the next look at it says so
        undone = [f".git/{name}" for name in self._settings.restore(self._repo, aside)]
        if _index_stamp(self._repo) != self._stamp:
            if hidden := _flagged(self._repo) - self._settings.flagged:
                _unflag(self._repo, hidden)
                undone.append(".git/index")
            self.note_index()
        return undone

    def note_index(self) -> None:
        """Remember the index as ralph has left it."""
        self._stamp = _index_stamp(self._repo)

    def drop(self) -> None:
        """Remove the copy: no session runs any more, and all is as it was."""
        drop(self._folder)


class Protected:
    """The user's files in `.ralph/` and the settings of the repository, while agents work there."""

    def __init__(self, repo: Repo, journal: Journal, snapshot: Snapshot | None = None) -> None:
        """Remember what is there; `snapshot` is what was in `.ralph/`, if somebody has looked."""
        self._root, self._aside = repo.root, journal.undone
        self._snapshot = project.take(repo.root) if snapshot is None else snapshot
        self._settings = GuardedSettings(repo, take(repo), journal.directory / FOLDER)

    def undo(self) -> list[str]:
        """Put back what a session changed, and return its paths. The settings come first: git reads them."""
        files = self._settings.undo(self._aside)
        return files + [f".ralph/{name}" for name in self._snapshot.restore(self._root, self._aside)]

    def committed(self) -> None:
        """Take the index that ralph's own commit has left for the one to compare with."""
        self._settings.note_index()

    def leave(self) -> None:
        """Put git's settings back for the last time; what cannot be put back now is left to the next start."""
        with contextlib.suppress(RalphError, OSError):
            self._settings.undo(self._aside)
            self._settings.drop()


def _place(repo: Repo, name: str) -> Path:
    return (repo.git_dir if name in _OWN_NAMES else repo.common_dir) / name


def _mode(path: Path) -> int | None:
    """Return the rights of a file: settings may hold a password."""
    try:
        found = path.lstat().st_mode
    except OSError:
        return None
    return stat.S_IMODE(found) if stat.S_ISREG(found) else None


def _differs(name: str, before: Entry, now: Entry) -> bool:
    if before == now:
        return False
    if name not in _CONFIGS or not isinstance(before, File) or not isinstance(now, File):
        return True
    old, new = _entries_of(before.content), _entries_of(now.content)
    if old is None or new is None:
        return True
    changed = (Counter(old) - Counter(new)) + (Counter(new) - Counter(old))
    return not all(_HARMLESS.fullmatch(entry.partition("\n")[0]) for entry in changed)


_SKIPPED = "S"
"""How `git ls-files -v` marks a path that is not to be in the working tree."""

_Stamp = tuple[int, int, int]


def _index_stamp(repo: Repo) -> _Stamp:
    """Tell one state of the index from another without reading it."""
    try:
        found = (repo.git_dir / "index").stat()
    except OSError:
        return 0, 0, 0
    return found.st_ino, found.st_mtime_ns, found.st_size


def _flagged(repo: Repo) -> frozenset[str]:
    """Return the paths that git takes for unchanged; in a sparse checkout some are missing by design."""
    listing = ("ls-files", "-v", "-z")
    entries = succeeded(repo.root, listing, run_git(repo.root, *listing, pinned=repo.pinned)).split("\0")
    marked = [(entry[0], entry[2:]) for entry in entries if entry and (entry[0].islower() or entry[0] == _SKIPPED)]
    if any(mark == _SKIPPED for mark, _ in marked) and _is_sparse(repo):
        marked = [(mark, path) for mark, path in marked if mark.upper() != _SKIPPED]
    return frozenset(path for _, path in marked)


def _unflag(repo: Repo, paths: Collection[str]) -> None:
    """Have git look at these paths again."""
    said = "\0".join(paths).encode("utf-8", "surrogateescape")
    for flag in ("--no-assume-unchanged", "--no-skip-worktree"):
        asking = ("update-index", flag, "-z", "--stdin")
        succeeded(repo.root, asking, run_git(repo.root, *asking, said=said, pinned=repo.pinned))


def _is_sparse(repo: Repo) -> bool:
    return run_git(repo.root, "config", "--type=bool", "core.sparseCheckout", pinned=repo.pinned)[1].strip() == "true"


def _entries_of(settings: bytes) -> list[str] | None:
    """Return the entries of a file of settings, each a key and its value; None if git cannot read it."""
    asking = ("config", "--file=-", "--no-includes", "--list", "-z")
    status, out, _ = run_git(Path("/"), *asking, said=settings)
    return [entry for entry in out.split("\0") if entry] if status == 0 else None
