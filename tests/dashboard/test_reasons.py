"""Reasons in words."""

from __future__ import annotations

import pytest

from ralph.core.reason import NO_REASON, Cause, Reason
from ralph.dashboard.reasons import change_line, reason_line
from ralph.queue.goals import State
from ralph.queue.submit import SubmitChange, Submitted
from tests.dashboard.boards import goal

RUNS_OWN = (Cause.OTHER, Cause.LIMIT, Cause.STALLED)
"""Causes whose words come from a run or from git."""


def test_what_somebody_else_said_is_the_line() -> None:
    assert reason_line(Reason("limit reached: --max-cost", Cause.LIMIT, "--max-cost")) == "limit reached: --max-cost"
    assert reason_line(Reason("kept as x in /mirror", Cause.KEPT)) == "kept as x in /mirror"
    assert reason_line(NO_REASON) == ""


@pytest.mark.parametrize(
    ("why", "line"),
    [
        (Reason(cause=Cause.CANCELLED), "cancelled"),
        (Reason(cause=Cause.STOPPED), "stopped"),
        (Reason(cause=Cause.STOPPED, detail="before it was merged"), "stopped before it was merged"),
        (Reason(cause=Cause.BUDGET, limit="--max-cost", used=1.5, most=1.0), "--max-cost: $1.50 of $1.00 spent"),
        (
            Reason(cause=Cause.BUDGET, limit="--max-tokens", used=1200, most=1000),
            "--max-tokens: 1,200 of 1,000 tokens used",
        ),
        (Reason(cause=Cause.BUDGET, limit="--max-time", most=60), "--max-time: 1m00s used"),
        (Reason(cause=Cause.TOO_LATE, limit="--max-time"), "no goal can continue within --max-time"),
        (Reason(cause=Cause.UNREACHABLE, detail="cannot fetch"), "cannot fetch; trying again"),
        (Reason(cause=Cause.MERGED, branch="main"), "merged to main"),
        (
            Reason(cause=Cause.MERGED, branch="main", paths=(".envrc",)),
            "merged to main; it changes .envrc: read the change before you trust it",
        ),
        (Reason(cause=Cause.KEPT, branch="ralph/a", place="/mirror"), "kept as ralph/a in /mirror"),
        (Reason(cause=Cause.PUSHED, branch="ralph/a", detail="proposed as u"), "pushed as ralph/a; proposed as u"),
        (
            Reason(cause=Cause.CONFLICTS, branch="main", paths=tuple("abcdefg")),
            "conflicts with main: a, b, c, d, e and 2 more",
        ),
        (Reason(cause=Cause.RED, detail="exit 3"), "the check failed on a clean checkout (exit 3)"),
        (
            Reason(cause=Cause.REFUSED_ACCOUNT, who="claude", place="g3"),
            "not started: claude rejects our requests, see g3",
        ),
    ],
)
def test_facts_are_put_into_words(why: Reason, line: str) -> None:
    assert reason_line(why) == line


@pytest.mark.parametrize("cause", [cause for cause in Cause if cause not in RUNS_OWN])
def test_every_cause_has_words_of_its_own(cause: Cause) -> None:
    facts = Reason(
        cause=cause, limit="--max-cost", detail="DETAIL", branch="BRANCH", place="PLACE", who="WHO", paths=("PATH",)
    )
    assert reason_line(facts) not in ("", str(cause)) or cause is Cause.CANCELLED


@pytest.mark.parametrize(
    ("cause", "what"),
    [
        (Cause.OTHER, "done already"),
        (Cause.KEPT, "done already; kept as ralph/goal-1, not merged"),
        (Cause.PUSHED, "done already; pushed as ralph/goal-1, not merged"),
    ],
)
def test_work_that_is_done_and_not_on_the_base_is_said_to_be_elsewhere(cause: Cause, what: str) -> None:
    done = goal(1, "goal-1", State.DONE, why=Reason("as it was", cause), branch="ralph/goal-1")
    assert change_line(Submitted(done, SubmitChange.DONE)) == what
