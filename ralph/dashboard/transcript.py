"""The transcript of one goal: read as its run writes it, told as `ralph run` tells it, folded to fit."""

import os
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from io import FileIO
from pathlib import Path

from ralph.core.events import Event, RunEnded, RunStarted
from ralph.core.ndjson import LineSplitter, Oversized
from ralph.core.records import NotARecord, parse_event
from ralph.core.status import RunStatus, StatusFold
from ralph.core.usage import Meter, Spend
from ralph.dashboard.board import TranscriptPage
from ralph.queue.news import GoalStatus
from ralph.ui.draw import Line, Tone
from ralph.ui.footer import status_line
from ralph.ui.render import Detail, Paragraph
from ralph.ui.transcript import TonedTelling, folded, toned

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
        return parse_event(line)
    except NotARecord:
        return None


def framed(event: Event, at: str) -> Paragraph | None:
    """How a run begins or ends, in words: `ralph run` says that itself, and tells nothing of the event."""
    match event:
        case RunStarted():
            verb = "continued" if event.continued else "started"
            return Paragraph("run", f"{verb} {at} · {event.agent} · model {event.model}", Tone.STRONG)
        case RunEnded():
            return Paragraph("result", f"{event.reason} (exit {event.exit_code})", Tone.STRONG)
        case _:
            return None


_MOST_BYTES = 8 << 20
"""Of what was written before it was opened: nobody scrolls back further, and `ralph-runs logs` has all of it."""

_AT_ONCE = 1 << 20
"""Bytes that are taken for one frame: what is beyond comes with the next one."""

_MOST_LINES, _MOST_ROWS = 4_000, 8_000


class Reading:
    """One goal's run, being read."""

    def __init__(self, goal: int, directory: Path, root: Path, *, detailed: bool, flag: str = "") -> None:
        """`flag`: how a command names the queue."""
        self.goal, self.detailed, self._flag = goal, detailed, flag
        self._directory, self._root = directory, str(root)
        self._run = RunFile(directory / "events.ndjson", _MOST_BYTES)
        self._telling = TonedTelling(Detail.VERBOSE if detailed else Detail.NORMAL, self._root)
        self._fold: StatusFold | None = None
        self._lines: deque[Line] = deque(maxlen=_MOST_LINES)
        self._rows: list[Line] = []
        self._left_out = 0
        self._columns = 0

    def close(self) -> None:
        self._run.close()

    def transcript(
        self, *, columns: int, now: float, seconds: float | None, sight: GoalStatus | None = None
    ) -> TranscriptPage:
        """Take what is new, and give all of it.

        `seconds`: how long the goal has been worked on; `sight`: how it is seen by its worker, if it is at work.
        """
        if columns != self._columns:
            self._columns, self._rows, self._left_out = columns, [], 0
            self._wrap(list(self._lines))
        self._take()
        if self._fold is None:
            return TranscriptPage(self.goal, note=self._why_nothing())
        return TranscriptPage(self.goal, self._rows, self._left_out, self._status(columns, now, seconds, sight))

    def _why_nothing(self) -> str:
        if self._run.is_open:
            return "reading…"
        return f"no run of it is to be found on this machine, at\n{self._directory}"

    def _status(self, columns: int, now: float, seconds: float | None, sight: GoalStatus | None) -> Line:
        if self._fold is None or self._fold.status.ended:
            return ()
        stands = _whole(self._fold.status, sight, is_known=not self._run.skipped)
        return status_line(stands, columns=columns, now=now, seconds=seconds, root=self._root)

    def _take(self) -> None:
        for line in self._run.lines(_AT_ONCE):
            if (told := event_in(line)) is None:
                continue
            if self._fold is None:
                self._fold = StatusFold()
                self._begin()
            event, at = told
            self._fold.take(event, at)
            said = framed(event, at)
            self._keep(self._telling.lines(event, at) if said is None else toned(said))

    def _begin(self) -> None:
        if self._run.skipped:
            self._keep([((f"… what was before is told by: ralph-runs logs g{self.goal}{self._flag}", Tone.DIM),)])

    def _keep(self, lines: list[Line]) -> None:
        self._lines.extend(lines)
        self._wrap(lines)

    def _wrap(self, lines: Iterable[Line]) -> None:
        for line in lines:
            self._rows += folded(line, self._columns)
        if (more := len(self._rows) - _MOST_ROWS) > 0:
            del self._rows[:more]
            self._left_out += more


def _whole(stands: RunStatus, sight: GoalStatus | None, *, is_known: bool) -> RunStatus:
    """Where a run stands, with what its goal has used in all: the worker knows of other attempts, too.

    Of a run whose beginning was not read its events tell too little of that: then it is the worker's word or none.
    """
    used = stands.meter.total if is_known else Spend()
    if sight is not None:
        used = used.at_least(Spend(sight.cost_usd, sight.tokens, costed=sight.cost_usd > 0))
    number = stands.iteration or (sight.iteration if sight is not None else 0)
    meter = Meter(before=used, context_pct=stands.meter.context_pct)
    return replace(stands, meter=meter, iteration=number or None)
