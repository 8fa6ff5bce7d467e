"""The budget of a queue worker: what all goals together may use, what they have used, and the rest."""

import math
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ralph.config import settings
from ralph.core.goal import parse_goal
from ralph.core.limits import DUST_USD, Limit, Limits
from ralph.core.reason import NO_REASON, Cause, Reason
from ralph.core.text import format_money
from ralph.core.usage import Spend
from ralph.queue.goals import BatchGoal, State
from ralph.queue.news import Budget
from ralph.queue.paths import QueuePaths
from ralph.state.journal import Journal, Saved
from ralph.system import clock

_LEAST_USD, _LEAST_SECONDS = 0.0001, 1.0
"""What a flag of `ralph run` can say at least."""


class BatchBudget:
    """One per queue worker. Any thread may write into it what its goal has used, and see whether that was too much."""

    def __init__(
        self, budget: Budget, goals: Iterable[BatchGoal], passed: Callable[[], float] = clock.monotonic_with_sleep
    ) -> None:
        """`goals` are those of the queue as it is found: what they have used before does not count."""
        self.whole = budget
        self._passed = passed
        self._began = passed()
        self._used = {goal.id: Spend(goal.cost_usd, goal.tokens) for goal in goals}
        self._begun: set[int] = set()
        self._lent: dict[int, tuple[Budget, Spend]] = {}
        self._cost_usd, self._tokens = 0.0, 0
        self._lock = threading.Lock()

    def note(self, number: int, used: Spend) -> None:
        """Write down what a goal has used by now, over all its attempts."""
        with self._lock:
            self._enter(number, used)

    def found(self, number: int, used: Spend) -> None:
        """Write down what a goal had used when a start of it began, as that start has found out.

        What nobody had counted at the first one is the work of a queue worker that is gone, and of no concern here.
        """
        with self._lock:
            if number in self._begun:
                self._enter(number, used)
            self._begun.add(number)
            self._used[number] = used
            if number in self._lent:
                self._lent[number] = (self._lent[number][0], used)

    def reckon(self, goals: Iterable[BatchGoal]) -> None:
        """Take over what the queue says; of a goal at work its own events may have said more already."""
        with self._lock:
            for goal in goals:
                used = Spend(goal.cost_usd, goal.tokens)
                heard = self._used.get(goal.id, Spend())
                self._enter(goal.id, used.at_least(heard) if goal.state is State.RUNNING else used)

    def _enter(self, number: int, used: Spend) -> None:
        before = self._used.get(number, Spend())
        self._used[number] = used
        self._cost_usd += used.cost_usd - before.cost_usd
        self._tokens += used.tokens - before.tokens

    @property
    def spent(self) -> Spend:
        """What goals have used since this worker began, their open sessions included."""
        return Spend(self._cost_usd, self._tokens)

    @property
    def seconds(self) -> float:
        """How long this worker has been at work, the machine's sleep included: people mean to be done by a time."""
        return self._passed() - self._began

    @property
    def left(self) -> Budget:
        spent = self.spent
        return self.whole.without(spent.cost_usd, spent.tokens, self.seconds)

    @property
    def reached(self) -> Reason:
        """What is used up; empty: nothing."""
        whole, left, spent = self.whole, self.left, self.spent
        if whole.cost_usd is not None and left.cost_usd is not None and left.cost_usd <= DUST_USD:
            return Reason(cause=Cause.BUDGET, limit="--max-cost", used=spent.cost_usd, most=whole.cost_usd)
        if whole.tokens is not None and left.tokens == 0:
            return Reason(cause=Cause.BUDGET, limit="--max-tokens", used=spent.tokens, most=whole.tokens)
        if whole.seconds is not None and left.seconds == 0.0:
            return Reason(cause=Cause.BUDGET, limit="--max-time", most=whole.seconds)
        return NO_REASON

    def lend(self, number: int) -> Budget:
        """Return the rest for a goal that starts now: if it runs alone, this is its limit."""
        left = self.left
        self._lent[number] = (left, self._used.get(number, Spend()))
        return left

    @property
    def taken_by(self) -> int | None:
        """The goal that alone has used all the money, or all the tokens, that were left when it started."""
        return next((number for number in list(self._lent) if self._has_taken_all(number)), None)

    def _has_taken_all(self, number: int) -> bool:
        (left, before), now = self._lent[number], self._used.get(number, Spend())
        all_money = left.cost_usd is not None and now.cost_usd - before.cost_usd >= left.cost_usd - DUST_USD
        return all_money or (left.tokens is not None and now.tokens - before.tokens >= left.tokens)


