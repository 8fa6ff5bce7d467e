"""The scripted model server of OpenAI's kind, asked with a plain HTTP client; what both kinds share is held by
test_messages_api.
"""

import http.client
import json
from typing import Any

import pytest

from tests.support.api_replies import Cut, Fail, Reply, Say, Stall, text, thinking, tool, usage_limit
from tests.support.responses_api import AFTER_THE_SCRIPT, ResponsesApi, ServeResponses
from tests.support.tokens import ONE_MESSAGE, Tokens
from tests.support.waiting import wait_until


def request(*texts: str) -> dict[str, Any]:
    said = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": words}]} for words in texts]
    return {"model": "m", "stream": True, "input": [{"type": "function_call_output", "output": "o"}, *said]}


def connect(api: ResponsesApi) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(api.url.removeprefix("http://"), timeout=10)


def ask(
    api: ResponsesApi, *texts: str, path: str = "/v1/responses", method: str = "POST"
) -> tuple[http.client.HTTPResponse, bytes]:
    connection = connect(api)
    try:
        connection.request(method, path, json.dumps(request(*texts)) if method == "POST" else None)
        response = connection.getresponse()
        return response, response.read()
    finally:
        connection.close()


def streamed(body: bytes) -> list[dict[str, Any]]:
    """The events of a stream, each checked to be framed as server-sent events are."""
    frames = body.decode().split("\n\n")
    assert frames.pop() == ""
    pairs = [frame.split("\n") for frame in frames]
    events = [json.loads(data.removeprefix("data: ")) for _, data in pairs]
    assert [name for name, _ in pairs] == [f"event: {event['type']}" for event in events]
    return events


def test_a_response_is_streamed_item_by_item(responses_api: ServeResponses) -> None:
    api = responses_api(
        [Say(thinking("hm"), text("hello"), tool("exec_command", cmd="ls"), usage=Tokens(5000, 70, 300, 1100, 30))]
    )
    response, body = ask(api)
    created, *items, completed = streamed(body)

    assert (response.status, response.headers["content-type"]) == (200, "text/event-stream")
    assert created["type"] == "response.created"
    assert {event["type"] for event in items} == {"response.output_item.done"}
    ids = {"id", "call_id"}
    assert [{key: value for key, value in event["item"].items() if key not in ids} for event in items] == [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hello"}]},
        {"type": "function_call", "name": "exec_command", "arguments": '{"cmd": "ls"}'},
    ]
    assert completed["type"] == "response.completed"
    assert completed["response"] == {
        "id": created["response"]["id"],
        "usage": {
            "input_tokens": 6400,
            "input_tokens_details": {"cached_tokens": 1100, "cache_write_tokens": 300},
            "output_tokens": 70,
            "output_tokens_details": {"reasoning_tokens": 30},
            "total_tokens": 6470,
        },
    }


def test_the_ledger_counts_in_the_words_of_codex_too(responses_api: ServeResponses) -> None:
    api = responses_api([Say("one", usage=Tokens(5000, 70, 300, 1100, 30)), Say("two")])
    ask(api)
    ask(api)
    used = api.ledger.tokens.in_codex
    assert used == {
        "input_tokens": 6400 + 1264,
        "cached_input_tokens": 1120,
        "cache_write_input_tokens": 310,
        "output_tokens": 112,
        "reasoning_output_tokens": 30,
    }
    assert api.ledger.tokens.total == used["input_tokens"] + used["output_tokens"]


def test_calls_are_told_apart_over_all_servers(responses_api: ServeResponses) -> None:
    apis = [responses_api([Say(tool("exec_command", cmd="ls"), tool("exec_command", cmd="ls"))] * 2) for _ in range(2)]
    events = [event for api in apis for _ in range(2) for event in streamed(ask(api)[1])]
    calls = [event["item"]["call_id"] for event in events if "item" in event]
    assert len(set(calls)) == len(calls) == 8


def test_a_callable_sees_the_number_and_the_request(responses_api: ServeResponses) -> None:
    api = responses_api(lambda number, request: Say(f"{number}: {request['input'][-1]['content'][0]['text']}"))
    ask(api, "first")
    _, body = ask(api, "first", "second")
    assert "2: second" in body.decode()
    assert api.ledger.main[1].user_texts == ["first", "second"]


def test_what_codex_asks_on_the_side_takes_nothing_from_the_script(responses_api: ServeResponses) -> None:
    api = responses_api([])
    assert ask(api, path="/v1/models", method="GET")[0].status == 404
    assert ask(api, method="GET")[0].status == 404, "it may not open a WebSocket"
    ask(api, "go", "You are performing a CONTEXT CHECKPOINT COMPACTION. Summarise.")
    ask(api, "go")
    assert [served.kind for served in api.ledger] == ["other", "other", "compaction", "main"]
    assert api.ledger.main[0].reply is AFTER_THE_SCRIPT
    assert api.ledger.tokens == ONE_MESSAGE + ONE_MESSAGE


@pytest.mark.parametrize(
    ("fail", "error"),
    [
        (
            Fail(401, "invalid_request_error", "Incorrect API key provided", more={"code": "invalid_api_key"}),
            {"message": "Incorrect API key provided", "type": "invalid_request_error", "code": "invalid_api_key"},
        ),
        (
            usage_limit(4_000_000_000),
            {
                "message": "The usage limit has been reached",
                "type": "usage_limit_reached",
                "code": None,
                "plan_type": "plus",
                "resets_at": 4_000_000_000,
            },
        ),
    ],
)
def test_errors_have_the_shape_of_openai(responses_api: ServeResponses, fail: Fail, error: dict[str, object]) -> None:
    api = responses_api([fail])
    response, body = ask(api)
    assert response.status == fail.status
    assert json.loads(body) == {"error": error}
    assert api.ledger.tokens == Tokens()


def test_a_response_can_fail_after_it_began(responses_api: ServeResponses) -> None:
    api = responses_api([Fail(200, "context_length_exceeded", "too long")])
    response, body = ask(api)
    created, failed = streamed(body)
    assert response.status == 200
    assert (created["type"], failed["type"]) == ("response.created", "response.failed")
    assert failed["response"]["error"] == {"code": "context_length_exceeded", "message": "too long"}


def test_a_cut_stream_ends_before_it_is_completed_and_costs_nothing(responses_api: ServeResponses) -> None:
    api = responses_api([Cut()])
    response, body = ask(api)
    assert response.status == 200
    assert [event["type"] for event in streamed(body)] == ["response.created"]
    assert (api.ledger.main[0].complete, api.ledger.tokens) == (False, Tokens())


@pytest.mark.parametrize(("reply", "status"), [(Stall(), 0), (Stall("mid_stream"), 200)])
def test_a_stall_holds_the_connection_until_the_server_closes(reply: Reply, status: int) -> None:
    with ResponsesApi([reply]) as api:
        connection = connect(api)
        connection.request("POST", "/v1/responses", json.dumps(request("go")))
        wait_until(lambda: api.ledger.main, "the request")
        assert (api.ledger.main[0].status, api.ledger.main[0].complete) == (status, False)
    connection.close()
    assert api.ledger.tokens == Tokens()
