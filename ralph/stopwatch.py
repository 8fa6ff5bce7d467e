"""Where the time of a run goes: to the model, to its tools, to the check, to waiting. A fold over stamped events."""

from collections.abc import Sequence
from dataclasses import dataclass

from ralph.core.events import (
    CheckEnded,
    CheckStarted,
    Event,
    IterationStarted,
    RunEnded,
    SessionEnded,
    SummaryStarted,
    ToolEnd,
    ToolStart,
    Waiting,
)
from ralph.core.text import instant

_TELLING = {
    ToolStart, ToolEnd, IterationStarted, SummaryStarted, SessionEnded, CheckStarted, CheckEnded, Waiting,
    RunEnded,
}  # fmt: skip
_OPEN_CALLS = 1000
"""Calls that are waited for: an agent may begin them without end."""


@dataclass(slots=True)
class Stopwatch:
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
        if len(self._open) < _OPEN_CALLS:
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
