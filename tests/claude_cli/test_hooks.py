"""Answers of hooks: whatever one prints, the session goes on."""

from __future__ import annotations

import json
import queue
import threading

import pytest
from hypothesis import given, settings, strategies

from ralph.claude_cli.control import RequestFailed, Requests
from ralph.claude_cli.hooks import CallbackHook, HookRun, HookVerdict, Matched, from_harness
from ralph.claude_cli.stdio import Event, read_line
from tests.support.rows import rows

JSON = strategies.recursive(
    strategies.none() | strategies.booleans() | strategies.integers() | strategies.text(),
    lambda each: strategies.lists(each) | strategies.dictionaries(strategies.text(), each),
)
OWN = strategies.dictionaries(
    strategies.sampled_from(["hookEventName", "permissionDecision", "updatedInput", "additionalContext"]),
    JSON | strategies.sampled_from(["PreToolUse", "deny", "allow"]),
)
ANSWERS = strategies.dictionaries(
    strategies.sampled_from(["continue", "decision", "reason", "systemMessage", "stopReason", "hookSpecificOutput"]),
    JSON | OWN | strategies.sampled_from(["block", "approve"]),
)


@settings(max_examples=100, deadline=None)
@given(ANSWERS.map(json.dumps) | strategies.text(), strategies.integers(0, 255) | strategies.none())
def test_no_answer_makes_it_crash(output: str, exit_code: int | None) -> None:
    verdict = HookVerdict()
    verdict.take("PreToolUse:Bash", "guard", "PreToolUse", HookRun(exit_code, output))
    assert verdict.decision in ("", "allow", "ask", "deny")
    assert exit_code != 2 or verdict.decision == "deny"


@settings(max_examples=100, deadline=None)
@given(JSON)
def test_no_declaration_of_a_harness_makes_it_crash(declared: object) -> None:
    requests = Requests(lambda _event: None)
    for hooks in (declared, {"PreToolUse": declared}, {"PreToolUse": [{"hookCallbackIds": declared}]}):
        from_harness(hooks, requests)


def test_the_strictest_decision_counts() -> None:
    verdict = HookVerdict()
    for answer in ('{"decision":"approve"}', '{"decision":"block","reason":"no"}', '{"decision":"approve"}'):
        verdict.take("PreToolUse:Bash", "guard", "PreToolUse", HookRun(0, answer))
    assert (verdict.decision, verdict.reason) == ("deny", "no")


@rows(
    ["matcher", "tool", "is_about"],
    [
        ("", "Bash", True),
        ("*", "Bash", True),
        ("Bash", "Bash", True),
        ("Ba", "Bash", False),
        ("bash", "Bash", False),
        ("Write|Bash", "Bash", True),
        ("B.s", "Bash", True),
        ("((", "Bash", False),
        ("mcp__.*", "mcp__a__b", True),
    ],
)
def test_matchers(matcher: str, tool: str, is_about: bool) -> None:
    hook = CallbackHook("id", 1.0, Requests(lambda _event: None))
    assert Matched("PreToolUse", matcher, hook).is_about("PreToolUse", tool) is is_about
    assert not Matched("PostToolUse", matcher, hook).is_about("PreToolUse", tool)


@pytest.fixture
def asked() -> queue.Queue[Event]:
    return queue.Queue()


def test_a_request_is_answered_by_its_id(asked: queue.Queue[Event]) -> None:
    requests = Requests(asked.put)
    answers: list[object] = []
    thread = threading.Thread(target=lambda: answers.append(requests.ask({"subtype": "x"}, threading.Event())))
    thread.start()
    request_id = asked.get(timeout=30)["request_id"]
    requests.answer("another", {"subtype": "success", "response": {"a": 0}})
    requests.answer(str(request_id), {"subtype": "success", "response": {"a": 1}})
    thread.join(30)
    assert answers == [{"a": 1}]


def test_a_request_fails_when_it_is_refused_interrupted_late_or_left_alone(asked: queue.Queue[Event]) -> None:
    requests = Requests(asked.put)
    stopped = threading.Event()
    stopped.set()
    with pytest.raises(RequestFailed, match="interrupted"):
        requests.ask({}, stopped)
    with pytest.raises(RequestFailed, match="did not answer in time"):
        requests.ask({}, threading.Event(), timeout=0.01)
    assert [asked.get()["type"] for _ in range(4)] == ["control_request", "control_cancel_request"] * 2
    requests.close()
    with pytest.raises(RequestFailed, match="closed"):
        requests.ask({}, threading.Event())


@settings(max_examples=100, deadline=None)
@given(JSON)
def test_no_line_of_a_harness_makes_it_crash(value: object) -> None:
    for line in (
        value,
        {"type": "control_response", "response": value},
        {"type": "control_request", "request": value},
        {"type": "user", "message": {"role": "user", "content": value}},
    ):
        read_line(json.dumps(line).encode())
