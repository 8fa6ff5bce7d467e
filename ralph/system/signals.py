"""The signals that ask ralph to end or suspend, and a queue that signal handlers can safely put to."""

import contextlib
import os
import queue
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Generator
from types import FrameType
from typing import Generic, TypeVar

SIGINT = int(signal.SIGINT)

_TO_STOP = 1.0
"""Seconds in which the kernel stops whom it will stop: of a job that no shell waits for it stops nobody."""
_LOOK = 0.02
_LONGEST_WAIT = 0.5
"""Seconds of a single wait, and so the longest delay of a signal that arrives as it begins."""

T = TypeVar("T")


def suspend(continued: Callable[[], int]) -> None:
    """Stop as Ctrl-Z does, together with the rest of this shell job; return when it continues.

    `continued` counts how often it did. The call that sends the signal returns before any thread gets it: taking the
    terminal back at that moment would leave it to the shell with the view's settings.
    """
    before, until = continued(), time.monotonic() + _TO_STOP
    os.kill(0, signal.SIGTSTP)
    while continued() == before and time.monotonic() < until:
        time.sleep(_LOOK)


class Signals:
    """What was received. A signal only leaves a mark: who is busy finishes its step and looks."""

    def __init__(self, tell: Callable[[int], None] | None = None) -> None:
        """`tell` is called from inside the handler: it may do no more than leave a note, in a `SignalSafeQueue` say."""
        self._received: list[int] = []
        self.continued = 0
        """How often ralph was stopped and went on: the terminal was somebody else's in between."""
        self._tell = tell

    @property
    def first(self) -> int | None:
        return self._received[0] if self._received else None

    @property
    def count(self) -> int:
        return len(self._received)

    @contextlib.contextmanager
    def watched(self) -> Generator["Signals"]:
        """Receive SIGINT, SIGTERM and SIGHUP; a SIGHUP that was ignored at start (nohup) stays ignored."""
        numbers = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            numbers.append(signal.SIGHUP)
        before = {number: signal.signal(number, self._receive) for number in numbers}
        before[signal.SIGCONT] = signal.signal(signal.SIGCONT, self._continue)
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def leave_mark(self, number: int) -> None:
        """Ask ralph to end, as if the signal had been sent."""
        self._receive(number, None)

    def _continue(self, _number: int, _frame: FrameType | None) -> None:
        self.continued += 1

    def _receive(self, number: int, _frame: FrameType | None) -> None:
        self._received.append(number)
        if self._tell is not None:
            self._tell(number)


class SignalSafeQueue(Generic[T]):
    """First in, first out; `put` never waits."""

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
            left = max(end - time.monotonic(), 0.0)
            # In short waits: a signal that arrives just before a wait does not interrupt it, and Python runs the
            # handler only when the wait is over.
            if not self._news.acquire(timeout=min(left, _LONGEST_WAIT)) and left <= _LONGEST_WAIT:
                raise queue.Empty

    def get_nowait(self) -> T:
        """The same, without waiting."""
        return self.get(0.0)
