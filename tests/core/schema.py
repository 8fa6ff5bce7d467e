"""Dataclasses for the tests of records. Their annotations are types, not strings, as those of ralph's records are."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, slots=True)
class Part:
    name: str
    exit_code: int | None


@dataclass(frozen=True, slots=True)
class Whole:
    title: str
    number: int = field(metadata={"key": "count"})
    colour: Colour
    part: Part
    maybe: Part | None = None
    parts: tuple[Part, ...] = ()
    by_number: Mapping[int, Part] = field(default_factory=dict[int, Part])
    rates: Mapping[str, float] = field(default_factory=dict[str, float])
    words: tuple[str, ...] = ()
    anything: object = None


@dataclass(frozen=True, slots=True)
class Unknown:
    values: set[int]
