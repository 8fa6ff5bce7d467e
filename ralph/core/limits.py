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


def limit_reached(what: str) -> str:
    """How it is said that a limit has ended a run."""
    return f"limit reached: {what}"


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


_WRAP_UP_AT = 0.9
"""Of a limit: where a session is told to wrap up."""


_SUMMARY = 0.1
"""Of what is left of the run's money and tokens: what a summarizer may use. The rest is for the work."""


_DUST = 1e-8
"""What is left of a sum of floats may be off by less."""

DUST_USD = 2e-6
"""Dollars that buy nothing: a flag says a limit to the millionth."""


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
    warned = _WRAP_UP_AT * whole - used
    return Bound(measure, limit, whole, left, warned if warned > 0 else _WRAP_UP_AT * left, limit)


def _of_session(measure: Measure, name: str, whole: float | None) -> Bound | None:
    return None if whole is None else _own(measure, name, whole)


def _own(measure: Measure, name: str, whole: float) -> Bound:
    return Bound(measure, name, whole, whole, _WRAP_UP_AT * whole)


@dataclass(slots=True)
class Calls:
    """A fold over what a session says. A call is paid for once it has begun: whoever cuts it throws money away.

    An agent that tells its messages in pieces says when one begins and ends. Of others a larger prompt shows that
    there was one; when it ended, only what follows it shows.
    """

    made: int = 0
    in_progress: bool = False
    handed_in: Mapping[str, object] | None = None
    """The valid verdict that the last message handed in; the turn is about to end with it."""
    _by_tool: str = ""
    _answering: int = 0
    """The number of the call that may answer the plea; 0: none."""
    _in_pieces: bool = False
    _within: bool = True
    """The last call began within the limits."""
    _prompt_tokens: int = 0

    @property
    def may_end(self) -> bool:
        """Whether a limit on use must wait: at most one call goes beyond it, and that one is heard out."""
        is_paid = self._in_pieces and self.in_progress and self._within
        return is_paid or self.handed_in is not None or self.made <= self._answering > 0

    def expect_answer(self) -> None:
        """The plea was said: the one call that answers it may end, though it should begin beyond a limit."""
        self._answering = self.made + 1

    def hear_usage(self, usage: Usage, *, within: bool) -> None:
        """Take in what was used; `within`: before this, no limit was used up."""
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
        elif event.name != TOOL:  # it may follow the verdict in the same message, which stands
            self._answering = 0
        elif isinstance(read_answer(event.input), Answer):
            self.handed_in, self._by_tool = event.input, event.id

    def end_turn(self) -> None:
        self.in_progress, self.handed_in = False, None

    def _begin(self, *, within: bool) -> None:
        self.made += 1
        self.in_progress, self._within, self.handed_in = True, within, None

    def _end(self) -> None:
        """The message is whole: without a verdict in it, the plea remains unanswered."""
        self.in_progress = False
        if self.made >= self._answering and self.handed_in is None:
            self._answering = 0


def told_limits(limits: Limits) -> str:
    """The limits that are set, in words; empty without any."""
    said = [
        plural(limits.iterations, "iteration") if limits.iterations else "",
        format_duration(limits.duration) if limits.duration else "",
        format_money(limits.cost_usd) if limits.cost_usd else "",
        f"{limits.tokens:,} tokens" if limits.tokens else "",
        f"{format_money(limits.iteration_cost_usd)} a session" if limits.iteration_cost_usd else "",
        f"{limits.iteration_tokens:,} tokens a session" if limits.iteration_tokens else "",
    ]
    return " · ".join(filter(None, said))
