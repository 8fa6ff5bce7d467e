"""What the goals that are left will probably take, by those that are done. Pure: no I/O, no clock.

Goals differ: what is said is a range, and nothing at all before three have been done. What gets stuck is in no figure.
"""

import heapq
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ralph.batch.plan import waits_in_vain, whole_order
from ralph.core.text import format_duration, format_money
from ralph.queue.goals import BatchGoal, Figures, State
from ralph.queue.news import Budget, Bulletin, Sight

LEAST = 3
"""Goals that must be done before anything is foretold."""

_TAIL = 0.25
"""What a goal takes at least that has used as much as others in all: a share of that, for it is not done yet."""


@dataclass(frozen=True, slots=True)
class Reach:
    """How much of something: probably `about`; `low` if all are like the lesser quarter, `high` if like the larger."""

    low: float
    about: float
    high: float


@dataclass(frozen=True, slots=True)
class Forecast:
    """What is still to come until the queue is drained; None: too little is known of that measure."""

    goals: int
    """Those that are left, at work or queued."""
    after: int
    """Those that are done, from which this is reckoned."""
    cost_usd: Reach | None
    tokens: Reach | None
    seconds: Reach | None
    """By the clock, with so many slots."""

    def exceeds(self, left: Budget) -> tuple[str, ...]:
        """What of the rest of a budget will probably not do: `cost`, `tokens`, `time`."""
        pairs = {
            "cost": (self.cost_usd, left.cost_usd),
            "tokens": (self.tokens, left.tokens),
            "time": (self.seconds, left.seconds),
        }
        return tuple(
            name
            for name, (reach, most) in pairs.items()
            if reach is not None and most is not None and reach.about > most
        )

    @property
    def words(self) -> str:
        """All of it in a line; shorter texts take what they need from the figures."""
        amounts = [
            "" if self.cost_usd is None else _told(self.cost_usd, format_money),
            "" if self.tokens is None else _told(self.tokens, lambda number: f"{number:,.0f}") + " tokens",
            "" if self.seconds is None else _told(self.seconds, format_duration),
        ]
        goals = f"{self.goals} goal{'' if self.goals == 1 else 's'} left"
        return f"{goals}: {', '.join(filter(None, amounts))}; by {self.after} that are done"


def forecast(
    goals: Sequence[BatchGoal],
    done: Figures,
    slots: int,
    sights: Mapping[int, Sight] | None = None,
    now: float = 0.0,
) -> Forecast | None:
    """Foretell what the goals left will take with so many slots; None: too few are done, or none is left.

    `goals` are those that are queued or running, with those that they come after; others make no difference. `sights`
    are those at work, as their queue worker saw them at `now`: what they have used is not still to come.
    """
    left = _left(goals)
    seen = sights or {}
    costs, tokens, times = _enough(done.cost_usd), _enough(done.tokens), _enough(done.seconds)
    if not left or not (costs or tokens or times):
        return None
    used_usd = [seen[goal.id].cost_usd if goal.id in seen else goal.cost_usd for goal in left]
    used_tokens = [float(seen[goal.id].tokens if goal.id in seen else goal.tokens) for goal in left]
    worked = {goal.id: seen[goal.id].worked(now) if goal.id in seen else goal.seconds for goal in left}
    return Forecast(
        goals=len(left),
        after=max(map(len, (costs, tokens, times))),
        cost_usd=_in_all(costs, used_usd),
        tokens=_in_all(tokens, used_tokens),
        seconds=_by_the_clock(times, left, worked, slots),
    )


def foretold(goals: Sequence[BatchGoal], done: Figures, bulletin: Bulletin) -> Forecast | None:
    """The same for a queue that is worked on, as its worker tells of it."""
    return forecast(goals, done, bulletin.slots, bulletin.sights, bulletin.at)


def figures_of(goals: Iterable[BatchGoal]) -> Figures:
    """What goals that are done have used, where all goals are at hand; `Store.figures` asks the database for it."""
    done = [goal for goal in goals if goal.state is State.DONE]
    return Figures([goal.cost_usd for goal in done], [goal.tokens for goal in done], [goal.seconds for goal in done])


def left_of(bulletin: Bulletin) -> Budget:
    """What is left of a queue worker's budget."""
    return bulletin.budget.without(bulletin.spent_usd, bulletin.spent_tokens, bulletin.seconds)


def _left(goals: Sequence[BatchGoal]) -> list[BatchGoal]:
    """What is at work, and then what is queued and will start by itself, in its order."""
    in_vain = waits_in_vain(goals)
    at_work = [goal for goal in goals if goal.state is State.RUNNING]
    supposed = [replace(goal, state=State.DONE) if goal.state is State.RUNNING else goal for goal in goals]
    return at_work + [goal for goal in whole_order(supposed) if goal.id not in in_vain]


def _enough(known: Sequence[float]) -> list[float]:
    """Those that say something: an agent that names no cost has none, and a goal merged by hand took no time."""
    figures = [figure for figure in known if figure > 0]
    return figures if len(figures) >= LEAST else []


def _each(figures: Sequence[float]) -> Reach:
    """What one goal takes. The mean, for these are added up, and a few dear ones count; at least a quarter each way."""
    lower, _, upper = statistics.quantiles(figures, n=4, method="inclusive")
    mean = statistics.fmean(figures)
    return Reach(min(lower, mean), mean, max(upper, mean))


def _in_all(figures: Sequence[float], used: Sequence[float]) -> Reach | None:
    if not figures:
        return None
    each = _each(figures)
    return Reach(*(sum(_rest(typical, before) for before in used) for typical in (each.low, each.about, each.high)))


def _rest(typical: float, used: float) -> float:
    return max(typical - used, typical * _TAIL)


def _by_the_clock(
    figures: Sequence[float], left: Sequence[BatchGoal], worked: Mapping[int, float], slots: int
) -> Reach | None:
    if not figures:
        return None
    each = _each(figures)
    return Reach(*(_drained(left, worked, typical, slots) for typical in (each.low, each.about, each.high)))


def _drained(left: Sequence[BatchGoal], worked: Mapping[int, float], typical: float, slots: int) -> float:
    """When the last one ends if each takes so long, starts as soon as a slot is free, and waits for those before it."""
    free = [0.0] * max(1, slots)
    ends: dict[int, float] = {}
    for goal in left:
        start = max([heapq.heappop(free), *(ends.get(parent, 0.0) for parent in goal.after)])
        ends[goal.id] = start + _rest(typical, worked[goal.id])
        heapq.heappush(free, ends[goal.id])
    return max(ends.values())


def _told(reach: Reach, write: Callable[[float], str]) -> str:
    low, about, high = write(reach.low), write(reach.about), write(reach.high)
    return f"about {about}" + (f" ({low} to {high})" if low != high else "")
