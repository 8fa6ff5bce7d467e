"""What goals that are left will probably take: a range, from those done, and nothing from too few of them."""

from collections.abc import Mapping

import pytest

from ralph.queue.goals import BatchGoal, State
from ralph.queue.news import Budget, Bulletin, GoalStatus
from ralph.queue.stats import LEAST, Forecast, Reach, figures_of, forecast, foretold, left_of


def goal(
    number: int, state: State, cost: float = 0.0, tokens: int = 0, seconds: float = 0.0, after: tuple[int, ...] = ()
) -> BatchGoal:
    return BatchGoal(
        number, f"goal-{number}", "", "", "", "repo", "b", state, 0, 0,
        after=after, cost_usd=cost, tokens=tokens, seconds=seconds,
    )  # fmt: skip


DONE = [
    goal(1, State.DONE, 1.0, 1000, 60.0),
    goal(2, State.DONE, 2.0, 2000, 120.0),
    goal(3, State.DONE, 6.0, 6000, 360.0),
]
"""On average three dollars, 3,000 tokens, three minutes."""


def queued(*numbers: int) -> list[BatchGoal]:
    return [goal(number, State.QUEUED) for number in numbers]


def made(
    goals: list[BatchGoal], slots: int = 1, statuses: Mapping[int, GoalStatus] | None = None, now: float = 0.0
) -> Forecast:
    found = forecast(goals, figures_of(goals), slots, statuses, now)
    assert found is not None
    return found


def test_money_and_tokens_are_added_up_and_the_dear_ones_count() -> None:
    found = made(DONE + queued(4, 5))
    assert found.cost_usd == Reach(low=2 * 1.5, about=2 * 3.0, high=2 * 4.0)
    assert found.tokens == Reach(2 * 1500, 2 * 3000, 2 * 4000)
    assert (found.goals, found.after) == (2, 3)


def test_too_few_that_are_done_say_nothing() -> None:
    assert forecast(queued(4), figures_of(DONE[: LEAST - 1]), 1) is None


def test_nothing_left_needs_no_forecast() -> None:
    done = figures_of(DONE)
    assert forecast(DONE, done, 1) is None
    assert forecast([goal(4, State.STUCK), goal(5, State.DRAFT), goal(6, State.CANCELLED)], done, 1) is None


def test_what_waits_in_vain_is_not_to_come() -> None:
    goals = [*DONE, goal(4, State.STUCK), goal(5, State.QUEUED, after=(4,)), *queued(6)]
    assert made(goals).goals == 1


def test_an_agent_that_names_no_cost_is_foretold_by_its_tokens_and_its_time() -> None:
    free = [goal(number, State.DONE, 0.0, 1000, 60.0) for number in (1, 2, 3)]
    found = made(free + queued(4))
    assert found.cost_usd is None
    assert found.tokens == Reach(1000, 1000, 1000)
    assert found.words == "1 goal left: about 1,000 tokens, about 1m00s; estimated from 3 done"


@pytest.mark.parametrize(("slots", "minutes"), [(1, 12), (2, 6), (3, 6), (4, 3), (9, 3)])
def test_the_clock_goes_by_the_slots(slots: int, minutes: int) -> None:
    seconds = made(DONE + queued(4, 5, 6, 7), slots).seconds
    assert seconds is not None
    assert seconds.about == minutes * 60


def test_goals_that_come_after_each_other_take_their_time_however_many_slots_there_are() -> None:
    chain = [goal(4, State.QUEUED), goal(5, State.QUEUED, after=(4,)), goal(6, State.QUEUED, after=(5,))]
    seconds = made(DONE + chain, 8).seconds
    assert seconds is not None
    assert seconds.about == 9 * 60


def test_what_goals_at_work_have_used_is_not_still_to_come() -> None:
    goals = [*DONE, goal(4, State.RUNNING), goal(5, State.RUNNING), goal(6, State.QUEUED, after=(5,))]
    statuses = {
        4: GoalStatus(cost_usd=2.5, tokens=2500, started=1000.0),
        5: GoalStatus(cost_usd=9.0, tokens=9000, started=400.0),
    }
    found = made(goals, 2, statuses=statuses, now=1060.0)
    assert found.cost_usd is not None
    assert found.cost_usd.about == pytest.approx(0.75 + 0.75 + 3.0), "none is done before it is: a quarter at least"
    assert found.seconds is not None
    assert found.seconds.about == pytest.approx(45.0 + 180.0), "a quarter for the second, and then the third"


def test_goals_that_have_used_more_than_others_in_all_can_exceed_a_budget_too() -> None:
    goals = [*DONE, goal(4, State.RUNNING), goal(5, State.QUEUED, 9.0, 9000, 999.0)]
    found = made(goals, 1, statuses={4: GoalStatus(cost_usd=4.0, tokens=4000, started=10.0)}, now=510.0)
    assert found.exceeds(Budget(1.4, 1400, 80.0)) == ("cost", "tokens", "time")
    assert found.exceeds(Budget(1.6, 1600, 100.0)) == ()


def test_a_budget_that_will_probably_not_do_is_named() -> None:
    found = made(DONE + queued(4, 5))
    assert found.exceeds(Budget()) == ()
    assert found.exceeds(Budget(6.0, 6000, 360.0)) == ()
    assert found.exceeds(Budget(5.9, 5999, 359.0)) == ("cost", "tokens", "time")
    assert found.exceeds(Budget(tokens=1)) == ("tokens",)


def test_a_bulletin_tells_what_is_left_and_what_is_to_come() -> None:
    bulletin = Bulletin(
        at=1060.0, host="", pid=1, since=900.0, seconds=60.0, slots=1, budget=Budget(5.0, 1000, 90.0), spent_usd=4.0,
        spent_tokens=2000, statuses={4: GoalStatus(cost_usd=1.0, started=1000.0)},
    )  # fmt: skip
    assert left_of(bulletin) == Budget(1.0, 0, 30.0)
    found = foretold([goal(4, State.RUNNING)], figures_of(DONE), bulletin)
    assert found is not None
    assert found.exceeds(left_of(bulletin)) == ("cost", "tokens", "time")
    assert found.words == (
        "1 goal left: about $2.00 ($0.50 to $3.00), about 3,000 (1,500 to 4,000) tokens, about 2m00s (30s to 3m00s);"
        " estimated from 3 done"
    )
