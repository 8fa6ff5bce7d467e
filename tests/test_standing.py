"""Where a live run stands, by its latest events."""

import pytest

from ralph.events import (
    CheckEnded,
    Event,
    IterationEnded,
    IterationStarted,
    RunEnded,
    SessionEnded,
    SessionStarted,
    SummaryStarted,
    Tag,
    Text,
    ToolStart,
    Waiting,
)
from ralph.standing import standing

BEGUN = IterationStarted(1, "s", "log")
NAMED = SessionStarted("s", "m", "1", (), "")


@pytest.mark.parametrize(
    ("events", "doing"),
    [
        ([], "in a session"),  # so busy that its beginning is out of sight
        ([BEGUN], "in a session"),
        ([BEGUN, Text(Tag.AI, "an agent that never says it has started")], "in a session"),
        ([BEGUN, NAMED, ToolStart("t", "Bash")], "in a session"),
        ([SummaryStarted(5, "s", "log"), NAMED], "in a session that condenses older iterations"),
        ([BEGUN, SessionEnded("s", "ok", "", "", False, 0, "log")], "finishing a session"),
        ([IterationEnded(1, "CONTINUE", "c", None, None, "x")], "between sessions"),
        ([IterationEnded(1, "DONE", "c", None, None, "DONE")], "proving that it is done"),
        ([CheckEnded(1, 0.1, "")], "between sessions"),
        ([Waiting("quota", 5.0)], "waiting"),
        ([Waiting("paused", None)], "paused"),
        ([Waiting("quota", 5.0), BEGUN], "in a session"),
        ([RunEnded(0, "done", True)], "ended: done"),
    ],
)
def test_the_latest_events_tell_what_a_run_is_at(events: list[Event], doing: str) -> None:
    assert standing((event, "now") for event in events).doing == doing


def test_only_a_wait_for_a_time_can_be_ended_before_it() -> None:
    assert standing([(Waiting("quota", 5.0), "now")]).is_waiting
    assert not standing([(Waiting("paused", None), "now")]).is_waiting
    assert not standing([(Waiting("quota", 5.0), "now"), (BEGUN, "now")]).is_waiting
