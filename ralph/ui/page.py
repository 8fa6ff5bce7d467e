"""Pages: what a command prints once, such as tables, facts, notes and help.

A terminal gets rich tables that fit its width. A file or a pipe gets plain lines of aligned columns, with every column
and nothing cut: people pipe them to grep, and rich would take six seconds for 10,000 rows.
"""

import math
import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

from ralph.ui.output import Output
from ralph.ui.terminal import flat, one_line, painted, terminal, visible, visible_json
from ralph.ui.theme import Look, render, safe

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.table import Table as Grid
    from rich.text import Text

    from ralph.ui.terminal import Row

Cell = str | tuple[str, Look]
"""Text from anywhere, and how it looks; it is made safe here."""

_GAP = 2
_BESIDE = 40
"""Cells that a note needs beside its row; in a narrower terminal it stands below."""
_INDENT = 4
_PROSE, _WIDEST_PROSE = 80, 100
"""Columns of prose in a pipe, and at most in a terminal."""
_LONGEST_TERM = 30
"""Cells of a term beside its text; a longer one has it below, as all have in a narrow terminal."""
_NARROW = 60
_ENDLESS = 100_000
_LEAST = 6
"""Cells that a column keeps when its cells are cut."""


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of a table; its cells are of one line each."""

    heading: str
    right: bool = False
    whole: bool = False
    """A terminal never cuts its cells, as long as anything else can be cut."""
    at_least: int = 0
    """Narrower terminals do without it; see `PIPES_ONLY`."""


PIPES_ONLY = 1 << 30
"""The width of a terminal that shows a column which only programs need."""


@dataclass(frozen=True, slots=True)
class TableRow:
    """The cells of a row, and a note that is never cut: beside them where there is room, else below them."""

    cells: Sequence[Cell]
    note: Cell = ""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under headings; without any heading, rows alone."""

    columns: Sequence[TableColumn]
    rows: Sequence[TableRow]
    title: str = ""
    indent: int = 0


@dataclass(frozen=True, slots=True)
class FactList:
    """Labels and what there is to say of each; facts without words are left out."""

    facts: "Mapping[str, Cell]"
    copied: Collection[str] = ()
    """Labels of facts that hold commands: no line break of ours may get into them."""
    label: int = 10
    """Cells that labels take."""


@dataclass(frozen=True, slots=True)
class Prose:
    """Prose, folded between words also where it goes into a pipe."""

    text: str


@dataclass(frozen=True, slots=True)
class Panel:
    """Terms and what they mean, or lines without terms, in a frame where the terminal can draw one.

    Elsewhere an empty line ends it.
    """

    title: str
    entries: Sequence[tuple[str, str]]


Part = Cell | Table | FactList | Prose | Panel
"""A cell is a line of its own, or several; it is left to the terminal to fold it, so that commands can be copied."""


@dataclass(frozen=True, slots=True)
class Paper:
    """What pages are printed on: a terminal of so many columns, or a pipe, which has none."""

    columns: int | None = None
    styled: bool = False
    """It understands attributes such as bold."""
    colour: bool = False


def paper(stream: TextIO | None) -> Paper:
    """Look at a stream: what is there to print on?"""
    from ralph.system import environ

    place = terminal(stream, environ.inherited())
    draws = stream is not None and "utf" in (stream.encoding or "").lower()  # frames and bars are no ASCII
    return Paper(Output(stream).width, place.styled and draws, place.colour and draws)


def show(parts: Sequence[Part], stream: TextIO | None = None) -> None:
    """Print parts, each on lines of its own, to stdout unless another stream is named.

    A pager may read slowly. A fault of the stream is an OSError, unless its reader has gone.
    """
    stream = stream or sys.stdout
    _write(stream, "".join(f"{line}\n" for line in lines(parts, paper(stream))))


def show_json(document: object) -> None:
    """Print a document on one line of stdout; a terminal gets it without anything that could steer it."""
    from ralph.core import ndjson

    text = ndjson.encode(document)
    _write(sys.stdout, f"{text if Output(sys.stdout).width is None else visible_json(text)}\n")


