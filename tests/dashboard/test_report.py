"""What is said of goals in lists, and what there is to do about one."""

from __future__ import annotations

from pathlib import Path

import pytest

from ralph.core.reason import written
from ralph.dashboard.report import cost, next_step, tally
from ralph.queue.goals import State
from ralph.queue.open import QueueAddress
from tests.dashboard.boards import goal


@pytest.mark.parametrize(
    ("state", "facts", "said"),
    [
        (State.QUEUED, {}, ""),
        (State.RUNNING, {"starts": 1, "run": "r"}, ""),
        (State.RUNNING, {"starts": 1, "run": "r", "iterations": 1}, "unknown"),
        (State.STUCK, {"starts": 4, "run": "r"}, "unknown"),
        (State.STUCK, {"starts": 1, "run": ""}, ""),
        (State.DONE, {"starts": 1, "run": "r", "iterations": 1, "costed": True}, "$0.00"),
        (State.DONE, {"starts": 1, "run": "r", "iterations": 1, "cost_usd": 1.5}, "$1.50"),
    ],
)
def test_what_a_goal_has_cost_as_far_as_anybody_knows(state: State, facts: dict[str, object], said: str) -> None:
    assert cost(goal(1, "one", state, **{"starts": 0, **facts})) == said


def test_all_that_was_spent_and_of_how_many_that_is_not_known() -> None:
    goals = [goal(1, "one", State.DONE, cost_usd=1.5), goal(2, "two", State.STUCK, starts=1, run="r")]
    assert tally(goals) == "2 goals: 1 done, 1 stuck · $1.50 · cost of 1 unknown"


def test_what_is_given_up_and_was_cut_off_at_its_merge_is_not_to_be_given_up_again() -> None:
    left = goal(1, "one", State.RUNNING, cancelling=True, unmerged={"proven": True})
    assert "cancel" not in written(next_step(left, cut_off=True))
    assert written(next_step(left, cut_off=True)).endswith(": ralph-runs run --all")


@pytest.mark.parametrize(
    ("url", "flag"),
    [
        ("postgresql://me:secret@db/q", " --db postgresql://me@db/q"),
        ("postgresql://me:se:c@ret@db:5433/q", " --db postgresql://me@db:5433/q"),
        ("postgresql://me@db/q?password=secret", " --db postgresql://me@db/q"),
        ("postgresql://db/q", " --db postgresql://db/q"),
        ("sqlite:////state/runs.sqlite", ""),
    ],
)
def test_a_command_names_the_queue_and_its_user_and_never_the_password(url: str, flag: str) -> None:
    assert QueueAddress(url, Path("/state"), {}, most=2, agent="claude").flag == flag
