"""Lines in quiet colours: made of words and their tones, given to a terminal only through `painted`.

That is the one way to the screen of a live view. Whatever words hold, control characters come out escaped: an agent's
text can colour, move, title, link or hide nothing.
"""

from enum import StrEnum

from ralph.ui.draw import letters_within, width
from ralph.ui.sanitise import flat


class Tone(StrEnum):
    """How words look; the value is the attribute that a terminal is told."""

    PLAIN = ""
    STRONG = "1"
    DIM = "2"
    CHOSEN = "7"
    BAD = "31"
    GOOD = "32"
    WARN = "33"
    CALM = "36"
    SOFT = "35"


Words = tuple[str, Tone]
Line = tuple[Words, ...]


def line(*parts: str | Words) -> Line:
    """A line of plain words and of others."""
    return tuple((part, Tone.PLAIN) if isinstance(part, str) else part for part in parts if part)


def plain(said: Line) -> str:
    """The words alone, safe for any terminal or file."""
    return "".join(flat(text) for text, _ in said)


def painted(said: Line, most: int, *, colour: bool) -> str:
    """A line as a terminal is given it: at most so many cells, every attribute switched off at its end.

    Without colours, of which NO_COLOR knows no exception, only what is chosen still stands out.
    """
    safe = [(flat(text), tone) for text, tone in said]
    if sum(width(text) for text, _ in safe) > most:
        safe = _cut(safe, most)
    return "".join(_toned(text, tone) if colour or tone is Tone.CHOSEN else text for text, tone in safe)


def _toned(text: str, tone: Tone) -> str:
    return f"\x1b[{tone}m{text}\x1b[0m" if tone else text


def _cut(safe: list[Words], most: int) -> list[Words]:
    """As many words as leave a cell for the sign that there were more."""
    kept: list[Words] = []
    left = most - 1
    for text, tone in safe:
        fitting = letters_within(text, left)
        left -= width(fitting)
        if len(fitting) < len(text):
            return [*kept, (f"{fitting}…" if most > 0 else "", tone)]
        kept.append((text, tone))
    return kept
