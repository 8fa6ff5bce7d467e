"""A scout's pass: one session that reads the repository and returns a map of it; the failure table applies."""

import random
from dataclasses import dataclass
from typing import Protocol

from ralph.core.errors import ExitCode
from ralph.core.events import Tag, Text
from ralph.core.failures import Again, Blocked, Failed, Finished, Limited, Tries, decide
from ralph.core.verdict import Reply, Verdict, without_promise
from ralph.run.session import Observer, SessionReport
from ralph.system.clock import VisibleWait


class ScoutSessions(Protocol):
    """Runs scout sessions on a copy of the tree."""

    @property
    def reply(self) -> Reply: ...
    @property
    def written_map(self) -> str:
        """Return the map if the session wrote it to its place itself; else empty."""
        ...

    def survey(self) -> SessionReport:
        """Run one session."""
        ...

    def renew(self) -> None:
        """Give the next session an unchanged tree."""
        ...

    def woken(self) -> bool:
        """Tell whether the user has ended the wait."""
        ...


@dataclass(frozen=True, slots=True)
class Survey:
    """The result of a pass: a map, or an exit code and a reason."""

    map: str
    exit_code: int = ExitCode.DONE
    reason: str = "done"
    hint: str = ""


def scout(sessions: ScoutSessions, observe: Observer, clock: VisibleWait) -> Survey:
    """Run sessions until one returns a map, or the failure table says to stop."""
    tries = Tries()
    while True:
        report = sessions.survey()
        clock.leave_if_interrupted()
        jitter = random.random()  # noqa: S311 - so that waiting runs don't all retry at once
        match decide(report.ending, tries, now=clock.now(), jitter=jitter):
            case Finished():
                drawn = sessions.written_map or _map_in(report, sessions.reply)
                return Survey(drawn) if drawn else Survey("", ExitCode.FAILED, "the scout ended without a map")
            case Again(reason, tries, not_before):
                observe(Text(Tag.SYS, f"session ended: {reason} (raw log: {report.log})"))
                if not_before is not None:
                    clock.wait(reason, not_before, sessions.woken, end=report.ending.end)
                sessions.renew()
            case Failed(reason) | Limited(reason):
                return Survey("", ExitCode.FAILED, f"{reason} (raw log: {report.log})")
            case Blocked(reason, hint, again):
                todo = f"{hint}, then run the same command again" if again else hint
                return Survey("", ExitCode.BLOCKED, f"blocked: {reason}", todo)


def _map_in(report: SessionReport, reply: Reply) -> str:
    """Return the whole answer (the summary of an answer in words is only its end); a bare claim is not a map."""
    answer = report.ending.answer
    if answer is None or answer.verdict is Verdict.BLOCKED or answer.is_bare:
        return ""
    return without_promise(report.text) if reply == Reply.WORDS else answer.summary
