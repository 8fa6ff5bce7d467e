"""The running dashboard: reads the queue, draws frames and handles keys in the calling thread."""

import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from queue import SimpleQueue
from types import TracebackType
from typing import TextIO

from ralph.core.errors import fault_of
from ralph.core.text import lasting, plural
from ralph.dashboard.actions import DatabaseThread, perform
from ralph.dashboard.board import Board
from ralph.dashboard.frame import Frames, page_columns
from ralph.dashboard.lines import Progress
from ralph.dashboard.pages import Pages
from ralph.dashboard.source import BoardSource
from ralph.dashboard.view import Action, Leave, Quit, Suspend, View, answered, press_all
from ralph.queue.goals import State
from ralph.queue.open import QueueAddress
from ralph.queue.store import Store
from ralph.system.signals import SIGINT, Signals, suspend
from ralph.ui.keys import Keyboard
from ralph.ui.output import Output
from ralph.ui.terminal import FullScreen, in_foreground

_FRAME = 0.25
"""Seconds between two frames; keys are answered sooner, but with a limit."""
_AT_ONCE = 0.03
_MESSAGE = 8.0
"""Seconds that a message stays without a key press."""
_READ = 1.0
"""Seconds between two reads of the database; changes by this process's own worker are read at once."""
_AWAITED = 0.2
"""Seconds that a frame waits for the database, which usually takes some milliseconds."""
_SLOW = 2.0
"""Seconds after which the screen says that the database does not answer."""
_ANEW = 10.0
"""Seconds after which everything is drawn again, because libraries may write to stderr."""


@dataclass(frozen=True, slots=True)
class DashboardTerminal:
    """The terminal that the dashboard is drawn in."""

    stdin: TextIO | None
    stdout: TextIO
    colour: bool
    continued: Callable[[], int]
    """How often ralph was suspended and continued: other programs have drawn there since."""


