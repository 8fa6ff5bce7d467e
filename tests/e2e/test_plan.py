"""`ralph plan`: an idea becomes a goal, with questions asked and answered in a real terminal, by each real agent."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ralph.core.goal import parse_goal
from ralph.core.plan import Draft, Flaw, Questions, read_plan
from tests.support import tools
from tests.support.api_replies import Say, tool
from tests.support.git_repos import git
from tests.support.goals import result, write_check
from tests.support.messages_api import ServeMessages
from tests.support.ralph_process import Ralph
from tests.support.real_claude import claude_env
from tests.support.real_codex import codex_env
from tests.support.responses_api import ServeResponses
from tests.support.scripted_agent import ClaudeScript, api_error, bill, structured
from tests.support.terminal import RalphInTerminal

IDEA = "the answer should be in a file"
GOAL = """# The answer in a file

## Objective
Create answer.txt with the answer.

## Outcomes
- answer.txt is there.

## Acceptance
- It holds the line 42.
"""
CHECK = "#!/bin/sh\nset -eu\ngrep -qx 42 answer.txt\n"
FIRST, SECOND = "Which answer is it?", "In which file?"


def says(*questions: str, goal: str = "", check: str = "") -> dict[str, object]:
    return {"summary": "The plan so far.", "questions": list(questions), "goal": goal, "check": check}


ASKS = says(FIRST, SECOND)
PROPOSES = says(goal=GOAL, check=CHECK)


Environment = Callable[[str, int], dict[str, str]]


@pytest.fixture
def real_agent(
    ralph: Ralph, bin_dir: Path, world: Path, messages_api: ServeMessages, responses_api: ServeResponses
) -> Callable[[str], tuple[dict[str, str], Callable[[], list[str]]]]:
    """An environment with the real agent, whose model plans and then works; and what that model was told."""

    def prepare(agent: str) -> tuple[dict[str, str], Callable[[], list[str]]]:
        (bin_dir / agent).symlink_to(
            Path(sys.executable).with_name("ralph-claude") if agent == "ralph-claude" else tools.find(agent)
        )
        path = {"PATH": ralph.env["PATH"], "RALPH_DIR": ralph.env["RALPH_DIR"]}
        work = "echo 42 > answer.txt"
        if agent == "codex":
            answers = [json.dumps(ASKS), json.dumps(PROPOSES), tool("exec_command", cmd=work), '{"summary": "DONE"}']
            served = responses_api([Say(answer) for answer in answers])
            env = codex_env(world / "home", served.url) | {"RALPH_AGENTS_CODEX_SANDBOX": "danger-full-access"}
        else:
            verdicts = [ASKS, PROPOSES, None, {"summary": "DONE"}]
            served = messages_api(
                [
                    Say(
                        tool("Bash", command=work, description="x")
                        if each is None
                        else tool("StructuredOutput", **each)
                    )
                    for each in verdicts
                ]
            )
            env = claude_env(world / "home", served.url)
            env |= {"ANTHROPIC_API_KEY": "dummy", "ANTHROPIC_AUTH_TOKEN": ""} if agent == "ralph-claude" else {}
        return env | path, lambda: [json.dumps(asked.request) for asked in served.ledger.main]

    return prepare


@pytest.mark.spec("3.13-b")
@pytest.mark.parametrize("agent", ["claude", "codex", "ralph-claude"])
def test_an_idea_becomes_a_goal_that_is_run_to_a_proven_done(
    agent: str, real_agent: Callable[[str], tuple[dict[str, str], Callable[[], list[str]]]], ralph: Ralph, repo: Path
) -> None:
    env, told = real_agent(agent)

    with RalphInTerminal(["plan", IDEA, "--agent", agent], repo, env, 120, 60) as terminal:
        terminal.shows(f"1. {FIRST}")
        terminal.press("It is forty-two\r")
        terminal.shows(f"2. {SECOND}")
        terminal.press("\r")
        terminal.shows("write goal.md and .ralph/check? [Y/n, or what to change]")
        assert "  grep -qx 42 answer.txt" in terminal.text
        assert git(repo, "status", "--porcelain", "--untracked-files=all", "goal.md", ".ralph/check") == ""
        terminal.press("\r")
        assert terminal.wait() == 0
        assert "result     wrote goal.md and .ralph/check" in terminal.text
        assert "ralph run goal.md" in terminal.text

    assert (repo / "goal.md").read_text() == GOAL
    assert (repo / ".ralph" / "check").read_text() == CHECK
    assert os.access(repo / ".ralph" / "check", os.X_OK)
    first, second = told()
    assert IDEA in first
    assert "It is forty-two" not in first
    assert "It is forty-two" in second
    assert "decide yourself" in second
    assert IDEA in second, "it is one conversation"

    done = ralph("run", "goal.md", "--agent", agent, env=env, timeout=120)
    assert done.exit_code == 0, done.stdout + done.stderr
    assert result(repo)["proven"] is True


@pytest.mark.spec("3.7-d", "3.8-d")
def test_changes_are_made_until_the_user_agrees_and_nothing_is_written_before(
    ralph: Ralph, repo: Path, claude_script: ClaudeScript
) -> None:
    better = GOAL.replace("42", "43")
    agent = claude_script([structured(says(goal=GOAL))], [structured(says(goal=better))])
    write_check(repo)

    with RalphInTerminal(["plan", IDEA, "-o", "docs.md"], repo, ralph.env, 120, 60) as terminal:
        terminal.shows("write docs.md? [Y/n, or what to change]")
        terminal.press("it is 43\r")
        terminal.shows("holds the line 43")
        terminal.shows("what to change]")
        terminal.press("n\r")
        assert terminal.wait() == 1
        assert "nothing was written" in terminal.text
    assert not (repo / "docs.md").exists()
    assert "it is 43" in agent.heard[1]
    assert agent.starts[1]["argv"][agent.starts[1]["argv"].index("--resume") + 1]

    done = ralph("plan", "--continue", "--yes")
    assert done.exit_code == 0, done
    assert (repo / "docs.md").read_text() == better
    assert len(agent.starts) == 2, "the draft is still there"
    again = ralph("plan", "--continue", "--yes")
    assert (again.exit_code, again.stderr.startswith("error: there is no unfinished plan")) == (2, True)
    assert "--tools Read,Glob,Grep,StructuredOutput" in " ".join(agent.starts[0]["argv"])


def test_ctrl_c_at_a_question_loses_nothing(ralph: Ralph, repo: Path, claude_script: ClaudeScript) -> None:
    agent = claude_script([structured(ASKS)], [structured(PROPOSES)])
    with RalphInTerminal(["plan", IDEA], repo, ralph.env, 120, 60) as terminal:
        terminal.shows(f"1. {FIRST}")
        terminal.press("It is forty-two\r")
        terminal.shows(f"2. {SECOND}")
        terminal.press("\x03")
        assert terminal.wait() == 130
        assert "next       ralph plan --continue" in terminal.text
    with RalphInTerminal(["plan", "--continue"], repo, ralph.env, 120, 60) as terminal:
        terminal.shows(f"2. {SECOND}")
        assert FIRST not in terminal.text, "it is answered"
        terminal.press("answer.txt\r")
        terminal.shows("what to change]")
        terminal.press("y\r")
        assert terminal.wait() == 0
    assert len(agent.starts) == 2
    assert f"1. {FIRST}\n   It is forty-two\n2. {SECOND}\n   answer.txt\n" in agent.heard[1]
    assert (repo / "goal.md").read_text() == GOAL


@pytest.mark.spec("3.4-g")
def test_without_a_terminal_the_planner_decides(ralph: Ralph, repo: Path, claude_script: ClaudeScript) -> None:
    agent = claude_script([structured(ASKS)], [structured(PROPOSES)])

    done = ralph("plan", IDEA, "--yes", "--json")

    assert done.exit_code == 0, done
    assert [done.events[0]["type"], done.events[-1]["type"]] == ["run_started", "run_ended"]
    assert "Nobody can answer questions" in agent.heard[0]
    assert "Nobody can answer questions now" in agent.heard[1]
    assert parse_goal((repo / "goal.md").read_text(), repo / "goal.md").title == "The answer in a file"
    assert json.loads((repo / ".ralph" / "state" / "claude-session.json").read_text())["planner_session_id"]


def test_without_questions_nothing_is_asked_in_a_terminal_but_whether_to_write(
    ralph: Ralph, repo: Path, claude_script: ClaudeScript
) -> None:
    agent = claude_script([structured(ASKS)], [structured(PROPOSES)])

    with RalphInTerminal(["plan", IDEA, "--no-questions"], repo, ralph.env, 120, 60) as terminal:
        terminal.shows("write goal.md and .ralph/check? [Y/n, or what to change]")
        assert FIRST not in terminal.text
        terminal.press("\r")
        assert terminal.wait() == 0

    assert "Nobody can answer questions" in agent.heard[0]
    assert "Nobody can answer questions now" in agent.heard[1]
    assert (repo / "goal.md").read_text() == GOAL


def test_an_unusable_goal_is_corrected_and_in_the_end_refused(
    ralph: Ralph, repo: Path, claude_script: ClaudeScript
) -> None:
    flawed = says(goal="# No\n\n## Objective\nDo it.\n")
    agent = claude_script([structured(flawed)], [structured(says(goal="---\ncheck: rm -rf /\n---\n" + GOAL))])

    done = ralph("plan", IDEA, "--yes")

    assert done.exit_code == 1
    assert done.stderr.startswith(
        "error: the planner gave no usable goal in 3 answers: The goal begins with front matter"
    )
    assert "The goal has no section `## Outcomes` and no section `## Acceptance`" in agent.heard[1]
    assert not (repo / "goal.md").exists()


def test_a_budget_ends_the_planning_and_a_higher_one_goes_on(
    ralph: Ralph, repo: Path, claude_script: ClaudeScript
) -> None:
    claude_script([bill(3.0), structured(ASKS)], [bill(3.5), structured(PROPOSES)])
    done = ralph("plan", IDEA, "--yes", "--max-cost", "2")
    assert done.exit_code == 4
    assert "error: limit reached: --max-cost" in done.stderr
    assert "hint: raise --max-cost; then: ralph plan --continue" in done.stderr
    done = ralph("plan", "--continue", "--yes", "--max-cost", "9")
    assert done.exit_code == 0, done
    assert "$3.50" in done.stdout


def test_a_conversation_that_is_lost_is_told_anew(ralph: Ralph, repo: Path, claude_script: ClaudeScript) -> None:
    agent = claude_script([structured(ASKS)], [api_error(None, "No conversation found")], [structured(PROPOSES)])
    done = ralph("plan", IDEA, "--yes")
    assert done.exit_code == 0, done
    assert "--resume" in agent.starts[1]["argv"]
    assert "--resume" not in agent.starts[2]["argv"]
    assert IDEA in agent.heard[2]


BAD = {
    "nothing": ([], "there is no idea to plan"),
    "an empty idea": ([" "], "the idea is empty"),
    "both": ([IDEA, "--continue"], "--continue continues the latest plan, and takes no idea"),
    "no plan": (["--continue"], "there is no unfinished plan in this repository"),
    "a file that is there": ([IDEA, "-o", "README.md"], "cannot write README.md: it exists already"),
    "no goal file": ([IDEA, "-o", "goal.txt"], "-o: goal.txt is not a valid name for a goal file"),
    "no folder": ([IDEA, "-o", "no/goal.md"], "-o: there is no folder "),
    "a command": ([IDEA, "--agent", "custom"], "the agent custom needs a command"),
    "quiet and verbose": ([IDEA, "--quiet", "--verbose"], "--quiet and --verbose cannot be combined"),
}


@pytest.mark.parametrize(("args", "message"), BAD.values(), ids=BAD)
def test_bad_usage_is_refused_before_anything_is_written(
    args: list[str], message: str, ralph: Ralph, repo: Path, claude_script: ClaudeScript
) -> None:
    agent = claude_script([structured(PROPOSES)])
    done = ralph("plan", *args, "--yes")
    assert (done.exit_code, done.stdout) == (2, ""), done
    assert done.stderr.startswith(f"error: {message}")
    assert "\n\nhint: " in done.stderr
    assert not agent.starts
    assert git(repo, "status", "--porcelain", "--ignored") == ""


def test_an_agent_that_only_prints_words_cannot_plan(ralph: Ralph, repo: Path) -> None:
    done = ralph("plan", IDEA, "--yes", env={**ralph.env, "RALPH_AGENT_CMD": "cat"})
    assert (done.exit_code, done.stdout) == (2, ""), done
    assert done.stderr.startswith("error: ralph plan cannot use the agent custom: ")
    assert git(repo, "status", "--porcelain", "--ignored") == ""


def test_without_a_terminal_it_wants_to_be_told_to_write(ralph: Ralph, claude_script: ClaudeScript) -> None:
    agent = claude_script([structured(PROPOSES)])
    done = ralph("plan", IDEA)
    assert done.exit_code == 2
    assert done.stderr.endswith("hint: to write without being asked, add --yes\n")
    assert not agent.starts


def test_what_a_planner_answers_is_judged() -> None:
    def judged(answer: object, *, may_ask: bool = True) -> object:
        return read_plan(answer, wants_check=True, may_ask=may_ask)

    assert judged(ASKS) == Questions((FIRST, SECOND))
    assert judged(says(*map(str, range(9)))) == Questions(tuple(map(str, range(5))))
    assert isinstance(judged(ASKS, may_ask=False), Flaw)
    assert judged(says(FIRST, goal=GOAL, check="make test")) == Draft(GOAL, "#!/bin/sh\nmake test\n")
    for nonsense in (None, [], {}, says(), says(goal="x\0y"), says(goal="# T"), says(goal=GOAL, check="x" * 60_000)):
        assert isinstance(judged(nonsense), Flaw)
    assert judged(says(goal="# T")) == Flaw("`ralph run` would refuse it: goal.md: no `## Objective` section.")
    hidden = judged(says(goal="\ufeff---\ncheck: rm -rf /\n---\n" + GOAL))
    assert hidden == Flaw("The goal begins with front matter: leave that out.")
