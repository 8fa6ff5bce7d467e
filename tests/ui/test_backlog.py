"""What is handed to a view: all of it in its order, and never more than can be held or read."""

from __future__ import annotations

from ralph.core.activity import CallEnd
from ralph.core.events import ToolStart, ToolStatus
from ralph.ui.live import Backlog, Taken
from ralph.ui.render import Divider, FinishedCall, Paragraph, Said


def words(number: int) -> Paragraph:
    return Paragraph("agent", str(number), fleeting=True)


def call(number: int, status: ToolStatus = ToolStatus.OK, output: str = "") -> FinishedCall:
    return FinishedCall(ToolStart(str(number), "Bash", {}), status, CallEnd("Bash", None, 0), None, output)


def taken(backlog: Backlog) -> list[Said]:
    found: list[Said] = []
    while (next_one := backlog.take()) is not None:
        found.append(next_one.said)
    return found


def put(backlog: Backlog, *said: Said, by_agent: bool = True) -> None:
    for each in said:
        backlog.put(each, by_agent=by_agent)


def test_what_is_put_is_taken_in_its_order_with_the_name_of_who_says_it() -> None:
    backlog = Backlog()
    put(backlog, Divider("iteration 1"), by_agent=False)
    put(backlog, words(1), words(2))
    assert len(backlog) == 3
    assert backlog.take() == (Divider("iteration 1"), False, 0)
    assert backlog.take() == (words(1), True, 0)
    assert taken(backlog) == [words(2)]
    assert backlog.take() is None
    assert backlog.left_out() == 0


def test_of_too_many_the_oldest_are_left_out_and_never_what_ralph_says() -> None:
    backlog = Backlog()
    put(backlog, Divider("iteration 1"), by_agent=False)
    put(backlog, *map(words, range(2000)))
    put(backlog, Paragraph("ACTIONS", "many"), by_agent=False)
    left: list[Taken] = []
    while (each := backlog.take()) is not None:
        left.append(each)
    assert left[0] == (Divider("iteration 1"), False, 0)
    assert left[-2].said == words(1999)
    assert left[-1] == (Paragraph("ACTIONS", "many"), False, 2002 - len(left)), "what was left out came before it"
    assert len(left) < 600
    assert backlog.left_out() == 0, "it is told once"


def test_a_failed_call_and_a_plan_stay_where_others_are_left_out() -> None:
    backlog = Backlog()
    failed, plan = call(1000, ToolStatus.FAIL), Paragraph("PLAN", "many calls")
    put(backlog, plan, *map(call, range(1000)), failed, *map(call, range(1001, 3000)))
    assert taken(backlog)[:2] == [plan, failed]


def test_an_agent_that_fails_without_end_is_not_drawn_without_end() -> None:
    backlog = Backlog()
    put(backlog, *(call(number, ToolStatus.FAIL) for number in range(20_000)))
    put(backlog, Paragraph("ACTIONS", "many"), by_agent=False)
    left = taken(backlog)
    assert len(left) < 1100
    assert left[-1] == Paragraph("ACTIONS", "many")
    put(backlog, *(call(number, ToolStatus.FAIL) for number in range(600)))
    assert len(backlog) == 600, "from then on it holds again"


def test_what_is_long_is_not_held_in_numbers() -> None:
    backlog = Backlog()
    put(backlog, *(Paragraph("agent", f"{number:0100000}", fleeting=True) for number in range(100)))
    put(backlog, *(call(number, output="x" * 100_000) for number in range(100)))
    held = taken(backlog)
    assert 10 < len(held) < 50
    assert backlog.left_out() == 200 - len(held)
    put(backlog, words(1))
    assert taken(backlog) == [words(1)]
