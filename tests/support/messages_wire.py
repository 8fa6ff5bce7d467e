"""The bytes of the Messages API: a scripted reply as a stream of server-sent events, or as one JSON document."""

from __future__ import annotations

import itertools
import json
from typing import Any

from tests.support.api_replies import Block, Fail, Say, text

BROKEN_OFF = Say(text("I was about to"))

# claude takes a repeated message id for a message it already has, so ids are unique over all servers of a process.
_message_numbers = itertools.count(1)


def stream(say: Say, request: dict[str, Any]) -> list[bytes]:
    """The events of one message, each one part. The last one says what it used, and ends it."""
    message = _message(say, request)
    blocks: list[Block] = message["content"]
    parts = [_event("message_start", message={**message, "content": [], "stop_reason": None, "usage": _opening(say)})]
    for index, block in enumerate(blocks):
        parts += _block_events(index, block)
    delta = _event(
        "message_delta",
        delta={"stop_reason": say.stop_reason, "stop_sequence": None},
        usage={"output_tokens": say.usage.output},
    )
    return [*parts, delta + _event("message_stop")]


def stream_start(request: dict[str, Any]) -> list[bytes]:
    """The events of a message that breaks off in the middle of its first block."""
    return stream(BROKEN_OFF, request)[:3]


def whole(say: Say, request: dict[str, Any]) -> bytes:
    """The same message for a request without `stream`."""
    return json.dumps(_message(say, request)).encode()


def token_count(say: Say) -> bytes:
    return json.dumps({"input_tokens": say.usage.input}).encode()


def error(fail: Fail) -> bytes:
    return json.dumps(_error(fail)).encode()


def failing_stream(fail: Fail, request: dict[str, Any]) -> list[bytes]:
    """The same error where the message has begun."""
    return [*stream_start(request), f"event: error\ndata: {json.dumps(_error(fail))}\n\n".encode()]


def _error(fail: Fail) -> dict[str, object]:
    return {"type": "error", "error": {"type": fail.type, "message": fail.message, **fail.more}}


def _message(say: Say, request: dict[str, Any]) -> dict[str, Any]:
    number = next(_message_numbers)
    blocks = [
        {**block, "id": f"toolu_{number:04}_{index}"} if block["type"] == "tool_use" else block
        for index, block in enumerate(say.blocks)
    ]
    return {
        "id": f"msg_{number:04}",
        "type": "message",
        "role": "assistant",
        "model": request.get("model", "scripted"),
        "content": blocks,
        "stop_reason": say.stop_reason,
        "stop_sequence": None,
        "usage": _opening(say) | {"output_tokens": say.usage.output},
    }


def _opening(say: Say) -> dict[str, int]:
    """The usage of `message_start`, where the API can only know the first output token."""
    return {
        "input_tokens": say.usage.input,
        "cache_creation_input_tokens": say.usage.cache_creation,
        "cache_read_input_tokens": say.usage.cache_read,
        "output_tokens": 1,
    }


def _block_events(index: int, block: Block) -> list[bytes]:
    match block["type"]:
        case "text":
            empty = {**block, "text": ""}
            deltas: list[Block] = [{"type": "text_delta", "text": block["text"]}]
        case "thinking":
            empty = {**block, "thinking": "", "signature": ""}
            deltas = [
                {"type": "thinking_delta", "thinking": block["thinking"]},
                {"type": "signature_delta", "signature": block["signature"]},
            ]
        case _:
            empty = {**block, "input": {}}
            deltas = [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
    return [
        _event("content_block_start", index=index, content_block=empty),
        *(_event("content_block_delta", index=index, delta=delta) for delta in deltas),
        _event("content_block_stop", index=index),
    ]


def _event(kind: str, **fields: object) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()
