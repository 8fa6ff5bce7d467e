"""The scripted model server, asked with a plain HTTP client."""

import http.client
import json
import threading
from dataclasses import replace
from typing import Any

import pytest

from tests.support.api_replies import Cut, Fail, Say, Stall, text, thinking, tool, usage_limit_headers
from tests.support.messages_api import AFTER_THE_SCRIPT, MessagesApi, ServeMessages
from tests.support.tokens import ONE_MESSAGE, Tokens
from tests.support.waiting import wait_until

TOOLS = [{"name": "Write", "input_schema": {"type": "object"}}]

BEGUN = replace(ONE_MESSAGE, output=1)
"""What a message costs that was cut: its prompt, and the first of its output."""


def request(*texts: str, **more: object) -> dict[str, Any]:
    messages = [{"role": "user", "content": [{"type": "text", "text": words}]} for words in texts or ("go",)]
    return {"model": "m", "tools": TOOLS, "stream": True, "messages": messages, **more}


def connect(api: MessagesApi) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(api.url.removeprefix("http://"), timeout=10)


def ask(
    api: MessagesApi, body: dict[str, Any] | None = None, path: str = "/v1/messages?beta=true", method: str = "POST"
) -> tuple[http.client.HTTPResponse, bytes]:
    connection = connect(api)
    try:
        connection.request(method, path, json.dumps(body or request()))
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


def test_a_message_is_streamed_block_by_block(messages_api: ServeMessages) -> None:
    api = messages_api([Say(thinking("hm"), text("hello"), tool("Write", file_path="a", content="b"))])
    response, body = ask(api)
    start, *blocks, delta, stop = streamed(body)

    assert (response.status, response.headers["connection"]) == (200, "close")
    assert start["message"]["usage"] == {
        "input_tokens": 1234,
        "cache_creation_input_tokens": 10,
        "cache_read_input_tokens": 20,
        "output_tokens": 1,
    }
    assert start["message"] | {"id": "", "usage": {}} == {
        "id": "",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {},
    }
    deltas = [event["delta"] for event in blocks if event["type"] == "content_block_delta"]
    assert deltas == [
        {"type": "thinking_delta", "thinking": "hm"},
        {"type": "signature_delta", "signature": "c2ln"},
        {"type": "text_delta", "text": "hello"},
        {"type": "input_json_delta", "partial_json": '{"file_path": "a", "content": "b"}'},
    ]
    assert (delta["delta"]["stop_reason"], delta["usage"]) == ("tool_use", {"output_tokens": 42})
    assert stop == {"type": "message_stop"}


def test_replies_come_in_order_and_end_with_plain_words(messages_api: ServeMessages) -> None:
    api = messages_api(
        [Say("one"), Fail(529, "overloaded_error", "Overloaded"), Say("three", usage=Tokens(5, 6, 7, 8))]
    )
    answers = [ask(api) for _ in range(4)]

    assert [response.status for response, _ in answers] == [200, 529, 200, 200]
    assert json.loads(answers[1][1]) == {
        "type": "error",
        "error": {"type": "overloaded_error", "message": "Overloaded"},
    }
    assert [served.number for served in api.ledger] == [1, 2, 3, 4]
    assert api.ledger.main[3].reply is AFTER_THE_SCRIPT
    assert api.ledger.tokens == ONE_MESSAGE + Tokens(5, 6, 7, 8) + ONE_MESSAGE


def test_ids_of_messages_and_tool_calls_never_repeat(messages_api: ServeMessages) -> None:
    apis = [messages_api([Say(tool("Write"), tool("Write"))] * 2) for _ in range(2)]
    bodies = [ask(api, request(stream=False))[1] for api in apis for _ in range(2)]
    messages = [json.loads(body) for body in bodies]
    ids = [message["id"] for message in messages] + [
        block["id"] for message in messages for block in message["content"]
    ]
    assert len(set(ids)) == len(ids) == 12


def test_a_callable_sees_the_number_and_the_request(messages_api: ServeMessages) -> None:
    api = messages_api(lambda number, request: Say(f"{number}: {request['messages'][-1]['content'][0]['text']}"))
    ask(api, request("first"))
    _, body = ask(api, request("first", "second", stream=False))
    assert json.loads(body)["content"] == [{"type": "text", "text": "2: second"}]
    assert api.ledger.main[1].user_texts == ["first", "second"]


