"""Both programs where a model does not answer or has no room left: --fallback-model, and compaction."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.test_conformance import STREAM, TOOLS, Stage, each, messages, one_message
from tests.support.api_replies import Fail, Reply, Say
from tests.support.conformance import Story, shape

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


@pytest.mark.spec("4.1.1-i", case="overloaded, and again in the next turn")
@each(FALLBACKS)
def test_the_same_fallback(stage: Stage, name: str) -> None:
    story = FALLBACKS[name]
    real, ours = stage.play(story)
    assert shape(ours, story) == shape(real, story)
    assert (ours.exit_code, ours.stderr) == (real.exit_code, real.stderr)
