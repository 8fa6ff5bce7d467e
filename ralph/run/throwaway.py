"""A throwaway clone of the user's repository: an agent works in it, and nothing it does there reaches the original.

The clone borrows the original's objects and has copies of its refs, its index and its files. So it shows the tree as
the user has it: uncommitted, staged, untracked and deleted files included, byte by byte. A git checkout would not: it
runs filters (Git LFS asks a server), and in a partial clone it fetches. Submodules are copied in the same way.

Not copied: ignored files, remotes, hooks; and untracked very large files, repositories (such as another work tree) and
files that look like a secret. The scout's map is quoted in every later prompt and often committed, so the scout does
not see what ralph would not commit.

No remote of the clone leads to the original. Still it is no sandbox: a command that names the original by its path
reaches it.

The path is always the same for one repository, because agents keep state by working directory (claude below
`~/.claude/projects`): a new path for each pass would leave a new folder there each time. Its last part is the
repository's own name, by which an agent calls the project.
"""

import contextlib
import os
import shlex
import shutil
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from ralph.core.errors import DiskError, RepoError, UsageError
from ralph.core.progress import Reporter, TaskProgress
from ralph.core.secrets import looks_secret
from ralph.git.command import run_git, succeeded
from ralph.git.repo import Repo
from ralph.state import project
from ralph.state.project import EXCLUDES
from ralph.system.files import make_private_directory, named_in_faults, remove_tree, write_all

PASSES = ".understand"
"""The journal directory of passes over a repository, beside the runs of its goals; no goal has this name."""
_CLONE = "clone"
_LARGEST = 64 << 20
"""Bytes of an untracked file: a larger one is data that no agent reads."""
_LONGEST_PATH = 4095
"""Bytes (PATH_MAX on Linux): the path of a file in the clone is longer than that in the repository."""
_CHUNK = 1 << 20
_OFTEN = 20
"""Files from one report to the next."""

_SETTINGS = {
    "core.bare": "false",
    # The copied index stays valid for the copied files, whose inodes and change times are new.
    "core.checkStat": "minimal",
    "core.trustctime": "false",
    "core.fsmonitor": "false",
    "core.untrackedCache": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
}
_CARRIED = (
    r"^(core\.(autocrlf|eol|filemode|symlinks|ignorecase|precomposeunicode|sparsecheckout|sparsecheckoutcone"
    r"|excludesfile|attributesfile)|extensions\.(objectformat|partialclone)"
    r"|remote\..*\.(promisor|url|partialclonefilter))$"
)
"""Settings for reading the files. Remotes only if missing objects are fetched from them."""


_NOTHING_OF_THE_USERS = {"GIT_CONFIG_GLOBAL": os.devnull}
"""The agent's git reads the user's settings itself."""


class LeftOut(StrEnum):
    """Why a file is not in the clone."""

    SECRET = "looks like a secret"  # noqa: S105 - a reason, not a password
    LARGE = "larger than 64 MiB"
    REPOSITORY = "a repository of its own"
    IMPOSSIBLE = "cannot be copied"


class ThrowawayClone:
    """A clone of `repo` below `folder`, one of ralph's directories. The caller holds the lock of the repository."""

    def __init__(self, repo: Repo, folder: Path) -> None:
        self._repo = repo
        self._folder = Path(os.path.realpath(folder)) / _CLONE  # as a process in it sees it
        self.path = self._folder / (repo.root.name or "root")

    def make(self, report: Reporter) -> Mapping[str, LeftOut]:
        """Make the clone, replacing an earlier one; return the files that were left out."""
        self.remove()
        make_private_directory(self._folder)
        with named_in_faults(self.path):
            source = _Source(self._repo.root, self._repo.root, self._repo.git_dir)
            copying = _Copying(source.root, self.path, report)
            copying.copy_repository(source, self.path)
        return copying.left_out

    def remove(self) -> None:
        """Remove the clone, even one that a killed ralph left behind."""
        remove_tree(self._folder)


def clean_up_after_a_kill(root: Path, directory: Path) -> None:
    """Remove the clone that a killed `ralph understand` left in `directory`, where the repository's runs are kept.

    The caller holds the lock of the repository.

    Until the next release: an older ralph let the agent work in the repository itself, and copied the files to
    `before-*` first. Refuse to start where such a copy is left. The agent may have changed files, and the user may have
    since, so only the user can say which ones count.
    """
    folder = directory / PASSES
    with contextlib.suppress(DiskError):  # a run does not need this; the next clone does, and reports it
        remove_tree(folder / _CLONE)
    for copy in sorted(folder.glob("before-*")):
        if not (copy / "manifest.json").exists():  # it was killed before its agent started
            remove_tree(copy)
            continue
        raise UsageError(
            "an older `ralph understand` was killed here, and its agent may have changed files;"
            f" the original files are in {copy / 'tree'}",
            f"compare: diff -r {shlex.quote(str(copy / 'tree'))} {shlex.quote(str(root))};"
            f" copy back what you need, then remove the copy: rm -r {shlex.quote(str(copy))}",
        )


