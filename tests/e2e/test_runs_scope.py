"""Which goals `ralph-runs run` works on: those named, those of the repository one stands in, or all."""

import os
import signal
from pathlib import Path

import pytest

from tests.support.batches import Batch, merged_goals, wrote
from tests.support.git_repos import git
from tests.support.ralph_process import Finished

OTHERS = "work on every queued goal: ralph-runs run --all"


@pytest.fixture
def shops(batch: Batch) -> Batch:
    """Two repositories with a queued goal each."""
    for name in ("shop", "blog"):
        batch.upstream(name)
        assert batch.runs("add", batch.goal(f"fix-{name}", wrote(name), repo=name), "--queue", cwd=batch.root)
    assert batch.states() == {"fix-shop": "queued", "fix-blog": "queued"}
    return batch


def clone_of(batch: Batch, name: str) -> Path:
    git(batch.root, "clone", "--quiet", str(batch.repos[name]), f"{name}-mine")
    return batch.root / f"{name}-mine"


def run_in(folder: Path, batch: Batch, *args: str) -> Finished:
    return batch.runs("run", *args, cwd=folder)


def test_outside_a_repository_nothing_starts(shops: Batch) -> None:
    empty = shops.root / "empty"
    empty.mkdir()
    for args in ((), ("--max", "3"), ("--dry-run",)):
        done = run_in(empty, shops, *args)
        assert (done.exit_code, done.stdout) == (2, "")
        assert done.stderr.startswith(f"error: cannot tell which goals to work on: {empty} is not in a git repository")
        assert "hint: go to a repository with queued goals\n" in done.stderr
        assert done.stderr.rstrip().endswith("ralph-runs run --all")
    assert not shops.clones()
    assert {goal["attempts"] for goal in shops.goals().values()} == {0}


def test_in_a_repository_its_own_goals_are_worked_on_and_no_others(shops: Batch) -> None:
    folder = clone_of(shops, "shop") / "texts"
    folder.mkdir()
    planned = run_in(folder, shops, "--dry-run").stdout
    assert "1. g1 fix-shop" in planned
    assert "fix-blog" not in planned
    assert f"1 queued goal of another repository stays queued; {OTHERS}\n" in planned

    done = run_in(folder, shops)
    assert done.exit_code == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[:2] == [
        "proven work on shop is pushed to its main branch (merge: direct)",
        f"1 queued goal of another repository stays queued; {OTHERS}",
    ]
    assert shops.states() == {"fix-shop": "done", "fix-blog": "queued"}
    assert merged_goals(shops.repos["blog"]) == []
    assert not list(shops.ralph_dir.glob("mirrors/**/blog*")), "nor is their repository fetched"

    again = run_in(folder, shops)
    assert (again.exit_code, shops.states()["fix-blog"]) == (0, "queued")
    assert again.stdout.endswith(f"1 queued goal of another repository stays queued; {OTHERS}\n")
    everything = run_in(folder, shops, "--all")
    assert everything.exit_code == 0, everything.stdout
    assert shops.states() == {"fix-shop": "done", "fix-blog": "done"}


def test_named_goals_take_along_what_their_repository_has_queued_and_nothing_else(shops: Batch) -> None:
    done = shops.run(shops.goal("more", wrote("more"), repo="blog"), "--json")
    assert done.exit_code == 0, done.stdout + done.stderr
    assert shops.states() == {"fix-shop": "queued", "fix-blog": "done", "more": "done"}
    assert done.events_of("submitted")[0]["also"] == ["g2"]


def test_a_goal_that_waits_for_one_elsewhere_says_so(shops: Batch) -> None:
    later = shops.goal("later", wrote("later"), repo="shop", after=["fix-blog"])
    done = shops.run(later)
    assert done.exit_code == 1, done.stdout + done.stderr
    assert shops.states() == {"fix-shop": "done", "fix-blog": "queued", "later": "queued"}
    words = "waits for g2 (fix-blog), which is queued and belongs to another repository; work on both: "
    assert f"{words}ralph-runs run --all" in done.stdout


def test_what_was_cut_off_elsewhere_waits_for_its_turn(batch: Batch) -> None:
    """It is put back uncharged, and continues where it was."""
    for name in ("shop", "blog"):
        batch.upstream(name)
    begun = batch.root / "begun"
    sessions = [[[{"type": "tool_use", "name": "Bash", "input": {"command": f"touch {begun}; sleep 60"}}]]]
    with batch.start(batch.goal("slow", sessions, repo="blog")) as running:
        running.wait_until(begun.exists, "the session")
        os.kill(running.pid, signal.SIGKILL)
        running.wait()
    assert "interrupted" in batch.runs("list").stdout
    assert batch.runs("add", batch.goal("quick", wrote("quick"), repo="shop"), "--queue", cwd=batch.root)
    done = run_in(clone_of(batch, "shop"), batch)
    assert done.exit_code == 0, done.stdout + done.stderr
    assert batch.states() == {"slow": "queued", "quick": "done"}
    assert batch.goals()["slow"]["attempts"] == 0
    assert "interrupted with its worker; the next worker was for other repositories" in done.stdout
