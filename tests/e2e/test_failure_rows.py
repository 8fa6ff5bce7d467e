"""Every row of the failure table that can be provoked, with the real Claude Code; and what a row costs in sessions."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import psutil
import pytest

from tests.support import tools
from tests.support.api_replies import Fail, Reply, Say, Stall, text, tool
from tests.support.git_repos import commits
from tests.support.goals import raw_logs, result, run_directory, write_check, write_goal
from tests.support.messages_api import ServeMessages
from tests.support.ports import free_port
from tests.support.ralph_process import Finished, Ralph
from tests.support.real_claude import claude_env
from tests.support.scripted_agent import ClaudeScript, Step, api_error, hang, kill_self, say, summary, write
from tests.support.scripted_agent import exit as exit_with
from tests.support.waiting import wait_until

DONE = Say(tool("StructuredOutput", summary="DONE"))
TOO_LONG = Fail(400, "invalid_request_error", "prompt is too long: 250000 tokens > 200000 maximum")


@pytest.fixture(autouse=True)
def goal(repo: Path) -> Path:
    return write_goal(repo)


@pytest.fixture
def claude(ralph: Ralph, bin_dir: Path, world: Path) -> Ralph:
    """A ralph whose `claude` is the real one, which does not try again by itself."""
    (bin_dir / "claude").symlink_to(tools.find("claude"))
    configure(ralph, "max_retries = 0\n")
    return Ralph(ralph.repo, {**claude_env(world / "home", "http://127.0.0.1:9"), **ralph.env})


def configure(ralph: Ralph, claude: str) -> None:
    """Give the user's configuration of the agent claude."""
    config = Path(ralph.env["XDG_CONFIG_HOME"]) / "ralph" / "config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(f"[agents.claude]\n{claude}")


def ends_of(done: Finished) -> list[str]:
    return [event["end"] for event in done.events_of("session_ended")]


@pytest.mark.parametrize(
    ("reply", "end", "exit_code"),
    [
        pytest.param(Fail(401, "authentication_error", "invalid bearer token"), "auth", 6, id="401"),
        pytest.param(
            Fail(403, "permission_error", "your key may not use this"), "auth", 6, id="403", marks=pytest.mark.long
        ),
        pytest.param(Fail(429, "rate_limit_error", "too many requests"), "overloaded", 143, id="429"),
        pytest.param(Fail(529, "overloaded_error", "Overloaded"), "overloaded", 143, id="529", marks=pytest.mark.long),
    ],
)
def test_an_api_that_refuses(
    repo: Path, claude: Ralph, messages_api: ServeMessages, reply: Reply, end: str, exit_code: int
) -> None:
    api = messages_api(lambda number, request: reply)

    with claude.start("run", "goal.md", "--json", env={"ANTHROPIC_BASE_URL": api.url}) as running:
        if exit_code == 143:
            assert running.wait_for("waiting", timeout=60)["reason"].startswith("overloaded")
            running.send(signal.SIGTERM)
        done = running.wait()

    assert ends_of(done) == [end], done
    assert done.exit_code == exit_code
    assert len(raw_logs(repo)) == 1
    assert commits(repo)[-1].subject == "start"


def test_nobody_listens(claude: Ralph) -> None:
    nowhere = f"http://127.0.0.1:{free_port()}"
    with claude.start("run", "goal.md", "--json", env={"ANTHROPIC_BASE_URL": nowhere}) as running:
        assert running.wait_for("waiting", timeout=60)["reason"].startswith("network")
        running.send(signal.SIGTERM)
        done = running.wait()

    assert (done.exit_code, ends_of(done)) == (143, ["network"]), done


@pytest.mark.long
def test_a_stream_that_stalls(claude: Ralph, messages_api: ServeMessages) -> None:
    api = messages_api([Stall("mid_stream"), DONE])

    done = claude("run", "goal.md", "--json", "--idle-timeout", "15s", env={"ANTHROPIC_BASE_URL": api.url})

    assert (done.exit_code, ends_of(done)) == (0, ["hung", "done"]), done


