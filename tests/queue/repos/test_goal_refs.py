"""Queues share a mirror; a branch in it is one goal's."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from ralph.queue.repos.goal_refs import release, reserve
from ralph.queue.repos.mirror import Mirror
from tests.support.upstreams import make_upstream, refreshed


@pytest.fixture
def mirror(world: Path, tmp_path: Path) -> Mirror:
    return refreshed(world, make_upstream(tmp_path / "up.git", {"a.txt": "a\n"}))


def test_a_branch_is_the_first_ones_until_he_lets_it_go(mirror: Mirror) -> None:
    assert reserve(mirror, "ralph/speed", "one/g1")
    assert reserve(mirror, "ralph/speed", "one/g1")
    assert not reserve(mirror, "ralph/speed", "two/g1")
    release(mirror, "ralph/speed")
    assert reserve(mirror, "ralph/speed", "two/g1")


def test_names_do_not_stand_in_each_others_way(mirror: Mirror) -> None:
    assert all(reserve(mirror, branch, "one") for branch in ("a", "a/b", "a/b/c"))


def test_no_two_branches_share_a_reservation(mirror: Mirror) -> None:
    branches = ("a/b", "a+b", "a%2bb", "a%2fb", "a%252bb")
    assert all(reserve(mirror, branch, f"for {branch}") for branch in branches)
    release(mirror, "a+b")
    assert not reserve(mirror, "a/b", "another")
    assert reserve(mirror, "a+b", "another")


def test_of_many_at_once_one_gets_it(mirror: Mirror) -> None:
    got: list[str] = []
    barrier = threading.Barrier(8)

    def try_it(owner: str) -> None:
        barrier.wait()
        if reserve(mirror, "ralph/speed", owner):
            got.append(owner)

    threads = [threading.Thread(target=try_it, args=(f"queue-{number}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 1
