"""What the goals of a queue have come to, and what those that are left will probably take. Pure: no I/O, no clock.

Goals differ: what is said is a range, and nothing at all before three have been done. What gets stuck is in no figure.
"""

import heapq
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from ralph.core.reason import Reason
from ralph.core.secrets import without_login
from ralph.core.text import format_duration, format_money, plural
from ralph.queue.goals import BatchGoal, Comment, CommentKind, GoalFigures, State, waits_in_vain, whole_order
from ralph.queue.news import Budget, Bulletin, GoalStatus

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
        goals = f"{plural(self.goals, 'goal')} left"
        return f"{goals}: {', '.join(filter(None, amounts))}; estimated from {self.after} done"


def forecast(
    goals: Sequence[BatchGoal],
    done: GoalFigures,
    slots: int,
    statuses: Mapping[int, GoalStatus] | None = None,
    now: float = 0.0,
) -> Forecast | None:
    """Foretell what the goals left will take with so many slots; None: too few are done, or none is left.

    `goals` are those that are queued or running, with those that they come after; others make no difference. `statuses`
    are those at work, as their queue worker saw them at `now`: what they have used is not still to come.
    """
    left = _left(goals)
    seen = statuses or {}
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


def foretold(goals: Sequence[BatchGoal], done: GoalFigures, bulletin: Bulletin) -> Forecast | None:
    """The same for a queue with a worker, from the worker's own report."""
    return forecast(goals, done, bulletin.slots, bulletin.statuses, bulletin.at)


def figures_of(goals: Iterable[BatchGoal]) -> GoalFigures:
    """What goals that are done have used, where all goals are at hand; `Store.figures` asks the database for it."""
    done = [goal for goal in goals if goal.state is State.DONE]
    return GoalFigures(
        [goal.cost_usd for goal in done], [goal.tokens for goal in done], [goal.seconds for goal in done]
    )


def left_of(bulletin: Bulletin) -> Budget:
    """Return the rest of a queue worker's budget."""
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


@dataclass(frozen=True, slots=True)
class Sums:
    """What some goals have used; None where they were worked on, and no agent said anything."""

    goals: int
    done: int
    cost_usd: float | None
    tokens: int | None
    seconds: float


@dataclass(frozen=True, slots=True)
class Typical:
    """What one goal that is done has used: the median; None where no agent said anything."""

    cost_usd: float | None
    tokens: float | None
    seconds: float | None


@dataclass(frozen=True, slots=True)
class QueueStats:
    """A queue in figures."""

    states: Mapping[State, int]
    """Those that there are."""
    attempts: Mapping[int, int]
    """Of the goals that are done, how many took so many attempts."""
    total: Sums
    typical: Typical
    repos: Mapping[str, Sums]
    agents: Mapping[str, Sums]
    failures: Mapping[str, int]
    """What attempts and merges have failed for, and how often; the most frequent first."""

    def document(self) -> dict[str, object]:
        """For programs."""
        return {
            "states": {str(state): count for state, count in self.states.items()},
            "attempts_of_done": {str(number): count for number, count in self.attempts.items()},
            "total": asdict(self.total),
            "median_of_done": asdict(self.typical),
            "repos": {repo: asdict(sums) for repo, sums in self.repos.items()},
            "agents": {agent: asdict(sums) for agent, sums in self.agents.items()},
            "failures": [{"reason": reason, "count": count} for reason, count in self.failures.items()],
        }


def tally(
    goals: Sequence[BatchGoal],
    agents: Mapping[int, str],
    comments: Iterable[Comment],
    line_of: Callable[[Reason], str] = lambda why: why.said,
) -> QueueStats:
    """Count; `agents` says who works on each goal, `comments` are all that were made, `line_of` words reasons."""
    done = [goal for goal in goals if goal.state is State.DONE]
    counts = Counter(goal.state for goal in goals)
    faults = Counter(_fault(said, line_of) for said in comments if said.kind is CommentKind.FAILURE)
    return QueueStats(
        states={state: counts[state] for state in State if counts[state]},
        attempts=dict(sorted(Counter(goal.attempts for goal in done).items())),
        total=_sums(goals),
        typical=Typical(
            _median(goal.cost_usd for goal in done),
            _median(goal.tokens for goal in done),
            _median(goal.seconds for goal in done),
        ),
        repos=_grouped(goals, {goal.id: without_login(goal.repo) for goal in goals}),
        agents=_grouped(goals, agents),
        failures=dict(faults.most_common()),
    )


def _sums(goals: Sequence[BatchGoal]) -> Sums:
    worked = [goal for goal in goals if goal.starts]
    costs = [cost for goal in worked if (cost := goal.known_cost) is not None]
    tokens = [used for goal in worked if (used := goal.known_tokens) is not None]
    return Sums(
        len(goals),
        sum(goal.state is State.DONE for goal in goals),
        sum(costs) if costs or not worked else None,
        sum(tokens) if tokens or not worked else None,
        sum(goal.seconds for goal in goals),
    )


def _median(figures: Iterable[float]) -> float | None:
    known = [figure for figure in figures if figure > 0]
    return statistics.median(known) if known else None


def _grouped(goals: Sequence[BatchGoal], names: Mapping[int, str]) -> dict[str, Sums]:
    """By a name, in the order in which the names first come."""
    groups: dict[str, list[BatchGoal]] = {}
    for goal in goals:
        if goal.id in names:
            groups.setdefault(names[goal.id], []).append(goal)
    return {name: _sums(group) for name, group in groups.items()}


def _fault(remark: Comment, line_of: Callable[[Reason], str]) -> str:
    """What went wrong, in a line."""
    lines = (line_of(remark.why) or remark.text).splitlines()
    return next((line.strip() for line in lines if line.strip()), "")
