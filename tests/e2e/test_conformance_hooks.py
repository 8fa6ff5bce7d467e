"""Both programs with settings and hooks: the same files, the same guards, the same outcome."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.test_conformance import BARE, STREAM, TOOLS, TRUSTED, WITH_SCHEMA, Stage, bash, messages, one_message
from tests.support.api_replies import Say, tool
from tests.support.conformance import REPO, Event, Story, Told, shape

ALLOW = '{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow"}}'
LOG = 'cat >> "$HOME/hooks.ndjson"'
CALL = [Say(bash("echo hi")), Say("done")]
WORDS = [Say("one"), Say("two")]


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def settings(**values: object) -> tuple[str, str]:
    return "--settings", json.dumps(values)


def hooks(event: str, command: str, matcher: str = "", **more: object) -> tuple[str, str]:
    entry: dict[str, object] = {"hooks": [{"type": "command", "command": command, **more}]}
    return settings(hooks={event: [entry | ({"matcher": matcher} if matcher else {})]})


def says(answer: str) -> str:
    return f"echo '{answer}'"


def guard(command: str, matcher: str = "Bash", **more: object) -> Story:
    return Story(CALL, (*STREAM, *TRUSTED, *hooks("PreToolUse", command, matcher, **more)), one_message)


def untrusted_write(command: str) -> Story:
    script = [Say(tool("Write", file_path=f"{REPO}/new.txt", content="x")), Say("done")]
    return Story(script, (*STREAM, *TOOLS, *hooks("PreToolUse", command, "Write")), one_message)


def around(event: str, command: str, matcher: str = "") -> Story:
    return Story(CALL, (*STREAM, *TRUSTED, *hooks(event, command, matcher)), one_message)


def spoken(event: str, command: str, matcher: str = "") -> Story:
    return Story(WORDS, (*STREAM, *TOOLS, *hooks(event, command, matcher)), one_message)


ONCE = "test -e $HOME/once || { touch $HOME/once; %s; }"
ENV = Say(bash("echo $FOO $BAR"))

STORIES: dict[str, Story] = {
    "a guard with exit code 2": guard("echo no way >&2; exit 2"),
    "a guard without a word": guard("exit 2"),
    "a guard that fails otherwise": guard("echo oops >&2; exit 1"),
    "a guard that is not there": guard("nonesuch-command"),
    "a guard that takes too long": guard("for i in $(seq 100); do sleep 0.1; done; exit 2", timeout=1),
    "denied in JSON": guard(
        says('{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny",')[:-1]
        + '"permissionDecisionReason":"because"}}\''
    ),
    "denied in JSON, with exit code 1": guard(says('{"decision":"block","reason":"because"}') + "; exit 1"),
    "denied without a reason": guard(says('{"decision":"block"}')),
    "to be asked about": guard(
        says('{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"ask",')[:-1]
        + '"permissionDecisionReason":"because"}}\''
    ),
    "allowed in JSON": untrusted_write(says(ALLOW)),
    "allowed in the old way": untrusted_write(says('{"decision":"approve"}')),
    "other arguments": guard(
        says('{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow",')[:-1]
        + '"updatedInput":{"command":"echo changed","description":"x"}}}\''
    ),
    "stopped before a call": guard(says('{"continue":false,"stopReason":"enough"}')),
    "a message and a context": guard(
        says('{"systemMessage":"watch out","hookSpecificOutput":{"hookEventName":"PreToolUse",')[:-1]
        + '"additionalContext":"ctx"}}\''
    ),
    "an answer that is not JSON": guard("echo '{nope'"),
    "an answer of the wrong kind": guard(says('{"decision":3}')),
    "an answer about another event": guard(
        says('{"hookSpecificOutput":{"hookEventName":"Stop","permissionDecision":"deny"}}')
    ),
    "an answer that is a list": guard("echo '[1]'"),
    "an empty answer": guard("echo '{}'"),
    "another tool": guard("exit 2", "Write"),
    "one of two tools": guard("exit 2", "Write|Bash"),
    "a pattern": guard("exit 2", "B.s"),
    "a part of a name": guard("exit 2", "Ba"),
    "a pattern that is none": guard("exit 2", "(("),
    "any tool": guard("exit 2", "*"),
    "every hook shown": Story(
        CALL, (*STREAM, *TRUSTED, "--include-hook-events", *hooks("PreToolUse", "echo x", "Bash")), one_message
    ),
    "StructuredOutput guarded": Story(
        [Say(tool("StructuredOutput", summary="x")), Say("done"), Say("x")],
        (*STREAM, *TOOLS, *WITH_SCHEMA, *hooks("PreToolUse", "exit 2")),
        one_message,
    ),
    "feedback after a call": around("PostToolUse", "echo fb >&2; exit 2", "Bash"),
    "stopped after a call": around("PostToolUse", says('{"continue":false}'), "Bash"),
    "a prompt blocked": Story(
        WORDS, (*STREAM, *TOOLS, *hooks("UserPromptSubmit", ONCE % "echo no >&2; exit 2")), messages("go", "again")
    ),
    "a prompt blocked in JSON": spoken("UserPromptSubmit", says('{"decision":"block","reason":"bad words"}')),
    "a prompt stopped": spoken("UserPromptSubmit", says('{"continue":false,"stopReason":"enough"}')),
    "a prompt with a context": spoken("UserPromptSubmit", "echo some context"),
    "held back once": spoken("Stop", ONCE % "echo go on >&2; exit 2"),
    "held back in JSON": spoken("Stop", ONCE % says('{"decision":"block","reason":"keep going"}')),
    "held back for ever": Story(
        [Say(f"n{number}") for number in range(12)],
        (*STREAM, *TOOLS, *hooks("Stop", "echo go on >&2; exit 2")),
        one_message,
    ),
    "ended by a Stop hook": spoken("Stop", says('{"continue":false,"stopReason":"enough"}')),
    "not held back with a structured output": Story(
        [Say(tool("StructuredOutput", summary="x")), Say("more")],
        (*STREAM, *TOOLS, *WITH_SCHEMA, *hooks("Stop", "exit 2")),
        one_message,
    ),
    "a session's start": spoken("SessionStart", "echo start context"),
    "a session's start that fails": spoken("SessionStart", "echo no >&2; exit 2"),
    "another start": spoken("SessionStart", "echo x", "resume"),
    "hooks turned off": Story(
        CALL,
        (
            *STREAM,
            *TRUSTED,
            *settings(
                disableAllHooks=True,
                hooks={"PreToolUse": [{"hooks": [{"type": "command", "command": "exit 2"}]}]},
            ),
        ),
        one_message,
    ),
    "a model and an environment": Story(
        [ENV, Say("done")],
        (*STREAM, *TRUSTED, *settings(model="haiku", env={"FOO": "foo", "BAR": "bar"})),
        one_message,
    ),
    "a mode and rules": Story(
        [Say(bash("git push")), Say(tool("Write", file_path=f"{REPO}/new.txt", content="x")), Say("done")],
        (*STREAM, *TOOLS, *settings(permissions={"defaultMode": "acceptEdits", "deny": ["Bash(git push:*)"]})),
        one_message,
    ),
}
SHORT = ("a guard with exit code 2", "held back once")


def each_story() -> pytest.MarkDecorator:
    marks = {name: () if name in SHORT else (pytest.mark.long,) for name in STORIES}
    return pytest.mark.parametrize("name", [pytest.param(name, marks=marks[name]) for name in marks])


@pytest.mark.spec("4.1.6-d", case="a model and an environment")
@each_story()
def test_the_same_story_with_hooks_and_settings(stage: Stage, name: str) -> None:
    story = STORIES[name]
    real, ours = stage.play(story)
    assert _told(ours, story) == _told(real, story)
    assert (ours.exit_code, ours.tree) == (real.exit_code, real.tree)
    assert len(ours.api.ledger.main) == len(real.api.ledger.main)


def _told(told: Told, story: Story) -> list[dict[str, object]]:
    """The shape of the events, and what a notice or a hook's event says."""
    shown = [event for event in told.events if event.get("subtype") != "ui_invalidate"]
    facts = shape(_only(told, shown), story)
    said = ("content", "hook_name", "hook_event", "stdout", "stderr", "exit_code", "outcome", "text", "level")
    notices = [
        {name: event.get(name) for name in (*said, "prompt_submit_outcome", "hook_no_verdict")}
        for event in shown
        if event["type"] == "system" and event["subtype"] != "init"
    ]
    return [*facts, *json.loads(_without_ids(json.dumps(notices)))]


