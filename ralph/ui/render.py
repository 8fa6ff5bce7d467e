"""The wording of a run's events: who speaks and what, for plain lines and for live views alike. Needs no rich."""

import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from ralph.core import ndjson
from ralph.core.activity import NAMELESS, CallEnd, Digest, SessionActivity, ToolRow, gist
from ralph.core.events import (
    AgentChanged,
    ApiRetry,
    CheckEnded,
    CheckStarted,
    Compacted,
    Event,
    Guided,
    IterationEnded,
    IterationStarted,
    Meta,
    QuotaStatus,
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
from ralph.core.guidance import Receipt
from ralph.core.text import exit_words, format_duration, format_money, instant, local_time, plural
from ralph.core.usage import total_tokens
from ralph.core.verdict import TOOL, Verdict, claim_words, obstacle_in
from ralph.ui.terminal import Look, one_line

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
    """Return tokens, dollars and context, as far as known."""
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


_UNKNOWN = ("ignored", "ignored_block", "ignored_item", "system")
"""The names under which transcripts report unknown data."""

PLAN = "PLAN"
COMMANDS = frozenset({"next", "push", "fetch"})
"""Labels of lines that hold a command. The terminal itself folds those: a line end of ours, pasted with the rest, would
start half of the command."""

FAILED_LINES = 8
_KEPT_OUTPUT = 20_000
"""Characters of a call's output that are kept until it ends, its last ones: those of a failed call are shown."""

_KEPT_CALLS = 1000
"""Calls whose output is kept: an agent may print for calls that it never ends."""


class Detail(IntEnum):
    QUIET = 0
    NORMAL = 1
    VERBOSE = 2


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A label and a text of any number of lines. Plain lines ignore everything else."""

    label: str
    text: str
    tone: Look = Look.QUIET
    words: Look = Look.PLAIN
    aside: str = ""
    """Shown dimmed after the words."""
    markdown: bool = False
    fleeting: bool = False
    """One of many: a view that is far behind leaves it out."""


@dataclass(frozen=True, slots=True)
class Divider:
    """A line across the screen: the next session is about this."""

    what: str


@dataclass(frozen=True, slots=True)
class FinishedCall:
    """A tool call that is over, not worded yet: most of those of a busy agent are never drawn."""

    start: ToolStart | None
    """None: nobody saw it begin."""
    status: ToolStatus
    ended: CallEnd
    line: int | None
    """The file's line on which its change begins, if the agent said that."""
    output: str

    @property
    def fleeting(self) -> bool:
        """One of many: a view that is far behind leaves it out."""
        return self.status is not ToolStatus.FAIL


Said = Paragraph | Divider | FinishedCall


class EventRenderer:
    """A fold over events that words them. Screens show calls differently, so each has its own subclass."""

    def __init__(self, detail: Detail = Detail.NORMAL, root: str = "") -> None:
        """Paths below `root` are shown relative to it."""
        self.detail = detail
        self.root = root
        self._tally = SessionActivity()
        self._output: dict[str, _Output] = {}
        self._reported: Usage | None = None

    def tell(self, event: Event, at: str | None) -> Sequence[Said]:
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
                return [] if event.status == QuotaStatus.ALLOWED else [Paragraph("quota", _quota(event, at), Look.WARN)]
            case Compacted():
                self._tally.compactions += 1
                return [Paragraph("note", _compacted(event), Look.WARN)]
            case ApiRetry():
                words = f"the API answered {event.status or 'nothing'}; the agent retries (try {event.attempt})"
                return [Paragraph("retry", words, Look.WARN)]
            case TurnEnded(terminal_reason="aborted_tools" | "aborted_streaming"):
                return []  # we interrupted it, and said so
            case TurnEnded():
                words = one_line(event.text or event.subtype, 300)
                return [Paragraph("error", words, Look.BAD)] if event.is_error else []
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
                return [Paragraph("waiting", f"{until}{one_line(event.reason, 300)}", Look.WARN)]
            case Guided():
                return [Paragraph("guidance", _guided(event), Look.ACCENT)]
            case Meta():
                return self._unknown(event)
            case AgentChanged():
                return [Paragraph("note", _agent_changed(event, at), Look.WARN)]
            case RunStarted() | CheckStarted() | RunEnded():
                return []

    def call_starts(self, event: ToolStart) -> Sequence[Said]:
        """Word the beginning of a call."""
        raise NotImplementedError

    def call_ends(self, event: ToolEnd, ended: CallEnd, output: str) -> Sequence[Said]:
        """Word its end; `output` is what it printed, as far as that is kept."""
        raise NotImplementedError

    def output_of(self, call_id: str) -> str:
        """Return what an open call has printed so far, as far as that is kept."""
        kept = self._output.get(call_id)
        return "" if kept is None else "\n".join(kept.parts)

    def close_session(self) -> list[Paragraph]:
        """Report the session's tools and usage, as far as known; then forget it."""
        digest = self._tally.digest()
        self._forget_session()
        did = actions(digest)
        times = plural(digest.compactions, "compaction") if digest.compactions else ""
        used = " · ".join(filter(None, [report(digest.usage) if digest.usage is not None else "", times]))
        self._reported = digest.usage
        return [Paragraph(label, text, Look.SOFT) for label, text in (("ACTIONS", did), ("REPORT", used)) if text]

    @property
    def is_verbose(self) -> bool:
        return self.detail is Detail.VERBOSE

    def _begins(self, what: str) -> list[Paragraph | Divider]:
        self._forget_session()
        self._reported = None
        return [Paragraph("", ""), Divider(what)]

    def _call_starts(self, event: ToolStart, at: str | None) -> Sequence[Said]:
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
                return [] if hidden else [Paragraph("agent", event.text, Look.ACCENT, markdown=True, fleeting=True)]
            case Tag.THINK:
                return [self._thought(event)]
            case Tag.PROMPT:
                words = event.text if self.is_verbose else one_line(event.text, 160)
                return [Paragraph("prompt", words, words=Look.QUIET, fleeting=True)]
            case Tag.SYS:  # ralph's own word, or the agent's of its surroundings
                return [Paragraph("note", event.text, Look.WARN)]
            case Tag.TOOL | Tag.USER:
                label = "tool" if event.tag is Tag.TOOL else "user"
                return [Paragraph(label, event.text, words=Look.QUIET, fleeting=True)] if self.is_verbose else []

    def _thought(self, event: Text) -> Paragraph:
        if self._tally.says(event):
            return Paragraph(
                PLAN, event.text.strip() if self.is_verbose else plan(event.text), Look.SOFT, markdown=True
            )
        words = event.text if self.is_verbose else one_line(event.text, 100)
        return Paragraph("thinks", words, words=Look.QUIET, fleeting=True)

    def _keep(self, event: ToolOutput) -> None:
        self._tally.prints(event)
        if (output := self._output.get(event.id)) is None:
            output = self._output[event.id] = _Output()
            if len(self._output) > _KEPT_CALLS:
                del self._output[next(iter(self._output))]
        output.keep(event.text, most=None if self.is_verbose else _KEPT_OUTPUT)

    def _unknown(self, event: Meta) -> list[Paragraph]:
        """Show what ralph does not know, to who wants to see everything."""
        names = [f"{key.partition('_')[2] or 'event'} {event.meta[key]}" for key in _UNKNOWN if key in event.meta]
        if not names or not self.is_verbose:
            return []
        return [Paragraph("unknown", one_line(", ".join(names), 160), words=Look.QUIET, fleeting=True)]

    def _iteration_ended(self, event: IterationEnded) -> list[Paragraph]:
        """Report summary and commit, and cost and context unless the session's report just did."""
        facts = [f"commit {event.commit[:10]}"]
        if event.cost_usd is not None and (self._reported is None or self._reported.cost_usd is None):
            facts.append(format_money(event.cost_usd))
        if event.context_pct is not None and (self._reported is None or self._reported.context_pct is None):
            facts.append(f"context {event.context_pct:.0f} %")
        said = event.summary
        if event.verdict == Verdict.DONE:
            said = claim_words(event.summary)
        elif event.verdict == Verdict.BLOCKED:
            said = f"says it is blocked: {obstacle_in(event.summary)}"
        return [
            Paragraph("summary", said, Look.STRONG, markdown=True),
            Paragraph("", " · ".join(facts), words=Look.QUIET),
        ]

    def _summary_written(self, event: SummaryWritten) -> list[Paragraph]:
        told = event.cost_usd is None or (self._reported is not None and self._reported.cost_usd is not None)
        cost = [] if told else [Paragraph("", format_money(event.cost_usd or 0), words=Look.QUIET)]
        return [Paragraph("summary", event.text, Look.STRONG, markdown=True), *cost]


@dataclass(slots=True)
class _Output:
    """What a call has printed: in parts, since joining them each time would cost more than all else."""

    parts: deque[str] = field(default_factory=deque[str])
    length: int = 0

    def keep(self, text: str, most: int | None) -> None:
        """Keep a text; with a limit, of all of them about so many characters at their end."""
        kept = text if most is None else text[-most:]
        self.parts.append(kept)
        self.length += len(kept) + 1
        while most is not None and self.length - len(self.parts[0]) > most:
            self.length -= len(self.parts.popleft()) + 1


class PlainRenderer(EventRenderer):
    """For any terminal, file or pipe: shows a call when it begins, and its end only where that matters."""

    def call_starts(self, event: ToolStart) -> list[Paragraph]:
        return [
            Paragraph(one_line(event.name, 20), one_line(gist(event.input, self.root), 400 if self.is_verbose else 100))
        ]

    def call_ends(self, event: ToolEnd, ended: CallEnd, output: str) -> list[Paragraph]:
        if event.status is not ToolStatus.FAIL and not self.is_verbose:
            return []
        name = one_line(ended.name or NAMELESS, 40)
        if not self.is_verbose:
            return [Paragraph("", "\n".join([f"{name} failed:", *last_lines(output)]))]
        word = "failed" if event.status is ToolStatus.FAIL else event.status
        said = call(f"{name} {word}", ended.seconds, ended.lines)
        return [Paragraph("", f"{said}:\n{output}" if output else said)]


def last_lines(output: str, most: int = FAILED_LINES) -> list[str]:
    """Return the last lines of what a call printed, with their indent: there a failure says what it is."""
    lines = [line[:200].rstrip() for line in output[-_KEPT_OUTPUT:].splitlines()]
    return [line for line in lines if line][-most:]


def _agent_changed(event: AgentChanged, at: str | None) -> str:
    """Say who works from now on, and why."""
    who = f"{event.agent} (model {event.model})"
    if not event.instead_of:
        return f"{who} works again: its usage limit has reset"
    until = "" if event.until is None else f" until {_clock(event.until, at)}"
    return f"{who} takes over: {event.instead_of} has reached its usage limit{until}"


def _compacted(event: Compacted) -> str:
    """Say that a conversation was summarized, and how long it was."""
    before = "" if event.pre_tokens is None else f" at {event.pre_tokens:,} tokens"
    after = "" if event.post_tokens is None else f"; {event.post_tokens:,} are left"
    return f"the agent summarized its conversation{before}{after}"


def _session_started(event: SessionStarted) -> list[Paragraph]:
    """Model and version; of an agent that tells neither, the session's id. And whether it is another than asked for."""
    version = f"agent version {event.version}" if event.version else ""
    words = " · ".join(filter(None, [event.model, version])) or event.session_id
    said = [Paragraph("session", words, words=Look.QUIET)]
    if event.forked_from:
        fork = f"the agent forked the session: ralph asked for {event.forked_from}, this is {event.session_id}"
        said.append(Paragraph("note", one_line(fork, 300), Look.WARN))
    return said


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
        return Paragraph("check", f"green in {took}", Look.GOOD)
    why = "ran out of time" if event.exit_code is None else exit_words(event.exit_code)
    tail = last_lines(event.output) or ["(no output)"]
    return Paragraph("check", "\n".join([f"red ({why}) in {took}: DONE rejected", *tail]), Look.BAD)


def _clock(when: float, at: str | None) -> str:
    """Write a time relative to `at` for people."""
    return local_time(when, (instant(at) if at else None) or 0.0)


def _quota(event: RateLimited, at: str | None) -> str:
    words: Mapping[str, str] = {QuotaStatus.NEARLY_USED_UP: "nearly used up", QuotaStatus.USED_UP: "used up"}
    facts = [
        one_line(event.kind).replace("_", " "),
        "" if event.used is None else f"{min(event.used, 10) * 100:.0f} % used",
        f"resets {_clock(event.resets_at, at)}" if event.resets_at else "",
    ]
    return f"{words.get(event.status, one_line(event.status))} ({', '.join(filter(None, facts))})"


def _guided(event: Guided) -> str:
    fates: Mapping[str, str] = {
        Receipt.RECEIVED: "the next session will read it",
        Receipt.ACKNOWLEDGED: "acknowledged",
        Receipt.MISSING: "not acknowledged; sending it again",
        Receipt.DROPPED: "never acknowledged; ralph stops sending it",
    }
    fate = fates.get(event.status, one_line(event.status))
    return f"{event.number}: {event.text} ({fate})" if event.status == Receipt.RECEIVED else f"{event.number}: {fate}"