@dataclass(frozen=True, slots=True)
class _Source:
    """A repository to copy: the user's own, which is `top`, or a submodule of it."""

    top: Path
    root: Path
    git_dir: Path

    @classmethod
    def inside(cls, top: Path, place: Path) -> "_Source | None":
        """Return the submodule in this folder; None if git refuses it or its files are elsewhere."""
        asked = ("rev-parse", "--path-format=absolute", "--show-toplevel", "--absolute-git-dir")
        status, out, _ = run_git(top, "-C", str(place), *asked)
        tree, _, git_dir = out.removesuffix("\n").partition("\n")
        return cls(top, place, Path(git_dir)) if status == 0 and tree == str(place) else None

    def git(self, *args: str, fine: int = 0, lent: Mapping[str, str] | None = None) -> str:
        """Run git here; exit status `fine` counts as success. Only folders outside `top` are searched for git."""
        pinned = {"GIT_DIR": str(self.git_dir), "GIT_WORK_TREE": str(self.root), **(lent or {})}
        if self.root != self.top:
            pinned["GIT_NO_LAZY_FETCH"] = "1"  # an agent may have made it and set the program that fetches
        status, out, err = run_git(self.top, "-C", str(self.root), *args, pinned=pinned)
        return succeeded(self.root, args, (0 if status == fine else status, out, err))

    def files(self) -> dict[str, bool]:
        """Return every path that git does not ignore, and whether it is untracked.

        This includes the user's own files in `.ralph/`, even ignored ones: the map, the check, the settings.
        """
        # --sparse: a folder outside a sparse checkout stays one entry, and its tree may be missing.
        tagged = self.git("ls-files", "-z", "-t", "--sparse", "--cached", "--others", "--exclude-standard").split("\0")
        listed = {entry[2:].rstrip("/"): entry.startswith("?") for entry in tagged if entry}
        if self.root == self.top and (self.root / ".ralph").is_dir():
            own = self.git("ls-files", "-z", "--others", "--", *(f".ralph/{name}" for name in project.NAMES))
            listed |= {path.rstrip("/"): True for path in own.split("\0") if path}
        ours = tuple(f"{path.strip('/')}/" for path in EXCLUDES)
        return {path: is_untracked for path, is_untracked in listed.items() if not f"{path}/".startswith(ours)}

    def settings(self) -> dict[str, str]:
        """Return the settings of the clone."""
        own = ("config", "--no-includes", "-z", "--get-regexp", _CARRIED)
        entries = (entry.partition("\n") for entry in self.git(*own, fine=1, lent=_NOTHING_OF_THE_USERS).split("\0"))
        found = {key: value if given else "true" for key, given, value in entries if key}
        promisors = tuple(key.removesuffix("promisor") for key in found if key.endswith(".promisor"))
        carried = {key: found[key] for key in found if not key.startswith("remote.") or key.startswith(promisors)}
        for remote in promisors:
            url = found.get(f"{remote}url", "")
            if url and (self.root / url).exists():  # it may be a relative path
                carried[f"{remote}url"] = str(self.root / url)
            carried[f"{remote}pushurl"] = os.devnull
        version = "1" if "extensions.objectformat" in carried else "0"
        return {"core.repositoryformatversion": version, **carried, **_SETTINGS}


