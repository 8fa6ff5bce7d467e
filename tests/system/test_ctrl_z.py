"""Ctrl-Z in the moment in which a program is started: the whole job stops, as the shell that waits for it expects."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ralph.system.leash import Leashed
from tests.support.waiting import PATIENCE, kill_tree, wait_until

STOPS = 25
JOB = """
import os, signal, subprocess, sys, threading, time
from pathlib import Path
from ralph.system.notify import BackgroundPrograms
from ralph.system.leash import Leashed
from ralph.system.programs import ask, run_to_end

here, env = Path(sys.argv[1]), dict(os.environ)

def run_errand():
    errands = BackgroundPrograms(["true"], env, limit=60, failed=print)
    errands.send(b"")
    errands.close(60)

def leash():
    with Leashed(["true"], cwd=here, environment=env, stderr_log=here / "stderr") as child:
        child.read(1)

ways = {
    "asked": lambda: ask(["true"], cwd=here, environment=env, limit=60),
    "run to its end": lambda: run_to_end(["true"], environment=env, said=None),
    "on a leash": leash,
    "sent on an errand": run_errand,
    "heard": lambda: run_to_end(["true"], environment=env, said=None, hear=lambda _: None),
}

def start_programs():
    while True:
        ways[sys.argv[2]]()

for _ in range(2):
    threading.Thread(target=start_programs, daemon=True).start()
while True:
    time.sleep(0.02)
    os.kill(0, signal.SIGTSTP)
"""


@contextmanager
def job(*args: str) -> Iterator[int]:
    """A process group of its own, as a shell starts one."""
    with subprocess.Popen([sys.executable, "-c", JOB, *args], process_group=0) as process:
        try:
            yield process.pid
        finally:
            kill_tree(process.pid)
            os.killpg(process.pid, signal.SIGKILL)


def is_stopped(pid: int) -> bool:
    """Tell whether the whole process has stopped since this was last asked; a shell asks the same."""
    return os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOHANG) is not None


@pytest.mark.parametrize("way", ["asked", "run to its end", "on a leash", "sent on an errand", "heard"])
def test_a_job_that_starts_programs_stops_for_ctrl_z(tmp_path: Path, way: str) -> None:
    until = time.monotonic() + PATIENCE
    with job(str(tmp_path), way) as pid:
        for number in range(STOPS):
            wait_until(lambda: is_stopped(pid), f"stop {number}", max(1.0, until - time.monotonic()))
            os.killpg(pid, signal.SIGCONT)


def test_a_ralph_on_a_leash_hands_no_blocked_signal_on(tmp_path: Path) -> None:
    program = (
        "import os, signal; from ralph.system.leash import LEASH, heed_leash; heed_leash(os.environ[LEASH]);"
        "print(signal.pthread_sigmask(signal.SIG_BLOCK, ()))"
    )
    child = Leashed(
        [sys.executable, "-c", program], cwd=tmp_path, environment=dict(os.environ), stderr_log=tmp_path / "stderr"
    )
    with child:
        assert list(child.lines(lambda: 0)) == [b"set()"]
