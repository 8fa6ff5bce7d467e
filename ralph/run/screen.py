"""Who looks at a run: a person at a live view or at lines, or a program that reads JSON."""

import contextlib
import sys
import time
from collections import deque
from collections.abc import Generator, Iterable, Sequence
from typing import TYPE_CHECKING

from ralph.core.guidance import Act, Steering
from ralph.core.limits import Limits
from ralph.core.text import timestamp
from ralph.core.usage import Spend
from ralph.run.agent import AgentHost
from ralph.run.observers import EventLog, Recorder, Screen
from ralph.state.inbox import Inbox
from ralph.system import environ
from ralph.system.clock import Nap, VisibleWait
from ralph.system.signals import SIGINT, suspend
from ralph.ui.console import Console, json_screen
from ralph.ui.keys import WAKE_KEY, Keyboard
from ralph.ui.render import Detail
from ralph.ui.terminal import Output, QueuedOutput, terminal

if TYPE_CHECKING:
    from ralph.ui.live import LiveView


class RunScreen:
    """Shows what the agents of a host do, and hears the keys of who looks."""

    def __init__(self, host: AgentHost, *, as_json: bool, quiet: bool, verbose: bool) -> None:
        detail = Detail.QUIET if quiet else Detail.VERBOSE if verbose else Detail.NORMAL
        self._host = host
        self._as_json = as_json
        self._detail = detail
        self._place = terminal(sys.stdout, environ.inherited())
        self._outlet = Output(sys.stdout, in_haste=lambda: host.signals.count > 0)
        self._relay = QueuedOutput(self._outlet)
        self._console = Console(self._relay, detail, str(host.root))
        self._view: LiveView | None = None
        self._asked: deque[Act] = deque()
        self.quit_by_key = False
        """Whether it is a key that ends the run, as Ctrl-C would."""

    @property
    def greets(self) -> bool:
        """Tell whether the first words are shown."""
        return not self._as_json and self._detail is not Detail.QUIET

    @property
    def is_live(self) -> bool:
        """Tell whether a view is shown that draws itself anew."""
        return self._view is not None

    def take_asked(self) -> list[Act]:
        """What was asked for since the last time by keys that are heard while ralph waits without a view."""
        return [self._asked.popleft() for _ in range(len(self._asked))]

    def woken(self) -> bool:
        """Tell whether such a key has ended the wait."""
        return Act.WAKE in self.take_asked()

    @contextlib.contextmanager
    def live(self, limits: Limits, spent: Spend, mailbox: Inbox) -> Generator[None]:
        """Have a view drawn, where there is a terminal for it and a person to look; its keys go to the mailbox."""
        self.finish_lines()  # a view has the terminal to itself
        if not self.greets or not self._place.lively:
            try:
                yield
            finally:
                self.finish_lines()
            return
        from ralph.ui.footer import Bit, RunKeys
        from ralph.ui.live import LiveRun, LiveTerminal, LiveView

        signals = self._host.signals
        bit = Bit(
            ask=lambda act: mailbox.post(act, "", timestamp(time.time()), by_key=True),
            helm=Steering(mailbox.anew().read),
            end=self._quit,
            is_ending=lambda: signals.count > 0,
        )

        def continued() -> int:
            return signals.continued

        ground = LiveTerminal(
            self._outlet, sys.stdin, sys.stdout, self._place.colour, continued, suspend=lambda: suspend(continued)
        )
        course = LiveRun(limits, spent, str(self._host.root), lambda: self._host.seconds, time.time)
        self._view = LiveView(ground, course, RunKeys(bit, self._detail), self._console)
        try:
            yield
        finally:
            self._view.close()

    def say(self, lines: Iterable[tuple[str, str]], *, first: bool = False) -> None:
        """Say what is no event's: to people, and the `first` words only to those who did not ask for quiet."""
        if self.greets or not (self._as_json or first):
            says = self._console.say if self._view is None else self._view.say
            for label, text in lines:
                says(label, text)

    def finish_lines(self) -> None:
        """Wait for a reader of lines who is behind; all else goes on without him."""
        self._relay.finish()

    def recorder(self, log: EventLog, *, spent: Spend | None = None, screens: Sequence[Screen] = ()) -> Recorder:
        shown = json_screen(self._relay) if self._as_json else self._view or self._console
        return Recorder(log, now=time.time, spent=spent or Spend(), screens=[*screens, shown])

    def patience(self, recorder: Recorder) -> VisibleWait:
        return VisibleWait(
            recorder,
            now=time.time,
            rest=self._rest,
            interrupted=lambda: self._host.signals.first,
            elapsed=lambda: self._host.seconds,
        )

    @contextlib.contextmanager
    def _rest(self) -> Generator[Nap]:
        """While ralph waits, keys are heard and the time that is left is shown; a live view does so all the time."""
        if self._view is not None and self._view.is_live:
            yield time.sleep
            return
        with Keyboard(sys.stdin) as keyboard:

            def nap(seconds: float) -> None:
                if not self._as_json:
                    self._console.tick(time.time(), keys=keyboard.is_heard, redraws=self._place.lively)
                self._asked.extend(Act.WAKE for key in keyboard.listen(seconds) if key == WAKE_KEY)

            yield nap
        if not self._as_json:
            self._console.end_wait()

    def _quit(self) -> None:
        self.quit_by_key = self.quit_by_key or self._host.signals.count == 0
        self._host.signals.leave_mark(SIGINT)
