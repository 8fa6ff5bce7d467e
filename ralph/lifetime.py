"""How much time has passed for the user, who means the clock on the wall: also while the machine has slept."""

import time

# macOS has no CLOCK_BOOTTIME, and there CLOCK_MONOTONIC counts sleep; `time.monotonic` does so on neither.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def passed() -> float:
    """Seconds since a moment long ago; they only grow, whatever is done to the clock on the wall."""
    return time.clock_gettime(_CLOCK)
