"""Both programs and what a user types: messages printed again, commands and skills in prompts, beta headers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.e2e.test_conformance import (
    BARE,
    HALF_A_SECOND,
    STREAM,
    TOOLS,
    TRUSTED,
    Stage,
    bash,
    messages,
    speak_meanwhile,
    two_at_once,
)
from tests.support.api_replies import Say
from tests.support.conformance import REPO, Story, Told, shape

REPLAY = (*STREAM, "--replay-user-messages")
FILES = {
    ".claude/commands/greet.md": "---\ndescription: Greets\n---\nSay hello to $ARGUMENTS now\n",
    ".claude/commands/in/deep.md": "Dig with $1 and $0\n",
    ".claude/skills/wave/SKILL.md": "---\nname: wave\ndescription: Waves\n---\nWave at $ARGUMENTS\n",
}
ASK = ("-p", "--model", "sonnet", "--no-session-persistence", "--tools", "Skill", "--")


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


STORIES: dict[str, Story] = {
    "a message": Story([Say("one")], (*REPLAY, *TOOLS), messages("go")),
    "two messages": Story([Say("one"), Say("two")], (*REPLAY, *TOOLS), messages("go", "on")),
    "two at once": Story([Say("one"), Say("two")], (*REPLAY, *TOOLS), two_at_once),
    "a message meanwhile": Story([Say(bash(HALF_A_SECOND)), Say("both")], (*REPLAY, *TRUSTED), speak_meanwhile),
}


@pytest.mark.spec("4.1.5-c", case="two messages")
@pytest.mark.long
@pytest.mark.parametrize("name", STORIES)
def test_the_same_messages_again(stage: Stage, name: str) -> None:
    story = STORIES[name]
    real, ours = stage.play(story)
    assert shape(ours, story) == shape(real, story)
    assert ours.exit_code == real.exit_code
    assert [_replayed(told) for told in (ours, real)] == [_replayed(real)] * 2


def _replayed(told: Told) -> list[object]:
    return [event["message"]["content"] for event in told.events if event.get("isReplay")]


PROMPTS = {
    "a command": "/greet bob smith",
    "a command in a folder": "/in:deep one two",
    "a skill": "/wave bob",
    "without arguments": "/greet",
    "a command in the middle": "say /greet x",
    "after blanks": "  /greet x",
    "a path": "/tmp/x is a path",
}


@pytest.mark.long
@pytest.mark.parametrize("name", PROMPTS)
def test_the_same_commands_in_prompts(stage: Stage, name: str) -> None:
    real, ours = (_asked(told) for told in stage.play(Story([Say("x")], (*ASK, PROMPTS[name]), files=FILES)))
    assert ours == real


def test_a_command_that_is_not_there_is_said_to_be_none(stage: Stage) -> None:
    real, ours = (_asked(told) for told in stage.play(Story([Say("x")], (*ASK, "/nonesuch x"), files=FILES)))
    assert ours == real == ["/nonesuch x"]


def _asked(told: Told) -> list[str]:
    assert told.exit_code == 0
    texts = told.api.ledger.main[0].user_texts
    own = [text for text in texts if not text.startswith("<system-reminder>")]
    return [re.sub(re.escape(str(told.repo)), REPO, text) for text in own]


@pytest.mark.spec("4.1.6-g")
@pytest.mark.long
@pytest.mark.parametrize("beta", ["context-1m-2025-08-07", "nonesuch-2026"])
def test_the_same_beta_headers(stage: Stage, beta: str) -> None:
    real, ours = stage.play(Story([Say("x")], (*BARE, *TOOLS, "--betas", beta, "--", "hi")))
    assert (ours.exit_code, ours.stdout, ours.stderr) == (real.exit_code, real.stdout, real.stderr)
    sent = [
        {name.lower(): value for name, value in told.api.ledger.main[0].headers.items()}.get("anthropic-beta", "")
        for told in (real, ours)
    ]
    assert [beta in each for each in sent] == [beta.startswith("context")] * 2


@pytest.mark.long
@pytest.mark.parametrize("flags", [(), ("--output-format", "json"), ("--input-format", "stream-json")])
def test_the_same_refusal_of_messages_that_cannot_be_printed_again(stage: Stage, flags: tuple[str, ...]) -> None:
    real, ours = stage.play(Story([], ("-p", *flags, "--replay-user-messages", "hi")))
    assert (ours.exit_code, ours.stdout, ours.stderr) == (real.exit_code, real.stdout, real.stderr)


@pytest.mark.long
def test_difference_a_prompt_on_the_command_line_can_be_printed_too(stage: Stage) -> None:
    """The next stage of a pipe wants to know it; 2.1.325 has no pipes in which that matters."""
    args = (*BARE, *TOOLS, "--verbose", "--output-format", "stream-json", "--replay-user-messages", "--", "hi")
    real, ours = stage.play(Story([Say("x")], args))
    assert real.exit_code == 1
    assert (ours.exit_code, _replayed(ours)) == (0, [[{"type": "text", "text": "hi"}]])
