"""The transcript of one goal: read as its run writes it, worded as `ralph run` does, folded to fit."""

import os
from collections import deque
from collections.abc import Iterator, Sequence
from io import FileIO
from pathlib import Path

from ralph.core.events import CheckEnded, Event, IterationEnded, RunEnded, RunStarted
from ralph.core.ndjson import LineSplitter, Oversized
from ralph.core.records import NotARecord, parse_event
from ralph.core.text import instant, local_minute
from ralph.dashboard.board import GoalPage
from ralph.ui.render import Detail, Paragraph, Said
from ralph.ui.terminal import Look, Row
from ralph.ui.transcript import TranscriptRenderer

_CHUNK = 1 << 16


class RunFile:
    """A growing file. A run that starts again moves the old file away; then the new one is read."""

    def __init__(self, file: Path, most: int | None = None) -> None:
        """Open a file; at most the last `most` bytes of what already exists are read."""
        self._file = file
        self._most = most
        self._stream: FileIO | None = None
        self._splitter = LineSplitter()
        self.skipped = 0
        """Bytes at its beginning that were skipped."""

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
        """Whether the file exists; it may not have a whole line yet."""
        return self._stream is not None

    def lines(self, most: int | None = None) -> Iterator[bytes | Oversized]:
        """Return the new whole lines, all of them or about this many bytes. Consume all of them."""
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
            self._stream.seek(self.skipped)  # a line torn by this is not an event


def _is_at(file: Path, descriptor: int) -> bool:
    try:
        return file.stat().st_ino == os.fstat(descriptor).st_ino
    except FileNotFoundError:
        return True  # it is being replaced; the open file may still have content


def event_in(line: bytes | Oversized) -> tuple[Event, str] | None:
    """Return the event in a line and its time; None for a line that is not an event, such as a torn one."""
    if not isinstance(line, bytes):
        return None
    try:
        return parse_event(line)
    except NotARecord:
        return None


def framed(event: Event, at: str) -> Paragraph | None:
    """Word the start or end of a run, which `ralph run` prints itself instead of showing the event."""
    match event:
        case RunStarted():
            verb = "continued" if event.continued else "started"
            began = instant(at)
            when = at if began is None else local_minute(began)
            return Paragraph("run", f"{verb} {when} · {event.agent} · model {event.model}", Look.STRONG)
        case RunEnded():
            return Paragraph("result", f"{event.reason} (exit {event.exit_code})", Look.STRONG)
        case _:
            return None


_MOST_BYTES = 8 << 20
"""Bytes read from an existing transcript: nobody scrolls back further, and `ralph-runs log -f` shows all of it."""
_GLANCE_BYTES = 192 << 10
"""The same for a preview, which is shorter because moving through a list opens many."""

_AT_ONCE = 1 << 20
"""Bytes read for one frame; the rest comes with the next one."""

_MOST_SAID, _MOST_ROWS = 2_000, 8_000
_RENDERED = 30
"""Parts whose Markdown is rendered when many are read at once, the latest; it takes rich about a millisecond each."""


class Reading:
    """The transcript of one goal, from its run's file."""

    def __init__(
        self, goal: int, directory: Path, root: Path, *, detailed: bool, flag: str = "", whole: bool = True
    ) -> None:
        """`whole`: as far back as a page goes; else only the end."""
        self.goal, self.detailed, self.is_whole = goal, detailed, whole
        self._flag = flag
        self._directory, self._root = directory, str(root)
        self._run = RunFile(directory / "events.ndjson", _MOST_BYTES if whole else _GLANCE_BYTES)
        self._words = TranscriptRenderer(Detail.VERBOSE if detailed else Detail.NORMAL, self._root)
        self._has_begun = False
        self._check: CheckEnded | None = None
        self._last_words = ""
        self._said: deque[Said] = deque(maxlen=_MOST_SAID)
        self._rows: list[Row] = []
        self._left_out = 0
        self._columns = 0

    def close(self) -> None:
        self._run.close()

    def page(self, columns: int) -> GoalPage:
        """Read what is new and return everything."""
        if columns != self._columns:
            self._columns, self._rows, self._left_out = columns, [], 0
            self._wrap(list(self._said))
        self._take()
        if not self._has_begun:
            return GoalPage(self.goal, note=self._why_nothing())
        return GoalPage(
            self.goal,
            self._rows,
            self._left_out,
            check="" if self._check is None else self._check.output,
            is_green=None if self._check is None else self._check.exit_code == 0,
            last_words=self._last_words,
        )

    def _why_nothing(self) -> str:
        if self._run.is_open:
            return "reading…"
        return f"no run of this goal on this machine, at\n{self._directory}"

    def _take(self) -> None:
        told_now: list[Said] = []
        for written in self._run.lines(_AT_ONCE):
            if (told := event_in(written)) is None:
                continue
            if not self._has_begun:
                self._has_begun = True
                self._begin()
            event, at = told
            if isinstance(event, CheckEnded):
                self._check = event
            elif isinstance(event, IterationEnded):
                self._last_words = event.summary
            said = framed(event, at)
            told_now += self._words.tell(event, at) if said is None else [said]
        self._keep(told_now)

    def _begin(self) -> None:
        if self._run.skipped and self.is_whole:
            words = f"… earlier lines: ralph-runs log g{self.goal} -f{self._flag}"
            self._keep([Paragraph("", words, words=Look.QUIET)])

    def _keep(self, said: Sequence[Said]) -> None:
        self._said.extend(said)
        self._wrap(said)

    def _wrap(self, said: Sequence[Said]) -> None:
        earlier = len(said) - _RENDERED
        for number, each in enumerate(said):
            self._rows += self._words.rows(each, self._columns, quickly=number < earlier)
        if (more := len(self._rows) - _MOST_ROWS) > 0:
            del self._rows[:more]
            self._left_out += more