def _without_ids(text: str) -> str:
    return re.sub(r"toolu_\d+", "toolu", text)


def _only(told: Told, events: list[Event]) -> Told:
    return replace(told, events=events)


GIVEN = ("PreToolUse", "PostToolUse", "PostToolUseFailure", "UserPromptSubmit", "Stop", "SessionStart", "SessionEnd")
OF_CLAUDE = {"effort", "prompt_id", "background_tasks", "session_crons"}
"""What only Claude Code tells a hook: it is about features that ralph-claude does not have."""


@pytest.mark.long
def test_hooks_are_given_the_same(stage: Stage, tmp_path: Path) -> None:
    everything = settings(hooks={event: [{"hooks": [{"type": "command", "command": LOG}]}] for event in GIVEN})
    script = [Say(bash("echo hi")), Say(bash("exit 3")), Say("done")]
    stage.play(Story(script, (*STREAM, *TRUSTED, *everything), one_message))
    real, ours = (_given(tmp_path / f"{name}-home") for name in stage.programs)
    assert [(event["hook_event_name"], sorted(event.keys() - OF_CLAUDE)) for event in ours] == [
        (event["hook_event_name"], sorted(event.keys() - OF_CLAUDE)) for event in real
    ]
    alike = ("tool_name", "tool_input", "tool_response", "error", "prompt", "source", "reason", "permission_mode")
    for one, other in zip(ours, real, strict=True):
        assert [one.get(name) for name in alike] == [other.get(name) for name in alike]


