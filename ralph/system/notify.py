"""Telling someone who is away: a command of the user's gets a JSON object on stdin. Whether it works never matters."""

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from ralph.core import ndjson
from ralph.core.text import timestamp
from ralph.process.errands import Errands
from ralph.searchpath import loading_outside, outside

LIMIT = 20.0
"""Seconds that the command may take."""

LAST_MOMENT = 10.0
"""Seconds that those under way have when ralph is through."""

VERSION = 1
_LONGEST = 2_000


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
_FAILED = (1, 2, 3, 5)


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
        self._errands: Errands | None = None
        if command:
            path = outside(env.get("PATH", os.defpath), workplace) or os.defpath
            environment = {**env, "PATH": path, **loading_outside(env, workplace)}
            self._errands = Errands(command, environment, LIMIT, self._failed)

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
