"""Anthropic's models through the official SDK: streaming, prompt caching, thinking and retries.

Importing the SDK takes 1.7 s (2.8.0), more than a whole session of the real claude, so it waits for the first request.
"""

import functools
import gc
import importlib
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from ralph.claude_cli.models import base, faults
from ralph.claude_cli.models.base import (
    Block,
    MessageEnd,
    Model,
    ModelError,
    ModelRequest,
    ModelSaid,
    QuotaTold,
    Retrying,
    Started,
    Thinking,
    Traits,
    Utterance,
)
from ralph.claude_cli.models.faults import ApiKey, FaultKind, ModelFault, find_key
from ralph.core import ndjson
from ralph.core.usage import Tokens

if TYPE_CHECKING:
    import anthropic

_GROWS = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}

_RETRIES = 10
_TIMEOUT_MS = 600_000
_MOST_THINKING = 31_999
"""What claude asks of a model that thinks by budget, unless MAX_THINKING_TOKENS says otherwise (2.1.325)."""
_CACHED = {"cache_control": {"type": "ephemeral"}}
_SUBSCRIBER = {"anthropic-beta": "oauth-2025-04-20"}
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

    retries: int
    timeout: float
    base_url: str

    @classmethod
    def from_environment(cls, environment: Mapping[str, str], effort: str) -> "Manner":
        thinking = environment.get("MAX_THINKING_TOKENS", "")
        return cls(
            effort or environment.get("CLAUDE_CODE_EFFORT_LEVEL", ""),
            int(thinking[:9]) if thinking.isascii() and thinking.isdigit() else None,
            _number(environment, "CLAUDE_CODE_MAX_RETRIES", _RETRIES),
            _number(environment, "API_TIMEOUT_MS", _TIMEOUT_MS) / 1000,
            environment.get("ANTHROPIC_BASE_URL", ""),
        )


class AnthropicModel:
    """One model of Anthropic's, or of the server at ANTHROPIC_BASE_URL."""

    def __init__(self, name: str, key: ApiKey, manner: Manner) -> None:
        self.name = name
        self._key = key
        self._manner = manner
        self._client: anthropic.Anthropic | None = None
        self._quota: Mapping[str, object] | None = None

    @property
    def traits(self) -> Traits:
        return base.entry(self.name).traits

    @property
    def key_source(self) -> str:
        return self._key.source

    def ask(self, request: ModelRequest, cancelled: threading.Event) -> Iterator[Utterance]:
        """Stream one message; a fault that may pass is tried again, as long as nothing of the message was said."""
        if self._key.kind == "none":
            raise _NO_KEY
        attempt, said = 0, False
        while not cancelled.is_set():
            try:
                for utterance in self._stream(request, cancelled):
                    said = said or isinstance(utterance, ModelSaid)
                    yield utterance
                return
            except _Failed as failed:
                fault = failed.fault
            if said or attempt >= self._manner.retries or not fault.is_worth_another_try:
                yield from self._told(fault.quota)
                raise faults.worded(fault, self.name, _host(self._manner.base_url))
            attempt += 1
            delay = faults.delay_ms(fault, attempt, time.monotonic() % 1)
            yield Retrying(attempt, self._manner.retries, delay, fault.status, fault.word)
            cancelled.wait(delay / 1000)

    def _stream(self, request: ModelRequest, cancelled: threading.Event) -> Iterator[Utterance]:
        _load_sdk()
        import anthropic
        import httpx2

        by_subscription = self._key.kind == "subscription"
        assembly = Assembly(self.name)
        try:
            with self._opened(request) as stream:
                for event in stream:
                    if cancelled.is_set():
                        return
                    yield from assembly.feed(event.to_dict())
                if by_subscription:
                    yield from self._told(faults.quota(dict(stream.response.headers)))
        except anthropic.APIStatusError as error:
            raise _Failed(_fault_of(error, by_subscription)) from error
        except anthropic.APITimeoutError as error:
            raise _Failed(ModelFault(FaultKind.TIMED_OUT)) from error
        except anthropic.APIConnectionError as error:
            raise _Failed(ModelFault(_kind_of(error))) from error
        except httpx2.TimeoutException as error:  # in the middle of a message the SDK does not translate
            raise _Failed(ModelFault(FaultKind.TIMED_OUT)) from error
        except httpx2.HTTPError as error:
            raise _Failed(ModelFault(FaultKind.BROKEN_OFF)) from error
        if not assembly.is_complete:
            raise _Failed(ModelFault(FaultKind.BROKEN_OFF))

    def _opened(self, request: ModelRequest) -> "anthropic.Stream[anthropic.types.RawMessageStreamEvent]":
        create = cast("Any", self._connected().messages.create)  # its overloads want what only a literal call can show
        return create(**self._parameters(request))

    def _connected(self) -> "anthropic.Anthropic":
        import anthropic

        if self._client is None:
            by_api_key = self._key.kind == "api-key"
            self._client = anthropic.Anthropic(
                api_key=self._key.secret if by_api_key else None,
                auth_token=None if by_api_key else self._key.secret,
                base_url=self._manner.base_url or None,
                timeout=self._manner.timeout,
                max_retries=0,  # the SDK would wait silently, but readers of our stream should know
                default_headers=_SUBSCRIBER if self._key.kind == "subscription" else None,
            )
        return self._client

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
    """The model as the environment wants it asked."""
    return AnthropicModel(name, find_key(environment), Manner.from_environment(environment, effort))


@functools.cache
def _load_sdk() -> None:
    """Import the SDK with the collector at rest: an eighth less to wait (measured on 2.8.0)."""
    gc.disable()
    try:
        importlib.import_module("anthropic")
    finally:
        gc.enable()


class _Failed(Exception):
    """A request brought no message."""

    def __init__(self, fault: ModelFault) -> None:
        super().__init__(fault)
        self.fault = fault


def _fault_of(error: "anthropic.APIStatusError", by_subscription: bool) -> ModelFault:
    body = ndjson.mapping(ndjson.mapping(error.body).get("error"))
    kind = ndjson.text(body.get("type"))
    # An error in the middle of a stream arrives under status 200.
    status = error.status_code if error.status_code >= 400 else 529 if kind == "overloaded_error" else 500
    message = ndjson.text(body.get("message")) or error.message
    return ModelFault(FaultKind.ANSWERED, status, kind, message, dict(error.response.headers), by_subscription)


def _kind_of(error: BaseException | None) -> FaultKind:
    while error is not None:
        if isinstance(error, ConnectionRefusedError):
            return FaultKind.REFUSED
        if "Connection refused" in str(error):
            return FaultKind.REFUSED
        error = error.__cause__ or error.__context__
    return FaultKind.UNREACHABLE


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


def _number(environment: Mapping[str, str], name: str, default: int) -> int:
    said = environment.get(name, "")
    return int(said[:9]) if said.isascii() and said.isdigit() else default
