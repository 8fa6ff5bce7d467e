"""The repositories that goals are for: each one's mirror is fetched once, beside all else, before its goals start."""

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from ralph.core.errors import RalphError, fault_of
from ralph.core.progress import Reporter
from ralph.core.reason import NO_REASON, Cause, Reason
from ralph.git.address import place_of
from ralph.git.command import GitKilled
from ralph.queue.repos.mirror import Mirror
from ralph.queue.repos.push import in_the_way
from ralph.queue.repos.remote import Unreachable

_STALE = 300.0
"""Seconds after which a repository is fetched again before another goal of it starts."""

_PAUSES = (1.0, 3.0, 9.0, 27.0, 60.0)
"""Seconds between the tries to reach a repository that is elsewhere and was never fetched; then its goals are stuck."""


_SLOW_MERGE = 600.0
"""Seconds after which a merge is taken to hang, in a push say: attempts that would wait for it start."""


@dataclass(slots=True)
class Repository:
    """One repository: its mirror, the lock that lets one merge at a time in, and whether its goals may start."""

    mirror: Mirror
    merge_lock: threading.Lock = field(default_factory=threading.Lock)
    ready: bool = False
    fault: str = ""
    """Why no goal of it can start."""
    note: Reason = NO_REASON
    """What the user should know of it."""
    waiting: Reason = NO_REASON
    """What its goals wait for."""
    in_the_way: Reason = NO_REASON
    """Why merges would be refused now."""
    base: str = ""
    """The branch that work is merged to."""
    has_check: bool = True
    remote_away: bool = False
    """The last try to merge could not reach the remote."""
    fetching: str | None = None
    """How far the fetch is; None: nothing is being fetched."""
    merging_since: float | None = None
    """When the current merge began, by the monotonic clock; None: nothing is being merged."""

    @property
    def merges_stand_still(self) -> bool:
        """Whether the current merge waits for something outside, such as the remote."""
        since = self.merging_since
        return self.remote_away or (since is not None and time.monotonic() > since + _SLOW_MERGE)


Task = Callable[[str, Callable[[str], None]], AbstractContextManager[Reporter]]
"""Tells users of a task, if it takes long, by its title; what it yields passes its progress on in words."""


class Repositories:
    """Every repository of a queue. One that is slow or broken takes nobody's time but its own thread's."""

    def __init__(self, open_mirror: Callable[[str], Mirror], changed: Callable[[], None], task: Task) -> None:
        """`changed` is called when there is something new about a repository; `task` tells users of a fetch."""
        self._open = open_mirror
        self._changed = changed
        self._task = task
        self._known: dict[Path, Repository] = {}
        self._fetched: dict[Path, float] = {}
        self._lock = threading.Lock()
        self._leaving = threading.Event()

    def known(self, url: str) -> Repository:
        """The repository of this address, whether it was fetched yet or not."""
        place = place_of(url)
        with self._lock:
            if place not in self._known:
                self._known[place] = Repository(self._open(url))
            return self._known[place]

    def prepared(self, url: str) -> Repository:
        """The repository, which is fetched the first time that somebody asks this, and when that was long ago."""
        repository, place = self.known(url), place_of(url)
        with self._lock:
            fetched = self._fetched.get(place)
            stale = fetched is None or (repository.ready and time.monotonic() > fetched + _STALE)
            if stale:
                self._fetched[place] = time.monotonic()
                repository.ready = False
        if stale:
            threading.Thread(target=self._fetch, args=(repository,), daemon=True).start()
        return repository

    @property
    def fetching(self) -> dict[str, str]:
        """The addresses that are being fetched, without logins, each with how far it is."""
        with self._lock:
            known = list(self._known.values())
        return {each.mirror.upstream.shown: far for each in known if (far := each.fetching) is not None}

    def try_again(self, url: str) -> None:
        """Have a repository that was out of reach fetched for the next goal that needs it."""
        repository = self.known(url)
        with self._lock:
            self._fetched.pop(place_of(url), None)
            repository.fault = ""

    def leave(self) -> None:
        """Wait for nobody any more."""
        self._leaving.set()

    def _fetch(self, repository: Repository) -> None:
        if error := fault_of(lambda: self._make_ready(repository)):  # else its goals would wait for ever
            repository.fault = error.whole if isinstance(error, RalphError) else f"{type(error).__name__}: {error}"
        self._changed()

    def _make_ready(self, repository: Repository) -> None:
        if self._refresh(repository):
            base = repository.mirror.base()
            repository.base, repository.has_check = base.branch, repository.mirror.has_check(base)
            repository.in_the_way = in_the_way(repository.mirror, base.branch)
            repository.waiting = NO_REASON
            repository.ready = True

    def _refresh(self, repository: Repository) -> bool:
        """Fetch; what was fetched once is good to work on though its remote is away: only merges wait for that."""
        is_here = repository.mirror.upstream.path is not None
        for pause in (*_PAUSES, None):
            try:
                self._fetch_once(repository)
                return True
            except (Unreachable, GitKilled) as error:
                if repository.mirror.is_usable:
                    repository.note = Reason(cause=Cause.OFFLINE, detail=error.message)
                    return True
                if pause is None or (is_here and isinstance(error, Unreachable)):  # a path is there, or it is not
                    raise
                repository.waiting = Reason(cause=Cause.UNREACHABLE, detail=error.message)
                self._changed()
                if self._leaving.wait(pause):
                    return False
        return False

    def _fetch_once(self, repository: Repository) -> None:
        def show(far: str) -> None:
            repository.fetching = far

        show("")
        try:
            with self._task(f"fetching {repository.mirror.upstream.shown}", show) as report:
                repository.mirror.refresh(report)
        finally:
            repository.fetching = None
