"""`--agent ralph-claude`: ralph's own agent, chosen by name, with nothing of Claude Code on the machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.api_replies import Say, tool
from tests.support.git_repos import git
from tests.support.goals import result, write_check, write_goal
from tests.support.messages_api import ServeMessages
from tests.support.ralph_process import Ralph


@pytest.mark.spec("2.3-f")
def test_a_goal_is_proven_with_an_api_key_alone(repo: Path, ralph: Ralph, messages_api: ServeMessages) -> None:
    write_goal(repo)
    write_check(repo)
    answer = str(repo / "answer.txt")
    api = messages_api(
        [Say(tool("Write", file_path=answer, content="42\n")), Say(tool("StructuredOutput", summary="DONE"))]
    )
    env = {"ANTHROPIC_BASE_URL": api.url, "ANTHROPIC_API_KEY": "dummy", "CLAUDE_CODE_MAX_RETRIES": "1"}
    done = ralph("run", "goal.md", "--agent", "ralph-claude", env=env)
    assert done.exit_code == 0, done.stdout + done.stderr
    assert "agent      ralph-claude (" in done.stdout
    assert result(repo)["proven"] is True
    assert git(repo, "show", "HEAD:answer.txt") == "42"
    assert result(repo)["tokens"] == api.ledger.tokens.total


def test_without_a_key_it_is_blocked_and_says_so(repo: Path, ralph: Ralph) -> None:
    write_goal(repo)
    done = ralph("run", "goal.md", "--agent", "ralph-claude")
    assert (done.exit_code, result(repo)["exit_code"]) == (6, 6)
    assert "Not logged in" in done.stdout


def test_files_of_the_repository_do_not_become_the_agents_own(repo: Path, ralph: Ralph) -> None:
    """It is started in the repository by the interpreter, which would import from there."""
    for name in ("json.py", "ralph.py", "threading.py"):
        (repo / name).write_text("raise SystemExit('hijacked')\n")
    git(repo, "add", "--all")
    git(repo, "commit", "--quiet", "--message", "modules")
    write_goal(repo)
    done = ralph("run", "goal.md", "--agent", "demo", "--max-iterations", "1", "--no-check")
    assert done.exit_code == 4, done.stdout + done.stderr
    assert "hijacked" not in done.stdout
