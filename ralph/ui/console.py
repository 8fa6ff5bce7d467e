"""Events as lines a person can read, in any terminal, file or pipe."""

import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from ralph import jsonline
from ralph.digest import NAMELESS, Tally
from ralph.events import (
    ApiRetry,
    CheckEnded,
    Event,
    Guided,
    IterationEnded,
    IterationStarted,
    Meta,
    RateLimited,
    RunEnded,
    RunStarted,
    SessionEnded,
    SessionStarted,
    SummaryStarted,
    SummaryWritten,
    Tag,
    Text,
    ToolEnd,
    ToolOutput,
    ToolStart,
    ToolStatus,
    TurnEnded,
    Usage,
    Waiting,
)
from ralph.quantities import format_duration, format_money, timestamp
from ralph.ui import callouts
from ralph.ui.keys import WAKE_KEY
from ralph.ui.outlet import Outlet
from ralph.ui.sanitise import one_line, visible
from ralph.verdict import TOOL, obstacle_in

_LABEL = 9
_FAILED_LINES = 8
_KEPT_OUTPUT = 20_000
"""Characters of a call's output that are kept until it ends: of one that failed the first lines are shown."""

_KEPT_CALLS = 1000
"""Calls whose output is kept: an agent may print for calls that it never ends."""

_TELLING = ("command", "cmd", "file_path", "path", "pattern", "skill", "summary")
"""Tool parameters that say most about a call."""


class Detail(IntEnum):
    QUIET = 0
    NORMAL = 1
    VERBOSE = 2


