"""The first five minutes: what `make demo` runs, on a machine that has no agent and no key."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.git_repos import commits, git
from tests.support.ralph_process import Ralph

ROOT = Path(__file__).parent.parent.parent
PLAY = ROOT / "examples" / "demo" / "play"


Play = Callable[..., str]


@pytest.fixture
def play(tmp_path: Path, ralph: Ralph) -> Play:
    def play(**extra: str) -> str:
        script = Path(sys.executable).with_name("ralph")
        env = {**ralph.env, "TMPDIR": str(tmp_path), **extra}
        done = subprocess.run([PLAY, script], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    return play


@pytest.fixture
def played(play: Play) -> str:
    return play()


def repository(tmp_path: Path) -> Path:
    (place,) = tmp_path.glob("ralph-demo.*")
    return place / "slugs"


def test_a_refused_done_and_a_proven_one_by_real_edits(tmp_path: Path, played: str) -> None:
    repo = repository(tmp_path)
    assert [commit.trailers["Ralph-Verdict"] for commit in commits(repo)[1:]] == ["CONTINUE", "DONE", "DONE"]
    assert "unicodedata" in git(repo, "show", "HEAD:slugs.py")
    assert git(repo, "show", "HEAD~3:test_slugs.py") == git(repo, "show", "HEAD:test_slugs.py")
    assert subprocess.run([repo / ".ralph" / "check"], cwd=repo, capture_output=True).returncode == 0
    assert "the model is scripted" in played
    assert played.count("DONE is withdrawn") == 1
    assert "result     done: proven by .ralph/check" in played


def test_nothing_outside_its_own_directory_is_touched(
    tmp_path: Path, repo: Path, world: Path, ralph: Ralph, play: Play
) -> None:
    """Not even where a hook or a tool has pointed git at a repository of the user's."""
    before = git(repo, "rev-parse", "HEAD")
    play(GIT_DIR=str(repo / ".git"), GIT_WORK_TREE=str(repo), GIT_INDEX_FILE=str(repo / ".git" / "index"))
    assert repository(tmp_path).is_dir()
    assert git(repo, "rev-parse", "HEAD") == before
    assert git(repo, "status", "--porcelain") == ""
    assert git(repo, "config", "--local", "--list").count("user.name") <= 1
    assert not (world / "ralph").exists()


def test_the_readme_shows_what_it_prints(played: str) -> None:
    shown = re.search(r"make demo.*?```text\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert shown is not None
    assert anonymous(shown[1]).splitlines() == anonymous(played).splitlines()


def anonymous(text: str) -> str:
    """Leave out what differs from machine to machine and from run to run."""
    text = re.sub(r"(/[\w.-]+)+/(ralph-demo)\.\w+", r"\2", text)
    text = re.sub(r"(/[\w.-]+)+/(examples/|bin/python|bin/ralph)", r"\2", text)
    text = re.sub(r"slugs-[0-9a-f]{8}", "slugs-KEY", text)
    text = re.sub(r"commit [0-9a-f]{10}", "commit SHA", text)
    return re.sub(r"\b(\d+\.)?\d+s\b", "TIME", text)


def test_another_script_can_take_its_place(repo: Path, tmp_path: Path, ralph: Ralph) -> None:
    (tmp_path / "script.json").write_text(
        '[[[{"type": "tool_use", "name": "Write", "input": {"file_path": "answer.txt", "content": "42\\n"}}],'
        ' [{"type": "tool_use", "name": "StructuredOutput", "input": {"summary": "DONE"}}]]]'
    )
    script = str(tmp_path / "script.json")
    goal = str(ROOT / "examples" / "goals" / "answer.md")
    done = ralph("run", goal, "--agent", "demo", "--no-check", env={"RALPH_DEMO_SCRIPT": script})
    assert done.exit_code == 0, done.stdout + done.stderr
    assert git(repo, "show", "HEAD:answer.txt") == "42"


def test_a_script_that_is_not_there_is_refused(repo: Path, ralph: Ralph) -> None:
    goal = str(ROOT / "examples" / "goals" / "answer.md")
    refused = ralph("run", goal, "--agent", "demo", env={"RALPH_DEMO_SCRIPT": "/nowhere/script.json"})
    assert refused.exit_code == 2
    assert "RALPH_DEMO_SCRIPT: /nowhere/script.json is no file" in refused.stderr


@pytest.mark.parametrize(
    ("script", "fault"),
    [
        ("{bad", "not JSON: "),
        ("{}", "a script is not a list"),
        ("[1]", "a session is not a list"),
        ("[[1]]", "a turn is not a list"),
        ("[[[1]]]", "a block has no type"),
    ],
)
def test_a_script_that_cannot_be_played_is_refused(
    repo: Path, tmp_path: Path, ralph: Ralph, script: str, fault: str
) -> None:
    (tmp_path / "script.json").write_text(script)
    goal = str(ROOT / "examples" / "goals" / "answer.md")
    refused = ralph("run", goal, "--agent", "demo", env={"RALPH_DEMO_SCRIPT": str(tmp_path / "script.json")})
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert f"RALPH_DEMO_SCRIPT: {tmp_path / 'script.json'} is no script: {fault}" in refused.stderr
    assert not (repo / ".ralph").exists()
