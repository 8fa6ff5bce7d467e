"""Reasons: what decides is the cause, whatever the line says."""

from dataclasses import replace

import pytest

from ralph.core.reason import NO_REASON, Cause, Reason, earlier_reason, recorded_reason
from ralph.core.records import to_record

FACTS = Reason(
    limit="--max-cost",
    detail="said so",
    branch="main",
    place="/here",
    who="claude",
    commit="0" * 40,
    paths=("a", "b c"),
    used=1.5,
    most=2_000_000_000_000.0,
    until=1_800_000_000.5,
)


@pytest.mark.parametrize(
    "reason",
    [
        NO_REASON,
        Reason("red"),
        *(Reason("a line", cause, "--max-cost") for cause in Cause),
        *(replace(FACTS, cause=cause) for cause in Cause),
    ],
)
def test_a_reason_comes_back_as_it_was_written(reason: Reason) -> None:
    assert recorded_reason(to_record(reason)) == reason


def test_of_a_cause_that_is_yet_to_come_the_line_is_kept() -> None:
    assert recorded_reason({"cause": "eclipse", "line": "it is dark"}) == Reason("it is dark")


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("", Cause.OTHER),
        ("the check is red on a clean checkout (exit 1)", Cause.OTHER),
        ("merged to main", Cause.OTHER),
        ("cancelled", Cause.CANCELLED),
        ("limit reached: --max-iterations", Cause.LIMIT),
        ("kept as ralph/goal-1 in /mirror", Cause.KEPT),
        ("pushed as ralph/goal-1; proposed as https://example.org/pull/1", Cause.PUSHED),
        ("cannot fetch from h: no route to host; trying again", Cause.UNREACHABLE),
        ("done (unproven): not merged, the work is on ralph/a; --merge-unproven merges it", Cause.UNPROVEN),
    ],
)
def test_a_line_of_a_ralph_that_wrote_nothing_else_is_understood(line: str, cause: Cause) -> None:
    assert earlier_reason(line) == Reason(line, cause)
