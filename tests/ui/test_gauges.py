"""Bars, their tones, and times as they go by."""

from __future__ import annotations

import pytest

from ralph.ui.draw import Tone, alarm, gauge, lasting, plain


@pytest.mark.parametrize(
    ("percent", "bar"), [(-5.0, "░░░░░"), (0.0, "░░░░░"), (42.0, "██░░░"), (100.0, "█████"), (1e9, "█████")]
)
def test_a_bar_is_as_long_as_it_is_whatever_it_shows(percent: float, bar: str) -> None:
    assert plain(gauge(percent, 5)) == bar


def test_what_is_nearly_used_up_stands_out() -> None:
    assert [alarm(percent) for percent in (79.9, 80, 94.9, 95, 300)] == [
        Tone.CALM,
        Tone.WARN,
        Tone.WARN,
        Tone.BAD,
        Tone.BAD,
    ]
    assert alarm(10, calm=Tone.PLAIN) is Tone.PLAIN


@pytest.mark.parametrize(
    ("seconds", "words"), [(-1, "0s"), (0.9, "0s"), (9.9, "9s"), (59.9, "59s"), (60, "1m00s"), (3725, "1h02m")]
)
def test_a_time_that_goes_by_is_told_in_whole_seconds_that_are_over(seconds: float, words: str) -> None:
    assert lasting(seconds) == words