class Console:
    """A screen of plain lines: `label  text`, the label saying who speaks."""

    def __init__(self, outlet: Outlet, detail: Detail = Detail.NORMAL, root: str = "") -> None:
        """Write to `outlet`; paths below `root` are shown relative to it."""
        self._outlet = outlet
        self._detail = detail
        self._root = root
        self._tally = Tally()
        self._output: dict[str, _Output] = {}
        self._reported: Usage | None = None
        self._wait: Waiting | None = None
        self._countdown = ""

    def __call__(self, events: Sequence[Event], at: str | None, _lines: bytes) -> None:
        """Show events that were read together, `at` this moment if it is known."""
        if self._detail is Detail.QUIET:
            return
        lines = [line for event in events for line in self.lines(event, at)]
        if lines:
            self._write(lines)

    def say(self, label: str, text: str) -> None:
        """Write a line that is no event's: header, recovery, farewell."""
        self._write(_labelled(label, text))

    def tick(self, now: float, *, keys: bool) -> None:
        """Show a terminal how long a wait will still take; `keys`: one of them ends it."""
        if self._detail is Detail.QUIET or self._wait is None or (width := self._outlet.width) is None:
            return
        if self._wait.until is None:
            line = "paused: `ralph resume` goes on, `ralph stop` ends the run"
        else:
            line = f"{_clock(self._wait.until - now)} left · `ralph wake`{f' or {WAKE_KEY}' if keys else ''}: go on now"
        if line != self._countdown:
            self._outlet.write(f"\r{' ' * (_LABEL + 2)}{line}"[:width] + "\x1b[K")
            self._countdown = line

    def end_wait(self) -> None:
        """Take the countdown off the screen."""
        self._wait = None
        if self._countdown:
            self._countdown = ""
            self._outlet.write("\r\x1b[K")

    def close_session(self) -> None:
        """Say what was done and used in a session of which nobody says that it has ended: a log's."""
        self._write(self._session_ended())

    def _write(self, lines: list[str]) -> None:
        width = self._outlet.width
        if self._countdown:  # what is written below it takes its place
            self._countdown = ""
            self._outlet.write("\r\x1b[K")
        folded = lines if width is None else [part for line in lines for part in _folded(line, width)]
        self._outlet.write("".join(f"{line}\n" for line in folded))

    def lines(self, event: Event, at: str | None) -> list[str]:
        """What to show of an event."""
        match event:
            case IterationStarted(iteration=number):
                return self._begins(f"iteration {number}")
            case SummaryStarted(through=number):
                return self._begins(f"summary of iterations 1-{number}")
            case SessionStarted():
                return _session_started(event)
            case Text():
                return self._text(event)
            case ToolStart():
                self._tally.starts(event, at)
                if event.name == TOOL and not self._verbose:
                    return []  # the summary follows
                return _labelled(one_line(event.name, 20), self._brief(event.input))
            case ToolOutput():
                self._keep(event)
                return []
            case ToolEnd():
                return self._tool_end(event, at)
            case Usage():
                self._tally.uses(event)
                return []
            case RateLimited():
                return [] if event.status == "allowed" else _labelled("quota", _quota(event))
            case ApiRetry():
                return _labelled(
                    "retry", f"the API answered {event.status or 'nothing'}; the agent tries again ({event.attempt})"
                )
            case TurnEnded(terminal_reason="aborted_tools" | "aborted_streaming"):
                return []  # we interrupted it, and said so
            case TurnEnded():
                return _labelled("error", one_line(event.text or event.subtype, 300)) if event.is_error else []
            case SessionEnded():
                return self._session_ended()
            case IterationEnded():
                return self._iteration_ended(event)
            case SummaryWritten():
                return self._summary_written(event)
            case CheckEnded():
                return self._check_ended(event)
            case Waiting():
                self._wait = event
                until = "" if event.until is None else f"until {timestamp(event.until)}: "
                return _labelled("waiting", f"{until}{one_line(event.reason, 300)}")
            case Guided():
                return _labelled("guidance", _guided(event))
            case Meta() | RunStarted() | RunEnded():
                return []

    def _begins(self, what: str) -> list[str]:
        """Draw a rule: the next session is about this."""
        self._forget_session()
        self._reported = None
        return ["", f"── {what} " + "─" * 40]

    @property
    def _verbose(self) -> bool:
        return self._detail is Detail.VERBOSE

    def _text(self, event: Text) -> list[str]:
        match event.tag:
            case Tag.AI:
                return [] if _is_answer(event.text) and not self._verbose else _labelled("agent", event.text)
            case Tag.THINK:
                return self._thought(event)
            case Tag.PROMPT:
                return _labelled("told", event.text if self._verbose else one_line(event.text, 160))
            case Tag.SYS:  # ralph's own word, or the agent's of its surroundings
                return _labelled("note", event.text)
            case Tag.TOOL | Tag.USER:
                return _labelled("tool" if event.tag is Tag.TOOL else "user", event.text) if self._verbose else []

    def _thought(self, event: Text) -> list[str]:
        if self._tally.says(event):
            return _labelled("PLAN", event.text.strip() if self._verbose else callouts.plan(event.text))
        return _labelled("thinks", event.text if self._verbose else one_line(event.text, 100))

    def _keep(self, event: ToolOutput) -> None:
        self._tally.prints(event)
        if (output := self._output.get(event.id)) is None:
            output = self._output[event.id] = _Output()
            if len(self._output) > _KEPT_CALLS:
                del self._output[next(iter(self._output))]
        if self._verbose or output.length < _KEPT_OUTPUT:
            output.keep(event.text if self._verbose else event.text[:_KEPT_OUTPUT])

    def _tool_end(self, event: ToolEnd, at: str | None) -> list[str]:
        ended = self._tally.ends(event, at)
        kept = self._output.pop(event.id, None)
        if event.status is not ToolStatus.FAIL and not self._verbose:
            return []
        name = one_line(ended.name or NAMELESS, 40)
        output = "" if kept is None else "\n".join(kept.parts).strip()
        if not self._verbose:
            first = [one_line(line, 200) for line in output.splitlines()[:_FAILED_LINES]]
            return _labelled("", "\n".join([f"{name} failed:", *first]))
        word = "failed" if event.status is ToolStatus.FAIL else event.status
        said = callouts.call(f"{name} {word}", ended.seconds, ended.lines)
        return _labelled("", f"{said}:\n{output}" if output else said)

    def _session_ended(self) -> list[str]:
        """Say what was done and what it took, as far as events told; then forget the session."""
        digest = self._tally.digest()
        self._forget_session()
        did = callouts.actions(digest)
        used = callouts.report(digest.usage) if digest.usage is not None else ""
        self._reported = digest.usage
        return [*(_labelled("ACTIONS", did) if did else []), *(_labelled("REPORT", used) if used else [])]

    def _forget_session(self) -> None:
        self._tally = Tally()
        self._output.clear()

    def _brief(self, tool_input: Mapping[str, object]) -> str:
        named = [str(tool_input[key]) for key in _TELLING if key in tool_input]
        said = " ".join(named) or ", ".join(f"{key}={value}" for key, value in tool_input.items())
        return one_line(said.replace(f"{self._root}/", "") if self._root else said, 400 if self._verbose else 100)

    def _iteration_ended(self, event: IterationEnded) -> list[str]:
        """Summary and commit; cost and context only if the session's report has not just told them."""
        facts = [f"commit {event.commit[:10]}"]
        if event.cost_usd is not None and (self._reported is None or self._reported.cost_usd is None):
            facts.append(format_money(event.cost_usd))
        if event.context_pct is not None and (self._reported is None or self._reported.context_pct is None):
            facts.append(f"context {event.context_pct:.0f} %")
        said = event.summary
        if event.verdict == "DONE":
            said = "claims DONE" if event.summary == "DONE" else f"claims DONE: {event.summary}"
        elif event.verdict == "BLOCKED":
            said = f"says it is blocked: {obstacle_in(event.summary)}"
        return [*_labelled("summary", said), *_labelled("", " · ".join(facts))]

    def _summary_written(self, event: SummaryWritten) -> list[str]:
        told = event.cost_usd is None or (self._reported is not None and self._reported.cost_usd is not None)
        return [*_labelled("summary", event.text), *([] if told else _labelled("", format_money(event.cost_usd or 0)))]

    def _check_ended(self, event: CheckEnded) -> list[str]:
        took = format_duration(event.seconds)
        if event.exit_code == 0:
            return _labelled("check", f"green in {took}")
        why = "ran out of time" if event.exit_code is None else _status(event.exit_code)
        tail = event.output.strip().splitlines()[-_FAILED_LINES:] or ["(it printed nothing)"]
        return _labelled("check", "\n".join([f"red ({why}) in {took}: DONE is withdrawn", *tail]))


