"""Which goals may start, while fetches and merges of their repository begin and end in other threads."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ralph.queue.admission import Admission
from ralph.queue.budget import BatchBudget
from ralph.queue.engine import DbosEngine
from ralph.queue.goals import State, Submission
from ralph.queue.news import Budget
from ralph.queue.paths import queue_paths
from ralph.queue.repos.mirror import open_mirror
from ralph.queue.repos.prefetch import Repositories
from ralph.queue.store import open_store
from ralph.queue.worker_state import AccountGate, WorkerContext, WorkerRules, WorkerState

TEXT = "## Objective\nx\n"


@pytest.fixture
def context(tmp_path: Path) -> Iterator[WorkerContext]:
    """A queue with three goals of one repository."""
    url = f"sqlite:///{tmp_path / 'runs.sqlite'}"
    store = open_store(url)
    assert store is not None
    names = ("one", "two", "three")
    store.submit([Submission(name, name, TEXT, f"/goals/{name}.md", "/repo") for name in names], State.QUEUED)
    state = WorkerState(1, lambda _: None)
    yield WorkerContext(
        store=store,
        engine=DbosEngine(url),
        paths=queue_paths(tmp_path, store.queue_id),
        repositories=Repositories(lambda url: open_mirror(tmp_path, url), state.wake, state.task),
        gate=AccountGate(time.time),
        worker=state,
        rules=WorkerRules({}),
        budget=BatchBudget(Budget(), store.goals()),
    )
    store.close()


def test_no_goal_overtakes_another_while_their_repository_becomes_ready(context: WorkerContext) -> None:
    one, two, _ = context.store.goals()
    admission, repository = Admission(context, "claude"), context.repositories.known("/repo")
    holds_back = admission.holding_back()
    assert holds_back(one)
    repository.ready = True  # its fetch ends here, in a thread of its own
    assert holds_back(two), "it would start before the first one"
    assert not admission.holding_back()(one)


def test_no_goal_overtakes_another_while_their_account_is_woken(context: WorkerContext) -> None:
    one, two, _ = context.store.goals()
    admission = Admission(context, "claude")
    context.repositories.known("/repo").ready = True
    context.gate.wait_for("claude", time.time() + 3600)
    holds_back = admission.holding_back()
    assert holds_back(one)
    context.gate.lift("claude")
    assert holds_back(two)
    assert not admission.holding_back()(one)


def test_no_goal_overtakes_another_while_a_merge_loses_its_remote(context: WorkerContext) -> None:
    one, two, three = context.store.goals()
    admission, repository = Admission(context, "claude"), context.repositories.known("/repo")
    is_behind = admission.behind_with_merges([two, three])
    assert is_behind(one)
    repository.remote_away = True
    assert is_behind(two)
    assert not admission.behind_with_merges([two, three])(one)
