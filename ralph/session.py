"""One agent session: say, listen, correct, stop. What it came to is a value; see `failures`."""

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from ralph.events import (
    ApiRetry,
    Denial,
    Event,
    Meta,
    RateLimited,
    SessionEnded,
    SessionStarted,
    Tag,
    Text,
    TurnEnded,
)
from ralph.failures import Ending, Evidence, classify, correctable
from ralph.lines import Oversized
from ralph.quantities import format_duration
from ralph.runners import Launch, Request, Runner
from ralph.transcripts import TRANSCRIPTS, Transcript
from ralph.verdict import MOST_CORRECTIONS

_POLL = 0.2
_KEPT_TEXT = 65_536
_TELLING = frozenset({SessionStarted, Text, RateLimited, ApiRetry, TurnEnded})
"""Events that a session reacts to; of the others, a busy agent sends thousands."""


_TOGETHER = 16
"""Events observed in one go. More would spare no time: what is still in the processor's cache is quick to write."""


class Process(Protocol):
    """The child that a session talks to."""

    @property
    def exit_code(self) -> int | None: ...
    @property
    def idle_seconds(self) -> float: ...
    @property
    def stderr_tail(self) -> str: ...
    def say(self, data: bytes) -> None: ...
    def read(self, timeout: float) -> Sequence[bytes | Oversized] | None: ...
    def finish(self) -> None: ...
    def stop(self, soft: bytes = b"") -> None: ...
    def kill(self) -> None: ...


class Observer(Protocol):
    """Takes in events that were read together."""

    def __call__(self, *events: Event) -> None: ...


class Logs(Protocol):
    """Where the raw output goes."""

    @property
    def stdout(self) -> Path: ...
    @property
    def stderr(self) -> Path: ...


@dataclass(frozen=True, slots=True)
class SessionKit:
    """What a session works with."""

    runner: Runner
    start: Callable[[Launch, Logs], AbstractContextManager[Process]]
    observe: Observer
    monotonic: Callable[[], float]
    stop_requests: Callable[[], int]
    """How often the user has asked ralph to end: once is softly, twice is now."""
    idle_timeout: float
    timeout: float


@dataclass(frozen=True, slots=True)
class SessionReport:
    """What came of a session; `text` is its last word, `degraded` when only the stream had one."""

    session_id: str
    ending: Ending
    text: str
    degraded: bool
    denials: tuple[Denial, ...]
    log: Path


def hold_session(request: Request, logs: Logs, kit: SessionKit) -> SessionReport:
    """Hold one session to its end: every line heard is observed, the process is gone when this returns."""
    launch = kit.runner.launch(request)
    with kit.start(launch, logs) as process:
        talk = _Conversation(kit.runner, TRANSCRIPTS[kit.runner.transcript](), process, kit.observe, request.session_id)
        process.say(launch.first_input)
        watch = _Watch(kit, process, started=kit.monotonic())
        while (lines := process.read(_POLL)) is not None:
            talk.hear(lines)
            watch.look(settled=talk.settled)
        talk.close()
        exit_code = process.exit_code
        ending = classify(talk.evidence(exit_code, watch.reason))
    text, degraded = talk.last_words()
    kit.observe(SessionEnded(talk.session_id, ending.end, ending.reason, text, degraded, exit_code, str(logs.stdout)))
    return SessionReport(talk.session_id, ending, text, degraded, tuple(talk.denials.values()), logs.stdout)


@dataclass(slots=True)
class _Watch:
    """Ends a session that hangs, takes too long, or that the user wants ended."""

    kit: SessionKit
    process: Process
    started: float
    reason: str = ""
    requests_seen: int = 0

    def look(self, *, settled: bool) -> None:
        requests = self.kit.stop_requests()
        if requests > self.requests_seen:
            self.requests_seen = requests
            if requests == 1:
                self.kit.observe(Text(Tag.SYS, "stopping the session; once more kills it at once"))
                self.process.stop(self.kit.runner.interrupt())
            else:
                self.process.kill()
        if self.reason or requests or settled:
            return
        if self.process.idle_seconds > self.kit.idle_timeout:
            self._end(f"no output for {format_duration(self.kit.idle_timeout)} (idle_timeout)")
        elif self.kit.monotonic() - self.started > self.kit.timeout:
            self._end(f"not finished after {format_duration(self.kit.timeout)} (iteration_timeout)")

    def _end(self, reason: str) -> None:
        self.reason = reason
        self.process.stop(self.kit.runner.interrupt())


