"""What the scheduler tells the threads in which goals are worked on, and they tell it."""

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from ralph.core.errors import RalphError
from ralph.core.reason import NO_REASON, Reason
from ralph.core.status import RunStatus
from ralph.core.text import instant, local_time
from ralph.core.usage import Spend
from ralph.queue.budget import BatchBudget
from ralph.queue.engine import Engine
from ralph.queue.goals import BatchGoal, MergeMode
from ralph.queue.news import Bulletin, GoalStatus, News, NewsKind
from ralph.queue.paths import QueuePaths
from ralph.queue.repos.prefetch import Repositories
from ralph.queue.store import Store
from ralph.system.notify import Occasion

MOMENT = 0.5
"""Seconds after which a thread that waits looks whether it is asked to end."""


@dataclass(frozen=True, slots=True)
class WorkerRules:
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

    standing: RunStatus
    cost_usd: float
    tokens: int
    started: float
    before: Spend
    """What the goal had used before this start."""
    seconds: float = 0.0
    """How long it had been worked on before."""


class ChildRun(Protocol):
    """A process that works on a goal."""

    def stop(self) -> None:
        """Ask it to end; any thread may."""
        ...


class WorkerState:
    """The scheduler's marks. Threads read them and leave their own; nobody waits for anybody here."""

    def __init__(self, slots: int, tell: Callable[[News], None]) -> None:
        self.slots = threading.Semaphore(slots)
        self.stop = 0
        """0: work; 1: end soon; 2: at once."""
        self.over = NO_REASON
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
        self._children: dict[int, ChildRun] = {}

    @property
    def ending(self) -> bool:
        """Whether nothing new is to begin."""
        return self.stop > 0 or bool(self.over)

    def requests(self, goal: BatchGoal) -> int:
        """How urgently a goal's thread is asked to end: 0 not at all, 1 soon, 2 at once."""
        is_over = bool(self.over) and goal.id not in self.spared and goal.id not in self.merging
        return max(self.stop, int(is_over or goal.id in self.cancelled))

    def merged_to(self, repo: str) -> None:
        """Withdraw what was said to be in the way there."""
        for words, where in list(self.cautions.items()):  # other threads say more meanwhile
            if where == repo:
                self.cautions.pop(words, None)

    @contextlib.contextmanager
    def at_work(self, goal: BatchGoal, child: ChildRun) -> Generator[None]:
        """Have a goal's child asked to end as soon as that is decided, by whoever decides it."""
        self._children[goal.id] = child
        try:
            if self.requests(goal):
                child.stop()
            yield
        finally:
            del self._children[goal.id]

    def halt(self, over: Reason, *, but: int | None = None) -> None:
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

    def tell(
        self,
        kind: NewsKind,
        text: str,
        goal: BatchGoal | None = None,
        event: Occasion | None = None,
        command: tuple[str, ...] = (),
    ) -> None:
        with self._telling:
            self._tell(News(time.time(), kind, text, goal, event, command))

    def wake(self) -> None:
        """Have the scheduler look around now."""
        self.woken.set()


BLOCKING = ("auth", "billing")
"""Ends of a session that the next one would meet as well, until the user has done something about it."""


def not_started(account: str, until: float) -> str:
    """What is said of an account that is held back until an instant."""
    return f"no goal for {account} is started before {local_time(until, time.time())}"


