"""Notifications: the user's command runs in the background with a JSON object on stdin. Its failure stops nothing."""

import contextlib
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from ralph.core import ndjson
from ralph.core.errors import ExitCode
from ralph.core.text import exit_words, timestamp
from ralph.system.programs import deaf_to_ctrl_z, loading_outside, outside

_AT_ONCE = 4
_SOON = 1.0
"""Seconds in which what was killed is gone."""

LIMIT = 20.0
"""Seconds that the command may take."""

LAST_MOMENT = 10.0
"""Seconds that those under way have when ralph is through."""
VERSION = 1
_LONGEST = 2_000
_FAILED = (ExitCode.FAILED, ExitCode.USAGE, ExitCode.BUG, ExitCode.STALLED)


@dataclass(slots=True)
class BackgroundPrograms:
    """Sends one program off, again and again, each time in a thread and a process group of its own."""

    argv: Sequence[str]
    environment: Mapping[str, str]
    limit: float
    """Seconds after which it is ended, with all that it started and that stayed in its group."""
    failed: Callable[[str], None]
    """Gets the reason of a failure; called in the thread, if there is one."""
    _threads: list[threading.Thread] = field(default_factory=list[threading.Thread])
    _room: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(_AT_ONCE))
    _over: threading.Event = field(default_factory=threading.Event)

    def send(self, said: bytes) -> None:
        """Send it off with these words; return at once."""
        thread = threading.Thread(target=self._run, args=(said,), name="errand", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # no resources for it; the sender must not fail
            self.failed(f"cannot start it: {error}")
            return
        self._threads = [each for each in self._threads if each.is_alive()] + [thread]

    def close(self, timeout: float) -> None:
        """Give those under way so many seconds to end, then end them."""
        deadline = time.monotonic() + timeout
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
                self.failed("ralph ended before it could run")
                return
            try:
                with deaf_to_ctrl_z():
                    program = subprocess.Popen(
                        self.argv, cwd=Path("/"), env=self.environment, stdin=subprocess.PIPE,
                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
                    )  # fmt: skip
            except (OSError, ValueError) as error:  # ValueError: a NUL in an argument
                self.failed(f"cannot start it: {getattr(error, 'strerror', None) or error}")
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
                        "it was still running when ralph ended"
                        if self._over.is_set()
                        else f"it took longer than {self.limit:g} s"
                    )
                continue
            status = program.returncode
            return "" if status == 0 else exit_words(status) if status < 0 else f"exit code {status}"


class Occasion(StrEnum):
    """Events that the user wants to know about when away."""

    DONE = "done"
    STUCK = "stuck"
    """It needs a person: failed, stalled, or a bug in ralph."""
    BLOCKED = "blocked"
    """It cannot continue before a person acts: login, billing, a permission."""
    QUOTA = "quota"
    """It waits for the account's quota, and continues by itself."""
    BUDGET = "budget"
    """A limit that the user has set was reached."""


_BY_EXIT_CODE: Mapping[int, Occasion] = {
    ExitCode.DONE: Occasion.DONE,
    ExitCode.LIMIT: Occasion.BUDGET,
    ExitCode.BLOCKED: Occasion.BLOCKED,
}


def occasion_of(exit_code: int) -> Occasion | None:
    """Return the occasion for the end of a run; None if the user stopped it and is present."""
    return _BY_EXIT_CODE.get(exit_code) or (Occasion.STUCK if exit_code in _FAILED else None)


@dataclass(frozen=True, slots=True)
class Notice:
    """The message to the command."""

    event: Occasion
    at: float
    text: str
    goal: str = ""
    """Its name; empty for a queue as a whole."""
    title: str = ""
    repo: str = ""
    exit_code: int | None = None
    cost_usd: float | None = None
    run: str = ""
    id: str = ""
    """The goal's in its queue."""
    next: str = ""
    """What to do about it: a command, or text with one."""

    def encode(self) -> bytes:
        """One line of JSON; the keys are always the same."""
        return ndjson.encode_line(
            {
                "version": VERSION,
                "event": self.event,
                "at": timestamp(self.at),
                "host": socket.gethostname(),
                "goal": self.goal,
                "title": self.title[:_LONGEST],
                "repo": self.repo,
                "text": self.text[:_LONGEST],
                "exit_code": self.exit_code,
                "cost_usd": self.cost_usd,
                "run": self.run,
                "id": self.id,
                "next": self.next[:_LONGEST],
            }
        )


class Notifier:
    """Runs the user's notification command in the background, and remembers its first failure."""

    def __init__(self, command: Sequence[str], *, env: Mapping[str, str], repo_root: Path) -> None:
        """`repo_root` is where agents write: a program there is never used as the user's."""
        self.fault = ""
        """Why the command failed, when it first did."""
        self._command = command
        self._errands: BackgroundPrograms | None = None
        if command:
            path = outside(env.get("PATH", os.defpath), repo_root) or os.defpath
            environment = {**env, "PATH": path, **loading_outside(env, repo_root)}
            self._errands = BackgroundPrograms(command, environment, LIMIT, self._failed)

    def tell(self, notice: Notice) -> None:
        if self._errands is not None:
            self._errands.send(notice.encode())

    def close(self) -> str:
        """Wait a moment for what is under way; return what the user should know, if anything went wrong."""
        if self._errands is not None:
            self._errands.close(LAST_MOMENT)
        return f"cannot send a notification with `{self._command[0]}`: {self.fault}" if self.fault else ""

    def _failed(self, why: str) -> None:
        self.fault = self.fault or why
