"""Progress of what takes more than a second: in a terminal a line that is gone at the end, elsewhere two lines.

The work reports how far it is and goes on; a thread of its own draws, so that no terminal holds the work up.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Generator, Mapping
from typing import TYPE_CHECKING, TextIO

from ralph.core.progress import Reporter, TaskProgress
from ralph.core.text import format_clock, format_duration
from ralph.ui.output import Output
from ralph.ui.terminal import LineInPlace, Row, flat, in_foreground, terminal

if TYPE_CHECKING:
    from rich.console import OverflowMethod
    from rich.progress import Progress

_SOON = 1.0
"""Seconds in which nothing is shown: most work is done by then."""
_FRAME = 0.2
_LAST_FRAME = 5.0
"""Seconds that the work waits at its end for a frame that is being drawn: ralph may fork next, and as one thread."""
_LEAST_TITLE = 20
"""Cells for what the work is; where they are lacking, the bar is left out, then bytes and speed."""
_WIDE = 1_000


class ProgressScreen:
    """Shows tasks, one after the other, on a stream of a command, as a rule stderr."""

    def __init__(
        self,
        stream: TextIO | None,
        env: Mapping[str, str],
        *,
        quiet: bool = False,
        look: Callable[[], None] = lambda: None,
    ) -> None:
        """`look` is called whenever the work reports; it may raise, to end the work."""
        self._stream = stream
        self._place = terminal(stream, env)
        self._quiet = quiet
        self._look = look

    @contextlib.contextmanager
    def shown(self, title: str) -> Generator[Reporter]:
        """Show a task while the context lasts; the yielded function reports its progress."""
        task = _Task(title, self._stream, lively=self._place.lively, colour=self._place.colour)

        def report(progress: TaskProgress) -> None:
            task.progress = progress
            self._look()

        if self._quiet or self._stream is None:
            yield lambda _: self._look()
            return
        task.begin()
        in_full = False
        try:
            yield report
            in_full = True
        finally:
            task.end(in_full=in_full)


class _Task:
    """One task, and the thread that shows it."""

    def __init__(self, title: str, stream: TextIO | None, *, lively: bool, colour: bool) -> None:
        self.progress = TaskProgress()
        self._title, self._stream, self._lively, self._colour = flat(title), stream, lively, colour
        self._output = Output(stream)
        self._line = LineInPlace(self._output.offer)
        self._began = time.monotonic()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._is_shown = False

    def begin(self) -> None:
        thread = threading.Thread(target=self._show, name="progress", daemon=True)
        with contextlib.suppress(RuntimeError):  # the system has no thread left: the work goes on unseen
            thread.start()
            self._thread = thread

    def end(self, *, in_full: bool) -> None:
        """Take the line away; where there is none, say how long the task took, if it was done `in_full`."""
        self._over.set()
        if self._thread is not None:
            self._thread.join(_LAST_FRAME)
        self._line.clear()
        if in_full and self._is_shown and not self._lively:
            self._output.offer(f"{self._title}: done in {format_duration(time.monotonic() - self._began)}\n")

    def _show(self) -> None:
        if self._over.wait(_SOON):
            return
        self._is_shown = True
        if not self._lively:
            self._output.offer(f"{self._title}\n")
            return
        bars = ProgressBars(letters="utf" in (getattr(self._stream, "encoding", "") or "").lower())
        while True:
            if in_foreground(self._stream) and (width := self._output.width) is not None:
                row = bars.row(self._title, self.progress, time.monotonic() - self._began, width - 1)
                self._line.draw(row, width - 1, colour=self._colour)
            if self._over.wait(_FRAME):
                return


_KINDS = ((20, True), (10, True), (0, True), (0, False))
"""How wide a bar is, and whether bytes and speed stand beside it: the first that leaves room for the title is drawn."""


class ProgressBars:
    """Draws a task as one row, with rich's progress columns; as many of them as fit beside the title."""

    def __init__(self, *, letters: bool) -> None:
        """`letters`: whether the terminal knows those of a bar."""
        self._letters = letters
        self._kinds = {kind: self._made(*kind) for kind in _KINDS}

    def row(self, title: str, progress: TaskProgress, seconds: float, columns: int) -> Row:
        from rich.segment import Segment

        from ralph.ui.theme import Look, render, safe

        rest: Row = []
        has_bar = self._letters and progress.percent is not None
        for kind in (self._kinds[kind] for kind in _KINDS if has_bar or not kind[0]):
            (task,) = kind.task_ids
            share = "" if progress.percent is None else f"{progress.percent:3} %"
            step, detail, clock = flat(progress.step), flat(progress.detail), format_clock(seconds)
            kind.update(
                task, completed=progress.done, total=progress.total, step=step, share=share, detail=detail, clock=clock
            )
            rest = render(kind.make_tasks_table(kind.tasks), _WIDE)[0]
            room = columns - sum(segment.cell_length for segment in rest) - 1
            if room >= min(len(title), _LEAST_TITLE):
                break
        said = safe(title, Look.STRONG, one_line=True)
        said.truncate(max(columns - sum(segment.cell_length for segment in rest) - 1, 1), overflow=self._overflow)
        return [*(segment for row in render(said, columns)[:1] for segment in row), Segment(" "), *rest]

    @property
    def _overflow(self) -> "OverflowMethod":
        return "ellipsis" if self._letters else "crop"

    def _made(self, bar: int, has_detail: bool) -> "Progress":
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

        from ralph.ui.theme import Look, style

        def column(field: str, look: Look) -> TextColumn:
            return TextColumn(f"{{task.fields[{field}]}}", style=style(look), markup=False)

        done = style(Look.ACCENT)
        made = Progress(
            SpinnerColumn("dots" if self._letters else "line", done),
            column("step", Look.PLAIN),
            *([BarColumn(bar, style(Look.QUIET), done, done, done)] if bar else []),
            column("share", Look.PLAIN),
            *([column("detail", Look.QUIET)] if has_detail else []),
            column("clock", Look.QUIET),
            auto_refresh=False,
        )
        made.add_task("", total=None, step="", share="", detail="", clock="")
        return made
