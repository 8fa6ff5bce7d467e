"""`ralph pipe`: stages with prompts, tools and limits of their own, one commit each, by each real agent."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.support import any_agent, tools
from tests.support.any_agent import any_agent as make_agent
from tests.support.api_replies import Say, tool
from tests.support.git_repos import commits, git
from tests.support.messages_api import ServeMessages
from tests.support.ralph_process import Finished, Ralph
from tests.support.real_claude import claude_env
from tests.support.real_codex import codex_env
from tests.support.responses_api import ServeResponses
from tests.support.scripted_agent import ClaudeScript, bill, run, say, summary, write
from tests.support.scripted_agent import exit as exit_with

FOUND, FIXED, TOLD = "Found: the answer is missing.", "Wrote the answer.", "One file was added."


def stage(repo: Path, name: str, task: str, **keys: object) -> str:
    head = "".join(f"{key}: {value}\n" for key, value in keys.items())
    (repo / f"{name}.md").write_text(f"---\n{head}---\n{task}\n" if head else f"{task}\n")
    return f"{name}.md"


def refused(done: Finished, message: str) -> None:
    assert (done.exit_code, done.stdout) == (2, ""), done
    assert done.stderr.startswith(f"error: {message}"), done.stderr
    assert "\n\nhint: " in done.stderr


@pytest.mark.spec("4.4-d")
@pytest.mark.parametrize("agent", ["claude", "codex", "ralph-claude"])
def test_each_stage_knows_the_conversation_before_it_and_ends_with_a_commit(
    agent: str,
    ralph: Ralph,
    repo: Path,
    bin_dir: Path,
    world: Path,
    messages_api: ServeMessages,
    responses_api: ServeResponses,
) -> None:
    ours = Path(sys.executable).with_name("ralph-claude")
    (bin_dir / agent).symlink_to(ours if agent == "ralph-claude" else tools.find(agent))
    work = "echo 42 > answer.txt"
    if agent == "codex":
        answers = [json.dumps({"summary": each}) for each in (FOUND, FIXED, TOLD)]
        api = responses_api([Say(each) for each in (answers[0], tool("exec_command", cmd=work), *answers[1:])])
        env = codex_env(world / "home", api.url)
        modes = [{"sandbox": "read-only"}, {"sandbox": "danger-full-access"}, {}]
    else:
        found, fixed, told = (tool("StructuredOutput", summary=each) for each in (FOUND, FIXED, TOLD))
        writes = tool("Write", file_path=f"{repo}/answer.txt", content="42\n")
        api = messages_api([Say(each) for each in (found, writes, fixed, told)])
        env = claude_env(world / "home", api.url)
        env |= {"ANTHROPIC_API_KEY": "dummy", "ANTHROPIC_AUTH_TOKEN": ""} if agent == "ralph-claude" else {}
        modes = [{"permission_mode": "plan"}, {"permission_mode": "acceptEdits", "model": "opus"}, {"tools": "Read"}]
    env |= {"PATH": ralph.env["PATH"], "RALPH_DIR": ralph.env["RALPH_DIR"]}
    tasks = ("Find what is missing.", "Mend what was found.", "Say what was changed.")
    files = [stage(repo, name, task, agent=agent, **keys) for name, task, keys in zip("abc", tasks, modes, strict=True)]

    done = ralph("pipe", *files, "--json", env=env, timeout=120)

    assert done.exit_code == 0, done.stdout + done.stderr
    assert [event["summary"] for event in done.events_of("iteration_ended")] == [FOUND, FIXED, TOLD]
    made = commits(repo)[1:]
    subjects = [f"ralph {number}/3: {said[:-1]}" for number, said in enumerate((FOUND, FIXED, TOLD), 1)]
    assert [commit.subject for commit in made] == subjects
    assert [commit.trailers["Ralph-Stage"] for commit in made] == ["1/3 a", "2/3 b", "3/3 c"]
    assert git(repo, "show", "--name-only", "--format=", made[1].sha) == "answer.txt"
    assert git(repo, "ls-files") == "README.md\nanswer.txt", "the stages themselves stay the user's"
    requests = [json.dumps(asked.request) for asked in api.ledger.main]
    assert all(each in requests[-1] for each in (*tasks, FOUND, FIXED))
    assert tasks[1] not in requests[0]
    if agent == "codex":
        assert "sandbox_mode` is `read-only`" in requests[0]
        assert ["sandbox_mode` is `danger-full-access`" in each for each in requests[:2]] == [False, True]
    else:
        started = done.events_of("session_started")
        assert [event["permission_mode"] for event in started][:2] == ["plan", "acceptEdits"]
        assert [sorted(event["tools"]) for event in started][2] == ["Read", "StructuredOutput"]
        models = [asked.request["model"] for asked in api.ledger.main]
        assert ["opus" in model for model in models] == [False, True, True, False]
    assert made[-1].trailers["Ralph-Tokens"] == str(api.ledger.tokens.total)


def test_it_stops_at_the_first_stage_that_fails(ralph: Ralph, repo: Path, claude_script: ClaudeScript) -> None:
    agent = claude_script([write("a.txt", "a"), summary(FOUND)], [write("b.txt", "b"), exit_with(3)])
    files = [stage(repo, name, f"Task {name}.") for name in "abc"]

    done = ralph("pipe", *files)

    assert done.exit_code == 1
    assert done.stderr.startswith("error: stage 2 (b.md) failed: the stage failed: crashed: the agent exited with 3")
    assert "result     1 of 3 stages done" in done.stdout
    assert [commit.subject for commit in commits(repo)[1:]] == [f"ralph 1/3: {FOUND[:-1]}"]
    assert len(agent.starts) == 3, "the second one was tried twice"
    assert (repo / "b.txt").exists(), "what it left is there to be looked at"

    claude_script([summary("BLOCKED: which database?")])
    _, command = done.stderr.rsplit("hint: fix it, then run the remaining stages: ralph ", 1)
    done = ralph(*command.split())
    assert done.exit_code == 6
    assert done.stderr.startswith("error: stage 1 (b.md) failed: which database?")
    assert "hint: fix it, then run the remaining stages: ralph pipe b.md c.md --allow-dirty" in done.stderr


def test_limits_hold_for_a_stage_and_for_all(ralph: Ralph, repo: Path, claude_script: ClaudeScript) -> None:
    # On resume claude tells what the whole conversation has used (2.1.325).
    agent = claude_script([bill(1.0), summary(FOUND)], [bill(2.0), summary(FIXED)], [bill(3.0), summary(TOLD)])
    files = [stage(repo, name, f"Task {name}.") for name in "abc"]
    done = ralph("pipe", *files, "--max-cost", "2")
    assert done.exit_code == 4, done
    assert "limit reached: --max-cost" in done.stderr
    assert len(commits(repo)) == 3
    assert commits(repo)[-1].trailers["Ralph-Cost-USD"] == "2.0"
    first, second = (start["argv"] for start in agent.starts)
    assert [argv[argv.index("--max-budget-usd") + 1] for argv in (first, second)] == ["2.000000", "2.000000"]
    for name in "ab":
        stage(repo, name, "Task.", max_cost=1)
    agent = claude_script([bill(0.25), summary(FOUND)], [bill(0.5), summary(FIXED)])
    assert ralph("pipe", "a.md", "b.md", "--allow-dirty").exit_code == 0
    first, second = (start["argv"] for start in agent.starts)
    assert [argv[argv.index("--max-budget-usd") + 1] for argv in (first, second)] == ["1.000000", "1.250000"]


def test_another_agent_is_told_what_was_said(
    ralph: Ralph, repo: Path, claude_script: ClaudeScript, bin_dir: Path
) -> None:
    claude_script([say("I look around."), run("echo seen"), summary(FOUND)])
    codex = make_agent(bin_dir / "agents", "codex", [any_agent.say(json.dumps({"summary": FIXED}))])
    files = [stage(repo, "a", "Look."), stage(repo, "b", "Mend.", agent="codex", title="The mending")]
    done = ralph("pipe", *files, env={"RALPH_AGENTS_CODEX_PATH": str(codex.path)})
    assert done.exit_code == 0, done
    (told,) = codex.heard
    for words in ("I look around.", "echo seen", FOUND, "Look.", 'stage 2 of 2, "The mending"'):
        assert words in told


def test_what_a_stage_does_to_git_and_to_the_check_is_undone(
    ralph: Ralph, repo: Path, claude_script: ClaudeScript
) -> None:
    (repo / ".ralph").mkdir()
    (repo / ".ralph" / "check").write_text("#!/bin/sh\n")
    claude_script([run("git checkout -q -b elsewhere; echo exit 0 > .ralph/check; echo x > x"), summary(FOUND)])
    done = ralph("pipe", stage(repo, "a", "Task."))
    assert done.exit_code == 0, done
    assert git(repo, "branch", "--show-current") == "main"
    assert (repo / ".ralph" / "check").read_text() == "#!/bin/sh\n"
    assert git(repo, "show", "--name-only", "--format=", "main") == "x"


def test_bad_stages_are_refused_before_anything_is_started(
    ralph: Ralph, repo: Path, claude_script: ClaudeScript
) -> None:
    agent = claude_script([summary(FOUND)])
    good = stage(repo, "good", "Task.")
    refused(ralph("pipe", good, "missing.md"), "cannot read missing.md: no such file")
    refused(ralph("pipe", good, "."), "cannot read .: it is a directory")
    refused(ralph("pipe", good, stage(repo, "empty", "", model="opus")), "empty.md: the stage has no task")
    refused(ralph("pipe", good, stage(repo, "typo", "x", modle="opus")), "typo.md: front matter: unknown key `modle`")
    refused(ralph("pipe", good, stage(repo, "mode", "x", permission_mode="all")), "invalid settings:\n  mode.md:")
    refused(ralph("pipe", good, "--quiet", "--verbose"), "--quiet and --verbose")
    for file in repo.glob("*.md"):
        if file.name not in ("README.md", "good.md"):
            file.unlink()
    (repo / "junk").touch()
    refused(ralph("pipe", good), "the working tree has uncommitted changes: junk")
    assert not agent.starts
    assert len(commits(repo)) == 1
