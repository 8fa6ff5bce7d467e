"""Both programs with MCP servers: a real one over stdio, a real one over HTTP, and some that are none."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.test_conformance import OPEN_STREAM, STREAM, TOOLS, Stage, bash, each, one_message, write
from tests.support.api_replies import Say, tool
from tests.support.conformance import REPO, Story, shape
from tests.support.conversation import Conversation
from tests.support.messages_api import MessagesApi
from tests.support.waiting import kill_tree, wait_until

ROOT = Path(__file__).parents[2]
LITTLE: dict[str, object] = {
    "command": sys.executable,
    "args": ["-m", "tests.support.mcp_server", "stdio"],
    "env": {"PYTHONPATH": str(ROOT)},
}
HTTP = "$HTTP"
"""Stands for the address of the server over HTTP."""


def config(**servers: object) -> tuple[str, str]:
    return "--mcp-config", json.dumps({"mcpServers": servers})


def call(name: str, /, **arguments: object) -> Say:
    return Say(tool(f"mcp__t__{name}", **arguments))


ALLOWED = ("--allowedTools", "mcp__t")
WITH_LITTLE = (*STREAM, *TOOLS, *config(t=LITTLE))
PROMPTED = ("--permission-prompt-tool", "mcp__t__ask")
QUICK = {"MCP_TOOL_TIMEOUT": "2000"}

MCP: dict[str, Story] = {
    "answers of every kind": Story(
        [
            call("add", a=1, b=2),
            call("fail"),
            call("nothing"),
            call("facts"),
            call("many"),
            call("nonesuch"),
            Say("ok"),
        ],
        (*WITH_LITTLE, *ALLOWED),
        one_message,
    ),
    "over HTTP": Story(
        [call("add", a=1, b=2), call("fail"), Say("done")],
        (*STREAM, *TOOLS, *ALLOWED, *config(t={"type": "http", "url": HTTP})),
        one_message,
    ),
    "a server that dies, and is there again": Story(
        [call("die"), call("add", a=1, b=2), Say("done")], (*WITH_LITTLE, *ALLOWED), one_message
    ),
    "a tool that hangs": Story([call("hang"), Say("done")], (*WITH_LITTLE, *ALLOWED), one_message, env=QUICK),
    "servers that are not there": Story(
        [call("add", a=1, b=2), Say("done")],
        (
            *(*STREAM, *TOOLS, *ALLOWED),
            *config(
                gone={"command": "/nonexistent"},
                t={"command": "false"},
                far={"type": "http", "url": "http://127.0.0.1:1"},
            ),
        ),
        one_message,
    ),
    "entries that make no sense": Story(
        [Say("done")],
        (*STREAM, *TOOLS, *config(a={"foo": 1}, b={"type": "zzz", "url": "x"}, c={"type": "http"}, d={"command": 3})),
        one_message,
    ),
    "a name with a blank": Story(
        [Say(tool("mcp__a_b__add", a=1, b=1)), Say("done")],
        (*STREAM, *TOOLS, *config(**{"a b": LITTLE}), "--allowedTools", "mcp__a_b__add"),
        one_message,
    ),
    "not allowed": Story([call("add", a=1, b=2), Say("done")], WITH_LITTLE, one_message),
    "not allowed to ask": Story(
        [call("add", a=1, b=2), Say("done")], (*WITH_LITTLE, "--permission-mode", "dontAsk"), one_message
    ),
    "not while planning": Story(
        [call("add", a=1, b=2), Say("done")], (*WITH_LITTLE, *ALLOWED, "--permission-mode", "plan"), one_message
    ),
    "one tool allowed, one denied": Story(
        [call("add", a=1, b=2), call("fail"), call("nothing"), Say("done")],
        (*WITH_LITTLE, "--allowedTools", "mcp__t__add", "--disallowedTools", "mcp__t__fail"),
        one_message,
    ),
    "all tools of a server denied": Story(
        [call("add", a=1, b=2), Say("done")], (*WITH_LITTLE, "--disallowedTools", "mcp__t"), one_message
    ),
    "everything allowed": Story(
        [call("add", a=1, b=2), Say("done")], (*WITH_LITTLE, "--dangerously-skip-permissions"), one_message
    ),
    "allowed with a star, whatever --tools says": Story(
        [call("add", a=1, b=2), Say("done")],
        (*STREAM, "--tools", "Read", *config(t=LITTLE), "--allowedTools", "mcp__t__*"),
        one_message,
    ),
    "of the project": Story(
        [call("add", a=1, b=2), Say("done")],
        (*OPEN_STREAM, *TOOLS, *ALLOWED),
        one_message,
        files={".mcp.json": json.dumps({"mcpServers": {"t": LITTLE}})},
        loose=("tools", "mcp_servers"),  # claude prints its init before such a server has answered
    ),
    "of the project, but strictly not": Story(
        [Say("done")], (*STREAM, *TOOLS), one_message, files={".mcp.json": json.dumps({"mcpServers": {"t": LITTLE}})}
    ),
    "of the project, switched off": Story(
        [Say("done")],
        (*OPEN_STREAM, *TOOLS),
        one_message,
        files={
            ".mcp.json": json.dumps({"mcpServers": {"t": LITTLE}}),
            ".claude/settings.json": '{"disabledMcpjsonServers": ["t"]}',
        },
    ),
    "of a broken file of the project": Story(
        [Say("done")], (*OPEN_STREAM, *TOOLS), one_message, files={".mcp.json": "{nope"}
    ),
    "a file, with variables": Story(
        [call("add", a=1, b=2), Say("done")],
        (*STREAM, *TOOLS, *ALLOWED, "--mcp-config", "servers.json"),
        one_message,
        env={"PYTHON": sys.executable},
        files={"servers.json": json.dumps({"mcpServers": {"t": {**LITTLE, "command": "${PYTHON:-nope}"}}})},
    ),
    "a tool decides": Story(
        [
            Say(bash("touch x; echo hi")),
            Say(write("a.txt", "x")),
            call("add", a=1, b=2),
            Say(bash("echo hi")),
            Say("done"),
        ],
        (*WITH_LITTLE, *PROMPTED),
        one_message,
    ),
    "a tool that is no judge": Story(
        [Say(write("a.txt", "x")), Say("done")],
        (*WITH_LITTLE, "--permission-prompt-tool", "mcp__t__nothing"),
        one_message,
    ),
    "a judge that fails": Story(
        [Say(write("a.txt", "x")), Say("done")],
        (*WITH_LITTLE, "--permission-prompt-tool", "mcp__t__fail"),
        one_message,
    ),
}


def until_the_end(talk: Conversation, _api: MessagesApi) -> None:
    talk.say("go")
    talk.process.wait(90)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


@pytest.fixture
def http_server(tmp_path: Path) -> Iterator[str]:
    place = tmp_path / "port"
    process = subprocess.Popen([sys.executable, "-m", "tests.support.mcp_server", "http", place], cwd=ROOT)
    try:
        wait_until(place.exists, "the server over HTTP")
        yield f"http://127.0.0.1:{place.read_text()}/mcp"
    finally:
        kill_tree(process.pid)
        process.wait()


@pytest.mark.spec("4.1.6-a", "4.3.1-f", case="answers of every kind")
@pytest.mark.spec("4.1.6-b", case="of the project, but strictly not")
@pytest.mark.spec("4.1.2-l", case="a tool decides")
@each(name for name in MCP if name != "over HTTP")
def test_the_same_servers(stage: Stage, name: str) -> None:
    _play(stage, MCP[name])


@pytest.mark.spec("4.1.6-a")
@pytest.mark.long
def test_the_same_server_over_http(stage: Stage, http_server: str) -> None:
    story = MCP["over HTTP"]
    _play(stage, replace(story, args=tuple(word.replace(HTTP, http_server) for word in story.args)))


def _play(stage: Stage, story: Story) -> None:
    real, ours = stage.play(story)
    assert shape(ours, story) == shape(real, story)
    assert (ours.exit_code, ours.stderr, ours.tree) == (real.exit_code, real.stderr, real.tree)


WRONG: dict[str, tuple[str, ...]] = {
    "neither JSON nor a file": ("{nope",),
    "not a file": ("nope.json",),
    "no servers": ("{}",),
    "a list": ("[]",),
    "a list of servers": ('{"mcpServers":[]}',),
    "a broken file": ("README.md",),
    "one good, one wrong": ('{"mcpServers":{}}', "{x"),
}


@each(WRONG)
def test_the_same_refusal_of_servers(stage: Stage, name: str) -> None:
    real, ours = stage.play(Story([], ("-p", "hi", "--mcp-config", *WRONG[name])))
    assert (ours.exit_code, ours.stdout) == (real.exit_code, real.stdout) == (1, "")
    assert ours.stderr.replace(str(ours.repo), REPO) == real.stderr.replace(str(real.repo), REPO)


@pytest.mark.long
def test_the_same_end_where_nobody_can_be_asked(stage: Stage) -> None:
    story = Story([Say(write("a.txt", "x")), Say("done")], (*STREAM, *TOOLS, *PROMPTED), until_the_end)
    real, ours = stage.play(story)
    assert shape(ours, story) == shape(real, story)
    assert (ours.exit_code, ours.stderr) == (real.exit_code, real.stderr)


class Harness:
    """Answers the control requests of a program: for a server that lives in the harness, and for permissions."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    def drive(self, talk: Conversation, _api: MessagesApi) -> None:
        talk.send({"type": "control_request", "request_id": "i1", "request": {"subtype": "initialize"}})
        talk.say("go")
        done: set[str] = set()

        def all_answered() -> bool:
            for event in talk.events:
                if event["type"] == "control_request" and event["request_id"] not in done:
                    done.add(event["request_id"])
                    answer = {"subtype": "success", "request_id": event["request_id"]}
                    answer["response"] = self._answer(event["request"])
                    talk.send({"type": "control_response", "response": answer})
            return any(event["type"] == "result" for event in talk.events)

        wait_until(all_answered, "the result")

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        if request["subtype"] == "can_use_tool":
            self.asked.append((request["tool_name"], request["tool_use_id"]))
            allowed = {"behavior": "allow", "updatedInput": request["input"]}
            return allowed if request["tool_name"] != "Write" else {"behavior": "deny", "message": "not today"}
        message = request["message"]
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": message.get("id")}
        match message.get("method"):
            case "initialize":
                server = {"name": "calc", "version": "1"}
                version = message["params"]["protocolVersion"]
                reply["result"] = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": server}
            case "tools/list":
                reply["result"] = {"tools": [{"name": "add", "description": "Add", "inputSchema": {"type": "object"}}]}
            case "tools/call":
                arguments = message["params"]["arguments"]
                reply["result"] = {"content": [{"type": "text", "text": str(arguments["a"] + arguments["b"])}]}
            case method if "id" in message:
                reply["error"] = {"code": -32601, "message": f"no method {method}"}
            case _:
                return {"mcp_response": {"jsonrpc": "2.0", "result": {}}}
        return {"mcp_response": reply}


def test_the_same_server_and_permissions_of_the_harness(stage: Stage) -> None:
    asked: list[list[tuple[str, str]]] = []

    def drive(talk: Conversation, api: MessagesApi) -> None:
        harness = Harness()
        harness.drive(talk, api)
        asked.append([(name, call.rpartition("_")[2]) for name, call in harness.asked])

    args = (*STREAM, *TOOLS, *config(t={"type": "sdk", "name": "t"}), "--permission-prompt-tool", "stdio")
    story = Story([call("add", a=2, b=3), Say(write("a.txt", "x")), Say("done")], args, drive)
    real, ours = (
        replace(told, events=[event for event in told.events if not event["type"].startswith("control_")])
        for told in stage.play(story)
    )
    assert shape(ours, story) == shape(real, story)
    assert (ours.exit_code, ours.tree) == (real.exit_code, real.tree)
    assert asked[0] == asked[1] == [("mcp__t__add", "0"), ("Write", "0")]
