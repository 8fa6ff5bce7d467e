"""Waiting for a condition, and looking at processes; tests never sleep for a guessed time."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

PATIENCE = 90.0
"""Seconds that a test waits for what comes in a moment: only one that fails takes as long, however busy the machine."""


WITNESSES: list[Callable[[], str]] = []
"""What the programs that run now have said so far: a test that waits in vain for what one of them does says why."""


def wait_until(condition: Callable[[], object], what: str, timeout: float = PATIENCE) -> None:
    """Poll until the condition is true; fail the test, saying what was awaited, when it stays false."""
    if not comes_true(condition, timeout):
        pytest.fail("\n".join([f"waited {timeout:g} s in vain: {what}", *(tell() for tell in WITNESSES)]))


def comes_true(condition: Callable[[], object], timeout: float) -> bool:
    """Poll until the condition is true; tell whether it came to that in time."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def is_alive(pid: int) -> bool:
    """Say whether the process still runs; a zombie does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def pid_in(pidfile: Path) -> int:
    """The pid that a scripted agent's `spawn` wrote."""
    return int(pidfile.read_text())


def kill_tree(pid: int) -> None:
    """Kill a process and its descendants, and see those gone; the process itself is its parent's to bury."""
    try:
        parent = psutil.Process(pid)
        family = [parent, *parent.children(recursive=True)]
    except psutil.NoSuchProcess:
        return
    for process in family:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(family[1:], timeout=5)
