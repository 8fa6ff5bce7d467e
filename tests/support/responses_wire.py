"""The bytes of the OpenAI Responses API: a scripted reply as a stream of server-sent events.

Only the events that codex reads (seen on 0.163.0 and 0.166.0); of an item it believes the finished form.
"""

from __future__ import annotations

import itertools
import json
from typing import Any

from tests.support.api_replies import Block, Fail, Say

# Calls and their results are matched by id over a whole thread, which may outlive a server.
_response_numbers = itertools.count(1)


def stream(say: Say) -> list[bytes]:
    """The events of one response, each one part; the last is `response.completed`."""
    number = next(_response_numbers)
    items = [_item(f"{number:04}_{index}", block) for index, block in enumerate(say.blocks)]
    response = {"id": f"resp_{number:04}", "usage": _usage(say)}
    return [
        *_opening(number),
        *(_event("response.output_item.done", output_index=index, item=item) for index, item in enumerate(items)),
        _event("response.completed", response=response),
    ]


def stream_start() -> list[bytes]:
    """The events of a response that breaks off before it is completed."""
    return _opening(next(_response_numbers))


def failing_stream(fail: Fail) -> list[bytes]:
    """An error where the response has begun."""
    number = next(_response_numbers)
    error = {"code": fail.type, "message": fail.message, **fail.more}
    return [*_opening(number), _event("response.failed", response={"id": f"resp_{number:04}", "error": error})]


def error(fail: Fail) -> bytes:
    return json.dumps({"error": {"message": fail.message, "type": fail.type, "code": None, **fail.more}}).encode()


def _opening(number: int) -> list[bytes]:
    return [_event("response.created", response={"id": f"resp_{number:04}"})]


def _item(suffix: str, block: Block) -> dict[str, Any]:
    match block["type"]:
        case "text":
            content = [{"type": "output_text", "text": block["text"]}]
            return {"type": "message", "id": f"msg_{suffix}", "role": "assistant", "content": content}
        case "thinking":
            return {
                "type": "reasoning",
                "id": f"rs_{suffix}",
                "summary": [{"type": "summary_text", "text": block["thinking"]}],
            }
        case _:
            return {
                "type": "function_call",
                "id": f"fc_{suffix}",
                "call_id": f"call_{suffix}",
                "name": block["name"],
                "arguments": json.dumps(block["input"]),
            }


def _usage(say: Say) -> dict[str, object]:
    counts = say.usage.in_codex
    return {
        "input_tokens": counts["input_tokens"],
        "input_tokens_details": {
            "cached_tokens": counts["cached_input_tokens"],
            "cache_write_tokens": counts["cache_write_input_tokens"],
        },
        "output_tokens": counts["output_tokens"],
        "output_tokens_details": {"reasoning_tokens": counts["reasoning_output_tokens"]},
        "total_tokens": say.usage.total,
    }


def _event(kind: str, **fields: object) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()
