"""Arithmetic of money, tokens, time and thinking: what a run has spent, and which limit it has reached."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from ralph.core.events import ToolEnd, ToolStart, ToolStatus, Usage
from ralph.core.text import format_duration, format_money, plural
from ralph.core.usage import Spend
from ralph.core.verdict import TOOL, Answer, read_answer

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


class Limit(StrEnum):
    """What can end a run with exit 4; the value names the flag that raises it."""

    ITERATIONS = "--max-iterations"
    DURATION = "--duration"
    COST = "--max-cost"
    TOKENS = "--max-tokens"

    @property
    def setting(self) -> str:
        """The name of its setting."""
        return self.removeprefix("--").replace("-", "_")


def limit_reached(what: str) -> str:
    """Return the reason of a run that ended at a limit."""
    return f"limit reached: {what}"


@dataclass(frozen=True, slots=True)
class Limits:
    """The user's limits; None is unlimited. All except the duration count over all starts of the run.

    Limits that begin with `iteration` apply to each session separately.
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


_WRAP_UP_AT = 0.9
"""The share of a limit at which ralph asks a session to wrap up."""


_SUMMARY = 0.1
"""The share of the run's remaining money and tokens that a summarizer may use."""


_DUST = 1e-8
"""Tolerance for rounding errors in a sum of floats."""

DUST_USD = 2e-6
"""Dollars too few to matter: flags have limits to the millionth."""


class Measure(StrEnum):
    COST = "cost"
    TOKENS = "tokens"
    SECONDS = "seconds"


@dataclass(frozen=True, slots=True)
class Bound:
    """One limit as one session meets it."""

    measure: Measure
    name: str
    """How the user sets it: a flag, a setting, or a part of one."""
    whole: float
    """The limit itself."""
    most: float
    """What remains of it for this session."""
    warned: float
    """What the session may use before ralph asks it to wrap up."""
    limit: Limit | None = None
    """The run's limit behind it; None for a limit of the session itself."""

    @property
    def plea(self) -> str:
        """Return the message that asks the agent to wrap up."""
        whose = "this session's" if self.limit is None else "the run's"
        return (
            f"90 % of {whose} budget is used ({self.words}). Start nothing new: return your summary now"
            " (StructuredOutput), for the next session."
        )

    def is_used_up(self, used: "Used") -> bool:
        return used.of(self.measure) >= self.most - _DUST

    @property
    def words(self) -> str:
        match self.measure:
            case Measure.COST:
                return f"{self.name} {format_money(self.whole)}"
            case Measure.TOKENS:
                return f"{self.name} {self.whole:,.0f}"
            case Measure.SECONDS:
                return f"{self.name} {format_duration(self.whole)}"


@dataclass(frozen=True, slots=True)
class Used:
    """What a session has used so far."""

    spend: Spend
    seconds: float

    def of(self, measure: Measure) -> float:
        match measure:
            case Measure.COST:
                return self.spend.cost_usd
            case Measure.TOKENS:
                return self.spend.tokens
            case Measure.SECONDS:
                return self.seconds


@dataclass(frozen=True, slots=True)
class Allowance:
    """The bounds of a session; the first one that is reached counts. Without any, the session is unlimited."""

    bounds: tuple[Bound, ...] = ()

    def exhausted(self, used: Used, *, but_use: bool = False) -> Bound | None:
        """Return the first bound that is used up; `but_use`: only of time."""
        bounds = [bound for bound in self.bounds if bound.measure is Measure.SECONDS or not but_use]
        return next((bound for bound in bounds if bound.is_used_up(used)), None)

    def nearly_exhausted(self, used: Used) -> Bound | None:
        """Return the bound that makes the session wrap up."""
        return next((bound for bound in self.bounds if used.of(bound.measure) >= bound.warned), None)

    @property
    def dollars(self) -> float | None:
        """Return the money that is left for the session, rounded up, so that using it all also reaches the limit."""
        left = [bound.most for bound in self.bounds if bound.measure is Measure.COST]
        return max(1, math.ceil((min(left) - _DUST / 2) * 1e6)) / 1e6 if left else None

    @property
    def counts(self) -> bool:
        """Tell whether the session's usage must be known while it works; its time always is."""
        return any(bound.measure is not Measure.SECONDS for bound in self.bounds)


NO_BOUNDS = Allowance()


