"""The terminal: what it can show, output that never blocks ralph or fails it, and text made safe to print."""

import contextlib
import os
import re
import select
import stat
import termios
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TextIO

_LEAST_COLUMNS, _LEAST_ROWS = 40, 8
"""Below that, lines one under the other are easier to read."""

_PATIENCE = 60.0
"""Seconds to wait for a reader who has stopped reading. What comes then is left out until he reads on."""

_LAST_WORDS = 5.0
"""The same for what sets a terminal right, also in haste."""

_GLANCE = 0.05
"""The same for a view, which must hear keys: a reader that reads makes room sooner."""
_LOOK = 0.2
_PIECE = 4096
"""What a pipe that has room takes without blocking; it never says how much that is."""

_MOST = 8 << 20
"""Bytes that wait, more than a run says in an hour; beyond that whoever writes waits, as long as an outlet would."""
_LAST_READING, _A_MOMENT = 60.0, 2.0
"""Seconds that a reader has at the end; the second, if the user wants that now: who reads takes no longer."""
_ROOM_POLL = 0.05
"""Seconds between two looks whether there is room."""

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


@dataclass(frozen=True, slots=True)
class Terminal:
    """Decided once, when a command begins."""

    lively: bool
    """A view may redraw itself."""
    colour: bool


def terminal(stream: TextIO | None, env: Mapping[str, str]) -> Terminal:
    """Look at a stream, as a rule stdout; `CI` says that nobody watches, whatever it looks like."""
    try:
        size = os.get_terminal_size(stream.fileno()) if stream is not None and stream.isatty() else None
    except (OSError, ValueError):
        size = None
    if size is None or env.get("TERM", "") in ("", "dumb") or env.get("CI", "") not in ("", "0", "false"):
        return Terminal(lively=False, colour=False)
    lively = size.columns >= _LEAST_COLUMNS and size.lines >= _LEAST_ROWS
    return Terminal(lively, colour=not env.get("NO_COLOR"))


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


class Output:
    """A stream that falls silent when its reader is gone (EPIPE) or its terminal hung up (EIO)."""

    def __init__(
        self, stream: TextIO | None, in_haste: Callable[[], bool] = lambda: False, patience: float = _PATIENCE
    ) -> None:
        """Write to `stream`; `in_haste` tells that nobody may be waited for any more."""
        self._stream = stream
        self._is_in_haste = in_haste
        self._patience = patience
        self._owed = b""
        self.fault: OSError | None = None
        """Why it has fallen silent, if not because its reader left."""
        self._can_block = stream is not None and _can_block(stream)

    @property
    def closed(self) -> bool:
        """Whether it has fallen silent for good."""
        return self._stream is None

    @property
    def in_haste(self) -> bool:
        """Whether nobody may be waited for any more."""
        return self._is_in_haste()

    @property
    def size(self) -> tuple[int, int] | None:
        """Columns and rows of the terminal; None for a file or a pipe."""
        try:
            return os.get_terminal_size(self._stream.fileno()) if self._stream is not None else None
        except (OSError, ValueError):
            return None

    @property
    def width(self) -> int | None:
        """Columns of the terminal; None for a file or a pipe, whose lines are nobody's to fold."""
        return None if self.size is None else self.size[0]

    def write(self, text: str) -> None:
        """Write and flush, or fall silent for good."""
        if self._stream is not None and not self._can_block:
            self._attempt(lambda stream: stream.write(text))
        elif self._stream is not None:
            self.write_bytes(self.encoded(text))

    def write_bytes(self, data: bytes) -> None:
        """The same, for what is encoded already."""
        if self._can_block:
            self._attempt(lambda stream: self._send(stream.fileno(), data, self._patience))
        else:
            self._attempt(lambda stream: stream.buffer.write(data))

    def offer(self, text: str) -> bool:
        """Write what can be drawn again, and is hardly waited for; tell whether it was taken, if not whole as yet."""
        return self.offer_bytes(self.encoded(text))

    def offer_bytes(self, data: bytes) -> bool:
        """The same, for what is encoded already."""
        if not self._can_block:
            self.write_bytes(data)
        elif self.settle():
            self._attempt(lambda stream: self._send(stream.fileno(), data, _GLANCE))
        else:
            return False
        return True

    def encoded(self, text: str) -> bytes:
        """A text as this stream is given it."""
        stream = self._stream
        return b"" if stream is None else text.encode(stream.encoding or "utf-8", stream.errors or "backslashreplace")

    def settle(self) -> bool:
        """Write the rest of what was taken, as far as there is room by now; tell whether all of it is."""
        if self._owed:
            self._attempt(lambda stream: self._send(stream.fileno(), b"", 0))
        return self._stream is None or not self._owed

    def write_last(self, text: str) -> None:
        """Write what leaves a terminal as it was: after Ctrl-S, too, and also in haste it is waited for a little."""
        if self._stream is None or not self._can_block:
            self.write(text)
            return
        _set_going(self._stream)
        data = self.encoded(text)
        patience = _LAST_WORDS if self.in_haste else max(self._patience, _LAST_WORDS)
        self._attempt(lambda stream: self._pay(stream.fileno(), self._owed + data, patience, heeds_haste=False))

    def _attempt(self, write: Callable[[TextIO], object]) -> None:
        if self._stream is None:
            return
        try:
            write(self._stream)
            self._stream.flush()
        except (OSError, ValueError) as error:
            self.fault = error if isinstance(error, OSError) and not isinstance(error, BrokenPipeError) else None
            _discard(self._stream)
            self._stream = None

    def _send(self, descriptor: int, data: bytes, patience: float) -> None:
        """Write piece by piece, each when there is room for it; a line that was begun is finished before any other."""
        if not self._owed or _has_room(descriptor, 0):
            self._pay(descriptor, self._owed + data, patience)

    def _pay(self, descriptor: int, data: bytes, patience: float, *, heeds_haste: bool = True) -> None:
        rest = memoryview(data)
        while rest and self._comes_to_have_room(descriptor, patience, heeds_haste=heeds_haste):
            rest = rest[os.write(descriptor, rest[:_PIECE]) :]
        self._owed = bytes(rest)

    def _comes_to_have_room(self, descriptor: int, patience: float, *, heeds_haste: bool) -> bool:
        deadline = time.monotonic() + patience
        while not _has_room(descriptor, min(_LOOK, patience)):
            if (heeds_haste and self.in_haste) or time.monotonic() >= deadline:
                return False
        return True


