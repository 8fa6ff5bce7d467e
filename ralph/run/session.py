"""One agent session: send, read, correct, stop. Its result is a value; see `failures`."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from ralph.agents.base import Launch, Request, Runner
from ralph.agents.transcript import Reader, Transcript
from ralph.core.events import (
    ApiRetry,
    Denial,
    Event,
    RateLimited,
    SessionEnded,
    SessionStarted,
    Tag,
    Text,
    ToolEnd,
    ToolStart,
    TurnEnded,
    Usage,
)
from ralph.core.failures import OUT_OF_MONEY, Evidence, SessionEnd, classify, correctable, interrupted
from ralph.core.limits import Bound, Calls, Measure, Used
from ralph.core.ndjson import Oversized
from ralph.core.text import TextTail, format_duration
from ralph.core.usage import Estimate, Meter
from ralph.core.verdict import MOST_CORRECTIONS, Promise
from ralph.system.clock import monotonic_with_sleep

_POLL = 0.2
_KEPT_TEXT = 65_536
_REACTED_TO = frozenset({Text, RateLimited, ApiRetry, TurnEnded})
"""Events that a session reacts to; a busy agent sends thousands of others."""
_SILENCE = 0.1
"""Share of its whole time: an agent that was silent for so long, even when asked to wrap up, hangs."""
_UNPRICED = (
    "{model} has no known price: during a session, only the agent's own budget and its results enforce"
    " --max-cost (you can add a price to .ralph/pricing.toml)"
)
_TOGETHER = 32
"""Events observed at once. More would not save time: data in the processor's cache is quick to write."""


class Process(Protocol):
    """The child process of a session."""

    @property
    def exit_code(self) -> int | None: ...
    @property
    def idle_seconds(self) -> float: ...
    @property
    def stderr_tail(self) -> str: ...
    def say(self, data: bytes) -> None: ...
    def end_input(self) -> None: ...
    def read(self, timeout: float) -> Sequence[bytes | Oversized] | None: ...
    def finish(self) -> None: ...
    def stop(self, soft: bytes = b"") -> None: ...
    def kill(self) -> None: ...


class Observer(Protocol):
    """Takes in events that were read together."""

    def __call__(self, *events: Event) -> None: ...


class MeteredObserver(Observer, Protocol):
    """An observer that counts usage."""

    @property
    def meter(self) -> Meter: ...


class Logs(Protocol):
    """Files for the raw output."""

    @property
    def stdout(self) -> Path: ...
    @property
    def stderr(self) -> Path: ...


class SessionAgent(Protocol):
    """The agent of a session: how to start, read and price it, and its time limits."""

    @property
    def runner(self) -> Runner: ...
    @property
    def transcript(self) -> Callable[[], Transcript]: ...
    @property
    def idle_timeout(self) -> float: ...
    @property
    def timeout(self) -> float: ...
    def estimate(self, model: str) -> Estimate: ...
    def own_log(self, session_id: str, environment: Mapping[str, str], log: Path) -> Sequence[bytes]:
        """Return the agent's own record of a session's usage, and log it as agent output."""
        ...


class SessionHost(Protocol):
    """Starts processes, and knows whether the user wants to stop."""

    @property
    def root(self) -> Path:
        """The folder that they are started in."""
        ...

    @property
    def stop_requests(self) -> int:
        """Stop requests so far: one ends the session softly, two at once."""
        ...

    def start(self, launch: Launch, logs: Logs) -> AbstractContextManager[Process]: ...


@dataclass(frozen=True, slots=True)
class Sessions:
    """The collaborators that all sessions of one kind share."""

    agent: SessionAgent
    host: SessionHost
    observe: Observer
    unpriced: set[str] = field(default_factory=set[str])
    """Models without a price that were already reported."""


@dataclass(frozen=True, slots=True)
class SessionReport:
    """The result of a session; `text` is its last message, `degraded` if it comes from the stream."""

    session_id: str
    ending: SessionEnd
    text: str
    degraded: bool
    denials: tuple[Denial, ...]
    log: Path
    structured: object = None


