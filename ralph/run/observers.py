"""Observers of events: the recorder (stamps, journals and shows them) and notifications for an absent user."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

from ralph.core.errors import fault_of
from ralph.core.events import Event, IterationEnded, SessionStarted, Waiting
from ralph.core.failures import End
from ralph.core.goal import Goal
from ralph.core.run import RunResult
from ralph.core.status import StatusFold
from ralph.core.text import timestamp
from ralph.core.usage import Meter, Spend
from ralph.git.repo import Repo
from ralph.state.project import EXCLUDES, ProjectLinks
from ralph.system.notify import Notice, Notifier, Occasion, occasion_of
from ralph.ui.output import Output
from ralph.ui.terminal import visible


class RunNotices:
    """Notifications of one start of a run; silent before the run starts, and without a command."""

    def __init__(self, goal: Goal, root: Path) -> None:
        self._goal, self._root = goal, root
        self._notifier = Notifier((), env={}, repo_root=root)
        self._run = ""
        self._waits = False
        """The user was notified of a quota wait, and no iteration has ended since."""

    def begin(self, command: Sequence[str], env: Mapping[str, str], run: str) -> None:
        self._notifier, self._run = Notifier(command, env=env, repo_root=self._root), run

    def screen(self, events: Sequence[Event], _at: str, _lines: bytes) -> None:
        """Notify the user of important events; called by the recorder."""
        for event in events:
            match event:
                case Waiting(reason, until, End.USAGE_LIMIT) if not self._waits:
                    self._waits = True
                    goes_on = "" if until is None else f"; it continues at {timestamp(until)}"
                    wake = f"continue now: ralph wake {self._goal.name}"
                    self._tell(Occasion.QUOTA, f"waiting: {reason}{goes_on}", next_step=wake)
                case IterationEnded():
                    self._waits = False
                case _:
                    pass

    def ended(self, result: RunResult, reason: str, steps: Iterable[str]) -> None:
        """Notify the user how the run ended, unless somebody stopped it; `steps` are the next steps."""
        if (event := occasion_of(result.exit_code)) is not None:
            self._tell(event, reason, result=result, next_step="; ".join(steps))

    def close(self) -> str:
        """Wait briefly for running notifications; return what went wrong."""
        with contextlib.suppress(KeyboardInterrupt):  # the user does not want to wait; the run's result stands
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
    """Print a failed notification to stderr, because programs read stdout."""
    Output(sys.stderr).write(f"note: {visible(fault)}\n")


def session_screen(repo: Repo, mode: str) -> "Screen":
    """Return a screen that shows the id of each session of one mode in the project's `.ralph/state`."""
    repo.exclude(EXCLUDES)
    links = ProjectLinks(repo.root)

    def show(events: Sequence[Event], at: str, _lines: bytes) -> None:
        for event in events:
            if isinstance(event, SessionStarted):
                links.show_session(mode, event.session_id, at)

    return show


class EventLog(Protocol):
    def write_events(self, events: Sequence[Event], at: str) -> bytes: ...


Screen = Callable[[Sequence[Event], str, bytes], None]
"""Shows events of one moment, with the journaled lines."""


class Recorder:
    """Journals events (must succeed), adds them to `status`, then shows them (may fail).

    Events that were read together are recorded together, which saves a busy agent a write for each.
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
