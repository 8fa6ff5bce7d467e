"""Bytes in, lines out: split on newline only, because JSON may hold a bare CR or U+2028 inside a line."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

LONGEST_LINE = 64 * 1024 * 1024
"""A longer line is counted, not kept: its bytes are in the raw log."""


@dataclass(frozen=True, slots=True)
class Oversized:
    """A line that was too long to keep."""

    size: int


class LineSplitter:
    """Cut a stream of chunks into lines, holding back the unfinished last one."""

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self._longest = longest
        self._parts: list[bytes] = []
        self._held = 0
        self._dropped = 0

    def feed(self, chunk: bytes) -> list[bytes | Oversized]:
        """Return the lines that `chunk` completes, without their newline."""
        head, *rest = chunk.split(b"\n")
        self._hold(head)
        if not rest:
            return []
        finished = [self._release()]
        finished.extend(line if len(line) <= self._longest else Oversized(len(line)) for line in rest[:-1])
        self._hold(rest[-1])
        return finished

    def flush(self) -> list[bytes | Oversized]:
        """Return the unfinished last line, if there is one."""
        return [self._release()] if self._held or self._dropped else []

    def _hold(self, part: bytes) -> None:
        if self._dropped or self._held + len(part) > self._longest:
            self._dropped += self._held + len(part)
            self._parts, self._held = [], 0
        elif part:
            self._parts.append(part)
            self._held += len(part)

    def _release(self) -> bytes | Oversized:
        line = Oversized(self._dropped) if self._dropped else b"".join(self._parts)
        self._parts, self._held, self._dropped = [], 0, 0
        return line


def lines_in(chunks: Iterable[bytes]) -> Iterator[bytes | Oversized]:
    """Yield every line of the chunks, the unfinished last one, too."""
    splitter = LineSplitter()
    for chunk in chunks:
        yield from splitter.feed(chunk)
    yield from splitter.flush()
