"""The tokens and cost of a session, per turn and in total, in both spellings that the `result` event uses."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ralph.claude_cli.models.base import Model, bare
from ralph.core.ndjson import amount, count, mapping
from ralph.core.usage import Tokens, canonical


@dataclass(slots=True)
class Spent:
    """A sum of messages; one whose price nobody knows leaves the cost unknown."""

    tokens: Tokens = field(default_factory=Tokens)
    dollars: float | None = 0.0

    def add(self, tokens: Tokens, dollars: float | None) -> None:
        self.tokens += tokens
        self.dollars = None if dollars is None or self.dollars is None else self.dollars + dollars


@dataclass(slots=True)
class Spawned:
    """How many subagents were sent out, and what became of them."""

    completed: int = 0
    failed: int = 0
    stopped: int = 0
    too_deep: int = 0
    deepest: int = 0
    nested: int = 0
    wishes: dict[str, int] = field(default_factory=lambda: {"background": 0, "foreground": 0, "unset": 0})
    kinds: dict[str, int] = field(default_factory=dict[str, int])

    def sent_out(self, kind: str, depth: int, in_background: object) -> None:
        self.wishes["unset" if in_background is None else "background" if in_background else "foreground"] += 1
        self.kinds[kind] = self.kinds.get(kind, 0) + 1
        self.deepest = max(self.deepest, depth)
        self.nested += depth > 1

    def figures(self) -> dict[str, object]:
        return {
            "spawned": sum(self.kinds.values()),
            "requested": dict(self.wishes),
            "started_in_background": 0,
            "max_depth": self.deepest,
            "spawned_by_subagents": self.nested,
            "completed": self.completed,
            "failed": self.failed,
            "killed": {"parent": 0, "user": self.stopped, "system": 0},
            "refused": {"depth_limit": self.too_deep, "concurrency_limit": 0, "budget": 0},
            "by_type": dict(self.kinds),
        }


@dataclass(slots=True)
class SessionUsage:
    """The books of one session, with a page for each of its models."""

    price: Callable[[str, Tokens], float | None]
    """Dollars for one message of a model; None when nobody knows."""

    said: Tokens = field(default_factory=Tokens)
    """The tokens of the conversation itself in this turn: no subagent's, and no summary's."""

    turn: dict[str, Spent] = field(default_factory=dict[str, "Spent"])
    whole: dict[str, Spent] = field(default_factory=dict[str, "Spent"])
    models: dict[str, Model] = field(default_factory=dict[str, Model])
    spawned: Spawned = field(default_factory=Spawned)
    before: float = 0.0
    """Dollars that earlier processes of this session spent: they do not count for a budget."""

    @property
    def dollars(self) -> float | None:
        """What the session has cost so far; None when nobody knows."""
        costs = [spent.dollars for spent in self.whole.values()]
        known = [cost for cost in costs if cost is not None]
        return sum(known) if len(known) == len(costs) else None

    def begin_turn(self) -> None:
        self.said, self.turn = Tokens(), {}

    @classmethod
    def of(
        cls, price: Callable[[str, Tokens], float | None], model: Model, costs: Mapping[str, object]
    ) -> "SessionUsage":
        """Go on with what earlier processes of this session have spent on the model."""
        account, page = cls(price), mapping(costs.get(model.name))
        names = ("inputTokens", "outputTokens", "cacheCreationInputTokens", "cacheReadInputTokens")
        if page:
            account.models[model.name] = model
            tokens = Tokens(*(count(page.get(name)) for name in names))
            account.whole[model.name] = Spent(tokens, amount(page.get("costUSD")))
        account.before = account.dollars or 0.0
        return account

    def charge(self, model: Model, tokens: Tokens, *, aside: bool = False) -> None:
        """Enter one message; `aside`: it is no message of the conversation itself."""
        self.models[model.name] = model
        dollars = self.price(model.name, tokens)
        self.said += Tokens() if aside else tokens
        for book in (self.turn, self.whole):
            book.setdefault(model.name, Spent()).add(tokens, dollars)

    def figures(self) -> dict[str, object]:
        """The fields of `result`: `usage` is the turn's, the cost and `modelUsage` are the whole session's."""
        cost = {} if self.dollars is None else {"total_cost_usd": self.dollars or 0}
        return {
            **cost,
            "usage": usage(self.said),
            "modelUsage": self._by_model(self.whole),
            "subagent_stats": self.spawned.figures(),
            "model_usage_since_last_result": self._by_model(self.turn),
        }

    def _by_model(self, book: Mapping[str, Spent]) -> Mapping[str, object]:
        return {name: _page(self.models[name], spent) for name, spent in book.items()}


def _page(model: Model, spent: Spent) -> Mapping[str, object]:
    cost = {} if spent.dollars is None else {"costUSD": spent.dollars}
    return {
        "inputTokens": spent.tokens.input,
        "outputTokens": spent.tokens.output,
        "cacheReadInputTokens": spent.tokens.cache_read,
        "cacheCreationInputTokens": spent.tokens.cache_write,
        "webSearchRequests": 0,
        **cost,
        "contextWindow": model.traits.context_window,
        "maxOutputTokens": model.traits.max_output,
        "thinkingTokens": 0,
        "cacheCreationEphemeral5mInputTokens": 0,
        "cacheCreationEphemeral1hInputTokens": 0,
        "canonicalModel": canonical(bare(model.name)),
        "provider": model.provider,
        "costBasis": "unknown" if spent.dollars is None else "list",
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
