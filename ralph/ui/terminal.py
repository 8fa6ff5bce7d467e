"""The terminal: what it can show, text made safe to print, and every escape sequence that ralph writes.

Whatever a person looks at arrives here as rows of rich segments (`ui/theme` makes them) and leaves through `ui/output`.
"""

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, TextIO

from ralph.ui.output import Output

if TYPE_CHECKING:  # rich takes a tenth of a second to load; only a screen pays for it
    from rich.segment import Segment
    from rich.style import Style

_LEAST_COLUMNS, _LEAST_ROWS = 40, 8
"""Below that, lines one under the other are easier to read."""

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
# Both in one pass: removing a colour may join its neighbours to what looks like a sequence; it stays as it is.
_UNSEEN = re.compile(f"{_COLOUR}|{_HOSTILE}")
_ANY_HOSTILE = re.compile(_HOSTILE)  # a colour begins with one, too
_NOT_PRINTABLE = re.compile("[^\n -~]")


class Look(StrEnum):
    """What a style is for; the value is its name in the theme (`ui/theme`), which only a screen loads."""

    PLAIN = "none"
    STRONG = "strong"
    QUIET = "quiet"
    GOOD = "good"
    WARN = "warn"
    BAD = "bad"
    ACCENT = "accent"
    SOFT = "soft"
    CHOSEN = "chosen"


@dataclass(frozen=True, slots=True)
class Terminal:
    """Decided once, when a command begins."""

    lively: bool
    """A view may redraw itself."""
    colour: bool
    styled: bool = False
    """It knows attributes such as bold, if not colours."""


def terminal(stream: TextIO | None, env: Mapping[str, str]) -> Terminal:
    """Look at a stream, as a rule stdout; `CI` says that nobody watches, whatever it looks like."""
    try:
        size = os.get_terminal_size(stream.fileno()) if stream is not None and stream.isatty() else None
    except (OSError, ValueError):
        size = None
    if size is None or env.get("TERM", "") in ("", "dumb") or env.get("CI", "") not in ("", "0", "false"):
        return Terminal(lively=False, colour=False)
    lively = size.columns >= _LEAST_COLUMNS and size.lines >= _LEAST_ROWS
    return Terminal(lively, colour=not env.get("NO_COLOR"), styled=True)


def in_foreground(stream: TextIO | None) -> bool:
    """Whether the terminal is ralph's to draw in: from the background it would draw over the shell that started it."""
    try:
        return stream is not None and os.tcgetpgrp(stream.fileno()) == os.getpgrp()
    except (OSError, ValueError):
        return True  # it is nobody's: no shell hands it out


def is_attended(stream: TextIO | None) -> bool:
    """Whether keys can come from there, stdin as a rule: a terminal's, and not one that we are in the background of."""
    try:
        return stream is not None and stream.isatty() and in_foreground(stream)
    except ValueError:
        return False


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


Row = Sequence["Segment"]
"""One row of a screen, as rich renders it; see `ui/theme.render`."""

_CLEAR_LINE = "\r\x1b[K"
_BEGIN_FRAME, _END_FRAME = "\x1b[?2026h", "\x1b[?2026l"
"""Around what must appear at once; terminals that don't know them ignore them."""
_NO_WRAP, _WRAP = "\x1b[?7l", "\x1b[?7h"
"""Without wrapping, a letter that is wider than we think shifts one row and adds none."""
_MARK_PASTES, _PLAIN_PASTES = "\x1b[?2004h", "\x1b[?2004l"
"""Whether the terminal marks pasted text, which must not act as keys. A shell that wants it sets it again."""
_OPEN_SCREEN = f"\x1b[?1049h\x1b[?25l{_NO_WRAP}{_MARK_PASTES}\x1b[2J"
_CLOSE_SCREEN = f"{_PLAIN_PASTES}{_WRAP}\x1b[?25h\x1b[?1049l"
_USUAL_SIZE = (80, 24)


