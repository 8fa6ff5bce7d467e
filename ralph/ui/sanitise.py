"""The one door to the terminal: text from agents, goals and repositories can colour, move, title or link nothing."""

import re

# C0 but newline and tab, DEL, C1, and the controls that reorder, hide or join text
_HOSTILE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")


def visible(text: str) -> str:
    """Give every control character its escaped form."""
    return _HOSTILE.sub(_escaped, text)


def one_line(text: str, most: int = 120) -> str:
    """Fold a text into one line of at most `most` characters."""
    folded = " ".join(visible(text[: most * 8]).split())
    return folded if len(folded) <= most else folded[: most - 1] + "…"


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
