"""Where lines go: a terminal or pipe that may close, or no longer be read. No reason to end a run, or to hold it up."""

import contextlib
import os
import select
import stat
import termios
import time
from collections.abc import Callable
from typing import TextIO

_PATIENCE = 60.0
"""Seconds to wait for a reader who has stopped reading. What comes then is left out until he reads on."""

_LAST_WORDS = 5.0
"""The same for what sets a terminal right, also in haste."""

_GLANCE = 0.05
"""The same for a view, which must hear keys: a reader that reads makes room sooner."""

_LOOK = 0.2
_PIECE = 4096
"""What a pipe that has room takes without blocking; it never says how much that is."""


class Outlet:
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
