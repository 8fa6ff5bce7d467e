"""Reads a queue for the dashboard: its database from time to time, its worker's status in between."""

import socket
import time
from collections.abc import Callable
from dataclasses import replace

from ralph.core.errors import RalphError
from ralph.core.secrets import without_login
from ralph.dashboard.board import Board, Happening, lineup
from ralph.queue.database import database_file
from ralph.queue.goals import BatchGoal, State, agent_of
from ralph.queue.news import GREEN, Bulletin, NewsKind
from ralph.queue.open import QueueAddress, serving, worker_name
from ralph.queue.stats import figures_of, foretold
from ralph.queue.store import Store

_NEWS = 200
_CHECK = NewsKind.CHECK
_LOOK = 3
"""Reads between two checks for a worker: on a server, each is a connection."""
_HERE = socket.gethostname()


class BoardSource:
    """A watched queue. A read takes some milliseconds; a board between two reads costs next to nothing."""

    def __init__(self, place: QueueAddress, store: Store, own: Callable[[], Bulletin] | None = None) -> None:
        """`own` asks the worker of this process; without it, another worker's status is read from the database."""
        self._place, self._store, self._own = place, store, own
        file = database_file(place.url)
        shown = without_login(place.url) if file is None else str(file)
        self._board = Board(0.0, shown, ours=own is not None, served="this process" if own else "", flag=place.flag)
        self._reads = 0
        self._heard = (0.0, 0.0)
        """When the current status was written, by its writer's clock and by ours."""
        self._at_work = _at_work(None)
        """What this process's own worker was doing before the rows were read."""

    @property
    def is_behind(self) -> bool:
        """Whether this process's own worker has started or ended something since the last read."""
        return self._own is not None and _at_work(self._own()) != self._at_work

    def read(self) -> None:
        """Read the database. What cannot be read stays as it was, with a fault that says so."""
        if self._own is not None:
            self._at_work = _at_work(self._own())
        try:
            self._board = replace(self._read(), fault="")
        except RalphError as error:
            self._board = replace(self._board, fault=error.message)

    def board(self, now: float) -> Board:
        """Return the current board; this process's own worker is asked each time."""
        if self._own is None:
            return replace(self._board, now=now, silence=self._silence(now))
        return replace(self._board, now=now, bulletin=self._own())

    def _silence(self, now: float) -> float:
        """How long the worker has been silent; for one on another machine, since we started watching."""
        told = self._board.bulletin
        return 0.0 if told is None else max(0.0, now - (told.at if told.host == _HERE else self._heard[1]))

    def _read(self) -> Board:
        goals = self._store.refreshed(self._board.lineup.known)
        news = tuple(Happening(*told) for told in self._store.news(_NEWS))
        served = self._server()
        bulletin = self._own() if self._own is not None else self._written(served)
        return replace(
            self._board,
            lineup=lineup(goals),
            news=news,
            bulletin=bulletin,
            served=served,
            paused=self._store.paused,
            greens={said.goal: said.text == GREEN for said in news if said.kind == _CHECK and said.goal},
            agents={goal.id: self._agent(goal) for goal in goals if goal.state is State.QUEUED},
            forecast=None if bulletin is None else foretold(goals, figures_of(goals), bulletin),
        )

    def _agent(self, goal: BatchGoal) -> str:
        try:
            return agent_of(goal, self._place.agent)
        except RalphError:  # a goal of another version of ralph that this one cannot read
            return ""

    def _server(self) -> str:
        if self._own is not None:
            return self._board.served
        self._reads += 1
        return serving(self._place.url) if self._reads % _LOOK == 1 else self._board.served

    def _written(self, served: str) -> Bulletin | None:
        """The status written by the current worker; an earlier worker's is ignored."""
        told = self._store.bulletin() if served else None
        if told is not None and told.at != self._heard[0]:
            self._heard = (told.at, time.time())
        return told if told is not None and worker_name(told.pid, told.host) == served else None


def _at_work(told: Bulletin | None) -> tuple[frozenset[int], tuple[int, ...]]:
    """Running and merging goals; a goal that moves from one to the other has a new row."""
    return (frozenset(), ()) if told is None else (frozenset(told.statuses), told.merging)
