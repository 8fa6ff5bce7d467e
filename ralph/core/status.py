"""THE fold of a run's events: what the run has used, where its time went, what it is doing and which calls are open.

Everything that needs one of these feeds events to a `StatusFold`; nothing else adds them up.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from ralph.core.activity import gist
from ralph.core.events import (
    AgentChanged,
    ApiRetry,
    CheckEnded,
    CheckStarted,
    Compacted,
    Event,
    Guided,
    IterationEnded,
    IterationStarted,
    Meta,
    QuotaStatus,
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
    TurnEnded,
    Usage,
    Waiting,
)
from ralph.core.text import instant, plural
from ralph.core.usage import Meter, Spend
from ralph.core.verdict import Verdict

_OPEN_CALLS = 1000
"""Open calls to keep by name, the oldest; further ones are only counted."""

_WHOLE_CALLS = 8
"""Open calls to keep with all their input until they are shown: most end earlier."""

_LONGEST_GIST = 400
_UNANNOUNCED = "plain"
"""The transcript of an agent that reports no sessions and only parts of its work."""


@dataclass(frozen=True, slots=True)
class OpenCall:
    """An open tool call and its start."""

    id: str
    tool: str
    about: str
    since: str


@dataclass(frozen=True, slots=True)
class RunStatus:
    """What a run does, since when (as in its events), and what it has used so far."""

    doing: str = "in a session"
    since: str = ""
    until: float | None = None
    session: Usage | None = None
    """What the open session has used so far."""
    ended: bool = False
    is_paused: bool = False
    is_checking: bool = False
    """Whether the check is running."""
    iteration: int | None = None
    calls: tuple[OpenCall, ...] = ()
    more_calls: int = 0
    """The number of further open calls."""
    mood: str = ""
    """What the agent does without an open call: it thinks or writes."""
    mood_since: str = ""
    meter: Meter = field(default_factory=Meter)
    """The usage of all sessions in the events, and how full the context of the open one is."""
    quota: RateLimited | None = None
    """The last report about the account's quota, if it is nearly or fully used up."""
    stand_in: str = ""
    """The agent that works while the quota of the one that the user wants is used up; empty: that one works."""

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for a time, which the user can cut short."""
        return self.until is not None

    @property
    def tool(self) -> str:
        """The tool of the oldest open call, which an agent with sequential calls is running."""
        return self.calls[0].tool if self.calls else ""

    @property
    def activity(self) -> tuple[str, str]:
        """Describe the current activity in a few words, and since when."""
        if self.calls:
            call, others = self.calls[0], len(self.calls) - 1 + self.more_calls
            return f"{call.tool} {call.about}".strip() + (f" (and {others:,} more)" if others else ""), call.since
        if self.more_calls:
            return plural(self.more_calls, "call"), self.mood_since
        return (self.mood, self.mood_since) if self.mood else (self.doing, self.since)


@dataclass(frozen=True, slots=True)
class TimeSpent:
    """Seconds of each. Calls at the same time count once."""

    model: float = 0.0
    """Seconds of sessions without an open call, including the agent's start."""
    tools: float = 0.0
    check: float = 0.0
    waiting: float = 0.0


def status_of(stamped: Iterable[tuple[Event, str]]) -> RunStatus:
    """Fold the latest events; they may begin in the middle of a busy session."""
    fold = StatusFold()
    for event, at in stamped:
        fold.take(event, at)
    return fold.status


_PASSED_OVER = frozenset({ToolOutput, Meta, TurnEnded, ApiRetry, Compacted, Guided})
"""Events that change nothing here; a busy agent sends thousands of the first two."""


