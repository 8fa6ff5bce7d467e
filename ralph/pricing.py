"""Dollars for tokens, by a table of list prices. A model that is not in the table has no price: none is guessed."""

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ralph import jsonline

if TYPE_CHECKING:
    from ralph.events import Usage  # 10 ms to import, and ralph-claude knows no events of ralph's

_MILLION = 1_000_000
_DATE = re.compile(r"-\d{8}$")


@dataclass(frozen=True, slots=True)
class Tokens:
    """What one or more messages used, in the four kinds that are billed apart."""

    input: int = 0
    output: int = 0
    cache_write: int = 0
    cache_read: int = 0

    def __add__(self, other: "Tokens") -> "Tokens":
        return Tokens(
            self.input + other.input,
            self.output + other.output,
            self.cache_write + other.cache_write,
            self.cache_read + other.cache_read,
        )

    @property
    def prompt(self) -> int:
        return self.input + self.cache_write + self.cache_read


@dataclass(frozen=True, slots=True)
class Rates:
    """Dollars per million tokens."""

    input: float
    output: float
    cache_write: float
    cache_read: float

    def dollars(self, tokens: Tokens) -> float:
        return (
            tokens.input * self.input
            + tokens.output * self.output
            + tokens.cache_write * self.cache_write
            + tokens.cache_read * self.cache_read
        ) / _MILLION


@dataclass(frozen=True, slots=True)
class Price:
    """A model's rates; `long` takes their place for a prompt of more than `longest` tokens."""

    rates: Rates
    longest: int = 0
    long: Rates | None = None

    def dollars(self, tokens: Tokens) -> float:
        """What one message costs."""
        rates = self.rates if self.long is None or tokens.prompt <= self.longest else self.long
        return rates.dollars(tokens)


@dataclass(frozen=True, slots=True)
class Prices:
    """The table."""

    models: Mapping[str, Price]

    def dollars(self, model: str, tokens: Tokens) -> float | None:
        """What one message of `model` costs; None when nobody has said."""
        price = self.price(model)
        return None if price is None else price.dollars(tokens)

    def price(self, model: str) -> Price | None:
        """The price of the model by this very name, else by the one it is listed under."""
        return self.models.get(model) or self.models.get(canonical(model))


def canonical(model: str) -> str:
    """The name a model is listed under: without its date, and without the wish for a longer context."""
    return _DATE.sub("", model.removesuffix("[1m]"))


def priced(usage: "Usage", prices: Prices, model: str) -> "Usage":
    """Fill in what a session's tokens cost, if its agent told them but no cost, and its model has a price.

    `model` is the one that was asked for; the one that the agent names counts more.
    """
    if usage.cost_usd is not None or (usage.prompt_tokens is None and usage.completion_tokens is None):
        return usage
    price = prices.price(usage.model or model)
    if price is None:
        return usage
    prompt = usage.prompt_tokens or 0
    written = min(usage.cache_creation_tokens or 0, prompt)  # a part of the prompt, whatever the agent says
    read = min(usage.cache_read_tokens or 0, prompt - written)
    fresh = prompt - written - read
    # The rates for long prompts hold message by message, and a session's sum tells of no message: the base rates, then.
    cost = price.rates.dollars(Tokens(fresh, usage.completion_tokens or 0, written, read))
    return replace(usage, cost_usd=cost, cost_is_estimate=True)


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
    """The table that comes with ralph, for ralph-claude alone: what others cost is for them or the user to say."""
    return parse(Path(__file__).with_name("pricing.toml").read_text("utf-8"))


_KINDS = ("input", "output", "cache_write", "cache_read")


def _price(value: object, where: str) -> Price:
    entry = _table(value, where, {*_KINDS, "above"})
    if "above" not in entry:
        return Price(_rates(entry, where))
    above = _table(entry["above"], f"{where} above", {*_KINDS, "prompt"})
    longest = jsonline.count(above.get("prompt"))
    if not longest:
        raise ValueError(f"{where} above: prompt: not a number of tokens")
    return Price(_rates(entry, where), longest, _rates(above, f"{where} above"))


def _rates(entry: Mapping[str, object], where: str) -> Rates:
    """Read the rates; a prompt that is written to a cache or read from it costs as any other unless they say more."""
    fresh = _rate(entry, "input", where)
    return Rates(
        fresh,
        _rate(entry, "output", where),
        _rate(entry, "cache_write", where) if "cache_write" in entry else fresh,
        _rate(entry, "cache_read", where) if "cache_read" in entry else fresh,
    )


def _rate(entry: Mapping[str, object], name: str, where: str) -> float:
    if name not in entry:
        raise ValueError(f"{where} {name}: missing")
    amount = jsonline.amount(entry[name])
    if amount is None:
        raise ValueError(f"{where} {name}: not an amount of dollars")
    return amount


def _table(value: object, where: str, known: set[str]) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise ValueError(f"{where}: not a table of rates")
    entry = jsonline.mapping(value)  # pyright: ignore[reportUnknownArgumentType] - TOML
    for name, item in entry.items():
        if name not in known:
            dotted = isinstance(item, dict)  # [gpt-5.1] is the table "1" in the table "gpt-5"
            hint = " (a model's name with a dot in it needs quotes)" if dotted else ""
            raise ValueError(f"{where} {name}: unknown field{hint}")
    return entry
