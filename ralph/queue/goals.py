"""A goal in the queue: what is known of it, which states it can be in, and how it gets from one to the next."""

import functools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from ralph.core.errors import SIGNALLED, ExitCode, UsageError
from ralph.core.goal import parse_goal
from ralph.core.reason import NO_REASON, Cause, Reason


class State(StrEnum):
    """Where a goal stands."""

    DRAFT = "draft"
    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    STUCK = "stuck"
    CANCELLED = "cancelled"
    UNDONE = "undone"
    """It was merged, and its work was taken out of the base again."""


class MergeMode(StrEnum):
    """What becomes of proven work: pushed to the base branch, proposed, pushed as a branch, or kept in the mirror."""

    DIRECT = "direct"
    PR = "pr"
    BRANCH = "branch"
    NONE = "none"


NEXT: Mapping[State, frozenset[State]] = {
    State.DRAFT: frozenset({State.QUEUED, State.CANCELLED}),
    State.QUEUED: frozenset({State.RUNNING, State.STUCK, State.CANCELLED, State.DRAFT}),
    State.RUNNING: frozenset({State.QUEUED, State.DONE, State.STUCK, State.CANCELLED}),
    State.STUCK: frozenset({State.QUEUED, State.CANCELLED}),
    State.CANCELLED: frozenset({State.QUEUED}),
    State.DONE: frozenset({State.UNDONE}),
    State.UNDONE: frozenset({State.QUEUED}),
}
"""Every transition there is. A queued goal gets stuck when its repository is unavailable."""


ACTIVE = (State.QUEUED, State.RUNNING)
"""The states in which a queue worker has something to do for a goal."""


def may_become(now: State, then: State) -> bool:
    """Tell whether a goal may go from one state to the other."""
    return then in NEXT[now]


@dataclass(frozen=True, slots=True)
class Submission:
    """A goal as it is asked for: the text of its file, front matter included, and what is said about it elsewhere."""

    name: str
    title: str
    text: str
    path: str
    repo: str
    after: tuple[str, ...] = ()
    """Names of goals: of the same repository if one there is so called, else of any."""
    priority: int = 0
    branch: str = ""
    merge: MergeMode | None = None
    """None: a goal of this name keeps the mode that it has."""
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    """Flags for `ralph run`, by the names of settings (`model`, `reasoning`, `max_cost`), that overrule its text."""
    trust_envrc: bool = False
    agent: str | None = None
    """The agent that its front matter names; empty: none. None: nobody has looked."""


@dataclass(frozen=True, slots=True)
class BatchGoal:
    """A goal in the queue. `attempts` are those charged; `starts` counts every start, also those that were free."""

    id: int
    name: str
    title: str
    text: str
    path: str
    repo: str
    branch: str
    state: State
    created_at: float
    updated_at: float
    priority: int = 0
    after: tuple[int, ...] = ()
    merge: MergeMode = MergeMode.DIRECT
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    attempts: int = 0
    forgiven: int = 0
    """Attempts before the user had it tried again: they no longer count against the most there may be."""
    starts: int = 0
    killed: int = 0
    """Starts in a row that ended by no fault of the goal's, and without a finished iteration."""
    cost_usd: float = 0.0
    spent_usd: float = 0.0
    """What runs before the present one have cost: a limit on cost holds for all of them together."""
    tokens: int = 0
    spent_tokens: int = 0
    """The tokens of those runs."""
    costed: bool = False
    """Some agent has named what it costs, or it could be reckoned; without that, no cost is one that nobody knows."""
    counted: bool = False
    """The same of tokens."""
    seconds: float = 0.0
    """How long it was worked on, over all starts."""
    iterations: int = 0
    """Those finished, over all starts."""
    run: str = ""
    """The id of the run that it is at, or was last."""
    run_text: str = ""
    """Tells which wording of the goal that run was started with; empty: not known."""
    unmerged: Mapping[str, object] | None = None
    """What the attempt that is done has left to be merged."""
    why: Reason = NO_REASON
    """Why it is where it is."""
    cancelling: bool = False
    """The user wants it cancelled, and it still runs."""
    trust_envrc: bool = False
    agent: str | None = None
    """The agent that its front matter names; empty: none. None: the row is older than this field."""

    @property
    def label(self) -> str:
        """The id as people write it."""
        return f"g{self.id}"

    @property
    def attempt(self) -> int:
        """The number of the attempt that it is at, of those that count."""
        return self.attempts - self.forgiven

    @property
    def has_run(self) -> bool:
        """Whether a run of it has begun: a start can end before that."""
        return bool(self.run) or self.iterations > 0

    @property
    def known_cost(self) -> float | None:
        """What it has cost; None: it was worked on, and nobody has said."""
        return self.cost_usd if self.costed or self.cost_usd or not self.starts else None

    @property
    def known_tokens(self) -> int | None:
        """What it has used, in the same way."""
        return self.tokens if self.counted or self.tokens or not self.starts else None

    def before(self, run: str) -> dict[str, float]:
        """What runs before this one have used, by field: all that was spent, if this one is new."""
        known = {"spent_usd": self.spent_usd, "spent_tokens": self.spent_tokens}
        return known if run in ("", self.run) else self.closed()

    def closed(self) -> dict[str, float]:
        """What it has used, as that of runs which are over."""
        return {"spent_usd": self.cost_usd, "spent_tokens": self.tokens}


@dataclass(frozen=True, slots=True)
class GoalFigures:
    """What each goal that is done has used."""

    cost_usd: Sequence[float] = ()
    tokens: Sequence[float] = ()
    seconds: Sequence[float] = ()


