"""What a program that starts ralph learns of its end: `result.json`, the last event and the exit code agree."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from tests.support.git_repos import git
from tests.support.goals import result, write_check, write_goal
from tests.support.ralph_process import Ralph
from tests.support.scripted_agent import ClaudeScript, Step, api_error, hang, rate_limit, summary

LATER = int(time.time()) + 24 * 3600  # from when the tests are collected: all of them may take an hour
USED_UP = [rate_limit("rejected", LATER), api_error(429, "You've hit your session limit", "rate_limit")]
ENDS: dict[str, tuple[list[Step], tuple[str, ...], int, str]] = {
    "done": ([summary("DONE")], (), 0, "done"),
    "limit": ([summary("one more")], ("--max-iterations", "1"), 4, "ok"),
    "login": ([api_error(401, "invalid x-api-key", "authentication_failed")], (), 6, "auth"),
    "billing": ([api_error(400, "Credit balance is too low", "billing_error")], (), 6, "billing"),
    "no time to wait for the reset": (USED_UP, ("--duration", "5m"), 4, "usage-limit"),
    "failures": ([api_error(400, "no", "invalid_request")], (), 1, "error"),
}


@pytest.fixture(autouse=True)
def goal(repo: Path) -> Path:
    return write_goal(repo)


@pytest.mark.parametrize(
    "case", [case if case in ("limit", "login") else pytest.param(case, marks=pytest.mark.long) for case in ENDS]
)
def test_the_result_names_the_run_and_how_its_last_session_ended(
    ralph: Ralph, repo: Path, claude_script: ClaudeScript, case: str
) -> None:
    session, flags, exit_code, end = ENDS[case]
    claude_script(session)
    write_check(repo, "#!/bin/sh\nexit 0\n")

    done = ralph("run", "goal.md", "--json", *flags)

    found = result(repo)
    assert (done.exit_code, found["exit_code"], found["end"]) == (exit_code, exit_code, end), done
    assert found["run"] == done.events_of("run_started")[0]["run"]
    assert found["head"] == git(repo, "rev-parse", "HEAD").strip()
    assert done.events[-1]["type"] == "run_ended"
    assert (done.events[-1]["exit_code"], done.events[-1]["reason"]) == (exit_code, found["reason"])


@pytest.mark.parametrize(
    ("session", "number"),
    [
        pytest.param(USED_UP, signal.SIGINT, id="waiting, SIGINT"),
        pytest.param(USED_UP, signal.SIGTERM, marks=pytest.mark.long, id="waiting, SIGTERM"),
        pytest.param(USED_UP, signal.SIGHUP, marks=pytest.mark.long, id="waiting, SIGHUP"),
        pytest.param([hang()], signal.SIGINT, marks=pytest.mark.long, id="at work, SIGINT"),
        pytest.param([hang()], signal.SIGTERM, marks=pytest.mark.long, id="at work, SIGTERM"),
        pytest.param([hang()], signal.SIGHUP, marks=pytest.mark.long, id="at work, SIGHUP"),
    ],
)
def test_a_signal_leaves_a_result_too(
    ralph: Ralph, repo: Path, claude_script: ClaudeScript, session: list[Step], number: int
) -> None:
    claude_script(session)
    with ralph.start("run", "goal.md", "--json") as running:
        if session is USED_UP:
            waiting = running.wait_for("waiting")
            assert waiting["reason"].startswith("usage-limit: ")
            assert LATER <= waiting["until"] <= LATER + 10
        else:
            running.wait_for("session_started")
        running.send(number)
        done = running.wait()

    found = result(repo)
    assert done.exit_code == found["exit_code"] == done.events[-1]["exit_code"] == 128 + number
    assert done.events[-1]["type"] == "run_ended"
    assert found["end"] == done.events_of("session_ended")[-1]["end"]
