"""The clock of `--duration` and `--max-time`."""

import time
from pathlib import Path

from ralph.system.clock import monotonic_with_sleep


def test_it_counts_what_the_machine_has_slept() -> None:
    """Linux says by `/proc/uptime` how long it is up, sleep included."""
    before = float(Path("/proc/uptime").read_text().split()[0])
    now = monotonic_with_sleep()
    assert before - 0.02 <= now <= before + 5.0
    time.sleep(0.01)
    assert monotonic_with_sleep() > now
