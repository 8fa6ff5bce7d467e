"""The first five minutes: what `make demo` runs, on a machine that has no agent and no key."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from ralph.agents.base import AgentOptions
from ralph.agents.claude import find_demo
from ralph.core.errors import UsageError
from tests.support.git_repos import commits, git
from tests.support.ralph_process import Finished, Ralph

ROOT = Path(__file__).parent.parent.parent
PLAY = ROOT / "examples" / "demo" / "play"


def repository(tmp_path: Path) -> Path:
    (place,) = tmp_path.glob("ralph-demo.*")
    return place / "slugs"


def test_it_prints_what_the_page_shows_and_touches_nothing_of_the_users(
    tmp_path: Path, repo: Path, world: Path, ralph: Ralph
) -> None:
    """A refused DONE and a proven one, by real edits; even where a hook has pointed git at the user's repository."""
    before = git(repo, "rev-parse", "HEAD")
    theirs = {"GIT_DIR": f"{repo}/.git", "GIT_WORK_TREE": str(repo), "GIT_INDEX_FILE": f"{repo}/.git/index"}
    env = {**ralph.env, "TMPDIR": str(tmp_path), **theirs}
    script = Path(sys.executable).with_name("ralph")
    done = subprocess.run([PLAY, script], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120)
    finished = Finished(done.returncode, done.stdout, done.stderr)
    assert (finished.exit_code, finished.complaints) == (0, "")

    shown = re.search(r"make demo.*?```text\n(.*?)```", (ROOT / "docs" / "one-goal.md").read_text(), re.DOTALL)
    assert shown is not None
    assert anonymous(shown[1]) in anonymous(done.stdout)
    assert "the model is a script" in done.stdout
    assert done.stdout.count("DONE rejected") == 1
    assert "result     done: proven by .ralph/check" in done.stdout

    played = repository(tmp_path)
    assert [commit.trailers["Ralph-Verdict"] for commit in commits(played)[1:]] == ["CONTINUE", "DONE", "DONE"]
    assert "unicodedata" in git(played, "show", "HEAD:slugs.py")
    assert git(played, "show", "HEAD~3:test_slugs.py") == git(played, "show", "HEAD:test_slugs.py")
    assert subprocess.run([played / ".ralph" / "check"], cwd=played, capture_output=True).returncode == 0

    assert git(repo, "rev-parse", "HEAD") == before
    assert git(repo, "status", "--porcelain") == ""
    assert git(repo, "config", "--local", "--list").count("user.name") <= 1
    assert not (world / "ralph").exists()


def anonymous(text: str) -> str:
    """Leave out what differs from machine to machine and from run to run."""
    text = re.sub(r"(/[\w.-]+)+/(ralph-demo)\.\w+", r"\2", text)
    text = re.sub(r"(/[\w.-]+)+/(examples/|bin/python|bin/ralph)", r"\2", text)
    text = re.sub(r"slugs-[0-9a-f]{8}", "slugs-KEY", text)
    text = re.sub(r"(commit|checkout of) [0-9a-f]{10}", r"\1 SHA", text)
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


def test_a_script_that_cannot_be_played_is_refused_before_anything_is_written(
    repo: Path, tmp_path: Path, ralph: Ralph
) -> None:
    (tmp_path / "script.json").write_text("{bad")
    goal = str(ROOT / "examples" / "goals" / "answer.md")
    refused = ralph("run", goal, "--agent", "demo", env={"RALPH_DEMO_SCRIPT": str(tmp_path / "script.json")})
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert f"RALPH_DEMO_SCRIPT: cannot use {tmp_path / 'script.json'}: not JSON: " in refused.stderr
    assert not (repo / ".ralph").exists()


@pytest.mark.parametrize(
    ("script", "fault"),
    [
        (None, " is not a file"),
        ("{bad", ": not JSON: "),
        ("{}", ": a script is not a list"),
        ("[1]", ": a session is not a list"),
        ("[[1]]", ": a turn is not a list"),
        ("[[[1]]]", ": a block has no type"),
    ],
)
def test_the_fault_in_a_script_is_named(tmp_path: Path, script: str | None, fault: str) -> None:
    path = tmp_path / "script.json"
    if script is not None:
        path.write_text(script)
    with pytest.raises(UsageError) as refused:
        find_demo(AgentOptions(), {"RALPH_DEMO_SCRIPT": str(path)})
    assert str(refused.value).startswith(f"RALPH_DEMO_SCRIPT: {'' if script is None else 'cannot use '}{path}{fault}")
