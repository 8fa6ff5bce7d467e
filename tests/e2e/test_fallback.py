"""Another agent takes over while the quota of the first is used up; the run's history, limits and figures go on."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support import tools
from tests.support.api_replies import Fail, Say, Stall, text, tool, usage_limit_headers
from tests.support.batches import Batch, Turn, merged_goals, says, shell
from tests.support.git_repos import commits
from tests.support.goals import result, run_directory, state, write_check, write_goal
from tests.support.messages_api import ServeMessages
from tests.support.ralph_process import Ralph
from tests.support.real_claude import claude_env
from tests.support.real_codex import codex_env
from tests.support.responses_api import ServeResponses
from tests.support.scripted_agent import ClaudeScript, Session, api_error, rate_limit, run, summary, write
from tests.support.terminal import RalphInTerminal
from tests.support.waiting import wait_until

LIMIT = "You've hit your session limit · resets 12:48am (UTC)"


def used_up(seconds: float) -> Session:
    return [rate_limit("rejected", int(time.time() + seconds)), api_error(429, LIMIT, "rate_limit")]


@pytest.fixture
def goal(repo: Path) -> Path:
    return write_goal(repo)


def script(world: Path, *sessions: list[Turn]) -> str:
    """A stand-in that plays the session of the iteration."""
    file = world / "stand-in.json"
    file.write_text(json.dumps(sessions))
    return f"ralph-claude:scripted:{file}"


@pytest.mark.usefixtures("goal")
def test_codex_takes_over_from_claude_and_the_run_goes_on(
    ralph: Ralph, repo: Path, bin_dir: Path, world: Path, messages_api: ServeMessages, responses_api: ServeResponses
) -> None:
    for name in ("claude", "codex"):
        (bin_dir / name).symlink_to(tools.find(name))
    write_check(repo)
    answer = repo / "answer.txt"
    resets_at = int(time.time()) + 4 * 3600
    limit = Fail(429, "rate_limit_error", "limit", usage_limit_headers("rejected", resets_at))
    wrote = Say(tool("Write", file_path=str(answer), content="41\n"))
    claude = messages_api([wrote, Say(tool("StructuredOutput", summary="It says 41 by now.")), limit])
    codex = responses_api(
        [
            Say(text('{"summary": "I looked at it."}')),
            Say(tool("exec_command", cmd="echo 42 > answer.txt")),
            Say(text('{"summary": "DONE"}')),
        ]
    )
    home = world / "home"
    env: Mapping[str, str] = {**claude_env(home, claude.url, "oauth"), **codex_env(home, codex.url)}
    env = {**env, "PATH": ralph.env["PATH"], "RALPH_FALLBACK": "codex:fake-model"}
    unlimited = {"RALPH_AGENTS_CODEX_SANDBOX": "danger-full-access", "RALPH_AGENTS_CLAUDE_MAX_RETRIES": "0"}

    done = ralph("run", "goal.md", "--json", "--max-tokens", "900000", env={**env, **unlimited}, timeout=150)

    assert done.exit_code == 0, done
    (changed,) = done.events_of("agent_changed")
    assert (changed["agent"], changed["model"], changed["instead_of"]) == ("codex", "fake-model", "claude")
    assert resets_at <= changed["until"] <= resets_at + 60
    assert not done.events_of("waiting")
    assert done.events_of("run_started")[0]["fallback"] == ["codex:fake-model"]
    assert [event["end"] for event in done.events_of("session_ended")] == ["ok", "usage-limit", "ok", "done"]
    assert [commit.subject for commit in commits(repo)[1:]] == [
        "ralph 1: It says 41 by now",
        "ralph 2: I looked at it",
        "ralph 3: claims DONE",
    ]
    assert any("It says 41 by now." in words for words in codex.ledger.main[0].user_texts), "history goes on"
    assert any("I looked at it." in words for words in codex.ledger.main[1].user_texts)
    found = result(repo)
    assert (found["proven"], found["iterations"]) == (True, 3)
    assert found["tokens"] == claude.ledger.tokens.total + codex.ledger.tokens.total
    (last,) = {event["session_id"] for event in done.events_of("session_started")[3:]}
    assert state(repo, "claude-session.json")["coder_session_id"] == last
    told = json.loads(ralph("log", "--json").stdout)["iterations"]
    assert [(each["agent"], each["sessions"]) for each in told] == [("claude", 1), ("codex", 2), ("codex", 1)]
    assert "(codex, 2 sessions)" in ralph("log").stdout


@pytest.mark.usefixtures("goal")
def test_the_first_agent_works_again_after_its_reset(
    ralph: Ralph, repo: Path, world: Path, claude_script: ClaudeScript
) -> None:
    resets_at = int(time.time()) + 6
    agent = claude_script([rate_limit("rejected", resets_at), api_error(429, LIMIT, "rate_limit")], [summary("DONE")])
    told = "grep -o '\"until\":[0-9]*' .ralph/runs/goal/events.ndjson | tail -1 | cut -d: -f2"
    until_then = shell(f"until=$({told}); while [ $(date +%s) -le $until ]; do sleep 0.1; done")
    env = {"RALPH_FALLBACK": script(world, [until_then, says("I stood in.")]), "RALPH_FALLBACK_AFTER": "1s"}

    done = ralph("run", "goal.md", env={**ralph.env, **env})

    assert done.exit_code == 0, done
    assert "at its usage limit, if that resets in more than 1.0s: ralph-claude:scripted:" in done.stdout
    assert "takes over: claude has reached its usage limit until " in done.stdout
    assert "note       claude (model sonnet) works again: its usage limit has reset\n" in done.stdout
    assert next(commit.body.splitlines()[0] for commit in commits(repo)[1:]) == "I stood in."
    assert "I stood in." in agent.heard[1]
    assert (len(agent.starts), result(repo)["iterations"]) == (2, 2)


@pytest.mark.usefixtures("goal")
def test_a_reset_that_is_near_is_waited_for(ralph: Ralph, world: Path, claude_script: ClaudeScript) -> None:
    agent = claude_script(used_up(300), [summary("DONE")])
    env = {**ralph.env, "RALPH_FALLBACK": script(world, [says("never")])}
    with ralph.start("run", "goal.md", "--json", env=env) as running:
        running.wait_for("waiting")
        assert ralph("wake").exit_code == 0
        done = running.wait()

    assert done.exit_code == 0, done
    assert not done.events_of("agent_changed")
    assert len(agent.starts) == 2


@pytest.mark.usefixtures("goal")
def test_when_all_are_used_up_the_first_reset_is_waited_for(
    ralph: Ralph, world: Path, claude_script: ClaudeScript, messages_api: ServeMessages
) -> None:
    later, sooner = int(time.time()) + 7200, int(time.time()) + 3600
    claude_script([rate_limit("rejected", later), api_error(429, LIMIT, "rate_limit")])
    (world / "bin" / "codex").write_text(
        '#!/bin/sh\necho \'{"type":"thread.started","thread_id":"t"}\'\n'
        f'echo \'{{"type":"turn.failed","error":{{"message":"You have hit your usage limit. try again at '
        f"{time.strftime('%b %-dth, %Y %-I:%M %p', time.gmtime(sooner))}\"}}}}'\nexit 1\n"
    )
    (world / "bin" / "codex").chmod(0o755)
    env = {**ralph.env, "RALPH_FALLBACK": "codex", "TZ": "UTC"}
    with ralph.start("run", "goal.md", "--json", env=env) as running:
        waiting = running.wait_for("waiting")
        running.send(signal.SIGTERM)
        done = running.wait()

    assert [event["agent"] for event in done.events_of("agent_changed")] == ["codex"]
    assert [event["end"] for event in done.events_of("session_ended")] == ["usage-limit", "usage-limit"]
    assert sooner - 60 <= waiting["until"] <= sooner + 60
    assert done.exit_code == 143


@pytest.mark.usefixtures("goal")
def test_the_live_view_names_the_agent_that_stands_in(ralph: Ralph, world: Path, claude_script: ClaudeScript) -> None:
    claude_script(used_up(7200))
    held = shell(f"until [ -e {world}/on ]; do sleep 0.1; done")
    env = {**ralph.env, "RALPH_FALLBACK": script(world, [held, says("DONE")])}
    with RalphInTerminal(["run", "goal.md"], ralph.repo, env) as running:
        running.shows("ralph-claude · iteration 1 of 50")
        words = "takes over: claude has reached its usage limit until "
        wait_until(lambda: words in " ".join(running.text.split()), "the note")
        (world / "on").touch()
        assert running.wait() == 0


@pytest.mark.long
@pytest.mark.usefixtures("goal")
def test_what_a_stand_in_spent_before_a_kill_counts(
    ralph: Ralph, repo: Path, claude_script: ClaudeScript, messages_api: ServeMessages
) -> None:
    claude_script(used_up(7200), [summary("DONE")])
    api = messages_api([Say(tool("Bash", command="true", description="x")), Stall("before_headers")])
    env = {**ralph.env, "RALPH_FALLBACK": "ralph-claude:sonnet"}
    env |= {"ANTHROPIC_API_KEY": "dummy", "ANTHROPIC_BASE_URL": api.url}
    with ralph.start("run", "goal.md", "--json", env=env) as running:
        wait_until(lambda: len(api.ledger) == 2, "the second call")
        running.wait_for("usage")
        running.send(signal.SIGKILL)
        running.wait()
    assert list((run_directory(repo) / "logs" / "ralph-claude").glob("*.ndjson"))

    done = ralph("run", "goal.md", env=env)

    assert done.exit_code == 0, done
    assert "added spend that was not recorded" in done.stdout
    assert result(repo)["tokens"] > api.ledger.entries[0].usage.total


@pytest.mark.parametrize(
    ("value", "exit_code", "words"),
    [
        ("codx", 2, "did you mean codex"),
        ("codex:", 2, "'codex:' has no model after the colon"),
        ("custom", 2, "custom cannot be a fallback"),
        ("ralph-claude,codex", 6, "fallback codex: cannot find the agent: `codex` is not on PATH"),
    ],
)
@pytest.mark.usefixtures("goal")
def test_a_fallback_that_cannot_work_is_refused(
    ralph: Ralph, repo: Path, claude_script: ClaudeScript, value: str, exit_code: int, words: str
) -> None:
    agent = claude_script([summary("DONE")])

    done = ralph("run", "goal.md", env={**ralph.env, "RALPH_FALLBACK": value})

    assert (done.exit_code, done.stdout) == (exit_code, ""), done
    assert words in done.stderr
    assert "\n\nhint: " in done.stderr
    assert (agent.starts, (repo / ".ralph").exists()) == ([], False)


def test_a_goal_with_a_fallback_does_not_wait_in_a_queue(
    batch: Batch, claude_script: ClaudeScript, world: Path
) -> None:
    upstream = batch.upstream()
    for name in ("one", "two"):
        batch.goal(name, [], agent="claude", model="sonnet")
    claude_script(used_up(7200))
    text_of_goal = shell('mkdir -p texts; echo Fine. > "texts/$RALPH_GOAL.txt"')
    env = {**batch.runs.env, "RALPH_FALLBACK": script(world, [text_of_goal, says("DONE")])}

    done = batch.run(batch.root / "goals", "--repo", upstream, "--max", "1", "--max-time", "5m", "--json", env=env)

    assert done.exit_code == 0, done.stdout + done.stderr
    assert sorted(merged_goals(upstream)) == ["one", "two"]
    assert not done.events_of("waiting")
    notes = [event["text"] for event in done.events_of("note")]
    assert any("continues with ralph-claude: claude has reached its usage limit" in note for note in notes), notes


@pytest.mark.usefixtures("goal")
def test_without_the_setting_nobody_stands_in(ralph: Ralph, claude_script: ClaudeScript) -> None:
    claude_script(used_up(7200), [write("a.txt", "a"), run("true"), summary("DONE")])
    assert json.loads(ralph("config", "--json").stdout)["fallback"]["value"] in ([], "none")
    with ralph.start("run", "goal.md", "--json") as running:
        running.wait_for("waiting")
        ralph("wake")
        done = running.wait()
    assert (done.exit_code, done.events_of("agent_changed")) == (0, [])
