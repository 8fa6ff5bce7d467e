"""`notify` as its user sees it: what is told of a run, once; and that a notifier which fails changes nothing."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from pathlib import Path

import pytest

from tests.support.batches import Batch, shell, wrote
from tests.support.goals import write_check, write_goal
from tests.support.notifier import HeardNotices, listening
from tests.support.ralph_process import Ralph
from tests.support.scripted_agent import ClaudeScript, Session, api_error, rate_limit, summary
from tests.support.waiting import wait_until

LIMIT = "You've hit your session limit · resets 12:48am (UTC)"


@pytest.fixture
def goal(repo: Path) -> Path:
    return write_goal(repo)


@pytest.fixture
def ears(tmp_path: Path) -> HeardNotices:
    return listening(tmp_path / "ears")


def test_a_run_that_waits_and_ends_is_told_of(
    goal: Path, repo: Path, ralph: Ralph, claude_script: ClaudeScript, ears: HeardNotices
) -> None:
    """Two sessions in a row meet the quota: that is one piece of news."""
    write_check(repo, "#!/bin/sh\nexit 0\n")
    used_up: Session = [rate_limit("rejected", int(time.time()) + 3600), api_error(429, LIMIT, "rate_limit")]
    claude_script(used_up, used_up, [summary("DONE")])
    with ralph.start("run", "goal.md", "--json", env=ears.env) as running:
        for count in (1, 2):
            running.wait_for("waiting", count=count)
            assert ralph("wake", "goal").exit_code == 0
        done = running.wait()
    assert done.exit_code == 0, done.stderr
    assert len(done.events_of("waiting")) == 2
    assert ears.events == ["quota", "done"]
    quota, end = ears.heard
    assert quota["text"].startswith("waiting: usage-limit")
    assert quota["next"] == "continue now: ralph wake goal"
    assert (end["goal"], end["repo"], end["exit_code"], end["next"]) == ("goal", str(repo), 0, "")
    assert end["run"] == done.events_of("run_started")[0]["run"]
    assert end["text"] == done.events_of("run_ended")[0]["reason"]


@pytest.mark.parametrize(
    ("session", "flags", "exit_code", "event", "next_step"),
    [
        ([api_error(401, "Not logged in", "authentication_failed")], [], 6, "blocked", "log in"),
        ([summary("more to do")], ["--max-iterations", "1"], 4, "budget", "--max-iterations 2"),
    ],
)
def test_a_run_that_needs_somebody_says_what_to_do(
    goal: Path, ralph: Ralph, claude_script: ClaudeScript, ears: HeardNotices, session: Session, flags: list[str],
    exit_code: int, event: str, next_step: str,
) -> None:  # fmt: skip
    claude_script(session)
    assert ralph("run", "goal.md", *flags, env=ears.env).exit_code == exit_code
    (told,) = ears.heard
    assert (told["event"], told["exit_code"]) == (event, exit_code)
    assert next_step in told["next"]


@pytest.mark.parametrize("command", ["sh -c 'exit 7'", "sleep 600"])
def test_a_notifier_that_fails_is_a_note_and_no_more(
    goal: Path, repo: Path, ralph: Ralph, claude_script: ClaudeScript, command: str
) -> None:
    write_check(repo, "#!/bin/sh\nexit 0\n")
    claude_script([summary("DONE")])
    done = ralph("run", "goal.md", env={"RALPH_NOTIFY": command})
    assert (done.exit_code, done.stderr) == (0, "")
    (note,) = [line for line in done.stdout.splitlines() if "notification" in line]
    assert "cannot send a notification with" in note


def test_beside_json_a_notifier_that_fails_is_a_note_on_stderr(
    goal: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    claude_script([summary("DONE")])
    done = ralph("run", "goal.md", "--json", env={"RALPH_NOTIFY": "/nowhere/notify"})
    assert done.exit_code == 0
    assert done.stderr.startswith("note: cannot send a notification with")


def test_a_bad_command_is_refused_before_anything_begins(goal: Path, repo: Path, ralph: Ralph, world: Path) -> None:
    done = ralph("run", "goal.md", env={"RALPH_NOTIFY": "./notify"})
    assert done.exit_code == 2
    assert "write the full path" in done.stderr
    assert not (world / "ralph").exists()


def test_a_batch_tells_of_a_goal_that_needs_somebody(batch: Batch, ears: HeardNotices) -> None:
    batch.upstream()
    batch.goal("one", [], repo="upstream", max_iterations=1)
    assert batch.run(batch.root / "goals", env=ears.env).exit_code == 1
    (told,) = ears.heard
    assert (told["goal"], told["id"], told["event"]) == ("one", "g1", "budget")
    assert told["next"] == "ralph-runs show g1"


@pytest.mark.long
def test_a_batch_tells_of_its_goals_once_each(batch: Batch, tmp_path: Path) -> None:
    """Also those of the user's own configuration: the attempts' own ends are none."""
    ears = listening(tmp_path / "ears", then="exit 1")
    batch.upstream()
    batch.goal("one", wrote("one"), repo="upstream")
    batch.goal("two", [], repo="upstream", max_iterations=1)
    config = Path(batch.runs.env["XDG_CONFIG_HOME"]) / "ralph" / "config.toml"
    config.write_text(f"merge = 'direct'\nnotify = {[ears.env['RALPH_NOTIFY']]!r}\n")
    done = batch.run(batch.root / "goals")
    assert done.exit_code == 1, done.stdout
    told = {notice["goal"]: notice for notice in ears.heard}
    assert len(ears.heard) == 2
    assert (told["one"]["event"], told["one"]["id"], told["one"]["title"]) == ("done", "g1", "one")
    assert told["one"]["repo"] == str(batch.repos["upstream"])
    assert told["two"]["event"] == "budget"
    assert told["two"]["next"] == "ralph-runs show g2"
    assert [line for line in done.stdout.splitlines() if line.endswith("`: exit code 1")]
    batch.goal("three", wrote("three"), repo="upstream")
    again = batch.run(batch.root / "goals", "--json", env={"RALPH_NOTIFY": "/nowhere/notify"})
    assert "cannot send a notification with `" in again.events_of("note")[-1]["text"]
    assert again.events[-1]["type"] == "summary"


@pytest.mark.parametrize(
    ("harm", "exit_code", "cause"),
    [
        (
            "create trigger harm before insert on ralph_marks begin select raise(abort, 'no more room'); end",
            1,
            "no more room",
        ),
        ("update ralph_goals set state = 'nonsense'", 3, "a bug in ralph: ValueError: 'nonsense'"),
    ],
)
def test_a_queue_worker_that_dies_says_so_to_whoever_is_away(
    batch: Batch, tmp_path: Path, harm: str, exit_code: int, cause: str
) -> None:
    """Its goals are cut off; the screen, and the notice, say what goes on with them."""
    ears = listening(tmp_path / "ears")
    batch.upstream()
    batch.goal("one", [[shell("sleep 60")]], repo="upstream")
    with batch.start(batch.root / "goals", env=ears.env) as running:
        wait_until(lambda: "started on" in running.stdout, "the goal is at work")
        with contextlib.closing(sqlite3.connect(batch.ralph_dir / "runs.sqlite", timeout=30)) as queue:
            queue.execute(harm)
            queue.commit()
        done = running.wait()
    assert done.exit_code == exit_code, done
    (told,) = ears.heard
    assert (told["event"], told["exit_code"], told["goal"]) == ("stuck", exit_code, "")
    assert cause in told["text"]
    assert told["next"].endswith("continue with: ralph-runs run --all")
    assert cause in done.stderr
    assert done.stderr.rstrip().endswith("continue with: ralph-runs run --all")
    if exit_code == 1:  # of the other one, nothing can be read any more
        assert "1 goal: 1 interrupted" in done.stdout
