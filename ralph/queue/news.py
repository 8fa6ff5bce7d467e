"""What a queue worker reports while it works, for everyone who watches the queue, here or elsewhere."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ralph.core import ndjson
from ralph.core.reason import NO_REASON, NextStep, Reason
from ralph.core.records import NotARecord, from_record, to_record
from ralph.queue.goals import BatchGoal
from ralph.system.notify import Occasion


@dataclass(frozen=True, slots=True)
class GoalStatus:
    """A goal at work, as its queue worker sees it at present."""

    doing: str = ""
    since: float = 0.0
    """Since when it does that."""
    until: float | None = None
    """It waits, and goes on by itself then."""
    iteration: int = 0
    context_pct: float | None = None
    cost_usd: float = 0.0
    """What the goal has cost by now, all its attempts and the open session included."""
    tokens: int = 0
    started: float = 0.0
    """When the present attempt began."""
    costed: bool = True
    """What it costs is named by its agent, or reckoned; else nothing is known of that."""
    before: float = 0.0
    """Seconds that the goal was worked on before that."""
    max_iterations: int | None = None
    is_green: bool | None = None
    """How its last check ended; None: there was none in this attempt."""

    def worked(self, now: float) -> float:
        """Seconds that the goal has been worked on."""
        return self.before + (max(0.0, now - self.started) if self.started else 0.0)


@dataclass(frozen=True, slots=True)
class Budget:
    """What all goals together may use while a queue worker works; None is unlimited."""

    cost_usd: float | None = None
    tokens: int | None = None
    seconds: float | None = None

    def without(self, cost_usd: float, tokens: int, seconds: float) -> "Budget":
        """Return the budget less this usage."""
        return Budget(
            None if self.cost_usd is None else max(0.0, self.cost_usd - cost_usd),
            None if self.tokens is None else max(0, self.tokens - tokens),
            None if self.seconds is None else max(0.0, self.seconds - seconds),
        )


@dataclass(frozen=True, slots=True)
class Bulletin:
    """The state of a queue worker; the goals themselves, and what happened, are in the queue's database."""

    at: float
    host: str
    pid: int
    since: float
    slots: int
    budget: Budget = Budget()
    spent_usd: float = 0.0
    """What goals have cost since it began."""
    spent_tokens: int = 0
    statuses: Mapping[int, GoalStatus] = field(default_factory=dict[int, GoalStatus], metadata={"key": "sights"})
    merging: tuple[int, ...] = ()
    """Goals whose work is being merged, or waits for that, in their order."""
    waits: Mapping[str, float] = field(default_factory=dict[str, float])
    """Accounts whose usage limit is reached, and until when."""
    refused: Mapping[str, int] = field(default_factory=dict[str, int])
    """Accounts that were refused (login, billing), each with the goal that met this."""
    cautions: tuple[Reason, ...] = ()
    """Problems for a person to solve: why a repository's work can't be merged, or a budget can't be enforced."""
    unseen: tuple[str, ...] = ()
    """What of the budget ("cost", "tokens") an agent does not name: it cannot hold that one."""
    stopping: bool = False
    is_settled: bool = False
    """Nothing is left to do by itself: it stays because somebody watches who may retry what is stuck."""
    seconds: float = 0.0
    """How long it has been at work by `at`, as its budget counts it."""
    fetching: Mapping[str, str] = field(default_factory=dict[str, str])
    """The repositories that are being fetched, by their addresses without logins, each with how far that is."""

    def elapsed(self, now: float) -> float:
        """How much of the time of its budget is over."""
        return self.seconds + max(0.0, now - self.at)

    def encoded(self) -> str:
        return ndjson.encode(to_record(self))


def decoded(text: str) -> Bulletin | None:
    """Read what `encoded` wrote, or None if it is something else. In earlier versions, cautions were plain lines."""
    try:
        document = dict(ndjson.mapping(ndjson.decode(text)))
        cautions = ndjson.sequence(document.get("cautions"))
        document["cautions"] = [{"line": each} if isinstance(each, str) else each for each in cautions]
        return from_record(Bulletin, document)
    except (NotARecord, ndjson.Malformed):
        return None


PAUSED = NextStep("paused: running goals continue, no other goal starts; resume with: ", ("resume",))


class NewsKind(StrEnum):
    """What has happened."""

    STARTED = "started"
    ITERATION = "iteration"
    CHECK = "check"
    WAITING = "waiting"
    MERGING = "merging"
    DONE = "done"
    RETRY = "retry"
    STUCK = "stuck"
    REQUEUED = "requeued"
    CANCELLED = "cancelled"
    BUDGET = "budget"
    """The budget of the queue worker is used up."""
    NOTE = "note"


GREEN = "green"
"""All that the news of a check that passed says; that of a red one says how it failed."""


@dataclass(frozen=True, slots=True)
class News:
    """One thing that happened, to a goal or to the queue as a whole."""

    at: float
    kind: NewsKind
    text: str
    goal: BatchGoal | None = None
    event: Occasion | None = None
    """What it is to someone who is away; None: not worth telling."""
    command: tuple[str, ...] = ()
    """The command of `ralph-runs` that the text leads up to."""


@dataclass(frozen=True, slots=True)
class Worked:
    """How a queue worker has ended."""

    exit_code: int
    over: Reason = NO_REASON
    """Which budget was used up, with all that was used in the end; empty: none."""
