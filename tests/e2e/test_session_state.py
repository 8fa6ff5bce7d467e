"""What ralph keeps of sessions: ids, turns, folder and forks; and a system prompt that replaces the agent's own."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.support import tools
from tests.support.api_replies import Say, tool
from tests.support.git_repos import commits, git
from tests.support.goals import raw_events, raw_logs, result, state, write_goal
from tests.support.messages_api import MessagesApi, ServeMessages
from tests.support.ralph_process import Finished, Ralph
from tests.support.real_claude import claude_env
from tests.support.real_codex import codex_env
from tests.support.responses_api import ServeResponses

DONE = Say(tool("StructuredOutput", summary="DONE"))
OWN_PROMPT = {"claude": "not an exhaustive survey", "ralph-claude": "You are a coding agent."}
"""Words of the agents' own system prompts."""


@pytest.fixture(autouse=True)
def goal(repo: Path) -> Path:
    return write_goal(repo)


def put_on_path(bin_dir: Path, name: str, before: str = "") -> None:
    """Start the real agent through a script, which may change what it is told."""
    (bin_dir / name).write_text(f'#!/bin/sh\n{before}\nexec {tools.find(name)} "$@"\n')
    (bin_dir / name).chmod(0o755)


def run_claude(ralph: Ralph, world: Path, api: MessagesApi, *args: str, **env: str) -> Finished:
    return ralph(*args, env={**claude_env(world / "home", api.url), "PATH": ralph.env["PATH"], **env}, timeout=120)


@pytest.mark.spec("3.3-l", "3.4-g")
def test_the_ids_of_all_modes_are_shown_and_turns_are_told(
    ralph: Ralph, repo: Path, bin_dir: Path, world: Path, messages_api: ServeMessages
) -> None:
    put_on_path(bin_dir, "claude")
    look = Say(tool("Read", file_path=str(repo / "README.md")))
    api = messages_api([Say(tool("StructuredOutput", summary="# The map")), look, DONE])

    understood = run_claude(ralph, world, api, "understand", "--json")
    assert understood.exit_code == 0, understood
    (scout,) = understood.events_of("session_started")
    shown = state(repo, "claude-session.json")
    assert (shown["planner_session_id"], shown["coder_session_id"]) == (None, None)
    assert shown["scout_session_id"] == scout["session_id"]
    assert git(repo, "status", "--porcelain") == "?? .ralph/\n?? goal.md"
    assert git(repo, "status", "--porcelain", "--untracked-files=all", ".ralph").endswith("codebase-map.md")

    done = run_claude(ralph, world, api, "run", "goal.md", "--json", "--allow-dirty")

    assert done.exit_code == 0, done
    (worker,) = done.events_of("session_started")
    assert (worker["cwd"], worker["forked_from"]) == (str(repo.resolve()), "")
    shown = state(repo, "claude-session.json")
    assert (shown["coder_session_id"], shown["scout_session_id"]) == (worker["session_id"], scout["session_id"])
    (said,) = [each for each in raw_events(raw_logs(repo)[-1]) if each["type"] == "result"]
    (told,) = json.loads(ralph("log", "--json").stdout)["iterations"]
    assert (told["num_turns"], told["duration_ms"]) == (said["num_turns"], said["duration_ms"])
    assert told["num_turns"] > 1
    assert f" {told['num_turns']} (" in ralph("log").stdout


def test_what_is_no_id_is_not_shown_again(
    ralph: Ralph, repo: Path, bin_dir: Path, world: Path, messages_api: ServeMessages
) -> None:
    """Anybody can write the file: it is a window, and what stands there decides nothing."""
    put_on_path(bin_dir, "claude")
    (repo / ".ralph" / "state").mkdir(parents=True)
    written = {"planner_session_id": "plan-1", "scout_session_id": "\x1b[31mred", "more": [1]}
    (repo / ".ralph" / "state" / "claude-session.json").write_text(json.dumps(written))

    assert run_claude(ralph, world, messages_api([DONE]), "run", "goal.md").exit_code == 0

    shown = state(repo, "claude-session.json")
    assert (shown["planner_session_id"], shown["scout_session_id"], "more" in shown) == ("plan-1", None, False)


@pytest.mark.spec("3.8-f", "3.14-e")
def test_another_session_than_the_one_asked_for_is_a_fork(
    ralph: Ralph, repo: Path, bin_dir: Path, world: Path, messages_api: ServeMessages
) -> None:
    other = "11111111-2222-4333-8444-555555555555"
    swap = f'for word; do shift; [ "$before" != --session-id ] || word={other}; set -- "$@" "$word"; before=$word; done'
    put_on_path(bin_dir, "claude", swap)

    done = run_claude(ralph, world, messages_api([DONE]), "run", "goal.md", "--json")

    assert done.exit_code == 0, done
    (started,) = done.events_of("session_started")
    asked = done.events_of("iteration_started")[0]["session_id"]
    assert (started["session_id"], started["forked_from"]) == (other, asked)
    assert state(repo, "claude-session.json")["coder_session_id"] == other
    words = ralph("status", "--json").stdout + (repo / ".ralph/runs/goal/events.ndjson").read_text()
    assert asked in words


