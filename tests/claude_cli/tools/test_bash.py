"""Bash with real shells. The wordings were measured on Claude Code 2.1.325."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from ralph.claude_cli.desk import Desk
from tests.claude_cli.conftest import Use
from tests.support.waiting import PATIENCE, comes_true, is_alive, pid_in


def test_output_of_both_streams_comes_in_order(use: Use) -> None:
    ran = use("Bash", command="echo out; echo err >&2; echo out")
    assert (ran.content, ran.is_error) == ("out\nerr\nout", False)
    assert ran.detail == {
        "stdout": "out\nerr\nout",
        "stderr": "",
        "interrupted": False,
        "isImage": False,
        "noOutputExpected": False,
    }


def test_a_failure_says_its_code_first(use: Use) -> None:
    ran = use("Bash", command="echo out; echo err >&2; exit 3")
    assert (ran.content, ran.is_error) == ("Exit code 3\nout\nerr", True)
    assert ran.detail == "Error: Exit code 3\nout\nerr"
    assert use("Bash", command="false").content == "Exit code 1"
    missing = use("Bash", command="nosuchcmd").content
    assert missing == "Exit code 127\n/bin/bash: line 1: nosuchcmd: command not found"
    assert use("Bash", command="echo 'unclosed").content.startswith("Exit code 2\n/bin/bash: eval: line 1: ")


@pytest.mark.parametrize(
    ("command", "said", "silent"),
    [
        ("true", "(Bash completed with no output)", False),
        ("mkdir sub; cd sub", "(Bash completed with no output)", True),
        ("printf '\\n\\n  x \\n\\n'", "  x", False),
        ("cat", "(Bash completed with no output)", False),
        ("", "(Bash completed with no output)", False),
        ("cat <<E\nhi\nE\necho 'it'\"'\"'s' # no more", "hi\nit's", False),
        ("printf '\\xff\\x00'", "\ufffd\0", False),
    ],
)
def test_what_is_said_of_a_success(use: Use, command: str, said: str, silent: bool) -> None:
    ran = use("Bash", command=command)
    assert (ran.content, ran.is_error) == (said, False)
    assert isinstance(ran.detail, dict)
    assert ran.detail["noOutputExpected"] is silent


@pytest.mark.parametrize(
    ("command", "means"),
    [
        ("echo x | grep y", "No matches found"),
        ("true && test 1 = 2", "Condition is false"),
        ("echo a > a; echo b > b; diff a b", "Files differ"),
    ],
)
def test_an_exit_code_that_is_an_answer_is_no_failure(use: Use, command: str, means: str) -> None:
    ran = use("Bash", command=command)
    assert not ran.is_error
    assert isinstance(ran.detail, dict)
    assert ran.detail["returnCodeInterpretation"] == means


def test_the_directory_carries_over_but_only_inside(use: Use, here: Path, desk: Desk) -> None:
    use("Bash", command="mkdir sub; cd sub; export A=1")
    assert use("Bash", command="pwd; echo A=$A").content == f"{here}/sub\nA="
    (here / "sub" / "x.txt").write_text("x")
    assert use("Read", file_path="x.txt").content == "1\tx"
    left = use("Bash", command="cd /tmp && pwd")
    assert left.content == f"/tmp\nShell cwd was reset to {here}"
    assert isinstance(left.detail, dict)
    assert left.detail["stderr"] == f"\nShell cwd was reset to {here}"
    use("Bash", command="cd sub && false")
    assert desk.cwd == here
    use("Bash", command="cd sub")
    (here / "sub" / "x.txt").unlink()
    (here / "sub").rmdir()
    assert use("Bash", command="pwd").content == str(here)


def test_a_command_out_of_time_is_ended_with_all_it_started(use: Use, here: Path) -> None:
    pid = here / "pid"
    command = f"echo hi; setsid sh -c 'echo $$ > {pid}; while :; do sleep 1; done' & while :; do sleep 1; done"
    ran = use("Bash", command=command, timeout=5200)
    assert (ran.content, ran.is_error) == ("Exit code 143\nCommand timed out after 5s\nhi", True)
    assert not is_alive(pid_in(pid))


def test_the_usual_time_is_the_environments(use: Use, desk: Desk) -> None:
    desk.environment = {**desk.environment, "BASH_DEFAULT_TIMEOUT_MS": "1000", "BASH_MAX_TIMEOUT_MS": "1500"}
    assert "timed out after 1s" in use("Bash", command="while :; do sleep 1; done").content
    assert "timed out after 1s" in use("Bash", command="while :; do sleep 1; done", timeout=60000).content


def test_what_is_left_in_the_background_does_not_hold_the_call_and_is_ended(use: Use, here: Path) -> None:
    pid = here / "pid"
    started = time.monotonic()
    left = f"(echo $BASHPID > {pid}; while :; do sleep 1; done) & until [ -s {pid} ]; do sleep 0.05; done; echo started"
    ran = use("Bash", command=left)
    assert ran.content == "started"
    assert time.monotonic() - started < 60
    assert not is_alive(pid_in(pid))


def test_an_interrupt_ends_the_command(use: Use, desk: Desk, here: Path) -> None:
    pid = here / "pid"

    def stop() -> None:
        comes_true(lambda: pid.exists() and pid.read_text(), PATIENCE)
        desk.stop.set()

    stopper = threading.Thread(target=stop)
    stopper.start()
    ran = use("Bash", command=f"echo $$ > {pid}; while :; do sleep 1; done")
    stopper.join()
    assert (ran.is_error, ran.detail) == (True, "User rejected tool use")
    assert ran.content.startswith("The user doesn't want to proceed with this tool use. The tool use was rejected ")
    assert not is_alive(pid_in(pid))


def test_long_output_is_kept_whole_in_a_file(use: Use, desk: Desk) -> None:
    ran = use("Bash", command="seq 1 20000")
    assert isinstance(ran.detail, dict)
    place = Path(str(ran.detail["persistedOutputPath"]))
    assert place.parent == desk.scratch
    assert place.read_text() == "".join(f"{number}\n" for number in range(1, 20001))
    assert ran.detail["persistedOutputSize"] == 108894
    assert len(str(ran.detail["stdout"])) == 30000
    assert ran.content.startswith(
        f"<persisted-output>\nOutput too large (106.3KB). Full output saved to: {place}\n\nPreview (first 2KB):\n1\n2\n"
    )
    assert ran.content.endswith("\n526\n527\n...\n</persisted-output>")
    assert not use("Read", file_path=str(place), limit=1).is_error
    assert use("Bash", command="head -c 30000 /dev/zero | tr '\\0' x").content == "x" * 30000
    assert [kept.name for kept in desk.scratch.iterdir()] == [place.name]


def test_a_long_failure_keeps_both_ends(use: Use) -> None:
    ran = use("Bash", command="seq 1 9000 | tr '\\n' x; exit 2")
    assert ran.content.startswith("Exit code 2\n1x2x")
    assert "\n\n... [20012 characters truncated] ...\n\n" in ran.content
    assert len(ran.content) == 10040


def test_the_command_knows_where_it_runs(use: Use, desk: Desk) -> None:
    assert use("Bash", command="echo $CLAUDECODE $GIT_EDITOR $HOME").content == f"1 true {desk.environment['HOME']}"
