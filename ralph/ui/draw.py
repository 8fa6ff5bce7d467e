"""Rows as aligned columns of plain text that fit a terminal; how wide a text is there, rich knows."""

from collections.abc import Collection, Sequence

from ralph.ui.sanitise import one_line

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
