"""A whole terminal as rows that are drawn over: of each frame only what has changed is written."""

from collections.abc import Sequence

from ralph.ui.outlet import Outlet
from ralph.ui.paint import Line, painted

_OPEN = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[?2004h\x1b[2J"
"""The other screen, without a cursor, and nothing wraps: a letter wider than we think shifts one row and no more.
What is pasted comes marked as such (2004): its letters are no keys."""
_CLOSE = "\x1b[?2004l\x1b[?7h\x1b[?25h\x1b[?1049l"
_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"
"""Around a frame: a terminal that knows them shows all of it at once, the others pass them over."""


class Canvas:
    """Use as a context manager: the user's own screen is back at its end, whatever happened."""

    def __init__(self, outlet: Outlet, *, colour: bool) -> None:
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
