"""Where a board comes from: the queue's database, and its worker, which may be this process or another one."""

import socket
import time
from collections.abc import Callable
from dataclasses import replace

from ralph.core.errors import RalphError
from ralph.dashboard.board import Board, Happening, lineup
from ralph.queue.database import database_file
from ralph.queue.goals import BatchGoal, State, agent_of
from ralph.queue.news import Bulletin
from ralph.queue.open import Whereabouts, serving
from ralph.queue.repos.remote import without_password
from ralph.queue.stats import figures_of, foretold
from ralph.queue.store import Store

_NEWS = 50
_LOOK = 3
"""Reads between two looks who serves the queue: of a server's, each is a connection."""
_HERE = socket.gethostname()


class Source:
    """A queue that is looked at. Reading it is some milliseconds of work; a board between two reads is next to none."""

    def __init__(self, place: Whereabouts, store: Store, own: Callable[[], Bulletin] | None = None) -> None:
        """`own` asks the worker of this very process; without it, somebody else's writes down how it stands."""
        self._place, self._store, self._own = place, store, own
        file = database_file(place.url)
        shown = without_password(place.url) if file is None else str(file)
        self._board = Board(0.0, shown, ours=own is not None, served="this process" if own else "", flag=place.flag)
        self._reads = 0
        self._heard = (0.0, 0.0)
        """When the bulletin that stands there was written, by its writer's clock and by ours."""
        self._at_work = _at_work(None)
        """What this process's own worker was at before the rows were read."""

    @property
    def is_behind(self) -> bool:
        """Whether this process's own worker has begun or ended something since the rows were read."""
        return self._own is not None and _at_work(self._own()) != self._at_work

    def read(self) -> None:
        """Look at the database. What cannot be read just now stays what it was, and that is said."""
        if self._own is not None:
            self._at_work = _at_work(self._own())
        try:
            self._board = replace(self._read(), fault="")
        except RalphError as error:
            self._board = replace(self._board, fault=error.message)

    def board(self, now: float) -> Board:
        """The queue as it stands; this process's own worker is asked each time."""
        if self._own is None:
            return replace(self._board, now=now, silence=self._silence(now))
        return replace(self._board, now=now, bulletin=self._own())

    def _silence(self, now: float) -> float:
        """How long the worker has written nothing; of another machine's, whose clock may differ, since we watch it."""
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
            agents={goal.id: self._agent(goal) for goal in goals if goal.state is State.QUEUED},
            forecast=None if bulletin is None else foretold(goals, figures_of(goals), bulletin),
        )

    def _agent(self, goal: BatchGoal) -> str:
        try:
            return agent_of(goal, self._place.agent)
        except RalphError:  # a goal that another ralph took in, and this one cannot read
            return ""

    def _server(self) -> str:
        if self._own is not None:
            return self._board.served
        self._reads += 1
        return serving(self._place.url) if self._reads % _LOOK == 1 else self._board.served

    def _written(self, served: str) -> Bulletin | None:
        """What the worker that serves the queue has written; another one's may still stand there."""
        told = self._store.bulletin() if served else None
        if told is not None and told.at != self._heard[0]:
            self._heard = (told.at, time.time())
        return told if told is not None and f"process {told.pid} on {told.host}" in served else None


def _at_work(told: Bulletin | None) -> tuple[frozenset[int], tuple[int, ...]]:
    """The goals at work, and those that are merged: a goal that goes from one to the other has a new row."""
    return (frozenset(), ()) if told is None else (frozenset(told.sights), told.merging)