def _given(home: Path) -> list[dict[str, Any]]:
    text = (home / "hooks.ndjson").read_text()
    return [json.loads(line) for line in text.replace("}{", "}\n{").splitlines() if line]


FAULTS: dict[str, str] = {
    "not there": "none.json",
    "not JSON": "bad.json",
    "a list": "list.json",
    "a model that is a number": '{"model": 3}',
    "a hook of no known type": '{"hooks": {"PreToolUse": [{"hooks": [{"type": "cmd"}]}]}}',
    "an unknown mode": '{"permissions": {"defaultMode": "odd"}}',
    "an event without a list": '{"hooks": {"PreToolUse": "x"}}',
}


@pytest.mark.long
@pytest.mark.parametrize("name", FAULTS)
def test_the_same_words_about_settings_with_faults(stage: Stage, name: str) -> None:
    files = {"bad.json": "{nope", "list.json": "[]"}
    real, ours = stage.play(Story([Say("hello")], (*BARE, *TOOLS, "--settings", FAULTS[name], "--", "hi"), files=files))
    assert (ours.exit_code, ours.stdout) == (real.exit_code, real.stdout)
    assert ours.stderr.replace(str(ours.repo), REPO) == real.stderr.replace(str(real.repo), REPO)


@pytest.mark.long
def test_the_same_words_about_sources(stage: Stage) -> None:
    real, ours = stage.play(Story([], ("-p", "--setting-sources", "user,nonesuch", "hi")))
    assert (ours.exit_code, ours.stdout, ours.stderr) == (real.exit_code, real.stdout, real.stderr)


@pytest.mark.long
def test_difference_a_stranger_does_not_choose_the_endpoint(stage: Stage) -> None:
    """2.1.325 sends the prompt wherever the settings of an untrusted repository say."""
    elsewhere = {".claude/settings.json": '{"env": {"ANTHROPIC_BASE_URL": "http://127.0.0.1:1"}}'}
    args = ("-p", "--model", "sonnet", "--no-session-persistence", *TOOLS, "--", "hi")
    story = Story([Say("hello")], args, files=elsewhere, env={"CLAUDE_CODE_MAX_RETRIES": "0"})
    real, ours = stage.play(story)
    assert (real.exit_code, real.api.ledger.main) == (1, [])
    assert (ours.exit_code, ours.stdout) == (0, "hello\n")
    assert "Ignoring ANTHROPIC_BASE_URL" in ours.stderr
