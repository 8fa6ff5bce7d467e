"""Who is told of every event: the recorder (stamps, journals and shows it), and whoever is away from the screen."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

from ralph.core.errors import fault_of
from ralph.core.events import Event, IterationEnded, Waiting
from ralph.core.failures import End
from ralph.core.goal import Goal
from ralph.core.run import RunResult
from ralph.core.status import StatusFold
from ralph.core.text import timestamp
from ralph.core.usage import Meter, Spend
from ralph.system.notify import Notice, Notifier, Occasion, occasion_of
from ralph.ui.terminal import Output, visible


class RunNotices:
    """One for each start of a run; silent before it has begun, and without a command."""

    def __init__(self, goal: Goal, root: Path) -> None:
        self._goal, self._root = goal, root
        self._notifier = Notifier((), env={}, workplace=root)
        self._run = ""
        self._waits = False
        """It was said that the run waits for its quota, and no iteration has ended since."""

    def begin(self, command: Sequence[str], env: Mapping[str, str], run: str) -> None:
        self._notifier, self._run = Notifier(command, env=env, workplace=self._root), run

    def screen(self, events: Sequence[Event], _at: str, _lines: bytes) -> None:
        """Look for what is worth telling, as a screen of the recorder's."""
        for event in events:
            match event:
                case Waiting(reason, until, End.USAGE_LIMIT) if not self._waits:
                    self._waits = True
                    goes_on = "" if until is None else f"; it goes on at {timestamp(until)}"
                    wake = f"have it try now: ralph wake {self._goal.name}"
                    self._tell(Occasion.QUOTA, f"waits: {reason}{goes_on}", next_step=wake)
                case IterationEnded():
                    self._waits = False
                case _:
                    pass

    def ended(self, result: RunResult, steps: Iterable[str]) -> None:
        """Tell how the run ended, unless somebody has stopped it; `steps` are what there is to do next."""
        if (event := occasion_of(result.exit_code)) is not None:
            self._tell(event, result.reason, result=result, next_step="; ".join(steps))

    def close(self) -> str:
        """Wait a moment for what is under way; return what the user should know."""
        with contextlib.suppress(KeyboardInterrupt):  # he does not want to wait; the run is over, and ended as it did
            return self._notifier.close()
        return ""

    def _tell(self, event: Occasion, text: str, *, result: RunResult | None = None, next_step: str = "") -> None:
        spend = None if result is None else result.run.spend
        self._notifier.tell(
            Notice(
                event,
                time.time(),
                text,
                goal=self._goal.name,
                title=self._goal.title,
                repo=str(self._root),
                exit_code=None if result is None else result.exit_code,
                cost_usd=spend.cost_usd if spend is not None and spend.costed else None,
                run=self._run,
                next=next_step,
            )
        )


def note_on_stderr(fault: str) -> None:
    """Say that a notification failed where stdout is for programs."""
    Output(sys.stderr).write(f"note: {visible(fault)}\n")


class EventLog(Protocol):
    def write_events(self, events: Sequence[Event], at: str) -> bytes: ...


Screen = Callable[[Sequence[Event], str, bytes], None]
"""Shows events of one moment, given also as the lines that were journaled."""


class Recorder:
    """Journals events (that must succeed), folds them into `status`, then shows them (that may fail).

    What was read together is recorded together: a busy agent's events would else cost a write each, and one to show.
    """

    def __init__(self, log: EventLog, *, now: Callable[[], float], spent: Spend, screens: Sequence[Screen]) -> None:
        self.status = StatusFold(spent=spent)
        self._log = log
        self._now = now
        self._screens = list(screens)

    @property
    def meter(self) -> Meter:
        return self.status.meter

    def __call__(self, *events: Event) -> None:
        at = timestamp(self._now())
        lines = self._log.write_events(events, at)
        for event in events:
            self.status.take(event, at)
        for screen in list(self._screens):
            if fault_of(partial(screen, events, at, lines)) is not None:  # a screen may fail, and never stops a run
                self._screens.remove(screen)
