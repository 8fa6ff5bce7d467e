"""What is told of a run's events: who speaks and what, for plain lines and, folded and in tones, for live views."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from ralph.core import ndjson
from ralph.core.activity import NAMELESS, CallEnd, Digest, SessionActivity, ToolRow, gist
from ralph.core.events import (
    ApiRetry,
    CheckEnded,
    CheckStarted,
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
from ralph.core.text import exit_words, format_duration, format_money, instant, local_time, plural
from ralph.core.usage import total_tokens
from ralph.core.verdict import TOOL, obstacle_in
from ralph.ui.draw import Tone
from ralph.ui.terminal import one_line

_PLAN_LINES = 6
_PLAN_WIDTH = 160
_HEADING = re.compile(r"(?:#+ *plan:?|\*\*plan:?\*\*:?|plan:)\s+", re.IGNORECASE)


def plan(text: str) -> str:
    """The first lines of a plan, without the word that the label says already."""
    said = _HEADING.sub("", text[: _PLAN_LINES * _PLAN_WIDTH * 8].lstrip(), count=1)
    lines = [line for line in said.splitlines() if line.strip()]
    kept = [one_line(line, _PLAN_WIDTH) for line in lines[:_PLAN_LINES]]
    if len(lines) > _PLAN_LINES:
        kept[-1] += " …"
    return "\n".join(kept)


def actions(digest: Digest) -> str:
    """A line for each tool; empty if none was called."""
    return "\n".join(_row(row) for row in digest.tools)


def report(usage: Usage) -> str:
    """Tokens, dollars and context, as far as they were told."""
    context = "" if usage.context_pct is None else f"context {usage.context_pct:.0f} %"
    estimate = " (estimate)" if usage.cost_is_estimate is True else ""
    cost = "" if usage.cost_usd is None else f"{format_money(usage.cost_usd)}{estimate}"
    return " · ".join(filter(None, [_tokens(usage), cost, context]))


def call(status: str, seconds: float | None, lines: int) -> str:
    """How one call, or all of a tool's, went."""
    took = "" if seconds is None else format_duration(seconds)
    return " · ".join(filter(None, [status, took, plural(lines, "line") if lines else ""]))


def _row(row: ToolRow) -> str:
    ends = {"ok": row.ok, "failed": row.failed, "unknown": row.unknown}
    status = ", ".join(f"{number:,} {word}" for word, number in ends.items() if number)
    return call(f"{one_line(row.name, 40)} {row.calls:,}: {status}", row.seconds, row.lines)


def _tokens(usage: Usage) -> str:
    prompt, completion = usage.prompt_tokens, usage.completion_tokens
    total = total_tokens(usage)
    if not total:
        return "" if total is None else "0 tokens"
    cached = f" ({usage.cache_read_tokens:,} cached)" if usage.cache_read_tokens else ""
    parts = [
        "" if prompt is None else f"{prompt:,} in{cached}",
        "" if completion is None else f"{completion:,} out",
    ]
    detail = ", ".join(filter(None, parts))
    return plural(total, "token") + (f": {detail}" if detail else "")


PLAN = "PLAN"
COMMANDS = frozenset({"next", "push", "fetch"})
"""Labels of lines that hold a command. The terminal itself folds those: a line end of ours, pasted with the rest, would
start half of the command."""

FAILED_LINES = 8
_KEPT_OUTPUT = 20_000
"""Characters of a call's output that are kept until it ends: of one that failed the first lines are shown."""

_KEPT_CALLS = 1000
"""Calls whose output is kept: an agent may print for calls that it never ends."""


