"""Painted lines: at most as wide as they may be, and harmless whatever words they hold."""

import re

from hypothesis import given
from hypothesis import strategies as st

from ralph.ui.draw import Line, Tone, line, painted, plain, width

_OURS = re.compile(r"\x1b\[[0-9]+m")
_LINES = st.lists(st.tuples(st.text(), st.sampled_from(Tone))).map(tuple)


def test_tones_are_switched_on_and_off() -> None:
    said = line("a ", ("bad", Tone.BAD), " end")
    assert painted(said, 80, colour=True) == "a \x1b[31mbad\x1b[0m end"
    assert painted(said, 80, colour=False) == "a bad end"


def test_without_colours_what_is_chosen_still_stands_out() -> None:
    assert painted(line(("g1", Tone.CHOSEN)), 80, colour=False) == "\x1b[7mg1\x1b[0m"


def test_what_does_not_fit_is_cut_and_says_so() -> None:
    said = line("one ", ("two", Tone.GOOD), " three")
    assert painted(said, 9, colour=False) == "one two …"
    assert painted(said, 6, colour=True) == "one \x1b[32mt…\x1b[0m"
    assert painted(said, 1, colour=False) == "…"
    assert painted(said, 0, colour=False) == ""
    assert painted(line("名前の前"), 5, colour=False) == "名前…"


def test_what_fits_exactly_is_whole() -> None:
    assert painted(line("one ", "two"), 7, colour=False) == "one two"


@given(_LINES, st.integers(0, 40), st.booleans())
def test_no_words_get_a_control_character_to_the_terminal(said: Line, most: int, colour: bool) -> None:
    shown = _OURS.sub("", painted(said, most, colour=colour))
    assert width(shown) <= most
    assert not re.search("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", shown)
    assert "\n" not in plain(said)
