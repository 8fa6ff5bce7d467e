"""The queue that a command of `ralph-runs` is about."""

import contextlib
import os
import re
import shlex
import socket
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ralph.config import paths, settings
from ralph.core.errors import UsageError
from ralph.core.reason import command_line
from ralph.queue.database import advisory_holder, advisory_lock, database_file, default_url
from ralph.queue.goals import ACTIVE, BatchGoal, State
from ralph.queue.store import Store, open_store
from ralph.state.lock import OwnedLock, Owner, holder_of
from ralph.system import environ


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


_PASSWORD = re.compile(r"//([^:@/\s]*):[^/\s]*@")


@dataclass(frozen=True, slots=True)
class QueueAddress:
    """Where the queue is, and what surrounds it."""

    url: str
    ralph_dir: Path
    env: Mapping[str, str]
    most: int
    """How many goals may run at once."""
    agent: str
    """Who works on a goal that names nobody."""
    notify: tuple[str, ...] = ()
    """The command that is told what someone who is away wants to know."""

    @property
    def flag(self) -> str:
        """How a command names this queue where it would not find it by itself; without what opens it."""
        if self.url == default_url(self.ralph_dir):
            return ""
        url = _PASSWORD.sub(r"//\1@", self.url)
        return f" --db {shlex.quote(url.partition('?')[0] if 'password' in url else url)}"

    def command(self, *words: str) -> str:
        """A command of `ralph-runs` that is about this queue."""
        return command_line(words, self.flag)


def whereabouts(db: str | None, most: str | None = None) -> QueueAddress:
    """Settle which queue is meant; a repository does not decide it."""
    env = environ.without_redirections()
    written = {name: value for name, value in (("db", db), ("max", most)) if value is not None}
    chosen = settings.load(env=env, flags=written)
    ralph_dir = paths.ralph_dir(env)
    if "\n" in str(ralph_dir):
        raise UsageError(f"RALPH_DIR has a line break in it, which git's clones cannot do with: {str(ralph_dir)!r}")
    url = chosen.db or default_url(ralph_dir)
    return QueueAddress(url, ralph_dir, env, chosen.most_goals, chosen.agent, chosen.notify)


def existing(place: QueueAddress) -> Store | None:
    """The queue, if there is one; nothing is made."""
    return open_store(place.url, create=False)


def missing(place: QueueAddress) -> str:
    """What is said where there is no queue; one that the user names is named, for its name may be mistyped."""
    return "the queue is empty" if place.url == default_url(place.ralph_dir) else f"there is no queue at {place.url}"


def made(place: QueueAddress) -> Store:
    """The queue, made if there is none."""
    store = open_store(place.url, create=True)
    if store is None:
        raise AssertionError("a queue that is to be made is there")
    return store


def has_work(place: QueueAddress) -> bool:
    """Tell whether a queue worker would find anything to do."""
    store = existing(place)
    return store is not None and not store.counts().keys().isdisjoint(ACTIVE)


def is_cut_off(place: QueueAddress, goals: Iterable[BatchGoal]) -> bool:
    """Tell whether goals that are said to be running are not, for nobody serves their queue."""
    return any(goal.state is State.RUNNING for goal in goals) and not serving(place.url)


@contextlib.contextmanager
def alone(place: QueueAddress, store: Store) -> Generator[bool]:
    """Tell whether something was cut off, and keep queue workers away meanwhile; else nobody is kept from anything."""
    if State.RUNNING not in store.counts() or serving(place.url):
        yield False
        return
    with unless_served(place.url) as ours:
        yield ours


def find(place: QueueAddress, words: Sequence[str]) -> tuple[Store, list[BatchGoal]]:
    """The goals that the user names, each once; refuse what is not in the queue."""
    store = existing(place)
    if store is None:
        raise UsageError(
            f"there is no goal {words[0]}: {missing(place)}",
            f"add goals with: {place.command('add', 'GOAL.md', '--queue')}",
        )
    return store, store.find_all(words)
