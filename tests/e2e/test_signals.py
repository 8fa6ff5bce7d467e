"""Ctrl-C once is soft, twice is now; a terminal, a pipe or a session that goes away is no reason to end badly."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.git_repos import commits, git
from tests.support.goals import raw_events, raw_logs, result, run_directory, write_check, write_goal
from tests.support.ralph_process import Ralph
from tests.support.scripted_agent import (
    ClaudeScript,
    Step,
    api_error,
    bill,
    hang,
    ignore_signals,
    no_exit_after_result,
    rate_limit,
    run,
    say,
    spawn,
    summary,
    write,
)
from tests.support.waiting import is_alive, kill_tree, pid_in, wait_until


@pytest.fixture(autouse=True)
def goal(repo: Path) -> Path:
    return write_goal(repo)


@pytest.mark.spec("3.5-m")
def test_the_first_ctrl_c_is_soft(repo: Path, tmp_path: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    claude_script(
        [summary("one")], [bill(cost=0.5), write("half.txt", "half"), spawn(tmp_path / "pid", "setsid"), hang()]
    )
    with ralph.start("run", "goal.md", "--json") as running:
        wait_until((tmp_path / "pid").exists, "the second session at work")
        began = time.monotonic()
        running.send(signal.SIGINT)
        done = running.wait()

    assert done.exit_code == 130
    assert time.monotonic() - began < 9, "whoever has said goodbye is not waited for"
    last = raw_events(raw_logs(repo)[-1])[-1]
    assert (last["type"], last["subtype"]) == ("result", "error_during_execution"), "the agent could say goodbye"
    assert [event["type"] for event in raw_events(raw_logs(repo)[-1])].count("control_response") == 1
    assert result(repo)["cost_usd"] == pytest.approx(0.01 + 0.5)
    assert [commit.subject for commit in commits(repo)] == ["start", "ralph 1/50: one"], "nothing half is committed"
    assert git(repo, "status", "--porcelain") == "?? goal.md\n?? half.txt"
    assert not is_alive(pid_in(tmp_path / "pid"))
    assert json.loads((run_directory(repo) / "run.json").read_text())["failed"] == 0, "nobody failed"


@pytest.mark.spec("3.5-m")
@pytest.mark.parametrize(
    "steps",
    [
        pytest.param([ignore_signals(), hang()], id="in the middle"),
        pytest.param(
            [ignore_signals(), no_exit_after_result(), summary("a step")], marks=pytest.mark.long, id="after its result"
        ),
    ],
)
def test_the_second_ctrl_c_kills_at_once(
    tmp_path: Path, ralph: Ralph, claude_script: ClaudeScript, steps: list[Step]
) -> None:
    agent = claude_script([spawn(tmp_path / "pid", "ignore_term"), say("deaf"), *steps])
    with ralph.start("run", "goal.md", "--json") as running:
        running.wait_for("usage" if steps[-1] == hang() else "tool_end")
        running.send(signal.SIGINT)
        # The second one must be a second one: a signal that is pending already is not delivered twice.
        wait_until(lambda: not _is_pending(running.pid, signal.SIGINT), "the first to arrive")
        began = time.monotonic()
        running.send(signal.SIGINT)
        done = running.wait()

    assert time.monotonic() - began < 6, "asked but once, it would be killed after seven seconds"
    assert done.exit_code == 130
    assert not is_alive(agent.starts[0]["pid"])
    assert not is_alive(pid_in(tmp_path / "pid"))


def test_a_result_that_was_accepted_before_ctrl_c_is_committed(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    claude_script([write("a.txt", "a"), no_exit_after_result(), summary("one")], [summary("DONE")])
    with ralph.start("run", "goal.md", "--json") as running:
        running.wait_for("tool_end", 2)
        wait_until(lambda: raw_events(raw_logs(repo)[0])[-1]["type"] == "result", "the result")
        running.wait_for("turn_ended")
        running.send(signal.SIGINT)
        done = running.wait()

    assert done.exit_code == 130
    assert commits(repo)[-1].subject == "ralph 1/50: one", "it was paid for, and it is finished"
    assert git(repo, "status", "--porcelain") == "?? goal.md"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_term_and_hup_have_their_codes(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript, number: int, code: int
) -> None:
    agent = claude_script([hang()])
    with ralph.start("run", "goal.md", "--json") as running:
        running.wait_for("session_started")
        running.send(number)
        done = running.wait()

    assert done.exit_code == code
    assert (result(repo)["exit_code"], done.events[-1]["exit_code"]) == (code, code)
    assert not is_alive(agent.starts[0]["pid"])


def test_a_hangup_that_is_ignored_from_the_start_is_left_alone(
    world: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    claude_script([run(f"until test -e {world}/go; do sleep 0.05; done"), summary("DONE")])
    with ralph.start("run", "goal.md", "--json", under=["nohup"]) as running:
        running.wait_for("tool_start")
        running.send(signal.SIGHUP)
        (world / "go").touch()
        done = running.wait()

    assert done.exit_code == 0


@pytest.mark.long
def test_a_signal_before_the_first_session_is_heeded(ralph: Ralph, claude_script: ClaudeScript) -> None:
    agent = claude_script([summary("DONE")])
    with ralph.start("run", "goal.md", "--json") as running:
        running.wait_for("run_started")
        running.send(signal.SIGINT)
        done = running.wait()

    assert done.exit_code in (0, 130), "it may have come too late"
    assert len(agent.starts) <= 1


def test_a_signal_during_the_check(
    repo: Path, world: Path, tmp_path: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    agent = claude_script([summary("DONE")], [summary("never asked")])
    write_check(
        repo,
        f"#!/bin/sh\ntest -e {world}/go && exit 0\n(trap '' INT TERM; sleep 300) &\n"
        f"echo $! > {tmp_path}/pid.new; mv {tmp_path}/pid.new {tmp_path}/pid; wait\n",
    )
    with ralph.start("run", "goal.md", "--json") as running:
        wait_until((tmp_path / "pid").exists, "the check")
        running.send(signal.SIGINT)
        done = running.wait()

    assert done.exit_code == 130
    assert not done.events_of("check_ended"), "an interrupted check says nothing"
    assert not is_alive(pid_in(tmp_path / "pid"))

    (world / "go").touch()
    again = ralph("run", "goal.md", "--json")
    assert (again.exit_code, len(agent.starts)) == (0, 1), "the claim is checked first"
    assert [event["iteration"] for event in again.events_of("check_started")] == [1]
    assert result(repo)["proven"]


def test_a_second_ctrl_c_during_the_check_is_now(
    repo: Path, tmp_path: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    claude_script([summary("DONE")])
    write_check(repo, f"#!/bin/sh\ntrap '' INT TERM HUP\ntouch {tmp_path}/checking\nwhile :; do sleep 0.1; done\n")
    with ralph.start("run", "goal.md", "--json") as running:
        wait_until((tmp_path / "checking").exists, "the check")
        running.send(signal.SIGINT)
        wait_until(lambda: not _is_pending(running.pid, signal.SIGINT), "the first to arrive")
        began = time.monotonic()
        running.send(signal.SIGINT)
        done = running.wait()

    assert time.monotonic() - began < 6, "asked but once, it would be killed after seven seconds"
    assert done.exit_code == 130


def test_a_signal_during_a_wait(ralph: Ralph, claude_script: ClaudeScript) -> None:
    claude_script([rate_limit("rejected", int(time.time()) + 3600), api_error(429, "limit", "rate_limit")])
    with ralph.start("run", "goal.md", "--json") as running:
        running.wait_for("waiting")
        running.send(signal.SIGTERM)
        done = running.wait()

    assert done.exit_code == 143


@pytest.mark.parametrize(
    "flags", [[], ["--json"], pytest.param(["--quiet"], marks=pytest.mark.long)], ids=["plain", "--json", "--quiet"]
)
def test_a_reader_that_closes_the_pipe_does_not_end_the_run(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript, flags: list[str]
) -> None:
    agent = claude_script([say("one"), summary("one")], [say("two"), summary("two")], [summary("DONE")])
    reader, writer = os.pipe()
    with _ralph(ralph, *flags, stdout=writer) as process:
        os.close(writer)
        if not flags:
            os.read(reader, 1)  # as `head -1` does
        os.close(reader)
        assert process.wait(180) == 0
        assert process.stderr is not None
        said = process.stderr.read().decode()

    assert len(agent.starts) == 3
    assert result(repo)["exit_code"] == 0
    assert said == ""


@pytest.mark.long
@pytest.mark.parametrize("flags", [[], ["--json"]], ids=["plain", "--json"])
def test_a_reader_that_does_not_read_keeps_nobody_from_ending_the_run(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript, flags: list[str]
) -> None:
    claude_script([say("a word too many\n" * 20_000), summary("one")], [hang()])
    reader, writer = os.pipe()
    with _ralph(ralph, *flags, stdout=writer) as process:
        wait_until(lambda: b"a word too many" in os.read(reader, 65536), "it has begun to talk")
        wait_until(lambda: not select.select([], [writer], [], 0)[1], "the pipe is full again")
        process.send_signal(signal.SIGTERM)
        assert process.wait(90) == 143
    os.close(writer)
    os.close(reader)
    assert result(repo)["exit_code"] == 143


def test_a_full_device_as_stdout_does_not_end_the_run(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    claude_script([summary("one")], [summary("DONE")])
    with Path("/dev/full").open("wb") as full, _ralph(ralph, stdout=full.fileno()) as process:
        assert process.wait(180) == 0
        assert process.stderr is not None
        assert process.stderr.read() == b""

    assert result(repo)["iterations"] == 2


@pytest.mark.parametrize(
    "closed",
    [">&-", pytest.param("2>&-", marks=pytest.mark.long), pytest.param("<&- >&- 2>&-", marks=pytest.mark.long)],
    ids=["stdout", "stderr", "all"],
)
def test_descriptors_that_are_closed_from_the_start(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript, closed: str
) -> None:
    """Whoever starts ralph so has no eyes for it; and no file of the run may take their numbers."""
    claude_script([write("answer.txt", "42\n"), summary("one")], [summary("DONE")])
    write_check(repo)

    done = ralph("run", "goal.md", under=["sh", "-c", f'exec "$@" {closed}', "sh"])

    assert (done.exit_code, done.stderr) == (0, ""), done
    assert (result(repo)["proven"], result(repo)["iterations"]) == (True, 2)
    assert _events(repo)[-1] == "run_ended"


@pytest.mark.parametrize("stderr", ["/dev/full", pytest.param("&-", marks=pytest.mark.long)])
def test_an_error_that_nobody_can_read_keeps_its_exit_code(ralph: Ralph, stderr: str) -> None:
    refused = ralph("run", "nosuch.md", under=["sh", "-c", f'exec "$@" 2>{stderr}', "sh"])

    assert refused.exit_code == 2


@pytest.mark.parametrize(
    "ignoring", [pytest.param(True, marks=pytest.mark.long), False], ids=["ignoring the hangup", "hung up"]
)
def test_a_terminal_that_goes_away(
    repo: Path, world: Path, ralph: Ralph, claude_script: ClaudeScript, ignoring: bool
) -> None:
    """Writing to a terminal whose other end is closed is an EIO; whoever has it as its own gets a SIGHUP as well."""
    claude_script([say("one"), run(f"until test -e {world}/go; do sleep 0.05; done"), summary("DONE")])
    ours, theirs = os.openpty()
    # A session leader whose controlling terminal goes away is sent the SIGHUP; nohup would write to a file instead.
    under = ["setsid", "--wait", "--ctty", *(["env", "--ignore-signal=HUP"] if ignoring else [])]
    with _ralph(ralph, stdout=theirs, stderr=theirs, stdin=theirs, under=under) as process:
        os.close(theirs)
        wait_until(lambda: "tool_start" in _events(repo), "the session at work")
        os.close(ours)
        if ignoring:
            (world / "go").touch()
        exit_code = process.wait(90)

    if ignoring:
        assert exit_code == 0
        assert result(repo)["exit_code"] == 0
    else:
        wait_until(lambda: result(repo)["exit_code"] == 129, "the run to be written off")
        assert "run_ended" in _events(repo)


def _events(repo: Path) -> list[str]:
    file = run_directory(repo) / "events.ndjson"
    lines = file.read_text().split("\n")[:-1] if file.exists() else []
    return [json.loads(line)["type"] for line in lines]


@contextmanager
def _ralph(
    ralph: Ralph,
    *flags: str,
    stdout: int,
    stderr: int = subprocess.PIPE,
    stdin: int = subprocess.DEVNULL,
    under: list[str] | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """Ralph with streams of the test's own."""
    argv = [*(under or []), sys.executable, "-P", "-m", "ralph", "run", "goal.md", *flags]
    session = not under  # setsid has to be the one to make it
    process = subprocess.Popen(
        argv, cwd=ralph.repo, env=ralph.env, stdin=stdin, stdout=stdout, stderr=stderr, start_new_session=session
    )
    try:
        yield process
    finally:
        kill_tree(process.pid)
        process.wait()
        if process.stderr is not None:
            process.stderr.close()


def _is_pending(pid: int, number: int) -> bool:
    """Say whether the signal was sent and not yet delivered."""
    status = dict(
        line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line
    )
    return any(int(status[name], 16) >> (number - 1) & 1 for name in ("SigPnd", "ShdPnd"))
