"""A filter of the user's that fails: the run and the queue say which, and for which file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.batches import Batch, wrote
from tests.support.git_repos import git
from tests.support.goals import write_goal
from tests.support.ralph_process import Ralph
from tests.support.scripted_agent import ClaudeScript, summary, write


def break_filter(env: object) -> None:
    assert isinstance(env, dict)
    for key, value in (("clean", "false"), ("required", "true")):
        git(Path("/"), "config", "--file", env["GIT_CONFIG_GLOBAL"], f"filter.crypt.{key}", value)


def test_a_run_says_which_filter_fails(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    write_goal(repo)
    (repo / ".gitattributes").write_text("*.bin filter=crypt\n")
    git(repo, "add", "--all")
    git(repo, "commit", "--quiet", "-mattributes")
    break_filter(ralph.env)
    claude_script([write("a.bin", "secret\n"), summary("DONE")])

    done = ralph("run", "goal.md")

    assert done.exit_code == 1
    assert f"cannot commit a.bin in {repo}: clean filter 'crypt' failed" in done.stderr
    assert "hint: " in done.stderr
    assert "a.bin" not in git(repo, "ls-tree", "--name-only", "HEAD")


@pytest.mark.long
def test_a_stuck_goal_says_which_filter_fails(batch: Batch) -> None:
    batch.upstream(files={".gitattributes": "*.txt filter=crypt\n"})
    break_filter(batch.runs.env)
    batch.goal("work", wrote("work"), repo="upstream", max_iterations=1)

    batch.run(batch.root / "goals")

    assert batch.states() == {"work": "stuck"}
    assert "clean filter 'crypt' failed" in batch.show("work")["reason"]
