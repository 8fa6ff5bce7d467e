"""Curly quotes: a model writes straight ones where the file has curly ones. What it meant is found, its style kept."""

# ruff: noqa: RUF001 - these letters are what the module is about

_STRAIGHT = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"'})
_OPENS_AFTER = set(" \t\n([{—–")


def find_loosely(text: str, wanted: str) -> str:
    """The part of `text` that equals `wanted` but for its quotes; empty: there is none."""
    at = text.translate(_STRAIGHT).find(wanted.translate(_STRAIGHT))
    return text[at : at + len(wanted)] if at >= 0 else ""


def in_style_of(found: str, replacement: str) -> str:
    """The replacement with curly quotes where `found` has them."""
    if "“" in found or "”" in found:
        replacement = _curled(replacement, '"', "“", "”")
    if "‘" in found or "’" in found:
        replacement = _curled(replacement, "'", "‘", "’")
    return replacement


def _curled(text: str, straight: str, opening: str, closing: str) -> str:
    before = " " + text
    return "".join(
        (opening if before[at] in _OPENS_AFTER else closing) if letter == straight else letter
        for at, letter in enumerate(text)
    )
