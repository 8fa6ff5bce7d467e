"""Waiting where the user can see it and cut it short, and a monotonic clock that counts time asleep."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from ralph.core.errors import Interrupted
from ralph.core.events import Event, Waiting

_LOOK = 0.2

Nap = Callable[[float], None]
"""Sleeps for so many seconds, or less."""

# macOS has no CLOCK_BOOTTIME, and there CLOCK_MONOTONIC counts sleep; `time.monotonic` does so on neither.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


@dataclass(frozen=True, slots=True)
class VisibleWait:
    """The clock, the signals, and the work during a wait. Times are of the wall clock, which no suspend stops."""

    observe: Callable[[Event], None]
    now: Callable[[], float]
    rest: Callable[[], AbstractContextManager[Nap]]
    interrupted: Callable[[], int | None]
    """The signal that asked ralph to end, if one did."""
    elapsed: Callable[[], float]
    """How long this start has taken."""

    def wait(
        self, reason: str, until: float | None, enough: Callable[[], bool] = lambda: False, *, end: str = ""
    ) -> None:
        """Wait until the instant, if there is one, or until it is `enough`; `end` is how the last session ended."""
        self.observe(Waiting(reason, until, end))
        with self.rest() as nap:
            while (left := _LOOK if until is None else until - self.now()) > 0 and not enough():
                self.leave_if_interrupted()
                nap(min(left, _LOOK))

    def leave_if_interrupted(self) -> None:
        if (number := self.interrupted()) is not None:
            raise Interrupted(number)


def monotonic_with_sleep() -> float:
    """Seconds since a moment long ago; they only grow, whatever is done to the clock on the wall."""
    return time.clock_gettime(_CLOCK)
