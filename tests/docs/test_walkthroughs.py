"""The commands of the pages that a newcomer follows, typed as they stand there; a script plays the agent."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.git_repos import git, make_repo
from tests.support.goals import result
from tests.support.ralph_process import Ralph
from tests.support.scripted_agent import ClaudeScript, run, summary

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
GUIDE = "printf '# Contributing\\n\\nRun python3 -m unittest.\\n' > CONTRIBUTING.md"
TEST = "import unittest\n\n\nclass T(unittest.TestCase):\n    def test_it(self):\n        pass\n"
SITE = """
case $RALPH_GOAL in
    index)
        { echo '<h1>Site</h1>'; for page in pages/*; do echo "<a href=\\"$page\\">$page</a>"; done; } > index.html ;;
    *)
        mkdir -p pages && echo "<h1>$RALPH_GOAL</h1>" > "pages/$RALPH_GOAL.html" ;;
esac
"""


@pytest.fixture
def env(ralph: Ralph, bin_dir: Path) -> Mapping[str, str]:
    """An environment in which ralph is installed, and no agent but the one that the test puts there."""
    for name in ("ralph", "ralph-runs"):
        (bin_dir / name).symlink_to(Path(sys.executable).with_name(name))
    (bin_dir / "python3").symlink_to(sys.executable)
    return {**ralph.env, "GIT_AUTHOR_NAME": "you", "GIT_AUTHOR_EMAIL": "you@localhost", "CI": "true"} | {
        "GIT_COMMITTER_NAME": "you",
        "GIT_COMMITTER_EMAIL": "you@localhost",
    }


def test_getting_started(tmp_path: Path, env: Mapping[str, str], claude_script: ClaudeScript) -> None:
    claude_script([run(GUIDE), summary("DONE")])
    repository = make_repo(tmp_path / "your-repository", {"test_app.py": TEST, ".gitignore": "__pycache__/\n"})

    said = typed("getting-started.md", tmp_path, env)

    assert "tried .ralph/check on a copy of this repository: exit 0 after " in said
    assert "CONTRIBUTING.md is missing" in said
    assert "done: proven by .ralph/check" in said
    assert result(repository, "goal")["proven"] is True
    assert git(repository, "status", "--porcelain") == ""


@pytest.mark.long  # three goals, each worked on, checked twice and merged
def test_tutorial(tmp_path: Path, env: Mapping[str, str], claude_script: ClaudeScript) -> None:
    claude_script(*[[run(SITE), summary("DONE")]] * 3)

    said = typed("tutorial.md", tmp_path, env)

    assert "3 goals: 3 done" in said
    assert len(git(tmp_path / "site", "log", "--format=%s", "main").splitlines()) == 4
    assert (tmp_path / "site" / "index.html").read_text().count("href") == 2


def typed(page: str, folder: Path, env: Mapping[str, str]) -> str:
    """Type the page's blocks of shell into one shell that stops at the first failure; return what it printed."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)
    done = subprocess.run(
        ["sh", "-eux", "-c", "".join(blocks)],
        cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        timeout=120,
    )  # fmt: skip
    assert blocks
    assert done.returncode == 0, done.stdout
    return done.stdout
