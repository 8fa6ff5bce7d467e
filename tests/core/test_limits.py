"""Money, tokens, time and thinking: sums and limits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.core.events import Usage
from ralph.core.limits import Limit, Limits, Reasoning, thinking_budget
from ralph.core.usage import Meter, Spend, context_pct
from tests.support.rows import rows

HAIKU = ("haiku", "claude-haiku-4-5-20251001", "claude-haiku-5-5")
SONNET = ("sonnet", "claude-sonnet-4-6", "claude-sonnet-5", "sonnet[1m]", "Claude-Sonnet-5")
OPUS = ("opus", "claude-opus-4-6", "claude-opus-4-8")
TABLE = [
    *((model, tokens) for model in HAIKU for tokens in ((0, 4096, 8192, 16384),)),
    *((model, tokens) for model in SONNET for tokens in ((0, 8192, 16384, 32768),)),
    *((model, tokens) for model in OPUS for tokens in ((0, 4096, 8192, 16384),)),
    ("claude-fable-5", (0, 4096, 8192, 16384)),
]


@pytest.mark.spec("1.3.1-d")
@rows(("model", "tokens"), TABLE)
def test_thinking_is_the_models_most_times_the_levels_share(model: str, tokens: tuple[int, ...]) -> None:
    assert tuple(thinking_budget(model, level) for level in Reasoning) == tokens


@pytest.mark.parametrize(
    ("tokens", "window", "percent"),
    [(0, 200_000, 0.0), (1264, 200_000, 0.6), (100_000, 200_000, 50.0), (500_000, 1_000_000, 50.0), (5, 0, 0.0)],
)
def test_context_is_a_share_of_the_window(tokens: int, window: int, percent: float) -> None:
    assert context_pct(tokens, window) == percent


def test_of_several_figures_of_a_session_the_last_stands() -> None:
    meter = Meter().metered(Usage(total_tokens=10, cost_usd=0.25, context_pct=5.0))
    meter = meter.metered(Usage(total_tokens=30, cost_usd=0.5, context_pct=7.5))
    assert (meter.total, meter.context_pct) == (Spend(0.5, 30, costed=True, counted=True), 7.5)


def test_a_figure_that_is_not_told_stays_as_it_was() -> None:
    meter = Meter().metered(Usage(total_tokens=10, cost_usd=0.25, context_pct=5.0)).metered(Usage())
    assert (meter.total, meter.context_pct) == (Spend(0.25, 10, costed=True, counted=True), 5.0)


def test_within_a_session_nothing_that_was_spent_is_taken_back() -> None:
    meter = Meter().metered(Usage(total_tokens=30, cost_usd=0.5, context_pct=50.0))
    meter = meter.metered(Usage(total_tokens=10, cost_usd=0.25, context_pct=5.0))
    assert (meter.total, meter.context_pct) == (
        Spend(0.5, 30, costed=True, counted=True),
        5.0,
    )  # a context can be made smaller


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        (Usage(prompt_tokens=7, completion_tokens=5), 12),
        (Usage(prompt_tokens=7), 7),
        (Usage(completion_tokens=5), 5),
        (Usage(prompt_tokens=7, completion_tokens=5, total_tokens=20), 20),
        (Usage(cost_usd=1.0), 0),
    ],
)
def test_without_a_sum_the_parts_are_added(usage: Usage, tokens: int) -> None:
    assert Meter().metered(usage).total.tokens == tokens


def test_sessions_add_up() -> None:
    meter = Meter(before=Spend(1.0, 100, costed=True, counted=True))
    for _ in range(2):
        meter = meter.next_session().metered(Usage(total_tokens=10, cost_usd=0.25))
    assert (meter.total, meter.session) == (
        Spend(1.5, 120, costed=True, counted=True),
        Spend(0.25, 10, costed=True, counted=True),
    )


def test_a_new_session_has_no_context_yet() -> None:
    assert Meter().metered(Usage(context_pct=5.0)).next_session().context_pct is None


def test_without_any_figure_the_cost_is_unknown() -> None:
    meter = Meter().metered(Usage(total_tokens=10)).next_session()
    assert not meter.total.costed
    assert meter.metered(Usage(cost_usd=0.0)).total.costed


@pytest.mark.parametrize(
    ("limits", "reached"),
    [
        (Limits(), None),
        (Limits(iterations=4, duration=61.0, cost_usd=1.01, tokens=1001), None),
        (Limits(iterations=3), Limit.ITERATIONS),
        (Limits(duration=60.0), Limit.DURATION),
        (Limits(cost_usd=1.0), Limit.COST),
        (Limits(tokens=1000), Limit.TOKENS),
        (Limits(iterations=3, duration=60.0, cost_usd=1.0, tokens=1000), Limit.ITERATIONS),
    ],
)
def test_a_limit_is_reached_when_it_is_used_up(limits: Limits, reached: Limit | None) -> None:
    assert limits.reached(iterations=3, elapsed=60.0, spend=Spend(1.0, 1000, costed=True, counted=True)) is reached


def test_a_limit_names_the_flag_that_raises_it() -> None:
    assert [str(limit) for limit in Limit] == ["--max-iterations", "--duration", "--max-cost", "--max-tokens"]


def metered(*usages: Usage) -> Meter:
    meter = Meter()
    for usage in usages:
        meter = meter.metered(usage)
    return meter


def test_an_estimate_gives_way_to_the_cost_that_the_agent_names() -> None:
    guess = Usage(total_tokens=10, cost_usd=3.0, cost_is_estimate=True)
    more = Usage(total_tokens=20, cost_usd=6.0, cost_is_estimate=True)
    told = Usage(total_tokens=20, cost_usd=0.33)
    assert metered(guess, more).total == Spend(6.0, 20, costed=True, counted=True, estimated=True)
    assert metered(guess, more, told).total == Spend(0.33, 20, costed=True, counted=True)
    assert metered(more, guess).total.cost_usd == 6.0, "nor does an estimate fall"
    both = Spend(3.33, 30, costed=True, counted=True, estimated=True)
    assert metered(guess).next_session().metered(told).total == both


def test_what_was_named_stands_and_an_estimate_of_the_rest_comes_on_top() -> None:
    told = Usage(total_tokens=20, cost_usd=0.5)
    since = Usage(total_tokens=30, cost_usd=0.7, cost_is_estimate=True)
    again = Usage(total_tokens=30, cost_usd=0.6)
    assert metered(told, since).total == Spend(0.7, 30, costed=True, counted=True, estimated=True)
    assert metered(told, since, again).total == Spend(0.6, 30, costed=True, counted=True)
    fallen = Usage(total_tokens=30, cost_usd=0.1)
    assert metered(told, since, fallen).total.cost_usd == 0.5, "what was named never falls"


USES = st.builds(
    Usage,
    prompt_tokens=st.none() | st.integers(0, 10**9),
    completion_tokens=st.none() | st.integers(0, 10**9),
    total_tokens=st.none() | st.integers(0, 10**9),
    cost_usd=st.none() | st.floats(0, 1000),
    cost_is_estimate=st.none() | st.just(True),
)


@given(st.lists(USES))
def test_what_was_spent_never_falls_but_where_a_named_cost_replaces_an_estimate(told: list[Usage]) -> None:
    meter = Meter(before=Spend(1.0, 100, costed=True, counted=True))
    for usage in told:
        after = meter.metered(usage)
        assert after.total.tokens >= meter.total.tokens
        assert after.named >= meter.named
        assert after.session.cost_usd >= after.named
        named = usage.cost_usd is not None and usage.cost_is_estimate is None
        assert named or after.total.cost_usd >= meter.total.cost_usd
        meter = after


@given(st.lists(USES), st.data())
def test_what_is_repeated_changes_nothing(told: list[Usage], data: st.DataObject) -> None:
    repeated = [usage for usage in told for _ in range(data.draw(st.integers(1, 3)))]
    assert metered(*repeated) == metered(*told)
