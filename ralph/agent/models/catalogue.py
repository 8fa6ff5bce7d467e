"""What is known of models: which id an alias stands for, how much each reads and writes, how it is made to think.

As Claude Code 2.1.325 has it, taken from its requests and results. An alias can be pointed elsewhere, as there, by
ANTHROPIC_DEFAULT_<ALIAS>_MODEL.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ralph.claude_cli.models.base import Traits
from ralph.core.usage import canonical

ALIASES: Mapping[str, str] = {
    "haiku": "claude-haiku-5-5",
    "sonnet": "claude-sonnet-5-5",
    "opus": "claude-opus-5-5",
    "fable": "claude-fable-5-2",
}
DEFAULT = "opus"

Thinks = Literal["adaptive", "budget", "unknown"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One model: its sizes, and whether it thinks as it sees fit, by a budget of tokens, or nobody knows."""

    context_window: int = 200_000
    max_output: int = 32_000
    thinks: Thinks = "unknown"
    effort: str = ""
    """The effort it is asked for unless the user says otherwise; empty: it knows none."""

    @property
    def traits(self) -> Traits:
        return Traits(self.context_window, self.max_output)


_NEWEST = Entry(1_000_000, 128_000, "adaptive", "medium")
_NEW = Entry(1_000_000, 64_000, "adaptive", "high")

MODELS: Mapping[str, Entry] = {
    "claude-haiku-5-5": _NEWEST,
    "claude-sonnet-5-5": _NEWEST,
    "claude-opus-5-5": _NEWEST,
    "claude-fable-5-2": _NEWEST,
    "claude-fable-5": _NEW,
    "claude-sonnet-5": _NEW,
    "claude-opus-4-8": _NEW,
    "claude-opus-4-6": Entry(200_000, 64_000, "adaptive", "high"),
    "claude-sonnet-4-6": Entry(200_000, 32_000, "adaptive", "high"),
    "claude-opus-4-5": Entry(200_000, 32_000, "budget", "high"),
    "claude-sonnet-4-5": Entry(200_000, 32_000, "budget"),
    "claude-haiku-4-5": Entry(200_000, 32_000, "budget"),
}


def resolve(model: str, environment: Mapping[str, str]) -> str:
    """The id that `model` stands for; nothing at all stands for ANTHROPIC_MODEL, else for the default."""
    wanted = (model or environment.get("ANTHROPIC_MODEL", "") or DEFAULT).removesuffix("[1m]")
    alias = DEFAULT if wanted == "default" else wanted
    if alias not in ALIASES:
        return wanted
    return environment.get(f"ANTHROPIC_DEFAULT_{alias.upper()}_MODEL", "") or ALIASES[alias]


def entry(model: str) -> Entry:
    """What is known of the model; of a stranger, only what any model can be expected to do."""
    return MODELS.get(canonical(model), Entry())