class StatusFold:
    """Reads every event of a run. A busy agent sends thousands a second, and the status is rarely needed.

    So reading an event sets a few attributes, and `status` is built on demand.
    """

    def __init__(self, doing: str = "in a session", *, spent: Spend | None = None) -> None:
        """`spent` is what the run has used before the first event."""
        self.meter = Meter(before=spent or Spend())
        self.last_end = ""
        """The row of the failure table that the last session ended with; empty before the first."""
        self._clock = _Clock()
        self._stands: RunStatus | None = None
        self._iteration: int | None = None
        self._quota: RateLimited | None = None
        self._stand_in = ""
        self._announces = True
        """Whether the agent reports the start of its session."""
        self._until: float | None = None
        self._session: Usage | None = None
        self._more_calls = 0
        self._calls: dict[str, OpenCall | tuple[ToolStart, str]] = {}
        self._begin(doing, "")

    @property
    def status(self) -> RunStatus:
        """Where the run stands now."""
        if self._stands is None:
            for call_id, call in self._calls.items():
                if isinstance(call, tuple):
                    self._calls[call_id] = _open_call(*call)
            self._stands = RunStatus(
                self._doing,
                self._since,
                self._until,
                self._session,
                self._ended,
                self._is_paused,
                self._is_checking,
                self._iteration,
                tuple(call for call in self._calls.values() if isinstance(call, OpenCall)),
                self._more_calls,
                self._mood,
                self._mood_since,
                self.meter,
                self._quota,
                self._stand_in,
            )
        return self._stands

    @property
    def times(self) -> TimeSpent:
        """Return where the time went until now."""
        clock = self._clock
        return TimeSpent(max(0.0, clock.sessions - clock.tools), clock.tools, clock.check, clock.waiting)

    def next_session(self) -> None:
        """Close the open session if no event reports the start of the next one."""
        self.meter, self._stands = self.meter.next_session(), None

    def take(self, event: Event, at: str) -> None:
        """Read an event and its time."""
        if type(event) in _PASSED_OVER:
            return
        self._stands = None
        match event:
            case ToolStart():
                self._call_starts(event, at)
            case ToolEnd():
                self._call_ends(event, at)
            case Text(tag=Tag.AI):
                self._mood, self._mood_since = "writing", at
            case Text():
                if event.tag is Tag.THINK and self._mood != "thinking":
                    self._mood, self._mood_since = "thinking", at
            case Usage():
                self._session, self.meter = event, self.meter.metered(event)
            case RateLimited():
                self._quota = None if event.status == QuotaStatus.ALLOWED else event
            case _:
                self._take_milestone(event, at)

    def _take_milestone(self, event: Event, at: str) -> None:
        """Read a rare event of a session or a run."""
        match event:
            case RunStarted():
                self._begin("beginning", at)
                self._mood_since, self._quota, self._iteration = "", None, event.iteration or None
                self._announces, self._stand_in = event.transcript != _UNANNOUNCED, ""
                self.next_session()
            case AgentChanged():
                self._announces = event.transcript != _UNANNOUNCED
                self._stand_in, self._quota = event.agent if event.instead_of else "", None
            case IterationStarted() | SummaryStarted():
                self._begin_session(event, at)
            case SessionStarted():
                self._mood, self._mood_since, self._since = "thinking", at, self._since or at
            case SessionEnded():
                self._drop_calls(at)
                self._clock.end_session(at)
                self._doing, self._since, self._mood, self.last_end = "finishing a session", at, "", event.end
            case IterationEnded(verdict=Verdict.DONE):
                self._begin("checking", at)
            case CheckStarted():
                self._begin("checking", at)
                self._is_checking = True
                self._clock.start_check(at)
            case CheckEnded():
                self._begin("between sessions", at)
                self._clock.end_check(event.seconds)
            case IterationEnded() | SummaryWritten():
                self._begin("between sessions", at)
            case Waiting():
                self._begin(event.reason if event.until is None else "waiting", at)
                self._until, self._is_paused = event.until, event.until is None
                self._clock.start_wait(at)
            case RunEnded():
                self._begin(f"ended: {event.reason}", at)
                self._ended = True
                self._clock.end(at)
            case _:
                pass

    def _begin(self, doing: str, at: str, mood: str = "") -> None:
        """Begin the next phase of the run; its usage stays, and a wait is over."""
        if self._until is not None and self._quota is not None and self._quota.status == QuotaStatus.USED_UP:
            self._quota = None
        self._drop_calls(at)
        self._clock.end_wait(at)
        self._doing, self._since, self._mood, self._mood_since = doing, at, mood, at
        self._until, self._session, self._ended, self._is_paused, self._is_checking = None, None, False, False, False

    def _begin_session(self, event: IterationStarted | SummaryStarted, at: str) -> None:
        opening = "starting" if self._announces else "at work"  # until it reports anything
        if isinstance(event, IterationStarted):
            self._begin("in a session", at, opening)
            self._iteration = event.iteration
        else:
            self._begin("in a session that summarizes older iterations", at, opening)
        self.next_session()
        self._clock.start_session(at)

    def _call_starts(self, event: ToolStart, at: str) -> None:
        if event.id in self._calls:
            return  # an id names one call: what is said of it again is no second one
        if len(self._calls) >= _OPEN_CALLS:
            self._more_calls += 1
            return
        if not self._calls:
            self._clock.start_calls(at)
        self._calls[event.id] = (event, at) if len(self._calls) < _WHOLE_CALLS else _open_call(event, at)

    def _call_ends(self, event: ToolEnd, at: str) -> None:
        self._mood, self._mood_since = "thinking", at
        if self._calls.pop(event.id, None) is None:
            self._more_calls = max(0, self._more_calls - 1)
        elif not self._calls:
            self._clock.end_calls(at)

    def _drop_calls(self, at: str) -> None:
        if self._calls:
            self._calls.clear()
            self._clock.end_calls(at)
        self._more_calls = 0


def _open_call(event: ToolStart, at: str) -> OpenCall:
    return OpenCall(event.id, event.name, gist(event.input)[:_LONGEST_GIST], at)


class _Clock:
    """Adds up the phases of a run. One with an invalid time stamp counts as nothing."""

    def __init__(self) -> None:
        self.sessions = self.tools = self.check = self.waiting = 0.0
        self._session: float | None = None
        self._calls: float | None = None
        self._check: float | None = None
        self._wait: float | None = None

    def start_session(self, at: str) -> None:
        self._session = instant(at)

    def end_session(self, at: str) -> None:
        self.sessions += _passed(self._session, at)
        self._session = None

    def start_calls(self, at: str) -> None:
        self._calls = instant(at)

    def end_calls(self, at: str) -> None:
        self.tools += _passed(self._calls, at)
        self._calls = None

    def start_check(self, at: str) -> None:
        self._check = instant(at)

    def end_check(self, seconds: float) -> None:
        self.check += seconds
        self._check = None

    def start_wait(self, at: str) -> None:
        self._wait = instant(at)

    def end_wait(self, at: str) -> None:
        self.waiting += _passed(self._wait, at)
        self._wait = None

    def end(self, at: str) -> None:
        """End the session, and an interrupted check."""
        self.end_session(at)
        self.check += _passed(self._check, at)
        self._check = None


def _passed(began: float | None, at: str) -> float:
    now = None if began is None else instant(at)
    return 0.0 if began is None or now is None else max(0.0, now - began)
