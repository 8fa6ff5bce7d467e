"""What is known of a queue at one moment: all that the dashboard shows."""

import socket
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ralph.core.errors import RalphError
from ralph.core.secrets import without_login
from ralph.dashboard.report import short_repos, waiting
from ralph.queue.database import database_file
from ralph.queue.goals import BatchGoal, State, agent_of, waits_in_vain, whole_order
from ralph.queue.news import Budget, Bulletin, GoalStatus
from ralph.queue.open import QueueAddress, serving
from ralph.queue.stats import Forecast, figures_of, foretold
from ralph.queue.store import Store
from ralph.ui.draw import Line

_FIRST = (State.RUNNING, State.STUCK)
_LAST = (State.DRAFT, State.CANCELLED, State.DONE)


@dataclass(frozen=True, slots=True)
class Happening:
    """Something that the queue keeps of what has happened."""

    at: float
    kind: str
    goal: int | None
    text: str
    command: tuple[str, ...] = ()
    """The command of `ralph-runs` that the text leads up to."""


@dataclass(frozen=True, slots=True)
class Lineup:
    """The goals of a queue, and what follows from them alone: it is worked out once for each time they are read."""

    goals: tuple[BatchGoal, ...] = ()
    """As they are shown: what runs, what is stuck, what is queued in its order; then drafts, and what is over."""
    known: Mapping[int, BatchGoal] = field(default_factory=dict[int, BatchGoal])
    waits: Mapping[int, str] = field(default_factory=dict[int, str])
    """Of those that wait for others: for which."""
    in_vain: Mapping[int, BatchGoal] = field(default_factory=dict[int, BatchGoal])
    """Of those the ones that nothing in the queue will bring about, each with the goal that it waits for."""
    counts: Mapping[State, int] = field(default_factory=dict[State, int])
    repositories: Mapping[str, str] = field(default_factory=dict[str, str])
    """By what each is called."""


def lineup(goals: Sequence[BatchGoal]) -> Lineup:
    """Put goals in the order that they are shown in."""
    by_state = {state: [goal for goal in goals if goal.state is state] for state in State}
    by_state[State.QUEUED] = whole_order(goals)
    by_state[State.DONE].sort(key=lambda goal: -goal.updated_at)
    shown = [goal for state in (*_FIRST, State.QUEUED, *_LAST) for goal in by_state[state]]
    return Lineup(
        tuple(shown),
        {goal.id: goal for goal in goals},
        waiting(goals),
        waits_in_vain(goals),
        Counter(goal.state for goal in goals),
        short_repos(goal.repo for goal in goals),
    )


@dataclass(frozen=True, slots=True)
class TranscriptPage:
    """What is known of the run of the goal that is open, as rows of the present width."""

    goal: int
    rows: Sequence[Line] = ()
    left_out: int = 0
    """Rows before these that are no longer held."""
    status: Line = ()
    note: str = ""
    """Why there is nothing to read."""

    @property
    def end(self) -> int:
        """The number of the last row, by which a place is kept while more come."""
        return self.left_out + len(self.rows)


@dataclass(frozen=True, slots=True)
class Board:
    """A queue at one moment."""

    now: float
    queue: str
    """Where it is."""
    lineup: Lineup = Lineup()
    news: tuple[Happening, ...] = ()
    bulletin: Bulletin | None = None
    """Of whoever serves it now; what one that is gone has left says nothing."""
    served: str = ""
    """By whom; empty: by nobody."""
    silence: float = 0.0
    """Seconds since they last wrote how things stand."""
    paused: bool = False
    forecast: Forecast | None = None
    ours: bool = False
    """The worker is this very process: to leave is to stop it."""
    fault: str = ""
    """Why the queue cannot be read at present; all else is what was read last."""
    transcript: TranscriptPage | None = None
    agents: Mapping[int, str] = field(default_factory=dict[int, str])
    """Whose account each queued goal would use."""
    flag: str = ""
    """How a command names this queue, where it would not find it by itself."""

    @property
    def is_stopping(self) -> bool:
        """Whether its worker has been asked to end already."""
        return self.bulletin is not None and self.bulletin.stopping

    @property
    def is_on_guard(self) -> bool:
        """Whether this very process watches over a budget that goals at work use: they work on where it is stopped."""
        budgeted = self.bulletin is not None and self.bulletin.budget != Budget()
        return self.ours and budgeted and self.lineup.counts.get(State.RUNNING, 0) > 0

    @property
    def stands_still(self) -> bool:
        """Whether nothing is started that waits, so that nobody can tell when all will be done."""
        if self.paused:
            return True
        told = self.bulletin
        held_back = told is not None and bool(told.refused or told.waits)
        return held_back and not self.lineup.counts.get(State.RUNNING, 0)

    def sight(self, goal: BatchGoal) -> GoalStatus | None:
        """How a goal at work is seen by its worker."""
        if self.bulletin is None or goal.state is not State.RUNNING:
            return None
        return self.bulletin.sights.get(goal.id)

    def is_waiting(self, goal: BatchGoal) -> bool:
        """Whether it waits for a time that it would also be woken before."""
        sight = self.sight(goal)
        return sight is not None and sight.until is not None

    def is_merging(self, goal: BatchGoal) -> bool:
        """Whether it is past its attempt: merged just now, or in line for that; or merged, and its row is to say so."""
        told = self.bulletin is not None and goal.id in self.bulletin.merging
        return goal.state is State.RUNNING and (told or goal.unmerged is not None)

    def is_cut_off(self, goal: BatchGoal) -> bool:
        """Whether it is said to run, and does not: nobody serves the queue."""
        return goal.state is State.RUNNING and not self.served


_NEWS = 50
_LOOK = 3
"""Reads between two looks who serves the queue: of a server's, each is a connection."""
_HERE = socket.gethostname()


class BoardSource:
    """A queue that is looked at. Reading it is some milliseconds of work; a board between two reads is next to none."""

    def __init__(self, place: QueueAddress, store: Store, own: Callable[[], Bulletin] | None = None) -> None:
        """`own` asks the worker of this very process; without it, somebody else's writes down how it stands."""
        self._place, self._store, self._own = place, store, own
        file = database_file(place.url)
        shown = without_login(place.url) if file is None else str(file)
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
