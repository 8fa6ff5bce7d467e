"""The audience of a run: a person with a live view or plain lines, or a program that reads JSON."""

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
from ralph.ui.output import Output, QueuedOutput
from ralph.ui.progress import ProgressScreen
from ralph.ui.render import Detail
from ralph.ui.terminal import call_user, terminal

if TYPE_CHECKING:
    from ralph.ui.live import LiveView


_NO_LIMITS, _NOTHING = Limits(), Spend()


class RunScreen:
    """Shows what an agent does, and reads the user's keys."""

    def __init__(self, host: AgentHost, *, as_json: bool, quiet: bool, verbose: bool) -> None:
        detail = Detail.QUIET if quiet else Detail.VERBOSE if verbose else Detail.NORMAL
        self._host = host
        self._as_json = as_json
        self._detail = detail
        self._terminal = terminal(sys.stdout, environ.inherited())
        self._output = Output(sys.stdout, in_haste=lambda: host.signals.count > 0)
        self._queued = QueuedOutput(self._output)
        self._console = Console(self._queued, detail, str(host.root))
        self._view: LiveView | None = None
        self.tasks = ProgressScreen(sys.stderr, environ.inherited(), quiet=quiet, look=host.leave_if_interrupted)
        """Shows progress of slow steps before the run starts."""
        self._asked: deque[Act] = deque()
        self._call = ""
        self.quit_by_key = False
        """Whether a key ended the run, as Ctrl-C would."""

    @property
    def greets(self) -> bool:
        """Tell whether the header is shown."""
        return not self._as_json and self._detail is not Detail.QUIET

    @property
    def is_live(self) -> bool:
        """Tell whether a live view is shown."""
        return self._view is not None

    def take_asked(self) -> list[Act]:
        """Return new requests from keys that were pressed while ralph waits without a live view."""
        return [self._asked.popleft() for _ in range(len(self._asked))]

    def woken(self) -> bool:
        """Tell whether a key has ended the wait."""
        return Act.WAKE in self.take_asked()

    @contextlib.contextmanager
    def live(self, limits: Limits = _NO_LIMITS, spent: Spend = _NOTHING, inbox: Inbox | None = None) -> Generator[None]:
        """Show a live view, if there is a terminal.

        Its keys post to the inbox. Without an inbox they only end a wait, or the run.
        """
        self.finish_lines()  # a view has the terminal to itself
        if not self.greets or not self._terminal.lively:
            try:
                yield
            finally:
                self.finish_lines()
            return
        from ralph.ui.live import LiveRun, LiveTerminal, LiveView
        from ralph.ui.run_keys import RunControls, RunKeys

        signals = self._host.signals

        def post(act: Act) -> None:
            if inbox is None:
                self._asked.append(act)
            else:
                inbox.post(act, "", timestamp(time.time()), by_key=True)

        def continued() -> int:
            return signals.continued

        controls = RunControls(
            ask=post,
            asked=Steering(list if inbox is None else inbox.for_another_reader().read),
            end=self._quit,
            is_ending=lambda: signals.count > 0,
            can_steer=inbox is not None,
        )
        live_terminal = LiveTerminal(
            self._output, sys.stdin, sys.stdout, self._terminal.colour, continued, suspend=lambda: suspend(continued)
        )
        live_run = LiveRun(limits, spent, str(self._host.root), lambda: self._host.seconds, time.time)
        self._view = LiveView(live_terminal, live_run, RunKeys(controls, self._detail), self._console)
        try:
            yield
        finally:
            self._view.close()
            self._view = None

    def say(self, lines: Iterable[tuple[str, str]], *, first: bool = False) -> None:
        """Print lines that are not events, to people only; `first` lines are left out with --quiet."""
        if self.greets or not (self._as_json or first):
            says = self._console.say if self._view is None else self._view.say
            for label, text in lines:
                says(label, text)

    def print_check(self, data: bytes) -> None:
        """Show the check's output while it runs."""
        if self._view is not None:
            self._view.print_check(data)

    def call_at_end(self, text: str) -> None:
        """Ring the bell and notify with this text at the end; not with --json."""
        self._call = "" if self._as_json else text

    def call_user(self) -> None:
        """Ring the bell and notify, after the last line."""
        if self._call:
            self.finish_lines()
            call_user(self._output, self._terminal, self._call)

    def finish_lines(self) -> None:
        """Wait for a slow reader of the lines; everything else continues."""
        self._queued.finish()

    def recorder(self, log: EventLog, *, spent: Spend | None = None, screens: Sequence[Screen] = ()) -> Recorder:
        shown = json_screen(self._queued) if self._as_json else self._view or self._console
        return Recorder(log, now=time.time, spent=spent or Spend(), screens=[*screens, shown])

    def visible_wait(self, recorder: Recorder) -> VisibleWait:
        return VisibleWait(
            recorder,
            now=time.time,
            rest=self._rest,
            interrupted=lambda: self._host.signals.first,
            elapsed=lambda: self._host.seconds,
        )

    @contextlib.contextmanager
    def _rest(self) -> Generator[Nap]:
        """Read keys and show the remaining time during a wait; a live view always does."""
        if self._view is not None and self._view.is_live:
            yield time.sleep
            return
        with Keyboard(sys.stdin) as keyboard:

            def nap(seconds: float) -> None:
                if not self._as_json:
                    self._console.tick(time.time(), keys=keyboard.is_heard, redraws=self._terminal.lively)
                self._asked.extend(Act.WAKE for key in keyboard.listen(seconds) if key == WAKE_KEY)

            yield nap
        if not self._as_json:
            self._console.end_wait()

    def _quit(self) -> None:
        self.quit_by_key = self.quit_by_key or self._host.signals.count == 0
        self._host.signals.leave_mark(SIGINT)
