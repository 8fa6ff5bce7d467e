"""Where a live run stands, by its latest events."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from ralph.core.activity import gist
from ralph.core.events import (
    CheckEnded,
    CheckStarted,
    Event,
    IterationEnded,
    IterationStarted,
    RateLimited,
    RunEnded,
    RunStarted,
    SessionEnded,
    SessionStarted,
    SummaryStarted,
    SummaryWritten,
    Tag,
    Text,
    ToolEnd,
    ToolOutput,
    ToolStart,
    Usage,
    Waiting,
)
from ralph.core.text import instant
from ralph.core.usage import Meter

_OPEN_CALLS = 1000
"""Calls that are known by name while they are open, the oldest ones; what an agent begins beyond them is counted."""

_LONGEST_GIST = 400
_UNANNOUNCED = "plain"
"""The transcript of an agent that says nothing of its sessions, and of its work only what it likes."""


@dataclass(frozen=True, slots=True)
class OpenCall:
    """A tool call that is open, and since when."""

    id: str
    tool: str
    about: str
    since: str


@dataclass(frozen=True, slots=True)
class RunStatus:
    """What a run is at, since when (as its events write it), and what it has used so far."""

    doing: str = "in a session"
    since: str = ""
    until: float | None = None
    session: Usage | None = None
    """What the open session has used so far."""
    ended: bool = False
    is_paused: bool = False
    iteration: int | None = None
    calls: tuple[OpenCall, ...] = ()
    more_calls: int = 0
    """Open calls besides those."""
    mood: str = ""
    """What the agent does while no call is open: it thinks or writes."""
    mood_since: str = ""
    meter: Meter = field(default_factory=Meter)
    """What all sessions have used that the events told of, and how full the context of the open one is."""
    quota: RateLimited | None = None
    """What was last said of the account's quota, if it is nearly or wholly used up."""
    announces: bool = True
    """Whether the agent says that its session has begun."""

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for a time that it would also be woken before."""
        return self.until is not None

    @property
    def tool(self) -> str:
        """The tool of the oldest call that is not done yet: agents that call one after the other are at that one."""
        return self.calls[0].tool if self.calls else ""

    @property
    def activity(self) -> tuple[str, str]:
        """What goes on right now, in a few words, and since when."""
        if self.calls:
            call, others = self.calls[0], len(self.calls) - 1 + self.more_calls
            return f"{call.tool} {call.about}".strip() + (f" (and {others:,} more)" if others else ""), call.since
        if self.more_calls:
            return f"{self.more_calls:,} call{'' if self.more_calls == 1 else 's'}", self.mood_since
        return (self.mood, self.mood_since) if self.mood else (self.doing, self.since)

    def after(self, event: Event, at: str) -> "RunStatus":
        match event:
            case RunStarted():
                begun = RunStatus("beginning", at, iteration=event.iteration or None)
                return replace(begun, meter=self.meter.next_session(), announces=event.transcript != _UNANNOUNCED)
            case IterationStarted():
                return replace(self._at("in a session", at, self._opening), iteration=event.iteration)._in_session()
            case SummaryStarted():
                return self._at("in a session that condenses older iterations", at, self._opening)._in_session()
            case SessionStarted():
                return replace(self._thinks(at), since=self.since or at)
            case Text(tag=Tag.AI):
                return replace(self, mood="writing", mood_since=at)
            case Text(tag=Tag.THINK):
                return self if self.mood == "thinking" else self._thinks(at)
            case ToolStart():
                if len(self.calls) >= _OPEN_CALLS:
                    return replace(self, more_calls=self.more_calls + 1)
                call = OpenCall(event.id, event.name, gist(event.input)[:_LONGEST_GIST], at)
                return replace(self, calls=(*self.calls, call))
            case ToolEnd():
                rest = tuple(call for call in self.calls if call.id != event.id)
                more = self.more_calls - (len(rest) == len(self.calls))
                return replace(self, calls=rest, more_calls=max(0, more), mood="thinking", mood_since=at)
            case Usage():
                return replace(self, session=event, meter=self.meter.metered(event))
            case RateLimited():
                return replace(self, quota=None if event.status == "allowed" else event)
            case SessionEnded():
                return replace(self, doing="finishing a session", since=at, calls=(), more_calls=0, mood="")
            case IterationEnded(verdict="DONE") | CheckStarted():
                return self._at("checking", at)
            case IterationEnded() | SummaryWritten() | CheckEnded():
                return self._at("between sessions", at)
            case Waiting(until=None):
                return replace(self._at(event.reason, at), is_paused=True)
            case Waiting():
                return replace(self._at("waiting", at), until=event.until)
            case RunEnded():
                return replace(self._at(f"ended: {event.reason}", at), ended=True)
            case _:
                return self

    def _at(self, doing: str, at: str, mood: str = "") -> "RunStatus":
        """The next stretch of the run has begun; what it has used stands. What was waited for is thought to be over."""
        is_waited_for = self.is_waiting and self.quota is not None and self.quota.status == "rejected"
        return RunStatus(
            doing,
            at,
            iteration=self.iteration,
            announces=self.announces,
            mood=mood,
            mood_since=at,
            meter=self.meter,
            quota=None if is_waited_for else self.quota,
        )

    @property
    def _opening(self) -> str:
        """What is said of a session until it tells of itself."""
        return "starting" if self.announces else "at work"

    def _in_session(self) -> "RunStatus":
        return replace(self, meter=self.meter.next_session())

    def _thinks(self, at: str) -> "RunStatus":
        return replace(self, mood="thinking", mood_since=at)


def standing(stamped: Iterable[tuple[Event, str]]) -> RunStatus:
    """Fold the latest events; of a session so busy that none of them begins it, it is known that it goes on."""
    stands = RunStatus()
    for event, at in stamped:
        stands = stands.after(event, at)
    return stands


class StatusFold:
    """The same fold for who takes in every event and looks now and then: most of what is past by then costs little."""

    def __init__(self, stands: RunStatus) -> None:
        self._stands = stands
        self._meter = stands.meter
        self._used: Usage | None = None
        self._begun: dict[str, tuple[ToolStart, str]] = {}
        """Calls that have begun since the last look and are open."""
        self._mood: tuple[Text | ToolEnd, str] | None = None

    @property
    def stands(self) -> RunStatus:
        """Where the run stands now."""
        stands = self._stands
        if self._used is not None:
            stands = replace(stands, session=self._used, meter=self._meter)
        for event, at in [*([] if self._mood is None else [self._mood]), *self._begun.values()]:
            stands = stands.after(event, at)
        self._stands, self._used, self._mood = stands, None, None
        self._begun.clear()
        return stands

    def take(self, event: Event, at: str) -> None:
        match event:
            case ToolOutput():
                pass
            case ToolStart() if len(self._begun) < _OPEN_CALLS and not self._is_open(event.id):
                self._begun[event.id] = event, at
            case ToolEnd() if self._begun.pop(event.id, None) is not None:
                self._mood = event, at
            case Text(tag=Tag.THINK) if self._mood is not None and getattr(self._mood[0], "tag", None) is not Tag.AI:
                pass  # it thinks already
            case Text():
                if event.tag is Tag.AI or event.tag is Tag.THINK:
                    self._mood = event, at
            case Usage():
                self._used, self._meter = event, self._meter.metered(event)
            case _:
                self._stands = self.stands.after(event, at)
                self._meter = self._stands.meter

    def _is_open(self, call_id: str) -> bool:
        calls = self._stands.calls
        return call_id in self._begun or (bool(calls) and any(call.id == call_id for call in calls))


_TELLING = {
    ToolStart, ToolEnd, IterationStarted, SummaryStarted, SessionEnded, CheckStarted, CheckEnded, Waiting,
    RunEnded,
}  # fmt: skip
_TIMED_CALLS = 1000
"""Calls that are waited for: an agent may begin them without end."""


@dataclass(slots=True)
class TimeSpent:
    """Seconds of each. Calls at the same time count once; what a session takes besides its calls is the model's."""

    tools: float = 0.0
    check: float = 0.0
    waiting: float = 0.0
    _sessions: float = 0.0
    _session_began: float | None = None
    _calls_began: float | None = None
    _wait_began: float | None = None
    _check_began: float | None = None
    _open: set[str] | None = None

    @property
    def model(self) -> float:
        """What sessions took, the start of the agent included, while no call was open."""
        return max(0.0, self._sessions - self.tools)

    def __call__(self, events: Sequence[Event], at: str, _lines: bytes = b"") -> None:
        """Take in events of one moment."""
        telling = [event for event in events if type(event) in _TELLING]
        if telling and (now := instant(at)) is not None:
            for event in telling:
                self._take(event, now)

    def _take(self, event: Event, now: float) -> None:
        if self._wait_began is not None:
            self.waiting += max(0.0, now - self._wait_began)
            self._wait_began = None
        match event:
            case IterationStarted() | SummaryStarted():
                self._session_began = now
            case ToolStart():
                self._call_begins(event.id, now)
            case ToolEnd():
                self._call_ends(event.id, now)
            case SessionEnded():
                self._end_session(now)
            case CheckStarted():
                self._check_began = now
            case CheckEnded():
                self.check += event.seconds
                self._check_began = None
            case RunEnded():
                self._end_session(now)
                if self._check_began is not None:  # it was cut off
                    self.check += max(0.0, now - self._check_began)
            case Waiting():
                self._wait_began = now
            case _:
                pass

    def _call_begins(self, call: str, now: float) -> None:
        self._open = self._open or set()
        if not self._open:
            self._calls_began = now
        if len(self._open) < _TIMED_CALLS:
            self._open.add(call)

    def _call_ends(self, call: str, now: float) -> None:
        if self._open:
            self._open.discard(call)
            if not self._open:
                self._end_calls(now)

    def _end_calls(self, now: float) -> None:
        if self._calls_began is not None:
            self.tools += max(0.0, now - self._calls_began)
        self._calls_began, self._open = None, None

    def _end_session(self, now: float) -> None:
        self._end_calls(now)
        if self._session_began is not None:
            self._sessions += max(0.0, now - self._session_began)
        self._session_began = None
