"""A hang always ends, within its limit and 15 seconds; what only looks like one does not."""

from __future__ import annotations

import json
import signal
import time
from datetime import datetime
from pathlib import Path

import psutil
import pytest

from tests.support.goals import raw_logs, write_goal
from tests.support.ralph_process import Event, Finished, Ralph, RunningRalph
from tests.support.scripted_agent import (
    ClaudeScript,
    Step,
    hang,
    ignore_signals,
    no_exit_after_result,
    run,
    say,
    scripted_agent,
    spawn,
    summary,
    write,
)
from tests.support.scripted_agent import exit as exit_with
from tests.support.waiting import is_alive, pid_in, wait_until

GRACE = 15.0
"""Seconds beyond its limit in which a hang must be over."""

AFTER_RESULT = 10.0
"""Seconds that an agent has to leave after its result."""

INIT = json.dumps({"type": "system", "subtype": "init", "session_id": "s", "tools": ["StructuredOutput"], "model": "m"})


@pytest.fixture(autouse=True)
def goal(repo: Path) -> Path:
    return write_goal(repo)


def first_a_shell(bin_dir: Path, script: str) -> None:
    """Put a `claude` on the PATH whose first session is this shell script, and whose second one is done."""
    second = scripted_agent(bin_dir / "second", [[summary("DONE")]])
    agent = bin_dir / "claude"
    agent.write_text(f'#!/bin/sh\nif mkdir {bin_dir}/first; then\n{script}\nfi\nexec {second.path} "$@"\n')
    agent.chmod(0o755)


def seconds_of(done: Finished, session: int = 0) -> float:
    """How long a session took, by ralph's own clock."""
    started, ended = done.events_of("iteration_started")[session], done.events_of("session_ended")[session]
    return _moment(ended) - _moment(started)


def _moment(event: Event) -> float:
    return datetime.fromisoformat(event["at"]).timestamp()


def ends_of(done: Finished) -> list[str]:
    return [event["end"] for event in done.events_of("session_ended")]


@pytest.mark.spec("3.9-b", "3.14-f")
@pytest.mark.parametrize(
    ("script", "said"),
    [
        pytest.param("exec sleep 300", "", id="silent from the start"),
        pytest.param(f"echo '{INIT}'\nwhile read -r line; do :; done\nexit 0", f"{INIT}\n", id="waits on stdin"),
        pytest.param("trap '' INT TERM HUP\necho hm\nwhile :; do sleep 1; done", "hm\n", id="silent and deaf"),
    ],
)
def test_an_agent_that_says_nothing_is_ended(ralph: Ralph, repo: Path, bin_dir: Path, script: str, said: str) -> None:
    first_a_shell(bin_dir, f"echo $$ > {bin_dir}/pid\n{script}")

    done = ralph("run", "goal.md", "--json", "--idle-timeout", "4s")

    assert ends_of(done) == ["hung", "done"], done
    assert done.exit_code == 0
    assert seconds_of(done) < 4 + GRACE
    assert "idle_timeout" in done.events_of("session_ended")[0]["reason"]
    assert not is_alive(pid_in(bin_dir / "pid"))
    assert raw_logs(repo)[0].read_text() == said, "the log stays"


def test_silence_after_a_tool_result_is_ended(ralph: Ralph, claude_script: ClaudeScript) -> None:
    claude_script([run("true"), hang()], [summary("DONE")])

    done = ralph("run", "goal.md", "--json", "--idle-timeout", "4s")

    assert (done.exit_code, ends_of(done)) == (0, ["hung", "done"])
    assert seconds_of(done) < 4 + GRACE


def test_silence_after_the_result_is_ended_and_the_result_counts(ralph: Ralph, claude_script: ClaudeScript) -> None:
    agent = claude_script([ignore_signals(), no_exit_after_result(), summary("DONE")])

    done = ralph("run", "goal.md", "--json", "--idle-timeout", "4s")

    assert (done.exit_code, ends_of(done)) == (0, ["done"])
    assert seconds_of(done) < AFTER_RESULT + GRACE
    assert not is_alive(agent.starts[0]["pid"])


@pytest.mark.parametrize(
    ("last", "ends"),
    [
        pytest.param(summary("DONE"), ["done"], id="after a result"),
        pytest.param(exit_with(1), ["crashed", "done"], id="after a crash"),
    ],
)
def test_a_grandchild_that_holds_the_pipe_does_not_hold_ralph(
    tmp_path: Path, ralph: Ralph, claude_script: ClaudeScript, last: Step, ends: list[str]
) -> None:
    claude_script([spawn(tmp_path / "pid", "holds_stdout"), last], [summary("DONE")])

    done = ralph("run", "goal.md", "--json", "--idle-timeout", "20s")

    assert (done.exit_code, ends_of(done)) == (0, ends)
    assert seconds_of(done) < 15, "the agent is gone: its exit counts, not the end of the stream"
    assert not is_alive(pid_in(tmp_path / "pid"))