def painted(row: Row, columns: int | None, *, colour: bool) -> str:
    """Return a row as the terminal gets it: safe text with its attributes switched off again, cut at so many cells.

    Without colour, bold, dim and reverse stay: they are no colours.
    """
    from rich.segment import Segment

    is_wide = columns is not None and sum(segment.cell_length for segment in row) > columns
    fitting = Segment.adjust_line_length(list(row), columns or 0, pad=False) if is_wide else row
    return "".join(
        _styled(flat(segment.text), segment.style, colour=colour) for segment in fitting if not segment.control
    ).rstrip(" ")


def _styled(text: str, style: "Style | None", *, colour: bool) -> str:
    if style is None or not text:
        return text
    attributes = _attributes(style, colour)
    return f"\x1b[{attributes}m{text}\x1b[0m" if attributes else text


@lru_cache(maxsize=512)
def _attributes(style: "Style", colour: bool) -> str:
    """The attributes of a style. Links never reach the terminal: their addresses come from the agent."""
    from rich.color import ColorSystem

    shown = (style if colour else style.without_color).update_link(None)
    return shown.render("x", color_system=ColorSystem.STANDARD).partition("x")[0][2:-1]


Write = Callable[[str], object]


class LineInPlace:
    """The last line of plain output, rewritten in place: a countdown or a progress line."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._shown = ""

    def show(self, text: str, columns: int) -> None:
        """Show this text instead of the last one."""
        self._replace(flat(text)[:columns])

    def draw(self, row: Row, columns: int, *, colour: bool) -> None:
        """Show this row instead of what was shown."""
        self._replace(painted(row, columns, colour=colour))

    def clear(self) -> None:
        """Remove the line, if there is one."""
        if self._shown:
            self._shown = ""
            self._write(_CLEAR_LINE)

    def _replace(self, fitting: str) -> None:
        if fitting != self._shown:
            self._write(f"\r{fitting}\x1b[K")
            self._shown = fitting


class FullScreen:
    """The terminal's alternate screen, as a context manager: the user's own screen returns at its end."""

    def __init__(self, output: Output, *, colour: bool) -> None:
        self._output = output
        self._colour = colour
        self._size = (0, 0)
        self._shown: list[str] = []

    def __enter__(self) -> "FullScreen":
        self._output.write(_OPEN_SCREEN)
        return self

    def __exit__(self, *_: object) -> None:
        self._output.write_last(_CLOSE_SCREEN)

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows, as they are now."""
        return self._output.size or _USUAL_SIZE

    def redraw(self) -> None:
        """Draw every row next time: somebody else has written to the terminal."""
        self._size = (0, 0)

    def call_user(self, text: str) -> bool:
        """Call the user; see `call_user`."""
        return call_user(self._output, Terminal(lively=True, colour=self._colour, styled=True), text)

    def draw(self, rows: Sequence[Row]) -> None:
        """Show these rows as far as they fit, and write only those that changed."""
        columns, height = size = self.size
        begun = ""
        if size != self._size:
            self._size, self._shown, begun = size, [""] * height, "\x1b[0m\x1b[2J"
        wanted = [painted(row, columns, colour=self._colour) for row in rows[:height]]
        wanted += [""] * (height - len(wanted))
        changed = "".join(  # cleared first: after a full row the cursor stays in the last cell and would clear it
            f"\x1b[{number};1H\x1b[K{new}"
            for number, (new, old) in enumerate(zip(wanted, self._shown, strict=True), start=1)
            if new != old
        )
        if begun or changed:
            self._shown = wanted
            if not self._output.offer(f"{_BEGIN_FRAME}{begun}{changed}{_END_FRAME}"):
                self.redraw()  # nobody has seen it


_LEAST_FOOT_COLUMNS = 10
_LEAST_SCROLLING = 2
"""Rows that stay for what scrolls; a lower terminal gets no footer."""


