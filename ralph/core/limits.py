"""Arithmetic of money, tokens, time and thinking: what a run has spent, and which limit it has reached."""

from dataclasses import dataclass, replace
from enum import StrEnum

from ralph.core.events import Usage

USUAL_WINDOW = 200_000
"""Context window assumed until the agent has told its own."""

_MOST_THINKING = {"haiku": 16_384, "sonnet": 32_768, "opus": 16_384}
_LEAST_MOST_THINKING = min(_MOST_THINKING.values())


class Reasoning(StrEnum):
    NONE = "none"
    LOW = "low"
    MED = "med"
    HIGH = "high"


_SHARE = {Reasoning.NONE: 0.0, Reasoning.LOW: 0.25, Reasoning.MED: 0.5, Reasoning.HIGH: 1.0}


def thinking_budget(model: str, reasoning: Reasoning) -> int:
    """Tokens the model may think: the family's most, times the share the reasoning level grants."""
    most = next((tokens for family, tokens in _MOST_THINKING.items() if family in model.lower()), _LEAST_MOST_THINKING)
    return int(most * _SHARE[reasoning])


def context_pct(prompt_tokens: int, window: int) -> float:
    """How full the context is, in percent."""
    return round(prompt_tokens / window * 100, 1) if window > 0 else 0.0


def total_tokens(usage: Usage) -> int | None:
    """All tokens of a session: the agent's own sum, or that of what it told if it is larger; None: it told nothing."""
    prompt, completion = usage.prompt_tokens, usage.completion_tokens
    if prompt is None and completion is None:
        return usage.total_tokens
    return max(usage.total_tokens or 0, (prompt or 0) + (completion or 0))


@dataclass(frozen=True, slots=True)
class Spend:
    """What was used. `costed` and `counted`: some agent reported dollars, tokens; without that, zero means unknown.

    `estimated`: a part of the cost no agent has named; it is reckoned from prices.
    """

    cost_usd: float = 0.0
    tokens: int = 0
    costed: bool = False
    counted: bool = False
    estimated: bool = False

    @property
    def knows_tokens(self) -> bool:
        return self.counted or self.tokens > 0

    def __add__(self, other: "Spend") -> "Spend":
        return Spend(
            self.cost_usd + other.cost_usd,
            self.tokens + other.tokens,
            self.costed or other.costed,
            self.counted or other.counted,
            self.estimated or other.estimated,
        )

    def at_least(self, other: "Spend") -> "Spend":
        """Of two witnesses of one spend the larger, figure by figure: each can only have missed something."""
        return Spend(
            max(self.cost_usd, other.cost_usd),
            max(self.tokens, other.tokens),
            self.costed or other.costed,
            self.counted or other.counted,
            self.estimated or other.estimated,
        )


@dataclass(frozen=True, slots=True)
class Meter:
    """A fold over usage events: closed sessions in `before`, the open one in `session`."""

    before: Spend = Spend()
    session: Spend = Spend()
    context_pct: float | None = None
    named: float = 0.0
    """What the agent itself has named of the open session's cost; the rest is an estimate."""

    @property
    def total(self) -> Spend:
        return self.before + self.session

    def metered(self, usage: Usage) -> "Meter":
        """Take in what the open session has used so far. What was spent once stays spent, whatever is said later.

        Only an estimate gives way: to the next cost that the agent names itself, and that may be less.
        """
        tokens, cost, estimated = total_tokens(usage), usage.cost_usd, usage.cost_is_estimate is True
        session, named = self.session, self.named
        if cost is not None and not estimated:
            named = max(named, cost)
            session = replace(session, cost_usd=named, estimated=False)
        # Written out: a stream has a usage with every message, and each is metered twice.
        session = Spend(
            max(session.cost_usd, cost or 0.0),
            max(session.tokens, tokens or 0),
            session.costed or cost is not None,
            session.counted or tokens is not None,
            session.estimated or estimated,
        )
        return Meter(self.before, session, self.context_pct if usage.context_pct is None else usage.context_pct, named)

    def next_session(self) -> "Meter":
        """Close the open session: its figures stand."""
        return Meter(before=self.total)


class Limit(StrEnum):
    """What can end a run with exit 4; the value names the flag that raises it."""

    ITERATIONS = "--max-iterations"
    DURATION = "--duration"
    COST = "--max-cost"
    TOKENS = "--max-tokens"


_REACHED = "limit reached: "


def limit_reached(what: str) -> str:
    """How it is said that a limit has ended a run."""
    return _REACHED + what


def is_limit_reached(reason: str) -> bool:
    """Tell whether a run has ended for that reason."""
    return reason.startswith(_REACHED)


@dataclass(frozen=True, slots=True)
class Limits:
    """The user's limits; None is unlimited. All but the duration hold for the run over all its starts.

    Those that begin with `iteration` hold for each session by itself.
    """

    iterations: int | None = None
    duration: float | None = None
    cost_usd: float | None = None
    tokens: int | None = None
    iteration_cost_usd: float | None = None
    iteration_tokens: int | None = None

    def reached(self, *, iterations: int, elapsed: float, spend: Spend) -> Limit | None:
        """Name the first limit that is reached."""
        if self.iterations is not None and iterations >= self.iterations:
            return Limit.ITERATIONS
        if self.duration is not None and elapsed >= self.duration:
            return Limit.DURATION
        if self.cost_usd is not None and spend.cost_usd >= self.cost_usd:
            return Limit.COST
        if self.tokens is not None and spend.tokens >= self.tokens:
            return Limit.TOKENS
        return None
