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
from ralph.core.fallback import NO_FALLBACK, Fallback
from ralph.core.progress import Reporter, TaskProgress
from ralph.core.reason import NO_REASON, Reason
from ralph.core.status import RunStatus
from ralph.core.text import format_duration, instant
from ralph.core.usage import Spend
from ralph.queue.budget import BatchBudget
from ralph.queue.engine import Engine
from ralph.queue.goals import BatchGoal, MergeMode
from ralph.queue.news import Bulletin, GoalStatus, News, NewsKind
from ralph.queue.paths import QueuePaths
from ralph.queue.repos.prefetch import Repositories
from ralph.queue.store import Store
from ralph.system.notify import Occasion

_SOON = 1.0
"""Seconds before a task is reported: most end earlier."""
MOMENT = 0.5
"""Seconds after which a thread that waits looks whether it is asked to end."""


@dataclass(frozen=True, slots=True)
class WorkerRules:
    """What holds for every goal of a queue worker."""

    env: Mapping[str, str]
    merge_unproven: bool = False
    fallback: Fallback = NO_FALLBACK

    def merges_only(self, goal: BatchGoal) -> bool:
        """Tell whether all that is left to do for a goal is to merge what it has."""
        return goal.unmerged is not None and self.allow(goal, proven=goal.unmerged.get("proven") is True)

    def allow(self, goal: BatchGoal, *, proven: bool) -> bool:
        """Tell whether work may go where its mode says: the base takes nothing unproven unless that is wanted."""
        return proven or self.merge_unproven or goal.merge is not MergeMode.DIRECT


@dataclass(frozen=True, slots=True)
class Live:
    """A goal at work: where its run stands, and what the goal has used by now, its open session included."""

    status: RunStatus
    cost_usd: float
    tokens: int
    started: float
    before: Spend
    """What the goal had used before this start."""
    seconds: float = 0.0
    """How long it had been worked on before."""
    max_iterations: int | None = None
    is_green: bool | None = None
    """How its last check ended."""


class ChildRun(Protocol):
    """A process that works on a goal."""

    def stop(self) -> None:
        """Ask it to end; any thread may."""
        ...


class WorkerState:
    """The scheduler's marks. Threads read them and leave their own; nobody waits for anybody here."""

    def __init__(
        self, slots: int, tell: Callable[[News], None], line_of: Callable[[Reason], str] = lambda why: why.said
    ) -> None:
        """`line_of` puts a reason into words, which is no business of the queue's."""
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
        """The running goals, as their children report them."""
        self.heard: dict[int, int] = {}
        """The last comment in the text of each running goal: its session gets later ones."""
        self.accounts: dict[int, str] = {}
        """The agent that each goal was seen to work with."""
        self.parked: set[int] = set()
        """Goals whose threads have stopped where they were: the next start goes on from there."""
        self.cautions: dict[Reason, str] = {}
        """Problems that were reported, each with the repository whose next merge shows that it is solved."""
        self.unseen: set[str] = set()
        """What of the budget ("cost", "tokens") an agent at work does not name: it cannot hold that one."""
        self.fault: RalphError | None = None
        """Why nothing can go on."""
        self.is_settled = False
        """Nothing is left to do by itself, and somebody watches who may retry what is stuck."""
        self.woken = threading.Event()
        self._tell, self._line_of = tell, line_of
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
        for why, where in list(self.cautions.items()):  # other threads may add more
            if where == repo:
                self.cautions.pop(why, None)

    @contextlib.contextmanager
    def at_work(self, goal: BatchGoal, child: ChildRun) -> Generator[None]:
        """Ask a goal's child to end as soon as any thread decides that."""
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
        said: str | Reason,
        goal: BatchGoal | None = None,
        event: Occasion | None = None,
        command: tuple[str, ...] = (),
        *,
        follow: str = "",
    ) -> None:
        """Report what happened; `follow` is what comes of it."""
        with self._telling:
            self._tell(News(time.time(), kind, self.worded(said) + follow, goal, event, command))

    @contextlib.contextmanager
    def task(self, title: str, show: Callable[[str], None], goal: BatchGoal | None = None) -> Generator[Reporter]:
        """Report a task that takes more than a second: while it lasts, and when it is done.

        What it yields passes the progress on to `show` in words, for people who look at the dashboard.
        """
        began, is_told = time.monotonic(), False

        def report(progress: TaskProgress) -> None:
            nonlocal is_told
            show(str(progress))
            if not is_told and time.monotonic() > began + _SOON:
                is_told = True
                self.tell(NewsKind.NOTE, title, goal)

        yield report
        if is_told:
            self.tell(NewsKind.NOTE, f"{title}: done in {format_duration(time.monotonic() - began)}", goal)

    def worded(self, said: str | Reason) -> str:
        return said if isinstance(said, str) else self._line_of(said)

    def wake(self) -> None:
        """Have the scheduler look around now."""
        self.woken.set()


