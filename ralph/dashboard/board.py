"""What is known of a queue at one moment: all that the dashboard shows."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ralph.dashboard.report import short_repos, waiting
from ralph.queue.goals import BatchGoal, State, waits_in_vain, whole_order
from ralph.queue.news import Budget, Bulletin, Sight
from ralph.queue.stats import Forecast
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
class Transcript:
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
    transcript: Transcript | None = None
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

    def sight(self, goal: BatchGoal) -> Sight | None:
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
