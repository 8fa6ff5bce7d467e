"""Locks with an owner: one run per working tree, one worker per queue; a second one is told who holds it."""

import contextlib
import fcntl
import os
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from ralph.core import ndjson
from ralph.core.errors import UsageError
from ralph.core.records import NotARecord, parse
from ralph.system.files import make_private_directory, named_in_faults, open_to_append
from ralph.system.programs import is_running

LOCK = ".lock"
"""No goal is called that: names have no dot."""

_DYING = 12.0
"""Seconds that a lock whose owner is dead may still be held."""

_NAMELESS = 2.0
"""Seconds that a lock which names nobody is waited for: its owner has just taken it, or `holder` looks at a new one."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Who wrote himself into a lock."""

    pid: int = 0
    goal: str = ""
    host: str = ""
    repo: str = ""
    since: float = 0.0
    """The time of day when he did."""

    @property
    def is_running(self) -> bool:
        """Whether he may still be there; of another machine nobody here can tell."""
        return self.pid == 0 or self.host != socket.gethostname() or is_running(self.pid)


class OwnedLock:
    """A file that one process at a time holds. The kernel drops the lock with its owner, however that ends."""

    def __init__(self, path: Path, said: Mapping[str, str], refusal: Callable[[Owner], UsageError]) -> None:
        """`said` is what the owner writes of himself besides who he is; `refusal` is told to whoever comes second."""
        self._path = path
        self._said = said
        self._refusal = refusal
        self._file: BinaryIO | None = None

    def probe(self) -> None:
        """Refuse if another one holds the lock; nothing is made that was not there."""
        if self._path.exists():
            with self:
                pass

    def __enter__(self) -> Self:
        make_private_directory(self._path.parent)
        file = open_to_append(self._path)
        began = time.monotonic()
        while not _locked(file):
            owner = _owner(file)
            if time.monotonic() < began + _patience(owner):
                time.sleep(0.02)
                continue
            file.close()
            raise self._refusal(owner)
        with named_in_faults(self._path):
            file.truncate(0)
            owner = {"pid": os.getpid(), "host": socket.gethostname(), **self._said}
            file.write(ndjson.encode_line(owner))  # a whole line: who looks at it has nothing to mend
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


def _patience(owner: Owner) -> float:
    """How long to wait for a lock that is taken."""
    if owner.pid == 0:
        return _NAMELESS
    # Its owner was killed, and its guardian is ending what it had started; or `holder` looks at it.
    return _DYING if not owner.is_running or owner.pid == os.getpid() else 0.0


def _refused_here(owner: Owner) -> UsageError:
    return UsageError(
        f"another run works in this repository: goal {owner.goal or '?'}, process {owner.pid or '?'}"
        f" on {owner.host or '?'}",
        "wait for it, or stop it with Ctrl-C; for work side by side use --repo: each goal gets its own clone",
    )


def _locked(file: BinaryIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def holder(directory: Path) -> Owner | None:
    """Who works in the tree of this directory of runs right now, if anyone does."""
    return holder_of(directory / LOCK)


def holder_of(lock: Path) -> Owner | None:
    """Who holds a lock right now, if anyone does; whoever wants it meanwhile still gets it."""
    try:
        with lock.open("rb") as file:
            owner = _owner(file)
            if not owner.is_running:  # the lock is not even tried: a start at this moment must not be refused for it
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
