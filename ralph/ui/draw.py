"""Rows as aligned columns of plain text that fit a terminal; how wide a text is there, rich knows."""

from collections.abc import Collection, Sequence
from enum import StrEnum

from ralph.core.text import format_duration
from ralph.ui.terminal import Output, flat, one_line

_GAP = "  "
_ENDLESS = 100_000


def columns(
    rows: Sequence[Sequence[str]], widest: Sequence[int], total: int | None, right: Collection[int] = ()
) -> list[str]:
    """Align rows, the first of which are the headings; what is wider than `widest` of its column is cut.

    The last column gets what the others leave of `total`; without a total, which no file or pipe has, nothing is cut.
    The columns whose numbers are in `right` hold figures.
    """
    if total is None:
        total, widest = _ENDLESS, [_ENDLESS] * len(widest)
    cells = [[cut(cell, most) for cell, most in zip(row[:-1], widest, strict=False)] for row in rows]
    widths = [max(map(width, column)) for column in zip(*cells, strict=True)]
    left = max(total - sum(widths) - len(_GAP) * len(widths), 0)
    lines: list[str] = []
    for row, full in zip(cells, rows, strict=True):
        aligned = [padded(cell, widths[number], number in right) for number, cell in enumerate(row)]
        lines.append(_GAP.join([*aligned, cut(full[-1], min(left, widest[-1]))]).rstrip())
    return lines


def cut(text: str, most: int) -> str:
    """Fold a text into one line that takes at most `most` cells of a terminal."""
    if most < 1:
        return ""
    folded = one_line(text, most)
    if width(folded) <= most:
        return folded
    return f"{letters_within(folded, most - 1)}…"


def letters_within(text: str, most: int) -> str:
    """As much of a text's beginning as takes at most `most` cells; no letter loses an accent or a colour to the cut."""
    if text.isascii():
        return text[: max(most, 0)]
    if width(text) <= most:  # as a rule, and that is known already
        return text
    from rich.cells import split_graphemes

    taken = 0
    for start, _, cells in split_graphemes(text)[0]:
        taken += cells
        if taken > most:
            return text[:start]
    return text


def width(text: str) -> int:
    """The cells of a terminal that a text takes: wide letters and pictures take two, combining letters none."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # it remembers what it has measured: a foot is much the same in every frame

    return cell_len(text)


def padded(cell: str, most: int, is_figure: bool = False) -> str:
    """Fill a cell up with room: a figure's stands before it."""
    room = " " * (most - width(cell))
    return room + cell if is_figure else cell + room


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


_OPEN = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[?2004h\x1b[2J"
"""The other screen, without a cursor, and nothing wraps: a letter wider than we think shifts one row and no more.
What is pasted comes marked as such (2004): its letters are no keys."""
_CLOSE = "\x1b[?2004l\x1b[?7h\x1b[?25h\x1b[?1049l"
_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"
"""Around a frame: a terminal that knows them shows all of it at once, the others pass them over."""


class Canvas:
    """Use as a context manager: the user's own screen is back at its end, whatever happened."""

    def __init__(self, outlet: Output, *, colour: bool) -> None:
        self._outlet = outlet
        self._colour = colour
        self._size = (0, 0)
        self._shown: list[str] = []

    def __enter__(self) -> "Canvas":
        self._outlet.write(_OPEN)
        return self

    def __exit__(self, *_: object) -> None:
        self._outlet.write_last(_CLOSE)

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows, as they are now."""
        return self._outlet.size or (80, 24)

    def forget(self) -> None:
        """Draw everything anew: somebody else has written here."""
        self._size = (0, 0)

    def draw(self, rows: Sequence[Line]) -> None:
        """Show these rows, as far as there is room; the rest of the terminal is empty."""
        columns, height = size = self.size
        begun = ""
        if size != self._size:
            self._size, self._shown, begun = size, [""] * height, "\x1b[0m\x1b[2J"
        wanted = [painted(row, columns, colour=self._colour) for row in rows[:height]]
        wanted += [""] * (height - len(wanted))
        changed = "".join(  # erased first: behind a full row the cursor stays in the last cell, which would go, too
            f"\x1b[{number};1H\x1b[K{new}"
            for number, (new, old) in enumerate(zip(wanted, self._shown, strict=True), start=1)
            if new != old
        )
        if begun or changed:
            self._shown = wanted
            if not self._outlet.offer(f"{_BEGIN}{begun}{changed}{_END}"):
                self.forget()  # nobody has seen it


_FULL, _EMPTY = "█", "░"
_TIGHT, _NEARLY_FULL = 80.0, 95.0
"""Percent from which it is to be seen that something is used up soon, and from which it nearly is."""


def gauge(percent: float, cells_wide: int) -> Line:
    """How much of something is used, as a bar."""
    share = max(0.0, min(percent, 100.0)) / 100
    full = round(share * cells_wide)
    return ((_FULL * full, alarm(percent)), (_EMPTY * (cells_wide - full), Tone.DIM))


def alarm(percent: float, calm: Tone = Tone.CALM) -> Tone:
    """How a share that should not become the whole looks."""
    return Tone.BAD if percent >= _NEARLY_FULL else Tone.WARN if percent >= _TIGHT else calm


def lasting(seconds: float) -> str:
    """A time as it goes by: whole seconds, so that it does not flicker."""
    whole = max(0, int(seconds))
    return f"{whole}s" if whole < 10 else format_duration(whole)


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
