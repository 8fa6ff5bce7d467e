"""Where lines go: a terminal or pipe that may close, or no longer be read. No reason to end a run, or to hold it up."""

import contextlib
import os
import select
import stat
import time
from collections.abc import Callable
from typing import TextIO

_PATIENCE = 60.0
"""Seconds to wait for a reader who has stopped reading. What comes then is left out until he reads on."""

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
        self._in_haste = in_haste
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
    def width(self) -> int | None:
        """Columns of the terminal; None for a file or a pipe, whose lines are nobody's to fold."""
        try:
            return os.get_terminal_size(self._stream.fileno()).columns if self._stream is not None else None
        except (OSError, ValueError):
            return None

    def write(self, text: str) -> None:
        """Write and flush, or fall silent for good."""
        if self._stream is not None and not self._can_block:
            self._attempt(lambda stream: stream.write(text))
        elif self._stream is not None:
            self.write_bytes(text.encode(self._stream.encoding or "utf-8", self._stream.errors or "backslashreplace"))

    def write_bytes(self, data: bytes) -> None:
        """The same, for what is encoded already."""
        if self._can_block:
            self._attempt(lambda stream: self._send(stream.fileno(), data))
        else:
            self._attempt(lambda stream: stream.buffer.write(data))

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

    def _send(self, descriptor: int, data: bytes) -> None:
        """Write piece by piece, each when there is room for it; a line that was begun is finished before any other."""
        if self._owed and not _has_room(descriptor, 0):
            return
        rest = memoryview(self._owed + data)
        while rest and self._comes_to_have_room(descriptor):
            rest = rest[os.write(descriptor, rest[:_PIECE]) :]
        self._owed = bytes(rest)

    def _comes_to_have_room(self, descriptor: int) -> bool:
        deadline = time.monotonic() + self._patience
        while not _has_room(descriptor, _LOOK):
            if self._in_haste() or time.monotonic() > deadline:
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


def _discard(stream: TextIO) -> None:
    """Point the descriptor at nothing: the interpreter flushes it once more when it ends, and would exit 120."""
    with contextlib.suppress(OSError, ValueError):
        nothing = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        os.dup2(nothing, stream.fileno())
        os.close(nothing)
