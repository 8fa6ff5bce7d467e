"""Proven work is merged before new attempts start, unless its merge waits for something outside."""

from __future__ import annotations

from tests.support.batches import Batch, merged_goals, wrote
from tests.support.ralph_process import RunningRalph


def held_merges(batch: Batch) -> str:
    """A check that is green at once in a goal's clone, and in a merge's checkout once a file is there."""
    return f"#!/bin/sh\ncase $PWD in *checkouts*) until [ -e {batch.root}/go-on ]; do sleep 0.05; done;; esac\n"


def proven(batch: Batch, running: RunningRalph, count: int) -> None:
    """Wait until so many goals are past their attempt, and no more; for each of them as long as it takes."""
    for number in range(1, count + 1):
        running.wait_until(lambda number=number: number <= merging(batch) <= count, f"{number} proven goals")


def merging(batch: Batch) -> int:
    told = batch.bulletin()
    return 0 if told is None else len(told.merging)


def test_no_attempt_starts_while_proven_work_waits_for_its_merge(batch: Batch) -> None:
    upstream = batch.upstream(check=held_merges(batch))
    elsewhere = batch.upstream("elsewhere")
    goals = [batch.goal(name, wrote(name), repo="upstream", priority=9) for name in ("one", "two", "three")]
    with batch.start("--all", *goals, "--max", "1") as running:
        proven(batch, running, 2)
        other = batch.goal("other", wrote("other"), repo="elsewhere")
        assert batch.runs("add", other, "--queue", cwd=batch.root).exit_code == 0
        running.wait_until(lambda: merged_goals(elsewhere) == ["other"], "the goal of a repository without merges")
        assert batch.states()["three"] == "queued", "it would have been the first"
        (batch.root / "go-on").touch()
        assert running.wait().exit_code == 0
    assert sorted(merged_goals(upstream)) == ["one", "three", "two"]


def test_attempts_go_on_while_a_merge_waits_for_its_remote(batch: Batch) -> None:
    upstream = batch.upstream(check=held_merges(batch))
    goals = [batch.goal(name, wrote(name), repo="upstream") for name in ("one", "two", "three")]
    with batch.start(*goals, "--max", "1") as running:
        proven(batch, running, 2)
        away = upstream.rename(batch.root / "away.git")
        (batch.root / "go-on").touch()
        proven(batch, running, 3)
        away.rename(upstream)
        assert running.wait().exit_code == 0
    assert sorted(merged_goals(upstream)) == ["one", "three", "two"]
