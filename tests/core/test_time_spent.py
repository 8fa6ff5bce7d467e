"""Where the time of a run goes, by its stamped events."""

from __future__ import annotations

from dataclasses import astuple

import pytest

from ralph.core.events import (
    CheckEnded,
    CheckStarted,
    Event,
    IterationEnded,
    IterationStarted,
    RunEnded,
    SessionEnded,
    SummaryStarted,
    Tag,
    Text,
    ToolEnd,
    ToolStart,
    ToolStatus,
    Waiting,
)
from ralph.core.status import StatusFold, TimeSpent

BEGUN = IterationStarted(1, "s", "log")
GONE = SessionEnded("s", "ok", "", "", degraded=False, exit_code=0, log="")


def watched(*stamped: tuple[int, Event]) -> tuple[float, float, float, float]:
    fold = StatusFold()
    for second, event in stamped:
        fold.take(event, f"2026-11-16T00:00:{second:02}.000Z")
    return astuple(fold.times)


def start(name: str) -> ToolStart:
    return ToolStart(name, "Bash")


def end(name: str) -> ToolEnd:
    return ToolEnd(name, ToolStatus.OK)


def test_a_session_is_its_calls_and_the_model() -> None:
    assert watched((0, BEGUN), (2, start("a")), (5, end("a")), (9, GONE)) == (6, 3, 0, 0)


def test_calls_at_the_same_time_count_once() -> None:
    calls = [(1, start("a")), (2, start("b")), (4, end("a")), (6, end("b"))]
    assert watched((0, BEGUN), *calls, (7, GONE)) == (2, 5, 0, 0)


def test_a_call_that_never_ends_ends_with_its_session() -> None:
    assert watched((0, BEGUN), (1, start("a")), (5, GONE), (6, end("a")), (9, RunEnded(1, "x", False))) == (1, 4, 0, 0)


def test_what_was_cut_off_counts_up_to_the_end() -> None:
    assert watched((0, BEGUN), (1, start("a")), (5, RunEnded(130, "stopped", False))) == (1, 4, 0, 0)


def test_a_check_that_was_cut_off_counts_up_to_the_end() -> None:
    cut = RunEnded(130, "stopped", False)
    assert watched((0, BEGUN), (2, GONE), (3, CheckStarted(1)), (9, cut)) == (2, 0, 6, 0)
    assert watched((3, CheckStarted(1)), (6, CheckEnded(0, 2.5, "")), (9, cut)) == (0, 0, 2.5, 0)


def test_sessions_add_up_and_so_do_the_check_and_waits() -> None:
    assert watched(
        (0, BEGUN),
        (3, GONE),
        (4, Waiting("quota", 1.0)),
        (14, SummaryStarted(1, "s", "log")),
        (16, GONE),
        (17, IterationEnded(1, "DONE", "c", None, None, "DONE")),
        (20, CheckEnded(0, 2.5, "")),
        (21, Waiting("paused", None)),
        (26, RunEnded(130, "stopped", False)),
    ) == (5, 0, 2.5, 15)


@pytest.mark.parametrize("at", ["", "no time", "2026-11-16T00:00:00"])
def test_a_stamp_that_says_nothing_is_passed_over(at: str) -> None:
    fold = StatusFold()
    for event in (BEGUN, start("a"), end("a"), GONE, Text(Tag.AI, "x")):
        fold.take(event, at)
    assert fold.times == TimeSpent()
