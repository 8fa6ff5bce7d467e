"""The one door to the terminal: text from agents, goals and repositories can colour, move, title or link nothing.

What only colours text (SGR, as every test runner and compiler writes it) is left out; all else is shown, not obeyed.
"""

import re

# C0 but newline and tab, DEL, C1, and what reorders, hides or joins text; and whatever is there and not to be seen, all
# that Unicode calls default-ignorable: soft hyphens, fillers (of Hangul, Khmer, Mongolian), formats of shorthand and
# music, tags and variation selectors, which spell words that only a program reads. But for the two selectors that say
# whether a picture has colours (U+FE0E and U+FE0F): people write those.
_HOSTILE = (
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ud800-\udfff\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_COLOUR = "(?:\x1b\\[|\x9b)[0-9;:]*m"
# Both at once: what is left when a colour is out is no sequence that anybody wrote, and stays what it is.
_UNSEEN = re.compile(f"{_COLOUR}|{_HOSTILE}")
_ANY_HOSTILE = re.compile(_HOSTILE)  # a colour begins with one, too
_NOT_PRINTABLE = re.compile("[^\n -~]")


def visible(text: str) -> str:
    """Leave colours out, and give every other control character its escaped form."""
    # A search for one set of characters takes a fifth of the time, and most texts are harmless.
    return text if _ANY_HOSTILE.search(text) is None else _UNSEEN.sub(_escaped, text)


def visible_json(text: str) -> str:
    """JSON that says the same in printable ASCII, which steers no terminal, whatever encoding that one has."""
    return _NOT_PRINTABLE.sub(_escaped_in_json, text)


def flat(text: str) -> str:
    """The same of a text that stays in its line: also what would end that line is escaped."""
    return visible(text).replace("\n", "\\x0a").replace("\t", " ")


def one_line(text: str, most: int = 120) -> str:
    """Fold a text into one line of at most `most` characters."""
    start = text[: most * 2]
    folded = " ".join(visible(start).split())
    if len(text) > most * 2 and (len(folded) <= most or "\x1b" in start or "\x9b" in start):
        folded = " ".join(visible(text[: most * 8]).split())  # much of it is white space, or a colour is cut in two
    return folded if len(folded) <= most else folded[: most - 1] + "…"


def _escaped(match: re.Match[str]) -> str:
    if match[0][-1] == "m":
        return ""
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _escaped_in_json(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))
