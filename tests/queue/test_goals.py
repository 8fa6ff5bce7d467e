"""The states of a goal: every pair of them, one by one."""

import pytest

from ralph.queue.goals import NEXT, State, may_become

ALLOWED = """
draft -> queued
draft -> cancelled
queued -> running
queued -> stuck
queued -> cancelled
queued -> draft
running -> queued
running -> done
running -> stuck
running -> cancelled
stuck -> queued
stuck -> cancelled
cancelled -> queued
done -> undone
undone -> queued
"""


@pytest.mark.parametrize("now", State)
@pytest.mark.parametrize("then", State)
def test_every_pair_of_states(now: State, then: State) -> None:
    assert may_become(now, then) is (f"{now} -> {then}" in ALLOWED.split("\n"))


def test_every_state_has_its_row() -> None:
    assert set(NEXT) == set(State)