@dataclass(slots=True)
class _Output:
    """What a call has printed: in parts, since joining them each time would cost more than all else."""

    parts: list[str] = field(default_factory=list[str])
    length: int = 0

    def keep(self, text: str) -> None:
        self.parts.append(text)
        self.length += len(text) + 1


def _session_started(event: SessionStarted) -> list[str]:
    """Model and version; of an agent that tells neither, the session's id."""
    version = f"agent version {event.version}" if event.version else ""
    return _labelled("session", " · ".join(filter(None, [event.model, version])) or event.session_id)


def _is_answer(text: str) -> bool:
    """Tell whether a text is the verdict as JSON and nothing else: some agents give it so, and the summary follows."""
    text = text.strip()
    if not text.startswith("{") or not text.endswith("}"):
        return False
    try:
        answer = jsonline.mapping(jsonline.decode(text))
    except jsonline.Malformed:
        return False
    return set(answer) == {"summary"} and isinstance(answer["summary"], str)


def _folded(line: str, width: int) -> list[str]:
    """Fold a line at the terminal's edge, between words, keeping the column of labels free."""
    if len(line) <= width or line.startswith("──"):  # a rule is cut
        return [line[:width]]
    words = line.lstrip()
    indent = line[: len(line) - len(words)]
    below = indent or " " * (_LABEL + 2)
    wrapped = textwrap.wrap(
        words, max(width, 40), initial_indent=indent, subsequent_indent=below, break_on_hyphens=False
    )
    return wrapped or [""]


def _labelled(label: str, text: str) -> list[str]:
    first, *rest = visible(text).rstrip().expandtabs(4).splitlines() or [""]
    margin = " " * (_LABEL + 2)
    return [f"{visible(label):<{_LABEL}}  {first}".rstrip(), *(f"{margin}{line}".rstrip() for line in rest)]


def _status(exit_code: int) -> str:
    return f"exit {exit_code}" if exit_code >= 0 else f"killed by signal {-exit_code}"


def _quota(event: RateLimited) -> str:
    words = {"allowed_warning": "nearly used up", "rejected": "used up"}
    facts = [
        one_line(event.kind).replace("_", " "),
        "" if event.used is None else f"{min(event.used, 10) * 100:.0f} % used",
        f"resets {timestamp(event.resets_at)}" if event.resets_at else "",
    ]
    return f"{words.get(event.status, one_line(event.status))} ({', '.join(filter(None, facts))})"


def _guided(event: Guided) -> str:
    fates = {
        "received": "the next session is told",
        "acknowledged": "acknowledged",
        "unacknowledged": "not acknowledged; it is told again",
        "dropped": "never acknowledged; it is not told any more",
    }
    fate = fates.get(event.status, one_line(event.status))
    return f"{event.number}: {event.text} ({fate})" if event.status == "received" else f"{event.number}: {fate}"


def _clock(seconds: float) -> str:
    whole = max(0, math.ceil(seconds))
    hours, rest = divmod(whole, 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"


def json_screen(outlet: Outlet) -> Callable[[Sequence[Event], str, bytes], None]:
    """A screen for programs: every event as the line that was journaled."""

    def show(_events: Sequence[Event], _at: str, lines: bytes) -> None:
        outlet.write_bytes(lines)

    return show
