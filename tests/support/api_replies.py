"""The words of a model script: what the model says, how the API fails, where it stalls.

`Say(thinking("…"), text("…"), tool("Write", file_path="…", content="…"))` is one message of the model. The same words
serve every scripted API; what only one of them has says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from tests.support.tokens import ONE_MESSAGE, Tokens

Block = dict[str, object]


def text(words: str) -> Block:
    return {"type": "text", "text": words}


def thinking(words: str) -> Block:
    return {"type": "thinking", "thinking": words, "signature": "c2ln"}


def tool(name: str, /, **arguments: object) -> Block:
    """A call of a tool; its id is made when it is served."""
    return {"type": "tool_use", "name": name, "input": arguments}


class Say:
    """One message of the model; a plain string is a text block, `pause` are seconds after its first event."""

    __slots__ = ("blocks", "headers", "pause", "stop_reason", "usage")

    def __init__(
        self,
        *blocks: Block | str,
        usage: Tokens = ONE_MESSAGE,
        stop_reason: str | None = None,
        headers: Mapping[str, str] | None = None,
        pause: float = 0.0,
    ) -> None:
        self.blocks = [text(block) if isinstance(block, str) else block for block in blocks]
        self.usage = usage
        calls_tools = any(block["type"] == "tool_use" for block in self.blocks)
        self.stop_reason = stop_reason or ("tool_use" if calls_tools else "end_turn")
        self.headers = dict(headers or {})
        self.pause = pause

    def __repr__(self) -> str:
        return f"Say({', '.join(map(repr, self.blocks))})"


@dataclass(frozen=True, slots=True)
class Fail:
    """An error of the API, such as `Fail(529, "overloaded_error", "Overloaded")`.

    Status 200 is a stream that began well and then tells the error; `more` are further keys of the error.
    """

    status: int
    type: str
    message: str
    headers: Mapping[str, str] = field(default_factory=dict)
    more: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stall:
    """Hold the connection, without headers or in the middle of a message, until the server closes."""

    when: Literal["before_headers", "mid_stream"] = "before_headers"
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cut:
    """Begin a message and hang up in the middle of it."""


Reply = Say | Fail | Stall | Cut


def usage_limit_headers(
    status: Literal["allowed", "allowed_warning", "rejected"], resets_at: int, window: str = "five_hour"
) -> dict[str, str]:
    """The headers from which claude makes its `rate_limit_event` (only when logged in with a subscription)."""
    headers = {
        "anthropic-ratelimit-unified-status": status,
        "anthropic-ratelimit-unified-reset": str(resets_at),
        "anthropic-ratelimit-unified-representative-claim": window,
    }
    if status == "rejected":
        headers["anthropic-ratelimit-unified-overage-status"] = "rejected"
        headers["anthropic-ratelimit-unified-overage-disabled-reason"] = "out_of_credits"
    return headers


def usage_limit(resets_at: int, plan: str = "plus") -> Fail:
    """What OpenAI answers when a subscription is used up; codex tells of it in words only."""
    more = {"plan_type": plan, "resets_at": resets_at}
    return Fail(429, "usage_limit_reached", "The usage limit has been reached", more=more)
