"""The path of an event: stamped once, journaled, metered, shown."""

from collections.abc import Callable, Sequence
from typing import Protocol

from ralph.budget import Meter, Spend
from ralph.events import Event, IterationStarted, Stamped, Usage
from ralph.quantities import timestamp


class EventLog(Protocol):
    def next_seq(self) -> int: ...
    def write_event(self, stamped: Stamped) -> bytes: ...


Screen = Callable[[Stamped, bytes], None]
"""Shows a stamped event, given also as the line that was journaled."""


class Recorder:
    """Journals every event (that must succeed), counts it, then shows it (that may fail)."""

    def __init__(self, log: EventLog, *, now: Callable[[], float], spent: Spend, screens: Sequence[Screen]) -> None:
        self.meter = Meter(before=spent)
        self._log = log
        self._now = now
        self._screens = list(screens)

    def __call__(self, event: Event) -> None:
        stamped = Stamped(self._log.next_seq(), timestamp(self._now()), event)
        line = self._log.write_event(stamped)
        match event:
            case Usage():
                self.meter = self.meter.metered(event)
            case IterationStarted():
                self.meter = self.meter.next_session()
            case _:
                pass
        for screen in list(self._screens):
            try:
                screen(stamped, line)
            except Exception:
                self._screens.remove(screen)
