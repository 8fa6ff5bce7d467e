"""Where a board comes from: a real queue, with a worker, with another one's last words, or with none."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ralph.dashboard.source import BoardSource
from ralph.queue.database import default_url
from ralph.queue.goals import State, Submission
from ralph.queue.news import GoalStatus, News, NewsKind
from ralph.queue.open import QueueAddress, sole_worker
from ralph.queue.store import Store, open_store
from tests.dashboard import boards


@pytest.fixture
def place(tmp_path: Path) -> QueueAddress:
    return QueueAddress(default_url(tmp_path), tmp_path, {}, 2, "claude")


@pytest.fixture
def store(place: QueueAddress) -> Iterator[Store]:
    opened = open_store(place.url)
    assert opened is not None
    opened.submit([Submission("alpha", "Alpha", "x", "/alpha.md", "/repo")], State.QUEUED)
    yield opened
    opened.close()


def test_a_queue_is_read_whole(place: QueueAddress, store: Store) -> None:
    store.publish(News(5.0, NewsKind.NOTE, "hello", store.goal(1)))
    store.pause(paused=True)
    source = BoardSource(place, store)
    source.read()
    board = source.board(boards.NOW)
    assert [goal.name for goal in board.lineup.goals] == ["alpha"]
    assert [(news.goal, news.text) for news in board.news] == [(1, "hello")]
    assert (board.paused, board.served, board.bulletin, board.ours) == (True, "", None, False)
    assert board.queue.endswith("runs.sqlite")
    assert board.agents == {1: ""}, "its text is no goal's"
    text = "---\nagent: codex\n---\n# Beta\n\n## Objective\n\nx\n"
    store.submit([Submission("beta", "Beta", text, "/beta.md", "/repo")], State.QUEUED)
    source.read()
    assert source.board(boards.NOW).agents == {1: "", 2: "codex"}


def test_only_the_bulletin_of_whoever_serves_the_queue_now_counts(place: QueueAddress, store: Store) -> None:
    mine = boards.bulletin(pid=os.getpid(), host=socket.gethostname(), statuses={})
    store.post(mine)
    nobody = BoardSource(place, store)
    nobody.read()
    assert nobody.board(0.0).bulletin is None
    with sole_worker(place.url):
        somebody = BoardSource(place, store)
        somebody.read()
        assert somebody.board(0.0).bulletin == mine
        store.post(boards.bulletin(pid=1, statuses={}))
        somebody.read()
        assert (somebody.board(0.0).bulletin, somebody.board(0.0).served != "") == (None, True)


def test_how_long_a_worker_has_said_nothing_goes_by_its_clock_only_where_that_is_ours(
    place: QueueAddress, store: Store
) -> None:
    now = time.time()
    with sole_worker(place.url):
        store.post(boards.bulletin(pid=os.getpid(), host=socket.gethostname(), statuses={}, at=now - 100))
        source = BoardSource(place, store)
        source.read()
        assert source.board(now).silence == 100
        assert source.board(now + 5).silence == 105, "between two reads, too"
        store.post(boards.bulletin(pid=os.getpid(), host=socket.gethostname(), statuses={}, at=now))
        source.read()
        assert source.board(now + 5).silence == 5
        lock = place.ralph_dir / "runs.sqlite.lock"
        lock.write_text('{"pid": 4321, "host": "mill", "repo": ""}\n')
        store.post(boards.bulletin(statuses={}, at=now - 9000))
        elsewhere = BoardSource(place, store)
        elsewhere.read()
        board = elsewhere.board(now)
        assert (board.bulletin is not None and board.bulletin.host, board.silence < 60) == ("mill", True)
        assert elsewhere.board(now + 3600).silence > 3500
    own = BoardSource(place, store, lambda: boards.bulletin(at=now - 100))
    own.read()
    assert own.board(now).silence == 0.0


def test_the_worker_of_this_process_is_asked_for_each_frame(place: QueueAddress, store: Store) -> None:
    source = BoardSource(place, store, lambda: boards.bulletin(slots=7))
    source.read()
    board = source.board(boards.NOW)
    assert (board.ours, board.bulletin is not None and board.bulletin.slots) == (True, 7)
    assert board.served


def test_the_rows_are_behind_when_the_worker_of_this_process_has_begun_or_ended_something(
    place: QueueAddress, store: Store
) -> None:
    told = [boards.bulletin(statuses={}, merging=())]
    source = BoardSource(place, store, lambda: told[-1])
    source.read()
    seen = GoalStatus("Bash", boards.NOW, iteration=2, cost_usd=0.5)
    for statuses, merging in [({1: seen}, ()), ({}, ()), ({}, (1,)), ({}, ())]:
        told.append(boards.bulletin(statuses=statuses, merging=merging))
        assert source.is_behind
        source.read()
        told.append(
            boards.bulletin(statuses={each: GoalStatus("Edit") for each in statuses}, merging=merging, spent_usd=9.0)
        )
        assert not source.is_behind, "figures are asked for in each frame anyway"
    assert not BoardSource(place, store).is_behind, "another one's worker writes with its rows"


def test_a_queue_that_cannot_be_read_keeps_what_was_known_and_says_why(place: QueueAddress, store: Store) -> None:
    source = BoardSource(place, store)
    source.read()
    store.close()
    (place.ralph_dir / "runs.sqlite").write_bytes(b"this, or no longer one" * 100)
    source.read()
    board = source.board(boards.NOW)
    assert [goal.name for goal in board.lineup.goals] == ["alpha"]
    assert "cannot open the queue" in board.fault
