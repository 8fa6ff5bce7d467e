"""kill -9 at random: whatever is killed, every goal ends, and each finished iteration was run exactly once."""

from __future__ import annotations

import random
import shutil
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.support.batches import Batch, merged_goals, require_green_history, require_linear, wrote
from tests.support.forms import ROUNDS
from tests.support.git_repos import git
from tests.support.iterations import Began, Ledger, committed, faults, require_each_once
from tests.support.ralph_process import RunningRalph

pytestmark = pytest.mark.long

STORM = 15.0 if ROUNDS == 1 else 60.0
"""Seconds for which something is killed every now and then."""

GOALS = 5 if ROUNDS == 1 else 16

ENOUGH = 3
"""So many different things are killed at least: the worker, and what it has started."""


@pytest.mark.parametrize("seed", range(max(1, ROUNDS // 20)))
def test_kill_9_of_anything_at_any_time(batch: Batch, tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    ledger = Ledger(batch.root / "ledger")
    repos = ("one", "two")
    for repo in repos:
        batch.upstream(repo)
    names = [f"goal-{number}" for number in range(GOALS)]
    for number, name in enumerate(names):
        batch.goal(name, ledger.writes(name, 4, seconds=0.5), repo=repos[number % 2])

    killed, told = _storm(batch, dice)
    finished = batch.run(batch.root / "goals", "--max", "4", timeout=300)

    assert finished.exit_code == 0, f"after {killed}: {finished.stdout}{finished.stderr}"
    assert set(batch.states().values()) == {"done"}, killed
    require_each_once(batch, ledger)
    for number, repo in enumerate(repos):
        require_linear(batch.repos[repo])
        assert sorted(merged_goals(batch.repos[repo])) == sorted(names[number::2])
        require_green_history(batch.repos[repo], tmp_path / "history")
        written = git(batch.repos[repo], "ls-tree", "--name-only", "main", "texts/").split()
        expected = {f"texts/{name}-{n}.txt" for name in names[number::2] for n in range(1, 5)}
        assert expected.issubset(written)  # there are more where a check was killed, and so was red
    assert batch.leftovers() == [], told + finished.stdout
    assert list(batch.ralph_dir.glob("mirrors/**/*.git/**/*.lock")) == []
    assert len(set(killed)) >= ENOUGH, f"hardly anything was killed: {killed}"


def _storm(batch: Batch, dice: random.Random) -> tuple[list[str], str]:
    """Kill the queue worker or something that it has started, again and again; tell what was, and what it said."""
    killed: list[str] = []
    told = ""
    ends, longest = time.monotonic() + STORM, 6.0
    while time.monotonic() < ends or (len(set(killed)) < ENOUGH and longest < 100):
        with batch.start(batch.root / "goals", "--max", "4") as running:
            if time.monotonic() < ends:
                dies = min(ends, time.monotonic() + dice.uniform(1, longest))
            else:  # on a machine so busy that hardly any worker has come to start anything
                longest *= 2
                dies = time.monotonic() + longest
            while time.monotonic() < dies and psutil.Process(running.pid).status() != psutil.STATUS_ZOMBIE:
                time.sleep(dice.uniform(0.2, 1.5))
                killed += _kill_one(running, dice)
            psutil.Process(running.pid).kill()
            killed.append("worker")
            told += running.wait().stdout
    return killed, told


def _kill_one(running: RunningRalph, dice: random.Random) -> list[str]:
    """Kill one of the worker's `ralph run` and `ralph check`, of their guardians, of the agents and what those run.

    Not a git, nor what may become one in a moment: that of `ralph run` fails is taken for a fault of its repository.
    The worker's own are killed in a test of their own.
    """
    with suppress(psutil.NoSuchProcess):
        family = psutil.Process(running.pid).children(recursive=True)
        grown = time.time() - 0.3
        victims = [process for process in family if process.create_time() < grown and process.name() != "git"]
        if victims:
            victim = dice.choice(victims)
            command = " ".join(victim.cmdline()[:6])
            victim.kill()
            return [command]
    return []


DYING_GIT = """#!/bin/sh
# Dies once of each command that the queue worker gives in a mirror, or makes a clone with.
skip=
for word in "$@"; do
    if [ -n "$skip" ]; then skip=; continue; fi
    case $word in -C|-c) skip=yes ;; -*) ;; *) break ;; esac
done
case "$GIT_DIR:$word" in */mirrors/*|*:clone|*:checkout) ;; *) exec {git} "$@" ;; esac
mkdir {died}/"$word" 2>/dev/null || exec {git} "$@"
{first}
kill -9 $$
"""


@pytest.mark.parametrize("first", ["", '{git} "$@"'], ids=["before it does anything", "when all is done"])
def test_a_git_that_is_killed_is_nobodys_fault(batch: Batch, bin_dir: Path, first: str) -> None:
    """The kernel kills what it likes when memory is short: no goal pays for that, or is stuck."""
    (died := batch.root / "died").mkdir()
    real = str(shutil.which("git"))
    (bin_dir / "git").write_text(DYING_GIT.format(git=real, died=died, first=first.format(git=real)))
    (bin_dir / "git").chmod(0o755)
    upstream = batch.upstream()
    for name in ("one", "two"):
        batch.goal(name, wrote(name))

    done = batch.run(batch.root / "goals", "--repo", upstream)

    assert done.exit_code == 0, done.stdout + done.stderr
    assert {goal["attempts"] for goal in batch.goals().values()} == {1}
    assert sorted(merged_goals(upstream)) == ["one", "two"]
    asked = {path.name for path in died.iterdir()}
    assert {"ls-remote", "fetch", "clone", "checkout", "merge-tree", "commit-tree", "push", "update-ref"} <= asked


def test_the_judge_sees_what_it_is_there_to_see() -> None:
    began = [Began("a", "r1", 1, 0), Began("a", "r1", 2, 1), Began("a", "r1", 2, 1), Began("a", "r1", 3, 2)]
    branch = [("r1", 1), ("r1", 2), ("r1", 3)]
    assert faults(began, [("a", branch)]) == []
    again = [*began, Began("a", "r1", 3, 3)]
    assert "is not the first unfinished one" in faults(again, [("a", branch)])[0]
    lost = [*began, Began("a", "r1", 2, 1)]
    assert "came after iteration 3" in faults(lost, [("a", branch)])[0]
    assert "[1, 2, 2, 3]" in faults(began, [("a", [*branch[:2], *branch[1:]])])[0]
    assert "[1, 3]" in faults(began, [("a", [branch[0], branch[2]])])[0]
    assert "no agent knows of" in faults(began[:2], [("a", branch)])[0]


def test_the_judge_reads_what_is_kept(batch: Batch) -> None:
    ledger = Ledger(batch.root / "ledger")
    batch.upstream("one")
    batch.goal("plain", ledger.writes("plain", 2, seconds=0), repo="one")
    assert batch.run(batch.root / "goals").exit_code == 0
    require_each_once(batch, ledger)
    assert [(entry.goal, entry.iteration, entry.finished) for entry in ledger.lines] == [
        ("plain", 1, 0),
        ("plain", 2, 1),
    ]
    run = ledger.lines[0].run
    kept = {ref.partition(":")[2]: pairs for ref, pairs in committed(batch).items()}
    (queue,) = (path.name for path in batch.ralph_dir.glob("batch/*"))
    done, attempt = kept[f"refs/ralph/done/{queue}/g1-plain"], kept[f"refs/ralph/attempts/{queue}/g1-plain/1"]
    assert done == attempt == [(run, 1), (run, 2)]
    ledger.path.write_text(ledger.path.read_text() + f"plain {run} 2 2\n")
    with pytest.raises(AssertionError, match="is not the first unfinished one"):
        require_each_once(batch, ledger)