@dataclass(slots=True)
class _Conversation:
    """What was said and heard: takes in lines, answers an invalid verdict, and settles when nothing is left to say."""

    runner: Runner
    transcript: Transcript
    process: Process
    observe: Observer
    session_id: str
    settled: bool = False
    corrections: int = 0
    turn: TurnEnded | None = None
    quota: RateLimited | None = None
    unusable: str = ""
    login_refused: bool = False
    said: deque[str] = field(default_factory=deque[str])
    said_length: int = 0
    denials: dict[str, Denial] = field(default_factory=dict[str, Denial])
    unobserved: list[Event] = field(default_factory=list[Event])

    def hear(self, lines: Sequence[bytes | Oversized]) -> None:
        """Take in lines that were read together; what they say is observed in one go."""
        for line in lines:
            if isinstance(line, Oversized):
                self._take([Meta({"oversized_line": line.size})])
            else:
                self._take(self.transcript.feed(line.decode("utf-8", "replace")))
            if len(self.unobserved) >= _TOGETHER:
                self._have_observed()
        self._have_observed()

    def close(self) -> None:
        self._take(self.transcript.flush())
        self._have_observed()

    def evidence(self, exit_code: int | None, watchdog: str) -> Evidence:
        complaints = [line.strip() for line in self.process.stderr_tail.splitlines() if line.strip()]
        return Evidence(
            turn=self.turn,
            quota=self.quota,
            denials=tuple(self.denials.values()),
            exit_code=exit_code,
            watchdog=watchdog,
            unusable=self.unusable,
            login_refused=self.login_refused,
            last_error=complaints[-1][:500] if complaints else "",
        )

    def last_words(self) -> tuple[str, bool]:
        """The result's text; without one, what the stream said, marked as degraded."""
        if self.turn is not None and self.turn.text:
            return self.turn.text, False
        said = "\n".join(self.said)[-_KEPT_TEXT:].strip()
        return said, bool(said)

    def _remember(self, text: str) -> None:
        """Keep the last of what the agent said, in pieces: joining them each time would cost more than reading."""
        self.said.append(text)
        self.said_length += len(text)
        while self.said_length - len(self.said[0]) > _KEPT_TEXT:
            self.said_length -= len(self.said.popleft())

    def _have_observed(self) -> None:
        if events := self.unobserved:
            self.unobserved = []
            self.observe(*events)

    def _take(self, events: Sequence[Event]) -> None:
        for event in events:
            self.unobserved.append(event)
            if type(event) in _TELLING:
                self._react(event)

    def _react(self, event: Event) -> None:
        match event:
            case SessionStarted():
                self.session_id = event.session_id or self.session_id
                self._require_tool(event.tools)
            case Text(tag=Tag.AI):
                self._remember(event.text)
            case RateLimited():
                self.quota = event
            case ApiRetry(status=401) if not self.login_refused:
                # Claude Code would go on for three minutes (11 tries on 2.1.197) with a login that is refused.
                self.login_refused = True
                self.process.stop(self.runner.interrupt())
            case TurnEnded():
                self._turn_ended(event)
            case _:
                pass

    def _require_tool(self, tools: Sequence[str]) -> None:
        needed = self.runner.required_tool
        if needed and needed not in tools:
            self.unusable = f"the agent does not offer the {needed} tool, without which it cannot give a verdict"
            self.process.stop(self.runner.interrupt())

    def _turn_ended(self, turn: TurnEnded) -> None:
        self.denials.update({denial.id: denial for denial in turn.denials})
        if turn.origin or self.settled:  # a background task woke the agent: its cost counts, its answer is not ours
            return
        fault = correctable(turn)
        if fault is None or self.corrections >= MOST_CORRECTIONS:
            self.turn = turn
            self.settled = True
            self.process.finish()
            return
        self.corrections += 1
        self.unobserved.append(Text(Tag.PROMPT, fault))
        self.process.say(self.runner.message(fault))
