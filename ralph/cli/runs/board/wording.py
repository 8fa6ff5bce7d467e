"""Pieces that lines of the dashboard are made of."""

from collections.abc import Sequence

from ralph.ui.draw import cut, padded, width
from ralph.ui.paint import Line, Tone, Words
from ralph.ui.sanitise import flat

_SEPARATOR = " · "


def cell(text: str, most: int, tone: Tone = Tone.PLAIN, *, is_figure: bool = False) -> Words:
    """A text in exactly so many cells."""
    return padded(cut(text, most), most, is_figure), tone


def cells(said: Line) -> int:
    """How wide a line is on the screen."""
    return sum(width(flat(text)) for text, _ in said)


def joined(parts: Sequence[tuple[int, Line]], columns: int) -> Line:
    """Parts of a line, separated; where they do not all fit, the one of the lowest rank goes first."""
    kept = [(rank, part) for rank, part in parts if cells(part)]
    while len(kept) > 1 and sum(cells(part) for _, part in kept) + len(_SEPARATOR) * (len(kept) - 1) > columns:
        kept.remove(min(reversed(kept), key=lambda ranked: ranked[0]))
    line: list[Words] = []
    for number, (_, part) in enumerate(kept):
        line += [*([(_SEPARATOR, Tone.DIM)] if number else []), *part]
    return tuple(line)


def rule(what: str, columns: int) -> Line:
    """A line that begins a section."""
    return ((f"── {what} ".ljust(columns, "─"), Tone.DIM),)


def ago(seconds: float) -> str:
    """How long something is past, in one figure."""
    whole = max(0, int(seconds))
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if whole >= size:
            return f"{whole // size}{unit} ago"
    return f"{whole}s ago"
