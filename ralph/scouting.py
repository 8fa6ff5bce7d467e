"""A scout's pass: one session that reads the repository and answers with a map of it; failures go by the table."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from ralph.errors import Interrupted
from ralph.events import Event, Tag, Text, Waiting
from ralph.failures import Again, Blocked, Failed, Finished, Tries, decide
from ralph.runners import Request
from ralph.session import Logs, SessionKit, SessionReport, hold_session
from ralph.verdict import Reply, Verdict, without_promise


class Undone(Protocol):
    @property
    def deeds(self) -> Sequence[str]: ...
    @property
    def drawn(self) -> str:
        """The map, if the session has written it to its place by itself; else empty."""
        ...


@dataclass(frozen=True, slots=True)
class ScoutKit:
    """The collaborators of a pass, built by the command line."""

    session: SessionKit
    request: Callable[[str], Request]
    """The request for a session with this id."""
    open_logs: Callable[[], Logs]
    undo: Callable[[], Undone]
    """Undo what a session changed; say what that was."""
    observe: Callable[[Event], None]
    now: Callable[[], float]
    sleep: Callable[[float], None]
    random: Callable[[], float]
    new_id: Callable[[], str]
    interrupted: Callable[[], int | None]


@dataclass(frozen=True, slots=True)
class Survey:
    """What a pass came to: a map, or the exit code and the reason why there is none."""

    map: str
    exit_code: int = 0
    reason: str = "done"
    hint: str = ""


def scout(kit: ScoutKit) -> Survey:
    """Hold sessions until one has drawn a map, or the failure table says that none will."""
    tries = Tries()
    while True:
        report = hold_session(kit.request(kit.new_id()), kit.open_logs(), kit.session)
        undone = kit.undo()
        for deed in undone.deeds:
            kit.observe(Text(Tag.SYS, f"the scout {deed}"))
        _leave_if_interrupted(kit)
        match decide(report.ending, tries, now=kit.now(), jitter=kit.random()):
            case Finished():
                drawn = undone.drawn or _map_in(report, kit.session.runner.reply)
                return Survey(drawn) if drawn else Survey("", 1, "the scout ended without a map")
            case Again(reason, tries, not_before):
                kit.observe(Text(Tag.SYS, f"session ended: {reason} (raw log: {report.log})"))
                if not_before is not None:
                    _wait(reason, not_before, kit)
            case Failed(reason):
                return Survey("", 1, f"{reason} (raw log: {report.log})")
            case Blocked(reason, hint):
                return Survey("", 6, f"blocked: {reason}", hint)


def _map_in(report: SessionReport, reply: Reply) -> str:
    """The answer, whole: of one in words the summary is only the end. A bare claim is no map."""
    answer = report.ending.answer
    if answer is None or (answer.verdict is Verdict.DONE and answer.summary == "DONE"):
        return ""
    return without_promise(report.text) if reply == Reply.WORDS else answer.summary


def _wait(reason: str, until: float, kit: ScoutKit) -> None:
    kit.observe(Waiting(reason, until))
    while (left := until - kit.now()) > 0:
        _leave_if_interrupted(kit)
        kit.sleep(min(left, 0.2))


def _leave_if_interrupted(kit: ScoutKit) -> None:
    if (number := kit.interrupted()) is not None:
        raise Interrupted(number)
