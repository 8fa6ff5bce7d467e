"""What the fork server starts is what `python -m` would have started."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from ralph.system.guardian import Guardian
from tests.support.fork_server import Forks
from tests.support.ralph_process import Ralph


@pytest.mark.parametrize(
    "args",
    [("list", "--json"), ("--help",), ("add", "none\u2026such.md"), ("show", "g1"), ("run", "--max", "0"), ()],
    ids=" ".join,
)
def test_a_fork_prints_and_exits_as_a_process_of_its_own_does(ralph_runs: Ralph, args: tuple[str, ...]) -> None:
    assert ralph_runs(*args) == replace(ralph_runs, forks=None)(*args)


def test_a_fork_has_its_own_directory_environment_and_state(ralph_runs: Ralph, tmp_path: Path) -> None:
    (tmp_path / "goal.md").write_text("# A goal\n\n## Objective\nDo it.\n")
    before = dict(os.environ), Path.cwd()
    added = ralph_runs("add", "goal.md", "--repo", "repo", cwd=tmp_path, env={"RALPH_DIR": "near"})
    assert added.exit_code == 0, added.stderr
    assert (tmp_path / "near" / "runs.sqlite").exists()
    assert "the queue is empty" in ralph_runs("list").stdout
    assert (dict(os.environ), Path.cwd()) == before


def test_a_fork_that_does_not_end_is_killed_and_the_next_one_is_none_the_worse(ralph_runs: Ralph) -> None:
    with pytest.raises(pytest.fail.Exception, match="still running after 1 s"):
        ralph_runs("work", timeout=1)
    assert ralph_runs("--version").stdout.startswith("ralph-runs ")


def test_what_a_python_reads_as_it_starts_takes_one_of_its_own(ralph_runs: Ralph, forks: Forks) -> None:
    assert forks.suits(ralph_runs.env)
    assert not forks.suits({**ralph_runs.env, "PYTHONVERBOSE": "1"})
    assert not forks.suits({**ralph_runs.env, "LC_ALL": "C"})
    assert "import 'ralph" in ralph_runs("--version", env={"PYTHONVERBOSE": "1"}).stderr


def test_a_server_that_was_swept_away_with_a_guardians_children_is_replaced(ralph_runs: Ralph) -> None:
    first = ralph_runs("--version")
    with Guardian() as guardian:
        guardian.wake()
    assert ralph_runs("--version") == first