def run_session(request: Request, logs: Logs, sessions: Sessions) -> SessionReport:
    """Run one session to its end: every line is observed, and every process is gone when this returns."""
    agent = sessions.agent
    talk = _Conversation(sessions, request, session_id=request.session_id)
    watch = _Watch(sessions, started=monotonic_with_sleep())
    launch: Launch | None = agent.runner.launch(request)
    while launch is not None:
        with sessions.host.start(launch, logs) as process:
            talk.begin(process, launch)
            while (lines := process.read(_POLL)) is not None:
                talk.hear(lines)
                watch.look(process, talk)
            talk.left()
        launch = None if watch.has_ended_it else talk.next_launch
    if talk.turn is None or talk.turn.is_error:
        talk.hear(agent.own_log(talk.session_id, request.environment, logs.stdout))
    talk.close()
    ending = classify(talk.evidence(watch))
    text, degraded = talk.last_words()
    ended = SessionEnded(talk.session_id, ending.end, ending.reason, text, degraded, talk.exit_code, str(logs.stdout))
    sessions.observe(ended)
    denials, output = tuple(talk.denials.values()), None if talk.turn is None else talk.turn.structured_output
    return SessionReport(talk.session_id, ending, text, degraded, denials, logs.stdout, output)


@dataclass(slots=True)
class _Watch:
    """Ends a session that hangs, takes too long, reaches a limit, or that the user stops."""

    sessions: Sessions
    started: float
    reason: str = ""
    used_up: Bound | None = None
    requests_seen: int = 0

    @property
    def has_ended_it(self) -> bool:
        return bool(self.reason or self.used_up or self.requests_seen)

    def look(self, process: Process, talk: "_Conversation") -> None:
        agent, requests = self.sessions.agent, self.sessions.host.stop_requests
        if requests > self.requests_seen:
            self.requests_seen = requests
            talk.is_over = True
            if requests == 1:
                self.sessions.observe(Text(Tag.SYS, "stopping the session; repeat to kill it at once"))
                process.stop(agent.runner.interrupt())
            else:
                process.kill()
        if self.has_ended_it or talk.settled:
            return
        used, allowance = self.used(talk), talk.request.allowance
        if process.idle_seconds > agent.idle_timeout:
            self.reason = f"no output for {format_duration(agent.idle_timeout)} (idle_timeout)"
        elif used.seconds > agent.timeout and process.idle_seconds > _SILENCE * agent.timeout:
            self.reason = f"not finished after {format_duration(agent.timeout)} (iteration_timeout), and silent"
        elif (bound := allowance.exhausted(used, but_use=talk.calls.may_end)) is not None:
            self.used_up = bound
        elif used.seconds > agent.timeout:
            self.reason = f"not finished after {format_duration(agent.timeout)} (iteration_timeout)"
        elif (bound := allowance.nearly_exhausted(used)) is not None and talk.may_be_interrupted(bound):
            talk.wrap_up(bound)
        if self.has_ended_it:
            talk.is_over = True
            process.stop(agent.runner.interrupt())

    def used(self, talk: "_Conversation") -> Used:
        """What the session has used so far."""
        return Used(talk.meter.session, monotonic_with_sleep() - self.started)

    def used_up_words(self, bound: Bound, talk: "_Conversation") -> str:
        """Say which limit is used up, and whether only the estimate said so."""
        by_estimate = bound.measure is Measure.COST and not bound.is_used_up(self.used(talk))
        return f"{bound.words} is used up{' by estimate; the agent then reported less' if by_estimate else ''}"

    def bound_of(self, talk: "_Conversation") -> Bound | None:
        """Return the bound that ended the session, whether ralph or the agent enforced it."""
        out_of_money = talk.turn is not None and talk.turn.subtype == OUT_OF_MONEY
        return talk.request.allowance.exhausted(self.used(talk)) if out_of_money else self.used_up


