"""What a session may use: where it is told to wrap up, and where it is stopped."""

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ralph.core.limits import NO_BOUNDS, Bound, Limit, Limits, Measure, Used, allowance, for_summary
from ralph.core.usage import Spend


def used(cost: float = 0.0, tokens: int = 0, seconds: float = 0.0) -> Used:
    return Used(Spend(cost, tokens, costed=True, counted=True), seconds)


def given_limits(limits: Limits, *, cost: float = 0.0, tokens: int = 0, elapsed: float = 0.0, timeout: float = 3600.0):
    return allowance(limits, spent=Spend(cost, tokens), elapsed=elapsed, timeout=timeout)


def test_without_limits_nothing_ends_a_session() -> None:
    assert NO_BOUNDS.exhausted(used(1e9, 10**15, 1e9)) is None
    assert NO_BOUNDS.nearly_exhausted(used(1e9, 10**15, 1e9)) is None
    assert (NO_BOUNDS.dollars, NO_BOUNDS.counts) == (None, False)


@pytest.mark.parametrize(
    ("limits", "fine", "near", "over", "name"),
    [
        (Limits(cost_usd=10.0), used(cost=8.99), used(cost=9.0), used(cost=10.0), "--max-cost"),
        (Limits(tokens=1000), used(tokens=899), used(tokens=900), used(tokens=1000), "--max-tokens"),
        (Limits(duration=100.0), used(seconds=89.0), used(seconds=90.0), used(seconds=100.0), "--duration"),
        (Limits(iteration_cost_usd=10.0), used(cost=8.99), used(cost=9.0), used(cost=10.0), "max_iteration_cost"),
        (Limits(iteration_tokens=1000), used(tokens=899), used(tokens=900), used(tokens=1000), "max_iteration_tokens"),
    ],
)
def test_nine_tenths_are_a_warning_and_the_whole_is_the_end(
    limits: Limits, fine: Used, near: Used, over: Used, name: str
) -> None:
    given = given_limits(limits)
    assert (given.nearly_exhausted(fine), given.exhausted(fine), given.exhausted(near)) == (None, None, None)
    for bound in (given.nearly_exhausted(near), given.exhausted(over)):
        assert bound is not None
        assert bound.name == name
        assert bound.limit == (Limit(name) if name.startswith("--") else None)


def test_what_earlier_sessions_have_used_counts_for_the_run_but_not_for_the_iteration() -> None:
    given = given_limits(Limits(cost_usd=10.0, iteration_cost_usd=5.0), cost=6.0)
    near = given.nearly_exhausted(used(cost=3.0))
    assert near is not None
    assert near.limit is Limit.COST
    assert given.dollars == 4.0
    assert given_limits(Limits(cost_usd=10.0, iteration_cost_usd=3.0), cost=6.0).dollars == 3.0


def test_a_session_that_begins_beyond_nine_tenths_is_not_interrupted_at_its_first_word() -> None:
    given = given_limits(Limits(cost_usd=10.0), cost=9.5)
    assert given.nearly_exhausted(used(cost=0.44)) is None
    assert given.nearly_exhausted(used(cost=0.45)) is not None
    assert given.exhausted(used(cost=0.5)) is not None


def test_the_time_of_an_iteration_is_a_limit_of_the_session() -> None:
    given = given_limits(Limits(), timeout=60.0)
    assert given.nearly_exhausted(used(seconds=53.9)) is None
    near = given.nearly_exhausted(used(seconds=54.0))
    assert near is not None
    assert near.words == "iteration_timeout 1m00s"
    end = given.exhausted(used(seconds=60.0))
    assert end is not None
    assert end.limit is None


def test_only_limits_on_use_need_to_be_counted() -> None:
    assert not given_limits(Limits(duration=60.0)).counts
    assert given_limits(Limits(tokens=1)).counts
    assert given_limits(Limits(iteration_cost_usd=1.0)).counts


def test_the_agent_is_told_how_much_of_what_it_has_used() -> None:
    words = Bound(Measure.COST, "--max-cost", 0.5, 0.5, 0.45, Limit.COST).plea
    assert words.startswith("90 % of the run's budget is used (--max-cost $0.50). Start nothing new")
    own = Bound(Measure.TOKENS, "max_iteration_tokens", 10**9, 10**9, 0.9e9).plea
    assert own.startswith("90 % of this session's budget is used (max_iteration_tokens 1,000,000,000).")
    assert len(own) <= 160, "so much of a message is shown"


def test_a_call_that_may_end_waits_for_time_only() -> None:
    given = given_limits(Limits(cost_usd=1.0, tokens=10, duration=60.0))
    over = used(cost=2.0, tokens=20, seconds=1.0)
    assert given.exhausted(over) is not None
    assert given.exhausted(over, but_use=True) is None
    late = given.exhausted(used(cost=2.0, tokens=20, seconds=61.0), but_use=True)
    assert late is not None
    assert late.limit is Limit.DURATION


def test_a_summarizer_has_a_tenth_of_what_is_left_of_money_and_tokens() -> None:
    left = given_limits(Limits(cost_usd=10.0, tokens=1000, duration=60.0, iteration_cost_usd=9.0), cost=5.0)
    given = for_summary(left)
    assert given.dollars == 0.5
    assert given.nearly_exhausted(used(cost=0.44, tokens=89)) is None
    assert given.exhausted(used(cost=0.49, tokens=99)) is None
    for over in (used(cost=0.5), used(tokens=100), used(cost=100.0, tokens=10**6)):
        bound = given.exhausted(over)
        assert bound is not None
        assert bound.limit is None, "its own: the run goes on"
    late = given.exhausted(used(seconds=60.0))
    assert late is not None
    assert late.limit is Limit.DURATION
    near = given.nearly_exhausted(used(cost=0.45))
    assert near is not None
    assert near.words == "a tenth of the rest of --max-cost: $0.50"
    assert for_summary(given_limits(Limits(), timeout=60.0)) == given_limits(Limits(), timeout=60.0)


FIGURES = st.floats(0.01, 1e6)


@given(limit=FIGURES, before=FIGURES, spent=FIGURES)
def test_a_warning_comes_before_the_end_and_never_at_once(limit: float, before: float, spent: float) -> None:
    assume(before < limit - 1e-6)
    given = given_limits(Limits(cost_usd=limit), cost=before)
    assert given.nearly_exhausted(used()) is None
    assert given.exhausted(used()) is None
    if given.exhausted(used(cost=spent)) is not None:
        assert given.nearly_exhausted(used(cost=spent)) is not None


@given(limit=FIGURES, before=st.floats(0, 1e6))
def test_who_has_used_the_money_that_was_given_has_reached_the_limit(limit: float, before: float) -> None:
    assume(before < limit - 1e-6)
    given = given_limits(Limits(cost_usd=limit), cost=before)
    assert given.dollars is not None
    assert given.exhausted(used(cost=float(f"{given.dollars:.6f}"))) is not None
    assert given.dollars <= limit - before + 1e-5
    assert math.isfinite(given.dollars)
