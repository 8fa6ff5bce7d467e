"""Locks with an owner: one run per working tree, one worker per queue; the refusal of a second one names the owner."""

import contextlib
import fcntl
import os
import socket
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from ralph.core import ndjson
from ralph.core.errors import UsageError
from ralph.core.progress import Reporter, TaskProgress, unreported
from ralph.core.records import NotARecord, parse
from ralph.system.files import make_private_directory, named_in_faults, open_to_append
from ralph.system.programs import is_running

LOCK = ".lock"
"""Not a possible goal name: names have no dot."""

_DYING = 12.0
"""Seconds that a dead owner's lock may still be held."""

_NAMELESS = 2.0
"""Seconds to wait for a lock without an owner: it was just taken, or `holder` is reading a new one."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The process that a lock names."""

    pid: int = 0
    goal: str = ""
    host: str = ""
    repo: str = ""
    since: float = 0.0
    """The time when it took the lock."""

    @property
    def is_running(self) -> bool:
        """Whether the process may still run; unknown for another machine."""
        return self.pid == 0 or self.host != socket.gethostname() or is_running(self.pid)


class OwnedLock:
    """A file that one process at a time holds. The kernel drops the lock with its owner, however that ends."""

    def __init__(self, path: Path, said: Mapping[str, str], refusal: Callable[[Owner], UsageError]) -> None:
        """`said` is what the owner adds to its identity; `refusal` makes the error for a second process."""
        self._path = path
        self._said = said
        self._refusal = refusal
        self.report: Reporter = unreported
        """Gets the owner that ralph waits for."""
        self._file: BinaryIO | None = None

    def probe(self) -> None:
        """Refuse if another process holds the lock; create nothing."""
        if self._path.exists():
            with self:
                pass

    def __enter__(self) -> Self:
        make_private_directory(self._path.parent)
        file = open_to_append(self._path)
        began = time.monotonic()
        while not _locked(file):
            owner = _owner(file)
            if time.monotonic() < began + _timeout(owner):
                self.report(TaskProgress(f"waiting for process {owner.pid or '?'} to release the lock"))
                time.sleep(0.02)
                continue
            file.close()
            raise self._refusal(owner)
        with named_in_faults(self._path):
            file.truncate(0)
            owner = {"pid": os.getpid(), "host": socket.gethostname(), **self._said}
            file.write(ndjson.encode_line(owner))  # a whole line, so that readers never see half of it
        self._file = file
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()


class RepoLock(OwnedLock):
    """At most one run works in a tree."""

    def __init__(self, directory: Path, goal: str, root: Path) -> None:
        super().__init__(directory / LOCK, {"goal": goal, "repo": str(root)}, _refused_here)


def _timeout(owner: Owner) -> float:
    """How long to wait for a lock that is taken."""
    if owner.pid == 0:
        return _NAMELESS
    # Its owner was killed, and its guardian is ending the rest; or `holder` is reading it.
    return _DYING if not owner.is_running or owner.pid == os.getpid() else 0.0


def _refused_here(owner: Owner) -> UsageError:
    return UsageError(
        f"another run is using this repository: goal {owner.goal or '?'}, process {owner.pid or '?'}"
        f" on {owner.host or '?'}",
        "wait for it, or stop it with Ctrl-C; to work in parallel use --repo, which gives each goal its own clone",
    )


@contextlib.contextmanager
def taking_turns(path: Path, give_up: Callable[[], bool]) -> Generator[None]:
    """Wait until no other process holds this file, and hold it; without it once `give_up` says so."""
    with open_to_append(path) as file:
        while not _locked(file) and not give_up():
            time.sleep(0.05)
        yield


def _locked(file: BinaryIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def holder(directory: Path) -> Owner | None:
    """Return the owner of the live run in this directory of runs, if there is one."""
    return holder_of(directory / LOCK)


def holder_of(lock: Path) -> Owner | None:
    """Return the owner of a lock, if there is one, without keeping others from taking it."""
    try:
        with lock.open("rb") as file:
            owner = _owner(file)
            if not owner.is_running:  # do not try the lock: a start at this moment must not be refused for it
                return None
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return owner
            return None
    except OSError:
        return None


def _owner(file: BinaryIO) -> Owner:
    owner = Owner()
    with contextlib.suppress(NotARecord):
        owner = parse(Owner, os.pread(file.fileno(), 4096, 0))
    return replace(owner, since=os.fstat(file.fileno()).st_mtime)
