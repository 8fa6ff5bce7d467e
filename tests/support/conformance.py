"""One story told to two programs: what both are given, what they did, and the shape in which the two are compared."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from tests.support.api_replies import Reply, Say
from tests.support.conversation import Conversation
from tests.support.messages_api import MessagesApi
from tests.support.real_claude import Auth, claude_env

Event = dict[str, Any]

REPO = "$REPO"
"""Stands for the repository in a script: both programs have one of their own."""

# Told of a command once it has run for some seconds (2.1.325), so on a busy machine only.
OF_SLOW_COMMANDS = ("task_started", "task_notification", "background_tasks_changed")


@dataclass(frozen=True)
class Told:
    """What a program did."""

    exit_code: int
    events: list[Event]
    stdout: str
    stderr: str
    tree: dict[str, str]
    api: MessagesApi
    repo: Path


Drive = Callable[[Conversation, MessagesApi], None]
Model = Sequence[Reply] | Callable[[int, str], Reply] | Callable[[int, str, str], Reply] | Callable[..., Reply]
"""Replies in their order; or a choice by a request's number, what the user said last, its model, and all of it."""


@dataclass(frozen=True)
class Story:
    """A model's script, a command line, and what the user does. Without `drive`, the prompt is an argument."""

    script: Model
    args: tuple[str, ...]
    drive: Drive | None = None
    stdin: str | None = None
    auth: Auth = "bearer"
    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    loose: tuple[str, ...] = ()
    """Facts of the shape that even the real claude does not repeat from run to run."""


def tell(story: Story, program: Path, repo: Path, home: Path) -> Told:
    """Run the program through the story in a repository that holds its files."""
    for name, text in story.files.items():
        path = repo / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    with MessagesApi(_scripted(story.script, repo)) as api:
        env = claude_env(home, api.url, story.auth, sandbox=True) | dict(story.env)
        if story.drive is None:
            done = _run([program, *story.args], repo, env, story.stdin)
            events = _events(done.stdout) if "stream-json" in story.args else []
            return Told(done.returncode, events, done.stdout, done.stderr, _tree(repo), api, repo)
        with Conversation([program, *story.args], repo, env) as talk:
            story.drive(talk, api)
            code = talk.end()
            return Told(code, talk.events, talk.stdout, talk.stderr, _tree(repo), api, repo)


def shape(told: Told, story: Story) -> list[dict[str, object]]:
    """The events as a reader of the stream may rely on them, without what differs from run to run."""
    told_events = [event for event in told.events if event.get("subtype") not in OF_SLOW_COMMANDS]
    facts = [_facts(event, told.repo) for event in _in_message_order(told_events)]
    return [{name: fact for name, fact in each.items() if name not in story.loose} for each in facts]


def _run(
    argv: Sequence[str | Path], repo: Path, env: Mapping[str, str], stdin: str | None
) -> subprocess.CompletedProcess[str]:
    given = {"stdin": subprocess.DEVNULL} if stdin is None else {"input": stdin}
    return subprocess.run(argv, cwd=repo, env=env, capture_output=True, text=True, timeout=60, **given)  # pyright: ignore[reportCallIssue, reportArgumentType] - one of two


def _scripted(script: Model, repo: Path) -> Callable[[int, Event], Reply]:
    def reply(number: int, request: Event) -> Reply:
        if callable(script):
            given = (number, _last_said(request), request["model"], request)
            chosen = cast("Callable[..., Reply]", script)(*given[: len(inspect.signature(script).parameters)])
        else:
            chosen = script[number - 1] if number <= len(script) else Say("The script has ended.")
        if not isinstance(chosen, Say):
            return chosen
        blocks = json.loads(json.dumps(chosen.blocks).replace(REPO, str(repo)))
        return Say(*blocks, usage=chosen.usage, stop_reason=chosen.stop_reason, headers=chosen.headers)

    return reply


def _last_said(request: Event) -> str:
    said = [message["content"] for message in request["messages"] if message["role"] == "user"][-1]
    return said if isinstance(said, str) else said[-1].get("text", "")


def _events(stdout: str) -> list[Event]:
    return [json.loads(line) for line in stdout.splitlines()]


def _tree(repo: Path) -> dict[str, str]:
    files = (path for path in sorted(repo.rglob("*")) if path.is_file() and ".git" not in path.parts)
    return {str(path.relative_to(repo)): path.read_text() for path in files}


