"""What the scripted agent spent, and claude's two spellings of it (2.1.325).

Part of the scripted agent's own process: standard library only, and few of its modules, for start-up counts.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing would take as long as all the rest
if TYPE_CHECKING:
    from typing import Any

COUNTS: tuple[str, ...] = ("input", "output", "cache_creation", "cache_read")


class Spending:
    """A sum of messages."""

    def __init__(self) -> None:
        self.tokens = dict.fromkeys(COUNTS, 0)
        self.cost = 0.0

    def add(self, tokens: dict[str, int], cost: float) -> None:
        for count in COUNTS:
            self.tokens[count] += tokens[count]
        self.cost += cost

    def by_model(self, model: str, context_window: int) -> dict[str, dict[str, Any]]:
        """The spelling of `result.modelUsage`; empty while nothing was spent."""
        if not any(self.tokens.values()):
            return {}
        usage = {
            "inputTokens": self.tokens["input"],
            "outputTokens": self.tokens["output"],
            "cacheReadInputTokens": self.tokens["cache_read"],
            "cacheCreationInputTokens": self.tokens["cache_creation"],
            "webSearchRequests": 0,
            "costUSD": self.cost,
            "contextWindow": context_window,
            "maxOutputTokens": 128000,
            "thinkingTokens": 0,
            "cacheCreationEphemeral5mInputTokens": 0,
            "cacheCreationEphemeral1hInputTokens": 0,
            "canonicalModel": model,
            "provider": "firstParty",
            "costBasis": "list",
        }
        return {model: usage}


class Account:
    """What was spent since the turn began, and since the process did."""

    def __init__(self) -> None:
        self.turn = Spending()
        self.whole = Spending()

    def begin_turn(self) -> None:
        self.turn = Spending()

    def spend(self, tokens: dict[str, int], cost: float) -> None:
        self.turn.add(tokens, cost)
        self.whole.add(tokens, cost)


def usage_of(tokens: dict[str, int]) -> dict[str, Any]:
    """The spelling of `result.usage`."""
    return {
        "input_tokens": tokens.get("input", 0),
        "cache_creation_input_tokens": tokens.get("cache_creation", 0),
        "cache_read_input_tokens": tokens.get("cache_read", 0),
        "output_tokens": tokens.get("output", 0),
        "output_tokens_details": {"thinking_tokens": 0},
        "server_tool_use": {"web_search_requests": 0, "web_fetch_requests": 0},
        "service_tier": "standard",
        "cache_creation": {"ephemeral_1h_input_tokens": 0, "ephemeral_5m_input_tokens": 0},
        "inference_geo": "",
        "iterations": [],
        "speed": "standard",
        "fallback_credit": None,
    }
