"""Dollars for tokens: figures that Claude Code 2.1.325 printed for the same messages."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.agents.claude import FAMILIES
from ralph.claude_cli.models.base import ALIASES
from ralph.core.events import Usage
from ralph.core.usage import Estimate, Meter, Prices, Tokens, parse, shipped
from tests.support.rows import rows


@rows(
    ("model", "tokens", "dollars"),
    [
        ("claude-sonnet-5-5", Tokens(1234, 42, 10, 20), 0.002915),
        ("claude-sonnet-5-5", Tokens(100_000, 1000), 0.21),
        ("claude-opus-5-5", Tokens(input=1000), 0.004),
        ("claude-haiku-4-5-20251001", Tokens(output=1000), 0.005),
        ("claude-sonnet-5-5[1m]", Tokens(cache_read=1000), 0.0001),
        ("claude-haiku-5-5", Tokens(100_000), 0.01),
        ("claude-haiku-5-5", Tokens(99_000, cache_read=2000), 0.0496),
        ("claude-haiku-5-5", Tokens(200_000, 1000, 0, 0), 0.1025),
        ("claude-haiku-5-5", Tokens(100_234, 567, 0, 4321, 890), 0.05264055),
        ("claude-opus-5-5", Tokens(cache_write_1h=1000), 0.008),
        ("claude-sonnet-4-5-20250929", Tokens(1234, 567, 890, 4321), 0.0168408),
        ("claude-fable-5-1", Tokens(1234, 567, 0, 4321, 890), 0.05957025),
        ("claude-3-5-haiku-20241022", Tokens(1234, 567, 890, 4321), 0.00449088),
    ],
)
def test_the_shipped_table_charges_what_claude_charges(model: str, tokens: Tokens, dollars: float) -> None:
    assert shipped().dollars(model, tokens) == pytest.approx(dollars)


def test_every_short_name_stands_for_a_model_with_a_price() -> None:
    """ralph-claude refuses a budget for a model without one, and ralph must know when."""
    assert set(FAMILIES) == set(ALIASES)
    assert all(shipped().price(model) for model in ALIASES.values())


def test_an_unknown_model_has_no_price() -> None:
    assert shipped().dollars("gpt-9", Tokens(1000)) is None


@rows(
    ("text", "fault"),
    [
        ("[m]\noutput = 1", "mine.toml: [m] input: missing"),
        ("[m]\ninput = 1", "mine.toml: [m] output: missing"),
        ("[m]\ninput = -1\noutput = 1", "mine.toml: [m] input: not an amount of dollars"),
        ("[m]\ninput = 1\noutput = nan", "mine.toml: [m] output: not an amount of dollars"),
        ("[m]\ninput = true\noutput = 1", "mine.toml: [m] input: not an amount of dollars"),
        ("[m]\ninput = 1\noutput = 1\ncache_read = '1'", "mine.toml: [m] cache_read: not an amount of dollars"),
        ("[m]\ninput = 1\noutput = 1\ncache_raed = 1", "mine.toml: [m] cache_raed: unknown field"),
        ("[m-5.1]\ninput = 1\noutput = 1", "mine.toml: [m-5] 1: unknown field (a model's name with a dot in it needs"),
        ("[m]\ninput = 1\noutput = 1\nabove = 3", "mine.toml: [m] above: not a table of rates"),
        ("[m]\ninput = 1\noutput = 1\nabove = {input = 2}", "mine.toml: [m] above: prompt: not a number of tokens"),
        ("[m]\ninput = 1\noutput = 1\nabove = {prompt = 9, input = 2}", "mine.toml: [m] above output: missing"),
        ("m = 3", "mine.toml: [m]: not a table of rates"),
        ("m 3", "mine.toml: not TOML: "),
        (f"m = {'[' * 5000}", "mine.toml: not TOML: "),
    ],
)
def test_what_is_no_table_of_prices_is_refused_by_file_model_and_field(text: str, fault: str) -> None:
    with pytest.raises(ValueError, match=re.escape(fault)):
        parse(text, "mine.toml")


TABLE = parse(
    """
    ["gpt-5.1"]
    input = 2.0
    output = 10.0
    cache_read = 0.5
    above = { prompt = 1000, input = 100, output = 100 }
    [plain]
    input = 1
    output = 3
    [dated-20250101]
    input = 7
    output = 7
    """
)


def estimate(model: str, *, by_message: bool = False) -> Estimate:
    return Estimate(TABLE, model, by_message=by_message)


@pytest.mark.spec("2.16-c")
@rows(
    ("usage", "model", "dollars"),
    [
        (Usage(1_000_000, 100_000), "gpt-5.1", 3.0),
        (Usage(1_000_000, 100_000, model="plain"), "gpt-5.1", 1.3),
        (Usage(1_000_000, 0, cache_read_tokens=400_000), "gpt-5.1", 1.4),
        (Usage(1_000_000, 0, cache_read_tokens=400_000, cache_creation_tokens=600_000), "plain", 1.0),
        (Usage(1_000_000, 0, cache_read_tokens=10**12), "gpt-5.1", 0.5),  # never more than there was
        (Usage(prompt_tokens=1_000_000), "plain", 1.0),
        (Usage(completion_tokens=1_000_000), "plain", 3.0),
        (Usage(1_000_000, 0), "dated-20250101", 7.0),
        (Usage(1_000_000, 0), "plain-20250101", 1.0),
        (Usage(0, 0), "plain", 0.0),
    ],
)
def test_tokens_without_a_cost_are_charged_by_the_table(usage: Usage, model: str, dollars: float) -> None:
    charged = estimate(model)(usage)
    assert charged.cost_usd == pytest.approx(dollars)
    assert replace(charged, cost_usd=None, cost_is_estimate=None) == usage


@pytest.mark.parametrize(
    ("usage", "model"),
    [
        (Usage(1000, 1000, cost_usd=0.0), "plain"),
        (Usage(1000, 1000), "unknown"),
        (Usage(1000, 1000, model="unknown"), "plain"),
        (Usage(total_tokens=1000), "plain"),
        (Usage(context_pct=5.0), "plain"),
    ],
    ids=["has a cost", "unknown model", "names another model", "only a sum", "no tokens"],
)
def test_what_has_a_cost_or_cannot_be_charged_stays_as_it_is(usage: Usage, model: str) -> None:
    assert estimate(model)(usage) == usage


def test_a_cost_that_the_agent_names_stands_and_later_tokens_are_charged_on_top() -> None:
    told = [
        Usage(1_000_000, 0, model="plain"),
        Usage(1_000_000, 100_000, model="plain"),
        Usage(1_000_000, 100_000, model="plain", cost_usd=0.5),
        Usage(3_000_000, 100_000, model="plain", cost_usd=0.5, cost_is_estimate=True),
        Usage(3_000_000, 100_000, model="plain", cost_usd=0.75),
        Usage(3_000_000, 200_000, model="plain", cost_usd=0.75, cost_is_estimate=True),
    ]
    charge = estimate("other")
    charged = [charge(usage) for usage in told]
    assert [usage.cost_usd for usage in charged] == pytest.approx([1.0, 1.3, 0.5, 2.5, 0.75, 1.05])
    assert [usage.cost_is_estimate for usage in charged] == [True, True, None, True, None, True]


def test_what_the_agents_own_cost_leaves_out_is_charged_on_top_of_it() -> None:
    """By the price of the call that was cut, which is the last one; once, however often it is told."""
    told = [
        Usage(1_000_000, 0, model="plain"),
        Usage(2_000_000, 0, model="gpt-5.1"),
        Usage(2_000_000, 0, model="gpt-5.1", cost_usd=0.25),
        Usage(2_000_000, 0, model="gpt-5.1", cost_usd=0.25, cost_is_estimate=True, uncosted_tokens=1_000_000),
        Usage(2_500_000, 0, model="plain", cost_usd=0.25, cost_is_estimate=True),
        Usage(2_500_000, 0, model="plain", cost_usd=0.5),
        Usage(2_500_000, 0, model="plain", cost_usd=0.5, cost_is_estimate=True, uncosted_tokens=1_000_000),
    ]
    charge = estimate("other")
    charged = [charge(usage) for usage in told]
    assert [usage.cost_usd for usage in charged] == pytest.approx([1.0, 3.0, 0.25, 2.25, 2.75, 0.5, 2.5])
    assert [usage.cost_is_estimate for usage in charged] == [True, True, None, True, True, None, True]
    assert metered(charged).total.cost_usd == pytest.approx(2.5)


def test_a_result_that_tells_of_side_calls_does_not_hide_the_call_that_was_cut() -> None:
    """A title, a compaction, a page that was fetched: the stream shows none of them, the result names their tokens."""
    told = [
        Usage(1_000_000, 0, model="plain"),
        Usage(2_000_000, 0, model="gpt-5.1"),
        Usage(2_300_000, 50, model="gpt-5.1", cost_usd=0.25),
        Usage(2_300_000, 50, model="gpt-5.1", cost_usd=0.25, cost_is_estimate=True, uncosted_tokens=1_000_000),
    ]
    charge = estimate("other")
    charged = [charge(usage) for usage in told]
    assert [usage.cost_usd for usage in charged] == pytest.approx([1.0, 3.0, 0.25, 2.25])


def metered(told: list[Usage]) -> Meter:
    meter = Meter()
    for usage in told:
        meter = meter.metered(usage)
    return meter


def test_what_came_since_is_unknown_where_the_model_has_no_price() -> None:
    charge = estimate("other")
    assert charge(Usage(1000, 10, cost_usd=0.5)).cost_usd == 0.5
    stale = Usage(2000, 20, cost_usd=0.5, cost_is_estimate=True)
    assert charge(stale) == stale
    assert not charge.knows("other")
    assert charge.knows("plain-20250101")


def test_each_message_is_charged_by_the_length_of_its_own_prompt_where_messages_are_told() -> None:
    short, long = Usage(1000, 1, model="gpt-5.1"), Usage(3001, 1, model="gpt-5.1")
    charge = estimate("", by_message=True)
    assert charge(short).cost_usd == pytest.approx((1000 * 2 + 10) / 1e6)
    assert charge(replace(short, completion_tokens=100)).cost_usd == pytest.approx((1000 * 2 + 1000) / 1e6)
    first = (1000 * 2 + 1000) / 1e6
    assert charge(replace(long, completion_tokens=100)).cost_usd == pytest.approx(first + 2001 * 100 / 1e6)
    assert charge(replace(long, completion_tokens=200)).cost_usd == pytest.approx(first + 2101 * 100 / 1e6)


def test_what_is_kept_for_an_hour_has_a_rate_of_its_own() -> None:
    table = parse("[m]\ninput = 1\noutput = 1\ncache_write = 2\ncache_write_1h = 10")
    charge = Estimate(table, "m", by_message=True)
    usage = Usage(1_000_000, 0, cache_creation_tokens=600_000, cache_creation_1h_tokens=100_000)
    assert charge(usage).cost_usd == pytest.approx(0.4 + 1.0 + 1.0)
    assert TABLE.dollars("plain", Tokens(cache_write_1h=1_000_000)) == 1.0


def test_a_table_that_stands_upon_another_counts_more() -> None:
    below = parse("[m-20250101]\ninput = 1\noutput = 1\n[n]\ninput = 2\noutput = 2")
    mine = Prices(parse("[m]\ninput = 7\noutput = 7").models, below)
    assert mine.dollars("m-20250101", Tokens(1_000_000)) == 7.0
    assert mine.dollars("n", Tokens(1_000_000)) == 2.0
    assert mine.dollars("o", Tokens(1_000_000)) is None


USES = st.builds(
    Usage,
    prompt_tokens=st.integers(0, 10**6),
    completion_tokens=st.integers(0, 10**6),
    model=st.sampled_from(["plain", "gpt-5.1", "other"]),
    cost_usd=st.none() | st.floats(0, 100),
    cost_is_estimate=st.none() | st.just(True),
)


@given(st.lists(USES), st.booleans())
def test_an_estimate_is_never_below_what_the_agent_has_named(told: list[Usage], by_message: bool) -> None:
    charge, named = estimate("plain", by_message=by_message), 0.0
    for usage in told:
        charged = charge(usage)
        assert (charged.prompt_tokens, charged.completion_tokens) == (usage.prompt_tokens, usage.completion_tokens)
        if usage.cost_usd is not None and usage.cost_is_estimate is None:
            assert charged == usage
            named = usage.cost_usd
        elif charged != usage:
            assert charged.cost_is_estimate is True
            assert (charged.cost_usd or 0.0) >= named


def test_what_is_cached_costs_as_input_unless_the_table_says_more() -> None:
    assert TABLE.dollars("plain", Tokens(cache_write=1_000_000, cache_read=1_000_000)) == 2.0


def test_the_example_is_a_table_of_prices() -> None:
    example = Path(__file__).parent.parent.parent / ".ralph.example" / "pricing.toml"
    assert parse(example.read_text()).models


def test_tokens_add_up() -> None:
    assert Tokens(1, 2, 3, 4) + Tokens(10, 20, 30, 40) == Tokens(11, 22, 33, 44)
    assert Tokens(1, 2, 3, 4).prompt == 8
