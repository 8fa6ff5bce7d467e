"""Things handed from thread to thread, also by a signal handler; who waits for one is never forgotten.

`queue.SimpleQueue` may be put to from a handler as well. But in CPython before 3.13 its `get` takes a timeout that has
passed while a signal was handled for none at all, and waits for ever (seen on 3.11.7 and 3.12.1): a ralph that was
stopped and went on (SIGCONT has a handler) would never again notice that its agent is silent.
"""

import contextlib
import queue
import threading
import time
from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class Handover(Generic[T]):
    """First in, first out; whoever puts never waits."""

    def __init__(self) -> None:
        self._things: deque[T] = deque()
        self._news = threading.Lock()
        """Held while nothing has come since somebody looked; a bare lock, for its `release` cannot interrupt itself."""
        self._news.acquire()

    @property
    def has_news(self) -> bool:
        """Whether something waits to be taken."""
        return bool(self._things)

    def put(self, thing: T) -> None:
        """Hand something over; a signal handler may."""
        self._things.append(thing)
        with contextlib.suppress(RuntimeError):  # there were news already
            self._news.release()

    def get(self, timeout: float) -> T:
        """Take what came first, and wait so long for it; `queue.Empty` if nothing comes."""
        end = time.monotonic() + timeout
        while True:
            with contextlib.suppress(IndexError):
                return self._things.popleft()
            if not self._news.acquire(timeout=max(end - time.monotonic(), 0.0)):
                raise queue.Empty

    def get_nowait(self) -> T:
        """The same, without waiting."""
        return self.get(0.0)