def _can_block(stream: TextIO) -> bool:
    try:
        mode = os.fstat(stream.fileno()).st_mode
        return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or stream.isatty()
    except (OSError, ValueError):
        return False


def _has_room(descriptor: int, timeout: float) -> bool:
    """Tell whether something can be written, or an error be had, within the time."""
    waiting = select.poll()
    waiting.register(descriptor, select.POLLOUT)
    return bool(waiting.poll(timeout * 1000))


def _set_going(stream: TextIO) -> None:
    """Let a terminal show again what is written to it, as Ctrl-Q does.

    Linux (6.18) lets TCOON alone undo only what TCOOFF has stopped, not Ctrl-S. From the background it would stop us.
    """
    with contextlib.suppress(OSError, ValueError, termios.error):
        if os.tcgetpgrp(stream.fileno()) == os.getpgrp():
            termios.tcflow(stream.fileno(), termios.TCOOFF)
            termios.tcflow(stream.fileno(), termios.TCOON)


def _discard(stream: TextIO) -> None:
    """Point the descriptor at nothing: the interpreter flushes it once more when it ends, and would exit 120."""
    with contextlib.suppress(OSError, ValueError):
        nothing = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        os.dup2(nothing, stream.fileno())
        os.close(nothing)


class QueuedOutput:
    """Before an outlet. As long as that takes everything there is no thread, and nothing waits."""

    def __init__(self, outlet: Output) -> None:
        self._outlet = outlet
        self._turn = threading.Lock()
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._courier: threading.Thread | None = None
        self._has_given_up = False
        """Whether the reader was waited for in vain: until he reads on, nobody waits again."""

    @property
    def width(self) -> int | None:
        """Columns of the terminal; None for a file or a pipe."""
        return self._outlet.width

    def write(self, text: str) -> None:
        """Have a text written, now or as soon as there is room for it."""
        self.write_bytes(self._outlet.encoded(text))

    def write_bytes(self, data: bytes) -> None:
        """The same, for what is encoded already."""
        if self._size > _MOST:
            self._wait_for_room()
        with self._turn:
            if self._size > _MOST:
                return  # it is left out
            if self._waiting or not self._outlet.offer_bytes(data):
                self._waiting.append(data)
                self._size += len(data)
            if not self._outlet.settle() and self._courier is None:
                courier = threading.Thread(target=self._deliver, name="relay", daemon=True)
                with contextlib.suppress(RuntimeError):  # the system has no thread left: the next line tries again
                    courier.start()
                    self._courier = courier

    def finish(self) -> None:
        """Wait until all is written, for as long as an outlet would; in haste a moment. More may come."""
        began = time.monotonic()
        while self._courier is not None:
            if time.monotonic() - began >= (_A_MOMENT if self._outlet.in_haste else _LAST_READING):
                return
            time.sleep(_ROOM_POLL)

    def _wait_for_room(self) -> None:
        deadline = time.monotonic() + (0.0 if self._has_given_up else _LAST_READING)
        while self._size > _MOST and time.monotonic() < deadline and not self._outlet.in_haste:
            time.sleep(_ROOM_POLL)
        self._has_given_up = self._size > _MOST

    def _deliver(self) -> None:
        """Write what waits, piece by piece, until nothing does."""
        while self._is_anything_left():
            time.sleep(_ROOM_POLL)

    def _is_anything_left(self) -> bool:
        with self._turn:
            while self._outlet.settle():
                if not self._waiting:
                    self._courier = None
                    return False
                data = self._waiting.popleft()
                self._size -= len(data)
                self._outlet.offer_bytes(data)
            return True


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
