"""`ralph-runs` on a PostgreSQL server: the same queue, the same worker, another URL."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.support.batches import Batch, merged_goals, require_linear, says, shell, write, wrote
from tests.support.ports import free_port
from tests.support.postgres import PASSWORD, Postgres
from tests.support.ralph_process import Finished
from tests.support.waiting import wait_until


@pytest.fixture
def db(postgres: Postgres) -> str:
    return postgres.database()


def test_a_batch_is_worked_on_cut_off_and_continued_and_its_agents_are_not_told_of_the_queue(
    batch: Batch, db: str
) -> None:
    def runs(*args: str | Path) -> Finished:
        finished = batch.runs(*args, "--db", db, cwd=batch.root)
        said.append(finished.stdout + finished.stderr)
        return finished

    def goals() -> dict[str, Any]:
        return {goal["title"]: goal for goal in json.loads(runs("list", "--json").stdout)}

    said: list[str] = []
    upstream = batch.upstream()
    seen, go_on, agents_env = batch.root / "seen", batch.root / "go-on", batch.root / "env"
    batch.goal("plain", wrote("plain"))
    slow = f"env > {agents_env}; echo $PPID >> {seen}; until [ -e {go_on} ]; do sleep 0.05; done"
    sessions = [[write("texts/slow.txt", "Fine.\n"), says("wrote it")], [shell(slow), says("DONE")]]
    batch.goal("slow", sessions, after=["plain"])
    batch.goal("unwanted", wrote("unwanted"), after=["slow"])
    added = runs("add", batch.root / "goals", "--repo", upstream)
    assert added.exit_code == 0, added.stderr
    assert {goal["state"] for goal in goals().values()} == {"draft"}
    assert runs("queue", "plain", "slow").exit_code == 0
    assert runs("cancel", "unwanted").stdout == "g3 unwanted: cancelled\n"

    with batch.runs.start("run", "--all", "--db", db, cwd=batch.root) as first:
        wait_until(seen.exists, "the second iteration")
        second = runs("run", "--all")
        assert (second.exit_code, second.stdout) == (2, "")
        assert f"this queue already has a worker: process {first.pid} on " in second.stderr
        first.send(signal.SIGKILL)
        first.wait()
        said.append(first.stdout + first.stderr)
    go_on.touch()
    agents_env.unlink()
    last = batch.run(env={"RALPH_DB": db})
    said.append(last.stdout + last.stderr)

    assert last.exit_code == 0, last.stdout + last.stderr
    assert "continues: its last worker was interrupted" in last.stdout
    assert merged_goals(upstream) == ["plain", "slow"]
    require_linear(upstream)
    assert {name: goal["state"] for name, goal in goals().items()} == {
        "plain": "done",
        "slow": "done",
        "unwanted": "cancelled",
    }
    assert goals()["slow"]["attempts"] == 1
    assert "wrote it" in runs("logs", "slow").stdout
    assert json.loads(runs("show", "slow", "--json").stdout)["reason"] == "merged to main"
    assert not [text for text in said if PASSWORD in text]
    assert "RALPH_GOAL=slow" in agents_env.read_text()
    assert PASSWORD not in agents_env.read_text()


def test_a_server_that_is_away_is_said_at_once_and_without_the_password(batch: Batch, ralph_db: str) -> None:
    batch.upstream()
    goal = batch.goal("plain", wrote("plain"), repo="upstream")
    for args in (["list"], ["add", goal], ["run", goal], ["work"], ["show", "g1"]):
        done = batch.runs(*args, cwd=batch.root, env={"RALPH_DB": ralph_db})
        assert (done.exit_code, done.stdout) == (2, ""), done.stdout + done.stderr
        assert done.stderr.startswith(f"error: cannot open the queue {ralph_db.replace(PASSWORD, '***')}: ")
        assert "check that it can be reached" in done.stderr
        assert PASSWORD not in done.stderr


@pytest.fixture
def ralph_db() -> str:
    """The URL of a server that is not there."""
    return f"postgresql://me:{PASSWORD}@127.0.0.1:{free_port()}/queue"
