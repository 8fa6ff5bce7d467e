"""The interface that every model implements, the events it streams, and the catalogue of known models."""

import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from ralph.core.usage import Tokens, canonical

Block = Mapping[str, object]
"""One content block as the Messages API writes it: text, thinking, tool_use."""

ALIASES: Mapping[str, str] = {
    "haiku": "claude-haiku-5-5",
    "sonnet": "claude-sonnet-5-5",
    "opus": "claude-opus-5-5",
    "fable": "claude-fable-5-2",
}
DEFAULT = "opus"
_NAMED = re.compile(r"claude-([a-z]+)-(\d+(?:-\d+)?)")
Provider = Literal["firstParty", "bedrock", "vertex", "foundry", "openai"]
_CLOUDS: Mapping[Provider, str] = {
    "bedrock": "CLAUDE_CODE_USE_BEDROCK",
    "foundry": "CLAUDE_CODE_USE_FOUNDRY",
    "vertex": "CLAUDE_CODE_USE_VERTEX",
}
"""The variable that chooses the provider; the first one that is set counts (2.1.325)."""

_THERE: Mapping[Provider, Mapping[str, str]] = {
    "bedrock": {"haiku": "claude-haiku-4-5-20251001-v1:0", "sonnet": "claude-sonnet-4-5-20250929-v1:0"},
    "foundry": {"haiku": "claude-haiku-4-5", "opus": "claude-opus-4-6", "sonnet": "claude-sonnet-4-5"},
    "vertex": {"haiku": "claude-haiku-4-5@20251001", "sonnet": "claude-sonnet-4-5@20250929"},
}
"""The models behind aliases where they are others than Anthropic's own (2.1.325)."""

_DEFAULTS: Mapping[Provider, str] = {"foundry": "sonnet"}
_GEOGRAPHIES = {"us-gov-": "us-gov", "us-": "us", "eu-": "eu", "ap-": "apac"}
_VENDOR = re.compile(r"^openai:|^([a-z-]+\.)?anthropic\.|@\d{8}$|(-\d{8})?-v\d+:\d+$")
OPENAI = "openai:"
"""The prefix of a model behind an OpenAI-compatible endpoint."""

Thinks = Literal["adaptive", "budget", "unknown"]


@dataclass(frozen=True, slots=True)
class ToolOffer:
    """A tool as the model sees it."""

    name: str
    description: str
    input_schema: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """Everything said so far, and what may be called."""

    system: Sequence[str]
    messages: Sequence[Mapping[str, object]]
    tools: Sequence[ToolOffer]


@dataclass(frozen=True, slots=True)
class Started:
    """A message began; its usage is what the model knew then: one token of output."""

    message_id: str
    model: str
    tokens: Tokens


@dataclass(frozen=True, slots=True)
class Thinking:
    """So many characters were just thought."""

    characters: int


@dataclass(frozen=True, slots=True)
class ModelSaid:
    """A block is complete."""

    block: Block


@dataclass(frozen=True, slots=True)
class MessageEnd:
    """The message is complete; `tokens` is what it used."""

    stop_reason: str
    tokens: Tokens


@dataclass(frozen=True, slots=True)
class Retrying:
    """The model was not available; the request is repeated after a pause."""

    attempt: int
    most: int
    delay_ms: int
    status: int | None
    error: str


@dataclass(frozen=True, slots=True)
class QuotaTold:
    """The subscription's window, as the API reported it."""

    info: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class FellBack:
    """From here on another model answers; `said` is what the first one complained about, if it did."""

    trigger: str
    """In claude's words: overloaded, server_error, model_not_found, last_resort."""

    original: str
    fallback: str
    said: str = ""


Utterance = Started | Thinking | ModelSaid | MessageEnd | Retrying | QuotaTold | FellBack


class ModelError(Exception):
    """The model gave no message, and asking again will not help; worded as the result is to say it."""

    def __init__(self, text: str, error: str, **facts: object) -> None:
        """`error` is claude's word for the kind; `facts` go into the events as they are."""
        super().__init__(text)
        self.text = text
        self.error = error
        self.status = facts.pop("status", None)
        self.terminal_reason = str(facts.pop("terminal_reason", "api_error"))
        self.advice = str(facts.pop("advice", ""))
        """One line for stderr."""
        self.facts = facts


@dataclass(frozen=True, slots=True)
class Traits:
    """A result's facts about a model, apart from its usage."""

    context_window: int
    max_output: int


