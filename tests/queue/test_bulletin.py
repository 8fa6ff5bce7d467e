"""What a queue worker writes of itself, and how often."""

from __future__ import annotations

import time
from pathlib import Path

from ralph.queue.budget import BatchBudget
from ralph.queue.database import default_url
from ralph.queue.news import Budget
from ralph.queue.store import open_store
from ralph.queue.worker_state import AccountGate, BulletinWriter, WorkerState


def test_a_worker_that_has_nothing_new_to_tell_still_gives_a_sign_of_life(tmp_path: Path) -> None:
    store = open_store(default_url(tmp_path))
    assert store is not None
    state, clock = WorkerState(2, lambda _: None), [1000.0]
    bulletin_writer = BulletinWriter(
        store, state, AccountGate(time.time), 2, BatchBudget(Budget(), []), dict, lambda: clock[0]
    )

    def written(at: float) -> float:
        clock[0] = at
        bulletin_writer.post()
        told = store.bulletin()
        assert told is not None
        return told.at

    assert written(1000.0) == 1000.0
    assert written(1003.0) == 1000.0, "nothing is new"
    assert written(1005.5) == 1005.5
    state.merging[1] = 0.0
    assert written(1006.0) == 1005.5, "so soon nobody looks"
    assert written(1007.0) == 1007.0
    assert written(500.0) == 500.0, "by a clock that was set back"
    store.close()
