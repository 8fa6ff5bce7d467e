"""Rows that stay below what scrolls: taken off, and drawn again under what was written, in one go."""

from collections.abc import Sequence

from ralph.ui.draw import width
from ralph.ui.outlet import Outlet
from ralph.ui.paint import Line, painted, plain
from ralph.ui.transcript import folded, holds_command

_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"
"""Around what is to be seen at once; a terminal that does not know them passes them over."""
_NO_WRAP, _WRAP = "\x1b[?7l", "\x1b[?7h"
"""A letter wider than we think would else add a row that nobody counts."""
_PASTES_MARKED, _PASTES_BARE = "\x1b[?2004h", "\x1b[?2004l"
"""Whether a terminal tells what is pasted from keys. A shell that wants it so says so again by itself."""
_LEAST_COLUMNS = 10
_LEAST_ABOVE = 2
"""Rows that are left to what scrolls; a terminal that has fewer gets no foot."""


class Foot:
    """The last rows that ralph has written. The user's own screen, no other: all that scrolled can be scrolled to."""

    def __init__(self, outlet: Outlet, *, colour: bool) -> None:
        self._outlet = outlet
        self._colour = colour
        self._shown: list[str] = []
        self._widths: list[int] = []
        self._marks_pastes = False

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows, as they are now."""
        return self._outlet.size or (80, 24)

    def forget(self) -> None:
        """What stands below is somebody else's by now: draw under it."""
        self._shown, self._widths, self._marks_pastes = [], [], False

    def write(self, above: Sequence[Line], below: Sequence[Line]) -> None:
        """Write lines that scroll, and under them the foot; if nothing has changed, nothing.

        While there is one, keys are heard, and a text that is pasted is none. See `is_clear`.
        """
        columns, height = self.size
        rows = list(below)[: max(0, height - _LEAST_ABOVE)] if columns >= _LEAST_COLUMNS else []
        # A cell less: in the last one a terminal may wait with the cursor for a letter to wrap.
        wanted = [painted(row, columns - 1, colour=self._colour) for row in rows]
        unchanged = wanted == self._shown and self._marks_pastes == bool(below)
        if not above and unchanged and all(each < columns for each in self._widths):
            return
        foot = _NO_WRAP + "\r\n".join(wanted) + _WRAP if wanted else ""
        pastes = _PASTES_MARKED if below else _PASTES_BARE
        said = "" if self._marks_pastes == bool(below) else pastes
        if self._outlet.offer(f"{said}{_BEGIN}{self._off(columns)}{self._scrolling(above)}{foot}{_END}"):
            self._shown, self._widths = wanted, [min(width(plain(row)), columns - 1) for row in rows]
            self._marks_pastes = bool(below)

    @property
    def is_clear(self) -> bool:
        """Whether all that was written is on the screen: not so while the terminal is held still (Ctrl-S)."""
        return self._outlet.settle()

    def take_off(self, above: Sequence[Line] = ()) -> None:
        """Leave the terminal with what has scrolled, and these last lines, at the start of a new line."""
        if above or self._shown or self._marks_pastes:
            pastes = _PASTES_BARE if self._marks_pastes else ""
            self._outlet.write_last(f"{pastes}{_BEGIN}{self._off(self.size[0])}{self._scrolling(above)}{_END}")
            self.forget()

    def _scrolling(self, above: Sequence[Line]) -> str:
        columns = self.size[0]
        rows = [
            painted(row, width(plain(row)) if holds_command(row) else columns, colour=self._colour)
            for line in above
            for row in folded(line, columns)
        ]
        return "".join(f"{row}\r\n" for row in rows)

    def _off(self, columns: int) -> str:
        """Go up to the foot's first row, and clear from there.

        In a terminal that was made narrower the foot takes more rows than were written: a row that no longer fits is
        folded at the edge there (tmux 3.3a and most others do so). The cursor stays behind the last letter.
        """
        if not self._shown:
            return ""
        rows = sum(max(1, -(-each // max(1, columns))) for each in self._widths)
        up = f"\x1b[{rows - 1}A" if rows > 1 else ""
        return f"\r{up}\x1b[J"