@dataclass(slots=True)
class AccountGate:
    """The accounts that are held back, each until an instant or until the user has cleared the way."""

    now: Callable[[], float]
    _until: dict[str, float] = field(default_factory=dict[str, float])
    _blocked: dict[str, int] = field(default_factory=dict[str, int])
    _told: set[str] = field(default_factory=set[str])
    """The accounts of whose limit someone who is away was told, and that have not gone on since."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def wait_for(self, account: str, until: float) -> bool:
        """Hold an account back until an instant; tell whether it was not already."""
        with self._lock:
            later = until > self._until.get(account, 0.0)
            news = later and self._until.get(account, 0.0) <= self.now()
            if later:
                self._until[account] = until
            return news

    def tell_once(self, account: str) -> bool:
        """Tell whether someone who is away is to be told of an account's limit: once, until it `goes_on`."""
        with self._lock:
            is_new = account not in self._told
            self._told.add(account)
            return is_new

    def goes_on(self, account: str) -> None:
        """An iteration has ended: the next limit of the account is another."""
        with self._lock:
            self._told.discard(account)

    def lift(self, account: str) -> None:
        """Start goals for an account again before its time: the user knows better, or the next one finds out."""
        with self._lock:
            self._until.pop(account, None)

    def block(self, account: str, goal: int) -> bool:
        """Hold an account back until the goal that met the obstacle is tried again by the user; tell if it is news."""
        with self._lock:
            return self._blocked.setdefault(account, goal) == goal

    def unblock_for(self, decided: set[int]) -> None:
        """The user has these goals tried again, or gave them up: what blocked them is cleared, or will be met anew."""
        with self._lock:
            self._blocked = {account: goal for account, goal in self._blocked.items() if goal not in decided}

    def state(self) -> tuple[dict[str, float], dict[str, int]]:
        """The accounts that wait, with the instant that each does so until; and those that were refused, by whom."""
        with self._lock:
            waits = {account: until for account, until in self._until.items() if until > self.now()}
            return waits, dict(self._blocked)

    def blocked_by(self, account: str) -> int | None:
        """The goal that met an obstacle which every other of its account would meet as well."""
        with self._lock:
            return self._blocked.get(account)


@dataclass(frozen=True, slots=True)
class WorkerKit:
    """Built once, where a queue worker is put together."""

    store: Store
    engine: Engine
    premises: QueuePaths
    repositories: Repositories
    gate: AccountGate
    controls: WorkerState
    rules: WorkerRules
    purse: BatchBudget


_PACE = 1.0
"""Seconds between two that are written: each is a transaction."""
_SIGN_OF_LIFE = 5.0
"""Seconds after which one is written also if nothing is new in it: who watches tells by it that the worker lives."""


class BulletinWriter:
    """What one queue worker tells of itself."""

    def __init__(
        self,
        store: Store,
        controls: WorkerState,
        gate: AccountGate,
        slots: int,
        purse: BatchBudget,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._store, self._controls, self._gate = store, controls, gate
        self._slots, self._purse, self._now = slots, purse, now
        self._since = now()
        self._posted: tuple[float, Bulletin | None] = (0.0, None)

    def bulletin(self) -> Bulletin:
        """How things stand; any thread may ask."""
        waits, refused = self._gate.state()
        spent = self._purse.spent
        return Bulletin(
            at=self._now(),
            host=socket.gethostname(),
            pid=os.getpid(),
            since=self._since,
            slots=self._slots,
            budget=self._purse.budget,
            spent_usd=spent.cost_usd,
            spent_tokens=spent.tokens,
            seconds=self._purse.seconds,
            sights={number: _sight(live) for number, live in list(self._controls.live.items())},
            merging=tuple(self._controls.merging.copy()),
            waits=waits,
            refused=refused,
            cautions=tuple(self._controls.cautions),
            unseen=tuple(sorted(self._controls.unseen)),
            stopping=self._controls.ending,
        )

    def post(self) -> None:
        """Write it down, if there is something new in it or it is old; not more often than anybody looks."""
        at, last = self._posted
        now = self.bulletin()
        wait = _SIGN_OF_LIFE if last is not None and now == replace(last, at=now.at, seconds=now.seconds) else _PACE
        if last is not None and at <= now.at < at + wait:  # a clock that was set back holds nothing up
            return
        self._store.post(now)
        self._posted = (now.at, now)


def _sight(live: Live) -> GoalStatus:
    stands = live.standing
    doing, since = stands.activity
    return GoalStatus(
        doing=doing,
        since=(instant(since) if since else None) or live.started,
        until=stands.until,
        iteration=stands.iteration or 0,
        context_pct=stands.meter.context_pct,
        cost_usd=live.cost_usd,
        costed=live.cost_usd > 0 or stands.meter.total.costed,
        tokens=live.tokens,
        started=live.started,
        before=live.seconds,
    )
