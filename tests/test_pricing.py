"""Dollars for tokens: figures that Claude Code 2.1.325 printed for the same messages."""

import pytest

from ralph import pricing
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


def test_a_table_with_a_hole_is_refused() -> None:
    with pytest.raises(ValueError, match="no price for output, cache_read"):
        pricing.parse("[model]\ninput = 1.0\ncache_write = 2\n")


def test_tokens_add_up() -> None:
    assert Tokens(1, 2, 3, 4) + Tokens(10, 20, 30, 40) == Tokens(11, 22, 33, 44)
    assert Tokens(1, 2, 3, 4).prompt == 8
