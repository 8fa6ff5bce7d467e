"""What every command that holds sessions stands on: a guardian, the signals, the terminal."""

import contextlib
import sys
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from pathlib import Path

from ralph.accounts import recall
from ralph.budget import Spend
from ralph.cli.agents import ChosenAgent, unpriced_words
from ralph.errors import DiskError, UsageError
from ralph.events import Tag, Text
from ralph.files import replace_file
from ralph.journal import Journal
from ralph.patience import Nap, Patience
from ralph.process import Child, Guardian, Signals
from ralph.recorder import Recorder, Screen
from ralph.runners import Launch, account_of
from ralph.session import Logs, SessionKit
from ralph.ui.console import Console, Detail, json_screen
from ralph.ui.keys import Keyboard
from ralph.ui.outlet import Outlet


class Stage:
    """Starts agents in one work tree, and shows what they do: to a person, or as events to a program."""

    def __init__(self, root: Path, detail: Detail, *, as_json: bool) -> None:
        self.root = root
        self.guardian = Guardian()
        self.signals = Signals()
        self.started = time.monotonic()
        self._as_json = as_json
        self._detail = detail
        self._outlet = Outlet(sys.stdout, in_haste=lambda: self.signals.count > 0)
        self._console = Console(self._outlet, detail, str(root))
        self.pressed: list[str] = []
        """Keys that were pressed while ralph waited, and that nobody has looked at yet."""

    @property
    def seconds(self) -> float:
        """How long this start has taken."""
        return time.monotonic() - self.started

    @property
    def greets(self) -> bool:
        """Tell whether the first words are shown."""
        return not self._as_json and self._detail is not Detail.QUIET

    def say(self, lines: Iterable[tuple[str, str]], *, first: bool = False) -> None:
        """Say what is no event's: to people, and the `first` words only to those who did not ask for quiet."""
        if self.greets or not (self._as_json or first):
            for label, text in lines:
                self._console.say(label, text)

    def recorder(self, journal: Journal, *, spent: Spend, screens: Sequence[Screen] = ()) -> Recorder:
        shown = json_screen(self._outlet) if self._as_json else self._console
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
            monotonic=time.monotonic,
            stop_requests=lambda: self.signals.count,
            idle_timeout=agent.settings.idle_timeout,
            timeout=agent.settings.iteration_timeout,
        )

    def patience(self, recorder: Recorder) -> Patience:
        return Patience(recorder, now=time.time, rest=self._rest, interrupted=lambda: self.signals.first)

    @contextlib.contextmanager
    def _rest(self) -> Generator[Nap]:
        """While ralph waits, keys are heard and the time that is left is shown."""
        with Keyboard(sys.stdin) as keyboard:

            def nap(seconds: float) -> None:
                if not self._as_json:
                    self._console.tick(time.time(), keys=keyboard.is_heard)
                self.pressed += keyboard.listen(seconds)

            yield nap
        if not self._as_json:
            self._console.end_wait()

    def _start(self, launch: Launch, logs: Logs) -> Child:
        for path, text in launch.files.items():
            replace_file(path, text, durable=False)
        return Child(
            launch.argv,
            guardian=self.guardian,
            cwd=self.root,
            environment=launch.environment,
            stdout_log=logs.stdout,
            stderr_log=None if launch.joins_stderr else logs.stderr,
        )


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