def _in_message_order(events: Sequence[Event]) -> list[Event]:
    """All blocks of a message before what its calls came to: claude runs tools while the message still streams."""
    ordered: list[Event] = []
    for event in events:
        at = len(ordered)
        if event["type"] == "assistant":
            same = [i for i, known in enumerate(ordered) if _message_id(known) == _message_id(event)]
            at = same[-1] + 1 if same else at
        elif event["type"] == "user" and (call := _answered_call(event)):
            at = _place_of_result(ordered, call)
        ordered.insert(at, event)
    return ordered


def _place_of_result(ordered: Sequence[Event], call: str) -> int:
    """Results of one message stand in the order of their calls."""
    calls = [block.get("id") for event in ordered for block in _blocks(event) if block["type"] == "tool_use"]
    later = set(calls[calls.index(call) + 1 :]) if call in calls else set()
    for index, event in enumerate(ordered):
        if _answered_call(event) in later:
            return index
    return len(ordered)


def _message_id(event: Event) -> str | None:
    return event["message"]["id"] if event["type"] == "assistant" else None


def _blocks(event: Event) -> list[Event]:
    message = event.get("message")
    return message["content"] if isinstance(message, dict) else []


def _answered_call(event: Event) -> str:
    blocks = _blocks(event) if event["type"] == "user" else []
    return blocks[0].get("tool_use_id", "") if blocks else ""


_FIXED = (
    "type", "subtype", "is_error", "api_error_status", "api_error_type", "api_error", "num_turns", "stop_reason",
    "terminal_reason", "error", "result", "errors", "structured_output", "isSynthetic", "result_index", "attempt",
    "max_retries", "error_status", "permissionMode", "tools", "model", "estimated_tokens", "rate_limit_info",
    "tool_name", "decision_reason_type", "is_api_error_message", "trigger", "original_model", "fallback_model",
    "content", "status", "compact_result", "mcp_servers", "subagent_type", "task_description", "last_tool_name",
    "subagent_stats",
)  # fmt: skip


def _facts(event: Event, repo: Path) -> dict[str, object]:
    facts: dict[str, object] = {name: event[name] for name in _FIXED if name in event}
    facts["keys"] = sorted(event)
    if blocks := _blocks(event):
        facts["blocks"] = [_block_facts(block) for block in blocks]
        facts["message keys"] = sorted(event["message"])
    if "tool_use_result" in event:
        facts["detail"] = type(event["tool_use_result"]).__name__
    if "tool_result_meta" in event:
        facts["meta"] = [_meta_facts(meta) for meta in event["tool_result_meta"]]
    if event["type"] == "result":
        facts["denials"] = [(denial["tool_name"], denial["tool_input"]) for denial in event["permission_denials"]]
        facts["usage"] = {name: event["usage"][name] for name in event["usage"] if name.endswith("_tokens")}
        facts["model usage"] = {
            model: usage | {"costUSD": round(usage.get("costUSD", -1.0), 9)}
            for model, usage in event["modelUsage"].items()
        }
        facts["cost"] = round(event.get("total_cost_usd", -1.0), 9)
    if event["type"] == "control_response":
        response = event["response"]
        facts["response"] = {name: value for name, value in response.items() if name != "response"}
    return _without_accidents(facts, repo)


def _block_facts(block: Event) -> dict[str, object]:
    facts: dict[str, object] = {
        name: value for name, value in block.items() if name not in ("id", "tool_use_id", "is_error")
    }
    if isinstance(given := facts.get("input"), dict):  # claude shows Edit's with its default filled in
        facts["input"] = {name: value for name, value in given.items() if (name, value) != ("replace_all", False)}
    return facts | {"is_error": bool(block.get("is_error"))}


def _meta_facts(meta: Event) -> dict[str, object]:
    """Whether and how a call was let run; not why, where it was."""
    decision = meta.get("permission_decision", {})
    accepted = {name: decision[name] for name in decision if name != "reason_type" or decision["decision"] == "reject"}
    return {"kind": meta.get("non_execution_kind"), "decision": accepted}


def _without_accidents(facts: dict[str, object], repo: Path) -> dict[str, object]:
    text = json.dumps(facts, sort_keys=True).replace(str(repo), REPO)
    return json.loads(re.sub(r"127\.0\.0\.1:\d+", "HOST", text))