@dataclass(frozen=True, slots=True)
class Share:
    """What one attempt may use: its goal's own limits, or the rest of the budget if that is less."""

    flags: tuple[str, ...] = ()
    """For `ralph run`; none where the goal's own limits hold as they are written."""
    lent: frozenset[Limit] = frozenset()
    """The limits that are the budget's: a goal that reaches one has done nothing wrong."""
    used_up: str = ""
    """How earlier runs of the goal have used up its own `limit`, in words; empty: they have not."""
    limit: Limit | None = None


def share_of(own: Limits, earlier: Spend, run: Spend, left: Budget) -> Share:
    """Return the rest for an attempt at a goal: `earlier` runs are over, `run` is the unfinished one's usage.

    A limit on cost or tokens holds for all runs of a goal together, where `ralph run` knows of one only; and there for
    all starts of a run, where the budget counts from now on.
    """
    cost = None if own.cost_usd is None else own.cost_usd - earlier.cost_usd
    tokens = None if own.tokens is None else own.tokens - earlier.tokens
    if cost is not None and cost <= 0:
        return Share(used_up=f"its runs have cost {format_money(earlier.cost_usd)}", limit=Limit.COST)
    if tokens is not None and tokens <= 0:
        return Share(used_up=f"its runs have used {earlier.tokens:,} tokens", limit=Limit.TOKENS)
    flags: list[str] = []
    lent: set[Limit] = set()
    if left.cost_usd is not None and (cost is None or run.cost_usd + left.cost_usd < cost):
        cost = run.cost_usd + left.cost_usd
        lent.add(Limit.COST)
    if left.tokens is not None and (tokens is None or run.tokens + left.tokens < tokens):
        tokens = run.tokens + left.tokens
        lent.add(Limit.TOKENS)
    if cost is not None and (lent & {Limit.COST} or earlier.cost_usd > 0):
        # Rounded down: what is used up by the budget's own figures is so by this as well.
        flags.append(f"{Limit.COST}={max(math.floor(cost * 1e6) / 1e6, _LEAST_USD):.6f}")
    if tokens is not None and (lent & {Limit.TOKENS} or earlier.tokens > 0):
        flags.append(f"{Limit.TOKENS}={max(tokens, 1)}")
    if left.seconds is not None and (own.duration is None or left.seconds < own.duration):
        flags.append(f"{Limit.DURATION}={max(left.seconds, _LEAST_SECONDS):.1f}s")
        lent.add(Limit.DURATION)
    if lent and own.iterations is not None:  # it may be the default, which a limit in the flags would lift
        flags.append(f"{Limit.ITERATIONS}={own.iterations}")
    return Share(tuple(flags), frozenset(lent))


def share_of_goal(goal: BatchGoal, left: Budget, paths: QueuePaths, env: Mapping[str, str]) -> Share:
    """What an attempt that starts now may use, where so much is left of the budget of all."""
    earlier = Spend(goal.spent_usd, goal.spent_tokens)
    if left == Budget() and earlier == Spend():
        return Share()
    saved = Journal(paths.run_directory(goal)).load()
    run = Spend()
    if isinstance(saved, Saved) and not saved.finished:
        run = saved.run.spend
        if saved.run.id == goal.run:  # a session that was cut off with its worker may be in the queue's figures alone
            run = run.at_least(Spend(goal.cost_usd - goal.spent_usd, goal.tokens - goal.spent_tokens))
    return share_of(_own_limits(goal, paths.clone(goal), env), earlier, run, left)


def _own_limits(goal: BatchGoal, clone: Path, env: Mapping[str, str]) -> Limits:
    """A goal's own limits, from wherever its child takes them."""
    front_matter = parse_goal(goal.text, Path(goal.path)).front_matter
    chosen = settings.load(env=env, root=clone, flags=goal.settings, front_matter=front_matter, goal=Path(goal.path))
    return chosen.limits
