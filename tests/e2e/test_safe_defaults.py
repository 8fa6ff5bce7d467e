"""A run that nobody has limited: it still ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.batches import Batch, shell, wrote
from tests.support.git_repos import commits
from tests.support.goals import GOAL, state, write_goal
from tests.support.ralph_process import Ralph
from tests.support.scripted_agent import ClaudeScript, summary

COUNTS = """#!/bin/sh
cat > /dev/null
echo "line $$" >> counted.txt
echo "wrote line $$"
"""


@pytest.fixture
def counting(bin_dir: Path) -> str:
    """An agent that gets nowhere, and says something new each time."""
    path = bin_dir / "counting"
    path.write_text(COUNTS)
    path.chmod(0o755)
    return str(path)


def test_a_run_without_any_limit_ends_after_fifty_iterations(ralph: Ralph, repo: Path, counting: str) -> None:
    write_goal(repo)
    done = ralph("run", "goal.md", "--agent-cmd", counting)
    assert done.exit_code == 4
    assert "limits     50 iterations, because you set no limit (--max-iterations 0 removes it)\n" in done.stdout
    assert "result     limit reached: --max-iterations" in done.stdout
    assert "--max-iterations 100" in done.stdout
    assert len(commits(repo)) == 51


@pytest.mark.parametrize(
    ("flags", "header", "most"),
    [
        (["--max-iterations", "0"], "limits     none (see --max-iterations", None),
        (["--max-iterations", "7"], "limits     7 iterations\n", 7),
        (["--max-cost", "3"], "limits     $3.00\n", None),
        (["--max-tokens", "3000"], "limits     3,000 tokens\n", None),
        (["--duration", "2h"], "limits     2h00m\n", None),
        (["--max-cost", "3", "--max-iterations", "0"], "limits     $3.00\n", None),
    ],
)
def test_a_limit_of_ones_own_takes_its_place(
    ralph: Ralph, repo: Path, claude_script: ClaudeScript, flags: list[str], header: str, most: int | None
) -> None:
    write_goal(repo)
    claude_script([summary("DONE")])
    done = ralph("run", "goal.md", *flags)
    assert done.exit_code == 0
    assert header in done.stdout
    assert state(repo, "budget.json")["max_iterations"] == most


def test_a_goal_may_lift_it_in_its_front_matter_and_the_user_in_his_configuration(
    ralph: Ralph, repo: Path, claude_script: ClaudeScript
) -> None:
    claude_script([summary("DONE")])
    write_goal(repo, f"---\nmax_iterations: 0\n---\n{GOAL}")
    assert "limits     none" in ralph("run", "goal.md").stdout

    assert ralph("config", "set", "max_iterations", "0").exit_code == 0
    assert json.loads(ralph("config", "--json").stdout)["max_iterations"]["value"] == 0


@pytest.mark.parametrize("flags", [[], ["--max-cost", "5"]], ids=["no limit", "a budget of the batch"])
def test_attempts_of_a_batch_have_it_too(batch: Batch, world: Path, flags: list[str]) -> None:
    batch.upstream()
    keeps = shell(f"cp .ralph/state/budget.json {world}/home/budget.json")
    batch.goal("one", [[keeps, *wrote("one")[0]]], repo="upstream")
    assert batch.run("goals/", *flags).exit_code == 0
    assert json.loads((world / "home" / "budget.json").read_text())["max_iterations"] == 50


def test_a_dry_run_of_a_batch_says_so(batch: Batch) -> None:
    batch.upstream()
    batch.goal("one", wrote("one"), repo="upstream")
    batch.goal("two", wrote("two"), repo="upstream", max_iterations=5)
    said = batch.run("goals/", "--dry-run").stdout
    assert "limits  50 iterations, because no limit is set\n" in said
    assert "limits  5 iterations\n" in said
