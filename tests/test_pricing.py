"""Dollars for tokens: figures that Claude Code 2.1.325 printed for the same messages."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from ralph import pricing
from ralph.events import Usage
from ralph.pricing import Tokens


@pytest.mark.parametrize(
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
    ],
)
def test_the_shipped_table_charges_what_claude_charges(model: str, tokens: Tokens, dollars: float) -> None:
    assert pricing.shipped().dollars(model, tokens) == pytest.approx(dollars)


def test_an_unknown_model_has_no_price() -> None:
    assert pricing.shipped().dollars("gpt-9", Tokens(1000)) is None


@pytest.mark.parametrize(
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
        pricing.parse(text, "mine.toml")


TABLE = pricing.parse(
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


@pytest.mark.parametrize(
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
    charged = pricing.priced(usage, TABLE, model)
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
    assert pricing.priced(usage, TABLE, model) == usage


def test_what_is_cached_costs_as_input_unless_the_table_says_more() -> None:
    assert TABLE.dollars("plain", Tokens(cache_write=1_000_000, cache_read=1_000_000)) == 2.0


def test_the_example_is_a_table_of_prices() -> None:
    example = Path(__file__).parent.parent / ".ralph.example" / "pricing.toml"
    assert pricing.parse(example.read_text()).models


def test_tokens_add_up() -> None:
    assert Tokens(1, 2, 3, 4) + Tokens(10, 20, 30, 40) == Tokens(11, 22, 33, 44)
    assert Tokens(1, 2, 3, 4).prompt == 8
