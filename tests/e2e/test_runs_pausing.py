"""A queue that is paused starts nothing; what a goal is told, and when it hears it; the queue in figures."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.support.batches import Batch, merged_goals, says, shell, write, wrote
from tests.support.ralph_process import Finished
from tests.support.waiting import wait_until


def runs(batch: Batch, *args: str | Path) -> Finished:
    return batch.runs(*args, cwd=batch.root)


def document(batch: Batch, *args: str) -> Any:
    done = runs(batch, *args, "--json")
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)


def test_what_runs_goes_on_in_a_paused_queue_and_nothing_else_starts(batch: Batch) -> None:
    upstream = batch.upstream()
    waits = shell(f"touch {batch.root}/at-work; until [ -e {batch.root}/on ]; do sleep 0.1; done")
    batch.goal("first", [[waits, write("texts/first.txt", "Fine.\n"), says("DONE")]], priority=1)
    batch.goal("second", wrote("second"))
    with batch.start(batch.root / "goals", "--repo", upstream, "--max", "1", "--json") as running:
        wait_until((batch.root / "at-work").exists, "the first session")
        assert document(batch, "pause") == {
            "paused": True, "changed": True, "served": True, "running": 1, "cut_off": 0, "queued": 1
        }  # fmt: skip
        assert runs(batch, "pause").stdout.startswith("already paused: ")
        assert running.wait_for("note")["text"].startswith("paused: running goals continue")
        told = runs(batch, "tell", "first", "in blue, please")
        assert told.stdout == (
            "g1 first: the next session gets this and is asked to acknowledge it; the current one is not interrupted\n"
        )
        assert runs(batch, "list").stdout.endswith("resume with: ralph-runs resume\n")
        assert "the queue is paused; resume it: ralph-runs resume" in runs(batch, "show", "second").stdout
        (batch.root / "on").touch()
        running.wait_for("done")
        wait_until(lambda: batch.states()["first"] == "done", "the first goal")
        assert batch.states() == {"first": "done", "second": "queued"}
        assert not [event for event in running.events if event.get("name") == "second"]
        assert runs(batch, "resume").stdout == "resumed (1 queued)\n"
        ended = running.wait()
    assert ended.exit_code == 0, ended.stdout + ended.stderr
    assert merged_goals(upstream) == ["first", "second"]
    assert [event["text"] for event in ended.events_of("note")][-1] == "resumed"

    refused = runs(batch, "tell", "first", "and in red")
    assert refused.exit_code == 2
    assert "cannot tell g1 anything: the goal is done" in refused.stderr
    figures = document(batch, "stats")
    assert figures["states"] == {"done": 2}
    assert figures["attempts_of_done"] == {"1": 2}
    assert figures["agents"]["ralph-claude"]["done"] == 2
    assert figures["total"]["seconds"] > 0
    assert (figures["forecast"], figures["paused"], figures["failures"]) == (None, False, [])


@pytest.mark.long
def test_a_worker_that_comes_to_a_paused_queue_says_so_and_waits(batch: Batch) -> None:
    upstream = batch.upstream()
    goal = batch.goal("only", wrote("only"))
    assert runs(batch, "pause").exit_code == 2, "there is no queue yet"
    assert runs(batch, "add", goal, "--repo", upstream, "--queue").exit_code == 0
    assert runs(batch, "pause").stdout.startswith("paused: ")
    assert "paused: running goals continue" in runs(batch, "add", goal, "--repo", upstream).stdout
    with batch.start("--json") as running:
        assert running.wait_for("note")["text"].startswith("paused: ")
        assert document(batch, "resume") == {
            "paused": False, "changed": True, "served": True, "running": 0, "cut_off": 0, "queued": 1
        }  # fmt: skip
        assert running.wait().exit_code == 0
    assert merged_goals(upstream) == ["only"]
    assert runs(batch, "resume").stdout.startswith("not paused (0 queued); the queue has no worker")


def test_who_wants_only_the_table_is_told_why_there_is_none(batch: Batch) -> None:
    upstream = batch.upstream()
    batch.runs("add", batch.goal("alpha", wrote("alpha")), "--repo", upstream, "--queue", cwd=batch.root)
    batch.runs("pause")
    ended = batch.runs("run", "--all", "--quiet", "--max-time", "2s", cwd=batch.root, timeout=60)
    assert (ended.exit_code, ended.stderr.startswith("note: paused")) == (4, True), ended.stderr
    assert "no goal was worked on: 1 goal: 1 queued" in ended.stdout
    assert "--max-time: 2s used" in ended.stdout or "--max-time: 2.0s used" in ended.stdout


@pytest.mark.long
def test_what_was_cut_off_does_not_go_on_in_a_paused_queue(batch: Batch) -> None:
    upstream = batch.upstream()
    sessions = batch.root / "sessions"
    slow = shell(f"echo >> {sessions}; [ $(wc -l < {sessions}) -gt 1 ] || sleep 600")
    goal = batch.goal("slow", [[slow, write("texts/slow.txt", "Fine.\n"), says("DONE")]])
    with batch.start(goal, "--repo", upstream, "--json") as killed:
        wait_until(sessions.exists, "the first session")
        killed.send(signal.SIGKILL)
        killed.wait()
    assert runs(batch, "pause").stdout.endswith("(0 running, 1 interrupted, 0 queued)\n")
    assert document(batch, "pause")["cut_off"] == 1
    with batch.start("--json") as running:
        assert running.wait_for("requeued")["name"] == "slow"
        assert running.wait_for("note")["text"].startswith("paused: ")
        assert (batch.states(), batch.goals()["slow"]["attempts"]) == ({"slow": "queued"}, 0)
        assert sessions.read_text() == "\n"
        assert runs(batch, "resume").exit_code == 0
        assert running.wait().exit_code == 0
    assert merged_goals(upstream) == ["slow"]
    assert batch.goals()["slow"]["attempts"] == 1


def test_when_a_goal_that_does_not_run_hears_what_it_is_told(batch: Batch) -> None:
    upstream = batch.upstream()
    for name in ("draft", "queued", "given-up"):
        kept = ["--queue"] if name != "draft" else []
        assert runs(batch, "add", batch.goal(name, wrote(name)), "--repo", upstream, *kept).exit_code == 0
    runs(batch, "cancel", "given-up")
    assert runs(batch, "tell", "draft", "x").stdout.endswith(
        "the agent gets this when the goal starts; queue it with: ralph-runs queue g1\n"
    )
    assert document(batch, "tell", "queued", "-- x")["heard"] == "the agent gets this when the goal starts"
    assert runs(batch, "tell", "g3", "x").stdout.endswith(
        "the agent gets this when you retry it: ralph-runs retry g3\n"
    )
    assert runs(batch, "tell", "g3", " ").exit_code == 2
    assert [remark["text"] for remark in batch.show("queued")["comments"]] == ["-- x"]


@pytest.mark.long
def test_figures_of_a_queue_with_a_failure_and_a_forecast(batch: Batch) -> None:
    upstream = batch.upstream()
    for name in ("one", "two", "three"):
        batch.goal(name, [[write(f"texts/{name}.txt", "Fine.\n"), says("DONE")]])
    batch.goal("bad", [[says("more")]], max_iterations=1)
    batch.goal("last", wrote("last"), after=["bad"])

    done = batch.run(batch.root / "goals", "--repo", upstream, "--max", "3", "--json")
    assert done.exit_code == 1, done.stdout + done.stderr
    assert runs(batch, "retry", "bad").exit_code == 0

    said = runs(batch, "stats").stdout
    assert "goals      5 goals: 2 queued, 3 done" in said
    assert "done       3 took 1 attempt\n" in said
    assert "left       2 goals left: about " in said
    assert "estimated from 3 done" in said
    assert said.endswith("failures\n  1  limit reached: --max-iterations\n")
    assert document(batch, "stats")["forecast"]["goals"] == 2
