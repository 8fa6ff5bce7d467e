"""How an OpenAI-compatible endpoint is asked, and what becomes of its answers: by the real SDK, a scripted server."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ralph.claude_cli.models.base import MessageEnd, ModelError, ModelRequest, ModelSaid, ToolOffer, Utterance
from ralph.claude_cli.models.openai import OpenAIModel, _Answer
from ralph.core.usage import Tokens
from tests.support.api_replies import Cut, Fail, Reply, Say, text, thinking, tool
from tests.support.chat_api import ServeChat
from tests.support.tokens import Tokens as Charged

CALL = {"type": "tool_use", "id": "c1", "name": "A", "input": {"x": 1}}
RESULT = {"type": "tool_result", "tool_use_id": "c1", "content": "one", "is_error": False}
THOUGHT = {"type": "thinking", "thinking": "hm"}
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aaaa"}}
REQUEST = ModelRequest(
    ["You are a test.", "Here."],
    [
        {"role": "user", "content": [{"type": "text", "text": "one"}]},
        {
            "role": "assistant",
            "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "so"}, CALL],
        },
        {"role": "user", "content": [RESULT, {"type": "text", "text": "two"}, IMAGE]},
    ],
    [ToolOffer("A", "does a", {"type": "object"})],
)


def ask(url: str, **env: str) -> list[Utterance]:
    environment = {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": "k", "CLAUDE_CODE_MAX_RETRIES": "0", **env}
    return list(OpenAIModel("openai:gpt-9", environment).ask(REQUEST, threading.Event()))


def test_a_conversation_is_written_as_chat_messages(chat_api: ServeChat) -> None:
    api = chat_api([Say("x")])
    ask(api.url)
    request = api.ledger.main[0].request
    assert request["model"] == "gpt-9"
    assert request["stream_options"] == {"include_usage": True}
    assert request["tools"][0]["function"] == {"name": "A", "description": "does a", "parameters": {"type": "object"}}
    call = {"id": "c1", "type": "function", "function": {"name": "A", "arguments": '{"x":1}'}}
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aaaa"}}
    assert request["messages"] == [
        {"role": "system", "content": "You are a test.\n\nHere."},
        {"role": "user", "content": [{"type": "text", "text": "one"}]},
        {"role": "assistant", "content": "so", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "one"},
        {"role": "user", "content": [{"type": "text", "text": "two"}, image]},
    ]


def test_an_answer_becomes_blocks_with_its_usage(chat_api: ServeChat) -> None:
    said = Say(thinking("hm"), text("hello"), tool("A", x=1), tool("A", y=2), usage=Charged(100, 20, 0, 50))
    heard = ask(chat_api([said]).url)
    blocks = [utterance.block for utterance in heard if isinstance(utterance, ModelSaid)]
    assert [block["type"] for block in blocks] == ["text", "tool_use", "tool_use"]
    assert [block.get("input") for block in blocks] == [None, {"x": 1}, {"y": 2}]
    assert isinstance(end := heard[-1], MessageEnd)
    assert (end.stop_reason, end.tokens.output) == ("tool_use", said.usage.output)
    assert (end.tokens.input, end.tokens.cache_read) == (said.usage.input, said.usage.cache_read)


@pytest.mark.parametrize(("stop", "reason"), [("max_tokens", "max_tokens"), ("refusal", "refusal")])
def test_why_it_stopped_is_said_in_claudes_words(chat_api: ServeChat, stop: str, reason: str) -> None:
    end = ask(chat_api([Say("x", stop_reason=stop)]).url)[-1]
    assert isinstance(end, MessageEnd)
    assert end.stop_reason == reason


@pytest.mark.parametrize(
    ("reply", "status", "error", "reason"),
    [
        (Fail(401, "invalid_request_error", "no"), 401, "authentication_failed", "api_error"),
        (Fail(404, "invalid_request_error", "no model"), 404, "model_not_found", "api_error"),
        (Fail(429, "rate_limit", "slow"), 429, "rate_limit", "api_error"),
        (Fail(429, "x", "pay", more={"code": "insufficient_quota"}), 400, "billing_error", "api_error"),
        (
            Fail(400, "x", "many tokens", more={"code": "context_length_exceeded"}),
            400,
            "invalid_request",
            "prompt_too_long",
        ),
        (Fail(500, "x", "oops"), 500, "server_error", "api_error"),
        (Fail(200, "x", "oops"), 500, "server_error", "api_error"),
        (Cut(), None, "server_error", "api_error"),
    ],
)
def test_errors_are_those_of_every_model(
    chat_api: ServeChat, reply: Reply, status: int | None, error: str, reason: str
) -> None:
    with pytest.raises(ModelError) as failed:
        ask(chat_api([reply]).url)
    assert (failed.value.status, failed.value.error, failed.value.terminal_reason) == (status, error, reason)


def test_without_a_key_and_an_endpoint_nothing_is_asked() -> None:
    with pytest.raises(ModelError, match="OPENAI_API_KEY is not set"):
        list(OpenAIModel("openai:gpt-9", {}).ask(REQUEST, threading.Event()))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["choices", "delta", "tool_calls", "index", "function", "name", "usage", "content", "id"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(JSON, max_size=4))
def test_whatever_an_endpoint_says_is_no_crash(chunks: list[Any]) -> None:
    answer = _Answer("m")
    for chunk in chunks:
        list(answer.feed(chunk if isinstance(chunk, dict) else {}))
    assert all(json.dumps(dict(block)) for block in answer.blocks())
    assert isinstance(answer.tokens, Tokens)
