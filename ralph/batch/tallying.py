"""What the goals of a queue have come to, in figures. Pure."""

import re
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from ralph.batch.retrying import CONFLICTS, RALPH
from ralph.queue.goals import BatchGoal, Comment, State
from ralph.queue.repos.remote import without_password

_ENDED = re.compile(r"Attempt \d+ ended with exit code -?\d+: ")
"""How a remark on a failed attempt begins; one on a failed merge begins with what failed."""


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
class Tally:
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


def tally(goals: Sequence[BatchGoal], agents: Mapping[int, str], comments: Iterable[Comment]) -> Tally:
    """Count; `agents` says who works on each goal, `comments` are all that were made."""
    done = [goal for goal in goals if goal.state is State.DONE]
    counts = Counter(goal.state for goal in goals)
    # A remark on conflicts says again what failed before it: that is counted already.
    remarks = [said.text for said in comments if said.author == RALPH and CONFLICTS not in said.text]
    faults = Counter(map(_fault, remarks))
    return Tally(
        states={state: counts[state] for state in State if counts[state]},
        attempts=dict(sorted(Counter(goal.attempts for goal in done).items())),
        total=_sums(goals),
        typical=Typical(
            _median(goal.cost_usd for goal in done),
            _median(goal.tokens for goal in done),
            _median(goal.seconds for goal in done),
        ),
        repos=_grouped(goals, {goal.id: without_password(goal.repo) for goal in goals}),
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


def _fault(remark: str) -> str:
    """What went wrong, by the first line of what was remarked on it."""
    first = next((line.strip() for line in remark.splitlines() if line.strip()), "")
    return _ENDED.sub("", first, count=1)
