"""How Anthropic's models are asked: keys, thinking, caching, retries; by the real SDK, of a scripted server."""

import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ralph.claude_cli.models import base
from ralph.claude_cli.models.anthropic import open_model
from ralph.claude_cli.models.base import ModelError, ModelRequest, ModelSaid, Retrying, ToolOffer, Utterance
from ralph.claude_cli.models.faults import ApiKey, FaultKind, ModelFault, delay_ms, find_key
from tests.support.api_replies import Fail, Say
from tests.support.messages_api import ServeMessages

REQUEST = ModelRequest(
    ["You are a test.", "Here."],
    [{"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]}],
    [ToolOffer("A", "does a", {"type": "object"}), ToolOffer("B", "does b", {"type": "object"})],
)


def ask(url: str, model: str = "claude-sonnet-5-5", effort: str = "", **env: str) -> list[Utterance]:
    environment = {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_AUTH_TOKEN": "dummy", **env}
    return list(open_model(model, environment, effort).ask(REQUEST, threading.Event()))


def test_the_request_is_cached_up_to_its_end(messages_api: ServeMessages) -> None:
    api = messages_api([Say("x")])
    ask(api.url)
    request = api.ledger.main[0].request
    marked = [["cache_control" in block for block in blocks] for blocks in (request["system"], request["tools"])]
    assert marked == [[False, True], [False, True]]
    assert ["cache_control" in block for block in request["messages"][-1]["content"]] == [False, True]


@pytest.mark.spec("1.3.1-c", "1.10-ab", "1.12-h")
@pytest.mark.parametrize(
    ("model", "effort", "env", "thinking", "output_config"),
    [
        ("claude-sonnet-5-5", "", {}, {"type": "adaptive"}, {"effort": "medium"}),
        ("claude-sonnet-5-5", "low", {"MAX_THINKING_TOKENS": "0"}, {"type": "adaptive"}, {"effort": "low"}),
        ("claude-opus-4-8", "", {"CLAUDE_CODE_EFFORT_LEVEL": "max"}, {"type": "adaptive"}, {"effort": "max"}),
        ("claude-haiku-4-5-20251001", "", {}, {"type": "enabled", "budget_tokens": 31999}, None),
        (
            "claude-haiku-4-5",
            "",
            {"MAX_THINKING_TOKENS": "5000"},
            {"type": "enabled", "budget_tokens": 5000},
            None,
        ),
        ("claude-haiku-4-5", "", {"MAX_THINKING_TOKENS": "0"}, {"type": "disabled"}, None),
        ("gpt-9", "", {}, None, None),
        ("gpt-9", "", {"MAX_THINKING_TOKENS": "16384"}, {"type": "enabled", "budget_tokens": 16384}, None),
    ],
)
def test_thinking_is_asked_for_in_the_way_the_model_knows(
    messages_api: ServeMessages, model: str, effort: str, env: dict[str, str], thinking: Any, output_config: Any
) -> None:
    api = messages_api([Say("x")])
    ask(api.url, model, effort, **env)
    request = api.ledger.main[0].request
    assert (request.get("thinking"), request.get("output_config")) == (thinking, output_config)


def test_a_fault_that_passes_is_told_and_tried_again(messages_api: ServeMessages) -> None:
    overloaded = Fail(529, "overloaded_error", "Overloaded", {"retry-after": "0"})
    api = messages_api([overloaded, overloaded, Say("fine")])
    heard = ask(api.url, CLAUDE_CODE_MAX_RETRIES="2")
    assert [u for u in heard if isinstance(u, Retrying)] == [
        Retrying(1, 2, 0, 529, "overloaded"),
        Retrying(2, 2, 0, 529, "overloaded"),
    ]
    assert [u.block["text"] for u in heard if isinstance(u, ModelSaid)] == ["fine"]


def test_retries_end(messages_api: ServeMessages) -> None:
    api = messages_api(lambda _number, _request: Fail(500, "api_error", "oops"))
    with pytest.raises(ModelError, match="API Error: 500 oops") as failed:
        ask(api.url, CLAUDE_CODE_MAX_RETRIES="0")
    assert (failed.value.status, failed.value.error) == (500, "server_error")
    assert len(api.ledger.main) == 1


def test_delays_double_and_are_bounded() -> None:
    fault = ModelFault(FaultKind.ANSWERED, 500)
    assert [delay_ms(fault, attempt, 0.0) for attempt in (1, 2, 3, 20)] == [500, 1000, 2000, 32_000]
    assert delay_ms(fault, 1, 1.0) == 625
    assert delay_ms(ModelFault(FaultKind.ANSWERED, 429, headers={"retry-after": "2"}), 5, 1.0) == 2000


@pytest.mark.spec("4.5-a")
@pytest.mark.parametrize(
    ("env", "key"),
    [
        ({}, ApiKey("none")),
        ({"ANTHROPIC_API_KEY": "k"}, ApiKey("api-key", "k")),
        ({"ANTHROPIC_API_KEY": "k", "ANTHROPIC_AUTH_TOKEN": "t"}, ApiKey("bearer", "t")),
        ({"ANTHROPIC_API_KEY": "", "CLAUDE_CODE_OAUTH_TOKEN": "o"}, ApiKey("subscription", "o")),
    ],
)
def test_the_first_key_that_is_there_is_taken(env: Mapping[str, str], key: ApiKey, tmp_path: Path) -> None:
    assert find_key({"HOME": str(tmp_path), **env}) == key


@pytest.mark.spec("1.3.1-a", "1.12-i")
def test_an_empty_api_key_means_the_stored_login(tmp_path: Path) -> None:
    stored = tmp_path / ".claude" / ".credentials.json"
    stored.parent.mkdir()
    stored.write_text(json.dumps({"claudeAiOauth": {"accessToken": "stored"}}))
    assert find_key({"HOME": str(tmp_path), "ANTHROPIC_API_KEY": ""}) == ApiKey("subscription", "stored")
    stored.write_text("{")
    assert find_key({"HOME": str(tmp_path), "ANTHROPIC_API_KEY": ""}) == ApiKey("none")


@pytest.mark.spec("1.2-b", "1.9-ab")
@pytest.mark.spec("4.1.1-h", "4.5-bc")
@pytest.mark.parametrize(
    ("model", "env", "found"),
    [
        ("sonnet", {}, "claude-sonnet-5-5"),
        ("opus", {}, "claude-opus-5-5"),
        ("haiku", {}, "claude-haiku-5-5"),
        ("sonnet[1m]", {}, "claude-sonnet-5-5"),
        ("", {}, "claude-opus-5-5"),
        ("default", {}, "claude-opus-5-5"),
        ("", {"ANTHROPIC_MODEL": "haiku"}, "claude-haiku-5-5"),
        ("haiku", {"ANTHROPIC_DEFAULT_HAIKU_MODEL": "mine"}, "mine"),
        ("gpt-9", {"ANTHROPIC_MODEL": "haiku"}, "gpt-9"),
    ],
)
def test_an_alias_stands_for_what_the_configuration_says(model: str, env: dict[str, str], found: str) -> None:
    assert base.resolve(model, env) == found
