"""The project's `.ralph/`: the user's files, restored when a session changes them, and what ralph shows of a run there.

While ralph runs, it keeps the protected version in memory; the copy on disk is for the next start.
"""

import contextlib
import os
import re
import shutil
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ralph.core import ndjson
from ralph.core.errors import DiskError, UsageError
from ralph.system.files import named_in_faults, overwrite_file, replace_file

NAMES = ("config.toml", "check", "setup", "prompts", "pricing.toml", "codebase-map.md")

EXCLUDES: Sequence[str] = ("/.ralph/state", "/.ralph/logs", "/.ralph/runs")
"""Lines for `.git/info/exclude`: without a trailing slash, with which git does not match links."""

_TARGETS = "targets"
"""Where a copy has what links lead to."""
_HOPS = 40
"""Links that are followed one after the other: as many as the kernel follows."""

_SESSIONS = "claude-session.json"
_SESSION_KEYS = {"planner": "planner_session_id", "worker": "coder_session_id", "scout": "scout_session_id"}
"""By the mode of the session."""
_SESSION_ID = re.compile(r"[!-~]{1,100}", re.ASCII)
_LARGEST = 1 << 16

_WIDTH = 255
"""Characters to which a document is filled up with blanks: one of the same size can be overwritten in place."""


@dataclass(frozen=True, slots=True)
class File:
    """A file's bytes, and whether it can be executed."""

    content: bytes
    executable: bool


@dataclass(frozen=True, slots=True)
class Link:
    target: str


@dataclass(frozen=True, slots=True)
class Special:
    """A pipe, a socket, a device: it holds nothing."""


Entry = File | Link | Special | Mapping[str, "Entry"] | None
"""What stands at a path; a mapping is a directory, None is nothing."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The protected files as they stood."""

    entries: Mapping[str, Entry]
    targets: Mapping[str, Mapping[str, Entry]] = field(default_factory=dict[str, Mapping[str, Entry]])
    """Of those that are links, what they lead to: each link on the way and the file at its end, by its path."""

    def changed(self, root: Path) -> list[str]:
        """Name the protected files that are no longer what they were."""
        now = take(root)
        return [name for name in NAMES if not self.has_same(name, now)]

    def has_same(self, name: str, other: "Snapshot") -> bool:
        """Tell whether a protected file is the same in another snapshot."""
        return (self.entries[name], self.targets.get(name)) == (other.entries[name], other.targets.get(name))

    def without_links(self) -> "Snapshot":
        """Return these files for another folder: each link to a file is that file."""
        ends = {
            name: [entry for entry in targets.values() if isinstance(entry, File)]
            for name, targets in self.targets.items()
        }
        return Snapshot({name: ends[name][0] if ends.get(name) else entry for name, entry in self.entries.items()})

    def restore(self, root: Path, aside: Path) -> list[str]:
        """Put the protected files back; what stood in their place is moved to `aside`, never lost. Name them."""
        undone = self.changed(root)
        if not undone:
            return []
        own = root / ".ralph"
        with named_in_faults(aside):
            aside.mkdir(parents=True, exist_ok=True)
            if own.is_symlink() or (own.exists() and not own.is_dir()):
                move_aside(own, aside)
            own.mkdir(exist_ok=True)
            for name in undone:
                _put(own / name, self.entries[name], aside)
                for place, entry in self.targets.get(name, {}).items():
                    _put(Path(place), entry, aside)
            for name in self.changed(root):  # a folder on the way leads elsewhere: the file itself takes its place
                ends = [entry for entry in self.targets.get(name, {}).values() if isinstance(entry, File)]
                _put(own / name, ends[0] if ends else self.entries[name], aside)
        return undone

    def store(self, folder: Path) -> None:
        """Keep a copy for the next start: whole or not at all, for half a copy would pass for the user's word."""
        with named_in_faults(folder):
            fresh = folder.with_name(f"{folder.name}.new")
            shutil.rmtree(fresh, ignore_errors=True)
            fresh.mkdir(parents=True)
            for name, entry in self.entries.items():
                write_entry(fresh / name, entry)
            for name, targets in self.targets.items():
                for number, (place, entry) in enumerate(targets.items()):
                    folder_of_one = fresh / _TARGETS / name / str(number)
                    folder_of_one.mkdir(parents=True)
                    (folder_of_one / "path").write_bytes(os.fsencode(place))
                    write_entry(folder_of_one / "entry", entry)
            shutil.rmtree(folder, ignore_errors=True)
            fresh.rename(folder)


def require_plain_directory(root: Path) -> None:
    """Refuse a `.ralph` that leads elsewhere: what ralph writes there would land outside the repository."""
    own = root / ".ralph"
    if own.is_symlink() or (own.exists() and not own.is_dir()):
        raise UsageError(
            f"{own} is not a plain directory", "replace it with a directory: ralph does not follow a link there"
        )


def take(root: Path) -> Snapshot:
    """Read the protected files of a working tree."""
    own = root / ".ralph"
    reached = own.is_dir() and not own.is_symlink()
    entries = {name: read_entry(own / name) if reached else None for name in NAMES}
    return Snapshot(entries, {name: _led_to(own / name) for name, entry in entries.items() if isinstance(entry, Link)})


def _led_to(path: Path) -> dict[str, Entry]:
    """Follow a link to its end; only a file there can judge."""
    found: dict[str, Entry] = {}
    for _ in range(_HOPS):
        if not path.is_symlink():
            break
        path = Path(os.path.realpath(path.parent)) / path.readlink()
        path = Path(os.path.realpath(path.parent)) / path.name
        if path.is_symlink() or path.is_file():
            found[str(path)] = read_entry(path)
    return found


