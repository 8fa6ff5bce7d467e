"""What may start and in which order, and what becomes of a goal when its attempt has ended. No I/O, no clock."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ralph.queue.goals import BatchGoal, State

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
        on_path: set[int] = set()
        stack: list[tuple[int, int]] = [(first, 0)]  # a goal, and how deep it stands
        while stack:
            goal, depth = stack.pop()
            settled.update(path[depth:])
            on_path.difference_update(path[depth:])
            del path[depth:]
            if goal in on_path:
                return (*path[path.index(goal) :], goal)
            if goal not in settled:
                path.append(goal)
                on_path.add(goal)
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
    done = {goal.id for goal in goals if goal.state is State.DONE}
    left = {goal.id: goal for goal in goals if goal.state is State.QUEUED}
    missing = {number: len(set(goal.after) - done) for number, goal in left.items()}
    followers = _followers(left.values())
    order: list[BatchGoal] = []
    wave = [goal for number, goal in left.items() if not missing[number]]
    while wave:
        order += in_order(wave)
        freed: list[BatchGoal] = []
        for goal in wave:
            del left[goal.id]
            for follower in followers.get(goal.id, ()):
                missing[follower.id] -= 1
                if not missing[follower.id]:
                    freed.append(follower)
        wave = freed
    return [*order, *in_order(left.values())]  # the last ones wait for what is stuck, cancelled or a draft


def waits_in_vain(goals: Sequence[BatchGoal], held_back: Collection[int] = ()) -> dict[int, BatchGoal]:
    """Of the queued goals those that nothing in the queue will bring about: each with the goal that it waits for.

    `held_back` are goals that do not start themselves, whatever they wait for.
    """
    known = {goal.id: goal for goal in goals}
    place = {number: at for at, number in enumerate(known)}
    followers = _followers(goal for goal in goals if goal.state is State.QUEUED)
    in_vain: dict[int, BatchGoal] = {}
    hopeless = {goal.id for goal in goals if goal.state in (State.STUCK, State.CANCELLED, State.DRAFT)}
    hopeless |= set(held_back)
    wave: Iterable[int] = hopeless
    while True:
        affected = {goal.id for number in wave for goal in followers.get(number, ())} - in_vain.keys()
        if not affected:
            return in_vain
        found = {
            number: known[next(parent for parent in known[number].after if parent in hopeless)]
            for number in sorted(affected, key=place.__getitem__)
        }
        in_vain |= found
        hopeless |= found.keys()
        wave = found


def _followers(goals: Iterable[BatchGoal]) -> dict[int, list[BatchGoal]]:
    """The goals that come directly after each one."""
    followers: dict[int, list[BatchGoal]] = {}
    for goal in goals:
        for parent in set(goal.after):
            followers.setdefault(parent, []).append(goal)
    return followers


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