def allowance(limits: Limits, *, spent: Spend, elapsed: float, timeout: float) -> Allowance:
    """Return the allowance of a session that starts now; `timeout` is the session's own time limit."""
    bounds = [
        _of_run(Measure.COST, Limit.COST, limits.cost_usd, spent.cost_usd),
        _of_run(Measure.TOKENS, Limit.TOKENS, limits.tokens, spent.tokens),
        _of_run(Measure.SECONDS, Limit.DURATION, limits.duration, elapsed),
        _of_session(Measure.COST, "max_iteration_cost", limits.iteration_cost_usd),
        _of_session(Measure.TOKENS, "max_iteration_tokens", limits.iteration_tokens),
        _of_session(Measure.SECONDS, "iteration_timeout", timeout),
    ]
    return Allowance(tuple(bound for bound in bounds if bound is not None))


def for_summary(left: Allowance) -> Allowance:
    """Return a summarizer's part of an allowance: its own bounds come before the run's."""
    shares = [
        _own(bound.measure, f"a tenth of the rest of {bound.name}:", _SUMMARY * bound.most)
        for bound in left.bounds
        if bound.limit in (Limit.COST, Limit.TOKENS)
    ]
    return Allowance((*shares, *left.bounds))


def _of_run(measure: Measure, limit: Limit, whole: float | None, used: float) -> Bound | None:
    """Return a run's limit as a bound; a session that starts beyond 90 % of it wraps up at 90 % of the rest."""
    if whole is None:
        return None
    left = max(0.0, whole - used)
    warned = _WRAP_UP_AT * whole - used
    return Bound(measure, limit, whole, left, warned if warned > 0 else _WRAP_UP_AT * left, limit)


def _of_session(measure: Measure, name: str, whole: float | None) -> Bound | None:
    return None if whole is None else _own(measure, name, whole)


def _own(measure: Measure, name: str, whole: float) -> Bound:
    return Bound(measure, name, whole, whole, _WRAP_UP_AT * whole)


@dataclass(slots=True)
class Calls:
    """Folds a session's messages. A call to the model is paid for once it starts: cutting it wastes money.

    An agent with partial messages reports when a call begins and ends. With others, a larger prompt shows a call, and
    only what follows shows its end.
    """

    made: int = 0
    in_progress: bool = False
    handed_in: Mapping[str, object] | None = None
    """The valid verdict in the last message; the turn is about to end with it."""
    _by_tool: str = ""
    _answering: int = 0
    """The number of the call that may answer the request to wrap up; 0: none."""
    _in_pieces: bool = False
    _within: bool = True
    """The last call started within the limits."""
    _prompt_tokens: int = 0

    @property
    def may_end(self) -> bool:
        """Whether the current call may finish although a limit is used up; at most one call may exceed it."""
        is_paid = self._in_pieces and self.in_progress and self._within
        return is_paid or self.handed_in is not None or self.made <= self._answering > 0

    def expect_answer(self) -> None:
        """Expect an answer to the request to wrap up: that one call may finish even beyond a limit."""
        self._answering = self.made + 1

    def hear_usage(self, usage: Usage, *, within: bool) -> None:
        """Record usage; `within`: before this, no limit was used up."""
        grown = (usage.prompt_tokens or 0) > self._prompt_tokens
        self._prompt_tokens = max(self._prompt_tokens, usage.prompt_tokens or 0)
        if usage.in_call is not None:
            self._in_pieces = True
            self._begin(within=within) if usage.in_call else self._end()
        elif not self._in_pieces and grown:
            self._begin(within=within)
        elif not self._in_pieces:
            self.in_progress = False

    def hear_tool(self, event: ToolStart | ToolEnd) -> None:
        if isinstance(event, ToolEnd):
            self.in_progress = self.in_progress and self._in_pieces
            if event.status is not ToolStatus.OK and event.id == self._by_tool:
                self.handed_in = None
        elif event.name != TOOL:  # it may follow a verdict in the same message, which still counts
            self._answering = 0
        elif isinstance(read_answer(event.input), Answer):
            self.handed_in, self._by_tool = event.input, event.id

    def end_turn(self) -> None:
        self.in_progress, self.handed_in = False, None

    def _begin(self, *, within: bool) -> None:
        self.made += 1
        self.in_progress, self._within, self.handed_in = True, within, None

    def _end(self) -> None:
        """End the message: without a verdict in it, the request remains unanswered."""
        self.in_progress = False
        if self.made >= self._answering and self.handed_in is None:
            self._answering = 0


def told_limits(limits: Limits) -> str:
    """Describe the limits that are set; empty without any."""
    said = [
        plural(limits.iterations, "iteration") if limits.iterations else "",
        format_duration(limits.duration) if limits.duration else "",
        format_money(limits.cost_usd) if limits.cost_usd else "",
        f"{limits.tokens:,} tokens" if limits.tokens else "",
        f"{format_money(limits.iteration_cost_usd)} a session" if limits.iteration_cost_usd else "",
        f"{limits.iteration_tokens:,} tokens a session" if limits.iteration_tokens else "",
    ]
    return " · ".join(filter(None, said))
