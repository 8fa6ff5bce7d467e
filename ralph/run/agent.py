"""What every command that holds sessions stands on: a guardian, the signals, the terminal."""

import contextlib
import functools
import glob
import os
import re
import shlex
import sys
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ralph.agents import registry
from ralph.agents.base import AgentLog, Launch, Request, Runner
from ralph.agents.claude_stream import ClaudeTranscript
from ralph.agents.registry import account_of
from ralph.agents.transcript import Transcript
from ralph.config.settings import Mode, Settings
from ralph.core.errors import BlockedError, DiskError, UsageError
from ralph.core.events import Tag, Text
from ralph.core.guidance import Act, Steering
from ralph.core.limits import NO_BOUNDS, Allowance, Limits
from ralph.core.text import timestamp
from ralph.core.usage import Estimate, Prices, Spend, shipped
from ralph.core.usage import parse as parse_prices
from ralph.run.observers import Recorder, Screen
from ralph.run.session import Logs, SessionKit
from ralph.state.inbox import Inbox
from ralph.state.journal import Journal
from ralph.system import clock, environ
from ralph.system.child import Child
from ralph.system.clock import Nap, VisibleWait
from ralph.system.files import append_line, open_to_append, replace_file
from ralph.system.guardian import Guardian
from ralph.system.programs import ask
from ralph.system.signals import SIGINT, Signals, suspend
from ralph.ui.console import Console, json_screen
from ralph.ui.keys import WAKE_KEY, Keyboard
from ralph.ui.render import Detail
from ralph.ui.terminal import Output, QueuedOutput, terminal

if TYPE_CHECKING:
    from ralph.ui.live import LiveView

_TELL_VERSION = ("claude", "codex", "ralph-claude")
_VERSION = re.compile(r"\d+(?:\.\d+)+[\w.+-]{0,40}")
_LONGEST_ANSWER = 2.0
"""Seconds: `claude --version` takes 0.02 to 0.06 (2.1.325), or as long as node when it is a script."""


@dataclass(frozen=True, slots=True)
class ChosenAgent:
    """An agent that is there, and everything that is settled about its sessions."""

    settings: Settings
    runner: Runner
    transcript: Callable[[], Transcript]
    prices: Prices

    @property
    def model(self) -> str:
        """The model that answers, as people call it."""
        return self.runner.model(self.settings.model)

    def estimate(self) -> Estimate:
        """What tells the cost of one session while it runs."""
        return estimate(self.prices, self.settings.model, self.runner.transcript)

    def estimate_in(self, mode: Mode) -> Estimate:
        """The same for a session of a mode, which may have a model of its own."""
        return estimate(self.prices, mode.model or self.settings.model, self.runner.transcript)

    def request(
        self,
        prompt: str,
        session_id: str,
        mode: Mode,
        *,
        root: Path,
        env: Mapping[str, str],
        folder: Path,
        read_only: bool = False,
        allowance: Allowance = NO_BOUNDS,
    ) -> Request:
        """What a session is asked to be."""
        file = mode.system_prompt_file
        return Request(
            prompt=prompt,
            session_id=session_id,
            model=mode.model or self.settings.model,
            reasoning=mode.reasoning or self.settings.reasoning,
            tools=mode.tools,
            system_prompt_file=str(root / file) if file else "",
            environment=env,
            folder=folder,
            read_only=read_only,
            allowance=allowance,
        )


def choose_agent(chosen: Settings, root: Path, env: Mapping[str, str]) -> ChosenAgent:
    """Find the agent and what reads it, or say what is wrong or missing; `root` may not be there yet."""
    runner = _find_runner(chosen, root, env)
    _refuse_bypass(chosen, env)
    transcript = registry.find_transcript(runner.transcript)
    if transcript is ClaudeTranscript:  # a session learns from those before it how large its context is
        transcript = functools.partial(ClaudeTranscript, {})
    return ChosenAgent(chosen, runner, transcript, _read_prices(root))


def estimate(prices: Prices, model: str, transcript: str) -> Estimate:
    """What tells the cost of one session that this transcript reads, by the user's prices.

    Only claude's tells each message by itself, and names a model whose list price ralph has brought along.
    """
    if transcript != "claude":
        return Estimate(prices, model, by_message=False)
    return Estimate(Prices(prices.models, below=shipped()), model, by_message=True)


def version_of(agent: ChosenAgent, env: Mapping[str, str]) -> str:
    """What a known agent says its version is; nothing if it does not say so at once."""
    if agent.settings.agent not in _TELL_VERSION:
        return ""
    reply = ask([*shlex.split(agent.runner.path), "--version"], cwd=Path("/"), environment=env, limit=_LONGEST_ANSWER)
    found = _VERSION.search(reply.output) if reply.exit_code == 0 else None
    return found[0] if found is not None else ""


def unpriced_words(model: str) -> str:
    return (
        f"{model} has no price here: while a session works, limits on cost hold only by the agent's own budget, and"
        " by what its results say (.ralph/pricing.toml can name a price)"
    )


