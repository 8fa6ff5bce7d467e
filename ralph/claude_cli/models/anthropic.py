"""Anthropic's models: how they are asked, and what their streams say. `wire` and `clouds` lead to them."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ralph.claude_cli.models import base, faults
from ralph.claude_cli.models.attempts import NoMessage, Patience
from ralph.claude_cli.models.base import (
    Block,
    MessageEnd,
    Model,
    ModelError,
    ModelRequest,
    ModelSaid,
    Provider,
    QuotaTold,
    Started,
    Thinking,
    Traits,
    Utterance,
    provider_of,
    skips,
)
from ralph.claude_cli.models.faults import ApiKey, Endpoint, FaultKind, ModelFault, find_key
from ralph.claude_cli.models.wire import HttpWire, Wire
from ralph.core import ndjson
from ralph.core.usage import Tokens

_GROWS = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}

_MOST_THINKING = 31_999
"""What claude asks of a model that thinks by budget, unless MAX_THINKING_TOKENS says otherwise (2.1.325)."""
_CACHED = {"cache_control": {"type": "ephemeral"}}
_NO_KEY = ModelError(
    "Not logged in · Please run /login",
    "authentication_failed",
    advice="no API key: set ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN, or log in: `claude`, then /login",
)


class Assembly:
    """Takes in stream events, gives out what they complete."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._usage: dict[str, object] = {}
        self._block: dict[str, object] = {}
        self._arguments: list[str] = []
        self._stop_reason = ""
        self.is_complete = False

    def feed(self, event: Mapping[str, object]) -> Iterator[Utterance]:
        match event.get("type"):
            case "message_start":
                message = ndjson.mapping(event.get("message"))
                self._usage = dict(ndjson.mapping(message.get("usage")))
                model = ndjson.text(message.get("model")) or self._model
                yield Started(ndjson.text(message.get("id")), model, self._tokens())
            case "content_block_start":
                self._block, self._arguments = dict(ndjson.mapping(event.get("content_block"))), []
            case "content_block_delta":
                yield from self._grow(ndjson.mapping(event.get("delta")))
            case "content_block_stop":
                yield ModelSaid(self._whole_block())
            case "message_delta":
                self._stop_reason = ndjson.text(ndjson.mapping(event.get("delta")).get("stop_reason"))
                told = ndjson.mapping(event.get("usage"))
                self._usage |= {name: value for name, value in told.items() if value is not None}
            case "message_stop":
                self.is_complete = True
                yield MessageEnd(self._stop_reason, self._tokens())
            case _:
                pass

    def _grow(self, delta: Mapping[str, object]) -> Iterator[Utterance]:
        kind = ndjson.text(delta.get("type"))
        if kind == "input_json_delta":
            self._arguments.append(ndjson.text(delta.get("partial_json")))
        elif kind in _GROWS:
            name = _GROWS[kind]
            more = ndjson.text(delta.get(name))
            self._block[name] = ndjson.text(self._block.get(name)) + more
            if kind == "thinking_delta":
                yield Thinking(len(more))

    def _whole_block(self) -> Block:
        if self._block.get("type") != "tool_use" or not "".join(self._arguments).strip():
            return self._block
        try:
            arguments = ndjson.mapping(ndjson.decode("".join(self._arguments)))
        except ndjson.Malformed:  # cut off at the token limit: the call is answered with what it lacks
            return {**self._block, "input": {}}
        return {**self._block, "input": dict(arguments)}

    def _tokens(self) -> Tokens:
        return Tokens(
            ndjson.count(self._usage.get("input_tokens")),
            ndjson.count(self._usage.get("output_tokens")),
            ndjson.count(self._usage.get("cache_creation_input_tokens")),
            ndjson.count(self._usage.get("cache_read_input_tokens")),
        )


@dataclass(frozen=True, slots=True)
class Manner:
    """How the model is to be asked."""

    effort: str
    """Empty: as the model's entry in the catalogue says."""

    thinking: int | None
    """MAX_THINKING_TOKENS; only for models with a thinking budget."""

    patience: Patience

    @classmethod
    def from_environment(cls, environment: Mapping[str, str], effort: str) -> "Manner":
        thinking = environment.get("MAX_THINKING_TOKENS", "")
        return cls(
            effort or environment.get("CLAUDE_CODE_EFFORT_LEVEL", ""),
            int(thinking[:9]) if thinking.isascii() and thinking.isdigit() else None,
            Patience.from_environment(environment),
        )


