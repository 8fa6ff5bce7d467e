"""Lines for a reader who may stop reading: whoever writes them goes on, and what is unread waits in memory.

A run writes its lines, and watches its limits, in one thread: `| less`, left alone, must not hold that up.
"""

import contextlib
import threading
import time
from collections import deque

from ralph.ui.outlet import Outlet

_MOST = 8 << 20
"""Bytes that wait, more than a run says in an hour; beyond that whoever writes waits, as long as an outlet would."""
_PATIENCE, _A_MOMENT = 60.0, 2.0
"""Seconds that a reader has at the end; the second, if the user wants that now: who reads takes no longer."""
_LOOK = 0.05
"""Seconds between two looks whether there is room."""


class Relay:
    """Before an outlet. As long as that takes everything there is no thread, and nothing waits."""

    def __init__(self, outlet: Outlet) -> None:
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
            if time.monotonic() - began >= (_A_MOMENT if self._outlet.in_haste else _PATIENCE):
                return
            time.sleep(_LOOK)

    def _wait_for_room(self) -> None:
        deadline = time.monotonic() + (0.0 if self._has_given_up else _PATIENCE)
        while self._size > _MOST and time.monotonic() < deadline and not self._outlet.in_haste:
            time.sleep(_LOOK)
        self._has_given_up = self._size > _MOST

    def _deliver(self) -> None:
        """Write what waits, piece by piece, until nothing does."""
        while self._is_anything_left():
            time.sleep(_LOOK)

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