def _write(stream: TextIO | None, text: str) -> None:
    output = Output(stream, timeout=math.inf)
    output.write(text)
    if output.fault is not None:
        raise output.fault


def lines(parts: Sequence[Part], on: Paper) -> list[str]:
    """Return parts as lines for this paper."""
    if on.columns is None:
        return [line for part in parts for line in _plain(part)]
    columns = max(on.columns, 1)
    found: list[str] = []
    for part in parts:
        if isinstance(part, Prose | Panel) and not on.styled:
            found += _prose(part, min(columns, _WIDEST_PROSE))
        elif isinstance(part, str):  # as many messages are: rich would cost them a tenth of a second
            found += visible(part).split("\n")
        else:
            found += [_painted(row, on) for row in _rows(part, columns)]
    return found


def _painted(row: "Row", on: Paper) -> str:
    if on.styled:  # what may be folded is folded by now
        return painted(row, _ENDLESS, colour=on.colour)
    return "".join(flat(segment.text) for segment in row).rstrip()


def _plain(part: Part) -> Iterator[str]:
    if isinstance(part, Table):
        yield from [_line(part.title)] if part.title else []
        yield from (f"{' ' * part.indent}{line}" for line in _aligned(part))
    elif isinstance(part, FactList):
        for label, fact in part.facts.items():
            if said := _line(fact):
                yield f"{label:<{part.label}} {said}"
    elif isinstance(part, Prose | Panel):
        yield from _prose(part, _PROSE)
    else:
        yield from visible(_text(part)).split("\n")


def _aligned(table: Table) -> Iterator[str]:
    """Every column of a table, aligned, and nothing cut."""
    rows = [[_line(cell) for cell in (*row.cells, row.note)] for row in table.rows]
    headings = [_line(column.heading) for column in table.columns]
    if any(headings):
        rows.insert(0, [*headings, ""])
    widths = [max(map(_width, column)) for column in zip(*rows, strict=True)]
    right = [*(column.right for column in table.columns), False]
    for row in rows:
        padded = [
            f"{room}{cell}" if is_right else f"{cell}{room}"
            for cell, width, is_right in zip(row, widths, right, strict=True)
            for room in [" " * (width - _width(cell))]
        ]
        yield (" " * _GAP).join(padded).rstrip()


def _rows(part: Part, columns: int) -> "Iterator[Row]":
    if isinstance(part, Table):
        yield from render(_single((part.title, Look.STRONG)), columns) if part.title else []
        margin: Row = render(" " * part.indent, columns)[0] if part.indent else []
        yield from ([*margin, *row] for row in _table(part, columns - part.indent))
    elif isinstance(part, FactList):
        yield from _facts(part, columns)
    elif isinstance(part, Prose):
        yield from render(_folding(part.text), min(columns, _WIDEST_PROSE))
    elif isinstance(part, Panel):
        yield from _panel(part, min(columns, _WIDEST_PROSE))
    else:
        for line in visible(_text(part)).split("\n"):
            yield from render(safe(line, _look(part)), _ENDLESS)


