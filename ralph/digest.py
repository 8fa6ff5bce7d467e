"""What one session did and used: a fold over its events that holds no more than its open calls and names."""

import re
from dataclasses import dataclass
from datetime import datetime

from ralph.events import Tag, Text, ToolEnd, ToolOutput, ToolStart, ToolStatus, Usage
from ralph.verdict import TOOL

MOST_NAMES = 50
"""Tools with a row of their own; what an agent calls beyond them is counted under `OTHER`."""

OTHER = "other"
NAMELESS = "tool"
"""The name of a call that ended without having begun."""

_LOOKED_AT = 200
_PLAN = re.compile(r"[*#_> ]*plan(?![a-z])", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ToolRow:
    """The calls of one tool. `seconds` sums those whose duration is known; None: no duration is."""

    name: str
    calls: int = 0
    ok: int = 0
    failed: int = 0
    seconds: float | None = None
    lines: int = 0

    @property
    def unknown(self) -> int:
        """Calls that are open, or of which nobody said how they ended."""
        return self.calls - self.ok - self.failed


@dataclass(frozen=True, slots=True)
class Digest:
    """The tools that a session called, most frequent first, and the last it said of its use."""

    tools: tuple[ToolRow, ...] = ()
    usage: Usage | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """One call that is over; `name` is empty if nobody told it."""

    name: str
    seconds: float | None
    lines: int


class Tally:
    """Takes in a session's events one by one, in whatever order an agent reports them.

    `at` is the stamp of the moment an event was read, if it is known.
    """

    def __init__(self) -> None:
        self._has_planned = False
        self._rows: dict[str, _Row] = {}
        self._open: dict[str, _Call] = {}
        self._usage: Usage | None = None

    def says(self, event: Text) -> bool:
        """Take in a text; tell whether it is the plan, or a new one: the first thought, or one that is headed so."""
        if event.tag is not Tag.THINK:
            return False
        text = event.text.strip()
        if not text or (self._has_planned and _PLAN.match(text[:_LOOKED_AT]) is None):
            return False
        self._has_planned = True
        return True

    def starts(self, event: ToolStart, at: str | None = None) -> None:
        if event.id in self._open:
            return  # an id names one call: what is said of it again is no second one
        row = None if event.name == TOOL else self._row(event.name or NAMELESS)
        if row is not None:
            row.calls += 1
        self._open[event.id] = _Call(event.name, at, row)

    def prints(self, event: ToolOutput) -> None:
        """Count the lines of a call's output; that of a call nobody has begun belongs to no tool."""
        if (call := self._open.get(event.id)) is not None:
            lines = event.text.count("\n") + (not event.text.endswith("\n"))
            call.lines += lines
            if call.row is not None:
                call.row.lines += lines

    def ends(self, event: ToolEnd, at: str | None = None) -> Ended:
        """Close a call; one that never began is counted all the same, for something was done."""
        call = self._open.pop(event.id, None)
        if call is None:
            row = self._row(NAMELESS)
            row.calls += 1
            call = _Call("", None, row)
        seconds = _between(call.at, at) if event.duration_ms is None else max(0, event.duration_ms) / 1000
        if (row := call.row) is not None:
            row.end(event.status, seconds)
        return Ended(call.name, seconds, call.lines)

    def uses(self, event: Usage) -> None:
        self._usage = event

    def digest(self) -> Digest:
        """What the session came to so far."""
        rows = [
            ToolRow(name, row.calls, row.ok, row.failed, row.seconds, row.lines) for name, row in self._rows.items()
        ]
        rows.sort(key=lambda row: -row.calls)
        return Digest(tuple(rows), self._usage)

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

    def end(self, status: ToolStatus, seconds: float | None) -> None:
        if status is ToolStatus.OK:
            self.ok += 1
        elif status is ToolStatus.FAIL:
            self.failed += 1
        if seconds is not None:
            self.seconds = (self.seconds or 0.0) + seconds


@dataclass(slots=True)
class _Call:
    """A call that is open. `row` None: it is the verdict's, which is no action."""

    name: str
    at: str | None
    row: _Row | None
    lines: int = 0


def _between(start: str | None, end: str | None) -> float | None:
    """Seconds from one stamp to the other; None where one is missing, or is no instant of any calendar."""
    if start is None or end is None:
        return None
    try:
        return max(0.0, (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds())
    except (ValueError, TypeError):  # TypeError: one stamp has a zone, the other has none
        return None
