"""What a session planned, did and used, counted from its events in any order."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.core.activity import MOST_NAMES, NAMELESS, OTHER, CallEnd, Digest, SessionActivity, ToolRow
from ralph.core.events import Event, SessionStarted, Tag, Text, ToolEnd, ToolOutput, ToolStart, ToolStatus, Usage
from ralph.core.verdict import TOOL

OK, FAIL, UNKNOWN = ToolStatus.OK, ToolStatus.FAIL, ToolStatus.UNKNOWN


def think(text: str) -> Text:
    return Text(Tag.THINK, text)


def start(call: str, name: str = "shell") -> ToolStart:
    return ToolStart(call, name, {})


def at(seconds: float) -> str:
    return f"2026-11-16T00:48:{seconds:06.3f}Z"


def take(tally: SessionActivity, event: Event, stamp: str | None = None) -> None:
    """Give an event to the tally, as the console does."""
    match event:
        case Text():
            tally.says(event)
        case ToolStart():
            tally.starts(event, stamp)
        case ToolOutput():
            tally.prints(event)
        case ToolEnd():
            tally.ends(event, stamp)
        case Usage():
            tally.uses(event)
        case _:
            pass


def digest(events: Iterable[Event]) -> Digest:
    tally = SessionActivity()
    for event in events:
        take(tally, event)
    return tally.digest()


def test_a_session_without_events_came_to_nothing() -> None:
    assert digest([]) == Digest((), None)
    assert digest([SessionStarted("s", "opus", "2.1", (), ""), Text(Tag.AI, "Plan: nothing")]) == Digest()


@pytest.mark.spec("2.14-gh", "2.18-d")
def test_calls_are_grouped_by_tool_and_the_most_frequent_comes_first() -> None:
    events: list[Event] = [
        start("1", "read"),
        ToolOutput("1", "one\ntwo\n"),
        ToolEnd("1", OK, 100),
        start("2"),
        ToolOutput("2", "one"),
        ToolOutput("2", "two"),
        ToolEnd("2", FAIL, 250),
        start("3"),
        ToolEnd("3", UNKNOWN, 50),
        start("4"),
        ToolOutput("4", ""),
    ]
    rows = digest(events).tools
    assert rows == (ToolRow("shell", 3, 0, 1, 0.3, 3), ToolRow("read", 1, 1, 0, 0.1, 2))
    assert rows[0].unknown == 2


def test_the_first_thought_is_the_plan_and_so_is_what_is_headed_so_later() -> None:
    tally = SessionActivity()
    events = [think(" \n"), think("I look around.\n"), think("Hm."), think("Plan: mend it"), think("No plan here")]
    assert [tally.says(event) for event in events] == [False, True, False, True, False]


@pytest.mark.parametrize(
    "text", ["plan", "PLAN\nfirst", "**Plan**\n1. x", "# Plan", "\n ## The", "_Plan_: x", "> plan"]
)
def test_a_heading_makes_a_plan_however_it_is_written(text: str) -> None:
    tally = SessionActivity()
    take(tally, think("first"))
    assert tally.says(think(text)) is ("plan" in text.lower())


@pytest.mark.parametrize("text", ["My plan", "x\nPlan", "P", "* " * 200 + "Plan", "plain"])
def test_a_thought_that_only_mentions_a_plan_is_none(text: str) -> None:
    tally = SessionActivity()
    assert tally.says(think("first"))
    assert not tally.says(think(text))


@pytest.mark.spec("2.14-d")
def test_only_a_thought_can_be_a_plan() -> None:
    assert not any(SessionActivity().says(Text(tag, "Plan: x")) for tag in Tag if tag is not Tag.THINK)


@pytest.mark.spec("2.14-i")
def test_a_duration_is_what_the_agent_told_else_the_time_between_the_stamps() -> None:
    tally = SessionActivity()
    take(tally, start("1"), at(1))
    take(tally, start("2"), at(2))
    assert tally.ends(ToolEnd("1", OK), at(3.5)) == CallEnd("shell", 2.5, 0)
    assert tally.ends(ToolEnd("2", OK, 7), at(30)) == CallEnd("shell", 0.007, 0)
    assert tally.digest().tools[0].seconds == pytest.approx(2.507)


@pytest.mark.parametrize(
    ("begin", "end", "seconds"),
    [
        (None, at(1), None),
        (at(1), None, None),
        ("", at(1), None),
        (at(1), "yesterday", None),
        (at(1), "2026-11-16T00:48:20", None),  # without a zone
        (at(9), at(1), 0.0),  # the clock was set back
    ],
)
def test_a_stamp_that_says_nothing_is_no_duration(begin: str | None, end: str | None, seconds: float | None) -> None:
    tally = SessionActivity()
    take(tally, start("1"), begin)
    take(tally, ToolEnd("1", OK), end)
    assert tally.digest().tools == (ToolRow("shell", 1, 1, 0, seconds),)


def test_the_time_of_calls_that_overlap_counts_once() -> None:
    tally = SessionActivity()
    for number in range(5):
        take(tally, start(str(number)), at(1))
    take(tally, start("other", "read"), at(1))
    for number in range(4):  # one after the other, in whatever order they were announced
        take(tally, ToolEnd(str(3 - number), OK), at(3 + 2 * number))
    take(tally, start("late"), at(20))
    take(tally, ToolEnd("late", OK), at(21))
    take(tally, ToolEnd("other", OK), at(4))
    assert [(row.name, row.seconds) for row in tally.digest().tools] == [("shell", 9.0), ("read", 3.0)]
    take(tally, ToolEnd("4", OK), at(31))
    assert tally.digest().tools[0].seconds == 30.0


def test_a_call_that_was_announced_twice_is_one_call() -> None:
    tally = SessionActivity()
    for moment in (1, 2):
        take(tally, start("1"), at(moment))
    take(tally, ToolEnd("1", OK), at(3))
    assert tally.digest().tools == (ToolRow("shell", 1, 1, 0, 2.0),)


def test_an_id_that_is_used_again_is_another_call() -> None:
    assert digest([start("1"), ToolEnd("1", OK), start("1"), ToolEnd("1", FAIL)]).tools == (ToolRow("shell", 2, 1, 1),)


def test_an_end_without_a_start_is_a_call_without_a_name() -> None:
    assert digest([ToolOutput("1", "lost"), ToolEnd("1", FAIL, 5)]).tools == (ToolRow(NAMELESS, 1, 0, 1, 0.005),)
    assert digest([start("1", "")]).tools == (ToolRow(NAMELESS, 1),)


def test_the_verdicts_tool_is_no_action() -> None:
    tally = SessionActivity()
    for event in (start("1", TOOL), ToolOutput("1", "accepted")):
        take(tally, event)
    assert tally.ends(ToolEnd("1", OK, 5)) == CallEnd(TOOL, 0.005, 1)
    assert tally.digest().tools == ()


def test_tools_beyond_the_first_fifty_share_a_row() -> None:
    rows = digest([start(str(number), f"tool {number}") for number in range(MOST_NAMES + 30)]).tools
    assert (len(rows), rows[0]) == (MOST_NAMES + 1, ToolRow(OTHER, 30))


def test_the_last_usage_stands() -> None:
    assert digest([Usage(total_tokens=5), Usage(total_tokens=9, cost_usd=0.5)]).usage == Usage(
        total_tokens=9, cost_usd=0.5
    )


def test_memory_does_not_grow_with_the_session() -> None:
    tally = SessionActivity()

    def live(calls: range) -> int:
        for number in calls:
            take(tally, start(f"call {number}", f"name {number}"))
            for _ in range(5):
                take(tally, ToolOutput(f"call {number}", "a line of output\n"))
            take(tally, ToolEnd(f"call {number}", OK))
            take(tally, ToolOutput(f"stray {number}", "x"))
            take(tally, ToolEnd(f"lost {number}", OK))
            take(tally, think(f"Plan {number}, with steps"))
            take(tally, start(f"timed {number}"), f"2026-11-{1 + number // 1000:02}T00:00:00.000Z")
            take(tally, ToolEnd(f"timed {number}", OK), f"2026-11-{1 + number // 1000:02}T00:00:00.001Z")
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        early = live(range(2_000))
        late = live(range(2_000, 20_000))
    finally:
        tracemalloc.stop()
    assert late - early < 200_000


IDS = st.sampled_from(["1", "2", ""])
EVENTS = st.one_of(
    st.builds(start, IDS, st.sampled_from(["shell", "read", TOOL, ""])),
    st.builds(ToolOutput, IDS, st.text()),
    st.builds(ToolEnd, IDS, st.sampled_from(ToolStatus), st.none() | st.integers()),
    st.builds(Text, st.sampled_from(Tag), st.text()),
    st.builds(Usage),
)


@given(st.lists(st.tuples(EVENTS, st.none() | st.just(at(1)) | st.text())))
def test_no_order_of_events_is_an_error_and_every_call_is_counted_once(heard: list[tuple[Event, str | None]]) -> None:
    tally = SessionActivity()
    for event, moment in heard:
        take(tally, event, moment)
    for row in tally.digest().tools:
        assert row.calls >= row.ok + row.failed
        assert row.unknown >= 0
        assert row.seconds is None or row.seconds >= 0
