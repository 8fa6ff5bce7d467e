"""Processes that a session left behind when its guardian and its ralph were both killed, known by a marker."""

import contextlib
import os
import signal
import time
from collections.abc import Collection, Iterator
from pathlib import Path

RUN_MARKER = "RALPH_RUN_ID"
"""The variable that all processes of a run's sessions inherit; it holds the id of the run."""
_LONGEST = 5.0
"""Seconds that they are given to be gone: one that a disk holds up ends later."""
_LOOK = 0.01


def end_marked(runs: Collection[str]) -> int:
    """Kill every process that belongs to a session of these runs; return how many there were.

    Neither this process nor those above it: a user may have started it from what a session left.
    """
    wanted = {f"{RUN_MARKER}={run}".encode() for run in runs}
    ended: set[int] = set()
    deadline = time.monotonic() + _LONGEST
    while wanted and (found := set(_marked(wanted))) and time.monotonic() < deadline:
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        ended |= found
        time.sleep(_LOOK)
    return len(ended)


def _marked(wanted: set[bytes]) -> Iterator[int]:
    above = set(_above(os.getpid()))
    for entry in Path("/proc").iterdir() if Path("/proc/self").exists() else ():
        if entry.name.isdigit() and int(entry.name) not in above:
            with contextlib.suppress(OSError):  # another user's, or gone; a zombie has no environment
                if not wanted.isdisjoint((entry / "environ").read_bytes().split(b"\0")):
                    yield int(entry.name)


def _above(pid: int) -> Iterator[int]:
    while pid:
        yield pid
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2].split()[1])
        except OSError:
            return
