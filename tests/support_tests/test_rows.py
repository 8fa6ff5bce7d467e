"""A table of examples fails with every row that is wrong, named."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.rows import rows

SEEN: list[tuple[int, str]] = []


@rows("number", [1, 2])
@rows(("letter", "capital"), [("a", "A"), ("b", "B")])
def test_stacked_tables_are_gone_through_crosswise_beside_fixtures(
    tmp_path: Path, number: int, letter: str, capital: str
) -> None:
    assert tmp_path.is_dir()
    assert letter.upper() == capital
    SEEN.append((number, letter))
    if len(SEEN) == 4:
        assert SEEN == [(1, "a"), (1, "b"), (2, "a"), (2, "b")]


def test_every_wrong_row_is_named_and_none_keeps_the_others_from_their_turn() -> None:
    seen: list[int] = []

    def is_even(number: int) -> None:
        seen.append(number)
        assert number % 2 == 0

    with pytest.raises(AssertionError) as one:
        rows("number", [2, 3, 4])(is_even)()
    assert one.value.__notes__ == ["row 1: number=3"]
    with pytest.raises(ExceptionGroup, match="2 of 3 rows") as several:
        rows("number", [1, 2, 5], ids=["one", "two", "five"])(is_even)()
    assert [failure.__notes__ for failure in several.value.exceptions] == [["row 0: one"], ["row 2: five"]]
    assert seen == [2, 3, 4, 1, 2, 5]


def test_a_row_that_says_itself_that_it_fails_is_named_like_any_other() -> None:
    def fails(number: int) -> None:
        if number == 2:
            pytest.fail("said")

    with pytest.raises(pytest.fail.Exception) as failed:
        rows("number", [1, 2, 3])(fails)()
    assert failed.value.__notes__ == ["row 1: number=2"]


def test_a_table_without_rows_or_with_marks_is_refused() -> None:
    with pytest.raises(AssertionError, match="without rows"):
        rows("number", [])
    with pytest.raises(AssertionError, match="plain values"):
        rows("number", [pytest.param(1, id="one")])
