"""What a queue worker has to tell, as values: drawn as lines for now, or written as JSON."""

from dataclasses import dataclass
from enum import StrEnum

from ralph.queue.goals import BatchGoal
from ralph.system.notify import Occasion

PAUSED = "paused: what runs goes on, nothing else is started; go on with: ralph-runs resume"


class Kind(StrEnum):
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


@dataclass(frozen=True, slots=True)
class News:
    """One thing that happened, to a goal or to the queue as a whole."""

    at: float
    kind: Kind
    text: str
    goal: BatchGoal | None = None
    event: Occasion | None = None
    """What it is to someone who is away; None: not worth telling."""