class Drawing:
    """One dashboard, from its first frame to its last."""

    def __init__(
        self,
        terminal: DashboardTerminal,
        place: QueueAddress,
        store: Store,
        source: BoardSource,
        quit_: Callable[[], None] = lambda: None,
    ) -> None:
        """`quit_` stops the worker of this process; without it, quitting only closes the dashboard."""
        self._terminal, self._place, self._store, self._source, self._quit = terminal, place, store, source, quit_
        self._view = View()
        self._frames = Frames()
        self._columns: int = 0
        self._has_left = False
        self.has_called = False
        """Whether the user has been called since all goals were settled."""
        self._said_at = 0.0
        self._outcomes: SimpleQueue[tuple[Action, str, bool]] = SimpleQueue()
        """What came of actions."""

    def draw(self, is_over: Callable[[], bool]) -> None:
        """Draw until closed. The terminal is restored at the end and during a suspension, whatever happens."""
        output = Output(self._terminal.stdout, is_over)
        with (
            DatabaseThread() as database,
            DatabaseThread() as reader,
            closing(Pages(self._place, self._store, reader.do)) as pages,
        ):

            def ends() -> bool:
                reader.wait(0)  # a fault there is one here
                return is_over() or output.closed or self._has_left

            while not ends():
                with (
                    Keyboard(self._terminal.stdin, draws=True) as keyboard,
                    FullScreen(output, colour=self._terminal.colour) as screen,
                ):
                    is_suspended = self._draw(keyboard, screen, database, pages, ends)
                if is_suspended:
                    suspend(self._terminal.continued)
                    while not in_foreground(self._terminal.stdout) and not ends():  # `bg`, not `fg`
                        time.sleep(_FRAME)

    def _draw(
        self, keyboard: Keyboard, screen: FullScreen, database: DatabaseThread, pages: Pages, ends: Callable[[], bool]
    ) -> bool:
        """Draw until closed or suspended; tell which."""
        read_at = anew_at = 0.0
        returns: int = self._terminal.continued() + keyboard.returns
        while not ends():
            began = time.monotonic()
            if self._view.message and began - self._said_at >= _MESSAGE:
                self._view = replace(self._view, message="")
            if (began - read_at >= _READ or self._source.is_behind) and database.wait(0):
                database.do(self._source.read)
                database.wait(_AWAITED)
                read_at = began
            self._hear_of_deeds()
            before, returns = returns, self._terminal.continued() + keyboard.returns
            if returns != before or began - anew_at >= _ANEW:
                screen.redraw()
                anew_at = began
            board = self._board(screen.size, database.busy, pages)
            if in_foreground(self._terminal.stdout):
                self._view, rows = self._frames.frame(board, self._view, *screen.size)
                screen.draw(rows)
            self._call_user(board, screen)
            keys = keyboard.listen(max(_AT_ONCE, began + _FRAME - time.monotonic()))
            actions = self._press(keys, board, database)
            if Suspend() in actions:
                return True
            if actions:
                read_at = 0.0
        return False

    def _call_user(self, board: Board, screen: FullScreen) -> None:
        """Call the user once when nothing goes on any more without somebody."""
        stuck = board.lineup.counts.get(State.STUCK, 0)
        if not (board.is_settled and stuck):
            self.has_called = False
        elif self._place.bell and not self.has_called:
            self.has_called = screen.call_user(f"{plural(stuck, 'goal')} stuck, and nothing else is left to do")

    def _board(self, size: tuple[int, int], awaited: float, pages: Pages) -> Board:
        """Return the queue and the current page; `awaited`: how long the database has been silent."""
        board = self._source.board(time.time())
        if awaited >= _SLOW and not board.fault:
            board = replace(board, fault=f"locked or slow: no answer for {lasting(awaited)}")
        columns = page_columns(self._view, *size)
        if columns != self._columns:  # rows are numbered differently now
            self._columns = columns
            self._view = replace(self._view, bottom=None)
        return replace(board, page=pages.page(board, self._view, columns))

    def _press(self, keys: list[str], board: Board, database: DatabaseThread) -> list[Action]:
        """Start what keys ask for; return the actions."""
        self._view, actions = press_all(self._view, board, keys)
        for action in actions:
            match action:
                case Leave():
                    self._has_left = True
                case Quit():
                    self._quit()
                case Suspend():
                    pass
                case _:
                    database.do(partial(self._perform, action))
                    if not database.wait(_AWAITED):
                        self._view = replace(self._view, message="waiting for the queue, which is locked or slow")
        if keys:
            self._said_at = time.monotonic()
        return actions

    def _perform(self, action: Action) -> None:
        self._outcomes.put((action, *perform(action, self._place, self._store)))

    def _hear_of_deeds(self) -> None:
        while not self._outcomes.empty():
            action, words, refused = self._outcomes.get()
            self._view = answered(self._view, action, words, refused=refused)
            self._said_at = time.monotonic()


_LONGEST_END = 75.0
"""Seconds that the end of a worker waits for its view: somewhat more than an output waits for its reader."""


class Showing:
    """A context that shows the dashboard instead of the lines of `progress`; if it fails, lines continue."""

    def __init__(
        self,
        terminal: DashboardTerminal,
        source: BoardSource,
        place: QueueAddress,
        store: Store,
        progress: Progress,
        signals: Signals,
    ) -> None:
        self._drawing = Drawing(terminal, place, store, source, lambda: signals.leave_mark(SIGINT))
        self._progress = progress
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._live, name="view", daemon=True)

    def __enter__(self) -> "Showing":
        self._progress.cover()
        try:
            self._thread.start()
        except RuntimeError as error:  # the system is out of threads
            self._progress.uncover(_broken(error))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        if self._thread.ident is not None:
            self._thread.join(_LONGEST_END)
        self._progress.has_called = self._drawing.has_called
        self._progress.uncover()

    def _live(self) -> None:
        error = fault_of(lambda: self._drawing.draw(self._closing.is_set))
        if error is not None:
            self._progress.uncover(_broken(error))  # the worker continues
        elif not self._closing.is_set():  # the user has left, or the terminal is gone
            self._progress.uncover()


def _broken(error: Exception) -> str:
    return f"the dashboard failed ({error!r}); continuing with plain lines"
