"""What every command that holds sessions stands on: a guardian, the signals, the terminal."""

import contextlib
import sys
import time
from collections import deque
from collections.abc import Generator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ralph.accounts import recall
from ralph.agents.base import Launch
from ralph.agents.registry import account_of
from ralph.cli.agents import ChosenAgent, unpriced_words
from ralph.core.errors import DiskError, UsageError
from ralph.core.events import Tag, Text
from ralph.core.guidance import Act, Helm
from ralph.core.limits import Limits
from ralph.core.text import timestamp
from ralph.core.usage import Spend
from ralph.recorder import Recorder, Screen
from ralph.run.session import Logs, SessionKit
from ralph.state.inbox import Mailbox
from ralph.state.journal import Journal
from ralph.system import clock, environ
from ralph.system.child import Child
from ralph.system.clock import Nap, Patience
from ralph.system.files import replace_file
from ralph.system.guardian import Guardian
from ralph.system.signals import SIGINT, Signals, suspend
from ralph.ui.console import Console, json_screen
from ralph.ui.keys import WAKE_KEY, Keyboard
from ralph.ui.render import Detail
from ralph.ui.terminal import Outlet, Relay, terminal

if TYPE_CHECKING:
    from ralph.ui.live import LiveView


class Stage:
    """Starts agents in one work tree, and shows what they do: to a person, or as events to a program."""

    def __init__(self, root: Path, detail: Detail, *, as_json: bool) -> None:
        self.root = root
        self.guardian = Guardian()
        self.signals = Signals(self._wake)
        self._agent: Child | None = None
        self.started = clock.passed()
        self._as_json = as_json
        self._detail = detail
        self._place = terminal(sys.stdout, environ.inherited())
        self._outlet = Outlet(sys.stdout, in_haste=lambda: self.signals.count > 0)
        self._relay = Relay(self._outlet)
        self._console = Console(self._relay, detail, str(root))
        self._view: LiveView | None = None
        self._asked: deque[Act] = deque()
        self.quit_by_key = False
        """Whether it is a key that ends the run, as Ctrl-C would."""

    @property
    def seconds(self) -> float:
        """How long this start has taken."""
        return clock.passed() - self.started

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

    @contextlib.contextmanager
    def live(self, limits: Limits, spent: Spend, mailbox: Mailbox) -> Generator[None]:
        """Have a view drawn, where there is a terminal for it and a person to look; its keys go to the mailbox."""
        self.finish_lines()  # a view has the terminal to itself
        if not self.greets or not self._place.lively:
            try:
                yield
            finally:
                self.finish_lines()
            return
        from ralph.ui.footer import Bit, Reins
        from ralph.ui.live import Course, Ground, LiveView

        bit = Bit(
            ask=lambda act: mailbox.post(act, "", timestamp(time.time()), by_key=True),
            helm=Helm(mailbox.anew().read),
            end=self._quit,
            is_ending=lambda: self.signals.count > 0,
        )

        def continued() -> int:
            return self.signals.continued

        ground = Ground(
            self._outlet, sys.stdin, sys.stdout, self._place.colour, continued, suspend=lambda: suspend(continued)
        )
        course = Course(limits, spent, str(self.root), lambda: self.seconds, time.time)
        self._view = LiveView(ground, course, Reins(bit, self._detail), self._console)
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

    def recorder(self, journal: Journal, *, spent: Spend, screens: Sequence[Screen] = ()) -> Recorder:
        shown = json_screen(self._relay) if self._as_json else self._view or self._console
        return Recorder(journal, now=time.time, spent=spent, screens=[*screens, shown])

    def session_kit(self, agent: ChosenAgent, recorder: Recorder, env: Mapping[str, str]) -> SessionKit:
        account = account_of(agent.settings.agent, agent.runner.transcript, env)
        told: set[str] = set()

        def unpriced(model: str) -> None:
            if model not in told:
                told.add(model)
                recorder(Text(Tag.SYS, unpriced_words(model)))

        return SessionKit(
            runner=agent.runner,
            transcript=agent.transcript,
            estimate=agent.estimate,
            unpriced=unpriced,
            start=self._start,
            recall=lambda session_id, logs: recall(account, session_id, logs.stdout),
            observe=recorder,
            clock=clock.passed,
            stop_requests=lambda: self.signals.count,
            idle_timeout=agent.settings.idle_timeout,
            timeout=agent.settings.iteration_timeout,
        )

    def patience(self, recorder: Recorder) -> Patience:
        return Patience(recorder, now=time.time, rest=self._rest, interrupted=lambda: self.signals.first)

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

    def _start(self, launch: Launch, logs: Logs) -> Child:
        for path, text in launch.files.items():
            replace_file(path, text, durable=False)
        self._agent = Child(
            launch.argv,
            guardian=self.guardian,
            cwd=self.root,
            environment=launch.environment,
            stdout_log=logs.stdout,
            stderr_log=None if launch.joins_stderr else logs.stderr,
        )
        return self._agent

    def _quit(self) -> None:
        self.quit_by_key = self.quit_by_key or self.signals.count == 0
        self.signals.leave_mark(SIGINT)

    def _wake(self, _number: int) -> None:
        """Have a signal heeded now: until the next look, an agent could begin another call of its model."""
        if self._agent is not None:
            self._agent.wake()


@contextlib.contextmanager
def refusing_a_bad_disk() -> Generator[None]:
    """Before a run has begun, a disk that cannot be written is a reason not to begin."""
    try:
        yield
    except DiskError as error:
        raise UsageError(error.message, error.hint) from error
    except OSError as error:
        fault = DiskError(error.filename or "the disk", error)
        raise UsageError(fault.message, fault.hint) from error
