"""Which goal starts next, and what becomes of one whose attempt has ended."""

from dataclasses import replace

import pytest

from ralph.queue.goals import (
    MOST_ATTEMPTS,
    MOST_KILLED,
    AttemptEnd,
    BatchGoal,
    Fate,
    State,
    batch_exit_code,
    fate,
    find_cycle,
    retry_or_stuck,
    startable,
    waits_in_vain,
    whole_order,
)


def goal(number: int, state: State = State.QUEUED, *, after: tuple[int, ...] = (), priority: int = 0) -> BatchGoal:
    return BatchGoal(
        number, f"goal-{number}", f"Goal {number}", "", "", "repo", "b", state, 0, 0, priority, after, attempts=0
    )


def ids(goals: list[BatchGoal]) -> list[int]:
    return [item.id for item in goals]


def test_the_older_goal_starts_first() -> None:
    assert ids(startable([goal(2), goal(1)], lambda _: False)) == [1, 2]


def test_a_higher_priority_goes_before_age() -> None:
    assert ids(startable([goal(1), goal(2, priority=1), goal(3, priority=-1)], lambda _: False)) == [2, 1, 3]


def test_the_untried_go_before_the_retried_of_the_same_priority() -> None:
    tried = replace(goal(1), attempts=1)
    assert ids(startable([tried, goal(2)], lambda _: False)) == [2, 1]
    assert ids(startable([replace(tried, priority=1), goal(2)], lambda _: False)) == [1, 2]


def test_attempts_that_are_forgiven_do_not_put_a_goal_back() -> None:
    assert ids(startable([replace(goal(1), attempts=4, forgiven=4), goal(2)], lambda _: False)) == [1, 2]


@pytest.mark.parametrize("state", [state for state in State if state is not State.DONE])
def test_a_goal_waits_for_the_one_it_comes_after(state: State) -> None:
    parent = goal(1, state)
    assert 2 not in ids(startable([parent, goal(2, after=(1,))], lambda _: False))


def test_a_goal_starts_when_all_its_parents_are_done() -> None:
    child = goal(3, after=(1, 2))
    assert not startable([goal(1, State.DONE), goal(2, State.RUNNING), child], lambda _: False)
    assert ids(startable([goal(1, State.DONE), goal(2, State.DONE), child], lambda _: False)) == [3]


def test_what_is_held_back_does_not_start() -> None:
    assert ids(startable([goal(1), goal(2)], lambda item: item.id == 1)) == [2]


def test_a_diamond_in_order() -> None:
    diamond = [goal(1, after=(2, 3)), goal(2, after=(4,)), goal(3, after=(4,), priority=5), goal(4)]
    assert ids(whole_order(diamond)) == [4, 3, 2, 1]


def test_what_waits_in_vain_comes_last_in_the_order() -> None:
    assert ids(whole_order([goal(1, State.STUCK), goal(2, after=(1,)), goal(3)])) == [3, 2]


@pytest.mark.parametrize(
    ("after", "cycle"),
    [
        ({}, ()),
        ({1: (2,), 2: (3,), 3: ()}, ()),
        ({1: (2, 3), 2: (4,), 3: (4,), 4: ()}, ()),
        ({1: (1,)}, (1, 1)),
        ({1: (2,), 2: (1,)}, (1, 2, 1)),
        ({1: (2,), 2: (3,), 3: (4,), 4: (2,)}, (2, 3, 4, 2)),
        ({5: (), 1: (5, 2), 2: (5, 3), 3: (5, 1)}, (1, 2, 3, 1)),
    ],
)
def test_goals_that_wait_for_each_other_are_named(after: dict[int, tuple[int, ...]], cycle: tuple[int, ...]) -> None:
    assert find_cycle(after) == cycle


def test_children_and_grandchildren_of_what_is_stuck_wait_in_vain() -> None:
    stuck, child, grandchild, free = goal(1, State.STUCK), goal(2, after=(1,)), goal(3, after=(2,)), goal(4)
    assert waits_in_vain([stuck, child, grandchild, free]) == {2: stuck, 3: child}


@pytest.mark.parametrize(
    ("exit_code", "expected"),
    [
        (0, Fate.MERGE),
        (1, Fate.RETRY),
        (2, Fate.STUCK),
        (3, Fate.RETRY),
        (4, Fate.STUCK),
        (5, Fate.RETRY),
        (6, Fate.STUCK),
        (129, Fate.REQUEUE),
        (130, Fate.REQUEUE),
        (143, Fate.REQUEUE),
        (-9, Fate.REQUEUE),
        (77, Fate.STUCK),
    ],
)
def test_the_exit_code_decides(exit_code: int, expected: Fate) -> None:
    assert fate(replace(goal(1, State.RUNNING), attempts=1), AttemptEnd(exit_code)) is expected


def test_after_the_last_attempt_a_goal_is_stuck() -> None:
    assert retry_or_stuck(replace(goal(1), attempts=MOST_ATTEMPTS - 1)) is Fate.RETRY
    assert retry_or_stuck(replace(goal(1), attempts=MOST_ATTEMPTS)) is Fate.STUCK
    assert retry_or_stuck(replace(goal(1), attempts=MOST_ATTEMPTS + 1, forgiven=MOST_ATTEMPTS)) is Fate.RETRY


def test_a_goal_that_is_killed_again_and_again_pays_for_it() -> None:
    worn = replace(goal(1, State.RUNNING), attempts=1, killed=MOST_KILLED - 1)
    assert fate(worn, AttemptEnd(-9)) is Fate.RETRY
    assert fate(worn, AttemptEnd(-9, iterations=1)) is Fate.REQUEUE
    assert fate(worn, AttemptEnd(130, asked=True)) is Fate.REQUEUE


def test_a_batch_is_done_when_all_its_goals_are() -> None:
    assert batch_exit_code([goal(1, State.DONE)]) == 0
    assert batch_exit_code([goal(1, State.DONE), goal(2, State.STUCK)]) == 1
