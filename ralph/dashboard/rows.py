"""Rows of the dashboard: styled text, cells and panels, drawn by rich and cached until their content changes."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import lru_cache
from typing import TypeVar, cast, overload

from rich.box import ROUNDED
from rich.cells import cell_len
from rich.console import RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.rule import Rule
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from ralph.ui.terminal import Look, Row, flat, one_line
from ralph.ui.theme import render, safe, style

Words = tuple[str, Look]
Line = tuple[Words, ...]
"""Styled words of one row; the text can come from anywhere."""

Made = TypeVar("Made")

_LONGEST = 4_000
"""Characters of a line that are looked at: no screen shows more."""
_SEPARATOR: Words = (" · ", Look.QUIET)


class Kept:
    """Cache of the last frame's parts, for reuse in the next one."""

    def __init__(self) -> None:
        self._last: dict[Hashable, object] = {}
        self._now: dict[Hashable, object] = {}

    def get(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """Return the part for this key, made if needed."""
        if (made := self._now.get(key)) is None:
            made = self._last.get(key)
            self._now[key] = made = make() if made is None else made
        return cast("Made", made)

    def next_frame(self) -> None:
        """Forget parts that the last frame did not use."""
        self._last, self._now = self._now, {}


def line(*parts: str | Words) -> Line:
    """Join words into a line, without the empty ones."""
    words = ((part, Look.PLAIN) if isinstance(part, str) else part for part in parts)
    return tuple((text, look) for text, look in words if text)


def plain(said: Line) -> str:
    """Return the words without styles, safe for any terminal."""
    return "".join(flat(text) for text, _ in said)


def width(said: Line) -> int:
    """Return how many cells a line takes."""
    return cell_len(plain(said))


def text_of(said: Line, *, one_row: bool = True) -> Text:
    """Return a line as rich text, cut with an ellipsis or folded."""
    whole = Text(end="", no_wrap=one_row, overflow="ellipsis" if one_row else "fold")
    for text, look in said:
        whole.append_text(safe(text[:_LONGEST] if one_row else text, look, one_line=one_row))
    return whole


def row(said: Line, columns: int) -> Row:
    """Return a line as one row."""
    return render(text_of(said), columns)[0] if plain(said) and columns > 0 else []


def folded(said: Line, columns: int) -> list[Row]:
    """Return a text as rows that show all of it."""
    return render(text_of(said, one_row=False), columns)


@lru_cache(maxsize=8192)
def cell(text: str, columns: int, look: Look = Look.PLAIN, *, is_figure: bool = False) -> Segment:
    """Return a text in exactly this many cells; figures are right-aligned."""
    written = Text(one_line(text, columns) if columns > 0 else "", end="")
    written.truncate(columns, overflow="ellipsis", pad=not is_figure)
    if is_figure:
        written.align("right", columns)
    return Segment(written.plain, style(look))


def fitted(said: Row, columns: int) -> Row:
    """Return a row in exactly this many cells."""
    return Segment.adjust_line_length(list(said), columns)


def beside(*panes: Sequence[Row]) -> list[Row]:
    """Join panes of the same height; all but the last must have their final width."""
    return [[segment for part in parts for segment in part] for parts in zip(*panes, strict=True)]


FRAME = 4
"""Columns that a frame takes."""


def panel(body: Sequence[Row], title: Line, columns: int, height: int, look: Look = Look.QUIET) -> list[Row]:
    """Return rows in a frame of this height; rich draws it once for each title and width."""
    top, bottom, edge = _edges(title, columns, look)
    inner, blank = columns - FRAME, [Segment(" " * (columns - FRAME))]
    left, right = Segment(f"{edge} ", style(look)), Segment(f" {edge}", style(look))
    rows = [*body[: height - 2], *[blank] * (height - 2 - len(body))]
    return [top, *([left, *fitted(each, inner), right] for each in rows), bottom][:height]


@lru_cache(maxsize=64)
def _edges(title: Line, columns: int, look: Look) -> tuple[Row, Row, str]:
    named = text_of((("", Look.PLAIN), *title)) if title else None
    frame = Panel(Text(""), ROUNDED, title=named, title_align="left", border_style=style(look), width=columns)
    top, _, bottom = render(frame, columns)
    return top, bottom, ROUNDED.mid_left


def ruled(title: Line, columns: int) -> Row:
    """Return a rule with a title."""
    return render(Rule(text_of(title), align="left", style=style(Look.QUIET)), columns)[0]


def hanging(sign: Words, said: RenderableType, columns: int) -> list[Row]:
    """Return a folded text with a hanging sign in front."""
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(width=cell_len(sign[0]))
    grid.add_column(overflow="fold")
    grid.add_row(safe(sign[0], sign[1], one_line=True), said)
    return render(grid, columns)


_TIGHT, _NEARLY_FULL = 80.0, 95.0
"""Percent from which use stands out, and from which it is nearly used up."""


def alarm(percent: float, calm: Look = Look.ACCENT) -> Look:
    """Return the style of a share that should stay below 100 %."""
    return Look.BAD if percent >= _NEARLY_FULL else Look.WARN if percent >= _TIGHT else calm


@lru_cache(maxsize=1024)
def gauge(percent: int, columns: int) -> Line:
    """Return a progress bar."""
    look = alarm(percent)
    done = style(look)
    bar = ProgressBar(
        100, min(max(percent, 0), 100), columns, complete_style=done, finished_style=done, style=style(Look.QUIET)
    )
    return tuple((part.text, look if part.style == done else Look.QUIET) for part in render(bar, columns)[0])


def joined(parts: Iterable[tuple[int, Line]], columns: int) -> Line:
    """Join parts of a line; if they do not fit, those with the lowest rank are dropped."""
    kept = [(rank, part, width(part)) for rank, part in parts if width(part)]
    while len(kept) > 1 and sum(cells for *_, cells in kept) + 3 * (len(kept) - 1) > columns:
        kept.remove(min(reversed(kept), key=lambda ranked: ranked[0]))
    words: list[Words] = []
    for number, (_, part, _) in enumerate(kept):
        words += [*([_SEPARATOR] if number else []), *part]
    return tuple(words)


class Unrendered(Sequence[Row]):
    """Lines as rows that are rendered only when they are shown."""

    def __init__(self, lines: Sequence[Line], columns: int) -> None:
        self._lines, self._columns = lines, columns

    def __len__(self) -> int:
        return len(self._lines)

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Row]: ...
    def __getitem__(self, index: int | slice) -> Row | Sequence[Row]:
        if isinstance(index, slice):
            return [row(each, self._columns) for each in self._lines[index]]
        return row(self._lines[index], self._columns)
