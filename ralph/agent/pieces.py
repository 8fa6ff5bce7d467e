"""A message in pieces, as `--include-partial-messages` has it: the events of the Messages API around its whole blocks.

Our models give a block when it is whole, so each has one delta of a kind; whoever reads pieces must expect that.
"""

import json
from collections.abc import Mapping
from typing import TypeAlias

from ralph.claude_cli.models.base import Block
from ralph.claude_cli.usage import message_usage
from ralph.core.usage import Tokens

Piece: TypeAlias = dict[str, object]


def message_start(message_id: str, model: str, tokens: Tokens) -> Piece:
    message: Piece = {
        "id": message_id,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": message_usage(tokens),
    }
    return {"type": "message_start", "message": message}


def block_start(index: int, block: Block) -> list[Piece]:
    """A block as it begins, empty, and what it then is filled with."""
    empty, deltas = _unfilled(block)
    return [
        {"type": "content_block_start", "index": index, "content_block": {**block, **empty}},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
    ]


def block_stop(index: int) -> Piece:
    return {"type": "content_block_stop", "index": index}


def message_end(stop_reason: str, tokens: Tokens) -> list[Piece]:
    """The end of a message, which alone tells its final output."""
    delta = {"stop_reason": stop_reason, "stop_sequence": None}
    return [
        {"type": "message_delta", "delta": delta, "usage": {"output_tokens": tokens.output}},
        {"type": "message_stop"},
    ]


def _unfilled(block: Block) -> tuple[Mapping[str, object], list[Piece]]:
    match block.get("type"):
        case "text":
            return {"text": ""}, [{"type": "text_delta", "text": block.get("text")}]
        case "thinking":
            signature = {"type": "signature_delta", "signature": block.get("signature")}
            thought: Piece = {"type": "thinking_delta", "thinking": block.get("thinking")}
            return {"thinking": "", "signature": ""}, [thought, signature]
        case "tool_use":
            written = json.dumps(block.get("input"), ensure_ascii=False)
            return {"input": {}}, [{"type": "input_json_delta", "partial_json": written}]
        case _:
            return {}, []
