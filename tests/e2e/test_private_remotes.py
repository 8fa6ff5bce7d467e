"""Remotes that need what only the user's git settings say: ralph's own git reads a copy of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.batches import Batch, merged_goals, wrote
from tests.support.git_repos import git, make_repo
from tests.support.git_server import PASSWORD, USER, proxying, serving_git
from tests.support.goals import write_goal
from tests.support.ralph_process import Ralph
from tests.support.scripted_agent import ClaudeScript, summary, write


def set_up(env: dict[str, str] | object, *settings: tuple[str, str]) -> None:
    assert isinstance(env, dict)
    for key, value in settings:
        git(Path("/"), "config", "--file", env["GIT_CONFIG_GLOBAL"], "--add", key, value)


def write_helper(place: Path) -> str:
    """A credential helper of the user's; how the settings name it."""
    helper = place / "helper"
    helper.write_text(f'#!/bin/sh\ntest "$1" = get || exit 0\necho username={USER}\necho "password={PASSWORD}"\n')
    helper.chmod(0o755)
    return str(helper)


@pytest.fixture
def served(tmp_path: Path) -> Path:
    """A folder with a repository that a server may show and take pushes for."""
    first = make_repo(tmp_path / "first", {"README.md": "# Served\n"})
    folder = tmp_path / "served"
    folder.mkdir()
    git(folder, "clone", "--quiet", "--bare", str(first), "private.git")
    git(folder / "private.git", "config", "http.receivepack", "true")
    return folder


@pytest.mark.long
@pytest.mark.parametrize("way", ["plain", "insteadOf", "proxy"])
def test_a_run_clones_from_a_server_that_asks_for_a_password(
    ralph: Ralph, repo: Path, world: Path, served: Path, claude_script: ClaudeScript, way: str
) -> None:
    write_goal(repo)
    claude_script([write("a.txt", "a\n"), summary("DONE")])
    asked: list[str] = []
    set_up(ralph.env, ("credential.helper", write_helper(world)))
    with serving_git(served) as address, proxying(asked) as proxy:
        url = f"{address}/private.git"
        if way == "insteadOf":
            set_up(ralph.env, (f"url.{address}/.insteadOf", "https://nowhere.invalid/"))
            url = "https://nowhere.invalid/private.git"
        if way == "proxy":
            set_up(ralph.env, ("http.proxy", proxy))
        done = ralph("run", "goal.md", "--repo", url)

    assert done.exit_code == 0, done
    assert bool(asked) == (way == "proxy")


@pytest.mark.long
def test_a_run_without_the_helper_is_refused(
    ralph: Ralph, repo: Path, served: Path, claude_script: ClaudeScript
) -> None:
    write_goal(repo)
    claude_script([summary("DONE")])
    with serving_git(served) as address:
        done = ralph("run", "goal.md", "--repo", f"{address}/private.git")

    assert done.exit_code == 1
    assert "could not read Username" in done.stderr


@pytest.mark.long
def test_a_queue_fetches_from_such_a_server_and_pushes_to_it(batch: Batch, world: Path, served: Path) -> None:
    (first := batch.root / "first").mkdir()
    git(first, "clone", "--quiet", str(served / "private.git"), "work")
    (first / "work" / ".ralph").mkdir()
    (first / "work" / ".ralph" / "check").write_text("#!/bin/sh\nexit 0\n")
    (first / "work" / ".ralph" / "check").chmod(0o755)
    git(first / "work", "add", "--all")
    git(first / "work", "-c", "user.name=T", "-c", "user.email=t@t", "commit", "--quiet", "-mcheck")
    git(first / "work", "push", "--quiet", "origin", "HEAD:main")
    set_up(batch.runs.env, ("credential.helper", write_helper(world)))
    with serving_git(served) as address:
        batch.goal("work", wrote("work"), repo=f"{address}/private.git")
        finished = batch.run(batch.root / "goals")

    assert finished.exit_code == 0, json.dumps(batch.states()) + finished.stderr
    assert merged_goals(served / "private.git") == ["work"]
