"""What holds a batch back: a quota that is used up, a login that is refused, a budget that is spent."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.batches import Batch, merged_goals, says, shell, wrote
from tests.support.batches import write as writes
from tests.support.notifier import listening
from tests.support.scripted_agent import ClaudeScript, Session, api_error, bill, rate_limit, run, summary, write
from tests.support.waiting import wait_until

LIMIT = "You've hit your session limit · resets 12:48am (UTC)"
NO_LOGIN: Session = [api_error(401, "Not logged in · Please run /login", "authentication_failed")]
NO_CREDIT: Session = [api_error(400, "Credit balance is too low", "billing_error")]
WORKS: Session = [run('mkdir -p texts; echo Fine. > "texts/$RALPH_GOAL.txt"'), summary("DONE")]


def for_claude(batch: Batch, name: str, **keys: Any) -> Path:
    return batch.goal(name, [], agent="claude", model="sonnet", **keys)


def test_a_quota_that_one_goal_meets_holds_back_its_account_alone(
    batch: Batch, claude_script: ClaudeScript, tmp_path: Path
) -> None:
    upstream = batch.upstream()
    ears = listening(tmp_path / "ears")
    met, held = for_claude(batch, "met"), for_claude(batch, "held")
    other = batch.goal("other", wrote("other"))
    claude_script([rate_limit("rejected", int(time.time()) + 3600), api_error(429, LIMIT, "rate_limit")], WORKS)
    with batch.runs.start("work", "--max", "3", "--json", cwd=batch.root, env=ears.env) as worker:
        assert batch.runs("add", met, "--repo", upstream, "--queue", cwd=batch.root).exit_code == 0
        said = worker.wait_for("waiting")["text"]
        assert said.startswith("usage-limit")
        assert "no goal on claude starts before" in said
        assert batch.runs("add", held, other, "--repo", upstream, "--queue", cwd=batch.root).exit_code == 0
        assert worker.wait_for("done")["name"] == "other"
        assert [event["name"] for event in worker.events if event["type"] == "started"] == ["met", "other"]
        wait_until(lambda: batch.runs("wake", "met", cwd=batch.root).exit_code == 0, "the bulletin")
        worker.wait_for("done", count=3)
        worker.send(signal.SIGTERM)
        ended = worker.wait()
    assert sorted(merged_goals(upstream)) == ["held", "met", "other"]
    assert {goal["attempts"] for goal in batch.goals().values()} == {1}
    assert len(ended.events_of("started")) == 3
    assert sorted(ears.events) == ["done", "done", "done", "quota"]


@pytest.mark.long
def test_a_quota_is_told_once_until_an_iteration_has_ended_with_the_command_that_wakes(
    batch: Batch, claude_script: ClaudeScript, tmp_path: Path
) -> None:
    upstream = batch.upstream()
    ears = listening(tmp_path / "ears")
    used_up: Session = [rate_limit("rejected", int(time.time()) + 3600), api_error(429, LIMIT, "rate_limit")]
    works: Session = [write("a.txt", "a"), summary("more to do")]
    claude_script(used_up, used_up, works, used_up, WORKS)
    db = f"sqlite:///{batch.root}/queue.sqlite"
    with batch.start(for_claude(batch, "met"), "--repo", upstream, "--json", "--db", db, env=ears.env) as worker:
        for count in (1, 2, 3):
            worker.wait_for("waiting", count=count)
            wait_until(lambda: bool(ears.heard), "the notice")
            assert ears.heard[-1]["next"] == f"try again now: ralph-runs wake g1 --db {db}"
            wait_until(lambda: batch.runs("wake", "g1", "--db", db, cwd=batch.root).exit_code == 0, "the bulletin")
        ended = worker.wait()
    assert ended.exit_code == 0, ended.stdout + ended.stderr
    assert all("; no goal on claude starts before " in event["text"] for event in ended.events_of("waiting"))
    assert ears.events == ["quota", "quota", "done"], "the second of them after an iteration"


@pytest.mark.parametrize("reset", [3600, pytest.param(None, marks=pytest.mark.long)], ids=["known", "not-told"])
def test_a_quota_that_resets_after_max_time_ends_the_batch_at_once_and_nobody_pays(
    batch: Batch, claude_script: ClaudeScript, tmp_path: Path, reset: int | None
) -> None:
    upstream = batch.upstream()
    ears = listening(tmp_path / "ears")
    for name in ("one", "two", "three"):
        for_claude(batch, name)
    told = [] if reset is None else [rate_limit("rejected", int(time.time()) + reset)]
    agent = claude_script([*told, api_error(429, LIMIT, "rate_limit")])

    limit = "25s" if reset is None else "10m"  # of a reset that is not told half a minute is waited for, or more
    done = batch.run(batch.root / "goals", "--repo", upstream, "--max-time", limit, "--max", "2", env=ears.env)

    assert done.exit_code == 4, done.stdout + done.stderr
    assert len(agent.starts) <= 2, "one for each slot; the limit that one met is everybody's"
    goals = batch.goals()
    assert {(goal["state"], goal["attempts"]) for goal in goals.values()} == {("queued", 0)}
    assert "no goal can continue within --max-time" in done.stdout
    assert "no goal on claude starts before" in done.stdout
    assert sorted(ears.events) == ["budget", "quota"]
    (budget,) = [notice for notice in ears.heard if notice["event"] == "budget"]
    assert "no goal on claude starts before" in budget["text"]


@pytest.mark.parametrize(
    ("obstacle", "words"),
    [(NO_LOGIN, "log in"), pytest.param(NO_CREDIT, "add credit", marks=pytest.mark.long)],
    ids=["login", "credit"],
)
def test_an_account_that_is_refused_is_said_with_what_to_do_and_who_waits(
    batch: Batch, claude_script: ClaudeScript, tmp_path: Path, obstacle: Session, words: str
) -> None:
    upstream = batch.upstream()
    ears = listening(tmp_path / "ears")
    for_claude(batch, "first", priority=1)
    for_claude(batch, "second")
    batch.goal("other", wrote("other"))
    batch.goal("third", wrote("third"), after=["second"])
    agent = claude_script(obstacle)

    done = batch.run(batch.root / "goals", "--repo", upstream, "--max", "1", env=ears.env)

    assert done.exit_code == 1, done.stdout + done.stderr
    assert {notice["goal"]: notice["event"] for notice in ears.heard} == {"first": "blocked", "other": "done"}
    assert batch.states() == {"first": "stuck", "second": "queued", "other": "done", "third": "queued"}
    assert len(agent.starts) == 1
    assert words in done.stdout
    assert "ralph-runs retry g1" in done.stdout
    assert "g3 second             not started: claude rejects our requests, see g1" in done.stdout
    assert "g4 third              waits for g3 (second), which is queued" in done.stdout
    assert batch.goals()["second"]["attempts"] == 0
    assert "see g1" in batch.show("second")["reason"]


@pytest.mark.long
def test_a_retry_of_the_goal_that_was_refused_clears_its_account(batch: Batch, claude_script: ClaudeScript) -> None:
    upstream = batch.upstream()
    goals = [for_claude(batch, "first", priority=1), for_claude(batch, "second")]
    claude_script(NO_LOGIN, WORKS)
    with batch.runs.start("work", "--max", "1", "--json", cwd=batch.root) as worker:
        assert batch.runs("add", *goals, "--repo", upstream, "--queue", cwd=batch.root).exit_code == 0
        worker.wait_for("stuck")
        assert batch.runs("retry", "first", cwd=batch.root).exit_code == 0
        worker.wait_for("done", count=2)
        worker.send(signal.SIGTERM)
        worker.wait()
    assert merged_goals(upstream) == ["first", "second"]


def test_a_batch_that_has_spent_its_budget_stops_and_goes_on_with_a_higher_one(
    batch: Batch, claude_script: ClaudeScript, tmp_path: Path
) -> None:
    upstream = batch.upstream()
    ears = listening(tmp_path / "ears")
    for_claude(batch, "dear", priority=1)
    for_claude(batch, "late")
    claude_script([bill(0.6), write("a.txt", "a"), summary("more to do")], WORKS)

    first = batch.run(batch.root / "goals", "--repo", upstream, "--max", "1", "--max-cost", "1", env=ears.env)

    assert first.exit_code == 4, first.stdout + first.stderr
    assert [(notice["event"], notice["goal"], notice["exit_code"]) for notice in ears.heard] == [("budget", "", 4)]
    assert ears.heard[0]["text"].startswith("--max-cost: $1.")
    assert ears.heard[0]["next"] == "continue with a new budget: ralph-runs run --all --max 1 --max-cost 1"
    assert "of $1.00 spent: stopping" in first.stdout
    assert batch.states() == {"dear": "queued", "late": "queued"}
    assert batch.goals()["dear"]["attempts"] == 0
    assert batch.goals()["dear"]["cost_usd"] >= 1
    second = batch.run(batch.root / "goals", "--repo", upstream, "--max-cost", "5")
    assert second.exit_code == 0, second.stdout + second.stderr
    assert sorted(merged_goals(upstream)) == ["dear", "late"]
    assert batch.goals()["dear"]["attempts"] == 1


def test_a_goals_own_budget_holds_for_all_its_runs(batch: Batch, claude_script: ClaudeScript) -> None:
    """Each of its runs is green only where it stands, and so refused on its way to main."""
    upstream = batch.upstream(check="#!/bin/sh\ncase $PWD in */checkouts/*) exit 1;; esac\n")
    for_claude(batch, "dear", max_cost=0.5)
    session: Session = [bill(0.25), run("mkdir -p texts; echo no > texts/dear.txt"), summary("DONE")]
    agent = claude_script(session)

    done = batch.run(batch.root / "goals", "--repo", upstream)

    assert done.exit_code == 1, done.stdout + done.stderr
    shown = batch.show("dear")
    assert shown["state"] == "stuck"
    assert shown["reason"] == "limit reached: its runs have cost $0.50"
    assert shown["cost_usd"] == pytest.approx(agent.total_cost) == pytest.approx(0.5)
    assert merged_goals(upstream) == []


def test_what_ended_by_a_limit_is_stuck_and_not_merged_until_it_may_go_on(batch: Batch) -> None:
    upstream = batch.upstream()
    counts = f"echo >> {batch.root}/sessions"
    batch.goal("long", [[shell(counts), writes("texts/long.txt", "Fine.\n"), says("more")], [says("DONE")]])
    goal = batch.root / "goals"
    first = batch.run(goal, "--repo", upstream, "--max-iterations", "1")
    assert (first.exit_code, batch.states()) == (1, {"long": "stuck"})
    assert merged_goals(upstream) == []
    assert "ralph-runs show g1" in first.stdout

    second = batch.run(goal, "--repo", upstream)

    assert second.exit_code == 0, second.stdout + second.stderr
    assert merged_goals(upstream) == ["long"]
    assert (batch.root / "sessions").read_text() == "\n"