class AnthropicModel:
    """One model of Anthropic's, behind whatever wire leads to it."""

    def __init__(self, name: str, key: ApiKey, manner: Manner, wire: Wire, where: Endpoint) -> None:
        self.name = name
        self._key = key
        self._manner = manner
        self._wire = wire
        self._where = where
        self._quota: Mapping[str, object] | None = None

    @property
    def provider(self) -> Provider:
        return self._where.provider

    @property
    def traits(self) -> Traits:
        return base.entry(self.name).traits

    @property
    def key_source(self) -> str:
        return self._key.source

    def ask(self, request: ModelRequest, cancelled: threading.Event) -> Iterator[Utterance]:
        """Stream one message."""
        if self._key.kind == "none":
            raise _NO_KEY
        try:
            yield from self._manner.patience.ask(lambda: self._stream(request, cancelled), cancelled)
        except NoMessage as failed:
            yield from self._told(failed.fault.quota)
            raise faults.worded(failed.fault, self.name, self._where) from failed

    def _stream(self, request: ModelRequest, cancelled: threading.Event) -> Iterator[Utterance]:
        assembly = Assembly(self.name)
        for event in self._wire.events(self._parameters(request)):
            if cancelled.is_set():
                return
            yield from assembly.feed(event)
        yield from self._told(self._wire.quota)
        if not assembly.is_complete:
            raise NoMessage(ModelFault(FaultKind.BROKEN_OFF))

    def _told(self, info: Mapping[str, object] | None) -> Iterator[QuotaTold]:
        """Report the quota when it changes."""
        if info is not None and info != self._quota:
            self._quota = info
            yield QuotaTold(info)

    def _parameters(self, request: ModelRequest) -> dict[str, object]:
        entry = base.entry(self.name)
        tools = [{"name": t.name, "description": t.description, "input_schema": t.input_schema} for t in request.tools]
        return {
            "model": self.name,
            "max_tokens": entry.max_output,
            "system": _cached([{"type": "text", "text": text} for text in request.system]),
            "messages": _cached_messages(request.messages),
            **({"tools": _cached(tools)} if tools else {}),
            **self._thinking(entry),
            "stream": True,
        }

    def _thinking(self, entry: base.ModelEntry) -> dict[str, object]:
        effort = self._manner.effort or entry.effort
        parameters: dict[str, object] = {"output_config": {"effort": effort}} if effort else {}
        wanted = self._manner.thinking
        match entry.thinks:
            case "adaptive":  # MAX_THINKING_TOKENS has no effect, not even 0 (2.1.325)
                return {"thinking": {"type": "adaptive"}, **parameters}
            case "budget" | "unknown":
                budget = _MOST_THINKING if wanted is None and entry.thinks == "budget" else wanted or 0
                budget = min(budget, entry.max_output - 1)
                thinking = {"type": "enabled", "budget_tokens": budget} if budget else {"type": "disabled"}
                return parameters if wanted is None and not budget else {"thinking": thinking, **parameters}


def open_model(name: str, environment: Mapping[str, str], effort: str) -> Model:
    """The model as the environment wants it asked, at the provider that the environment names."""
    manner = Manner.from_environment(environment, effort)
    provider = provider_of(environment)
    if provider != "firstParty":
        from ralph.claude_cli.models.clouds import open_cloud

        wire = open_cloud(provider, environment, manner.patience.timeout)
        return AnthropicModel(
            name, ApiKey("bearer"), manner, wire, Endpoint(provider, skips=skips(environment, provider))
        )
    key, url = find_key(environment), environment.get("ANTHROPIC_BASE_URL", "")
    wire = HttpWire(key, url, manner.patience.timeout, _headers(environment))
    return AnthropicModel(name, key, manner, wire, Endpoint("firstParty", gateway=_host(url)))


def _headers(environment: Mapping[str, str]) -> dict[str, str]:
    betas = environment.get("ANTHROPIC_BETAS", "")
    return custom_headers(environment) | ({"anthropic-beta": betas} if betas else {})


def custom_headers(environment: Mapping[str, str]) -> dict[str, str]:
    """The headers of ANTHROPIC_CUSTOM_HEADERS: one `Name: value` a line."""
    lines = (line.partition(":") for line in environment.get("ANTHROPIC_CUSTOM_HEADERS", "").splitlines())
    return {name.strip().lower(): value.strip() for name, colon, value in lines if colon and name.strip()}


def _host(url: str) -> str:
    return url.partition("://")[2].partition("/")[0]


def _cached(blocks: Sequence[Mapping[str, object]]) -> list[Mapping[str, object]]:
    """Mark the last block: everything up to it is kept for the next request."""
    return [*blocks[:-1], *({**block, **_CACHED} for block in blocks[-1:])]


def _cached_messages(messages: Sequence[Mapping[str, object]]) -> list[Mapping[str, object]]:
    return [
        *messages[:-1],
        *(
            {
                **message,
                "content": _cached([ndjson.mapping(block) for block in ndjson.sequence(message["content"])]),
            }
            for message in messages[-1:]
        ),
    ]
