"""The dashboard beside a queue worker: a thread of its own, and no fault of it is the worker's."""

import threading
from types import TracebackType

from ralph.cli.runs.board.source import Source
from ralph.dashboard.lines import Progress
from ralph.dashboard.screen import Drawing, Ground
from ralph.queue.open import Whereabouts
from ralph.queue.store import Store
from ralph.system.signals import SIGINT, Signals

_LONGEST_END = 75.0
"""Seconds that the end of a worker waits for its view: somewhat more than an outlet waits for its reader."""


class Showing:
    """A context. While it lasts the dashboard covers the lines of `progress`; if it breaks, they go on."""

    def __init__(
        self, ground: Ground, source: Source, place: Whereabouts, store: Store, progress: Progress, signals: Signals
    ) -> None:
        self._drawing = Drawing(ground, place, store, source, lambda: signals.leave_mark(SIGINT))
        self._progress = progress
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._live, name="view", daemon=True)

    def __enter__(self) -> "Showing":
        self._progress.cover()
        try:
            self._thread.start()
        except RuntimeError as error:  # the system has no thread left
            self._progress.uncover(_broken(error))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        if self._thread.ident is not None:
            self._thread.join(_LONGEST_END)
        self._progress.uncover()

    def _live(self) -> None:
        try:
            self._drawing.draw(self._closing.is_set)
        except Exception as error:  # whatever it is: it is told, and the worker goes on
            self._progress.uncover(_broken(error))


def _broken(error: Exception) -> str:
    return f"the dashboard has broken ({error!r}); plain lines go on"