BLOCKING = ("auth", "billing")
"""Ends of a session that the next one would meet as well, until the user has done something about it."""


@dataclass(slots=True)
class AccountGate:
    """The accounts that are held back, each until an instant or until the user has cleared the way."""

    now: Callable[[], float]
    _until: dict[str, float] = field(default_factory=dict[str, float])
    _blocked: dict[str, int] = field(default_factory=dict[str, int])
    _told: set[str] = field(default_factory=set[str])
    """The accounts whose limit the user was notified of, and that have not continued since."""
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
        """Tell whether to notify the user of an account's limit: once, until it `goes_on`."""
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
        """The user has these goals tried again, or gave them up: what blocked them is solved, or will come up again."""
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
class WorkerContext:
    """The parts of a queue worker, built once in `serve`."""

    store: Store
    engine: Engine
    paths: QueuePaths
    repositories: Repositories
    gate: AccountGate
    worker: WorkerState
    rules: WorkerRules
    budget: BatchBudget


_PACE = 1.0
"""Seconds between two that are written: each is a transaction."""
_SIGN_OF_LIFE = 5.0
"""Seconds after which one is written also if nothing is new in it: who watches tells by it that the worker lives."""


class BulletinWriter:
    """One queue worker's state."""

    def __init__(
        self,
        store: Store,
        worker: WorkerState,
        gate: AccountGate,
        slots: int,
        budget: BatchBudget,
        fetching: Callable[[], Mapping[str, str]],
        now: Callable[[], float] = time.time,
    ) -> None:
        """`fetching` names the repositories that are being fetched, each with how far that is."""
        self._store, self._worker, self._gate, self._fetching = store, worker, gate, fetching
        self._slots, self._budget, self._now = slots, budget, now
        self._since = now()
        self._posted: tuple[float, Bulletin | None] = (0.0, None)

    def bulletin(self) -> Bulletin:
        """How things stand; any thread may ask."""
        waits, refused = self._gate.state()
        spent = self._budget.spent
        return Bulletin(
            at=self._now(),
            host=socket.gethostname(),
            pid=os.getpid(),
            since=self._since,
            slots=self._slots,
            budget=self._budget.whole,
            spent_usd=spent.cost_usd,
            spent_tokens=spent.tokens,
            seconds=self._budget.seconds,
            statuses={number: _status(live) for number, live in list(self._worker.live.items())},
            merging=tuple(self._worker.merging.copy()),
            fetching=dict(self._fetching()),
            waits=waits,
            refused=refused,
            cautions=tuple(self._worker.cautions),
            unseen=tuple(sorted(self._worker.unseen)),
            stopping=self._worker.ending,
            is_settled=self._worker.is_settled,
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


def _status(live: Live) -> GoalStatus:
    stands = live.status
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
        max_iterations=live.max_iterations,
        is_green=live.is_green,
    )
