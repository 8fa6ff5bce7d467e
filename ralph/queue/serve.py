"""One queue worker, put together and set to work."""

import contextlib
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from ralph.core.errors import QueueError
from ralph.core.reason import Reason
from ralph.queue.admission import Admission
from ralph.queue.budget import BatchBudget
from ralph.queue.engine import DbosEngine
from ralph.queue.goal_task import GoalTask
from ralph.queue.news import Bulletin, News, Worked
from ralph.queue.paths import queue_paths
from ralph.queue.repos.mirror import open_mirror
from ralph.queue.repos.prefetch import Repositories
from ralph.queue.scheduler import QueueWorker, WorkOrder
from ralph.queue.store import Store
from ralph.queue.worker_state import AccountGate, BulletinWriter, WorkerContext, WorkerRules, WorkerState
from ralph.system.signals import Signals

_LOCKED_FOR, _ASKED_TO_END = 600.0, 5.0
"""Seconds for which a lock of another process's on the queue is waited for: nobody may be there; then, somebody is."""


def serve(
    order: WorkOrder,
    rules: WorkerRules,
    store: Store,
    *,
    db: str,
    ralph_dir: Path,
    agent: str,
    still_sole: Callable[[], bool],
    tell: Callable[[News], None],
    line_of: Callable[[Reason], str],
    beside: Callable[[Callable[[], Bulletin], Signals], AbstractContextManager[object]],
) -> Worked:
    """Work on a queue as its sole worker; the caller has seen to that (`sole_worker`).

    `beside` is a context that lasts as long as the work: it may ask how things stand, and leave a mark to end.
    """
    place = queue_paths(ralph_dir, store.queue_id)
    place.clear()

    def publish(news: News) -> None:
        with contextlib.suppress(QueueError):  # what it was about says so itself, if it matters
            store.publish(news)
        tell(news)

    state = WorkerState(order.slots, publish, line_of)
    context = WorkerContext(
        store=store,
        engine=DbosEngine(db),
        paths=place,
        repositories=Repositories(lambda url: open_mirror(ralph_dir, url), state.wake, state.task),
        gate=AccountGate(time.time),
        worker=state,
        rules=rules,
        budget=BatchBudget(order.budget, store.goals()),
    )
    bulletin_writer = BulletinWriter(
        store, state, context.gate, order.slots, context.budget, lambda: context.repositories.fetching
    )

    with Signals().watched() as signals, beside(bulletin_writer.bulletin, signals):
        store.be_patient(lambda: _ASKED_TO_END if signals.count else _patience(context.budget))
        worker = QueueWorker(
            order,
            context,
            GoalTask(context).work_on,
            admission=Admission(context, agent, order.scope),
            bulletin_writer=bulletin_writer,
            signals=signals,
            still_sole=still_sole,
        )
        return worker.work()


def _patience(budget: BatchBudget) -> float:
    """Return how long to wait for another process's lock: during that wait nobody checks the budget's time."""
    left = budget.left.seconds
    return _LOCKED_FOR if left is None else min(_LOCKED_FOR, max(_ASKED_TO_END, left))