class Detail(IntEnum):
    QUIET = 0
    NORMAL = 1
    VERBOSE = 2


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A label and the words beside it, of which there may be many lines. Only a live view heeds the tones."""

    label: str
    text: str
    tone: Tone = Tone.DIM
    words: Tone = Tone.PLAIN
    aside: str = ""
    """What stands dimmed after the words."""


@dataclass(frozen=True, slots=True)
class Divider:
    """A line across the screen: the next session is about this."""

    what: str


class EventRenderer:
    """A fold over events. How calls are told differs from screen to screen: that is left to who derives from it."""

    def __init__(self, detail: Detail = Detail.NORMAL, root: str = "") -> None:
        """Paths below `root` are told relative to it."""
        self.detail = detail
        self.root = root
        self._tally = SessionActivity()
        self._output: dict[str, _Output] = {}
        self._reported: Usage | None = None

    def tell(self, event: Event, at: str | None) -> Sequence[Paragraph | Divider]:
        """What to show of an event."""
        match event:
            case IterationStarted(iteration=number):
                return self._begins(f"iteration {number}")
            case SummaryStarted(through=number):
                return self._begins(f"summary of iterations 1-{number}")
            case SessionStarted():
                return [_session_started(event)]
            case Text():
                return self._text(event)
            case ToolStart():
                return self._call_starts(event, at)
            case ToolOutput():
                self._keep(event)
                return []
            case ToolEnd():
                ended = self._tally.ends(event, at)
                kept = self._output.pop(event.id, None)
                return self.call_ends(event, ended, "" if kept is None else "\n".join(kept.parts).strip())
            case Usage():
                self._tally.uses(event)
                return []
            case RateLimited():
                return [] if event.status == "allowed" else [Paragraph("quota", _quota(event, at), Tone.WARN)]
            case ApiRetry():
                words = f"the API answered {event.status or 'nothing'}; the agent tries again ({event.attempt})"
                return [Paragraph("retry", words, Tone.WARN)]
            case TurnEnded(terminal_reason="aborted_tools" | "aborted_streaming"):
                return []  # we interrupted it, and said so
            case TurnEnded():
                words = one_line(event.text or event.subtype, 300)
                return [Paragraph("error", words, Tone.BAD)] if event.is_error else []
            case SessionEnded():
                return self.close_session()
            case IterationEnded():
                return self._iteration_ended(event)
            case SummaryWritten():
                return self._summary_written(event)
            case CheckEnded():
                return [_check_ended(event)]
            case Waiting():
                until = "" if event.until is None else f"until {_clock(event.until, at)}: "
                return [Paragraph("waiting", f"{until}{one_line(event.reason, 300)}", Tone.WARN)]
            case Guided():
                return [Paragraph("guidance", _guided(event), Tone.CALM)]
            case Meta() | RunStarted() | CheckStarted() | RunEnded():
                return []

    def pass_over(self, event: Event, at: str | None) -> Sequence[Paragraph]:
        """Count an event of which nothing is to be shown; a plan is all the same."""
        match event:
            case ToolStart():
                self._call_starts(event, at)
            case ToolOutput():
                self._keep(event)
            case ToolEnd():
                self._tally.ends(event, at)
                self._output.pop(event.id, None)
                self.forget_call(event)
            case Text(tag=Tag.THINK):
                return [each for each in self._text(event) if each.label == PLAN]
            case _:
                pass
        return []

    def forget_call(self, event: ToolEnd) -> None:
        """Nothing is told of a call that is over."""

    def call_starts(self, event: ToolStart) -> Sequence[Paragraph]:
        """What is told when a call begins."""
        raise NotImplementedError

    def call_ends(self, event: ToolEnd, ended: CallEnd, output: str) -> Sequence[Paragraph]:
        """What is told when it is over; `output` is what it printed, as far as that is kept."""
        raise NotImplementedError

    def close_session(self) -> list[Paragraph]:
        """Say what was done and what it took, as far as events told; then forget the session."""
        digest = self._tally.digest()
        self._forget_session()
        did = actions(digest)
        used = report(digest.usage) if digest.usage is not None else ""
        self._reported = digest.usage
        return [Paragraph(label, text, Tone.SOFT) for label, text in (("ACTIONS", did), ("REPORT", used)) if text]

    @property
    def is_verbose(self) -> bool:
        return self.detail is Detail.VERBOSE

    def _begins(self, what: str) -> list[Paragraph | Divider]:
        self._forget_session()
        self._reported = None
        return [Paragraph("", ""), Divider(what)]

    def _call_starts(self, event: ToolStart, at: str | None) -> Sequence[Paragraph]:
        self._tally.starts(event, at)
        if event.name == TOOL and not self.is_verbose:
            return []  # the summary follows
        return self.call_starts(event)

    def _forget_session(self) -> None:
        self._tally = SessionActivity()
        self._output.clear()

    def _text(self, event: Text) -> list[Paragraph]:
        match event.tag:
            case Tag.AI:
                hidden = not self.is_verbose and _is_answer(event.text)
                return [] if hidden else [Paragraph("agent", event.text, Tone.CALM)]
            case Tag.THINK:
                return [self._thought(event)]
            case Tag.PROMPT:
                return [Paragraph("told", event.text if self.is_verbose else one_line(event.text, 160), words=Tone.DIM)]
            case Tag.SYS:  # ralph's own word, or the agent's of its surroundings
                return [Paragraph("note", event.text, Tone.WARN)]
            case Tag.TOOL | Tag.USER:
                label = "tool" if event.tag is Tag.TOOL else "user"
                return [Paragraph(label, event.text, words=Tone.DIM)] if self.is_verbose else []

    def _thought(self, event: Text) -> Paragraph:
        if self._tally.says(event):
            return Paragraph(PLAN, event.text.strip() if self.is_verbose else plan(event.text), Tone.SOFT)
        return Paragraph("thinks", event.text if self.is_verbose else one_line(event.text, 100), words=Tone.DIM)

    def _keep(self, event: ToolOutput) -> None:
        self._tally.prints(event)
        if (output := self._output.get(event.id)) is None:
            output = self._output[event.id] = _Output()
            if len(self._output) > _KEPT_CALLS:
                del self._output[next(iter(self._output))]
        if self.is_verbose or output.length < _KEPT_OUTPUT:
            output.keep(event.text if self.is_verbose else event.text[:_KEPT_OUTPUT])

    def _iteration_ended(self, event: IterationEnded) -> list[Paragraph]:
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
        return [Paragraph("summary", said, Tone.STRONG), Paragraph("", " · ".join(facts), words=Tone.DIM)]

    def _summary_written(self, event: SummaryWritten) -> list[Paragraph]:
        told = event.cost_usd is None or (self._reported is not None and self._reported.cost_usd is not None)
        cost = [] if told else [Paragraph("", format_money(event.cost_usd or 0), words=Tone.DIM)]
        return [Paragraph("summary", event.text, Tone.STRONG), *cost]


@dataclass(slots=True)
class _Output:
    """What a call has printed: in parts, since joining them each time would cost more than all else."""

    parts: list[str] = field(default_factory=list[str])
    length: int = 0

    def keep(self, text: str) -> None:
        self.parts.append(text)
        self.length += len(text) + 1


class PlainTelling(EventRenderer):
    """For any terminal, file or pipe: a call is told when it begins, and how it ended only where that matters."""

    def call_starts(self, event: ToolStart) -> list[Paragraph]:
        return [
            Paragraph(one_line(event.name, 20), one_line(gist(event.input, self.root), 400 if self.is_verbose else 100))
        ]

    def call_ends(self, event: ToolEnd, ended: CallEnd, output: str) -> list[Paragraph]:
        if event.status is not ToolStatus.FAIL and not self.is_verbose:
            return []
        name = one_line(ended.name or NAMELESS, 40)
        if not self.is_verbose:
            return [Paragraph("", "\n".join([f"{name} failed:", *first_lines(output)]))]
        word = "failed" if event.status is ToolStatus.FAIL else event.status
        said = call(f"{name} {word}", ended.seconds, ended.lines)
        return [Paragraph("", f"{said}:\n{output}" if output else said)]


def first_lines(output: str) -> list[str]:
    """Of what a call that failed has printed."""
    return [one_line(line, 200) for line in output.splitlines()[:FAILED_LINES]]


def _session_started(event: SessionStarted) -> Paragraph:
    """Model and version; of an agent that tells neither, the session's id."""
    version = f"agent version {event.version}" if event.version else ""
    words = " · ".join(filter(None, [event.model, version])) or event.session_id
    return Paragraph("session", words, words=Tone.DIM)


