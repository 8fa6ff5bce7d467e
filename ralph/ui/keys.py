"""Keys that are pressed while ralph waits: heard at once, not shown, and only if they are meant for it."""

import contextlib
import os
import select
import termios
import time
import tty
from types import TracebackType
from typing import TextIO

WAKE_KEY = "w"
_MOST = 64


class Keyboard:
    """The terminal at `stream`, if there is one and ralph is in its foreground; else nobody's."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self._descriptor: int | None = None
        self._before: list[int | list[bytes | int]] = []

    @property
    def is_heard(self) -> bool:
        return self._descriptor is not None

    def __enter__(self) -> "Keyboard":
        with contextlib.suppress(OSError, ValueError, termios.error):
            descriptor = self._stream.fileno() if self._stream is not None else -1
            # In the background the kernel would stop us for touching the terminal.
            if os.isatty(descriptor) and os.tcgetpgrp(descriptor) == os.getpgrp():
                self._before = termios.tcgetattr(descriptor)
                self._descriptor = descriptor
                self._set()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._descriptor is not None:
            with contextlib.suppress(OSError, termios.error):  # it may have hung up
                termios.tcsetattr(self._descriptor, termios.TCSANOW, self._before)
            self._descriptor = None

    def _set(self) -> None:
        """Have keys heard at once; again after a shell that had stopped us has set the terminal as it likes it."""
        if self._descriptor is not None and termios.tcgetattr(self._descriptor)[3] & termios.ICANON:
            tty.setcbreak(self._descriptor, termios.TCSANOW)

    def listen(self, seconds: float) -> list[str]:
        """Sleep so long, or until a key is pressed; return those that were."""
        if self._descriptor is None:
            time.sleep(seconds)
            return []
        try:
            self._set()
            if not select.select([self._descriptor], [], [], seconds)[0]:
                return []
            data = os.read(self._descriptor, _MOST)
        except (OSError, termios.error):
            data = b""
        if not data:  # hung up: from now on it would only say so again, at once
            self._descriptor = None
            time.sleep(seconds)
        return list(data.decode("utf-8", "replace"))
