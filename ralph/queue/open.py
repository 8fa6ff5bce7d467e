"""The queue that a command of `ralph-runs` is about, and which of its goals."""

import contextlib
import functools
import os
import re
import shlex
import socket
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ralph.config import paths, settings
from ralph.config.keys import variable
from ralph.core.errors import UsageError
from ralph.core.fallback import NO_FALLBACK, Fallback
from ralph.core.reason import command_line
from ralph.git.address import place_of
from ralph.git.command import git_output, run_git
from ralph.git.repo import open_repo
from ralph.queue.database import advisory_holder, advisory_lock, database_file, default_url
from ralph.queue.goals import ACTIVE, BatchGoal, State
from ralph.queue.manifest import repo_from
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
    with advisory_lock(db, f"{_PROGRAM}{worker_name(os.getpid(), socket.gethostname())}") as lock:
        if lock.holder:
            raise _refusal(lock.holder.removeprefix(_PROGRAM))
        yield lock.is_ours


def serving(db: str) -> str:
    """The name of the worker that serves this queue, or nothing: then what is said to be running was cut off."""
    file = database_file(db)
    if file is None:
        return advisory_holder(db).removeprefix(_PROGRAM)
    owner = holder_of(_lock(file))
    return "" if owner is None else worker_name(owner.pid, owner.host)


_PROGRAM = "ralph-runs, "
"""How a worker's connection to PostgreSQL is named there, before the worker's own name."""
_LONGEST_NAME = 63 - len(_PROGRAM)
"""Bytes: PostgreSQL cuts names of connections at 63."""


def worker_name(pid: int, host: str) -> str:
    """What the worker with this process id is called on every machine."""
    return f"process {pid or '?'} on {host or '?'}".encode()[:_LONGEST_NAME].decode(errors="ignore")


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
    return _refusal(worker_name(owner.pid, owner.host))


def _refusal(holder: str) -> UsageError:
    return UsageError(
        f"this queue already has a worker: {holder}",
        "add goals to it with: ralph-runs add --queue GOAL.md; or use another queue with --db",
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
    fallback: Fallback = NO_FALLBACK
    notify: tuple[str, ...] = ()
    """The notification command."""
    bell: bool = True
    """Whether a terminal calls its user when a batch ends."""

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


def queue_address(
    db: str | None, most: str | None = None, for_runs: Mapping[str, object] | None = None
) -> QueueAddress:
    """Settle which queue is meant; a repository does not decide it. `for_runs`: settings for the runs of all goals."""
    env = environ.without_redirections()
    written = {name: value for name, value in (("db", db), ("max", most)) if value is not None}
    chosen = settings.load(env=env, flags={**written, **(for_runs or {})})
    env |= {variable(name): str(value) for name, value in (for_runs or {}).items()}
    if for_runs and "agent_cmd" in for_runs:
        env[variable("agent")] = chosen.agent
        env[variable("agent_cmd")] = _from_here(str(for_runs["agent_cmd"]))
    ralph_dir = paths.ralph_dir(env)
    if "\n" in str(ralph_dir):
        hint = "set it to the path of another folder, or unset it"
        raise UsageError(f"RALPH_DIR contains a line break, which git does not support: {str(ralph_dir)!r}", hint)
    url = chosen.db or default_url(ralph_dir)
    return QueueAddress(
        url, ralph_dir, env, chosen.most_goals, chosen.agent, chosen.fallback, chosen.notify, chosen.bell
    )


def _from_here(command: str) -> str:
    """Make the path of a command's program absolute: a goal's run starts in its clone, where a relative one differs."""
    words = shlex.split(command)
    if not words or "/" not in words[0] or not Path(words[0]).is_file():
        return command
    return shlex.join([os.path.abspath(words[0]), *words[1:]])  # noqa: PTH100 - links stay, `..` goes


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


def has_work(store: Store | None, scope: "Scope") -> bool:
    """Tell whether a queue worker would find anything to do."""
    return store is not None and any(scope.has(goal) for goal in store.active() if goal.state in ACTIVE)


def is_cut_off(place: QueueAddress, goals: Iterable[BatchGoal]) -> bool:
    """Tell whether goals that are said to be running are not, for nobody serves their queue."""
    return any(goal.state is State.RUNNING for goal in goals) and not serving(place.url)


@contextlib.contextmanager
def alone(place: QueueAddress, store: Store) -> Generator[bool]:
    """Tell whether goals were interrupted; if so, keep queue workers away while the context lasts."""
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


@dataclass(frozen=True, slots=True)
class Scope:
    """Which goals of a queue a worker works on."""

    places: frozenset[Path] | None = None
    """Their repositories, each as the place of its mirror; None: every goal."""

    def has(self, goal: BatchGoal) -> bool:
        """Tell whether this is one of them, however its repository is spelled."""
        return self.places is None or _place(goal.repo) in self.places

    def elsewhere(self, goals: Iterable[BatchGoal]) -> list[BatchGoal]:
        """The queued goals that are not among them."""
        return [goal for goal in goals if goal.state is State.QUEUED and not self.has(goal)]


EVERY_GOAL = Scope()
_place = functools.lru_cache(maxsize=4096)(place_of)  # asked of every queued goal at every turn


def scope_of(repos: Iterable[str]) -> Scope:
    """The goals of these repositories."""
    return Scope(frozenset(map(_place, repos)))


def scope_here(here: Path) -> Scope:
    """The goals of the repository that `here` is in: of its folder, or of the address that it was cloned from."""
    try:
        root = open_repo(here).root
    except UsageError as error:
        raise UsageError(
            f"cannot tell which goals to work on: {error.message}",
            "go to a repository with queued goals\n"
            "  or name goals:                ralph-runs run GOAL.md --repo PATH\n"
            "  or work on all queued goals:  ralph-runs run --all",
        ) from error
    git_dir = Path(git_output(root, "rev-parse", "--path-format=absolute", "--git-common-dir").removesuffix("\n"))
    # In a linked working tree, goals may have been added from the main one.
    repos = [str(root), *([str(git_dir.parent)] if git_dir.name == ".git" else [])]
    status, origin, _ = run_git(root, "config", "--get", "remote.origin.url")
    if status == 0 and (url := origin.removesuffix("\n")):
        repos.append(repo_from(url, root))
    return scope_of(repos)


def no_run(goal: BatchGoal, place: QueueAddress) -> UsageError:
    """Return why there is nothing to read of a goal's run."""
    show = place.command("show", goal.label)
    if not goal.has_run:
        waits = goal.state in (State.DRAFT, State.QUEUED, State.RUNNING)
        what = f"has not run yet: it is {goal.state}" if waits else f"never started: it is {goal.state}"
        return UsageError(f"{goal.label} {goal.name} {what}", f"see why: {show}")
    return UsageError(f"cannot find the run of {goal.label} {goal.name} on this machine", f"see what is known: {show}")