def stored(folder: Path) -> Snapshot | None:
    """Read the copy that an earlier start kept, if there is one."""
    if not folder.is_dir():
        return None
    targets: dict[str, dict[str, Entry]] = {}
    for place in sorted(folder.glob(f"{_TARGETS}/*/*"), key=lambda place: int(place.name)):
        of_one = targets.setdefault(place.parent.name, {})
        of_one[os.fsdecode((place / "path").read_bytes())] = read_entry(place / "entry")
    entries = {name: read_entry(folder / name) for name in NAMES}
    return Snapshot(
        entries, {name: targets.get(name, {}) for name, entry in entries.items() if isinstance(entry, Link)}
    )


def read_entry(path: Path) -> Entry:
    """Read what stands at a path, without following a link."""
    with named_in_faults(path):
        try:
            mode = path.lstat().st_mode  # one look at each, after every session
        except (FileNotFoundError, NotADirectoryError):
            return None
        if stat.S_ISLNK(mode):
            return Link(str(path.readlink()))
        if stat.S_ISREG(mode):
            return File(path.read_bytes(), bool(mode & 0o111))
        if stat.S_ISDIR(mode):
            return {entry.name: read_entry(entry) for entry in path.iterdir()}
        return Special()


def write_entry(path: Path, entry: Entry) -> None:
    """Make such an entry where there is none."""
    match entry:
        case None | Special():
            return
        case Link(target):
            path.symlink_to(target)
        case File(content, executable):
            path.write_bytes(content)
            path.chmod(0o755 if executable else 0o644)
        case _:
            path.mkdir()
            for name, inner in entry.items():
                write_entry(path / name, inner)


def _put(path: Path, entry: Entry, aside: Path) -> None:
    """Have an entry stand at a path, unless it does."""
    if read_entry(path) == entry:
        return
    if path.is_symlink() or path.exists():
        move_aside(path, aside)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_entry(path, entry)


def move_aside(path: Path, aside: Path) -> None:
    """Move what stands at a path into a folder, under a name that is free there."""
    if path.is_symlink() or path.is_file() or path.is_dir():
        shutil.move(path, _free(aside / path.name))
    else:
        path.unlink()


def _free(path: Path) -> Path:
    number = 0
    candidate = path
    while candidate.is_symlink() or candidate.exists():
        number += 1
        candidate = path.with_name(f"{path.name}.{number}")
    return candidate


class ProjectLinks:
    """The projections of one run. They follow no link, and a fault in them never matters to the run."""

    def __init__(self, root: Path) -> None:
        self._own = root / ".ralph"

    def show_session(self, mode: str, session_id: str, at: str) -> None:
        """Show the session that a mode began last; the ids of the others stay, and a summarizer's is not shown."""
        if mode not in _SESSION_KEYS:
            return
        shown = self._shown_sessions() | {_SESSION_KEYS[mode]: session_id}
        self._write(_SESSIONS, {**shown, "updated_at": at})

    def _shown_sessions(self) -> dict[str, object]:
        """Read back the ids that are shown, which anybody can have written: only what may be one is repeated."""
        shown: Mapping[str, object] = {}
        path = self._own / "state" / _SESSIONS
        with contextlib.suppress(OSError, ndjson.Malformed):
            if stat.S_ISREG(path.lstat().st_mode) and path.stat().st_size <= _LARGEST:
                shown = ndjson.mapping(ndjson.decode_strictly(path.read_bytes()))
        ids = {key: ndjson.text(shown.get(key)) for key in _SESSION_KEYS.values()}
        return {key: found if _SESSION_ID.fullmatch(found) else None for key, found in ids.items()}

    def show_budget(
        self, *, cost_usd: float, max_cost_usd: float | None, iterations: int, max_iterations: int | None
    ) -> None:
        self._write(
            "budget.json",
            {
                "total_cost_usd": cost_usd,
                "max_cost_usd": max_cost_usd,
                "iterations": iterations,
                "max_iterations": max_iterations,
            },
        )

    def link_run(self, goal: str, run_directory: Path) -> None:
        """Point `.ralph/logs` and `.ralph/runs/<goal>` at the run directory."""
        with contextlib.suppress(OSError, DiskError):
            if self._directory(self._own) and self._directory(self._own / "runs"):
                _link(self._own / "logs", run_directory / "logs")
                _link(self._own / "runs" / goal, run_directory)

    def _write(self, name: str, document: dict[str, object]) -> None:
        with contextlib.suppress(OSError, DiskError):
            if self._directory(self._own) and self._directory(self._own / "state"):
                content = f"{ndjson.encode(document).ljust(_WIDTH)}\n".encode("utf-8", "replace")
                path = self._own / "state" / name
                if not overwrite_file(path, content):
                    replace_file(path, content, mode=0o644, durable=False)

    def _directory(self, path: Path) -> bool:
        try:
            return stat.S_ISDIR(path.lstat().st_mode)
        except FileNotFoundError:
            path.mkdir()
            return True


def _link(path: Path, target: Path) -> None:
    if path.is_symlink():
        if path.readlink() == target:
            return
        path.unlink()
    if not path.exists():  # a directory that the user made stays
        path.symlink_to(target)


def listed(names: Iterable[str]) -> str:
    """Protected files by their paths."""
    return ", ".join(f".ralph/{name}" for name in names)