def test_a_prompt_that_is_too_long_is_shrunk_once(repo: Path, claude: Ralph, messages_api: ServeMessages) -> None:
    api = messages_api(lambda number, request: TOO_LONG)

    done = claude("run", "goal.md", "--json", "--max-iterations", "1", env={"ANTHROPIC_BASE_URL": api.url})

    assert (done.exit_code, ends_of(done)) == (4, ["too-long", "too-long"]), done
    assert result(repo)["reason"] == "limit reached: --max-iterations"
    assert commits(repo)[-1].subject == "start"


@pytest.mark.spec("3.5-f")
def test_turns_that_run_out(repo: Path, claude: Ralph, messages_api: ServeMessages) -> None:
    configure(claude, 'max_retries = 0\nextra_args = ["--max-turns", "1"]\n')
    look = Say(text("Let me look."), tool("Bash", command="true", description="look"))
    api = messages_api(lambda number, request: look)

    done = claude("run", "goal.md", "--json", "--max-iterations", "1", env={"ANTHROPIC_BASE_URL": api.url})

    assert (done.exit_code, ends_of(done)) == (4, ["budget"]), done
    assert result(repo)["tokens"] == api.ledger.tokens.total, "a failure is paid for, too"


@pytest.mark.long
def test_a_killed_claude_is_tried_again_at_once(repo: Path, claude: Ralph, messages_api: ServeMessages) -> None:
    api = messages_api([Stall("mid_stream"), DONE])
    with claude.start("run", "goal.md", "--json", env={"ANTHROPIC_BASE_URL": api.url}) as running:
        wait_until(lambda: api.ledger.main, "claude to ask the model")
        binary = tools.find("claude").resolve()
        family = psutil.Process(running.pid).children(recursive=True)
        (agent,) = [child for child in family if Path(child.exe()) == binary]
        agent.kill()
        done = running.wait()

    assert (done.exit_code, ends_of(done)) == (0, ["crashed", "done"]), done
    assert "signal 9" in done.events_of("session_ended")[0]["reason"]
    assert done.events_of("session_ended")[0]["log"] == str(raw_logs(repo)[0])


@pytest.mark.spec("3.9-i")
@pytest.mark.parametrize(
    ("step", "end"),
    [
        pytest.param(kill_self(signal.SIGSEGV), "crashed", id="is killed"),
        pytest.param(exit_with(0), "no-result", id="leaves without a result"),
    ],
)
def test_an_agent_that_always_fails_is_tried_six_times(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript, step: Step, end: str
) -> None:
    agent = claude_script([say("so far"), step])

    done = ralph("run", "goal.md", "--json")

    assert done.exit_code == 1
    assert ends_of(done) == [end] * 6, "three failures, each after one retry"
    assert len(agent.starts) == 6
    assert [event["iteration"] for event in done.events_of("iteration_started")] == [1] * 6
    assert result(repo)["exit_code"] == 1
    assert commits(repo)[-1].subject == "start"


def test_an_agent_that_hangs_is_tried_again_once(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    claude_script([hang()])

    done = ralph("run", "goal.md", "--json", "--idle-timeout", "4s", "--max-iterations", "1")

    assert (done.exit_code, ends_of(done)) == (4, ["hung", "hung"])
    assert json.loads((run_directory(repo) / "run.json").read_text())["failed"] == 1


def test_an_overloaded_api_is_tried_again_after_a_while(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    claude_script([api_error(529, "Overloaded")], [summary("DONE")])

    done = ralph("run", "goal.md", "--json")

    assert (done.exit_code, ends_of(done)) == (0, ["overloaded", "done"]), done
    (waiting,) = done.events_of("waiting")
    assert waiting["reason"].startswith("overloaded")
    assert waiting["end"] == "overloaded"
    assert result(repo)["iterations"] == 1


def test_a_blocked_run_keeps_what_it_has_to_tell_its_next_session(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    write_check(repo)
    claude_script([write(".ralph/check", "#!/bin/sh\n"), api_error(401, "Not logged in", "authentication_failed")])
    assert ralph("run", "goal.md").exit_code == 6
    inherited, note = json.loads((run_directory(repo) / "run.json").read_text())["notes"]
    assert "before the first session" in inherited
    assert ".ralph/check" in note
