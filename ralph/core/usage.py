"""What sessions use: tokens and cost as agents report them, and prices from a table. No price is guessed."""

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ralph.core import ndjson
from ralph.core.events import Usage

_MILLION = 1_000_000
_DATE = re.compile(r"-\d{8}$")


@dataclass(frozen=True, slots=True)
class Tokens:
    """What one or more messages used, in the kinds that are billed apart."""

    input: int = 0
    output: int = 0
    cache_write: int = 0
    cache_read: int = 0
    cache_write_1h: int = 0
    """Written to be kept for an hour; not among those of `cache_write`."""

    def __add__(self, other: "Tokens") -> "Tokens":
        return Tokens(
            self.input + other.input,
            self.output + other.output,
            self.cache_write + other.cache_write,
            self.cache_read + other.cache_read,
            self.cache_write_1h + other.cache_write_1h,
        )

    def since(self, before: "Tokens") -> "Tokens":
        """The tokens added since `before`; a count that fell is taken as unchanged."""
        return Tokens(
            max(0, self.input - before.input),
            max(0, self.output - before.output),
            max(0, self.cache_write - before.cache_write),
            max(0, self.cache_read - before.cache_read),
            max(0, self.cache_write_1h - before.cache_write_1h),
        )

    @property
    def prompt(self) -> int:
        return self.input + self.cache_write + self.cache_write_1h + self.cache_read


@dataclass(frozen=True, slots=True)
class Rates:
    """Dollars per million tokens."""

    input: float
    output: float
    cache_write: float
    cache_read: float
    cache_write_1h: float

    def dollars(self, tokens: Tokens) -> float:
        return (
            tokens.input * self.input
            + tokens.output * self.output
            + tokens.cache_write * self.cache_write
            + tokens.cache_read * self.cache_read
            + tokens.cache_write_1h * self.cache_write_1h
        ) / _MILLION


@dataclass(frozen=True, slots=True)
class Price:
    """A model's rates; `long` takes their place for a prompt of more than `longest` tokens."""

    rates: Rates
    longest: int = 0
    long: Rates | None = None

    def dollars(self, tokens: Tokens) -> float:
        """What one message costs."""
        return self.rates_for(tokens.prompt).dollars(tokens)

    def rates_for(self, prompt: int) -> Rates:
        """The rates of a message with a prompt of so many tokens."""
        return self.rates if self.long is None or prompt <= self.longest else self.long


@dataclass(frozen=True, slots=True)
class Prices:
    """A table of prices; a model that it does not list is looked up in the table `below`."""

    models: Mapping[str, Price]
    below: "Prices | None" = None

    def dollars(self, model: str, tokens: Tokens) -> float | None:
        """What one message of `model` costs; None when nobody has said."""
        price = self.price(model)
        return None if price is None else price.dollars(tokens)

    def price(self, model: str) -> Price | None:
        """The price of the model by this very name, else by the one it is listed under."""
        price = self.models.get(model) or self.models.get(canonical(model))
        return self.below.price(model) if price is None and self.below is not None else price


@functools.lru_cache(maxsize=64)
def canonical(model: str) -> str:
    """The name a model is listed under: without its date, and without the wish for a longer context."""
    return _DATE.sub("", model.removesuffix("[1m]"))


@dataclass(frozen=True, slots=True)
class _Charged:
    tokens: int = 0
    dollars: float = 0.0

    def plus(self, tokens: int, dollars: float) -> "_Charged":
        return _Charged(self.tokens + tokens, self.dollars + dollars)


