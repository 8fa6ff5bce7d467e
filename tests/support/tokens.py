"""Token counts as the Messages API bills them: the one currency of the ledgers in this package."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tokens:
    input: int = 0
    output: int = 0
    cache_creation: int = 0
    cache_read: int = 0

    def __add__(self, other: Tokens) -> Tokens:
        return Tokens(
            self.input + other.input,
            self.output + other.output,
            self.cache_creation + other.cache_creation,
            self.cache_read + other.cache_read,
        )

    @property
    def total(self) -> int:
        return self.input + self.output + self.cache_creation + self.cache_read


# Four different numbers, so that a test that mixes two of them up fails.
ONE_MESSAGE = Tokens(input=1234, output=42, cache_creation=10, cache_read=20)
