"""What may start and in which order, and what becomes of a goal when its attempt has ended. No I/O, no clock."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ralph.batch.goals import BatchGoal, State

MOST_RETRIES = 3
MOST_ATTEMPTS = 1 + MOST_RETRIES

MOST_KILLED = 10
"""Starts in a row that may end by somebody's signal without an iteration; then it is taken for the goal's own doing."""

LIMIT, STOPPED = 4, 130
"""Exit codes: a limit was reached, of a run, or of a batch; somebody has stopped it."""

_DONE, _FAILED, _BUG, _STALLED = 0, 1, 3, 5
_SIGNALS = frozenset({129, 130, 143})


class Fate(StrEnum):
    """What becomes of a goal after an attempt."""

    MERGE = "merge"
    RETRY = "retry"
    STUCK = "stuck"
    REQUEUE = "requeue"


def find_cycle(after: Mapping[int, Sequence[int]]) -> tuple[int, ...]:
    """Name the goals that wait for each other, the first one twice; empty if there are none such."""
    settled: set[int] = set()
    for first in after:
        path: list[int] = []
        stack: list[tuple[int, int]] = [(first, 0)]  # a goal, and how deep it stands
        while stack:
            goal, depth = stack.pop()
            settled.update(path[depth:])
            del path[depth:]
            if goal in path:
                return (*path[path.index(goal) :], goal)
            if goal not in settled:
                path.append(goal)
                stack.extend((parent, depth + 1) for parent in after.get(goal, ()))
        settled.update(path)
    return ()


def in_order(goals: Iterable[BatchGoal]) -> list[BatchGoal]:
    """Order goals that could all start: by priority, those untried before those retried, then by age."""
    return sorted(goals, key=lambda goal: (-goal.priority, goal.attempts > goal.forgiven, goal.id))


def startable(goals: Sequence[BatchGoal], held_back: Callable[[BatchGoal], bool]) -> list[BatchGoal]:
    """The queued goals that wait for no other and that nothing else holds back, in the order they are to start in."""
    done = {goal.id for goal in goals if goal.state is State.DONE}
    ready = (goal for goal in goals if goal.state is State.QUEUED and done.issuperset(goal.after))
    return in_order(goal for goal in ready if not held_back(goal))


def whole_order(goals: Sequence[BatchGoal]) -> list[BatchGoal]:
    """The order in which queued goals would start if each one took as long as the others."""
    state = {goal.id: goal.state for goal in goals}
    left = [goal for goal in goals if goal.state is State.QUEUED]
    order: list[BatchGoal] = []
    while left:
        done = {number for number, at in state.items() if at is State.DONE}
        wave = in_order(goal for goal in left if done.issuperset(goal.after))
        if not wave:  # they wait for what is stuck, cancelled or a draft
            return [*order, *in_order(left)]
        order += wave
        for goal in wave:
            state[goal.id] = State.DONE
        left = [goal for goal in left if goal not in wave]
    return order


def waits_in_vain(goals: Sequence[BatchGoal], held_back: Collection[int] = ()) -> dict[int, BatchGoal]:
    """Of the queued goals those that nothing in the queue will bring about: each with the goal that it waits for.

    `held_back` are goals that do not start themselves, whatever they wait for.
    """
    known = {goal.id: goal for goal in goals}
    in_vain: dict[int, BatchGoal] = {}
    hopeless = {goal.id for goal in goals if goal.state in (State.STUCK, State.CANCELLED, State.DRAFT)}
    hopeless |= set(held_back)
    while True:
        found = {
            goal.id: known[next(parent for parent in goal.after if parent in hopeless)]
            for goal in goals
            if goal.state is State.QUEUED and goal.id not in in_vain and not hopeless.isdisjoint(goal.after)
        }
        if not found:
            return in_vain
        in_vain |= found
        hopeless |= set(found)


@dataclass(frozen=True, slots=True)
class Ended:
    """How an attempt's child ended: `exit_code` negative for a signal that it did not live to answer."""

    exit_code: int
    reason: str
    iterations: int = 0
    """Those finished in this start."""
    asked: bool = False
    """It was the queue worker that stopped it, or the budget of all goals that it was given a part of."""


def fate(goal: BatchGoal, ended: Ended) -> Fate:
    """What becomes of a goal whose child has ended; 1, 3 and 5 are charged, a signal is not."""
    if ended.exit_code == _DONE:
        return Fate.MERGE
    if ended.exit_code < 0 or ended.exit_code in _SIGNALS:
        worn_out = not ended.asked and ended.iterations == 0 and goal.killed + 1 >= MOST_KILLED
        return retry_or_stuck(goal) if worn_out else Fate.REQUEUE
    if ended.exit_code in (_FAILED, _BUG, _STALLED):
        return retry_or_stuck(goal)
    return Fate.STUCK


def retry_or_stuck(goal: BatchGoal) -> Fate:
    """What becomes of a goal that has to pay for an attempt; the one that has just ended is counted already."""
    return Fate.RETRY if goal.attempts - goal.forgiven < MOST_ATTEMPTS else Fate.STUCK


def batch_exit_code(goals: Iterable[BatchGoal]) -> int:
    """0 if all are done, else 1."""
    return 0 if all(goal.state is State.DONE for goal in goals) else 1
