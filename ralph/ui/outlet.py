"""Where lines go: a terminal or pipe that may close at any time, which is no reason to end a run."""

import contextlib
import os
from collections.abc import Callable
from typing import TextIO


class Outlet:
    """A stream that falls silent when its reader is gone (EPIPE) or its terminal hung up (EIO)."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream

    @property
    def width(self) -> int | None:
        """Columns of the terminal; None for a file or a pipe, whose lines are nobody's to fold."""
        try:
            return os.get_terminal_size(self._stream.fileno()).columns if self._stream is not None else None
        except (OSError, ValueError):
            return None

    def write(self, text: str) -> None:
        """Write and flush, or fall silent for good."""
        self._attempt(lambda stream: stream.write(text))

    def write_bytes(self, line: bytes) -> None:
        """The same, for what is encoded already."""
        self._attempt(lambda stream: stream.buffer.write(line))

    def _attempt(self, write: Callable[[TextIO], object]) -> None:
        if self._stream is None:
            return
        try:
            write(self._stream)
            self._stream.flush()
        except (OSError, ValueError):
            _discard(self._stream)
            self._stream = None


def _discard(stream: TextIO) -> None:
    """Point the descriptor at nothing: the interpreter flushes it once more when it ends, and would exit 120."""
    with contextlib.suppress(OSError, ValueError):
        nothing = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        os.dup2(nothing, stream.fileno())
        os.close(nothing)
