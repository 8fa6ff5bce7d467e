"""Programs that are sent off with a few words on stdin, beside all else: nobody waits for them, nobody hears them."""

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ralph.process.starting import deaf_to_ctrl_z

_AT_ONCE = 4
_SOON = 1.0
"""Seconds in which what was killed is gone."""


@dataclass(slots=True)
class Errands:
    """Sends one program off, again and again, each time in a thread and a process group of its own."""

    argv: Sequence[str]
    environment: Mapping[str, str]
    limit: float
    """Seconds after which it is ended, with all that it started and that stayed in its group."""
    failed: Callable[[str], None]
    """Told why an errand failed; called in its thread, if it has one."""
    _threads: list[threading.Thread] = field(default_factory=list[threading.Thread])
    _room: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(_AT_ONCE))
    _over: threading.Event = field(default_factory=threading.Event)

    def send(self, said: bytes) -> None:
        """Send it off with these words; return at once."""
        thread = threading.Thread(target=self._run, args=(said,), name="errand", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # the machine has no room for it; whoever sends must not suffer
            self.failed(f"it cannot be started: {error}")
            return
        self._threads = [each for each in self._threads if each.is_alive()] + [thread]

    def close(self, patience: float) -> None:
        """Give those under way so many seconds to end, then end them."""
        deadline = time.monotonic() + patience
        try:
            for thread in self._threads:
                thread.join(max(deadline - time.monotonic(), 0.0))
        finally:  # also where somebody does not want to wait
            self._over.set()
            for thread in self._threads:
                thread.join(_SOON)

    def _run(self, said: bytes) -> None:
        with self._room:
            if self._over.is_set():
                self.failed("there was no time left for it")
                return
            try:
                with deaf_to_ctrl_z():
                    program = subprocess.Popen(
                        self.argv, cwd=Path("/"), env=self.environment, stdin=subprocess.PIPE,
                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
                    )  # fmt: skip
            except (OSError, ValueError) as error:  # ValueError: a NUL in an argument
                self.failed(f"it cannot be started: {getattr(error, 'strerror', None) or error}")
                return
            with program:
                why = self._see_off(program, said)
                # Also after a good end: what it left in the background is not for us to keep.
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(program.pid, signal.SIGKILL)
            if why:
                self.failed(why)

    def _see_off(self, program: "subprocess.Popen[bytes]", said: bytes) -> str:
        """Hand the words over and wait; say what went wrong, if anything did."""
        deadline = time.monotonic() + self.limit
        asked: bytes | None = said
        while True:
            try:
                program.communicate(asked, timeout=0.1)
            except subprocess.TimeoutExpired:
                asked = None  # it remembers them
                if self._over.is_set() or time.monotonic() > deadline:
                    return (
                        "it had not ended when ralph did" if self._over.is_set() else f"it took over {self.limit:g} s"
                    )
                continue
            status = program.returncode
            return "" if status == 0 else f"killed by signal {-status}" if status < 0 else f"it ended with {status}"
