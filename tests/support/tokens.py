"""Token counts as the Messages API bills them: the one currency of the ledgers in this package.

codex counts in other words, of which `in_codex` is the translation: its input is everything that was read.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tokens:
    input: int = 0
    output: int = 0
    cache_creation: int = 0
    cache_read: int = 0
    reasoning: int = 0  # a part of the output

    def __add__(self, other: Tokens) -> Tokens:
        return Tokens(
            self.input + other.input,
            self.output + other.output,
            self.cache_creation + other.cache_creation,
            self.cache_read + other.cache_read,
            self.reasoning + other.reasoning,
        )

    @property
    def total(self) -> int:
        return self.input + self.output + self.cache_creation + self.cache_read

    @property
    def in_codex(self) -> dict[str, int]:
        """The `usage` of codex's `turn.completed`; its total is input and output, the same as ours."""
        return {
            "input_tokens": self.input + self.cache_creation + self.cache_read,
            "cached_input_tokens": self.cache_read,
            "cache_write_input_tokens": self.cache_creation,
            "output_tokens": self.output,
            "reasoning_output_tokens": self.reasoning,
        }


# Four different numbers, so that a test that mixes two of them up fails.
ONE_MESSAGE = Tokens(input=1234, output=42, cache_creation=10, cache_read=20)
