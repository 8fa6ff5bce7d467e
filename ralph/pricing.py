"""Dollars for tokens, by a table of list prices. A model that is not in the table has no price: none is guessed."""

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ralph import jsonline

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
        price = self.models.get(canonical(model))
        return None if price is None else price.dollars(tokens)


def canonical(model: str) -> str:
    """The name a model is listed under: without its date, and without the wish for a longer context."""
    return _DATE.sub("", model.removesuffix("[1m]"))


def parse(text: str) -> Prices:
    """Read a table; what is not a price raises ValueError."""
    import tomllib

    return Prices({model: _price(jsonline.mapping(entry)) for model, entry in tomllib.loads(text).items()})


@functools.cache
def shipped() -> Prices:
    """The table that comes with ralph."""
    return parse(Path(__file__).with_name("pricing.toml").read_text("utf-8"))


def _price(entry: Mapping[str, object]) -> Price:
    above = jsonline.mapping(entry.get("above"))
    return Price(_rates(entry), jsonline.count(above.get("prompt")), _rates(above) if above else None)


def _rates(entry: Mapping[str, object]) -> Rates:
    names = ("input", "output", "cache_write", "cache_read")
    amounts = [jsonline.amount(entry.get(name)) for name in names]
    if missing := [name for name, amount in zip(names, amounts, strict=True) if amount is None]:
        raise ValueError(f"no price for {', '.join(missing)}")
    return Rates(*(amount for amount in amounts if amount is not None))
