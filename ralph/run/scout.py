"""A scout's pass: one session that reads the repository and answers with a map of it; failures go by the table."""

import random
from dataclasses import dataclass
from typing import Protocol

from ralph.core.events import Tag, Text
from ralph.core.failures import Again, Blocked, Failed, Finished, Limited, Tries, decide
from ralph.core.verdict import Reply, Verdict, without_promise
from ralph.run.session import Observer, SessionReport
from ralph.system.clock import VisibleWait


class ScoutSessions(Protocol):
    """A scout, and the tree that it reads."""

    @property
    def reply(self) -> Reply: ...
    @property
    def written_map(self) -> str:
        """The map, if the session has written it to its place by itself; else empty."""
        ...

    def survey(self) -> SessionReport:
        """Run one session."""
        ...

    def renew(self) -> None:
        """Give the next session a tree that no session has changed."""
        ...

    def woken(self) -> bool:
        """Tell whether the user will not wait any longer."""
        ...


@dataclass(frozen=True, slots=True)
class Survey:
    """What a pass came to: a map, or the exit code and the reason why there is none."""

    map: str
    exit_code: int = 0
    reason: str = "done"
    hint: str = ""


def scout(sessions: ScoutSessions, observe: Observer, clock: VisibleWait) -> Survey:
    """Hold sessions until one has drawn a map, or the failure table says that none will."""
    tries = Tries()
    while True:
        report = sessions.survey()
        clock.leave_if_interrupted()
        jitter = random.random()  # noqa: S311 - so that not all who wait come back at once
        match decide(report.ending, tries, now=clock.now(), jitter=jitter):
            case Finished():
                drawn = sessions.written_map or _map_in(report, sessions.reply)
                return Survey(drawn) if drawn else Survey("", 1, "the scout ended without a map")
            case Again(reason, tries, not_before):
                observe(Text(Tag.SYS, f"session ended: {reason} (raw log: {report.log})"))
                if not_before is not None:
                    clock.wait(reason, not_before, sessions.woken, end=report.ending.end)
                sessions.renew()
            case Failed(reason) | Limited(reason):
                return Survey("", 1, f"{reason} (raw log: {report.log})")
            case Blocked(reason, hint):
                return Survey("", 6, f"blocked: {reason}", hint)


def _map_in(report: SessionReport, reply: Reply) -> str:
    """The answer, whole: of one in words the summary is only the end. A bare claim is no map."""
    answer = report.ending.answer
    if answer is None or answer.verdict is Verdict.BLOCKED or answer.summary == "DONE":
        return ""
    return without_promise(report.text) if reply == Reply.WORDS else answer.summary
