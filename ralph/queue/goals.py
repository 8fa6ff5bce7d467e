"""A goal in the queue: what is known of it, which states it can be in, and how it gets from one to the next."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum


class State(StrEnum):
    """Where a goal stands."""

    DRAFT = "draft"
    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    STUCK = "stuck"
    CANCELLED = "cancelled"


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
    State.DONE: frozenset(),
}
"""Every transition there is. A goal gets stuck while it is queued when its repository cannot be had."""


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
    merge: MergeMode | None = None
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
    unmerged: Mapping[str, object] | None = None
    """What the attempt that is done has left to be merged."""
    reason: str = ""
    """Why it is where it is, in a line."""
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
class Figures:
    """What each goal that is done has used."""

    cost_usd: Sequence[float] = ()
    tokens: Sequence[float] = ()
    seconds: Sequence[float] = ()


@dataclass(frozen=True, slots=True)
class Comment:
    """A remark on a goal; `author` is `user`, or `ralph` for what went wrong."""

    goal: int
    at: float
    author: str
    text: str
    id: int = 0
    """Grows from one comment to the next, over all goals."""