class Model(Protocol):
    """One model, ready to be asked. Slow imports wait until it is."""

    @property
    def name(self) -> str:
        """The full id."""
        ...

    @property
    def provider(self) -> Provider:
        """Who runs it, in claude's words."""
        ...

    @property
    def traits(self) -> Traits: ...

    @property
    def key_source(self) -> str:
        """Where the key came from, in claude's words."""
        ...

    def ask(self, request: ModelRequest, cancelled: threading.Event) -> Iterator[Utterance]:
        """Say what the model says; after `cancelled` nothing more is asked. Raises ModelError."""
        ...


@dataclass(slots=True)
class ModelReply:
    """A message as it was heard."""

    message_id: str = ""
    blocks: list[Block] = field(default_factory=list[Block])
    stop_reason: str = ""
    tokens: Tokens = field(default_factory=Tokens)


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """One model: its sizes, and whether it thinks as it sees fit, by a budget of tokens, or nobody knows."""

    context_window: int = 200_000
    max_output: int = 32_000
    thinks: Thinks = "unknown"
    effort: str = ""
    """The effort it is asked for unless the user says otherwise; empty: it knows none."""

    @property
    def traits(self) -> Traits:
        return Traits(self.context_window, self.max_output)


_NEWEST = ModelEntry(1_000_000, 128_000, "adaptive", "medium")
_NEW = ModelEntry(1_000_000, 64_000, "adaptive", "high")

MODELS: Mapping[str, ModelEntry] = {
    "claude-haiku-5-5": _NEWEST,
    "claude-sonnet-5-5": _NEWEST,
    "claude-opus-5-5": _NEWEST,
    "claude-fable-5-2": _NEWEST,
    "claude-fable-5": _NEW,
    "claude-sonnet-5": _NEW,
    "claude-opus-4-8": _NEW,
    "claude-opus-4-6": ModelEntry(200_000, 64_000, "adaptive", "high"),
    "claude-sonnet-4-6": ModelEntry(200_000, 32_000, "adaptive", "high"),
    "claude-opus-4-5": ModelEntry(200_000, 32_000, "budget", "high"),
    "claude-sonnet-4-5": ModelEntry(200_000, 32_000, "budget"),
    "claude-haiku-4-5": ModelEntry(200_000, 32_000, "budget"),
}


def is_set(environment: Mapping[str, str], name: str) -> bool:
    """Tell whether the variable says yes, as claude reads it."""
    return environment.get(name, "").strip().lower() in ("1", "true", "yes", "on")


def provider_of(environment: Mapping[str, str]) -> Provider:
    """Where Anthropic's models are asked."""
    for provider, name in _CLOUDS.items():
        if is_set(environment, name):
            return provider
    return "firstParty"


def skips(environment: Mapping[str, str], provider: str) -> bool:
    """Tell whether a gateway in between has the provider's credentials."""
    return is_set(environment, f"CLAUDE_CODE_SKIP_{provider.upper()}_AUTH")


def region_of(provider: str, model: str, environment: Mapping[str, str]) -> str:
    """The provider's region for a model."""
    if provider == "bedrock":
        return environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or "us-east-1"
    family = "_".join(bare(model).removeprefix("claude-").upper().split("-"))
    name, _, version = family.partition("_")
    own = environment.get(f"VERTEX_REGION_CLAUDE_{version}_{name}") or environment.get(f"VERTEX_REGION_CLAUDE_{family}")
    return own or environment.get("CLOUD_ML_REGION") or "us-east5"


def resolve(model: str, environment: Mapping[str, str]) -> str:
    """The id that `model` stands for; nothing at all stands for ANTHROPIC_MODEL, else for the default."""
    provider = provider_of(environment)
    default = _DEFAULTS.get(provider, DEFAULT)
    wanted = (model or environment.get("ANTHROPIC_MODEL", "") or default).removesuffix("[1m]")
    alias = default if wanted == "default" else wanted
    if alias not in ALIASES:
        return wanted
    if own := environment.get(f"ANTHROPIC_DEFAULT_{alias.upper()}_MODEL", ""):
        return own
    found = _THERE.get(provider, {}).get(alias, ALIASES[alias])
    if provider != "bedrock":
        return found
    region = region_of(provider, found, environment)
    place = next((name for begin, name in _GEOGRAPHIES.items() if region.startswith(begin)), "global")
    return f"{place}.anthropic.{found}"


def display_name(model: str) -> str:
    """The name as claude shows it: Sonnet 5.5; of a stranger, its id."""
    match = _NAMED.fullmatch(canonical(bare(model)))
    return f"{match[1].capitalize()} {match[2].replace('-', '.')}" if match else model


def entry(model: str) -> ModelEntry:
    """What is known of the model; of a stranger, only what any model can be expected to do."""
    return MODELS.get(canonical(bare(model)), ModelEntry())


def bare(model: str) -> str:
    """The name without what a provider adds to it."""
    return _VENDOR.sub("", model)
