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
_FAILED = (1, 2, 3, 5)


@dataclass(slots=True)
class BackgroundPrograms:
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
            return "" if status == 0 else exit_words(status) if status < 0 else f"it ended with {status}"


class Occasion(StrEnum):
    """What people want to know of when they are away."""

    DONE = "done"
    STUCK = "stuck"
    """It needs a person: failed, stalled, or a bug of ralph's."""
    BLOCKED = "blocked"
    """It cannot go on before a person has done something: login, billing, a permission."""
    QUOTA = "quota"
    """It waits for the account's quota, and goes on by itself."""
    BUDGET = "budget"
    """A limit that the user has set was reached."""


_BY_EXIT_CODE = {0: Occasion.DONE, 4: Occasion.BUDGET, 6: Occasion.BLOCKED}


def occasion_of(exit_code: int) -> Occasion | None:
    """What the end of a run is to someone who is away; None: it was stopped, so somebody is there."""
    return _BY_EXIT_CODE.get(exit_code) or (Occasion.STUCK if exit_code in _FAILED else None)


@dataclass(frozen=True, slots=True)
class Notice:
    """What the command is told."""

    event: Occasion
    at: float
    text: str
    goal: str = ""
    """Its name; empty where it is about a queue as a whole."""
    title: str = ""
    repo: str = ""
    exit_code: int | None = None
    cost_usd: float | None = None
    run: str = ""
    id: str = ""
    """The goal's in its queue."""
    next: str = ""
    """What to do about it: a command, or words that hold one."""

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
    """Has the user's command told; nobody waits for it, and the first time that it fails is remembered."""

    def __init__(self, command: Sequence[str], *, env: Mapping[str, str], workplace: Path) -> None:
        """`workplace` is where agents write: no program there is taken for the user's."""
        self.fault = ""
        """Why the command failed, when it first did."""
        self._command = command
        self._errands: BackgroundPrograms | None = None
        if command:
            path = outside(env.get("PATH", os.defpath), workplace) or os.defpath
            environment = {**env, "PATH": path, **loading_outside(env, workplace)}
            self._errands = BackgroundPrograms(command, environment, LIMIT, self._failed)

    def tell(self, notice: Notice) -> None:
        if self._errands is not None:
            self._errands.send(notice.encode())

    def close(self) -> str:
        """Wait a moment for what is under way; return what the user should know, if anything went wrong."""
        if self._errands is not None:
            self._errands.close(LAST_MOMENT)
        return f"a notification was not sent by `{self._command[0]}` (notify): {self.fault}" if self.fault else ""

    def _failed(self, why: str) -> None:
        self.fault = self.fault or why