def _table(table: Table, columns: int) -> "Iterator[Row]":
    """A table whose notes fit beside its rows, or one whose notes stand below them."""
    from rich.padding import Padding

    shown = [number for number, column in enumerate(table.columns) if columns >= column.at_least]
    taken = [
        max(map(_width, [_line(table.columns[number].heading), *(_line(row.cells[number]) for row in table.rows)]))
        for number in shown
    ]
    has_notes = any(_text(row.note) for row in table.rows)
    is_beside = has_notes and sum(taken) + _GAP * len(shown) + _BESIDE <= columns
    grid = _grid([table.columns[number] for number in shown], taken, has_notes=is_beside)
    for row in table.rows:
        notes = [_folding(row.note)] if is_beside else []
        grid.add_row(*(_single(row.cells[number]) for number in shown), *notes)
    rows = render(grid, columns)
    if is_beside or not has_notes:
        yield from rows
        return
    yield from rows[: len(rows) - len(table.rows)]
    for row, rendered in zip(table.rows, rows[len(rows) - len(table.rows) :], strict=True):  # one line each
        yield rendered
        if _text(row.note):
            yield from render(Padding(_folding(row.note), (0, 0, 0, min(_INDENT, columns // 8))), columns)


def _grid(columns: Sequence[TableColumn], taken: Sequence[int], *, has_notes: bool) -> "Grid":
    from rich.table import Table as Grid

    grid = Grid(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), show_header=any(each.heading for each in columns))
    for column, width in zip(columns, taken, strict=True):
        grid.add_column(
            _single(column.heading),
            justify="right" if column.right else "left",
            no_wrap=column.whole or column.right,
            overflow="ellipsis",
            min_width=min(width, _LEAST),
        )
    if has_notes:
        grid.add_column("")
    return grid


def _facts(facts: FactList, columns: int) -> "Iterator[Row]":
    """FactList beside their labels, or below them where a terminal is narrow."""
    room = columns - facts.label - 1
    for label, fact in facts.facts.items():
        if not _text(fact):
            continue
        folded = render(_folding(fact), _ENDLESS if label in facts.copied else max(room, _BESIDE // 2))
        named = render(safe(f"{_line(label):<{facts.label}} ", Look.QUIET), columns)[0]
        margin = render(" " * (facts.label + 1), columns)[0]
        if room < _BESIDE // 2:
            yield named
            yield from folded
        else:
            yield from ([*(margin if number else named), *row] for number, row in enumerate(folded))


def _prose(part: Prose | Panel, columns: int) -> list[str]:
    """Prose without a frame, folded."""
    import textwrap

    def folded(text: str, first: str = "", rest: str = "") -> list[str]:
        width = max(columns, len(rest) + 10)
        wrapped = textwrap.wrap(
            _line(text), width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False
        )
        return wrapped or [first.rstrip()]

    if isinstance(part, Prose):
        return folded(part.text)
    terms = [_line(term) for term, _ in part.entries]
    beside = max((len(term) for term in terms if len(term) <= _LONGEST_TERM), default=0)
    found = [_line(part.title)]
    for term, (_, text) in zip(terms, part.entries, strict=True):
        if not term:
            found.append(f"  {_line(text)}")
        elif columns < _NARROW or len(term) > _LONGEST_TERM:
            found += [f"  {term}", *folded(text, " " * 6, " " * 6)]
        else:
            found += folded(text, f"  {term:<{beside}}  ", " " * (beside + 4))
    return [*found, ""]


def _panel(panel: Panel, columns: int) -> "Iterator[Row]":
    from rich.box import ROUNDED
    from rich.padding import Padding
    from rich.panel import Panel as Frame
    from rich.table import Table as Grid

    grid = Grid.grid(padding=(0, _GAP, 0, 0), expand=True)
    is_narrow = columns < _NARROW
    has_terms = any(term for term, _ in panel.entries)
    if has_terms and not is_narrow:
        grid.add_column(no_wrap=True)
    grid.add_column(ratio=1)
    for term, text in panel.entries:
        named, said = safe(term, Look.ACCENT, one_line=True), _folding(text)
        if not has_terms:
            grid.add_row(said)
        elif is_narrow:
            grid.add_row(named)
            grid.add_row(Padding(said, (0, 0, 0, 2)))
        else:
            grid.add_row(named, said)
    title = safe(panel.title, Look.STRONG, one_line=True)
    yield from render(Frame(grid, box=ROUNDED, title=title, title_align="left", border_style=Look.QUIET), columns)


def _text(cell: Cell) -> str:
    return cell if isinstance(cell, str) else cell[0]


def _look(cell: Cell) -> Look:
    return Look.PLAIN if isinstance(cell, str) else cell[1]


def _single(cell: Cell) -> "Text":
    """A cell of a table, in one line that is cut where its column is too narrow."""
    text = safe(_line(cell), _look(cell), one_line=True)
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


def _line(cell: Cell) -> str:
    """The text of a cell in one line that is safe to show."""
    return one_line(_text(cell), _ENDLESS)


def _folding(cell: Cell) -> "Text":
    """A text that is folded between words, and within a word that is longer than a line."""
    text = safe(_line(cell), _look(cell))
    text.overflow = "fold"
    return text


def _width(text: str) -> int:
    """The cells of a terminal that a text takes: wide letters take two, combining ones none."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)