def test_a_stopped_agent_is_ended(ralph: Ralph, claude_script: ClaudeScript) -> None:
    agent = claude_script([say("here"), hang()], [summary("DONE")])
    with ralph.start("run", "goal.md", "--json", "--idle-timeout", "4s") as running:
        running.wait_for("text")
        (start,) = agent.starts
        psutil.Process(start["pid"]).suspend()

        done = running.wait()

    assert (done.exit_code, ends_of(done)) == (0, ["hung", "done"])
    assert seconds_of(done) < 4 + GRACE
    assert not is_alive(start["pid"])


def test_an_agent_that_talks_for_ever_is_ended_by_the_iteration_timeout(
    ralph: Ralph, claude_script: ClaudeScript
) -> None:
    claude_script([run("true"), *[say("on and on"), run("sleep 0.1")] * 500, summary("never")], [summary("DONE")])

    done = ralph("run", "goal.md", "--json", "--iteration-timeout", "10s", "--idle-timeout", "6s")

    assert (done.exit_code, ends_of(done)) == (0, ["budget", "done"])
    assert done.events_of("session_ended")[0]["reason"] == "iteration_timeout 10s is used up"
    assert 10 < seconds_of(done) < 10 + GRACE


def test_an_agent_that_is_silent_when_its_time_is_up_hangs_and_the_next_is_told_what_it_left(
    ralph: Ralph, claude_script: ClaudeScript
) -> None:
    agent = claude_script([write("half.txt", "half"), ignore_signals(), hang()], [summary("DONE")])

    done = ralph("run", "goal.md", "--json", "--iteration-timeout", "6s")

    assert (done.exit_code, ends_of(done)) == (0, ["hung", "done"])
    assert "iteration_timeout" in done.events_of("session_ended")[0]["reason"]
    told = "An earlier session was interrupted (hung: not finished after 6.0s (iteration_timeout), and silent)"
    assert [told in words for words in agent.heard] == [False, True]


@pytest.mark.parametrize(
    "line",
    [
        pytest.param('{"type":"system","subtype":"status"}', id="lines that mean nothing", marks=pytest.mark.long),
        pytest.param("x" * 4000, id="garbage"),
    ],
)
def test_an_agent_that_floods_its_stdout_is_ended_by_the_iteration_timeout(
    repo: Path, ralph: Ralph, bin_dir: Path, line: str
) -> None:
    first_a_shell(bin_dir, f"echo '{INIT}'\nexec yes '{line}'")

    # One iteration: 2 seconds may be too few for another session on a busy machine; other tests prove that one follows.
    done = ralph("run", "goal.md", "--iteration-timeout", "2s", "--max-iterations", "1", "--quiet")

    events = [json.loads(line) for line in (repo / ".ralph/runs/goal/events.ndjson").read_text().splitlines()]
    done = Finished(done.exit_code, done.stdout, done.stderr, events)
    assert (done.exit_code, ends_of(done)) == (4, ["budget"])
    assert seconds_of(done) < 2 + GRACE
    raw_logs(repo)[0].unlink()  # it is large


def test_a_machine_that_slept_is_no_hang(world: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    claude_script([say("here"), run(f"until test -e {world}/go; do sleep 0.05; done"), summary("DONE")])
    with ralph.start("run", "goal.md", "--json", "--idle-timeout", "6s") as running:
        running.wait_for("tool_start")
        _sleep_with_all_it_started(running, seconds=7)

        # Whoever takes the 7 seconds for silence stops the session well within the next one.
        _pass(1)
        (world / "go").touch()
        done = running.wait()

    assert (done.exit_code, ends_of(done)) == (0, ["done"])


def test_a_hang_after_the_machine_slept_is_still_a_hang(ralph: Ralph, claude_script: ClaudeScript) -> None:
    claude_script([say("here"), hang()], [summary("DONE")])
    with ralph.start("run", "goal.md", "--json", "--idle-timeout", "5s") as running:
        running.wait_for("text")
        _sleep_with_all_it_started(running, seconds=6)
        done = running.wait()

    assert (done.exit_code, ends_of(done)) == (0, ["hung", "done"])
    assert seconds_of(done) < 6 + 5 + GRACE


def _sleep_with_all_it_started(running: RunningRalph, seconds: float) -> None:
    """Suspend ralph and its tree for so long, as a closed lid does."""
    ralph = psutil.Process(running.pid)
    ralph.send_signal(signal.SIGSTOP)  # ralph first: it cannot look while the others fall asleep
    family = [*ralph.children(recursive=True), ralph]
    for process in family:
        process.suspend()
    _pass(seconds)
    for process in family:
        process.resume()


def _pass(seconds: float) -> None:
    """Let time itself pass; it is what the test is about."""
    end = time.monotonic() + seconds
    wait_until(lambda: time.monotonic() >= end, "time to pass")
