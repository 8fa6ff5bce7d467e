"""Where a live run stands, by its latest events."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from ralph.events import (
    CheckEnded,
    Event,
    IterationEnded,
    IterationStarted,
    RunEnded,
    RunStarted,
    SessionEnded,
    SessionStarted,
    SummaryStarted,
    SummaryWritten,
    ToolEnd,
    ToolStart,
    Usage,
    Waiting,
)


@dataclass(frozen=True, slots=True)
class Standing:
    """What a run is at, since when (as its events write it), and what its open session has used so far."""

    doing: str = "in a session"
    since: str = ""
    until: float | None = None
    tool: str = ""
    session: Usage | None = None
    ended: bool = False

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for a time that it would also be woken before."""
        return self.until is not None

    def after(self, event: Event, at: str) -> "Standing":
        match event:
            case RunStarted():
                return Standing("beginning", at)
            case IterationStarted():
                return Standing("in a session", at)
            case SummaryStarted():
                return Standing("in a session that condenses older iterations", at)
            case SessionStarted():
                return replace(self, since=self.since or at)
            case ToolStart():
                return replace(self, tool=event.name)
            case ToolEnd():
                return replace(self, tool="")
            case Usage():
                return replace(self, session=event)
            case SessionEnded():
                return replace(self, doing="finishing a session", since=at, tool="")
            case IterationEnded(verdict="DONE"):
                return Standing("proving that it is done", at)
            case IterationEnded() | SummaryWritten() | CheckEnded():
                return Standing("between sessions", at)
            case Waiting():
                return Standing(event.reason if event.until is None else "waiting", at, event.until)
            case RunEnded():
                return Standing(f"ended: {event.reason}", at, ended=True)
            case _:
                return self


def standing(stamped: Iterable[tuple[Event, str]]) -> Standing:
    """Fold the latest events; of a session so busy that none of them begins it, it is known that it goes on."""
    stands = Standing()
    for event, at in stamped:
        stands = stands.after(event, at)
    return stands
