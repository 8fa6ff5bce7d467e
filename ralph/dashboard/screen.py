"""The dashboard at work: reads, draws and hears keys, in whichever thread it is called, until it is over."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from queue import SimpleQueue
from types import TracebackType
from typing import TextIO

from ralph.core.errors import fault_of
from ralph.dashboard.actions import DatabaseThread, perform
from ralph.dashboard.board import Board, BoardSource
from ralph.dashboard.frame import frame
from ralph.dashboard.lines import Progress
from ralph.dashboard.table import elapsed
from ralph.dashboard.transcript import Reading
from ralph.dashboard.view import Deed, Quit, Suspend, View, answered, press_all
from ralph.queue.open import QueueAddress
from ralph.queue.paths import queue_paths
from ralph.queue.store import Store
from ralph.system.signals import SIGINT, Signals, suspend
from ralph.ui.draw import Canvas, lasting
from ralph.ui.keys import Keyboard
from ralph.ui.terminal import Output, in_foreground

_FRAME = 0.25
"""Seconds between two frames; a key is answered at once, though not more often than anybody presses one by hand."""
_AT_ONCE = 0.03
_MESSAGE = 8.0
"""Seconds that a message stays if no key is pressed."""
_READ = 1.0
"""Seconds between two looks at the database; what this process's own worker has begun or ended is looked at at once."""
_AWAITED = 0.2
"""Seconds that a frame waits for the database, which as a rule takes some milliseconds."""
_SLOW = 2.0
"""Seconds after which it is said that it does not answer."""
_ANEW = 10.0
"""Seconds after which all is drawn anew: whatever a library says on stderr is written across the dashboard."""


@dataclass(frozen=True, slots=True)
class DashboardTerminal:
    """The terminal that the dashboard is drawn in."""

    stdin: TextIO | None
    stdout: TextIO
    colour: bool
    continued: Callable[[], int]
    """How often ralph was stopped and went on: somebody else has drawn there since."""


class Drawing:
    """One dashboard, from its first frame to its last."""

    def __init__(
        self,
        ground: DashboardTerminal,
        place: QueueAddress,
        store: Store,
        source: BoardSource,
        quit_: Callable[[], None],
    ) -> None:
        self._ground, self._place, self._store, self._source, self._quit = ground, place, store, source, quit_
        self._premises = queue_paths(place.ralph_dir, store.queue_id)
        self._view = View()
        self._reading: Reading | None = None
        self._columns: int = 0
        self._said_at = 0.0
        self._outcomes: SimpleQueue[tuple[Deed, str, bool]] = SimpleQueue()
        """What came of deeds."""

    def draw(self, is_over: Callable[[], bool]) -> None:
        """Draw until it is over; the terminal is as it was then, and while it is somebody else's, whatever happens."""
        outlet = Output(self._ground.stdout, is_over)

        def ends() -> bool:
            return is_over() or outlet.closed

        try:
            with DatabaseThread() as clerk:
                while not ends():
                    with (
                        Keyboard(self._ground.stdin, draws=True) as keyboard,
                        Canvas(outlet, colour=self._ground.colour) as canvas,
                    ):
                        is_suspended = self._draw(keyboard, canvas, clerk, ends)
                    if is_suspended:
                        suspend(self._ground.continued)
                        while not in_foreground(self._ground.stdout) and not ends():  # `bg`, not `fg`
                            time.sleep(_FRAME)
        finally:
            self._close()

    def _draw(self, keyboard: Keyboard, canvas: Canvas, clerk: DatabaseThread, ends: Callable[[], bool]) -> bool:
        """Draw until it is over or to be suspended; tell which."""
        read_at = anew_at = 0.0
        returns: int = self._ground.continued() + keyboard.returns
        while not ends():
            began = time.monotonic()
            if self._view.message and began - self._said_at >= _MESSAGE:
                self._view = replace(self._view, message="")
            if (began - read_at >= _READ or self._source.is_behind) and clerk.wait(0):
                clerk.do(self._source.read)
                clerk.wait(_AWAITED)
                read_at = began
            self._hear_of_deeds()
            before, returns = returns, self._ground.continued() + keyboard.returns
            if returns != before or began - anew_at >= _ANEW:
                canvas.forget()
                anew_at = began
            board = self._board(canvas.size[0], clerk.busy)
            if in_foreground(self._ground.stdout):
                self._view, lines = frame(board, self._view, *canvas.size)
                canvas.draw(lines)
            keys = keyboard.listen(max(_AT_ONCE, began + _FRAME - time.monotonic()))
            deeds = self._heed(keys, board, clerk)
            if Suspend() in deeds:
                return True
            if deeds:
                read_at = 0.0
        return False

    def _board(self, columns: int, awaited: float) -> Board:
        """The queue, and the transcript of the goal that is open; `awaited`: for how long the database is."""
        now = time.time()
        board = self._source.board(now)
        if awaited >= _SLOW and not board.fault:
            board = replace(board, fault=f"it is locked, or slow: no answer for {lasting(awaited)}")
        goal = None if self._view.open is None else board.lineup.known.get(self._view.open)
        if goal is None:
            self._close()
            return board
        if columns != self._columns:  # rows have other numbers now
            self._columns = columns
            self._view = replace(self._view, bottom=None)
        if self._reading is None or (self._reading.goal, self._reading.detailed) != (goal.id, self._view.detailed):
            self._close()
            directory, clone = self._premises.run_directory(goal), self._premises.clone(goal)
            self._reading = Reading(goal.id, directory, clone, detailed=self._view.detailed, flag=self._place.flag)
        told = self._reading.transcript(columns=columns, now=now, seconds=elapsed(board, goal), sight=board.sight(goal))
        return replace(board, transcript=told)

    def _close(self) -> None:
        if self._reading is not None:
            self._reading.close()
            self._reading = None

    def _heed(self, keys: list[str], board: Board, clerk: DatabaseThread) -> list[Deed]:
        """Have done what keys ask for; tell what that was."""
        self._view, deeds = press_all(self._view, board, keys)
        for deed in deeds:
            if isinstance(deed, Quit):
                self._quit()
            elif not isinstance(deed, Suspend):
                clerk.do(partial(self._perform, deed))
                if not clerk.wait(_AWAITED):
                    self._view = replace(self._view, message="this waits for the queue, which is locked or slow")
        if keys:
            self._said_at = time.monotonic()
        return deeds

    def _perform(self, deed: Deed) -> None:
        self._outcomes.put((deed, *perform(deed, self._place, self._store)))

    def _hear_of_deeds(self) -> None:
        while not self._outcomes.empty():
            deed, words, refused = self._outcomes.get()
            self._view = answered(self._view, deed, words, refused=refused)
            self._said_at = time.monotonic()


_LONGEST_END = 75.0
"""Seconds that the end of a worker waits for its view: somewhat more than an outlet waits for its reader."""


class Showing:
    """A context. While it lasts the dashboard covers the lines of `progress`; if it breaks, they go on."""

    def __init__(
        self,
        ground: DashboardTerminal,
        source: BoardSource,
        place: QueueAddress,
        store: Store,
        progress: Progress,
        signals: Signals,
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
        if error := fault_of(lambda: self._drawing.draw(self._closing.is_set)):
            self._progress.uncover(_broken(error))  # the worker goes on


def _broken(error: Exception) -> str:
    return f"the dashboard has broken ({error!r}); plain lines go on"
