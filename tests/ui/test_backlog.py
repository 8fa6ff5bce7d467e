"""What is handed to a view: all of it in its order, and never more than can be held or read."""

from __future__ import annotations

import sys
import threading

from ralph.core.events import (
    IterationStarted,
    SessionEnded,
    Tag,
    Text,
    ToolEnd,
    ToolOutput,
    ToolStart,
    ToolStatus,
    Usage,
)
from ralph.ui.live import Backlog, Item

BEGUN = IterationStarted(1, "s", "log")
GONE = SessionEnded("s", "ok", "", "", degraded=False, exit_code=0, log="")


def words(number: int) -> Text:
    return Text(Tag.AI, str(number))


def drawn(backlog: Backlog) -> list[Item]:
    return [item for item, _, passed_over in backlog.take_all() if not passed_over]


def test_what_is_put_is_taken_in_its_order() -> None:
    backlog = Backlog()
    backlog.put([BEGUN, words(1)], "a", 20)
    backlog.put([words(2)], "b", 10)
    assert [*backlog.take(2)] == [(BEGUN, "a", False), (words(1), "a", False)]
    assert [*backlog.take(2)] == [(words(2), "b", False)]
    assert backlog.left_out() == 0


def test_of_too_many_those_that_tell_where_the_run_stands_are_never_left_out() -> None:
    backlog = Backlog()
    backlog.put([BEGUN, *map(words, range(2000)), Usage(total_tokens=5), GONE], "a", 100)
    taken = drawn(backlog)
    assert taken[0] == BEGUN
    assert taken[-2:] == [Usage(total_tokens=5), GONE]
    assert taken[-3] == words(1999)
    assert len(taken) + backlog.left_out() == 2003
    assert backlog.left_out() == 0, "it is told once"


def test_what_nobody_takes_is_not_held() -> None:
    backlog = Backlog()
    for number in range(100):
        backlog.put([Text(Tag.AI, f"{number:0100000}"), Usage(total_tokens=number)], "a", 100_100)
    taken = drawn(backlog)
    assert sum(isinstance(item, Text) for item in taken) < 50
    assert sum(isinstance(item, Usage) for item in taken) == 100
    backlog.put([words(1)], "b", 10)
    assert [*backlog.take_all()] == [(words(1), "b", False)], "from then on it holds again"


def test_what_is_left_out_can_still_be_counted_and_costs_next_to_nothing() -> None:
    backlog = Backlog()
    backlog.put([words(0)], "a", 5_000_000)
    calls = [
        event
        for number in range(10)
        for event in (
            ToolStart(str(number), "Bash", {"command": "x" * 1000}),
            ToolOutput(str(number), "one\ntwo"),
            ToolEnd(str(number), ToolStatus.FAIL if number == 5 else ToolStatus.OK),
        )
    ]
    backlog.put([*calls, Text(Tag.SYS, "a note")], "b", 10_000)
    _, *taken = backlog.take_all()
    assert [item for item, _, passed_over in taken if not passed_over] == [calls[17], Text(Tag.SYS, "a note")]
    assert [type(item) for item, _, _ in taken[:-1]] == [type(event) for event in calls], "all, in their order"
    assert taken[0][0] == ToolStart("0", "Bash", {})
    assert taken[1][0] == ToolOutput("0", "\n\n")
    assert backlog.left_out() == 29


def test_an_agent_that_fails_without_end_is_not_drawn_without_end() -> None:
    backlog = Backlog()
    backlog.put([*(ToolEnd(str(number), ToolStatus.FAIL) for number in range(20_000)), GONE], "a", 100)
    taken = drawn(backlog)
    assert len(taken) < 2000
    assert taken[-1] == GONE
    assert len(taken) - 1 + backlog.left_out() == 20_000


def test_however_long_nobody_takes_no_more_is_held_than_a_view_ever_leaves() -> None:
    backlog = Backlog()
    backlog.put([words(0)], "a", 5_000_000)
    for _ in range(300):
        backlog.put([ToolEnd(str(number), ToolStatus.FAIL) for number in range(1000)], "a", 1000)
    backlog.put([Usage(total_tokens=5), GONE], "b", 100)
    taken = [*backlog.take_all()]
    assert len(taken) < 110_000
    assert [item for item, _, _ in taken[-2:]] == [Usage(total_tokens=5), GONE]
    shown = sum(isinstance(item, ToolEnd) and not passed_over for item, _, passed_over in taken)
    assert 1 + shown + backlog.left_out() >= 300_001


def test_one_puts_while_another_takes() -> None:
    backlog = Backlog()
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        putting = threading.Thread(target=lambda: [backlog.put([words(n)], "a", 1000) for n in range(20_000)])
        putting.start()
        taken = 0
        while putting.is_alive():
            taken += len([*backlog.take(50)])
        putting.join()
    finally:
        sys.setswitchinterval(before)
    taken += len([*backlog.take_all()])
    assert taken + backlog.left_out() == 20_000
