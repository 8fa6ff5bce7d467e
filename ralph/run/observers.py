"""What someone who is away is told of a run: how it ended, and that it waits for a quota."""

import contextlib
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ralph.core.events import Event, IterationEnded, Waiting
from ralph.core.failures import End
from ralph.core.goal import Goal
from ralph.core.run import RunResult
from ralph.core.text import timestamp
from ralph.system.notify import Notice, Notifier, Occasion, occasion_of
from ralph.ui.terminal import Outlet, visible


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
                case Waiting(reason, until) if reason.startswith(End.USAGE_LIMIT) and not self._waits:
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
    Outlet(sys.stderr).write(f"note: {visible(fault)}\n")
