"""Output that never blocks ralph or fails it: to readers that are slow, that stop reading, and that are gone."""

import contextlib
import os
import select
import stat
import termios
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TextIO

_TIMEOUT = 60.0
"""Seconds to wait for a reader who has stopped reading. What comes then is left out until he reads on."""

_LAST_WORDS = 5.0
"""The same for what sets a terminal right, also in haste."""

_GLANCE = 0.05
"""The same for a view, which must hear keys: a reader that reads makes room sooner."""
_LOOK = 0.2
_PIECE = 4096
"""What a pipe that has room takes without blocking; it never says how much that is."""

_MOST = 8 << 20
"""Bytes that may wait, more than a run prints in an hour; beyond that, writers wait as for an output."""
_LAST_READING, _A_MOMENT = 60.0, 2.0
"""Seconds that a reader has at the end; the second, if the user wants that now: who reads takes no longer."""
_ROOM_POLL = 0.05
"""Seconds between two looks whether there is room."""


class Output:
    """A stream that falls silent when its reader is gone (EPIPE) or its terminal hung up (EIO)."""

    def __init__(
        self, stream: TextIO | None, in_haste: Callable[[], bool] = lambda: False, timeout: float = _TIMEOUT
    ) -> None:
        """Write to `stream`; `in_haste` tells that nobody may be waited for any more."""
        self._stream = stream
        self._is_in_haste = in_haste
        self._timeout = timeout
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
        """Columns and rows of the terminal; None for a file or a pipe, and where the terminal does not know them."""
        try:
            size = os.get_terminal_size(self._stream.fileno()) if self._stream is not None else None
        except (OSError, ValueError):
            return None
        return size if size is not None and size.columns > 0 else None  # 0: `script` in a job, a new container's pty

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
            self._attempt(lambda stream: self._send(stream.fileno(), data, self._timeout))
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
        timeout = _LAST_WORDS if self.in_haste else max(self._timeout, _LAST_WORDS)
        self._attempt(lambda stream: self._pay(stream.fileno(), self._owed + data, timeout, heeds_haste=False))

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

    def _send(self, descriptor: int, data: bytes, timeout: float) -> None:
        """Write piece by piece as there is room; finish a started line before any other."""
        if not self._owed or _has_room(descriptor, 0):
            self._pay(descriptor, self._owed + data, timeout)

    def _pay(self, descriptor: int, data: bytes, timeout: float, *, heeds_haste: bool = True) -> None:
        rest = memoryview(data)
        while rest and self._waits_for_room(descriptor, timeout, heeds_haste=heeds_haste):
            rest = rest[os.write(descriptor, rest[:_PIECE]) :]
        self._owed = bytes(rest)

    def _waits_for_room(self, descriptor: int, timeout: float, *, heeds_haste: bool) -> bool:
        deadline = time.monotonic() + timeout
        while not _has_room(descriptor, min(_LOOK, timeout)):
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
    """Tell whether the stream becomes writable, or fails, within the time."""
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
    """Before an output. As long as that takes everything there is no thread, and nothing waits."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._turn = threading.Lock()
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._courier: threading.Thread | None = None
        self._has_given_up = False
        """Whether a wait for the reader failed: nobody waits again until it reads on."""

    @property
    def width(self) -> int | None:
        """Columns of the terminal; None for a file or a pipe."""
        return self._output.width

    def write(self, text: str) -> None:
        """Have a text written, now or as soon as there is room for it."""
        self.write_bytes(self._output.encoded(text))

    def write_bytes(self, data: bytes) -> None:
        """The same, for what is encoded already."""
        if self._size > _MOST:
            self._wait_for_room()
        with self._turn:
            if self._size > _MOST:
                return  # it is left out
            if self._waiting or not self._output.offer_bytes(data):
                self._waiting.append(data)
                self._size += len(data)
            if not self._output.settle() and self._courier is None:
                courier = threading.Thread(target=self._deliver, name="relay", daemon=True)
                with contextlib.suppress(RuntimeError):  # the system has no thread left: the next line tries again
                    courier.start()
                    self._courier = courier

    def finish(self) -> None:
        """Wait until all is written, for as long as an output would; in haste a moment. More may come."""
        began = time.monotonic()
        while self._courier is not None:
            if time.monotonic() - began >= (_A_MOMENT if self._output.in_haste else _LAST_READING):
                return
            time.sleep(_ROOM_POLL)

    def _wait_for_room(self) -> None:
        deadline = time.monotonic() + (0.0 if self._has_given_up else _LAST_READING)
        while self._size > _MOST and time.monotonic() < deadline and not self._output.in_haste:
            time.sleep(_ROOM_POLL)
        self._has_given_up = self._size > _MOST

    def _deliver(self) -> None:
        """Write what waits, piece by piece, until nothing does."""
        while self._is_anything_left():
            time.sleep(_ROOM_POLL)

    def _is_anything_left(self) -> bool:
        with self._turn:
            while self._output.settle():
                if not self._waiting:
                    self._courier = None
                    return False
                data = self._waiting.popleft()
                self._size -= len(data)
                self._output.offer_bytes(data)
            return True