@pytest.mark.long
def test_a_thread_of_codex_that_is_not_resumed_is_a_fork(
    ralph: Ralph, bin_dir: Path, world: Path, responses_api: ServeResponses
) -> None:
    drop = 'case "$word" in resume) skip=1;; *) [ -n "$skip" ] || set -- "$@" "$word"; skip=;; esac'
    put_on_path(bin_dir, "codex", f"for word; do shift; {drop}; done")
    api = responses_api([Say("All finished."), Say('{"summary": "DONE"}')])
    env = codex_env(world / "home", api.url) | {"PATH": ralph.env["PATH"]}

    done = ralph("run", "goal.md", "--agent", "codex", env=env, timeout=120)

    assert done.exit_code == 0, done
    assert "the agent forked the session: ralph asked for" in done.stdout


@pytest.mark.spec("3.3-c")
def test_an_agent_that_works_elsewhere_is_stopped(
    ralph: Ralph, repo: Path, bin_dir: Path, world: Path, messages_api: ServeMessages
) -> None:
    elsewhere = world / "elsewhere"
    elsewhere.mkdir()
    put_on_path(bin_dir, "claude", f"[ $# -eq 1 ] || cd {elsewhere}")
    api = messages_api([Say(tool("Write", file_path=str(elsewhere / "a.txt"), content="a")), DONE])

    done = run_claude(ralph, world, api, "run", "goal.md", "--json")

    assert done.exit_code == 6, done
    assert [event["end"] for event in done.events_of("session_ended")] == ["config"]
    found = result(repo)
    reason = f"blocked: config: the agent works in {elsewhere.resolve()}, not in this repository"
    assert (found["reason"], found["ending"]) == (reason, "session")
    assert found["hint"] == "check which program and arguments ralph uses: ralph config"
    assert len(commits(repo)) == 1


def test_a_repository_behind_a_link_is_no_other_folder(
    ralph: Ralph, repo: Path, bin_dir: Path, world: Path, messages_api: ServeMessages
) -> None:
    put_on_path(bin_dir, "claude")
    (world / "link").symlink_to(repo)
    linked = Ralph(world / "link", ralph.env)

    assert run_claude(linked, world, messages_api([DONE]), "run", "goal.md").exit_code == 0


@pytest.mark.spec("3.2-c", "3.5-b", "3.15-e")
@pytest.mark.parametrize("agent", ["claude", pytest.param("ralph-claude", marks=pytest.mark.long)])
@pytest.mark.parametrize("how", ["append", "replace"])
def test_a_system_prompt_is_added_or_replaces_the_agents_own(
    ralph: Ralph, repo: Path, bin_dir: Path, world: Path, messages_api: ServeMessages, agent: str, how: str
) -> None:
    ours = Path(sys.executable).with_name("ralph-claude")
    (bin_dir / "claude").symlink_to(ours if agent == "ralph-claude" else tools.find("claude"))
    (repo / ".ralph").mkdir()
    (repo / ".ralph" / "manners.md").write_text("You are a very quiet penguin.")
    (repo / ".ralph" / "config.toml").write_text(
        f'[modes.worker]\nsystem_prompt_file = ".ralph/manners.md"\nsystem_prompt = "{how}"\n'
    )
    (repo / "CLAUDE.md").write_text("Mind the rules.")
    api = messages_api([DONE])

    done = run_claude(ralph, world, api, "run", "goal.md", "--allow-dirty")

    assert done.exit_code == 0, done
    request = api.ledger.main[0].request
    system = json.dumps(request["system"])
    assert system.count("a very quiet penguin") == 1
    assert (OWN_PROMPT[agent] in system) == (how == "append")
    assert json.dumps(request).count("Mind the rules.") == 1


def test_a_replacement_that_is_missing_or_misspelt_is_refused(ralph: Ralph, repo: Path, bin_dir: Path) -> None:
    put_on_path(bin_dir, "claude")

    def refused(**env: str) -> str:
        done = ralph("run", "goal.md", env={**ralph.env, **env})
        assert (done.exit_code, done.stdout) == (2, ""), done
        assert not (repo / ".ralph").exists()
        return done.stderr

    without = refused(RALPH_MODES_WORKER_SYSTEM_PROMPT="replace")
    assert "modes.worker.system_prompt = replace: there is no system prompt to use instead" in without
    assert "hint: name a file with one: ralph config set modes.worker.system_prompt_file PATH" in without
    assert "'relpace' is not one of append, replace" in refused(RALPH_MODES_WORKER_SYSTEM_PROMPT="relpace")
