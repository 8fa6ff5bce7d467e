"""`ralph run` with the real codex against a scripted model on loopback."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import tools
from tests.support.api_replies import Cut, Fail, Say, text, thinking, tool, usage_limit
from tests.support.git_repos import commits, git
from tests.support.goals import GOAL, result, run_directory, write_check, write_goal
from tests.support.ralph_process import Finished, Ralph
from tests.support.real_codex import MODEL, codex_env
from tests.support.responses_api import ResponsesApi, ServeResponses
from tests.support.waiting import is_alive, pid_in, wait_until

PROMISE = "<promise>COMPLETE</promise>"
CodexRun = Callable[..., Finished]


def summary(words: str) -> Say:
    return Say(json.dumps({"summary": words}))


def shell(command: str) -> Say:
    return Say(thinking("what to do"), text("I do it."), tool("exec_command", cmd=command))


@pytest.fixture
def run_codex(ralph: Ralph, bin_dir: Path, world: Path) -> CodexRun:
    """Run ralph with the real `codex` on its PATH, talking to this server."""
    (bin_dir / "codex").symlink_to(tools.find("codex"))

    def run(api: ResponsesApi, *args: str, sandbox: str = "danger-full-access") -> Finished:
        env = environment(ralph, world, api) | {"RALPH_AGENTS_CODEX_SANDBOX": sandbox}
        return ralph("run", "goal.md", "--json", "--agent", "codex", *args, env=env, timeout=120)

    return run


def environment(ralph: Ralph, world: Path, api: ResponsesApi) -> dict[str, str]:
    return codex_env(world / "home", api.url) | {"PATH": ralph.env["PATH"]}


@pytest.mark.spec("2.1-a", "2.12-a")
def test_a_goal_is_proven_after_a_false_claim_was_refused(
    repo: Path, run_codex: CodexRun, responses_api: ServeResponses
) -> None:
    write_goal(repo)
    write_check(repo)
    child = repo.parent / "child.pid"
    api = responses_api(
        [
            shell(f"echo 41 > answer.txt; (setsid sleep 300 & echo $! > {child})"),
            summary(f"The file is there.\n{PROMISE}"),
            shell("cat answer.txt; exit 3"),
            shell("echo 42 > answer.txt"),
            summary("It said 41; it says 42 now."),
            summary("DONE"),
        ]
    )

    done = run_codex(api)

    assert done.exit_code == 0, done.stdout + done.stderr
    found = result(repo)
    assert (found["proven"], found["iterations"], found["cost_usd"]) == (True, 3, None)
    assert found["tokens"] == api.ledger.tokens.total
    iterations = commits(repo)[1:]
    assert [commit.trailers["Ralph-Verdict"] for commit in iterations] == ["DONE", "CONTINUE", "DONE"]
    assert iterations[0].body.startswith("The file is there.\n")
    assert iterations[1].body.startswith("It said 41; it says 42 now.")
    assert git(repo, "ls-files") == "README.md\nanswer.txt"
    assert [event["exit_code"] for event in done.events_of("check_ended")] == [1, 0]
    assert any("not 42 but: 41" in words for words in api.ledger.main[2].user_texts)
    assert [event["tool"]["status"] for event in done.events_of("tool_end")] == ["ok", "fail", "ok"]
    assert len(list((run_directory(repo) / "logs" / "codex").glob("*.ndjson"))) == 3
    assert not is_alive(pid_in(child))


@pytest.mark.long
def test_the_request_is_as_configured(repo: Path, run_codex: CodexRun, responses_api: ServeResponses) -> None:
    write_goal(repo)
    api = responses_api([summary("DONE")])

    done = run_codex(api, "--model", f"{MODEL}-2", "--reasoning", "high", "--no-check", sandbox="workspace-write")

    assert done.exit_code == 0, done.stdout + done.stderr
    (served,) = api.ledger.main
    assert served.request["model"] == f"{MODEL}-2"
    schema = served.request["text"]["format"]
    assert (schema["type"], schema["strict"]) == ("json_schema", True)
    assert json.loads(served.headers["x-codex-turn-metadata"])["sandbox_mode"] == "workspace-write"
    assert any("Create `answer.txt` with the answer." in words for words in served.user_texts)


@pytest.mark.long
def test_corrections_resume_the_session_and_are_counted_once(
    repo: Path, run_codex: CodexRun, responses_api: ServeResponses
) -> None:
    write_goal(repo)
    api = responses_api([shell("true"), Say("All finished."), Say('{"sumary": 1}'), summary("DONE")])

    done = run_codex(api, "--no-check")

    assert done.exit_code == 0, done.stdout + done.stderr
    assert len(done.events_of("session_started")) == 1
    correction = "Invalid output. Your last message must be one JSON object and nothing else"
    assert any(words.startswith(correction) for words in api.ledger.main[2].user_texts)
    assert sum(words.startswith(correction) for words in api.ledger.main[3].user_texts) == 2, "history is kept"
    assert result(repo)["tokens"] == api.ledger.tokens.total


@pytest.mark.long
def test_a_prompt_that_holds_the_marker_is_no_claim(
    repo: Path, run_codex: CodexRun, responses_api: ServeResponses
) -> None:
    write_goal(repo, f"{GOAL}\n{PROMISE}\n")
    quoting = f"I am to say `{PROMISE}`; the goal says\n```\n{PROMISE}\n```\nbut no."
    api = responses_api([Say(text(quoting), tool("exec_command", cmd=f"echo '{PROMISE}'")), summary("Not yet.")])

    done = run_codex(api, "--no-check", "--max-iterations", "1")

    assert done.exit_code == 4, done.stdout + done.stderr
    assert [event["verdict"] for event in done.events_of("iteration_ended")] == ["CONTINUE"]


@pytest.mark.spec("2.1-j")
@pytest.mark.long
def test_retries_of_codex_itself_and_of_ralph_are_counted_to_the_token(
    repo: Path, run_codex: CodexRun, responses_api: ServeResponses
) -> None:
    """A server error and a cut stream within a session; a session that fails, after which the next one is done."""
    write_goal(repo)
    down = Fail(500, "server_error", "down")
    api = responses_api(
        [
            down,
            shell("true"),
            Cut(),
            summary("One step."),
            shell("true"),
            Fail(400, "invalid_request_error", "bad"),
            summary("DONE"),
        ]
    )

    done = run_codex(api, "--no-check")

    assert done.exit_code == 0, done.stdout + done.stderr
    assert [event["end"] for event in done.events_of("session_ended")] == ["ok", "error", "done"]
    assert result(repo)["tokens"] == api.ledger.tokens.total


@pytest.mark.long
@pytest.mark.parametrize(
    ("reply", "end", "code"),
    [
        (Fail(401, "invalid_request_error", "Incorrect API key provided"), "auth", 6),
        (Fail(404, "invalid_request_error", "The model `x` does not exist", {}), "config", 6),
    ],
)
def test_what_only_the_user_can_mend_blocks(
    repo: Path, run_codex: CodexRun, responses_api: ServeResponses, reply: Fail, end: str, code: int
) -> None:
    write_goal(repo)
    api = responses_api(lambda number, request: reply)

    done = run_codex(api)

    assert done.exit_code == code, done.stdout + done.stderr
    assert done.events_of("session_ended")[-1]["end"] == end


@pytest.mark.long
def test_a_used_up_quota_is_waited_for_until_its_reset(
    repo: Path, run_codex: CodexRun, responses_api: ServeResponses
) -> None:
    write_goal(repo)
    api = responses_api(lambda number, request: usage_limit(4_000_000_000))

    done = run_codex(api, "--duration", "1h")

    assert done.exit_code == 4, done.stdout + done.stderr
    assert done.events_of("session_ended")[0]["end"] == "usage-limit"
    assert abs(done.events_of("rate_limited")[0]["resets_at"] - 4_000_000_000) < 60
    assert result(repo)["reason"] == "limit reached: --duration"


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_what_a_session_used_before_it_was_cut_off_is_counted(
    repo: Path, ralph: Ralph, world: Path, run_codex: CodexRun, responses_api: ServeResponses, number: signal.Signals
) -> None:
    """Its stream never told: the account that codex itself keeps does, at once or, after kill -9, at the next start."""
    write_goal(repo)
    api = responses_api([shell("true"), shell("touch here; exec sleep 60"), summary("DONE")])
    env = environment(ralph, world, api) | {"RALPH_AGENTS_CODEX_SANDBOX": "danger-full-access"}
    with ralph.start("run", "goal.md", "--json", "--agent", "codex", "--no-check", env=env) as cut:
        wait_until((repo / "here").exists, "the command that is cut off", 60)
        cut.send(number)
        cut.wait()

    done = run_codex(api, "--no-check")

    assert done.exit_code == 0, done.stdout + done.stderr
    assert len(api.ledger.main) == 3
    assert result(repo)["tokens"] == api.ledger.tokens.total
