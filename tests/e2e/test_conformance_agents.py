"""Both programs with subagents: sent out, limited, failing, nested, and refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.test_conformance import OPEN_STREAM, STREAM, Stage, bash, each, messages, one_message, write
from tests.support.api_replies import Block, Fail, Reply, Say, text, tool
from tests.support.conformance import REPO, Event, Story, Told, shape
from tests.support.tokens import Tokens

AGENTS = {
    "rev": {"description": "Reviews", "prompt": "You are a reviewer.", "tools": ["Read", "Bash"], "model": "haiku"},
    "plain": {"description": "Plain", "prompt": "You are plain."},
    "brief": {"description": "Brief", "prompt": "You are brief.", "maxTurns": 1, "disallowedTools": ["Write"]},
}
WHO = {"rev": "You are a reviewer.", "plain": "You are plain.", "brief": "You are brief.", "filed": "You are filed."}
FOREGROUND = {"CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1"}
TASK_TOOLS = ("--tools", "Read,Write,Bash,Task", "--allowedTools", "Read,Bash")
ARGS = (*STREAM, *TASK_TOOLS, "--agents", json.dumps(AGENTS))


def send(kind: str | None = "rev", /, name: str = "Agent", **more: object) -> Block:
    given = {"subagent_type": kind} if kind else {}
    return tool(name, description="Review it", prompt="Review the thing", **given, **more)


def play(**parts: list[Reply]) -> Callable[..., Reply]:
    """Each agent says its own lines, one for each of its messages so far."""

    def reply(_number: int, _said: str, _model: str, request: dict[str, Any]) -> Reply:
        system = json.dumps(request["system"])
        who = next((name for name, words in WHO.items() if words in system), "main")
        at = sum(message["role"] == "assistant" for message in request["messages"])
        lines = parts.get(who, [])
        return lines[at] if at < len(lines) else Say(f"{who} is done")

    return reply


def story(
    script: Callable[..., Reply],
    *args: str,
    env: Mapping[str, str] = FOREGROUND,
    loose: tuple[str, ...] = (),
) -> Story:
    return Story(script, (*ARGS, *args), one_message, env=env, loose=loose)


SENT: list[Reply] = [Say(send()), Say("end")]
STORIES: dict[str, Story] = {
    "its own tools and model": story(
        play(main=SENT, rev=[Say(text("I look"), bash("echo sub")), Say("fine", "by me")])
    ),
    "the tools and model of the session, a denial": story(
        play(main=[Say(send("plain")), Say("end")], plain=[Say(write("a.txt", "x")), Say("no")])
    ),
    "asked to stay in the foreground": story(
        play(main=[Say(send(run_in_background=False)), Say("end")], rev=[Say("fine")]), env={}
    ),
    "another model for this call": story(play(main=[Say(send(model="opus")), Say("end")], rev=[Say("fine")])),
    "by its earlier name": story(play(main=[Say(send(name="Task")), Say("end")], rev=[Say("fine")])),
    "an unknown kind": story(play(main=[Say(send("nonesuch")), Say("end")]), loose=("blocks",)),
    "out of its turns": story(play(main=[Say(send("brief")), Say("end")], brief=[Say(bash("echo 1")), Say("fine")])),
    "without a report": story(play(main=SENT, rev=[Say(bash("echo 1")), Say(), Say()]), loose=("blocks",)),
    "refused by the API": story(play(main=SENT, rev=[Fail(403, "permission_error", "no")])),
    "its turns are not the session's": story(
        play(main=SENT, rev=[Say(bash("echo 1")), Say("fine")]), "--max-turns", "1"
    ),
    "the session's money": story(
        play(
            main=[Say(send("plain")), Say("end")],
            plain=[Say(bash("echo 1"), usage=Tokens(1_000_000, 100)), Say("fine")],
        ),
        "--max-budget-usd",
        "0.5",
        loose=("usage", "stop_reason"),
    ),
    "one sends out another": story(
        play(main=[Say(send("plain")), Say("end")], plain=[Say(send()), Say("outer")], rev=[Say("inner")])
    ),
    "in two turns": replace(
        story(play(main=[Say(send()), Say("one"), Say(send("plain")), Say("two")], rev=[Say("r")], plain=[Say("p")])),
        drive=messages("go", "on"),
    ),
    "a kind that a rule denies": story(play(main=SENT), "--disallowedTools", "Agent(rev)"),
    "none by rule": story(play(main=SENT), "--disallowedTools", "Task"),
    "none by choice": story(play(main=SENT), "--tools", "Read"),
    "where nobody may ask": story(play(main=SENT, rev=[Say("fine")]), "--permission-mode", "dontAsk"),
    "of a file": Story(
        play(main=[Say(send("filed")), Say("end")], filed=[Say(bash("echo 1")), Say("fine")]),
        (*OPEN_STREAM, "--strict-mcp-config", *TASK_TOOLS),
        one_message,
        env=FOREGROUND,
        files={
            ".claude/agents/filed.md": "---\nname: filed\ndescription: Filed\ntools: Read, Bash\nmodel: opus\n---\n"
            "You are filed.\n",
            ".claude/agents/broken.md": "no front matter\n",
        },
    ),
}


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


@pytest.mark.spec("4.1.6-c", "4.3.2-d", case="its own tools and model")
@each(STORIES)
def test_the_same_subagents(stage: Stage, name: str) -> None:
    told = STORIES[name]
    real, ours = (replace(each, events=_with_bare_reports(each)) for each in stage.play(told))
    assert shape(ours, told) == shape(real, told)
    assert (ours.exit_code, ours.tree) == (real.exit_code, real.tree)
    assert _tasks(ours) == _tasks(real)
    asked = [
        [(served.request["model"], "tools" in served.request) for served in each.api.ledger.main]
        for each in (ours, real)
    ]
    assert asked[0] == asked[1]


def _with_bare_reports(told: Told) -> list[Event]:
    """The events, of a hand-back only the report: the words around it are each program's own, as is the path."""
    events: list[Event] = json.loads(json.dumps(told.events))
    for event in events:
        for block in event.get("message", {}).get("content", []) if event["type"] == "user" else []:
            for part in block["content"] if isinstance(block.get("content"), list) else []:
                if "agentId: " in part.get("text", ""):
                    part["text"] = [line for line in part["text"].split("\n") if line.startswith("  ") and line.strip()]
    return events


