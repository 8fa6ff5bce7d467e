"""Where lines go: a terminal or pipe that may close at any time, which is no reason to end a run."""

import contextlib
import os
from typing import TextIO


class Outlet:
    """A stream that falls silent when its reader is gone (EPIPE) or its terminal hung up (EIO)."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._open = True

    def write(self, text: str) -> None:
        """Write and flush, or fall silent for good."""
        if not self._open:
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            self._open = False
            self._discard()

    def _discard(self) -> None:
        """Point the descriptor at nothing: the interpreter flushes it once more when it ends, and would exit 120."""
        with contextlib.suppress(OSError, ValueError):
            nothing = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
            os.dup2(nothing, self._stream.fileno())
            os.close(nothing)
