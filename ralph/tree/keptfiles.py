"""Files below one directory as they were: recorded, copied, compared and put back. No git here; see `snapshot`."""

import contextlib
import os
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path

from ralph import jsonline
from ralph.files import write_all
from ralph.tree.shelf import Shelf

_CHUNK = 1 << 20

Change = tuple[str, str]
"""A path, and what was done to it."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """A file, or a link with its target: permissions, size, and when it was modified."""

    mode: int
    size: int
    modified: int
    target: str | None = None


@dataclass(slots=True)
class KeptFiles:
    """Files below one directory: as they were, as they are, and put back.

    `folders` are the directories that lead to them; what lies behind a link is not below the directory. `unread` are
    files and whole folders that could not be read: nobody knows what was there, so whatever is there now is left.
    """

    base: Path
    copies: Path
    names: Sequence[str] = ()
    shelved_as: str = ""
    files: dict[str, _Entry] = field(default_factory=dict[str, _Entry])
    folders: dict[str, int] = field(default_factory=dict[str, int])
    nested: set[str] = field(default_factory=set[str])
    unread: set[str] = field(default_factory=set[str])
    _copied: set[str] = field(default_factory=set[str], compare=False, repr=False)

    def keep(self, paths: Iterable[str], folders: Iterable[str] = (), pause: Callable[[], None] = lambda: None) -> None:
        """Record and copy the files among `paths`; a directory among them is a repository of its own.

        `pause` is called before each file, and may raise.
        """
        for path in paths:
            pause()
            try:
                state = (self.base / path).lstat() if self._enter(path) else None
                entry = _entry(self.base / path, state) if state is not None else None
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError:
                if not self.is_unread(path):
                    self.unread.add(path)
                continue
            if state is not None and stat.S_ISDIR(state.st_mode):
                self.nested.update(each for each in (path, f"{path}/.git") if self.has(each))
            elif entry is not None:
                self._copy(path, entry)
        for folder in folders:
            if folder not in self.nested:
                with contextlib.suppress(OSError):
                    self._enter(f"{folder}/")

    def _enter(self, path: str) -> bool:
        """Note the directories that lead to a path; False if there is something else in the way."""
        for folder in _folders(path):
            if folder not in self.folders:
                state = (self.base / folder).lstat()
                if not stat.S_ISDIR(state.st_mode):
                    return False
                self.folders[folder] = stat.S_IMODE(state.st_mode)
                if not os.access(self.base / folder, os.R_OK | os.X_OK):
                    self.unread.add(folder)
        return True

    def is_unread(self, path: str) -> bool:
        """Tell whether it is not known what was at the path."""
        return path in self.unread or not self.unread.isdisjoint(_folders(path))

    def _copy(self, path: str, entry: _Entry) -> None:
        if entry.target is None:
            self._copied_folder(path.rpartition("/")[0])
            size = _copy_bytes(self.base / path, self.copies / path)
            if size is None:
                (self.copies / path).unlink(missing_ok=True)
                self.unread.add(path)
                return
            entry = replace(entry, size=size)  # somebody may have written to it since
        self.files[path] = entry

    def _copied_folder(self, folder: str) -> None:
        if folder not in self._copied:  # to ask the disk each time would take longer than to copy a file
            (self.copies / folder).mkdir(parents=True, exist_ok=True)
            self._copied.add(folder)

    def recorded(self) -> dict[str, object]:
        """What `recall` needs besides the copies, as JSON."""
        files = {path: astuple(entry) for path, entry in self.files.items()}
        return {"files": files, "folders": self.folders, "nested": sorted(self.nested), "unread": sorted(self.unread)}

    def recall(self, recorded: object) -> None:
        """Take up what another one recorded of the same directory; ValueError if that, or a copy, is damaged."""
        said = jsonline.mapping(recorded)
        files, folders = jsonline.mapping(said["files"]), jsonline.mapping(said["folders"])
        self.files = {path: _recalled(entry) for path, entry in files.items()}
        self.folders = {path: mode for path, mode in folders.items() if isinstance(mode, int)}
        self.nested = {jsonline.text(path) for path in jsonline.sequence(said["nested"])}
        self.unread = {jsonline.text(path) for path in jsonline.sequence(said["unread"])}
        for path in (*self.files, *self.folders, *self.nested, *self.unread):
            if not {"", ".", ".."}.isdisjoint(path.split("/")):
                raise ValueError(f"{path!r} is not below a directory")
        for path, entry in self.files.items():
            state = _state(self.copies / path) if entry.target is None else None
            if entry.target is None and (state is None or not _is_copy(state, entry)):
                raise ValueError(f"the copy of {path!r} is not whole")

    def found(self) -> list[str]:
        """Where the place is a list of names: what is there of them now."""
        return [path for name in self.names for path in _below(self.base, name)]

    def added(self) -> list[str]:
        return [path for path in self.found() if path not in self.files and not self.is_unread(path)]

    def gone(self) -> list[str]:
        """The repositories of their own that are none any more."""
        gone = [path for path in sorted(self.nested) if not self.has(path) or self.is_replaced(path)]
        return [path for path in gone if path.rpartition("/")[0] not in gone]

    def is_replaced(self, path: str) -> bool:
        """Tell whether something else stands where a repository of its own was."""
        state = _state(self.base / path) if path in self.nested and not path.endswith("/.git") else None
        return state is not None and not stat.S_ISDIR(state.st_mode)

    def has(self, path: str) -> bool:
        """Tell whether something is at the path, and not behind a link."""
        leading = (_state(self.base / folder) for folder in _folders(path))
        return all(state is not None and stat.S_ISDIR(state.st_mode) for state in leading) and (
            _state(self.base / path) is not None
        )

    def differing(self) -> list[Change]:
        """What is not as it was."""
        return [*self._differing_folders(), *self._differing_files()]

    def _differing_folders(self) -> list[Change]:
        found: list[Change] = []
        for folder, mode in sorted(self.folders.items()):
            state = _state(self.base / folder) if self.has(folder) else None
            if state is not None and not stat.S_ISDIR(state.st_mode):
                found.append((folder, "replaced"))
            elif state is not None and stat.S_IMODE(state.st_mode) != mode:
                found.append((folder, "changed the mode of"))
        return found

    def _differing_files(self) -> list[Change]:
        reached: set[str] = {""}
        for folder in sorted(self.folders):  # a folder comes after those that lead to it
            state = _state(self.base / folder) if folder.rpartition("/")[0] in reached else None
            if state is not None and stat.S_ISDIR(state.st_mode):
                reached.add(folder)
        found: list[Change] = []
        for path, entry in self.files.items():
            state = _state(self.base / path) if path.rpartition("/")[0] in reached else None
            if state is None:
                found.append((path, "deleted"))
            elif not self._is_as_before(path, entry, state):
                found.append((path, "changed"))
        return found

    def _is_as_before(self, path: str, entry: _Entry, state: os.stat_result) -> bool:
        if entry.target is not None:
            return stat.S_ISLNK(state.st_mode) and _target(self.base / path) == entry.target
        return (
            stat.S_ISREG(state.st_mode)
            and stat.S_IMODE(state.st_mode) == entry.mode
            and state.st_size == entry.size
            and _same_bytes(self.base / path, self.copies / path)
        )

    def restore(self, shelf: Shelf) -> list[Change]:
        """Put back what differs; say what it was. `close` when all is done."""
        undone = self._differing_folders()
        self._make_folders(shelf)
        differing = self._differing_files()
        for path, _ in differing:
            if _state(self.base / path) is not None:
                self.shelve(path, shelf)
            self._write(path, self.files[path])
        return undone + differing

    def _make_folders(self, shelf: Shelf) -> None:
        """Make every directory one again, and one that can be written to; see `close`."""
        for folder, mode in sorted(self.folders.items()):
            path = self.base / folder
            state = _state(path)
            if state is not None and not stat.S_ISDIR(state.st_mode):
                self.shelve(folder, shelf)
                state = None
            if state is None:
                path.mkdir()
            if state is None or stat.S_IMODE(state.st_mode) != mode | stat.S_IRWXU:
                path.chmod(mode | stat.S_IRWXU)

    def _write(self, path: str, entry: _Entry) -> None:
        place = self.base / path
        if entry.target is not None:
            place.symlink_to(entry.target)
        else:
            shutil.copyfile(self.copies / path, place)
            place.chmod(entry.mode)
        # The index compares times with its own: one that is put back must not look newer than what it was made from.
        os.utime(place, ns=(entry.modified, entry.modified), follow_symlinks=False)

    def shelve(self, path: str, shelf: Shelf) -> None:
        shelf.put(self.base / path, self.shelved_as + path)

    def leave_no_folder(self, path: str) -> None:
        """Remove the directories that led to a path, if they were not there and now are empty."""
        for folder in reversed(list(_folders(path))):
            if folder in self.folders:
                return
            try:
                (self.base / folder).rmdir()
            except OSError:
                return

    def remove_if_empty(self, folder: str) -> None:
        """Remove a directory that was not there, and those within it, as far as they are empty."""
        if folder not in self.folders and folder not in self.nested:
            for path, _, _ in os.walk(self.base / folder, topdown=False):
                with contextlib.suppress(OSError):
                    Path(path).rmdir()

    def close(self) -> None:
        """Give directories that nobody may write to their modes again."""
        for folder, mode in self.folders.items():
            if mode & stat.S_IRWXU != stat.S_IRWXU:
                (self.base / folder).chmod(mode)


def _state(path: Path) -> os.stat_result | None:
    """What stands at a path, itself and not where it leads; None for nothing that can be reached."""
    try:
        return path.lstat()
    except OSError:
        return None


def _entry(path: Path, state: os.stat_result) -> _Entry | None:
    if stat.S_ISLNK(state.st_mode):
        return _Entry(stat.S_IMODE(state.st_mode), state.st_size, state.st_mtime_ns, _target(path))
    if stat.S_ISREG(state.st_mode):
        return _Entry(stat.S_IMODE(state.st_mode), state.st_size, state.st_mtime_ns)
    return None


def _recalled(recorded: object) -> _Entry:
    match recorded:
        case [int() as mode, int() as size, int() as modified, (None | str()) as target]:
            return _Entry(mode, size, modified, target)
        case _:
            raise ValueError(f"{recorded!r} is no file")


def _is_copy(state: os.stat_result, entry: _Entry) -> bool:
    return stat.S_ISREG(state.st_mode) and state.st_size == entry.size


def _target(path: Path) -> str:
    return os.readlink(path)  # noqa: PTH115 - a Path would tidy it up: `./x/` is not `x`


def _folders(path: str) -> Iterator[str]:
    """The directories that lead to a path, outermost first: `a` and `a/b` for `a/b/c`, and for `a/b/`."""
    end = path.find("/")
    while end != -1:
        yield path[:end]
        end = path.find("/", end + 1)


def _below(base: Path, name: str) -> Iterator[str]:
    """The files and links at `name` and below it."""
    state = _state(base / name)
    if state is None:
        return
    if not stat.S_ISDIR(state.st_mode):
        yield name
        return
    for entry in sorted((base / name).iterdir()):
        yield from _below(base, f"{name}/{entry.name}")


def _copy_bytes(source: Path, destination: Path) -> int | None:
    """Copy a file and say how long it is; None if it cannot be read. That it cannot be written is a fault."""
    try:
        # Should a pipe have taken its place: not to wait for whoever writes to it.
        file = os.fdopen(os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb", buffering=0)
    except OSError:
        return None
    size = 0
    with file, destination.open("wb", buffering=0) as copy:
        while True:
            try:
                chunk = file.read(_CHUNK)
            except OSError:
                return None
            if not chunk:
                return size
            write_all(copy, chunk)
            size += len(chunk)


def _same_bytes(one: Path, other: Path) -> bool:
    with one.open("rb", buffering=0) as left, other.open("rb", buffering=0) as right:
        while chunk := left.read(_CHUNK):
            if chunk != right.read(len(chunk)):
                return False
    return True
