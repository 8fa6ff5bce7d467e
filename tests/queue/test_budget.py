"""What all goals together may use: what counts, what is left, and what of it an attempt is given."""

from dataclasses import replace

import pytest

from ralph.core.limits import Limit, Limits
from ralph.core.usage import Spend
from ralph.dashboard.reasons import reason_line
from ralph.queue.budget import BatchBudget, Share, share_of
from ralph.queue.goals import BatchGoal, State
from ralph.queue.news import Budget


def goal(number: int, cost: float = 0.0, tokens: int = 0, state: State = State.QUEUED) -> BatchGoal:
    return BatchGoal(number, "", "", "", "", "repo", "b", state, 0, 0, cost_usd=cost, tokens=tokens)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_what_goals_had_used_before_does_not_count() -> None:
    batch = BatchBudget(Budget(1.0, 100), [goal(1, 5.0, 500)])
    batch.note(1, Spend(5.25, 520))
    batch.note(2, Spend(0.25, 10))
    assert (batch.spent.cost_usd, batch.spent.tokens) == (0.5, 30)
    assert batch.left == Budget(0.5, 70)
    assert not batch.reached


def test_what_a_start_finds_that_nobody_had_counted_is_not_charged_to_the_worker_that_finds_it() -> None:
    batch = BatchBudget(Budget(1.0, 100), [goal(1, 5.0, 0)])
    batch.found(1, Spend(5.5, 400))  # a session that was cut off with the last worker; a queue that counted no tokens
    assert batch.left == Budget(1.0, 100)
    batch.reckon([goal(1, 5.0, 0, State.RUNNING)])
    batch.note(1, Spend(5.75, 420))
    assert batch.left == Budget(0.75, 80)
    batch.found(1, Spend(5.9, 430))  # at its second start: what this worker's own first one left uncounted
    batch.reckon([goal(1, 6.0, 440)])
    assert batch.left == Budget(0.5, 60)


def test_what_is_lent_counts_from_what_was_found() -> None:
    batch = BatchBudget(Budget(tokens=100), [goal(1)])
    batch.lend(1)
    batch.found(1, Spend(0.0, 5000))
    assert batch.taken_by is None
    batch.note(1, Spend(0.0, 5100))
    assert batch.taken_by == 1


def test_a_goal_at_work_may_have_said_more_than_the_queue_knows_and_one_that_has_ended_may_not() -> None:
    batch = BatchBudget(Budget(1.0), [goal(1)])
    batch.note(1, Spend(0.9, 9))
    batch.reckon([goal(1, 0.5, 5, State.RUNNING)])
    assert batch.spent.cost_usd == 0.9
    batch.reckon([goal(1, 0.7, 7)])  # the agent's own figure, in the end
    assert batch.spent.cost_usd == pytest.approx(0.7)


@pytest.mark.parametrize(
    ("budget", "used", "said"),
    [
        (Budget(cost_usd=0.3), Spend(0.1 + 0.2, 1), "--max-cost: $0.30 of $0.30 spent"),
        (Budget(cost_usd=0.3), Spend(0.299, 1), ""),
        (Budget(tokens=100), Spend(0.1, 1200), "--max-tokens: 1,200 of 100 tokens used"),
        (Budget(tokens=100), Spend(0.1, 99), ""),
        (Budget(), Spend(1000.0, 10**9), ""),
    ],
)
def test_what_is_used_up_is_said(budget: Budget, used: Spend, said: str) -> None:
    batch = BatchBudget(budget, [])
    batch.note(7, used)
    assert reason_line(batch.reached) == said


def test_time_is_counted_from_the_start_of_the_worker() -> None:
    clock = Clock()
    batch = BatchBudget(Budget(seconds=60.0), [], clock)
    clock.now += 59.0
    assert batch.left == Budget(seconds=1.0)
    assert not batch.reached
    clock.now += 1.0
    assert reason_line(batch.reached) == "--max-time: 1m00s used"


@pytest.mark.parametrize("budget", [Budget(cost_usd=1.0), Budget(tokens=100)])
def test_only_a_goal_that_has_taken_all_alone_is_left_to_its_own_limit(budget: Budget) -> None:
    together = BatchBudget(budget, [])
    alone = BatchBudget(budget, [])
    for batch in (together, alone):
        assert batch.lend(1) == budget
    together.lend(2)
    together.note(2, Spend(0.1, 10))
    together.note(1, Spend(0.9, 90))
    alone.note(1, Spend(1.0, 100))
    assert together.reached
    assert together.taken_by is None
    assert alone.reached
    assert alone.taken_by == 1


def test_without_a_budget_and_before_any_run_is_over_nothing_is_said() -> None:
    assert share_of(Limits(cost_usd=5.0, tokens=9, duration=60.0), Spend(), Spend(1.0, 5), Budget()) == Share()


def test_what_is_left_comes_on_top_of_what_the_unfinished_run_has_used() -> None:
    share = share_of(Limits(), Spend(9.0, 900), Spend(1.5, 50), Budget(0.5, 20, 90.0))
    assert share.flags == ("--max-cost=2.000000", "--max-tokens=70", "--duration=90.0s")
    assert share.lent == {Limit.COST, Limit.TOKENS, Limit.DURATION}


def test_a_goals_own_limit_counts_where_it_is_less_and_holds_for_all_its_runs() -> None:
    own = Limits(cost_usd=3.0, tokens=100, duration=60.0)
    share = share_of(own, Spend(2.0, 20), Spend(), Budget(5.0, 500, 3600.0))
    assert share == Share(("--max-cost=1.000000", "--max-tokens=80"))


@pytest.mark.parametrize(
    ("earlier", "words", "limit"),
    [
        (Spend(3.0, 1), "its runs have cost $3.00", Limit.COST),
        (Spend(0.0, 1200), "its runs have used 1,200 tokens", Limit.TOKENS),
    ],
)
def test_a_goal_that_has_used_up_its_own_limit_gets_nothing(earlier: Spend, words: str, limit: Limit) -> None:
    share = share_of(Limits(cost_usd=3.0, tokens=100), earlier, Spend(), Budget(5.0))
    assert share == Share(used_up=words, limit=limit)


def test_a_share_is_rounded_down_and_says_what_a_flag_can_say() -> None:
    share = share_of(Limits(), Spend(), Spend(), Budget(0.1234567, 0, 0.01))
    assert share.flags == ("--max-cost=0.123456", "--max-tokens=1", "--duration=1.0s")
    small = share_of(Limits(), Spend(), Spend(), Budget(0.00001))
    assert small.flags == ("--max-cost=0.000100",)


def test_a_goal_that_comes_later_counts_whole() -> None:
    batch = BatchBudget(Budget(1.0), [goal(1)])
    batch.reckon([goal(1), replace(goal(2, 0.4, 4), state=State.DONE)])
    assert batch.spent.cost_usd == pytest.approx(0.4)
