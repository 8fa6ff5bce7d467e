"""The iterations so far."""

from ralph.core.run import History, Iteration
from ralph.core.verdict import Verdict


def history(*numbers: int) -> History:
    made = History()
    for number in numbers:
        made = made.after(Iteration(number, "2026-01-01T00:00:00.000Z", f"did {number}", "c" * 40, Verdict.CONTINUE))
    return made


def test_a_new_history_begins_at_one() -> None:
    assert (History().next_number, History().last, list(History().recent(5))) == (1, None, [])


def test_the_next_number_follows_the_last_one_even_after_a_gap() -> None:
    assert history(1, 2, 7).next_number == 8


def test_recent_are_the_latest_oldest_first() -> None:
    assert [item.number for item in history(1, 2, 3, 4).recent(2)] == [3, 4]
    assert [item.number for item in history(1, 2).recent(10)] == [1, 2]


def test_none_of_the_recent_is_none() -> None:
    assert list(history(1, 2).recent(0)) == []


def test_adding_leaves_the_old_history_as_it_was() -> None:
    before = history(1)
    assert before.after(before.iterations[0]) != before
    assert len(before.iterations) == 1
