"""`ralph-claude` in pipes of the shell: each stage knows the conversation before it and answers its own prompt."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies

from ralph.claude_cli.upstream import read_upstream
from tests.support.api_replies import Fail, Reply, Say, text, tool
from tests.support.git_repos import make_repo
from tests.support.messages_api import MessagesApi
from tests.support.real_claude import claude_env

PROGRAM = Path(sys.executable).with_name("ralph-claude")
FLAGS = "--model sonnet --tools Bash --verbose --output-format stream-json"
FROM_STAGE = f"--input-format stream-json {FLAGS}"
Ran = subprocess.CompletedProcess[str]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return make_repo(tmp_path / "repo", {"README.md": "# Example\n"})


def pipe(place: Path, script: list[Reply], line: str) -> tuple[Ran, MessagesApi]:
    """Run a line of the shell; `C` is the program."""
    with MessagesApi(script) as api:
        env = claude_env(place.parent / "home", api.url) | {"C": str(PROGRAM), "CLAUDE_CODE_MAX_RETRIES": "0"}
        ran = subprocess.run(
            ["bash", "-c", f"{line}; echo ${{PIPESTATUS[*]}} >&2"],
            cwd=place, env=env, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    return ran, api


def said(api: MessagesApi) -> list[tuple[str, str]]:
    """The conversation of the last request."""
    return [
        (message["role"], str(block.get("text") or block.get("input") or block.get("content")))
        for message in api.ledger.main[-1].request["messages"]
        for block in message["content"]
    ]


CALLS: list[Reply] = [
    Say(text("I look."), tool("Bash", command="echo a"), tool("Bash", command="echo b")),
    Say("found a and b"),
    Say("fixed"),
    Say("all in all"),
]


@pytest.mark.spec("4.4-abcdef")
@pytest.mark.spec("4.1.5-c")
def test_each_stage_knows_the_conversation_before_it(place: Path) -> None:
    first = f"$C -p find {FLAGS} --replay-user-messages"
    second = f"$C -p fix {FROM_STAGE} --replay-user-messages --permission-mode acceptEdits"
    last = "$C -p sum --model sonnet --tools Bash --input-format stream-json --output-format json"
    line = f"{first} | {second} | {last}"
    ran, api = pipe(place, CALLS, line)
    assert ran.stderr.splitlines()[-1] == "0 0 0", ran.stderr
    assert said(api) == [
        ("user", "find"),
        ("assistant", "I look."),
        ("assistant", "{'command': 'echo a'}"),
        ("assistant", "{'command': 'echo b'}"),
        ("user", "a"),
        ("user", "b"),
        ("assistant", "found a and b"),
        ("user", "fix"),
        ("assistant", "fixed"),
        ("user", "sum"),
    ]
    document = json.loads(ran.stdout)
    assert (document["type"], document["result"]) == ("result", "all in all")


def test_without_replay_the_prompts_stay_where_they_were_said(place: Path) -> None:
    ran, api = pipe(place, CALLS[1:], f"$C -p find {FLAGS} | $C -p fix {FROM_STAGE} | $C -p sum {FROM_STAGE}")
    assert ran.stderr == "0 0 0\n"
    assert [words for role, words in said(api) if role == "assistant"] == ["found a and b", "fixed"]
    assert [words for role, words in said(api) if role == "user"][1:] == ["sum"]
    replayed = [event for event in map(json.loads, ran.stdout.splitlines()) if event.get("isReplay")]
    assert [event["type"] for event in replayed] == ["assistant", "assistant"]


@pytest.mark.parametrize(
    ("first", "why", "status"),
    [
        (f"$C -p find {FLAGS} --settings none.json", "its stream has no result", "1 1 1"),
        (f"$C -p find {FLAGS}", "API Error: 400 bad thing", "1 1 1"),
        ("true", "its stream has no result", "0 1 1"),
        ("echo hello", "its output is not a stream of JSON lines", "0 1 1"),
    ],
    ids=["it cannot start", "its model fails", "it says nothing", "it says something else"],
)
def test_a_stage_that_fails_fails_all_that_follow(place: Path, first: str, why: str, status: str) -> None:
    wrong: list[Reply] = [Fail(400, "invalid_request_error", "bad thing")] * 3
    ran, api = pipe(place, wrong, f"{first} | $C -p fix {FROM_STAGE} | $C -p sum {FROM_STAGE}")
    assert ran.stderr.splitlines()[-1] == status
    assert "The command before this one in the pipe failed: " in ran.stderr
    assert why in ran.stderr
    [result] = [json.loads(line) for line in ran.stdout.splitlines()]
    assert (result["type"], result["is_error"]) == ("result", True)
    assert len(api.ledger.main) == int("400" in why)


def test_a_harness_that_speaks_on_stdin_is_answered_and_the_prompt_is_named(place: Path) -> None:
    message = '{"type":"user","message":{"role":"user","content":"hi"}}'
    ran, api = pipe(place, [Say("hello")], f"echo '{message}' | $C -p ignored {FROM_STAGE}")
    assert "ralph-claude: the prompt is ignored: the messages come from standard input" in ran.stderr
    assert said(api) == [("user", "hi")]


JSON = strategies.recursive(
    strategies.none() | strategies.booleans() | strategies.integers() | strategies.text(),
    lambda each: strategies.lists(each) | strategies.dictionaries(strategies.text(), each),
)
EVENTS = strategies.fixed_dictionaries(
    {"type": strategies.sampled_from(["user", "assistant", "result", "system"]), "message": JSON},
    optional={"subtype": JSON, "errors": JSON, "is_error": JSON, "result": JSON},
)


@settings(max_examples=100, deadline=None)
@given(strategies.lists(EVENTS.map(json.dumps) | JSON.map(json.dumps) | strategies.text(), max_size=6))
def test_no_stream_of_another_stage_makes_it_crash(lines: list[str]) -> None:
    stage = read_upstream((line.encode("utf-8", "replace") for line in lines), with_user=True)
    assert isinstance(stage.failure, str)
