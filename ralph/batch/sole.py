"""One queue worker to a queue: a second one is refused, with the name of the first."""

import contextlib
import os
import socket
from collections.abc import Callable, Generator
from pathlib import Path

from ralph.core.errors import UsageError
from ralph.queue.database import advisory_holder, advisory_lock, database_file
from ralph.state.lock import OwnedLock, Owner, holder_of


@contextlib.contextmanager
def sole_worker(db: str) -> Generator[Callable[[], bool]]:
    """Be the only queue worker of this queue for as long as the context lasts, or until the process is gone.

    What it yields tells whether that still holds: a server can drop a connection that nobody uses.
    """
    file = database_file(db)
    if file is not None:
        with OwnedLock(_lock(file), {"repo": str(file.resolve())}, _refused):
            yield lambda: True
        return
    with advisory_lock(db, f"ralph-runs, process {os.getpid()} on {socket.gethostname()}") as lock:
        if lock.holder:
            raise _refusal(lock.holder)
        yield lock.is_ours


def serving(db: str) -> str:
    """Who serves this queue right now, or nothing: then what is said to be running was cut off."""
    file = database_file(db)
    if file is None:
        return advisory_holder(db)
    owner = holder_of(_lock(file))
    return "" if owner is None else _named(owner)


@contextlib.contextmanager
def unless_served(db: str) -> Generator[bool]:
    """Keep queue workers away for as long as the context lasts, and yield True; False if one is there already."""
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(sole_worker(db))
        except UsageError:
            yield False
            return
        yield True


def _lock(file: Path) -> Path:
    real = file.resolve()  # by whatever name it was found
    return real.with_name(f"{real.name}.lock")


def _refused(owner: Owner) -> UsageError:
    return _refusal(_named(owner))


def _named(owner: Owner) -> str:
    return f"process {owner.pid or '?'} on {owner.host or '?'}"


def _refusal(holder: str) -> UsageError:
    return UsageError(
        f"another queue worker serves this queue: {holder}",
        "add goals to its queue with: ralph-runs add --queue GOAL.md; or use another queue with --db",
    )
