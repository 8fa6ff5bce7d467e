"""Which accounts may have new goals started: a usage limit that one goal meets is every goal's of that account."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from ralph.core.text import local_time

BLOCKING = ("auth", "billing")
"""Ends of a session that the next one would meet as well, until the user has done something about it."""


def not_started(account: str, until: float) -> str:
    """What is said of an account that is held back until an instant."""
    return f"no goal for {account} is started before {local_time(until, time.time())}"


@dataclass(slots=True)
class Gate:
    """The accounts that are held back, each until an instant or until the user has cleared the way."""

    now: Callable[[], float]
    _until: dict[str, float] = field(default_factory=dict[str, float])
    _blocked: dict[str, int] = field(default_factory=dict[str, int])
    _told: set[str] = field(default_factory=set[str])
    """The accounts of whose limit someone who is away was told, and that have not gone on since."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def wait_for(self, account: str, until: float) -> bool:
        """Hold an account back until an instant; tell whether it was not already."""
        with self._lock:
            later = until > self._until.get(account, 0.0)
            news = later and self._until.get(account, 0.0) <= self.now()
            if later:
                self._until[account] = until
            return news

    def tell_once(self, account: str) -> bool:
        """Tell whether someone who is away is to be told of an account's limit: once, until it `goes_on`."""
        with self._lock:
            is_new = account not in self._told
            self._told.add(account)
            return is_new

    def goes_on(self, account: str) -> None:
        """An iteration has ended: the next limit of the account is another."""
        with self._lock:
            self._told.discard(account)

    def lift(self, account: str) -> None:
        """Start goals for an account again before its time: the user knows better, or the next one finds out."""
        with self._lock:
            self._until.pop(account, None)

    def block(self, account: str, goal: int) -> bool:
        """Hold an account back until the goal that met the obstacle is tried again by the user; tell if it is news."""
        with self._lock:
            return self._blocked.setdefault(account, goal) == goal

    def unblock_for(self, decided: set[int]) -> None:
        """The user has these goals tried again, or gave them up: what blocked them is cleared, or will be met anew."""
        with self._lock:
            self._blocked = {account: goal for account, goal in self._blocked.items() if goal not in decided}

    def state(self) -> tuple[dict[str, float], dict[str, int]]:
        """The accounts that wait, with the instant that each does so until; and those that were refused, by whom."""
        with self._lock:
            waits = {account: until for account, until in self._until.items() if until > self.now()}
            return waits, dict(self._blocked)

    def blocked_by(self, account: str) -> int | None:
        """The goal that met an obstacle which every other of its account would meet as well."""
        with self._lock:
            return self._blocked.get(account)
