"""A goal that is asked for again: every state that it can be in, with the same text and with another."""

from dataclasses import replace
from typing import Any

import pytest

from ralph.core.errors import UsageError
from ralph.queue.goals import BatchGoal, MergeMode, State, Submission
from ralph.queue.submit import submit
from tests.queue.test_plan import goal as plain_goal

ASKED = Submission("goal-1", "Goal 1", "the text", "/goals/goal-1.md", "repo")


def there(state: State, text: str = "the text", **facts: object) -> BatchGoal:
    return replace(plain_goal(1, state), text=text, **facts)


@pytest.mark.parametrize(
    ("state", "wanted", "text", "alone", "what", "new", "becomes"),
    [
        (State.DRAFT, State.DRAFT, "the text", False, "left as it is", False, None),
        (State.DRAFT, State.DRAFT, "another", False, "updated", False, None),
        (State.DRAFT, State.QUEUED, "the text", False, "queued", False, State.QUEUED),
        (State.QUEUED, State.QUEUED, "another", False, "updated", False, State.QUEUED),
        (State.QUEUED, State.DRAFT, "another", False, "updated", False, None),
        (State.STUCK, State.QUEUED, "the text", False, "queued again", False, State.QUEUED),
        (State.STUCK, State.DRAFT, "another", False, "updated", False, None),
        (State.CANCELLED, State.QUEUED, "another", False, "queued again", False, State.QUEUED),
        (State.DONE, State.QUEUED, "the text", False, "done already", False, None),
        (State.DONE, State.QUEUED, "another", False, "added", True, None),
        (State.RUNNING, State.QUEUED, "the text", False, "running already", False, None),
        (State.RUNNING, State.QUEUED, "the text", True, "goes on", False, None),
        (State.RUNNING, State.QUEUED, "another", True, "updated", False, State.QUEUED),
    ],
)
def test_what_comes_of_it(
    state: State, wanted: State, text: str, alone: bool, what: str, new: bool, becomes: State | None
) -> None:
    found = submit(ASKED, there(state, text), wanted, alone=alone)
    assert (found.what, found.new, found.changes.get("state")) == (what, new, becomes)


@pytest.mark.parametrize("wish", [{"priority": 5}, {"merge": MergeMode.PR}, {"trust_envrc": True}])
def test_what_changes_is_said_to_be_updated(wish: dict[str, Any]) -> None:
    asked = replace(ASKED, **wish)
    for state, wanted in ((State.DRAFT, State.DRAFT), (State.DRAFT, State.QUEUED), (State.QUEUED, State.QUEUED)):
        assert submit(asked, there(state), wanted, alone=False).what == "updated"
        assert submit(asked, there(state, **wish), wanted, alone=False).what != "updated"


def test_what_is_done_is_not_done_again_for_another_model() -> None:
    assert (
        submit(ASKED, there(State.DONE, settings={"model": "opus"}), State.QUEUED, alone=False).what == "done already"
    )
    assert submit(ASKED, there(State.QUEUED, settings={"model": "opus"}), State.QUEUED, alone=False).what == "updated"


def test_a_text_is_not_changed_under_a_worker() -> None:
    with pytest.raises(UsageError, match="g1 is running with another text"):
        submit(ASKED, there(State.RUNNING, "another"), State.QUEUED, alone=False)


@pytest.mark.parametrize("state", [State.QUEUED, State.STUCK, State.CANCELLED, State.RUNNING])
def test_work_that_was_done_for_another_text_is_not_merged(state: State) -> None:
    before = there(state, "another", unmerged={"proven": True}, cost_usd=3.0, run="run")
    changes = submit(ASKED, before, State.QUEUED, alone=True).changes
    assert (changes["unmerged"], changes["run"], changes["spent_usd"]) == (None, "", 3.0)


def test_work_that_was_done_for_this_text_is_still_to_be_merged() -> None:
    changes = submit(ASKED, there(State.STUCK, unmerged={"proven": True}), State.QUEUED, alone=True).changes
    assert "unmerged" not in changes


def test_what_was_cut_off_is_not_charged_and_its_old_start_has_no_say() -> None:
    changes = submit(ASKED, there(State.RUNNING, "another", attempts=2, starts=5), State.QUEUED, alone=True).changes
    assert (changes["attempts"], changes["starts"], changes["cancelling"]) == (1, 6, False)
