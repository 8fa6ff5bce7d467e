"""A scripted model behind OpenAI's Chat Completions API, as OpenRouter, vLLM, Ollama and llama.cpp speak it as well."""

from __future__ import annotations

import itertools
import json
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

from tests.support.api_replies import Block, Cut, Fail, Reply, Say, Stall
from tests.support.scripted_api import Body, Kind, Request, Script, ScriptedApi
from tests.support.tokens import ONE_MESSAGE, Tokens

_STOPS = {"end_turn": "stop", "tool_use": "tool_calls", "max_tokens": "length", "refusal": "content_filter"}
_numbers = itertools.count(1)


class ChatApi(ScriptedApi):
    """A running server for one script."""

    def __init__(self, script: Script = ()) -> None:
        super().__init__(_Chat(), script)


@dataclass(frozen=True)
class ServeChat:
    """The fixture `chat_api`: starts a server for a script, to be closed with the others when the test ends."""

    servers: ExitStack

    def __call__(self, script: Script = ()) -> ChatApi:
        return self.servers.enter_context(ChatApi(script))


class _Chat:
    def kind(self, path: str, request: Request) -> Kind:
        return "main" if path.partition("?")[0].endswith("/chat/completions") else "other"

    def aside(self, kind: Kind) -> Reply:
        return Fail(404, "not_found_error", f"no such path ({kind})")

    def user_texts(self, request: Request) -> list[str]:
        said = [message["content"] for message in request.get("messages", []) if message["role"] == "user"]
        return [part["text"] for parts in said for part in parts if part["type"] == "text"]

    def says(self, say: Say, kind: Kind, request: Request) -> Body:
        return Body.stream([*_chunks(say, request), b"data: [DONE]\n\n"])

    def breaks_off(self, request: Request) -> Body:
        return Body.stream(_chunks(Say("half"), request)[:1])

    def cost_of_cut(self, reply: Reply) -> Tokens:
        usage = reply.usage if isinstance(reply, Say) else ONE_MESSAGE if isinstance(reply, Stall | Cut) else None
        return Tokens() if usage is None else replace(usage, output=1)

    def fails(self, fail: Fail, request: Request) -> Body:
        error = {"message": fail.message, "type": fail.type, **fail.more}
        if fail.status == 200:
            return Body.stream([*_chunks(Say("half"), request)[:1], _event({"error": error})])
        return Body([json.dumps({"error": error}).encode()])


def _chunks(say: Say, request: dict[str, Any]) -> list[bytes]:
    head = {
        "id": f"chatcmpl-{next(_numbers):04}",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": request.get("model", "scripted"),
    }

    def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
        return _event({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

    parts = [chunk({"role": "assistant", "content": ""})]
    calls = 0
    for block in say.blocks:
        parts += [chunk(delta) for delta in _deltas(block, calls)]
        calls += block["type"] == "tool_use"
    parts.append(chunk({}, _STOPS.get(say.stop_reason, say.stop_reason)))
    usage = {
        "prompt_tokens": say.usage.input + say.usage.cache_read,
        "completion_tokens": say.usage.output,
        "prompt_tokens_details": {"cached_tokens": say.usage.cache_read},
    }
    return [*parts, _event({**head, "choices": [], "usage": usage})]


def _deltas(block: Block, index: int) -> list[dict[str, Any]]:
    match block["type"]:
        case "text":
            half = len(words := str(block["text"])) // 2
            return [{"content": words[:half]}, {"content": words[half:]}]
        case "thinking":
            return [{"reasoning_content": block["thinking"]}]
        case _:
            whole = json.dumps(block["input"])
            name = {"name": block["name"], "arguments": ""}
            return [
                {
                    "tool_calls": [
                        {"index": index, "id": f"call_{next(_numbers):04}", "type": "function", "function": name}
                    ]
                },
                *(
                    {"tool_calls": [{"index": index, "function": {"arguments": part}}]}
                    for part in (whole[:3], whole[3:])
                ),
            ]


def _event(data: object) -> bytes:
    return f"data: {json.dumps(data)}\n\n".encode()