class Estimate:
    """The cost of a running session: the agent's last reported cost, and the price of the tokens since.

    `model` is the one that was asked for; a model that the agent names takes precedence. A model without a price adds
    nothing. `by_message`: the agent reports its usage with every message, so that each message is charged by the length
    of its own prompt; a sum over several messages has no length, and gets base rates.
    """

    def __init__(self, prices: Prices, model: str, *, by_message: bool) -> None:
        self._price_of = functools.lru_cache(maxsize=64)(prices.price)  # the names are the agent's
        self._model = model
        self._by_message = by_message
        self._named: float | None = None
        self._since: float | None = None
        self._counted = Tokens()
        self._prompt = 0
        self._call = _Charged()
        self._left_out = _Charged()

    def __call__(self, usage: "Usage") -> "Usage":
        """Fill in what the session costs so far, where its agent has not said it of all its tokens."""
        told, before = _tokens(usage), self._counted
        self._counted = told
        if usage.cost_usd is not None and usage.cost_is_estimate is not True:
            # A result: what it tells beyond the messages is of side calls, which never were the last one of ours.
            self._named, self._since = usage.cost_usd, None
            return usage
        if told.prompt > before.prompt:
            self._prompt = told.prompt - before.prompt
            self._call = _Charged()
        more = told.since(before)
        price = self._price_of(usage.model or self._model)
        if price is not None and (usage.prompt_tokens is not None or usage.completion_tokens is not None):
            rates = price.rates_for(self._prompt) if self._by_message else price.rates
            dollars = rates.dollars(more)
            self._call = self._call.plus(more.prompt + more.output, dollars)
            self._since = (self._since or 0.0) + dollars
            if usage.uncosted_tokens is not None:
                self._since += self._charge_left_out(usage.uncosted_tokens)
        if self._since is None:
            return usage
        return usage.estimated_at((self._named or 0.0) + self._since)

    def knows(self, model: str) -> bool:
        """Tell whether the model has a price."""
        return self._price_of(model) is not None

    def _charge_left_out(self, tokens: int) -> float:
        """What the tokens cost that the agent's own figure leaves out: those of a call that was cut, the last one."""
        new = tokens - self._left_out.tokens
        each = self._call if new > 0 else self._left_out
        self._left_out = self._left_out.plus(new, new * each.dollars / each.tokens if each.tokens else 0.0)
        return self._left_out.dollars


def _tokens(usage: "Usage") -> Tokens:
    """A usage in the kinds that are billed apart: what is cached is a part of the prompt, whatever the agent says."""
    prompt = usage.prompt_tokens or 0
    written = min(usage.cache_creation_tokens or 0, prompt)
    for_an_hour = min(usage.cache_creation_1h_tokens or 0, written)
    read = min(usage.cache_read_tokens or 0, prompt - written)
    return Tokens(prompt - written - read, usage.completion_tokens or 0, written - for_an_hour, read, for_an_hour)


def parse(text: str, source: str = "pricing.toml") -> Prices:
    """Read a table; what is not one raises a ValueError that names `source`, the model and the field."""
    import tomllib

    try:
        entries = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{source}: not TOML: {error}") from error
    return Prices({model: _price(entry, f"{source}: [{model}]") for model, entry in entries.items()})


@functools.cache
def shipped() -> Prices:
    """The table that comes with ralph: Anthropic's models. What others cost is for them or the user to say."""
    return parse(Path(__file__).with_name("pricing.toml").read_text("utf-8"))


_KINDS = ("input", "output", "cache_write", "cache_read", "cache_write_1h")


def _price(value: object, where: str) -> Price:
    entry = _table(value, where, {*_KINDS, "above"})
    if "above" not in entry:
        return Price(_rates(entry, where))
    above = _table(entry["above"], f"{where} above", {*_KINDS, "prompt"})
    longest = ndjson.count(above.get("prompt"))
    if not longest:
        raise ValueError(f"{where} above: prompt: not a number of tokens")
    return Price(_rates(entry, where), longest, _rates(above, f"{where} above"))


def _rates(entry: Mapping[str, object], where: str) -> Rates:
    """Read the rates; a prompt that is written to a cache or read from it costs as any other unless they say more."""
    fresh = _rate(entry, "input", where)
    written = _rate(entry, "cache_write", where) if "cache_write" in entry else fresh
    return Rates(
        fresh,
        _rate(entry, "output", where),
        written,
        _rate(entry, "cache_read", where) if "cache_read" in entry else fresh,
        _rate(entry, "cache_write_1h", where) if "cache_write_1h" in entry else written,
    )


def _rate(entry: Mapping[str, object], name: str, where: str) -> float:
    if name not in entry:
        raise ValueError(f"{where} {name}: missing")
    amount = ndjson.amount(entry[name])
    if amount is None:
        raise ValueError(f"{where} {name}: not an amount of dollars")
    return amount


def _table(value: object, where: str, known: set[str]) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise ValueError(f"{where}: not a table of rates")
    entry = ndjson.mapping(value)  # pyright: ignore[reportUnknownArgumentType] - TOML
    for name, item in entry.items():
        if name not in known:
            dotted = isinstance(item, dict)  # [gpt-5.1] is the table "1" in the table "gpt-5"
            hint = " (a model's name with a dot in it needs quotes)" if dotted else ""
            raise ValueError(f"{where} {name}: unknown field{hint}")
    return entry


def context_pct(prompt_tokens: int, window: int) -> float:
    """How full the context is, in percent."""
    return round(prompt_tokens / window * 100, 1) if window > 0 else 0.0


def total_tokens(usage: Usage) -> int | None:
    """Return all tokens of a session: the larger of the agent's total and the sum of its parts; None if unknown."""
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
