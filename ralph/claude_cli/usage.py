"""The tokens and cost of a session, per turn and in total, in both spellings that the `result` event uses."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ralph.claude_cli.models.base import Model
from ralph.core.usage import Tokens, canonical


@dataclass(slots=True)
class Spent:
    """A sum of messages; one whose price nobody knows leaves the cost unknown."""

    tokens: Tokens = field(default_factory=Tokens)
    dollars: float | None = 0.0
    messages: int = 0

    def add(self, tokens: Tokens, dollars: float | None) -> None:
        self.messages += 1
        self.tokens += tokens
        self.dollars = None if dollars is None or self.dollars is None else self.dollars + dollars


@dataclass(slots=True)
class SessionUsage:
    """The books of one session with one model."""

    model: Model
    price: Callable[[Tokens], float | None]
    """Dollars for one message; None when nobody knows."""

    turn: Spent = field(default_factory=Spent)
    whole: Spent = field(default_factory=Spent)

    def begin_turn(self) -> None:
        self.turn = Spent()

    def charge(self, tokens: Tokens) -> None:
        """Enter one message."""
        dollars = self.price(tokens)
        self.turn.add(tokens, dollars)
        self.whole.add(tokens, dollars)

    def figures(self) -> dict[str, object]:
        """The fields of `result`: `usage` is the turn's, the cost and `modelUsage` are the whole session's."""
        cost = {} if self.whole.dollars is None else {"total_cost_usd": self.whole.dollars or 0}
        return {
            **cost,
            "usage": usage(self.turn.tokens),
            "modelUsage": self._by_model(self.whole),
            "model_usage_since_last_result": self._by_model(self.turn),
        }

    def _by_model(self, spent: Spent) -> Mapping[str, object]:
        if not spent.messages:
            return {}
        cost = {} if spent.dollars is None else {"costUSD": spent.dollars}
        return {
            self.model.name: {
                "inputTokens": spent.tokens.input,
                "outputTokens": spent.tokens.output,
                "cacheReadInputTokens": spent.tokens.cache_read,
                "cacheCreationInputTokens": spent.tokens.cache_write,
                "webSearchRequests": 0,
                **cost,
                "contextWindow": self.model.traits.context_window,
                "maxOutputTokens": self.model.traits.max_output,
                "thinkingTokens": 0,
                "cacheCreationEphemeral5mInputTokens": 0,
                "cacheCreationEphemeral1hInputTokens": 0,
                "canonicalModel": canonical(self.model.name),
                "provider": "firstParty",
                "costBasis": "unknown" if spent.dollars is None else "list",
            }
        }


def message_usage(tokens: Tokens) -> dict[str, object]:
    """The usage of an `assistant` event: that of the message's start."""
    return {
        "input_tokens": tokens.input,
        "cache_creation_input_tokens": tokens.cache_write,
        "cache_read_input_tokens": tokens.cache_read,
        "output_tokens": tokens.output,
    }


def usage(tokens: Tokens) -> dict[str, object]:
    """The spelling of `result.usage`."""
    return {
        **message_usage(tokens),
        "output_tokens_details": {"thinking_tokens": 0},
        "server_tool_use": {"web_search_requests": 0, "web_fetch_requests": 0},
        "service_tier": "standard",
        "cache_creation": {"ephemeral_1h_input_tokens": 0, "ephemeral_5m_input_tokens": 0},
        "inference_geo": "",
        "iterations": [],
        "speed": "standard",
        "fallback_credit": None,
    }
