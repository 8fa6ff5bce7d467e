"""Models behind an OpenAI-compatible endpoint (OpenAI, OpenRouter, vLLM, Ollama, llama.cpp), by the official SDK.

`openai:MODEL` asks the endpoint at OPENAI_BASE_URL, or OpenAI's own. Conversations are kept in the blocks of the
Messages API; this module writes them as chat messages and reads the chunks of the answer.
"""

import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, cast

from ralph.claude_cli.models import base, faults
from ralph.claude_cli.models.attempts import NoMessage, Patience, unreached
from ralph.claude_cli.models.base import (
    Block,
    MessageEnd,
    Model,
    ModelError,
    ModelRequest,
    ModelSaid,
    Provider,
    Started,
    Thinking,
    Traits,
    Utterance,
)
from ralph.claude_cli.models.faults import Endpoint, FaultKind, ModelFault
from ralph.claude_cli.models.wire import refused
from ralph.core import ndjson
from ralph.core.errors import RalphError
from ralph.core.usage import Tokens

if TYPE_CHECKING:
    import openai

_STOPS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use", "content_filter": "refusal"}
_THOUGHTS = ("reasoning_content", "reasoning")
"""Of vLLM and llama.cpp; of OpenRouter and Ollama."""

_TRAITS = Traits(128_000, 16_000)
_TOO_LONG = "context_length_exceeded"
_NO_MONEY = "insufficient_quota"
_NO_KEY = ModelError(
    "Not logged in · OPENAI_API_KEY is not set",
    "authentication_failed",
    advice="no API key: set OPENAI_API_KEY, or OPENAI_BASE_URL for an endpoint that needs none",
)

Message = dict[str, object]


@dataclass(slots=True)
class _Answer:
    """One message, put together from its chunks."""

    model: str
    text: str = ""
    calls: dict[int, Message] = field(default_factory=dict[int, Message])
    tokens: Tokens = field(default_factory=Tokens)
    stop: str = ""
    started: bool = False

    def feed(self, chunk: Mapping[str, object]) -> Iterator[Utterance]:
        if not self.started:
            self.started = True
            name = ndjson.text(chunk.get("model")) or self.model
            yield Started(ndjson.text(chunk.get("id")) or f"msg_{uuid.uuid4().hex}", name, Tokens(output=1))
        if isinstance(chunk.get("usage"), dict):
            self.tokens = _tokens(ndjson.mapping(chunk.get("usage")))
        for choice in map(ndjson.mapping, _list(chunk.get("choices"))[:1]):
            delta = ndjson.mapping(choice.get("delta"))
            self.stop = ndjson.text(choice.get("finish_reason")) or self.stop
            self.text += ndjson.text(delta.get("content"))
            if thought := next(filter(None, (ndjson.text(delta.get(name)) for name in _THOUGHTS)), ""):
                yield Thinking(len(thought))
            for call in map(ndjson.mapping, _list(delta.get("tool_calls"))):
                self._grow(call)

    def _grow(self, call: Mapping[str, object]) -> None:
        index = ndjson.count(call.get("index"))
        held = self.calls.setdefault(index, {"id": "", "name": "", "arguments": ""})
        function = ndjson.mapping(call.get("function"))
        held["id"] = held["id"] or ndjson.text(call.get("id"))
        held["name"] = held["name"] or ndjson.text(function.get("name"))
        held["arguments"] = str(held["arguments"]) + ndjson.text(function.get("arguments"))

    def blocks(self) -> Iterator[Block]:
        if self.text:
            yield {"type": "text", "text": self.text}
        for _, call in sorted(self.calls.items()):
            name = str(call["id"]) or f"call_{uuid.uuid4().hex}"
            yield {"type": "tool_use", "id": name, "name": call["name"], "input": _arguments(str(call["arguments"]))}

    @property
    def stop_reason(self) -> str:
        return "tool_use" if self.calls and self.stop != "length" else _STOPS.get(self.stop, "end_turn")


