"""Whether a run still moves: what repeats an earlier iteration in every respect does not, all else does."""

from collections.abc import Callable, Sequence

import pytest

from ralph.core.stall import Stall, StallMark, words_of
from tests.support.rows import rows

TREES = {"a1": "A", "a2": "A", "a3": "A", "a4": "A", "b1": "B", "b2": "B", "b3": "B"}


def same_tree(commits: Sequence[str], other: str) -> bool:
    return TREES.get(other, other) in [TREES.get(commit, commit) for commit in commits]


def stood(*iterations: tuple[str, str], elsewhere: Callable[[], str] = lambda: "refs") -> Stall:
    stall = Stall()
    for words, commit in iterations:
        stall = stall.after(StallMark(words_of(words, ""), commit), same_tree=same_tree, elsewhere=elsewhere)
    return stall


def test_the_same_words_about_the_same_files_are_no_progress() -> None:
    assert [stood(*[("tried", f"a{n}") for n in range(1, most)]).idle for most in (2, 3, 4)] == [1, 2, 3]


def test_other_words_are_progress() -> None:
    assert stood(("read the parser", "a1"), ("read the lexer", "a2"), ("read the tests", "a3")).idle == 1


def test_other_files_are_progress() -> None:
    assert stood(("one more", "x"), ("one more", "y"), ("one more", "z")).idle == 1


def test_going_in_circles_is_no_progress() -> None:
    circle = stood(("do", "a1"), ("undo", "b1"), ("do", "a2"), ("undo", "b2"), ("do", "a3"))
    assert circle.idle == 4


def test_a_commit_elsewhere_is_progress() -> None:
    places = iter(["one", "two", "three"])
    assert stood(*[("again", f"a{n}") for n in (1, 2, 3, 4)], elsewhere=lambda: next(places)).idle == 1


def test_nothing_is_looked_at_where_the_words_are_new() -> None:
    def never(*_: object) -> str:
        raise AssertionError("looked at the repository without need")

    stall = Stall()
    for number in range(5):
        mark = StallMark(words_of(f"step {number}", ""), "a1")
        stall = stall.after(mark, same_tree=lambda *_: bool(never()), elsewhere=never)
    assert stall.idle == 1


def test_what_is_remembered_is_bounded() -> None:
    assert len(stood(*[(f"step {number}", str(number)) for number in range(500)]).marks) == 50


def test_a_new_start_counts_anew() -> None:
    assert stood(("x", "a1"), ("x", "a2")).forgiven().idle == 0


@rows(
    ("one", "other"),
    [
        ("Ran 4 tests in 0.001s", "Ran 4 tests in 0.017s"),
        ("at 2026-11-16T10:00:00Z: red", "at 2026-11-16T10:05:31.250Z: red"),
        ("10:00:01 failed", "10:00:59 failed"),
        ("<object at 0x7f00aa>", "<object at 0x7f11bb>"),
        ("  Still  RED\n", "still red"),
        ("Iteration 7: nothing", "iteration 8: nothing"),
        ("Attempt 7: same failure", "attempt #8: same failure"),
        ("Try 7: same failure", "try 8: same failure"),
        ("Session 7: same failure", "session 8: same failure"),
        ("Round 7: same failure", "round 8: same failure"),
        ("the 3rd try failed", "the 4th try failed"),
        ("PID 812 was killed", "pid=97 was killed"),
        ("cannot open /tmp/tmpab12/x", "cannot open /tmp/tmpcd34/x"),
    ],
)
def test_what_differs_each_time_does_not_count(one: str, other: str) -> None:
    assert words_of(one, "") == words_of(other, "")
    assert words_of("", one) == words_of("", other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("14 failed", "13 failed"),
        ("a.py:10:22: error", "a.py:12:05: error"),
        ("expected 1a2b3c4d", "expected 5e6f7a8b"),
        ("read chapter 3", "read chapter 4"),
    ],
)
def test_every_other_number_counts(one: str, other: str) -> None:
    assert words_of(one, "") != words_of(other, "")
    assert words_of("", one) != words_of("", other)


def test_summary_and_check_are_not_taken_for_each_other() -> None:
    assert words_of("red", "") != words_of("", "red")
