"""The signals that ask ralph to end."""

import contextlib
import signal
from collections.abc import Callable, Generator
from types import FrameType

SIGINT = int(signal.SIGINT)


class Signals:
    """What was received. A signal only leaves a mark: who is busy finishes its step and looks."""

    def __init__(self, tell: Callable[[int], None] | None = None) -> None:
        """`tell` is called from inside the handler: it may do no more than leave a note, in a `SimpleQueue` say."""
        self._received: list[int] = []
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
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _receive(self, number: int, _frame: FrameType | None) -> None:
        self._received.append(number)
        if self._tell is not None:
            self._tell(number)
