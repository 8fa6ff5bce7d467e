"""The commands of the pages that a newcomer follows, typed as they stand there; a script plays the agent."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.git_repos import git, make_repo
from tests.support.goals import result
from tests.support.ralph_process import Ralph
from tests.support.scripted_agent import ClaudeScript, run, summary

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
MACHINE = dict(os.environ)
"""As the machine has it: pip may be configured in HOME, which the guards of conftest.py move."""
YOU = {
    "GIT_AUTHOR_NAME": "you",
    "GIT_AUTHOR_EMAIL": "you@localhost",
    "GIT_COMMITTER_NAME": "you",
    "GIT_COMMITTER_EMAIL": "you@localhost",
    "CI": "true",
}
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
    return {**ralph.env, **YOU}


def test_getting_started(tmp_path: Path, env: Mapping[str, str], claude_script: ClaudeScript) -> None:
    walk_through_getting_started(tmp_path, env, claude_script)


@pytest.mark.long  # installs ralph and everything that it needs
def test_getting_started_from_a_clean_clone(tmp_path: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    """With the command that the page itself names, into an environment that has nothing of this one."""
    (install,) = re.findall(r"^\$ (pip install .*)$", (DOCS / "getting-started.md").read_text(), re.MULTILINE)
    git(tmp_path, "clone", "--quiet", str(ROOT), "ralph")
    venv.create(tmp_path / "environment", with_pip=True)
    programs = tmp_path / "environment" / "bin"
    locked = re.findall(r"^[a-z0-9-]+==[^\\\n]+", (ROOT / "requirements" / "dev.txt").read_text(), re.MULTILINE)
    (tmp_path / "constraints.txt").write_text("\n".join(locked) + "\n")
    env = {**MACHINE, "PATH": f"{programs}:{MACHINE['PATH']}", "PIP_CONSTRAINT": str(tmp_path / "constraints.txt")}

    done = subprocess.run(["sh", "-c", install], cwd=tmp_path / "ralph", env=env, capture_output=True, text=True)

    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(path.name for path in programs.glob("ralph*")) == ["ralph", "ralph-claude", "ralph-runs"]
    env = {**ralph.env, **YOU, "PATH": f"{programs}:{ralph.env['PATH']}"}
    walk_through_getting_started(tmp_path, env, claude_script)


def walk_through_getting_started(tmp_path: Path, env: Mapping[str, str], claude_script: ClaudeScript) -> None:
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
