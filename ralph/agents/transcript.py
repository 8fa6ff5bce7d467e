"""The one path from raw lines to events: for a session while it runs, and for its log afterwards."""

from collections.abc import Callable, Iterable, Iterator

from ralph.core import ndjson
from ralph.core.events import Event, Meta, Tag, Text
from ralph.core.ndjson import Oversized
from ralph.transcripts.base import Transcript

_READ_WHOLE = 4 << 20
"""Bytes of a line that is read as it is. Longer ones hold a picture or a whole file, which nobody reads as an event."""

_LONGEST_TEXT = 1 << 18
"""Bytes that are kept of each text in a longer line: the raw log has the rest."""

_LONGEST_SHORTENED = 16 << 20
_MOST_VALUES = 1 << 18
"""What a longer line may still have of bytes and values then: a value takes a hundred bytes or more when it is read."""


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