def test_what_claude_asks_on_the_side_takes_nothing_from_the_script(messages_api: ServeMessages) -> None:
    api = messages_api([Say("one", usage=Tokens(1, 2, 3, 4))])
    assert ask(api, path="/", method="HEAD")[0].status == 200
    assert b'"ok"' in ask(api, request(tools=[]))[1]
    system = {"role": "system", "content": "skills"}
    compact = request("long story", "Respond with TEXT ONLY: summarise")
    assert b"<summary>" in ask(api, compact | {"messages": [system, *compact["messages"]]})[1]
    assert json.loads(ask(api, path="/v1/messages/count_tokens")[1]) == {"input_tokens": 1234}
    assert ask(api, path="/api/hello", method="GET")[0].status == 404
    ask(api)

    assert [served.kind for served in api.ledger] == ["side", "compaction", "count_tokens", "other", "main"]
    assert [served.number for served in api.ledger] == [0, 0, 0, 0, 1]
    assert api.ledger.tokens == ONE_MESSAGE + ONE_MESSAGE + Tokens(1, 2, 3, 4)


def test_any_reply_can_carry_headers(messages_api: ServeMessages) -> None:
    limited = usage_limit_headers("rejected", 1_800_000_000)
    api = messages_api([Say("x", headers={"x-a": "1"}), Fail(429, "rate_limit_error", "no", headers=limited)])
    assert ask(api)[0].headers["x-a"] == "1"
    assert ask(api)[0].headers["anthropic-ratelimit-unified-reset"] == "1800000000"


def test_a_message_can_fail_or_be_cut_after_it_began(messages_api: ServeMessages) -> None:
    api = messages_api([Fail(200, "overloaded_error", "Overloaded"), Cut()])
    told, cut = (ask(api) for _ in range(2))
    assert (told[0].status, cut[0].status) == (200, 200)
    start, *_, last = streamed(told[1])
    assert start["type"] == "message_start"
    assert last == {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    assert [event["type"] for event in streamed(cut[1])] == [
        "message_start",
        "content_block_start",
        "content_block_delta",
    ]
    assert [served.complete for served in api.ledger] == [True, False]
    assert [served.usage for served in api.ledger] == [Tokens(), BEGUN]


@pytest.mark.parametrize(
    ("when", "status", "begins"), [("before_headers", 0, b""), ("mid_stream", 200, b"HTTP/1.1 200")]
)
def test_a_stall_holds_the_connection_until_the_server_closes(when: Any, status: int, begins: bytes) -> None:
    with MessagesApi([Stall(when)]) as api:
        connection = connect(api)
        connection.request("POST", "/v1/messages", json.dumps(request()))
        wait_until(lambda: api.ledger.main, "the request")
        assert (api.ledger.main[0].status, api.ledger.main[0].complete) == (status, False)
        assert connection.sock is not None
        received = connection.sock.recv(1 << 16) if begins else b""
        assert received.startswith(begins)
    assert b"message_stop" not in received + connection.sock.recv(1 << 16)
    connection.close()
    assert api.ledger.tokens == (BEGUN if begins else Tokens())


def test_a_client_that_went_away_is_billed_for_what_had_begun() -> None:
    may_answer = threading.Event()

    def script(_number: int, _request: dict[str, Any]) -> Say:
        may_answer.wait(10)
        return Say("x" * 20_000_000)

    with MessagesApi(script) as api:
        connection = connect(api)
        connection.request("POST", "/v1/messages", json.dumps(request()))
        connection.close()
        may_answer.set()
        wait_until(lambda: api.ledger.main, "the request")
    assert not api.ledger.main[0].complete
    assert api.ledger.tokens == BEGUN


def test_closing_leaves_no_thread_even_while_clients_are_connected() -> None:
    before = set(threading.enumerate())
    with MessagesApi([Stall()]) as api:
        silent, stalled = connect(api), connect(api)
        silent.connect()
        stalled.request("POST", "/v1/messages", json.dumps(request()))
        wait_until(lambda: api.ledger.main, "the request")
    silent.close()
    stalled.close()
    assert set(threading.enumerate()) == before


def test_a_script_that_raises_fails_the_test() -> None:
    def script(number: int, _request: dict[str, Any]) -> Say:
        raise KeyError(number)

    with pytest.raises(KeyError), MessagesApi(script) as api:
        assert ask(api)[0].status == 500
