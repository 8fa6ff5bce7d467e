"""What the dashboard asks of its queue is done beside it: a locked database holds up neither frames nor keys."""

import threading
import time
from collections import deque
from collections.abc import Callable
from types import TracebackType

_LONGEST_END = 1.0
"""Seconds that whoever leaves waits for what is being done: a lock may be held for as long as anybody likes."""


class Clerk:
    """Does one thing after the other, in a thread of its own. Use as a context manager."""

    def __init__(self) -> None:
        self._asked: deque[Callable[[], None]] = deque()
        self._change = threading.Condition()
        self._since: float | None = None
        """Since when it does what it does."""
        self._fault: Exception | None = None
        self._leaves = False
        self._thread = threading.Thread(target=self._work, name="clerk", daemon=True)

    def __enter__(self) -> "Clerk":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._change:
            self._leaves = True
            self._change.notify_all()
        self._thread.join(_LONGEST_END)

    def do(self, what: Callable[[], None]) -> None:
        with self._change:
            self._asked.append(what)
            self._change.notify_all()

    def wait(self, seconds: float) -> bool:
        """Wait until all is done, at most so long; tell whether it is. A fault of what was done is one here."""
        with self._change:
            is_done = self._change.wait_for(lambda: not self._asked and self._since is None, seconds)
            if self._fault is not None:
                raise self._fault
            return is_done

    @property
    def busy(self) -> float:
        """For how many seconds it has been at one thing; 0: it has nothing to do."""
        since = self._since
        return 0.0 if since is None else time.monotonic() - since

    def _work(self) -> None:
        while True:
            with self._change:
                self._change.wait_for(lambda: self._asked or self._leaves)
                if self._leaves:
                    return
                what, self._since = self._asked.popleft(), time.monotonic()
            fault = _fault_of(what)
            with self._change:
                self._since, self._fault = None, self._fault or fault
                self._change.notify_all()


def _fault_of(what: Callable[[], None]) -> Exception | None:
    try:
        what()
    except Exception as error:  # whatever it is: it is raised where its outcome is awaited
        return error
    return None
