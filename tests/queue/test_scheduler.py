"""A queue worker beside its engine: what it makes of what happens before its first turn."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from ralph.dashboard.reasons import reason_line
from ralph.queue.admission import Admission
from ralph.queue.budget import BatchBudget
from ralph.queue.engine import Record, WorkOnGoal
from ralph.queue.goals import BatchGoal, State, Submission
from ralph.queue.news import Budget, News
from ralph.queue.paths import queue_paths
from ralph.queue.repos.mirror import open_mirror
from ralph.queue.repos.prefetch import Repositories
from ralph.queue.scheduler import QueueWorker, WorkOrder
from ralph.queue.store import Store, open_store
from ralph.queue.worker_state import AccountGate, BulletinWriter, WorkerContext, WorkerRules, WorkerState
from ralph.system.signals import Signals


@dataclass
class EndsAtOnce:
    """An engine that takes up what the last worker left, which has ended before anybody looks."""

    store: Store
    started: list[BatchGoal] = field(default_factory=list)

    def launch(self, work_on: WorkOnGoal) -> set[str]:
        for goal in self.store.goals():
            self.store.move(goal, State.DONE, cost_usd=5.0, tokens=500)
        return set()

    def start(self, goal: BatchGoal, *, merge_only: bool) -> None:
        self.started.append(goal)

    def step(self, name: str, work: Callable[[], Record]) -> Record:
        return work()


def test_what_a_goal_uses_that_ends_before_the_first_turn_counts(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'runs.sqlite'}")
    assert store is not None
    store.submit([Submission("cut-off", "Cut off", "text", "/goals/cut-off.md", str(tmp_path))], State.QUEUED)
    store.move(store.goal(1), State.RUNNING, starts=1, attempts=1)
    told: list[News] = []
    state = WorkerState(1, told.append, reason_line)
    order = WorkOrder(slots=1, until_drained=True, budget=Budget(cost_usd=1.0))
    context = WorkerContext(
        store=store,
        engine=EndsAtOnce(store),
        paths=queue_paths(tmp_path, store.queue_id),
        repositories=Repositories(lambda url: open_mirror(tmp_path, url), state.wake, state.task),
        gate=AccountGate(time.time),
        worker=state,
        rules=WorkerRules({}),
        budget=BatchBudget(order.budget, store.goals()),
    )
    worker = QueueWorker(
        order,
        context,
        lambda *_: None,
        admission=Admission(context, "claude"),
        bulletin_writer=BulletinWriter(store, state, context.gate, 1, context.budget, dict),
        signals=Signals(),
        still_sole=lambda: True,
    )

    worked = worker.work()

    assert reason_line(worked.over) == "--max-cost: $5.00 of $1.00 spent"
    assert [news.text for news in told] == ["--max-cost: $5.00 of $1.00 spent: stopping; nothing more to do"]
    store.close()
