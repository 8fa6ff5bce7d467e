"""A program that is asked one thing, with real ones."""

from __future__ import annotations

import os
from pathlib import Path

from ralph.system.programs import ProgramAnswer, ask
from tests.support.waiting import is_alive, pid_in, wait_until


def test_one_that_is_asked_answers(tmp_path: Path) -> None:
    reply = ask(["sh", "-c", "pwd; cat; echo no >&2; exit 3"], cwd=tmp_path, environment=dict(os.environ), limit=20)
    assert reply == ProgramAnswer(3, f"{tmp_path}\n", "no\n")


def test_one_that_does_not_answer_is_ended_with_its_children(tmp_path: Path) -> None:
    script = f"sleep 600 & echo $! > {tmp_path}/pid; wait"
    reply = ask(["sh", "-c", script], cwd=tmp_path, environment=dict(os.environ), limit=5)
    assert reply == ProgramAnswer(None, "", "sh did not answer in 5 s")
    wait_until(lambda: not is_alive(pid_in(tmp_path / "pid")), "the sleep is gone")


def test_one_that_is_not_there_is_no_fault(tmp_path: Path) -> None:
    reply = ask(["/no/such/program"], cwd=tmp_path, environment={}, limit=1)
    assert reply == ProgramAnswer(None, "", "/no/such/program: No such file or directory")
