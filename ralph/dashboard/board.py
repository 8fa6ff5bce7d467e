"""The state of a queue at one moment: everything that the dashboard shows."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from ralph.core.text import short_names
from ralph.dashboard.reasons import waiting
from ralph.queue.goals import BatchGoal, Comment, State, waits_in_vain, whole_order
from ralph.queue.news import Budget, Bulletin, GoalStatus
from ralph.queue.stats import Forecast
from ralph.ui.terminal import Row

_FIRST = (State.RUNNING, State.STUCK)
_LAST = (State.DRAFT, State.CANCELLED, State.UNDONE, State.DONE)


@dataclass(frozen=True, slots=True)
class Happening:
    """One entry in the queue's history."""

    at: float
    kind: str
    goal: int | None
    text: str
    command: tuple[str, ...] = ()
    """The command of `ralph-runs` at the end of the text."""


@dataclass(frozen=True, slots=True)
class Lineup:
    """The goals of a queue in display order, with what follows from them; computed once per read."""

    goals: tuple[BatchGoal, ...] = ()
    """In display order: running, stuck, queued in their order, then drafts and finished goals."""
    known: Mapping[int, BatchGoal] = field(default_factory=dict[int, BatchGoal])
    waits: Mapping[int, str] = field(default_factory=dict[int, str])
    """For each waiting goal, the goals it waits for."""
    in_vain: Mapping[int, BatchGoal] = field(default_factory=dict[int, BatchGoal])
    """The waiting goals that nothing in the queue can start, each with the goal that blocks it."""
    counts: Mapping[State, int] = field(default_factory=dict[State, int])
    repositories: Mapping[str, str] = field(default_factory=dict[str, str])
    """Repositories by display name."""


def lineup(goals: Sequence[BatchGoal]) -> Lineup:
    """Put goals into display order."""
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
        short_names(goal.repo for goal in goals),
    )


class SortOrder(StrEnum):
    """What goals are sorted by."""

    STATE = "state"
    """Running, stuck, queued in their order, finished."""
    NEED = "need"
    ID = "id"
    NEWS = "latest news"
    COST = "cost"


class PageKind(StrEnum):
    """What a goal's page shows."""

    TRANSCRIPT = "transcript"
    DIFF = "diff"
    LOG = "log"


@dataclass(frozen=True, slots=True)
class GoalPage:
    """What is known about the run of one goal, as rows of the current width."""

    goal: int
    rows: Sequence[Row] = ()
    left_out: int = 0
    """Rows before these that are no longer kept."""
    note: str = ""
    """Why there are no rows."""
    kind: PageKind = PageKind.TRANSCRIPT
    check: str = ""
    """The output of the last check."""
    is_green: bool | None = None
    """How that check ended; None: unknown."""
    last_words: str = ""
    """The summary of the last iteration, with the agent's question if it has one."""
    remarks: Sequence[Comment] = ()
    """Comments by the user and by ralph."""

    @property
    def end(self) -> int:
        """The number of the last row; the scroll position is counted from there while rows are added."""
        return self.left_out + len(self.rows)


@dataclass(frozen=True, slots=True)
class Board:
    """A queue at one moment."""

    now: float
    queue: str
    """Its address."""
    lineup: Lineup = Lineup()
    news: tuple[Happening, ...] = ()
    bulletin: Bulletin | None = None
    """From the current worker; what an earlier worker left is ignored."""
    served: str = ""
    """Which worker; empty: there is none."""
    silence: float = 0.0
    """Seconds since the worker last wrote its status."""
    paused: bool = False
    forecast: Forecast | None = None
    ours: bool = False
    """This process is the worker: quitting stops it."""
    fault: str = ""
    """Why the queue cannot be read now; everything else is from the last read."""
    page: GoalPage | None = None
    """For the open goal, else the selected one."""
    greens: Mapping[int, bool] = field(default_factory=dict[int, bool])
    """How each goal's last check ended, from the latest news."""
    agents: Mapping[int, str] = field(default_factory=dict[int, str])
    """The account that each queued goal would use."""
    flag: str = ""
    """The flag that names this queue in commands; empty for the default queue."""

    @property
    def is_stopping(self) -> bool:
        """Whether the worker has already been asked to stop."""
        return self.bulletin is not None and self.bulletin.stopping

    @property
    def is_settled(self) -> bool:
        """Whether nothing can continue by itself, and the worker only stays because the user may retry a stuck goal."""
        return self.ours and self.bulletin is not None and self.bulletin.is_settled

    @property
    def is_on_guard(self) -> bool:
        """Whether this process enforces a budget that running goals use: if it is suspended, they continue without
        limits.
        """
        budgeted = self.bulletin is not None and self.bulletin.budget != Budget()
        return self.ours and budgeted and self.lineup.counts.get(State.RUNNING, 0) > 0

    @property
    def stands_still(self) -> bool:
        """Whether no waiting goal starts, so that there is no estimate for the end."""
        if self.paused:
            return True
        told = self.bulletin
        held_back = told is not None and bool(told.refused or told.waits)
        return held_back and not self.lineup.counts.get(State.RUNNING, 0)

    def ordered(self, order: SortOrder) -> tuple[BatchGoal, ...]:
        """All goals, sorted."""
        goals = self.lineup.goals
        match order:
            case SortOrder.STATE:
                return goals
            case SortOrder.NEED:
                return tuple(sorted(goals, key=self._need))
            case SortOrder.ID:
                return tuple(sorted(goals, key=lambda goal: goal.id))
            case SortOrder.NEWS:
                told = {news.goal: news.at for news in self.news}
                return tuple(sorted(goals, key=lambda goal: -told.get(goal.id, goal.updated_at)))
            case SortOrder.COST:
                return tuple(sorted(goals, key=lambda goal: -self._cost(goal)))

    def _cost(self, goal: BatchGoal) -> float:
        status = self.status(goal)
        return goal.cost_usd if status is None else status.cost_usd

    def _need(self, goal: BatchGoal) -> int:
        """How urgently a goal needs the user; 0 is most urgent."""
        if goal.state is State.STUCK:
            return 0
        if self.is_cut_off(goal) or goal.id in self.lineup.in_vain:
            return 1
        return 2 if self.is_waiting(goal) else 3

    def status(self, goal: BatchGoal) -> GoalStatus | None:
        """The worker's status of a running goal."""
        if self.bulletin is None or goal.state is not State.RUNNING:
            return None
        return self.bulletin.statuses.get(goal.id)

    def is_green(self, goal: BatchGoal) -> bool | None:
        """Whether the goal's last check passed; None: there was none, or it is no longer known."""
        status = self.status(goal)
        if status is not None and status.is_green is not None:
            return status.is_green
        return True if goal.unmerged is not None and goal.unmerged.get("proven") is True else self.greens.get(goal.id)

    def is_waiting(self, goal: BatchGoal) -> bool:
        """Whether it waits for a time and can be woken before."""
        status = self.status(goal)
        return status is not None and status.until is not None

    def is_merging(self, goal: BatchGoal) -> bool:
        """Whether it is past its attempt: merging, waiting for its turn, or just merged."""
        told = self.bulletin is not None and goal.id in self.bulletin.merging
        return goal.state is State.RUNNING and (told or goal.unmerged is not None)

    def is_cut_off(self, goal: BatchGoal) -> bool:
        """Whether it is marked as running although the queue has no worker."""
        return goal.state is State.RUNNING and not self.served
