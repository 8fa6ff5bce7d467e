"""A scout's pass: one session that reads the repository and answers with a map of it; failures go by the table."""

from collections.abc import Callable
from dataclasses import dataclass

from ralph.agents.base import Request
from ralph.core.events import Event, Tag, Text
from ralph.core.failures import Again, Blocked, Failed, Finished, Limited, Tries, decide
from ralph.core.verdict import Reply, Verdict, without_promise
from ralph.run.session import Logs, SessionKit, SessionReport, run_session
from ralph.system.clock import VisibleWait


@dataclass(frozen=True, slots=True)
class ScoutKit:
    """The collaborators of a pass, built by the command line."""

    session: SessionKit
    request: Callable[[str], Request]
    """The request for a session with this id."""
    open_logs: Callable[[], Logs]
    written_map: Callable[[], str]
    """The map, if the session has written it to its place by itself; else empty."""
    renew: Callable[[], object]
    """Give the next session a tree that no session has changed."""
    observe: Callable[[Event], None]
    patience: VisibleWait
    woken: Callable[[], bool]
    """Whether the user will not wait any longer."""
    random: Callable[[], float]
    new_id: Callable[[], str]


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
        report = run_session(kit.request(kit.new_id()), kit.open_logs(), kit.session)
        kit.patience.leave_if_interrupted()
        match decide(report.ending, tries, now=kit.patience.now(), jitter=kit.random()):
            case Finished():
                drawn = kit.written_map() or _map_in(report, kit.session.runner.reply)
                return Survey(drawn) if drawn else Survey("", 1, "the scout ended without a map")
            case Again(reason, tries, not_before):
                kit.observe(Text(Tag.SYS, f"session ended: {reason} (raw log: {report.log})"))
                if not_before is not None:
                    kit.patience.wait(reason, not_before, kit.woken)
                kit.renew()
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
