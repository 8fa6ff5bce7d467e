"""The demo goal, by `ralph run` with ralph-claude, over an OpenAI-compatible endpoint."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.support.api_replies import Reply, Say
from tests.support.chat_api import ServeChat
from tests.support.git_repos import commits, git
from tests.support.ralph_process import Ralph

EXAMPLES = Path(__file__).parent.parent.parent / "examples"


def turns() -> list[Reply]:
    """What the script of the demo says, one reply a turn."""
    sessions = json.loads((EXAMPLES / "demo" / "script.json").read_text())
    return [Say(*turn) for session in sessions for turn in session]


@pytest.mark.long
def test_the_demo_goal_is_reached_over_an_openai_compatible_endpoint(
    chat_api: ServeChat, repo: Path, ralph: Ralph
) -> None:
    shutil.copytree(EXAMPLES / "demo" / "repository", repo, dirs_exist_ok=True)
    git(repo, "add", "--all")
    git(repo, "commit", "--quiet", "--message", "Slugs, with tests that fail")
    api = chat_api(turns())
    goal = str(EXAMPLES / "goals" / "slugs.md")
    args = ("run", goal, "--agent", "ralph-claude", "--model", "openai:local", "--max-iterations", "5")
    done = ralph(*args, env={"OPENAI_BASE_URL": f"{api.url}/v1"})
    assert done.exit_code == 0, done.stdout + done.stderr
    assert "result     done: proven by .ralph/check" in done.stdout
    assert [commit.trailers["Ralph-Verdict"] for commit in commits(repo)[-3:]] == ["CONTINUE", "DONE", "DONE"]
    assert len(api.ledger.main) == len(turns())