def _tasks(told: Told) -> list[dict[str, Any]]:
    """What becomes of each subagent, in the events on its task."""
    facts = ("subtype", "status", "subagent_type", "spawn_depth", "is_backgrounded", "description", "prompt", "summary")
    return [
        {name: str(event[name]).replace(str(told.repo), REPO) for name in facts if name in event}
        | {"keys": sorted(event), "patch": sorted(event.get("patch", {}))}
        for event in told.events
        if event["type"] == "system" and event["subtype"].startswith("task_") and "run_id" in event
    ]


WRONG: dict[str, str] = {
    "a list": "[]",
    "no words": '{"a":{}}',
    "no prompt": '{"a":{"description":"x"}}',
    "tools that are a number": '{"a":{"description":"x","prompt":"y","tools":3}}',
}


@each(WRONG)
def test_the_same_refusal_of_agents(stage: Stage, name: str) -> None:
    real, ours = stage.play(Story([], ("-p", "hi", "--agents", WRONG[name])))
    assert (ours.exit_code, ours.stdout, ours.stderr) == (real.exit_code, real.stdout, real.stderr)


@pytest.mark.long
def test_agents_that_are_not_json(stage: Stage) -> None:
    real, ours = stage.play(Story([], ("-p", "hi", "--agents", "{nope")))
    assert (ours.exit_code, ours.stdout) == (real.exit_code, real.stdout) == (1, "")
    assert ours.stderr.split(":")[:3] == real.stderr.split(":")[:3]


@pytest.mark.long
def test_difference_subagents_stay_in_the_foreground(stage: Stage) -> None:
    """2.1.325 sends them to the background unless told otherwise, and takes a turn of its own for each report."""
    told = story(play(main=SENT, rev=[Say("fine")]), env={})
    real, ours = stage.play(told)
    started = [
        [event["is_backgrounded"] for event in each.events if event.get("subtype") == "task_started"]
        for each in (real, ours)
    ]
    assert started == [[True], [False]]
    assert ours.events[-1]["subagent_stats"]["started_in_background"] == 0
