"""The door to the terminal: no control character passes, plain text does."""

import json
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.ui.terminal import flat, one_line, visible, visible_json
from tests.support.rows import rows

BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
TAGS = "\U000e0001" + "".join(map(chr, range(0xE0020, 0xE0080)))
FILLERS = "\xad\u034f\u115f\u1160\u17b4\u17b5\u180e\u3164\uffa0\u206a\u206b\u206c\u206d\u206e\u206f\ufff9\ufffa\ufffb"
SELECTORS = "\u180b\u180c\u180d\u180f" + "".join(map(chr, [*range(0xFE00, 0xFE0E), *range(0xE0100, 0xE01F0)]))
FORMATS = "".join(map(chr, [*range(0x1BCA0, 0x1BCA4), *range(0x1D173, 0x1D17B)]))
UNASSIGNED = "\U000e0080\U000e00ff\U000e01f0\U000e0fff"  # not to be seen, whatever they will be
HIDDEN = f"\u200b\u200c\u200d\u2060\ufeff{FILLERS}{TAGS}{SELECTORS}{FORMATS}{UNASSIGNED}"
CONTROL = [*map(chr, range(0x20)), *map(chr, range(0x7F, 0xA0))]
SPICED = st.text(
    st.sampled_from([*CONTROL, *BIDI, *HIDDEN, "\u2028", "\u2029", "\ud800", "a", "[", "]", ";", "é", " ", "1", "m"])
)


def hostile(text: str) -> list[str]:
    return [
        char
        for char in text
        if (unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") and char not in "\n\t") or char in BIDI + HIDDEN
    ]


@given(st.text(st.characters()) | SPICED)
def test_no_control_character_is_visible(text: str) -> None:
    assert hostile(visible(text)) == []


@given(st.text(st.characters()) | SPICED, st.integers(min_value=1, max_value=50))
def test_one_line_is_one_short_line(text: str, most: int) -> None:
    line = one_line(text, most)
    assert hostile(line) == []
    assert not re.search(r"[\n\t]", line)
    assert len(line) <= most


@rows("char", [char for char in [*CONTROL, *BIDI, *HIDDEN] if char not in "\n\t"])
def test_every_control_character_is_shown_in_its_escaped_form(char: str) -> None:
    code = ord(char)
    shown = f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"
    assert visible(f"a{char}b") == f"a{shown}b"


def test_whether_a_picture_has_colours_is_its_own() -> None:
    for text in ("\u2764\ufe0f", "\u263a\ufe0e", "1\ufe0f\u20e3", "\U0001f44d\U0001f3fd"):
        assert visible(text) == text


@rows(
    ("text", "shown"),
    [
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("\x1b[31;1Hred\x1b[0K", "\\x1b[31;1Hred\\x1b[0K"),
        ("\x1b[>4;2m\x1b[?4m\x1b[1 m", "\\x1b[>4;2m\\x1b[?4m\\x1b[1 m"),
        ("\x1b[3", "\\x1b[3"),
        ("\x1b\x1b[31m[31m", "\\x1b[31m"),
        ("\x1b]8;;http://evil\x1b\\link", "\\x1b]8;;http://evil\\x1b\\link"),
        ("\x9b2J", "\\x9b2J"),
        ("over\rwritten", "over\\x0dwritten"),
        ("back\x08space", "back\\x08space"),
    ],
)
def test_a_sequence_is_shown_not_obeyed(text: str, shown: str) -> None:
    assert visible(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[1m\x1b[31m=== FAILURES ===\x1b[0m", "=== FAILURES ==="),
        ("\x1b[mone\x1b[38;5;9m two\x1b[38:2::1:2:3m three\x9b0m", "one two three"),
        ("\x1b[8mhidden\x1b[28m", "hidden"),
    ],
)
def test_a_colour_is_left_out(text: str, shown: str) -> None:
    assert visible(text) == flat(text) == one_line(text) == shown


@pytest.mark.parametrize(
    "text", ["plain", "two\nlines", "a\ttab", "ünïcode ✓ 日本語 한글 🙂 ❤️", "[bold]markup[/bold]", ""]
)
def test_plain_text_is_left_alone(text: str) -> None:
    assert visible(text) == text


def test_a_folded_text_says_that_it_goes_on() -> None:
    assert one_line("word " * 100, 12) == "word word w…"
    assert one_line(" a \n\n b ") == "a b"


def test_a_colour_that_is_cut_in_two_leaves_nothing_in_one_line() -> None:
    text = "done in 3 seconds" + " " * 22 + "\x1b[38;5;196m" + " " * 40 + "\x1b[0m"
    assert one_line(text, 20) == "done in 3 seconds"


@rows("code", [ord(character) for character in BIDI + HIDDEN + "\x7f\x9b\u2028"])
def test_json_for_a_terminal_says_the_same_without_what_steers_it(code: int) -> None:
    line = json.dumps({"a": f"é{chr(code)}日"}, ensure_ascii=False)
    shown = visible_json(line)
    assert re.fullmatch("[ -~]+", shown)
    assert json.loads(shown) == json.loads(line)