class ScrollingScreen:
    """The user's own screen: lines scroll into its history, and a footer stays below them."""

    def __init__(self, output: Output, *, colour: bool) -> None:
        self._output = output
        self._colour = colour
        self._shown: list[str] = []
        self._widths: list[int] = []
        self._marks_pastes = False

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows, as they are now."""
        return self._output.size or _USUAL_SIZE

    @property
    def is_clear(self) -> bool:
        """Whether everything written is on the screen: not while the terminal is stopped (Ctrl-S)."""
        return self._output.settle()

    def forget(self) -> None:
        """Draw the footer below whatever somebody else has written."""
        self._shown, self._widths, self._marks_pastes = [], [], False

    def write(self, above: Iterable[Row], footer: Sequence[Row]) -> None:
        """Write rows that scroll, and the footer below them; nothing if nothing changed.

        While there is a footer, keys are read, and the terminal marks what is pasted. See `is_clear`.
        """
        columns, height = self.size
        rows = list(footer)[: max(0, height - _LEAST_SCROLLING)] if columns >= _LEAST_FOOT_COLUMNS else []
        # One cell less: in the last one the terminal may wait with the cursor for the letter that wraps.
        wanted = [painted(row, columns - 1, colour=self._colour) for row in rows]
        scrolling = self._scrolling(above)
        unchanged = wanted == self._shown and self._marks_pastes == bool(footer)
        if not scrolling and unchanged and all(each < columns for each in self._widths):
            return
        foot = _NO_WRAP + "\r\n".join(wanted) + _WRAP if wanted else ""
        pastes = _MARK_PASTES if footer else _PLAIN_PASTES
        marks = "" if self._marks_pastes == bool(footer) else pastes
        if self._output.offer(f"{marks}{_BEGIN_FRAME}{self._clear_footer(columns)}{scrolling}{foot}{_END_FRAME}"):
            widths = [sum(segment.cell_length for segment in row) for row in rows]
            self._shown, self._widths = wanted, [min(each, columns - 1) for each in widths]
            self._marks_pastes = bool(footer)

    def close(self, above: Iterable[Row] = ()) -> None:
        """Write the last rows and leave the terminal at the start of a new line, without a footer."""
        scrolling = self._scrolling(above)
        if scrolling or self._shown or self._marks_pastes:
            pastes = _PLAIN_PASTES if self._marks_pastes else ""
            cleared = self._clear_footer(self.size[0])
            self._output.write_last(f"{pastes}{_BEGIN_FRAME}{cleared}{scrolling}{_END_FRAME}")
            self.forget()

    def _scrolling(self, above: Iterable[Row]) -> str:
        """The rows, uncut: what is wider than the terminal, a command for instance, is the terminal's to wrap."""
        return "".join(f"{painted(row, None, colour=self._colour)}\r\n" for row in above)

    def _clear_footer(self, columns: int) -> str:
        """Go up to the footer's first row and clear from there.

        In a terminal that was made narrower the footer takes more rows than were written: a row that no longer fits is
        wrapped there (tmux 3.3a and most others do so). The cursor stays behind the last letter.
        """
        if not self._shown:
            return ""
        rows = sum(max(1, -(-each // max(1, columns))) for each in self._widths)
        up = f"\x1b[{rows - 1}A" if rows > 1 else ""
        return f"\r{up}\x1b[J"


_LABELS = {"error": "1;31", "hint": "1;36"}
"""The attributes of labels; without colour, bold stays."""


def labelled(label: str, text: str, place: Terminal) -> str:
    """Return a message with the label that says what it is, without loading rich."""
    attributes = _LABELS[label] if place.colour else "1"
    head = f"\x1b[{attributes}m{label}:\x1b[0m" if place.styled else f"{label}:"
    return f"{head} {visible(text)}"


_LONGEST_CALL = 200


def call_user(output: Output, place: Terminal, text: str) -> bool:
    """Ring the bell, and show a desktop notification where the terminal knows OSC 9; nothing but in a terminal.

    The text begins with a word: some terminals take `9;4` for a progress bar. Return whether the user was called.
    """
    return place.styled and output.offer(f"\x1b]9;ralph: {one_line(text, _LONGEST_CALL)}\x07\x07")
