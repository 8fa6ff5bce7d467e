"""What one session did and used: a fold over its events that keeps only open calls and names."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ralph.core.events import Tag, Text, ToolEnd, ToolOutput, ToolStart, ToolStatus, Usage
from ralph.core.text import instant
from ralph.core.verdict import TOOL

MOST_NAMES = 50
"""Tools with a row of their own; what an agent calls beyond them is counted under `OTHER`."""

OTHER = "other"
NAMELESS = "tool"
"""The name of a call that ended without a start."""

_NAMED = ("command", "cmd", "file_path", "path", "pattern", "skill", "summary")
"""Tool parameters that say most about a call."""

_KEPT_SPANS = 100
"""How many of the latest time spans to keep: a call overlaps one of these unless it took hours."""

_LOOKED_AT = 200
_PLAN = re.compile(r"[*#_> ]*plan(?![a-z])", re.IGNORECASE)

Span = tuple[float, float]
"""Two instants."""


@dataclass(frozen=True, slots=True)
class ToolRow:
    """The calls of one tool. `seconds`: how long they took, as far as known; None if unknown for all.

    Durations that the agent reports add up. Durations from stamps count once where calls overlap: most agents announce
    several calls and then make one after the other.
    """

    name: str
    calls: int = 0
    ok: int = 0
    failed: int = 0
    seconds: float | None = None
    lines: int = 0

    @property
    def unknown(self) -> int:
        """Calls that are open or have no known result."""
        return self.calls - self.ok - self.failed


@dataclass(frozen=True, slots=True)
class Digest:
    """The tools that a session called, most frequent first, the last it said of its use, and how often it compacted."""

    tools: tuple[ToolRow, ...] = ()
    usage: Usage | None = None
    compactions: int = 0


@dataclass(frozen=True, slots=True)
class CallEnd:
    """One finished call; `name` is empty if unknown."""

    name: str
    seconds: float | None
    lines: int


class SessionActivity:
    """Takes in a session's events one by one, in whatever order an agent reports them.

    `at` is the stamp of the moment an event was read, if it is known.
    """

    def __init__(self) -> None:
        self._has_planned = False
        self._rows: dict[str, _Row] = {}
        self._open: dict[str, _Call] = {}
        self._usage: Usage | None = None
        self.compactions = 0

    def says(self, event: Text) -> bool:
        """Read a text; tell whether it is a plan: the first thought, or one with the heading Plan."""
        if event.tag is not Tag.THINK:
            return False
        text = event.text.strip()
        if not text or (self._has_planned and _PLAN.match(text[:_LOOKED_AT]) is None):
            return False
        self._has_planned = True
        return True

    def starts(self, event: ToolStart, at: str | None = None) -> None:
        if event.id in self._open:
            return  # an id names one call: a repeated report is not a second call
        row = None if event.name == TOOL else self._row(event.name or NAMELESS)
        if row is not None:
            row.calls += 1
        self._open[event.id] = _Call(event.name, at, row)

    def prints(self, event: ToolOutput) -> None:
        """Count the lines of a call's output; output without a started call belongs to no tool."""
        if (call := self._open.get(event.id)) is not None:
            lines = event.text.count("\n") + (not event.text.endswith("\n"))
            call.lines += lines
            if call.row is not None:
                call.row.lines += lines

    def ends(self, event: ToolEnd, at: str | None = None) -> CallEnd:
        """Close a call; count it even if its start is missing."""
        call = self._open.pop(event.id, None)
        if call is None:
            row = self._row(NAMELESS)
            row.calls += 1
            call = _Call("", None, row)
        span = _span(call.at, at) if event.duration_ms is None else max(0, event.duration_ms) / 1000
        if (row := call.row) is not None:
            row.end(event.status, span)
        return CallEnd(call.name, span[1] - span[0] if isinstance(span, tuple) else span, call.lines)

    def uses(self, event: Usage) -> None:
        self._usage = event

    def digest(self) -> Digest:
        """Return the session's activity so far."""
        rows = [
            ToolRow(name, row.calls, row.ok, row.failed, row.seconds, row.lines) for name, row in self._rows.items()
        ]
        rows.sort(key=lambda row: -row.calls)
        return Digest(tuple(rows), self._usage, self.compactions)

    def _row(self, name: str) -> "_Row":
        row = self._rows.get(name)
        if row is None:
            name = name if len(self._rows) < MOST_NAMES else OTHER
            row = self._rows.setdefault(name, _Row())
        return row


@dataclass(slots=True)
class _Row:
    calls: int = 0
    ok: int = 0
    failed: int = 0
    seconds: float | None = None
    lines: int = 0

    _spans: list[Span] = field(default_factory=list[Span])
    """The latest time spans counted in `seconds`; they do not overlap."""

    def end(self, status: ToolStatus, took: Span | float | None) -> None:
        if status is ToolStatus.OK:
            self.ok += 1
        elif status is ToolStatus.FAIL:
            self.failed += 1
        if took is not None:
            self.seconds = (self.seconds or 0.0) + (self._anew(*took) if isinstance(took, tuple) else took)

    def _anew(self, begun: float, ended: float) -> float:
        """Return how much of a time span is not in any earlier one."""
        covered = 0.0
        while self._spans and self._spans[-1][1] > begun:
            first, last = self._spans.pop()
            covered += last - first
            begun, ended = min(begun, first), max(ended, last)
        self._spans = [*self._spans[1 - _KEPT_SPANS :], (begun, ended)]
        return max(0.0, ended - begun - covered)


@dataclass(slots=True)
class _Call:
    """An open call. `row` is None for the verdict, which is not an action."""

    name: str
    at: str | None
    row: _Row | None
    lines: int = 0


def gist(tool_input: Mapping[str, object], root: str = "") -> str:
    """Describe a call by its most telling parameters; paths below `root` are relative to it."""
    try:
        named = [str(tool_input[key]) for key in _NAMED if key in tool_input]
        said = " ".join(named) or ", ".join(f"{key}={value}" for key, value in tool_input.items())
    except RecursionError:  # JSON can be nested deeper than Python can write it
        return "…"
    return said.replace(f"{root}/", "") if root else said


def _span(start: str | None, end: str | None) -> Span | None:
    """Return the time span between two stamps; None if one is missing or invalid."""
    first, last = (None if stamp is None else instant(stamp) for stamp in (start, end))
    return None if first is None or last is None else (first, max(first, last))