def require_file(mode: Mode, name: str, root: Path) -> None:
    """Refuse a system prompt that is no file."""
    if mode.system_prompt_file and not (root / mode.system_prompt_file).is_file():
        raise UsageError(f"modes.{name}.system_prompt_file: {root / mode.system_prompt_file} is no file")


def _find_runner(chosen: Settings, root: Path, env: Mapping[str, str]) -> Runner:
    try:
        return registry.find_runner(chosen.agent, chosen.agents, env)
    except BlockedError as error:
        if not (root / ".envrc").is_file():
            raise
        # What `.envrc` puts on PATH is not looked through: a repository would decide which program is the agent.
        hint = f"{error.hint}; the PATH that .envrc sets is not searched for the agent"
        raise BlockedError(error.message, hint) from error


def _refuse_bypass(chosen: Settings, env: Mapping[str, str]) -> None:
    mode = chosen.agents.claude.permission_mode
    if mode == "bypassPermissions" and os.geteuid() == 0 and env.get("IS_SANDBOX") != "1":
        raise UsageError(
            "agents.claude.permission_mode = bypassPermissions is refused for root",
            "run as another user, leave it unset (the tool set is approved then), or set IS_SANDBOX=1 in a sandbox",
        )


def _read_prices(root: Path) -> Prices:
    """Read the user's table of prices, or say what is wrong with it; without one, nothing has a price."""
    path = root / ".ralph" / "pricing.toml"
    try:
        return parse_prices(path.read_text("utf-8"), str(path)) if path.exists() else Prices({})
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as fault:  # not TOML, not prices, or not even UTF-8, which does not know the file's name
        words = f"{path}: not UTF-8 text" if isinstance(fault, UnicodeDecodeError) else str(fault)
        raise UsageError(words, "see .ralph.example/pricing.toml of ralph for an example") from fault


_SESSION_ID = re.compile(r"[A-Za-z0-9-]{8,64}")


def own_log_of(account: AgentLog | None, session_id: str, log: Path) -> list[bytes]:
    """The last line that tells the session's use, if there is one; it is in the raw log before anyone parses it."""
    line = b"" if account is None else _last_line(account, session_id)
    if not line:
        return []
    with open_to_append(log) as file:
        append_line(file, line + b"\n")
    return [line]


def _last_line(account: AgentLog, session_id: str) -> bytes:
    if not _SESSION_ID.fullmatch(session_id):  # it came from the agent, and becomes part of a path
        return b""
    pattern = account.pattern.format(session_id=glob.escape(session_id))
    last = b""
    try:
        for path in account.folder.glob(pattern):
            with path.open("rb") as file:
                for line in file:
                    if account.telling.match(line) and line.endswith(b"\n"):
                        last = line.rstrip(b"\n")
    except OSError:  # it is the agent's own file: without it nothing is known, and nothing guessed
        return b""
    return last


class AgentHost:
    """Starts agents in one work tree, and shows what they do: to a person, or as events to a program."""

    def __init__(self, root: Path, detail: Detail, *, as_json: bool) -> None:
        self.root = root
        self.guardian = Guardian()
        self.signals = Signals(self._wake)
        self._agent: Child | None = None
        self.started = clock.monotonic_with_sleep()
        self._as_json = as_json
        self._detail = detail
        self._place = terminal(sys.stdout, environ.inherited())
        self._outlet = Output(sys.stdout, in_haste=lambda: self.signals.count > 0)
        self._relay = QueuedOutput(self._outlet)
        self._console = Console(self._relay, detail, str(root))
        self._view: LiveView | None = None
        self._asked: deque[Act] = deque()
        self.quit_by_key = False
        """Whether it is a key that ends the run, as Ctrl-C would."""

    @property
    def seconds(self) -> float:
        """How long this start has taken."""
        return clock.monotonic_with_sleep() - self.started

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

        bit = Bit(
            ask=lambda act: mailbox.post(act, "", timestamp(time.time()), by_key=True),
            helm=Steering(mailbox.anew().read),
            end=self._quit,
            is_ending=lambda: self.signals.count > 0,
        )

        def continued() -> int:
            return self.signals.continued

        ground = LiveTerminal(
            self._outlet, sys.stdin, sys.stdout, self._place.colour, continued, suspend=lambda: suspend(continued)
        )
        course = LiveRun(limits, spent, str(self.root), lambda: self.seconds, time.time)
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
            recall=lambda session_id, logs: own_log_of(account, session_id, logs.stdout),
            observe=recorder,
            clock=clock.monotonic_with_sleep,
            stop_requests=lambda: self.signals.count,
            idle_timeout=agent.settings.idle_timeout,
            timeout=agent.settings.iteration_timeout,
        )

    def patience(self, recorder: Recorder) -> VisibleWait:
        return VisibleWait(recorder, now=time.time, rest=self._rest, interrupted=lambda: self.signals.first)

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
