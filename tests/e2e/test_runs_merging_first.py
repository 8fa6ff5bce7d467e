"""Proven work is merged before new attempts start, unless its merge waits for something outside."""

from __future__ import annotations

import pytest

from ralph.batch.bulletin import Bulletin
from tests.support.batches import Batch, merged_goals, wrote
from tests.support.waiting import PATIENCE, comes_true, wait_until


def held_merges(batch: Batch) -> str:
    """A check that is green at once in a goal's clone, and in a merge's checkout once a file is there."""
    return f"#!/bin/sh\ncase $PWD in *checkouts*) until [ -e {batch.root}/go-on ]; do sleep 0.05; done;; esac\n"


def bulletin_with(batch: Batch, merging: int) -> Bulletin:
    """The first bulletin in which so many goals are past their attempt."""
    found: list[Bulletin] = []

    def is_there() -> bool:
        told = batch.bulletin()
        found.extend([told] if told is not None and len(told.merging) == merging else [])
        return bool(found)

    if not comes_true(is_there, PATIENCE):
        pytest.fail(f"waited in vain for {merging} proven goals: {batch.bulletin()}; {batch.goals()}")
    return found[0]


def test_no_attempt_starts_while_proven_work_waits_for_its_merge(batch: Batch) -> None:
    upstream = batch.upstream(check=held_merges(batch))
    elsewhere = batch.upstream("elsewhere")
    goals = [batch.goal(name, wrote(name), repo="upstream", priority=9) for name in ("one", "two", "three")]
    with batch.start(*goals, "--max", "1") as running:
        bulletin_with(batch, merging=2)
        other = batch.goal("other", wrote("other"), repo="elsewhere")
        assert batch.runs("add", other, "--queue", cwd=batch.root).exit_code == 0
        wait_until(lambda: merged_goals(elsewhere) == ["other"], "the goal of a repository that nothing waits in")
        assert batch.states()["three"] == "queued", "it would have been the first"
        (batch.root / "go-on").touch()
        assert running.wait().exit_code == 0
    assert sorted(merged_goals(upstream)) == ["one", "three", "two"]


def test_attempts_go_on_while_a_merge_waits_for_its_remote(batch: Batch) -> None:
    upstream = batch.upstream(check=held_merges(batch))
    goals = [batch.goal(name, wrote(name), repo="upstream") for name in ("one", "two", "three")]
    with batch.start(*goals, "--max", "1") as running:
        bulletin_with(batch, merging=2)
        away = upstream.rename(batch.root / "away.git")
        (batch.root / "go-on").touch()
        bulletin_with(batch, merging=3)
        away.rename(upstream)
        assert running.wait().exit_code == 0
    assert sorted(merged_goals(upstream)) == ["one", "three", "two"]