class OpenAIModel:
    """One model of an endpoint. It follows no redirect: a prompt goes where the user sends it."""

    provider: Provider = "openai"
    traits = _TRAITS
    key_source = "none"

    def __init__(self, name: str, environment: Mapping[str, str]) -> None:
        self.name = name
        self._model = name.removeprefix(base.OPENAI)
        self._key = environment.get("OPENAI_API_KEY", "")
        self._url = environment.get("OPENAI_BASE_URL", "")
        self._patience = Patience.from_environment(environment)
        self._client: openai.OpenAI | None = None

    def ask(self, request: ModelRequest, cancelled: threading.Event) -> Iterator[Utterance]:
        """Stream one message."""
        if not self._key and not self._url:
            raise _NO_KEY
        try:
            yield from self._patience.ask(lambda: self._stream(request, cancelled), cancelled)
        except NoMessage as failed:
            place = Endpoint("openai", gateway=self._url.partition("://")[2].partition("/")[0] or "api.openai.com")
            raise faults.worded(failed.fault, self.name, place) from failed

    def _stream(self, request: ModelRequest, cancelled: threading.Event) -> Iterator[Utterance]:
        answer = _Answer(self._model)
        for chunk in self._chunks(request):
            if cancelled.is_set():
                return
            yield from answer.feed(chunk)
        if not answer.stop:
            raise NoMessage(ModelFault(FaultKind.BROKEN_OFF))
        for block in answer.blocks():
            yield ModelSaid(block)
        yield MessageEnd(answer.stop_reason, answer.tokens)

    def _chunks(self, request: ModelRequest) -> Iterator[Mapping[str, object]]:
        import httpx2
        import openai

        try:
            create = cast("Any", self._connected().chat.completions.create)
            with create(**_parameters(self._model, request)) as stream:
                for chunk in stream:
                    yield ndjson.mapping(chunk.to_dict() if hasattr(chunk, "to_dict") else None)
        except openai.APIStatusError as error:
            raise NoMessage(_fault_of(error)) from error
        except (openai.APITimeoutError, httpx2.TimeoutException) as error:
            raise NoMessage(ModelFault(FaultKind.TIMED_OUT)) from error
        except openai.APIConnectionError as error:
            raise NoMessage(unreached(error)) from error
        except openai.APIError as error:  # in the middle of the stream
            raise NoMessage(ModelFault(FaultKind.ANSWERED, 500, str(error.type or ""), error.message)) from error
        except (httpx2.HTTPError, httpx2.StreamError, ValueError, TypeError, AttributeError, RecursionError) as error:
            raise NoMessage(ModelFault(FaultKind.BROKEN_OFF)) from error  # a stream that is none, as the SDK meets it

    def _connected(self) -> "openai.OpenAI":
        import openai

        if self._client is None:
            self._client = openai.OpenAI(
                api_key=self._key or "none",
                base_url=self._url or "https://api.openai.com/v1",
                timeout=self._patience.timeout,
                max_retries=0,  # the SDK would wait silently, but readers of our stream should know
                http_client=openai.DefaultHttpxClient(follow_redirects=False),
            )
        return self._client


def open_model(name: str, environment: Mapping[str, str]) -> Model:
    """The model `openai:MODEL`; raise RalphError if the SDK is not installed."""
    if find_spec("openai") is None:
        raise RalphError("the openai package is missing; in a clone of ralph, install it with: pip install '.[openai]'")
    return OpenAIModel(name, environment)


def _parameters(model: str, request: ModelRequest) -> dict[str, object]:
    system: Message = {"role": "system", "content": "\n\n".join(request.system)}
    tools = [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": tool.input_schema},
        }
        for tool in request.tools
    ]
    return {
        "model": model,
        "messages": [system, *(each for message in request.messages for each in _chat(message))],
        **({"tools": tools} if tools else {}),
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def _chat(message: Mapping[str, object]) -> Iterator[Message]:
    """One message in the words of the chat API: results of tools are messages of their own, and come first."""
    blocks = [ndjson.mapping(block) for block in _list(message.get("content"))]
    if message.get("role") == "assistant":
        calls = [_call(block) for block in blocks if block.get("type") == "tool_use"]
        text = "".join(ndjson.text(block.get("text")) for block in blocks if block.get("type") == "text")
        if text or calls:
            yield {"role": "assistant", "content": text or None, **({"tool_calls": calls} if calls else {})}
        return
    for block in blocks:
        if block.get("type") == "tool_result":
            answer = block.get("content")
            parts = [{"type": "text", "text": answer}] if isinstance(answer, str) else _list(answer)
            text = "\n".join(ndjson.text(ndjson.mapping(part).get("text")) for part in parts)
            yield {"role": "tool", "tool_call_id": block.get("tool_use_id"), "content": text}
            blocks += [ndjson.mapping(part) for part in parts if ndjson.mapping(part).get("type") == "image"]
    if content := [part for block in blocks for part in _part(block)]:
        yield {"role": "user", "content": content}


def _part(block: Block) -> Iterator[Message]:
    match block.get("type"):
        case "text":
            yield {"type": "text", "text": block.get("text")}
        case "image":
            source = ndjson.mapping(block.get("source"))
            url = f"data:{source.get('media_type')};base64,{source.get('data')}"
            yield {"type": "image_url", "image_url": {"url": url}}
        case _:
            pass


def _call(block: Block) -> Message:
    arguments = ndjson.encode(block.get("input") or {})
    return {"id": block.get("id"), "type": "function", "function": {"name": block.get("name"), "arguments": arguments}}


def _arguments(text: str) -> Mapping[str, object]:
    try:
        return dict(ndjson.mapping(ndjson.decode(text)))
    except ndjson.Malformed:  # cut off at the token limit: the call is answered with what it lacks
        return {}


def _tokens(usage: Mapping[str, object]) -> Tokens:
    cached = ndjson.count(ndjson.mapping(usage.get("prompt_tokens_details")).get("cached_tokens"))
    prompt = ndjson.count(usage.get("prompt_tokens"))
    return Tokens(max(0, prompt - cached), ndjson.count(usage.get("completion_tokens")), 0, min(cached, prompt))


def _fault_of(error: "openai.APIStatusError") -> ModelFault:
    fault = refused(error.status_code, error.response.text, dict(error.response.headers))
    if error.code == _TOO_LONG:
        return ModelFault(FaultKind.ANSWERED, 400, fault.type, f"prompt is too long: {fault.message}")
    if error.code == _NO_MONEY:
        return ModelFault(FaultKind.ANSWERED, 400, fault.type, "credit balance is too low")
    return fault


def _list(value: object) -> Sequence[object]:
    return ndjson.sequence(value) if isinstance(value, list) else ()  # pyright: ignore[reportUnknownArgumentType] - JSON from outside
