"""The path of an event: stamped once, journaled, metered, shown."""

from collections.abc import Callable, Sequence
from typing import Protocol

from ralph.core.events import Event, IterationStarted, SessionEnded, SummaryStarted, Usage
from ralph.core.text import timestamp
from ralph.core.usage import Meter, Spend


class EventLog(Protocol):
    def write_events(self, events: Sequence[Event], at: str) -> bytes: ...


Screen = Callable[[Sequence[Event], str, bytes], None]
"""Shows events of one moment, given also as the lines that were journaled."""


_TELLING = frozenset({Usage, IterationStarted, SummaryStarted, SessionEnded})
"""Events that the recorder itself takes note of; of the others, a busy agent sends thousands."""


class Recorder:
    """Journals events (that must succeed), counts them, then shows them (that may fail).

    What was read together is recorded together: a busy agent's events would else cost a write each, and one to show.
    """

    def __init__(self, log: EventLog, *, now: Callable[[], float], spent: Spend, screens: Sequence[Screen]) -> None:
        self.meter = Meter(before=spent)
        self.last_end = ""
        """The row of the failure table that the last session of this start ended with; empty before the first."""
        self._log = log
        self._now = now
        self._screens = list(screens)

    def __call__(self, *events: Event) -> None:
        at = timestamp(self._now())
        lines = self._log.write_events(events, at)
        for event in events:
            if type(event) not in _TELLING:
                continue
            if isinstance(event, Usage):
                self.meter = self.meter.metered(event)
            elif isinstance(event, IterationStarted | SummaryStarted):
                self.meter = self.meter.next_session()
            elif isinstance(event, SessionEnded):
                self.last_end = event.end
        for screen in list(self._screens):
            try:
                screen(events, at, lines)
            except Exception:
                self._screens.remove(screen)
