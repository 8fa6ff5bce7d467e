"""One queue worker to a queue, on PostgreSQL; on a SQLite file the commands show it."""

import contextlib
import os
from pathlib import Path

import pytest
import sqlalchemy as sa

from ralph.core.errors import UsageError
from ralph.queue.database import advisory_lock, default_url
from ralph.queue.open import serving, sole_worker, unless_served
from tests.support.postgres import Postgres


def test_the_lock_is_the_queues_and_names_who_holds_it(postgres: Postgres) -> None:
    one, two = postgres.database(), postgres.database()
    with advisory_lock(one, "first") as before_one, advisory_lock(two, "second") as before_two:
        assert (before_one.holder, before_two.holder) == ("", "")
        assert before_one.is_ours()
        for url, holder in ((one, "first"), (two, "second")):
            with advisory_lock(url, "third") as found:
                assert found.holder == holder
    with advisory_lock(one, "third") as found:
        assert found.holder == ""


def test_a_lock_whose_connection_was_dropped_is_no_longer_ours(postgres: Postgres) -> None:
    url = postgres.database()
    with advisory_lock(url, "first") as lock:
        with advisory_lock(url, "second") as other:
            drop = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'first'"
            other.connection.execute(sa.text(drop))
        assert [lock.is_ours(), lock.is_ours()] == [False, False]


def test_who_serves_a_queue_is_told_and_not_disturbed(postgres: Postgres, tmp_path: Path) -> None:
    for url in (postgres.database(), default_url(tmp_path)):
        assert serving(url) == ""
        with sole_worker(url) as still_sole:
            assert f"process {os.getpid()} on " in serving(url)
            with unless_served(url) if url.startswith("postgres") else contextlib.nullcontext(False) as ours:
                assert not ours
            assert still_sole()
        with unless_served(url) as ours:
            assert (ours, bool(serving(url))) == (True, True)
        assert serving(url) == ""


def test_a_lock_is_the_files_whatever_it_is_called(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "also").symlink_to(tmp_path / "real")
    with (
        sole_worker(default_url(tmp_path / "real")),
        pytest.raises(UsageError, match="this queue already has a worker"),
        sole_worker(default_url(tmp_path / "also")),
    ):
        pass
