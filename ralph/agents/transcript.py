"""From an agent's raw lines to events, live or from a log: the interface of a transcript, and its shared parts."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from ralph.core import ndjson
from ralph.core.events import MOST_DOLLARS, MOST_TOKENS, Event, Meta, Tag, Text, ToolEnd, ToolStatus
from ralph.core.ndjson import Oversized

_READ_WHOLE = 4 << 20
"""Bytes of a line that is read as it is. Longer ones contain a picture or a whole file."""

_LONGEST_TEXT = 1 << 18
"""Bytes to keep of each text in a longer line: the raw log has the rest."""
_LONGEST_SHORTENED = 16 << 20
_MOST_VALUES = 1 << 18
"""The most bytes and values of a shortened line: a parsed value takes a hundred bytes or more."""

_MOST = 1000
"""The most open tools: an agent that never ends its tools must not fill the memory."""

_SHOWN = 2000
"""Characters to show of an unreadable line."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a transcript can report; ralph does not guess or show the rest."""

    supports_roles: bool = False
    """It separates thinking and other voices from the agent's own text; otherwise all is `AI`, except ralph's hints."""
    supports_tool_events: bool = False
    supports_usage_events: bool = False
    supports_prompt_hiding: bool = False
    """The agent echoes its prompt, and the echo is recognised: `PROMPT`."""


class Transcript(Protocol):
    """Turns lines into events. Pure and line-oriented; it never raises, whatever the line.

    One with `feed_bytes(line: bytes)` gets lines as bytes, because JSON need not become a `str` to be parsed. It may
    hold back a usage that the next one would replace, until `settle()`.
    """

    @property
    def capabilities(self) -> Capabilities: ...

    def feed(self, line: str) -> list[Event]: ...

    def flush(self) -> list[Event]: ...


class Reader:
    """Reads lines of any bytes."""

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript
        by_bytes: Callable[[bytes], list[Event]] | None = getattr(transcript, "feed_bytes", None)
        self._feed = self._feed_text if by_bytes is None else by_bytes
        self._settle: Callable[[], list[Event]] | None = getattr(transcript, "settle", None)

    def hear(self, line: bytes | Oversized) -> list[Event]:
        if isinstance(line, bytes) and len(line) <= _READ_WHOLE:
            return self._feed(line)
        if not isinstance(line, Oversized):
            size, line = len(line), ndjson.shortened(line, _LONGEST_TEXT)
            line = line if _can_be_read(line) else Oversized(size)
        if isinstance(line, Oversized):
            words = f"a line of {line.size:,} bytes is too long to show; the raw log has it"
            return [Meta({"oversized_line": line.size}), Text(Tag.SYS, words)]
        return self._feed(line)

    def settle(self) -> list[Event]:
        """Return events that were held back while lines were read together."""
        return [] if self._settle is None else self._settle()

    def close(self) -> list[Event]:
        """Return the last events: no more lines will come."""
        return self._transcript.flush()

    def _feed_text(self, line: bytes) -> list[Event]:
        return self._transcript.feed(line.decode("utf-8", "replace"))


def _can_be_read(line: bytes) -> bool:
    """Tell whether a shortened line fits into memory as values, estimated by its commas."""
    values = line.count(b",") + line.count(b"[") + line.count(b"{")
    return len(line) <= _READ_WHOLE or (len(line) <= _LONGEST_SHORTENED and values <= _MOST_VALUES)


def events_in(lines: Iterable[bytes | Oversized], transcript: Transcript) -> Iterator[Event]:
    """Read a whole log, one line at a time."""
    reader = Reader(transcript)
    for line in lines:
        yield from reader.hear(line)
        yield from reader.settle()
    yield from reader.close()


class OpenTools:
    """Remembers open tools, so that none stays open for ever."""

    def __init__(self) -> None:
        self._ids: dict[str, None] = {}

    def __contains__(self, tool_id: str) -> bool:
        return tool_id in self._ids

    @property
    def latest(self) -> str:
        """The tool that was started last; empty if none is open."""
        return next(reversed(self._ids), "")

    def start(self, tool_id: str) -> list[Event]:
        """Remember a tool; if there are too many, end the oldest as unknown."""
        self._ids[tool_id] = None
        if len(self._ids) <= _MOST:
            return []
        oldest = next(iter(self._ids))
        del self._ids[oldest]
        return [ToolEnd(oldest, ToolStatus.UNKNOWN)]

    def end(self, tool_id: str) -> bool:
        """Forget a tool; tell whether it was open."""
        if tool_id not in self._ids:
            return False
        del self._ids[tool_id]
        return True

    def close(self) -> list[Event]:
        """End all open tools with an unknown result."""
        closed: list[Event] = [ToolEnd(tool_id, ToolStatus.UNKNOWN) for tool_id in self._ids]
        self._ids.clear()
        return closed


def spoken(tag: Tag, value: object) -> list[Event]:
    """Return a text as an event; nothing for blanks and other values."""
    return [Text(tag, value)] if isinstance(value, str) and value.strip() else []


def unread(line: str, **why: object) -> list[Event]:
    """Return the events of an unreadable line: the reason, and the line itself for people."""
    return [Meta({**why, "length": len(line)}), Text(Tag.SYS, line[:_SHOWN])]


def named(value: object) -> str:
    """Describe an unexpected value, shortened: it may be nested without end."""
    return str(value)[:100] if value is None or isinstance(value, str | float | bool) else type(value).__name__


class Figures:
    """Reads the figures of one session, and collects their faults, one per name.

    A missing or null figure is not a fault.
    """

    def __init__(self) -> None:
        self._told: set[str] = set()
        self._faults: list[Event] = []

    def tokens(self, value: object, name: str) -> int:
        """Narrow the figure called `name` to a number of tokens."""
        if type(value) is int and 0 <= value <= MOST_TOKENS:  # a bool is not a number
            return value
        if value is not None:
            self._complain(name, f"{_shown(value)} is not a number of tokens; ralph ignores it")
        return 0

    def dollars(self, holder: Mapping[str, object], name: str) -> float | None:
        value = holder.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < MOST_DOLLARS:
            return float(value)  # compared before converted: an integer may be beyond any float
        if value is not None:
            self._complain(name, f"{_shown(value)} is not an amount of dollars; ralph ignores it")
        return None

    def fell(self, name: str, before: float, after: float) -> None:
        self._complain(f"{name} fell", f"it fell from {before:g} to {after:g}; ralph keeps the larger figure")

    def faults(self) -> list[Event]:
        """Return the faults since the last call."""
        faults, self._faults = self._faults, []
        return faults

    def _complain(self, kind: str, words: str) -> None:
        if kind not in self._told:
            self._told.add(kind)
            self._faults.append(Text(Tag.SYS, f"the agent reports a wrong figure, {kind.partition(' ')[0]}: {words}"))


def _shown(value: object) -> str:
    if isinstance(value, str):
        return repr(value[:40])
    if isinstance(value, int) and abs(value) >= 10**20:  # it may have thousands of digits
        return "a number of more than 20 digits"
    return str(value) if isinstance(value, int) else named(value)
