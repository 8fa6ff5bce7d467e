"""From an agent's raw lines to events, live or from a log: the interface of a transcript, and its shared parts."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from ralph.core import ndjson
from ralph.core.events import MOST_DOLLARS, MOST_TOKENS, Event, Meta, Tag, Text, ToolEnd, ToolStatus
from ralph.core.ndjson import Oversized

_READ_WHOLE = 4 << 20
"""Bytes of a line that is read as it is. Longer ones hold a picture or a whole file, which nobody reads as an event."""

_LONGEST_TEXT = 1 << 18
"""Bytes that are kept of each text in a longer line: the raw log has the rest."""
_LONGEST_SHORTENED = 16 << 20
_MOST_VALUES = 1 << 18
"""What a longer line may still have of bytes and values then: a value takes a hundred bytes or more when it is read."""

_MOST = 1000
"""Tools that may be open at a time: an agent that never ends its tools must not fill the memory."""

_SHOWN = 2000
"""Characters of a line that could not be read."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a transcript can tell; what it cannot is not guessed at, and not shown."""

    supports_roles: bool = False
    """Thinking and other voices are told from the agent's own words. Without it all is `AI`, but for ralph's hints."""
    supports_tool_events: bool = False
    supports_usage_events: bool = False
    supports_prompt_hiding: bool = False
    """The agent echoes the prompt it was given, and the echo is told apart: `PROMPT`."""


class Transcript(Protocol):
    """Turns lines into events. Pure and line-oriented; whatever the line, it never raises.

    One that also has `feed_bytes(line: bytes)` gets lines as they come: JSON need not become a `str` to be parsed. It
    may keep a usage to itself that the next one would replace, until `settle()` asks for it.
    """

    @property
    def capabilities(self) -> Capabilities: ...

    def feed(self, line: str) -> list[Event]: ...

    def flush(self) -> list[Event]: ...


class Reader:
    """Takes in lines as they were read, whatever their bytes."""

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
            words = f"a line of {line.size:,} bytes is too long to be read; the raw log has it"
            return [Meta({"oversized_line": line.size}), Text(Tag.SYS, words)]
        return self._feed(line)

    def settle(self) -> list[Event]:
        """Return what was kept back while lines were read together: nobody asks for use after every one of them."""
        return [] if self._settle is None else self._settle()

    def close(self) -> list[Event]:
        """Take in that no more will come."""
        return self._transcript.flush()

    def _feed_text(self, line: bytes) -> list[Event]:
        return self._transcript.feed(line.decode("utf-8", "replace"))


def _can_be_read(line: bytes) -> bool:
    """Tell whether a line whose long texts are shortened fits into memory as values, of which commas tell the most."""
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
    """Remembers what was started, so that nothing stays open for ever."""

    def __init__(self) -> None:
        self._ids: dict[str, None] = {}

    def __contains__(self, tool_id: str) -> bool:
        return tool_id in self._ids

    @property
    def latest(self) -> str:
        """The one that was started last; empty if none is open."""
        return next(reversed(self._ids), "")

    def start(self, tool_id: str) -> list[Event]:
        """Remember a tool; if there are too many, the oldest ends unknown."""
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
        """End all that are open: how, the stream has not said."""
        closed: list[Event] = [ToolEnd(tool_id, ToolStatus.UNKNOWN) for tool_id in self._ids]
        self._ids.clear()
        return closed


def spoken(tag: Tag, value: object) -> list[Event]:
    """What somebody said; blanks, and what is no text, are nothing."""
    return [Text(tag, value)] if isinstance(value, str) and value.strip() else []


def unread(line: str, **why: object) -> list[Event]:
    """A line that could not be read: why, and the line itself for people to see."""
    return [Meta({**why, "length": len(line)}), Text(Tag.SYS, line[:_SHOWN])]


def named(value: object) -> str:
    """A word for what was not expected; never the whole of it, which may be nested without end."""
    return str(value)[:100] if value is None or isinstance(value, str | float | bool) else type(value).__name__


class Figures:
    """Reads the figures of one session. What is wrong with them is kept until it is told, and told once for each name.

    A figure that is missing, or null, says nothing and is nothing to complain about.
    """

    def __init__(self) -> None:
        self._told: set[str] = set()
        self._faults: list[Event] = []

    def tokens(self, value: object, name: str) -> int:
        """Narrow the figure called `name` to a number of tokens."""
        if type(value) is int and 0 <= value <= MOST_TOKENS:  # a bool is no number
            return value
        if value is not None:
            self._complain(name, f"{_shown(value)} is no number of tokens: it does not count")
        return 0

    def dollars(self, holder: Mapping[str, object], name: str) -> float | None:
        value = holder.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < MOST_DOLLARS:
            return float(value)  # compared before converted: an integer may be beyond any float
        if value is not None:
            self._complain(name, f"{_shown(value)} is no amount of dollars: it does not count")
        return None

    def fell(self, name: str, before: float, after: float) -> None:
        self._complain(f"{name} fell", f"it fell from {before:g} to {after:g}: what was spent stays spent")

    def faults(self) -> list[Event]:
        """What there is to complain about since the last call."""
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