def _is_answer(text: str) -> bool:
    """Tell whether a text is the verdict as JSON and nothing else: some agents give it so, and the summary follows."""
    text = text.strip()
    if not text.startswith("{") or not text.endswith("}"):
        return False
    try:
        answer = ndjson.mapping(ndjson.decode(text))
    except ndjson.Malformed:
        return False
    return set(answer) == {"summary"} and isinstance(answer["summary"], str)


def _check_ended(event: CheckEnded) -> Paragraph:
    took = format_duration(event.seconds)
    if event.exit_code == 0:
        return Paragraph("check", f"green in {took}", Tone.GOOD)
    why = "ran out of time" if event.exit_code is None else exit_words(event.exit_code)
    tail = event.output.strip().splitlines()[-FAILED_LINES:] or ["(it printed nothing)"]
    return Paragraph("check", "\n".join([f"red ({why}) in {took}: DONE is withdrawn", *tail]), Tone.BAD)


def _clock(when: float, at: str | None) -> str:
    """An instant as people read it who are told of it at another one."""
    return local_time(when, (instant(at) if at else None) or 0.0)


def _quota(event: RateLimited, at: str | None) -> str:
    words = {"allowed_warning": "nearly used up", "rejected": "used up"}
    facts = [
        one_line(event.kind).replace("_", " "),
        "" if event.used is None else f"{min(event.used, 10) * 100:.0f} % used",
        f"resets {_clock(event.resets_at, at)}" if event.resets_at else "",
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
