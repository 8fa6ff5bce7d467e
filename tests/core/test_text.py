"""How durations, money and counts are read and written."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.core.text import (
    exit_words,
    few,
    format_duration,
    format_money,
    format_size,
    local_time,
    parse_count,
    parse_duration,
    parse_money,
    timestamp,
)
from tests.support.rows import rows


@rows(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("30m", 1800),
        ("4h", 14400),
        ("2d", 172800),
        ("1h30m", 5400),
        ("1.5h", 5400),
        ("0.2s", 0.2),
        (" 1H ", 3600),
        ("1m05s", 65),
    ],
)
def test_a_duration_is_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@rows(
    "text",
    ["", "5", "h", "4 h", "-1h", "1h-", "1y", "0s", "1e3s", "inf", "nan", "9" * 400 + "d"],
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a duration"):
        parse_duration(text)


@given(st.floats(min_value=0.06, max_value=1e7))
def test_a_written_duration_reads_as_about_the_same(seconds: float) -> None:
    assert parse_duration(format_duration(seconds)) == pytest.approx(seconds, rel=0.05, abs=0.06)


@rows(
    ("seconds", "text"),
    [
        (0, "0.0s"),
        (0.44, "0.4s"),
        (12.4, "12s"),
        (59.7, "1m00s"),
        (185, "3m05s"),
        (3599.7, "1h00m"),
        (3725, "1h02m"),
        (86399.9, "1d00h"),
        (183600, "2d03h"),
    ],
)
def test_a_duration_is_written_in_two_units_at_most(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize(("text", "amount"), [("5", 5.0), ("$2.50", 2.5), (" 0.01 ", 0.01), ("1e2", 100.0)])
def test_money_is_read_with_or_without_its_sign(text: str, amount: float) -> None:
    assert parse_money(text) == amount


@rows(
    "text", ["", "$", "0", "-1", "$-1", "nan", "inf", "1e999", "five", "5 USD", "1,50", "1e300", "1000000", "0.0000001"]
)
def test_what_is_no_amount_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not an amount"):
        parse_money(text)


@given(st.floats(min_value=0.0001, max_value=9e5))
def test_written_money_reads_as_about_the_same(amount: float) -> None:
    assert parse_money(format_money(amount)) == pytest.approx(amount, rel=0.05, abs=0.0001)


@pytest.mark.parametrize(
    ("amount", "text"), [(0, "$0.00"), (0.0044, "$0.0044"), (0.0999, "$0.0999"), (0.1, "$0.10"), (12.345, "$12.35")]
)
def test_small_amounts_keep_the_digits_that_matter(amount: float, text: str) -> None:
    assert format_money(amount) == text


@rows(
    ("size", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 KB"), (29_300, "29 KB"), (999_600, "1.0 MB"), (4_800_000, "4.8 MB"),
     (9_960_000, "10 MB"), (1_200_000_000, "1.2 GB"), (5 * 10**15, "5000 TB")],
)  # fmt: skip
def test_a_size_is_written_in_the_unit_that_suits_it(size: int, text: str) -> None:
    assert format_size(size) == text


@pytest.mark.parametrize(("text", "number"), [("1", 1), (" 20 ", 20), ("1_000_000", 1_000_000)])
def test_a_count_is_read(text: str, number: int) -> None:
    assert parse_count(text) == number


@pytest.mark.parametrize("text", ["", "0", "-3", "1.0", "1e3", "ten", pytest.param("9" * 5000, id="long")])
def test_what_is_no_count_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a whole number above zero"):
        parse_count(text)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "1970-01-01T00:00:00.000Z"), (1794790100.1239, "2026-11-16T00:48:20.123Z")]
)
def test_an_instant_is_written_in_utc_to_the_millisecond(seconds: float, text: str) -> None:
    assert timestamp(seconds) == text


def test_an_instant_is_written_with_its_zone_and_with_its_day_where_that_is_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TZ", "Etc/GMT-2")  # which is two hours before Greenwich, and called +02
    time.tzset()
    try:
        assert local_time(1_800_000_000.0, 1_800_000_000.0 - 3600) == "10:00:00 +02"
        assert local_time(1_800_000_000.0, 1_800_000_000.0 - 86400) == "2027-01-15 10:00:00 +02"
        assert local_time(1e18, 0.0) == "1000000000000000000 s after 1970"
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_few_names_stand_for_many() -> None:
    names = ["a", "b", "c"]
    assert [few(names, most) for most in (2, 3, 4)] == ["a, b and 1 more", "a, b, c", "a, b, c"]
    assert few([], 2) == ""


def test_a_process_ends_by_itself_or_is_killed() -> None:
    assert [exit_words(code) for code in (0, 3, -9)] == ["exit 0", "exit 3", "killed by signal 9"]
