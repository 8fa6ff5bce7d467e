"""What one session may use of each limit: from nine tenths on it is to wrap up, at the whole it is stopped. Pure."""

import math
from dataclasses import dataclass
from enum import StrEnum

from ralph.core.limits import Limit, Limits, Spend
from ralph.core.text import format_duration, format_money

_SHARE = 0.9
"""Of a limit: where a session is told to wrap up."""


_SUMMARY = 0.1
"""Of what is left of the run's money and tokens: what a summarizer may use. The rest is for the work."""


_DUST = 1e-8
"""What is left of a sum of floats may be off by less."""


class Measure(StrEnum):
    COST = "cost"
    TOKENS = "tokens"
    SECONDS = "seconds"


@dataclass(frozen=True, slots=True)
class Bound:
    """One limit as one session meets it."""

    measure: Measure
    name: str
    """How the user sets it: a flag, a key of the settings, or what it is of one."""
    whole: float
    """The limit itself."""
    most: float
    """What of it is left for this session."""
    warned: float
    """What the session may use of it before it is told to wrap up."""
    limit: Limit | None = None
    """The run's limit that this is; None: it is the session's own."""

    @property
    def plea(self) -> str:
        """What the agent is told when it nears the bound."""
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
    """The bounds of a session; of several that are reached the first counts. Without any it may use what it likes."""

    bounds: tuple[Bound, ...] = ()

    def exhausted(self, used: Used, *, but_use: bool = False) -> Bound | None:
        """Name the first bound at which the session must be stopped; `but_use`: only of time."""
        bounds = [bound for bound in self.bounds if bound.measure is Measure.SECONDS or not but_use]
        return next((bound for bound in bounds if bound.is_used_up(used)), None)

    def nearly_exhausted(self, used: Used) -> Bound | None:
        """Name the bound because of which the session is to wrap up."""
        return next((bound for bound in self.bounds if used.of(bound.measure) >= bound.warned), None)

    @property
    def dollars(self) -> float | None:
        """The money that is left for the session, rounded up: whoever has used it has used up the limit as well."""
        left = [bound.most for bound in self.bounds if bound.measure is Measure.COST]
        return max(1, math.ceil((min(left) - _DUST / 2) * 1e6)) / 1e6 if left else None

    @property
    def counts(self) -> bool:
        """Tell whether the session's use must be known while it works: its time alone always is."""
        return any(bound.measure is not Measure.SECONDS for bound in self.bounds)


NO_BOUNDS = Allowance()


def allowance(limits: Limits, *, spent: Spend, elapsed: float, timeout: float) -> Allowance:
    """What is left for a session that begins now; `timeout` is the session's own time."""
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
    """What a summarizer may use where a worker may use all that is left: bounds of its own come before the run's."""
    shares = [
        _own(bound.measure, f"a tenth of the rest of {bound.name}:", _SUMMARY * bound.most)
        for bound in left.bounds
        if bound.limit in (Limit.COST, Limit.TOKENS)
    ]
    return Allowance((*shares, *left.bounds))


def _of_run(measure: Measure, limit: Limit, whole: float | None, used: float) -> Bound | None:
    """A session that begins beyond nine tenths of a limit would else be interrupted at its first word."""
    if whole is None:
        return None
    left = max(0.0, whole - used)
    warned = _SHARE * whole - used
    return Bound(measure, limit, whole, left, warned if warned > 0 else _SHARE * left, limit)


def _of_session(measure: Measure, name: str, whole: float | None) -> Bound | None:
    return None if whole is None else _own(measure, name, whole)


def _own(measure: Measure, name: str, whole: float) -> Bound:
    return Bound(measure, name, whole, whole, _SHARE * whole)
