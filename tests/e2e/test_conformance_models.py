"""Both programs where a model does not answer or has no room left: --fallback-model, and compaction."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.test_conformance import STREAM, TOOLS, TRUSTED, Stage, bash, each, messages, one_message
from tests.support.api_replies import Fail, Reply, Say
from tests.support.conformance import Event, Story, Told, shape
from tests.support.tokens import Tokens

OVERLOADED = Fail(529, "overloaded_error", "Overloaded", {"retry-after": "0"})
PATIENT = {"CLAUDE_CODE_MAX_RETRIES": "10"}
HAIKU = ("--fallback-model", "haiku")


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def failing(*families: str, by: Fail = OVERLOADED) -> Callable[[int, str, str], Reply]:
    """The models of these families fail, all others answer with their names."""
    return lambda _number, _said, model: by if any(name in model for name in families) else Say(f"I am {model}")


FALLBACKS: dict[str, Story] = {
    "overloaded, and again in the next turn": Story(
        failing("sonnet"), (*STREAM, *TOOLS, *HAIKU), messages("go", "on"), env=PATIENT
    ),
    "the second is overloaded, too": Story(
        failing("sonnet", "haiku"), (*STREAM, *TOOLS, "--fallback-model", "haiku,opus"), one_message, env=PATIENT
    ),
    "all are overloaded": Story(
        failing("sonnet", "haiku"),
        (*STREAM, *TOOLS, *HAIKU),
        one_message,
        env={"CLAUDE_CODE_MAX_RETRIES": "2"},
    ),
    "too few tries to fall back": Story(failing("sonnet"), (*STREAM, *TOOLS, *HAIKU), one_message),
    "a fault of the server": Story(
        failing("sonnet", by=Fail(500, "api_error", "oops", {"retry-after": "0"})),
        (*STREAM, *TOOLS, *HAIKU),
        one_message,
        env=PATIENT,
    ),
    "a model that is not there": Story(
        failing("sonnet", by=Fail(404, "not_found_error", "model: x")), (*STREAM, *TOOLS, *HAIKU), one_message
    ),
    "a request that is called wrong": Story(
        failing("sonnet", by=Fail(400, "invalid_request_error", "bad thing")),
        (*STREAM, *TOOLS, *HAIKU),
        one_message,
        loose=("content",),  # claude quotes the whole answer
    ),
    "too many requests are nobody else's": Story(
        failing("sonnet", by=Fail(429, "rate_limit_error", "slow", {"retry-after": "0"})),
        (*STREAM, *TOOLS, *HAIKU),
        one_message,
    ),
    "a fallback to itself": Story(
        failing("sonnet"),
        (*STREAM, *TOOLS, "--fallback-model", "sonnet"),
        one_message,
        env={"CLAUDE_CODE_MAX_RETRIES": "3"},
    ),
}


def step(number: int, tokens: int) -> Say:
    return Say(f"step {number}", bash(f"echo {number}"), usage=Tokens(tokens, 42, 10, 20))


def too_long(*requests: int, steps: int = 2) -> Callable[[int, str], Reply]:
    """So many steps, then the end; these requests are refused."""
    refused = Fail(400, "invalid_request_error", "prompt is too long: 1250000 tokens > 1000000 maximum")
    return lambda number, _said: (
        refused if number in requests else step(number, 1000) if number <= steps else Say(f"end {number}")
    )


# The summary is each program's own, and so is the guess at what it saves.
IN_OWN_WORDS = ("blocks",)
COMPACTIONS: dict[str, Story] = {
    "before the window is full": Story(
        [step(1, 1000), step(2, 500_000), step(3, 985_000), Say("end")],
        (*STREAM, *TRUSTED),
        one_message,
        loose=IN_OWN_WORDS,
    ),
    "not a moment too soon": Story([step(1, 1000), step(2, 966_000), Say("end")], (*STREAM, *TRUSTED), one_message),
    "at a part of the window": Story(
        [step(1, 1000), step(2, 500_000), Say("end")],
        (*STREAM, *TRUSTED),
        one_message,
        env={"CLAUDE_AUTOCOMPACT_PCT_OVERRIDE": "50"},
        loose=IN_OWN_WORDS,
    ),
    "at the beginning of a turn": Story(
        [step(1, 1000), Say("one", usage=Tokens(980_000, 42, 10, 20)), Say("two")],
        (*STREAM, *TRUSTED),
        messages("go", "on"),
        loose=IN_OWN_WORDS,
    ),
    "after a single exchange": Story(
        [step(1, 980_000), Say("end")], (*STREAM, *TRUSTED), one_message, loose=IN_OWN_WORDS
    ),
    "switched off": Story(
        [step(1, 1000), step(2, 975_000), Say("end")],
        (*STREAM, *TRUSTED),
        one_message,
        env={"DISABLE_AUTO_COMPACT": "1"},
    ),
    "switched off, and no room left": Story(
        [step(1, 1000), step(2, 999_000), Say("end")],
        (*STREAM, *TRUSTED),
        one_message,
        env={"DISABLE_AUTO_COMPACT": "1"},
    ),
    "after a refusal": Story(too_long(3), (*STREAM, *TRUSTED), one_message, loose=IN_OWN_WORDS),
    "after a refusal in the next turn": Story(
        too_long(2, steps=0), (*STREAM, *TRUSTED), messages("go", "on"), loose=IN_OWN_WORDS
    ),
    "after a refusal, in vain": Story(
        too_long(*range(3, 20)), (*STREAM, *TRUSTED), one_message, loose=(*IN_OWN_WORDS, "result")
    ),
}


@pytest.mark.spec("4.3.6-ab", case="before the window is full")
@each(COMPACTIONS)
def test_the_same_compaction(stage: Stage, name: str) -> None:
    story = COMPACTIONS[name]
    real, ours = stage.play(story)
    assert shape(ours, story) == shape(real, story)
    assert (ours.exit_code, ours.stderr) == (real.exit_code, real.stderr)
    assert [served.kind for served in ours.api.ledger] == [served.kind for served in real.api.ledger]
    for event, other in zip(_boundaries(ours), _boundaries(real), strict=True):
        assert event.keys() == other.keys()
        assert event["trigger"] == other["trigger"]
        kept, theirs = (each.get("preserved_messages", {}).get("uuids", []) for each in (event, other))
        assert len(kept) == len(theirs)


def _boundaries(told: Told) -> list[Event]:
    return [event["compact_metadata"] for event in told.events if event.get("subtype") == "compact_boundary"]


@pytest.mark.long
def test_what_a_compaction_leaves(stage: Stage) -> None:
    """The next request begins with the summary, and ends with the last exchange as it was."""
    story = COMPACTIONS["before the window is full"]
    for told in stage.play(story):
        sent = [message for message in told.api.ledger.main[-1].request["messages"] if message["role"] != "system"]
        assert [message["role"] for message in sent] == ["user", "assistant", "user"]
        assert "The work goes on." in json.dumps(sent[0])
        assert "step 1" not in json.dumps(sent)
        assert "step 3" in json.dumps(sent[1])
        names = {block for event in _boundaries(told) for block in event["preserved_messages"]["uuids"]}
        assert names <= {event["uuid"] for event in told.events}


@pytest.mark.spec("4.1.1-i", case="overloaded, and again in the next turn")
@each(FALLBACKS)
def test_the_same_fallback(stage: Stage, name: str) -> None:
    story = FALLBACKS[name]
    real, ours = stage.play(story)
    assert shape(ours, story) == shape(real, story)
    assert (ours.exit_code, ours.stderr) == (real.exit_code, real.stderr)
