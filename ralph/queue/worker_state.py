"""What the scheduler tells the threads in which goals are worked on, and they tell it."""

import contextlib
import threading
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Protocol

from ralph.batch.news import Kind, News
from ralph.core.errors import RalphError
from ralph.core.status import Standing
from ralph.core.usage import Spend
from ralph.queue.goals import BatchGoal, MergeMode
from ralph.system.notify import Occasion

MOMENT = 0.5
"""Seconds after which a thread that waits looks whether it is asked to end."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What holds for every goal of a queue worker."""

    env: Mapping[str, str]
    merge: MergeMode = MergeMode.DIRECT
    """How, for goals that do not say."""
    merge_unproven: bool = False

    def mode(self, goal: BatchGoal) -> MergeMode:
        """How a goal's work is merged."""
        return goal.merge or self.merge

    def merges_only(self, goal: BatchGoal) -> bool:
        """Tell whether all that is left to do for a goal is to merge what it has."""
        return goal.unmerged is not None and self.allow(goal, proven=goal.unmerged.get("proven") is True)

    def allow(self, goal: BatchGoal, *, proven: bool) -> bool:
        """Tell whether work may go where its mode says: the base takes nothing unproven unless that is wanted."""
        return proven or self.merge_unproven or self.mode(goal) is not MergeMode.DIRECT


@dataclass(frozen=True, slots=True)
class Live:
    """A goal at work: where its run stands, and what the goal has used by now, its open session included."""

    standing: Standing
    cost_usd: float
    tokens: int
    started: float
    before: Spend
    """What the goal had used before this start."""
    seconds: float = 0.0
    """How long it had been worked on before."""


class Child(Protocol):
    """A process that works on a goal."""

    def stop(self) -> None:
        """Ask it to end; any thread may."""
        ...


class Controls:
    """The scheduler's marks. Threads read them and leave their own; nobody waits for anybody here."""

    def __init__(self, slots: int, tell: Callable[[News], None]) -> None:
        self.slots = threading.Semaphore(slots)
        self.stop = 0
        """0: work; 1: end soon; 2: at once."""
        self.over = ""
        """What of the budget is used up: attempts end soon, and what is being merged is merged."""
        self.spared: set[int] = set()
        """Goals that have used up the budget alone: the limit that their child has been given ends them."""
        self.outlasted: set[int] = set()
        """Goals that cannot go on in the time that is left of the budget: they are not started again."""
        self.cancelled: frozenset[int] = frozenset()
        self.merging: dict[int, float] = {}
        """Goals that are past their attempt, and so hold no slot; since when."""
        self.live: dict[int, Live] = {}
        """The goals at work, as their children tell of themselves."""
        self.heard: dict[int, int] = {}
        """The last comment that the text of each goal at work holds: what comes later is told to its session."""
        self.accounts: dict[int, str] = {}
        """The agent that each goal was seen to work with."""
        self.parked: set[int] = set()
        """Goals whose threads have stopped where they were: the next start goes on from there."""
        self.cautions: dict[str, str] = {}
        """What a person was told to see to, and the repository whose next merge proves it wrong, if any: as a rule it
        keeps work from being merged."""
        self.unseen: set[str] = set()
        """What of the budget ("cost", "tokens") an agent at work does not name: it cannot hold that one."""
        self.fault: RalphError | None = None
        """Why nothing can go on."""
        self.woken = threading.Event()
        self._tell = tell
        self._telling = threading.Lock()
        self._children: dict[int, Child] = {}

    @property
    def ending(self) -> bool:
        """Whether nothing new is to begin."""
        return self.stop > 0 or self.over != ""

    def requests(self, goal: BatchGoal) -> int:
        """How urgently a goal's thread is asked to end: 0 not at all, 1 soon, 2 at once."""
        is_over = self.over != "" and goal.id not in self.spared and goal.id not in self.merging
        return max(self.stop, int(is_over or goal.id in self.cancelled))

    def merged_to(self, repo: str) -> None:
        """Withdraw what was said to be in the way there."""
        for words, where in list(self.cautions.items()):  # other threads say more meanwhile
            if where == repo:
                self.cautions.pop(words, None)

    @contextlib.contextmanager
    def at_work(self, goal: BatchGoal, child: Child) -> Generator[None]:
        """Have a goal's child asked to end as soon as that is decided, by whoever decides it."""
        self._children[goal.id] = child
        try:
            if self.requests(goal):
                child.stop()
            yield
        finally:
            del self._children[goal.id]

    def halt(self, over: str, *, but: int | None = None) -> None:
        """The budget is used up: ask every child but one to end, here and now. Who waits for a turn sees it then."""
        if self.over:
            return
        if but is not None:
            self.spared.add(but)
        self.over = over
        for number, child in list(self._children.items()):
            if number not in self.spared:
                child.stop()
        self.wake()

    def pause(self, goal: BatchGoal, seconds: float) -> None:
        """Wait, unless asked to end; a merge that waits for its remote does so no longer than all others."""
        deadline = time.monotonic() + seconds
        while not (self.ending or self.requests(goal)) and (left := deadline - time.monotonic()) > 0:
            time.sleep(min(left, MOMENT))

    def tell(self, kind: Kind, text: str, goal: BatchGoal | None = None, event: Occasion | None = None) -> None:
        with self._telling:
            self._tell(News(time.time(), kind, text, goal, event))

    def wake(self) -> None:
        """Have the scheduler look around now."""
        self.woken.set()