class CommentKind(StrEnum):
    """What a remark is about."""

    REMARK = "remark"
    FAILURE = "failure"
    """An attempt, or a merge, has failed."""
    CONFLICTS = "conflicts"
    """The next attempt has conflicts to resolve; what failed before is said again."""


@dataclass(frozen=True, slots=True)
class Comment:
    """A remark on a goal; `author` is `user`, or `ralph` for what went wrong."""

    goal: int
    at: float
    author: str
    text: str
    id: int = 0
    """Grows from one comment to the next, over all goals."""
    kind: CommentKind = CommentKind.REMARK
    why: Reason = NO_REASON
    """What has failed; empty: the first line of the text says it."""


MOST_RETRIES = 3
MOST_ATTEMPTS = 1 + MOST_RETRIES

MOST_KILLED = 10
"""Starts in a row that may end by somebody's signal without an iteration; then it is taken for the goal's own doing."""

LIMIT, STOPPED = ExitCode.LIMIT, ExitCode.INTERRUPTED
"""Exit codes: a limit was reached, of a run, or of a batch; somebody has stopped it."""

_CHARGED = (ExitCode.FAILED, ExitCode.BUG, ExitCode.STALLED)


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


def require_no_cycle(after: Mapping[int, Sequence[int]], names: Callable[[Sequence[int]], Iterable[str]]) -> None:
    """Refuse goals that wait for each other; `names` says what these are called."""
    if cycle := find_cycle(after):
        circle = " after ".join(names(cycle))
        raise UsageError(f"these goals wait for each other: {circle}", "remove one of these `after` entries")


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


_BRINGS_NOTHING = (State.STUCK, State.CANCELLED, State.UNDONE, State.DRAFT)
"""States that a goal does not leave unless the user says so."""


def waits_in_vain(goals: Sequence[BatchGoal], held_back: Collection[int] = ()) -> dict[int, BatchGoal]:
    """Of the queued goals those that nothing in the queue will bring about: each with the goal that it waits for.

    `held_back` are goals that do not start themselves, whatever they wait for.
    """
    known = {goal.id: goal for goal in goals}
    place = {number: at for at, number in enumerate(known)}
    followers = _followers(goal for goal in goals if goal.state is State.QUEUED)
    in_vain: dict[int, BatchGoal] = {}
    hopeless = {goal.id for goal in goals if goal.state in _BRINGS_NOTHING}
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
class AttemptEnd:
    """How an attempt's child ended: `exit_code` negative for a signal that it did not live to answer."""

    exit_code: int
    iterations: int = 0
    """Those finished in this start."""
    asked: bool = False
    """It was the queue worker that stopped it, or the budget of all goals that it was given a part of."""
    has_stalled: bool = False
    """An earlier one of the attempts that count got nowhere, too."""


def fate(goal: BatchGoal, ended: AttemptEnd) -> Fate:
    """Decide what happens to a goal after its child has ended; 1, 3 and 5 are charged, a signal is not.

    A stalled goal is retried once, with its dossier: a third try would change nothing.
    """
    if ended.exit_code == ExitCode.DONE:
        return Fate.MERGE
    if ended.exit_code < 0 or ended.exit_code in SIGNALLED:
        worn_out = not ended.asked and ended.iterations == 0 and goal.killed + 1 >= MOST_KILLED
        return retry_or_stuck(goal) if worn_out else Fate.REQUEUE
    if ended.exit_code == ExitCode.STALLED and ended.has_stalled:
        return Fate.STUCK
    if ended.exit_code in _CHARGED:
        return retry_or_stuck(goal)
    return Fate.STUCK


def retry_or_stuck(goal: BatchGoal) -> Fate:
    """What becomes of a goal that has to pay for an attempt; the one that has just ended is counted already."""
    return Fate.RETRY if goal.attempts - goal.forgiven < MOST_ATTEMPTS else Fate.STUCK


def batch_exit_code(goals: Iterable[BatchGoal]) -> int:
    """Return the exit code of a batch: success if all are done."""
    return ExitCode.DONE if all(goal.state is State.DONE for goal in goals) else ExitCode.FAILED


RALPH, USER = "ralph", "user"


def failures_of(comments: Sequence[Comment]) -> list[Comment]:
    """What ralph has noted of failed attempts and merges, oldest first: one for each attempt that was charged."""
    return [comment for comment in comments if comment.author == RALPH and comment.kind is CommentKind.FAILURE]


def has_stalled(goal: BatchGoal, comments: Sequence[Comment]) -> bool:
    """Tell whether one of the earlier attempts that count got nowhere."""
    charged = goal.attempt - 1  # without the one that it is at
    return charged > 0 and any(each.why.cause is Cause.STALLED for each in failures_of(comments)[-charged:])


def agent_of(goal: BatchGoal, otherwise: str) -> str:
    """Who is to work on a goal, by what is said of it; a repository's own configuration may say more."""
    named = front_matter_of(goal.text, goal.path).get("agent") if goal.agent is None else goal.agent
    return str(goal.settings.get("agent") or named or otherwise)


@functools.lru_cache(maxsize=4096)
def front_matter_of(text: str, path: str) -> Mapping[str, object]:
    """What a goal's text says in front: asked for every queued goal at every turn, and YAML is slow."""
    return parse_goal(text, Path(path)).front_matter


LONGEST = 10_000
"""Characters of a comment: more belongs into the goal, or into a file that it names."""