class _Copying:
    """Copies one repository, and its submodules."""

    def __init__(self, root: Path, clone: Path, report: Reporter) -> None:
        self._root, self._clone, self._report = root, clone, report
        self.left_out: dict[str, LeftOut] = {}

    def copy_repository(self, source: _Source, destination: Path) -> None:
        destination.mkdir(parents=True, exist_ok=True)
        files = source.files()
        _make_git_dir(source, destination / ".git")
        inside = "" if source.root == self._root else f"{source.root.relative_to(self._root)}/"
        folders = {""}
        for number, (path, is_untracked) in enumerate(files.items()):
            if number % _OFTEN == 0:
                self._report(TaskProgress("files", number, len(files), f"{number:,} of {len(files):,}"))
            if {"", ".", "..", ".git"}.isdisjoint(path.split("/")):  # an agent can write anything into an index
                why = self._copy(source, path, destination, folders, is_untracked=is_untracked)
                if why is not None:
                    self.left_out[inside + path] = why

    def _copy(
        self, source: _Source, path: str, destination: Path, folders: set[str], *, is_untracked: bool
    ) -> LeftOut | None:
        """Copy a file, link or submodule, or return why not. A deleted path stays deleted."""
        if is_untracked and looks_secret(path):
            return LeftOut.SECRET
        place, copy = f"{source.root}/{path}", f"{destination}/{path}"
        try:
            missing = list(_missing_folders(source.root, path, folders))
            state = os.lstat(place)
            target = os.readlink(place) if stat.S_ISLNK(state.st_mode) else ""  # noqa: PTH115 - as it is: `./x/` is not `x`
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError:
            return LeftOut.IMPOSSIBLE
        if len(os.fsencode(copy)) > _LONGEST_PATH:
            return LeftOut.IMPOSSIBLE
        for folder in missing:
            os.mkdir(f"{destination}/{folder}")  # noqa: PTH102 - a Path for each of many thousand files takes as long
            folders.add(folder)
        if target:
            Path(copy).symlink_to(self._retargeted(target))
            os.utime(copy, ns=(state.st_mtime_ns, state.st_mtime_ns), follow_symlinks=False)
        elif stat.S_ISDIR(state.st_mode) and is_untracked:
            return LeftOut.REPOSITORY
        elif stat.S_ISDIR(state.st_mode):
            return self._copy_submodule(source, path, Path(copy), folders)
        elif is_untracked and state.st_size > _LARGEST:
            return LeftOut.LARGE
        elif stat.S_ISREG(state.st_mode) and not _copy_file(place, copy, state):
            return LeftOut.IMPOSSIBLE
        return None

    def _retargeted(self, target: str) -> str:
        """Return a link's target in the clone: one into the repository leads to the copy of that file."""
        if not Path(target).is_absolute():
            return target
        real = Path(os.path.realpath(target))
        return str(self._clone / real.relative_to(self._root)) if real.is_relative_to(self._root) else target

    def _copy_submodule(self, source: _Source, path: str, copy: Path, folders: set[str]) -> LeftOut | None:
        """Copy a submodule; one that is not checked out is an empty folder."""
        place = source.root / path
        if not os.path.lexists(place / ".git"):
            if path not in folders:
                copy.mkdir()
                folders.add(path)
            return None
        inner = _Source.inside(source.top, place)
        if inner is None:
            return LeftOut.IMPOSSIBLE
        try:
            self.copy_repository(inner, copy)
        except RepoError:  # it is damaged
            return LeftOut.IMPOSSIBLE
        return None


def _make_git_dir(source: _Source, git_dir: Path) -> None:
    """Make a repository that borrows the objects of `source`.

    Written file by file instead of by `git init`, which follows the user's templates and settings.
    """
    common = Path(source.git("rev-parse", "--path-format=absolute", "--git-common-dir").removesuffix("\n"))
    for folder in ("objects/info", "refs", "info"):
        (git_dir / folder).mkdir(parents=True)
    objects = str(common / "objects")
    _write(git_dir / "objects/info/alternates", _quoted(objects) if "\n" in objects else objects)
    _write(git_dir / "config", "".join(_setting(key, value) for key, value in source.settings().items()))
    _write(git_dir / "packed-refs", source.git("for-each-ref", "--format=%(objectname) %(refname)"))
    shared = {name: common / name for name in ("shallow", "info/exclude", "info/attributes")}
    own = {name: source.git_dir / name for name in ("HEAD", "index", "info/sparse-checkout")}
    split = {file.name: file for file in source.git_dir.glob("sharedindex.*")}
    for name, file in (shared | own | split).items():
        if file.is_file():
            shutil.copy2(file, git_dir / name)  # with its time, so that git sees whether the index is current


def _missing_folders(root: Path, path: str, made: set[str]) -> Iterator[str]:
    """Yield the missing folders above a path, outermost first; a link does not count as a folder."""
    folder = path.rpartition("/")[0]
    if folder in made:
        return
    yield from _missing_folders(root, folder, made)
    if not stat.S_ISDIR(os.lstat(f"{root}/{folder}").st_mode):
        raise NotADirectoryError(folder)
    yield folder


def _copy_file(source: str, destination: str, state: os.stat_result) -> bool:
    """Copy a file with its mode and time; False if it is unreadable. Raise if the copy cannot be written."""
    try:
        # If a pipe or a link has taken its place since: do not wait for a writer, and do not follow it.
        file = os.fdopen(os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb", buffering=0)
    except OSError:
        return False
    with file, open(destination, "xb", buffering=0) as copy:  # noqa: PTH123 - as above
        while True:
            try:
                chunk = file.read(_CHUNK)
            except OSError:
                Path(destination).unlink()
                return False
            if not chunk:
                break
            write_all(copy, chunk)
        os.fchmod(copy.fileno(), stat.S_IMODE(state.st_mode) & 0o777)
        os.utime(copy.fileno(), ns=(state.st_mtime_ns, state.st_mtime_ns))
    return True


def _write(file: Path, text: str) -> None:
    file.write_bytes(text.encode("utf-8", "surrogateescape"))


def _setting(key: str, value: str) -> str:
    section, _, rest = key.partition(".")
    inner, _, name = rest.rpartition(".")
    return f"[{section}{f' {_quoted(inner)}' if inner else ''}]\n\t{name} = {_quoted(value)}\n"


def _quoted(text: str) -> str:
    """Quote as git does in its configuration and in `alternates`."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