@dataclass(slots=True)
class _Conversation:
    """The dialogue with an agent: reads lines, corrects an invalid verdict, and settles at the end.

    An agent that takes one message per process gets the next one from `next_launch`; the conversation continues.
    """

    sessions: Sessions
    request: Request
    session_id: str
    reader: Reader = field(init=False)
    process: Process = field(init=False)
    listens: bool = False
    next_launch: Launch | None = None
    exit_code: int | None = None
    asked_for: str = ""
    complaint: str = ""
    settled: bool = False
    is_over: bool = False
    """The session is being stopped: nothing more is sent."""
    corrections: int = 0
    told_to_wrap_up: bool = False
    nearly_used_up: Bound | None = None
    """The bound to report to the agent once its interrupted turn has ended."""
    calls: Calls = field(default_factory=Calls)
    meter: Meter = field(default_factory=Meter)
    estimate: Estimate = field(init=False)
    is_limited: bool = field(init=False)
    """Its usage must be known after every message."""
    promise: Promise = field(default_factory=Promise)
    turn: TurnEnded | None = None
    quota: RateLimited | None = None
    unlisted_tool: str = ""
    login_refused: bool = False
    elsewhere: str = ""
    said: TextTail = field(default_factory=lambda: TextTail(_KEPT_TEXT))
    denials: dict[str, Denial] = field(default_factory=dict[str, Denial])
    unobserved: list[Event] = field(default_factory=list[Event])

    def __post_init__(self) -> None:
        self.reader = Reader(self.sessions.agent.transcript())
        self.estimate = self.sessions.agent.estimate(self.request.model)
        self.is_limited = self.request.allowance.counts

    def begin(self, process: Process, launch: Launch) -> None:
        """Send the first message to a new process."""
        self.process, self.next_launch, self.settled, self.listens = process, None, False, launch.listens
        self.asked_for = launch.session_id
        process.say(launch.first_input)
        if not launch.listens:
            process.end_input()

    def may_be_interrupted(self, bound: Bound) -> bool:
        """Allow one interruption per session; during a message, which is paid for already, only for a time limit."""
        is_busy = self.calls.in_progress or self.calls.handed_in is not None
        return not self.told_to_wrap_up and (bound.measure is Measure.SECONDS or not is_busy)

    def wrap_up(self, bound: Bound) -> None:
        """Interrupt the agent's turn once, and ask it to answer before it must be stopped.

        An agent that takes one message per process cannot be asked: it works until it is stopped.
        """
        self.told_to_wrap_up = True
        interrupt = self.sessions.agent.runner.interrupt()
        if interrupt and self.listens:
            self.nearly_used_up = bound
            self.process.say(interrupt)

    def left(self) -> None:
        """Record how a process ended."""
        self.exit_code = self.process.exit_code
        complaints = [line.strip() for line in self.process.stderr_tail.splitlines() if line.strip()]
        self.complaint = complaints[-1][:500] if complaints else ""

    def close(self) -> None:
        self._take(self.reader.close())
        self._have_observed()

    def hear(self, lines: Sequence[bytes | Oversized]) -> None:
        """Read lines that arrived together; observe their events at once."""
        for line in lines:
            self._take(self.reader.hear(line))
            if len(self.unobserved) >= _TOGETHER:
                self._have_observed()
        self._take(self.reader.settle())
        self._have_observed()

    def evidence(self, watch: _Watch) -> Evidence:
        bound = watch.bound_of(self)
        return Evidence(
            reply=self.sessions.agent.runner.reply,
            turn=self.turn,
            words=self.last_words()[0],
            promised=self.promise.made,
            quota=self.quota,
            denials=tuple(self.denials.values()),
            exit_code=self.exit_code,
            watchdog=watch.reason,
            used_up="" if bound is None else watch.used_up_words(bound, self),
            limit=None if bound is None else bound.limit,
            bound=bound.name if bound is not None and bound.limit is None else "",
            stopped=watch.has_ended_it,
            unlisted_tool=self.unlisted_tool,
            login_refused=self.login_refused,
            elsewhere=self.elsewhere,
            last_error=self.complaint,
        )

    def last_words(self) -> tuple[str, bool]:
        """Return the result's text, or the stream's last text, marked as degraded."""
        if self.turn is not None and self.turn.text:
            return self.turn.text, False
        return (said := self.said.text), bool(said)

    def _have_observed(self) -> None:
        if events := self.unobserved:
            self.unobserved = []
            self.sessions.observe(*events)

    def _take(self, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, Usage):
                self.unobserved.append(self._take_use(event))
                continue
            if isinstance(event, SessionStarted):
                self._take_start(event)
                continue
            self.unobserved.append(event)
            if isinstance(event, ToolStart | ToolEnd):
                self.calls.hear_tool(event)
            elif type(event) in _REACTED_TO:
                self._react(event)

    def _take_use(self, usage: Usage) -> Usage:
        """Record the session's usage so far; return it with its cost."""
        used = self.estimate(usage)
        allowance = self.request.allowance
        within = not self.is_limited or allowance.exhausted(Used(self.meter.session, 0.0)) is None
        self.calls.hear_usage(used, within=within)
        self.meter = self.meter.metered(used)
        return used

    def _take_start(self, event: SessionStarted) -> None:
        self.session_id = event.session_id or self.session_id
        self.unobserved.append(event.instead_of(self.asked_for))
        self._look_for_tool(event.tools)
        self._require_price(event.model)
        self._require_folder(event.cwd)

    def _react(self, event: Event) -> None:
        match event:
            case Text(tag=Tag.AI):
                self.said.add(event.text)
                self.promise = self.promise.after(event.text)
            case RateLimited():
                self.quota = event
            case ApiRetry(status=401) if not self.login_refused:
                # Claude Code would retry a refused login for three minutes (11 tries on 2.1.197).
                self.login_refused = True
                self.process.stop(self.sessions.agent.runner.interrupt())
            case TurnEnded():
                self._turn_ended(event)
            case _:
                pass

    def _look_for_tool(self, tools: Sequence[str]) -> None:
        """Note whether the agent lists the tool for verdicts; it may have the tool without listing it."""
        needed = self.sessions.agent.runner.required_tool
        self.unlisted_tool = "" if needed in tools else needed

    def _require_price(self, model: str) -> None:
        if self.request.allowance.dollars is None or not model or model in self.sessions.unpriced:
            return
        if not self.estimate.knows(model):
            self.sessions.unpriced.add(model)
            self.sessions.observe(Text(Tag.SYS, _UNPRICED.format(model=model)))

    def _require_folder(self, cwd: str) -> None:
        """Stop an agent that works elsewhere: nothing of its work would count."""
        if cwd and Path(cwd).resolve() != self.sessions.host.root.resolve():
            self.elsewhere = cwd
            self.process.stop(self.sessions.agent.runner.interrupt())

    def _turn_ended(self, turn: TurnEnded) -> None:
        self.denials.update({denial.id: denial for denial in turn.denials})
        if turn.origin or self.settled:  # a background task woke the agent: its cost counts, its answer does not
            return
        if turn.subtype == OUT_OF_MONEY and (verdict := self.calls.handed_in) is not None:
            # Claude Code tests --max-budget-usd before the tools of a message run (2.1.325), even the verdict's:
            # that verdict still counts before any limit.
            turn = replace(turn, is_error=False, structured_output=verdict, text=str(verdict["summary"]))
        self.calls.end_turn()
        self.turn = turn
        self.settled = True
        fault = correctable(turn, self.sessions.agent.runner.reply, promised=self.promise.made)
        goes_on = False
        if (bound := self.nearly_used_up) is not None and (fault is not None or interrupted(turn)):
            self.nearly_used_up = None
            goes_on = self._plead(bound)
        elif fault is not None and not self.unlisted_tool and self.corrections < MOST_CORRECTIONS:
            goes_on = self._say(fault)
            self.corrections += goes_on
        if not goes_on:
            self.process.finish()

    def _plead(self, bound: Bound) -> bool:
        heard = self._say(bound.plea)
        if heard:
            self.unobserved.append(Text(Tag.SYS, f"{bound.words} is nearly used up: asking the agent to wrap up"))
            self.calls.expect_answer()
        return heard

    def _say(self, text: str) -> bool:
        """Send one more message in this session; False if the agent takes no more messages."""
        answer = None if self.is_over else self.sessions.agent.runner.follow_up(self.request, self.session_id, text)
        if answer is None:
            return False
        self.unobserved.append(Text(Tag.PROMPT, text))
        self.turn = None
        if isinstance(answer, Launch):
            self.next_launch = answer
            self.process.finish()
        else:
            self.settled = False
            self.process.say(answer)
        return True
