"""A program that is asked one thing, with real ones."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ralph.system.programs import OutOfTime, ProgramAnswer, ask, run_to_end
from tests.support.waiting import is_alive, pid_in, wait_until


def test_one_that_is_asked_answers(tmp_path: Path) -> None:
    reply = ask(["sh", "-c", "pwd; cat; echo no >&2; exit 3"], cwd=tmp_path, environment=dict(os.environ), limit=20)
    assert reply == ProgramAnswer(3, f"{tmp_path}\n", "no\n")


def test_one_that_does_not_answer_is_ended_with_its_children(tmp_path: Path) -> None:
    script = f"sleep 600 & echo $! > {tmp_path}/pid; wait"
    reply = ask(["sh", "-c", script], cwd=tmp_path, environment=dict(os.environ), limit=5)
    assert reply == ProgramAnswer(None, "", "sh did not answer within 5 s")
    wait_until(lambda: not is_alive(pid_in(tmp_path / "pid")), "the sleep is gone")


def test_one_that_is_not_there_is_no_fault(tmp_path: Path) -> None:
    reply = ask(["/no/such/program"], cwd=tmp_path, environment={}, limit=1)
    assert reply == ProgramAnswer(None, "", "/no/such/program: No such file or directory")


def heard(script: str, hear: Callable[[bytes], None], limit: float | None = None) -> tuple[int, bytes, bytes]:
    return run_to_end(["sh", "-c", script], environment=dict(os.environ), said=None, limit=limit, hear=hear)


def test_complaints_are_heard_as_they_come_and_returned_whole(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    said = b""

    def hear(complaints: bytes) -> None:
        nonlocal said
        if complaints and not said:
            pipe.write_text("go on")
        said += complaints

    script = f"echo one >&2; cat {pipe}; head -c 1000000 /dev/zero; echo two >&2; exit 3"
    status, output, complaints = heard(script, hear)
    assert (status, len(output), complaints) == (3, len("go on") + 1_000_000, b"one\ntwo\n")
    assert said == complaints


@pytest.mark.parametrize("says", [True, False])
def test_one_that_is_heard_can_be_ended_with_its_children_whether_it_speaks_or_not(tmp_path: Path, says: bool) -> None:
    def hear(complaints: bytes) -> None:
        if (tmp_path / "pid").exists() and bool(complaints) is says:
            raise KeyboardInterrupt

    speaking = "while sleep 0.01; do echo word >&2; done" if says else "wait"
    with pytest.raises(KeyboardInterrupt):
        heard(f"sleep 600 & echo $! > {tmp_path}/new; mv {tmp_path}/new {tmp_path}/pid; {speaking}", hear)
    wait_until(lambda: not is_alive(pid_in(tmp_path / "pid")), "the sleep is gone")


def test_the_limit_of_one_that_is_heard_is_one_of_silence() -> None:
    speaking = "for number in 1 2 3 4 5 6; do sleep 0.1; echo $number >&2; done"
    assert heard(speaking, lambda _: None, limit=0.5)[0] == 0
    with pytest.raises(OutOfTime):
        heard(f"{speaking}; sleep 600", lambda _: None, limit=0.5)
