"""The events of a goal's latest run, as far as its `ralph run` has written them, and how that began and ended."""

import os
from collections.abc import Iterator
from io import FileIO
from pathlib import Path

from ralph.core import ndjson
from ralph.core.events import Event, RunEnded, RunStarted
from ralph.core.ndjson import LineSplitter, Oversized
from ralph.core.records import from_json
from ralph.ui.draw import Tone
from ralph.ui.render import Said

_CHUNK = 1 << 16


class RunFile:
    """A file that grows. A run that begins anew moves the old one's directory away: then the new file is read."""

    def __init__(self, file: Path, most: int | None = None) -> None:
        """`most`: of what is there already, only so many bytes at its end are read."""
        self._file = file
        self._most = most
        self._stream: FileIO | None = None
        self._splitter = LineSplitter()
        self.skipped = 0
        """Bytes at its beginning that were not read."""

    def __enter__(self) -> "RunFile":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    @property
    def is_open(self) -> bool:
        """Whether there is a file; it may hold no whole line yet."""
        return self._stream is not None

    def lines(self, most: int | None = None) -> Iterator[bytes | Oversized]:
        """The whole lines that are new, all of them or those of about so many bytes; take them all."""
        if self._stream is not None and not _is_at(self._file, self._stream.fileno()):
            self.close()
        if self._stream is None and self._file.exists():
            self._open()
        taken = 0
        while self._stream is not None and (most is None or taken < most) and (chunk := self._stream.read(_CHUNK)):
            taken += len(chunk)
            yield from self._splitter.feed(chunk)

    def _open(self) -> None:
        self._stream, self._splitter = self._file.open("rb", buffering=0), LineSplitter()
        size = os.fstat(self._stream.fileno()).st_size
        if self._most is not None and size > self._most:
            self.skipped = size - self._most
            self._stream.seek(self.skipped)  # the line that is torn by this is no event


def _is_at(file: Path, descriptor: int) -> bool:
    try:
        return file.stat().st_ino == os.fstat(descriptor).st_ino
    except FileNotFoundError:
        return True  # it is being replaced; what is open may still hold something


def event_in(line: bytes | Oversized) -> tuple[Event, str] | None:
    """The event that a line is, and when it was; None if it is none, torn by a crash say."""
    if not isinstance(line, bytes):
        return None
    try:
        entry = ndjson.mapping(ndjson.decode(line.decode("utf-8", "replace")))
        return from_json(entry), ndjson.text(entry.get("at"))
    except (ndjson.Malformed, ValueError):
        return None


def framed(event: Event, at: str) -> Said | None:
    """How a run begins or ends, in words: `ralph run` says that itself, and tells nothing of the event."""
    match event:
        case RunStarted():
            verb = "continued" if event.continued else "started"
            return Said("run", f"{verb} {at} · {event.agent} · model {event.model}", Tone.STRONG)
        case RunEnded():
            return Said("result", f"{event.reason} (exit {event.exit_code})", Tone.STRONG)
        case _:
            return None
