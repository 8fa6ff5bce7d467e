"""Stopping and crashing a queue worker at chosen moments: nothing is charged, lost, run twice or merged twice."""

from __future__ import annotations

import random
import re
import shutil
import signal
import time
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from ralph.queue.database import default_url
from ralph.queue.paths import queue_paths
from ralph.queue.store import open_store
from tests.support.batches import CHECK_TEXTS, Batch, merged_goals, require_linear, says, shell, wrote
from tests.support.forms import ROUNDS
from tests.support.git_repos import git
from tests.support.iterations import Ledger, require_each_once
from tests.support.ralph_process import RunningRalph
from tests.support.scripted_agent import ClaudeScript, bill, hang, ignore_signals, run, summary
from tests.support.upstreams import git_daemon
from tests.support.waiting import is_alive, wait_until

SIGNALS = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}

# It holds a merge up for as long as a file is there; an agent's own check, in its clone, is not held up.
SLOW = CHECK_TEXTS.replace(
    "for text in",
    'case "$PWD" in */checkouts/*) touch {at}; while [ -e {hold} ]; do sleep 0.05; done ;; esac\nfor text in',
)


@pytest.fixture
def ledger(batch: Batch) -> Ledger:
    return Ledger(batch.root / "ledger")


class Slow:
    """A check that is slow while it is to be, in merges only."""

    def __init__(self, batch: Batch) -> None:
        self.at, self.hold = batch.root / "checking", batch.root / "hold"
        self.hold.touch()

    @property
    def check(self) -> str:
        return SLOW.replace("{at}", str(self.at)).replace("{hold}", str(self.hold))

    def wait(self) -> None:
        wait_until(self.at.exists, "a merge is being checked")

    def go_on(self) -> None:
        self.hold.unlink()


def descendants(running: RunningRalph) -> list[int]:
    return [process.pid for process in psutil.Process(running.pid).children(recursive=True)]


def require_gone(pids: list[int]) -> None:
    wait_until(lambda: not [pid for pid in pids if is_alive(pid)], "all that the worker started is gone")


def require_merged_once(batch: Batch, ledger: Ledger, names: list[str], repo: str = "upstream") -> None:
    assert batch.states() == dict.fromkeys(batch.states(), "done")
    assert sorted(merged_goals(batch.repos[repo])) == sorted(names)
    require_linear(batch.repos[repo])
    require_each_once(batch, ledger)
    assert batch.leftovers() == []


def endless(ledger: Ledger, name: str, gate: Path) -> list[list[list[dict[str, object]]]]:
    """The first iteration is quick; the second does not end before a file is gone."""
    text = f"mkdir -p texts; echo Fine. > texts/{name}-$RALPH_ITERATION.txt"
    wait = f"{text}; while [ -e {gate} ]; do sleep 0.05; done"
    return [[ledger.entry(text), says("one is written")], [ledger.entry(wait), says("DONE")]]


@pytest.mark.parametrize(
    "number",
    [signal.SIGTERM, *(pytest.param(number, marks=pytest.mark.long) for number in (signal.SIGINT, signal.SIGHUP))],
)
def test_a_signal_saves_everything_and_charges_nothing(batch: Batch, ledger: Ledger, number: signal.Signals) -> None:
    batch.upstream()
    gate = batch.root / "gate"
    gate.touch()
    names = ["one", "two"]
    for name in names:
        batch.goal(name, endless(ledger, name, gate), repo="upstream")
    with batch.start(batch.root / "goals", "--max", "2") as running:
        wait_until(lambda: len([e for e in ledger.lines if e.iteration == 2]) == 2, "both are at their second one")
        started = descendants(running)
        running.send(number)
        finished = running.wait()
    assert finished.exit_code == SIGNALS[number], finished.stdout + finished.stderr
    assert finished.stdout.splitlines()[-1] == "continue with: ralph-runs run --all --max 2"
    require_gone(started)
    for goal in batch.goals().values():
        assert (goal["state"], goal["attempts"]) == ("queued", 0), goal
    (mirror,) = batch.ralph_dir.glob("mirrors/**/*.git")
    for name in names:
        assert "texts/" in git(mirror, "ls-tree", "--name-only", f"ralph/{name}", "texts/")

    gate.unlink()
    assert batch.run().exit_code == 0
    require_merged_once(batch, ledger, names)
    for name in names:
        assert [entry.iteration for entry in ledger.of(name)] == [1, 2, 2]
        assert batch.goals()[name]["attempts"] == 1


def test_a_second_ctrl_c_kills_at_once(batch: Batch, claude_script: ClaudeScript) -> None:
    batch.upstream()
    deaf = batch.root / "deaf"
    claude_script([ignore_signals(), run(f"touch {deaf}"), hang()])  # asked but once, it would be given ten seconds
    batch.goal("stubborn", [], repo="upstream", agent="claude", model="opus")
    with batch.start(batch.root / "goals") as running:
        wait_until(deaf.exists, "the agent is at work")
        started = descendants(running)
        running.send(signal.SIGINT)
        wait_until(lambda: "stopping" in running.stdout, "the first is heard")
        running.send(signal.SIGINT)
        finished = running.wait()
    assert finished.exit_code == 130, finished.stdout
    require_gone(started)
    results = list(batch.ralph_dir.glob("**/stubborn/result.json"))
    assert not results, "its run was given the time to say how it ended"
    goal = batch.goals()["stubborn"]
    assert (goal["state"], goal["attempts"]) == ("queued", 0)


@pytest.mark.long
def test_a_push_that_hangs_does_not_hold_up_a_second_ctrl_c(batch: Batch, ledger: Ledger) -> None:
    upstream = batch.upstream()
    hold = hook(batch, upstream, "update")
    batch.goal("one", ledger.writes("one", 1, seconds=0), repo="upstream")
    with batch.start(batch.root / "goals") as running:
        wait_until((batch.root / "pushing").exists, "the push is under way")
        running.send(signal.SIGINT)
        wait_until(lambda: "stopping" in running.stdout, "the first is heard")
        asked = time.monotonic()
        running.send(signal.SIGINT)
        finished = running.wait()
        took = time.monotonic() - asked
    assert finished.exit_code == 130, finished.stdout
    assert took < 20, finished.stdout  # what goals that are not merged have before anybody leaves; this one has three
    hold.unlink()
    assert batch.run().exit_code == 0
    require_merged_once(batch, ledger, ["one"])
    assert len(ledger.lines) == 1, "the agent was started again"


def hook(batch: Batch, upstream: Path, name: str) -> Path:
    """Have pushes wait in this hook of a repository while the file that is returned is there."""
    at, hold = batch.root / "pushing", batch.root / "hold"
    hold.touch()
    script = upstream / "hooks" / name
    script.write_text(f"#!/bin/sh\ntouch {at}\nwhile [ -e {hold} ]; do sleep 0.05; done\n")
    script.chmod(0o755)
    return hold


def _at_its_merge(batch: Batch) -> bool:
    """Whether its worker tells of a goal as being merged, and no longer of its attempt, whose time would go on."""
    told = batch.bulletin()
    return told is not None and len(told.merging) == 1 and not told.statuses


@pytest.mark.long
def test_a_slow_check_does_not_hold_up_ctrl_c(batch: Batch, ledger: Ledger) -> None:
    slow = Slow(batch)
    batch.upstream(check=slow.check)
    batch.goal("one", ledger.writes("one", 2, seconds=0), repo="upstream")
    with batch.start(batch.root / "goals") as running:
        slow.wait()
        wait_until(lambda: _at_its_merge(batch), "the worker to tell of a merge alone")
        started = descendants(running)
        running.send(signal.SIGINT)
        asked = time.monotonic()
        finished = running.wait()
        took = time.monotonic() - asked
    assert finished.exit_code == 130, finished.stdout
    assert took < 40, finished.stdout  # whoever ends by himself has a minute
    require_gone(started)
    goal = batch.goals()["one"]
    assert (goal["state"], goal["attempts"]) == ("queued", 1)
    assert merged_goals(batch.repos["upstream"]) == []

    slow.go_on()
    assert batch.run().exit_code == 0
    require_merged_once(batch, ledger, ["one"])
    assert len(ledger.lines) == 2, "the agent was started again"
    assert batch.goals()["one"]["attempts"] == 1


@pytest.mark.long
def test_signals_at_any_moment(batch: Batch, ledger: Ledger) -> None:
    dice = random.Random(7)
    batch.upstream()
    names = ["one", "two", "three"]
    for name in names:
        batch.goal(name, ledger.writes(name, 2, seconds=0.3), repo="upstream")
    for _ in range(4 if ROUNDS == 1 else ROUNDS):
        with batch.start(batch.root / "goals", "--max", "2") as running:
            time.sleep(dice.uniform(0.4, 4))
            number = dice.choice(list(SIGNALS))
            started = [running.pid]
            if is_alive(running.pid):
                started += descendants(running)
                running.send(number)
            finished = running.wait()
        # Before it watches for them, when nothing has been started yet, a signal has its usual effect; and for a Ctrl-C
        # that comes before Python itself has begun, as it may on a busy machine, that does not begin.
        unborn = finished.exit_code == 1 and "init_import_site" in finished.stderr
        assert unborn or finished.exit_code in (0, SIGNALS[number], -number), finished.stdout + finished.stderr
        require_gone(started)
        assert "running" not in batch.states().values()
    assert batch.run(batch.root / "goals").exit_code == 0
    require_merged_once(batch, ledger, names)
    assert [goal["attempts"] for goal in batch.goals().values()] == [1, 1, 1]


def test_kill_9_while_merging(batch: Batch, ledger: Ledger) -> None:
    slow = Slow(batch)
    batch.upstream(check=slow.check)
    batch.goal("one", ledger.writes("one", 2, seconds=0), repo="upstream")
    with batch.start(batch.root / "goals") as running:
        slow.wait()
        started = descendants(running)
        running.send(signal.SIGKILL)
        running.wait()
    require_gone(started)
    slow.go_on()
    assert batch.run().exit_code == 0
    require_merged_once(batch, ledger, ["one"])
    assert len(ledger.lines) == 2, "the agent was started again"
    assert batch.goals()["one"]["iterations"] == 2, "what is done twice counts once"


@pytest.mark.long
def test_a_checkout_that_was_cut_off_goes_at_the_next_start(batch: Batch, ledger: Ledger) -> None:
    slow = Slow(batch)
    batch.upstream(check=slow.check)
    batch.goal("given-up", ledger.writes("given-up", 1, seconds=0), repo="upstream")
    with batch.start(batch.root / "goals") as running:
        slow.wait()
        running.send(signal.SIGKILL)
        running.wait()
    assert list(batch.ralph_dir.glob("batch/*/checkouts/*"))
    assert batch.runs("cancel", "given-up", cwd=batch.root).exit_code == 0
    slow.go_on()
    assert batch.run().exit_code == 1
    assert batch.states() == {"given-up": "cancelled"}
    assert not list(batch.ralph_dir.glob("batch/*/checkouts/*"))
    assert merged_goals(batch.repos["upstream"]) == []


@pytest.mark.long
@pytest.mark.parametrize("moment", ["update", "post-receive"])
def test_kill_9_while_pushing(batch: Batch, ledger: Ledger, moment: str) -> None:
    """`update` runs before the branch is moved, `post-receive` after: then the push has arrived, and nobody knows."""
    upstream = batch.upstream()
    hold = hook(batch, upstream, moment)
    batch.goal("one", ledger.writes("one", 2, seconds=0), repo="upstream")
    with batch.start(batch.root / "goals") as running:
        wait_until((batch.root / "pushing").exists, "the push is under way")
        assert len(merged_goals(upstream)) == (moment == "post-receive")
        running.send(signal.SIGKILL)
        running.wait()
    with batch.start() as running:  # whoever pushed may still be at it
        wait_until(lambda: "continues: its last worker was interrupted" in running.stdout, "the next worker to begin")
        hold.unlink()
        finished = running.wait()
    assert finished.exit_code == 0, finished.stdout + finished.stderr
    if moment == "post-receive":
        assert "already merged to main" in finished.stdout
    require_merged_once(batch, ledger, ["one"])
    assert len(ledger.lines) == 2, "the agent was started again"


@pytest.mark.long
def test_kill_9_between_an_attempt_and_its_record(batch: Batch, bin_dir: Path, ledger: Ledger) -> None:
    """The run is over, and only its result.json tells: nobody has written down yet that it is to be merged."""
    batch.upstream()
    at, hold = batch.root / "saving", batch.root / "hold"
    hold.touch()
    wrapper = bin_dir / "git"
    wait = f"touch {at}; while [ -e {hold} ]; do sleep 0.05; done"
    wrapper.write_text(
        f'#!/bin/sh\ncase "$*" in *refs/ralph/attempts/*) {wait} ;; esac\nexec {shutil.which("git")} "$@"\n'
    )
    wrapper.chmod(0o755)
    batch.goal("one", ledger.writes("one", 2, seconds=0), repo="upstream")
    with batch.start(batch.root / "goals") as running:
        wait_until(at.exists, "the attempt's last commit is being saved")
        running.send(signal.SIGKILL)
        running.wait()
    hold.unlink()
    finished = batch.run()
    assert finished.exit_code == 0, finished.stdout + finished.stderr
    require_merged_once(batch, ledger, ["one"])
    assert len(ledger.lines) == 2, "the agent was started again"


@pytest.mark.long
@pytest.mark.parametrize("times", [1, 5])
def test_a_git_that_is_killed_when_a_run_is_over_costs_nothing(
    batch: Batch, bin_dir: Path, claude_script: ClaudeScript, times: int
) -> None:
    """Once, and it is asked again; more often, and the next start finds what has ended: no session is held twice."""
    (died := batch.root / "died").mkdir()
    wrapper = bin_dir / "git"
    dies = f'[ "$(ls {died} | wc -l)" -ge {times} ] || {{ mktemp {died}/XXXXXX; kill -9 $$; }}'
    wrapper.write_text(
        f'#!/bin/sh\ncase "$*" in *refs/ralph/attempts/*) {dies} ;; esac\nexec {shutil.which("git")} "$@"\n'
    )
    wrapper.chmod(0o755)
    upstream = batch.upstream()
    batch.goal("one", [], agent="claude", model="sonnet")
    agent = claude_script([bill(0.25), run("mkdir -p texts; echo Fine. > texts/one.txt"), summary("DONE")])

    done = batch.run(batch.root / "goals", "--repo", upstream)

    assert done.exit_code == 0, done.stdout + done.stderr
    assert len(list(died.iterdir())) == times
    assert merged_goals(upstream) == ["one"]
    assert len(agent.starts) == 1
    assert batch.goals()["one"]["cost_usd"] == agent.total_cost
    assert batch.goals()["one"]["attempts"] == 1


@pytest.mark.long
def test_what_the_system_refuses_a_merge_is_not_the_goals_fault(batch: Batch) -> None:
    """The worker stops, and the next start merges: here a directory is where the mirror's lock should be."""
    upstream = batch.upstream()
    swap = f"find {batch.ralph_dir}/mirrors -name '*.lock' -exec rm {{}} ';' -exec mkdir {{}} ';' -prune"
    batch.goal("one", [[shell(f"mkdir -p texts; echo Fine. > texts/one.txt; {swap}"), says("DONE")]])

    first = batch.run(batch.root / "goals", "--repo", upstream)
    assert (first.exit_code, batch.states()) == (1, {"one": "queued"}), first.stdout + first.stderr
    (lock,) = batch.ralph_dir.glob("mirrors/**/*.lock")
    assert f"error: {lock}: Is a directory" in first.stderr

    lock.rmdir()
    again = batch.run()
    assert again.exit_code == 0, again.stdout + again.stderr
    assert (merged_goals(upstream), batch.goals()["one"]["attempts"]) == (["one"], 1)


@pytest.mark.long
def test_what_the_system_refuses_an_attempt_is_not_counted_as_one_that_was_killed(batch: Batch, ledger: Ledger) -> None:
    """Ten of those in a row are taken for the goal's own doing: here a file is where its clone should be."""
    batch.upstream()
    goal = batch.goal("one", ledger.writes("one", 1, seconds=0), repo="upstream")
    assert batch.runs("add", "--queue", goal, cwd=batch.root).exit_code == 0
    store = open_store(default_url(batch.ralph_dir))
    assert store is not None
    (root := queue_paths(batch.ralph_dir, store.queue_id).root).mkdir(parents=True)
    (obstacle := root / "clones").touch()

    first = batch.run()
    assert first.exit_code == 1, first.stdout + first.stderr
    assert "stopping: " in first.stdout
    (found,) = store.goals()
    store.close()
    assert (found.state, found.attempts, found.killed) == ("queued", 0, 0)

    obstacle.unlink()
    assert batch.run().exit_code == 0
    require_merged_once(batch, ledger, ["one"])


@pytest.mark.long
def test_of_twenty_workers_one_works(batch: Batch, ledger: Ledger) -> None:
    batch.upstream()
    gate = batch.root / "gate"
    gate.touch()
    names = ["one", "two"]
    for name in names:
        batch.goal(name, endless(ledger, name, gate), repo="upstream")
    with ExitStack() as stack:
        workers = [stack.enter_context(batch.start(batch.root / "goals", "--max", "2")) for _ in range(20)]
        wait_until(lambda: sum(is_alive(worker.pid) for worker in workers) == 1, "all but one are refused", 180)
        (owner,) = [worker for worker in workers if is_alive(worker.pid)]
        wait_until(lambda: len([e for e in ledger.lines if e.iteration == 2]) == 2, "both goals are worked on")
        for worker in workers:
            if worker is not owner:
                refused = worker.wait()
                assert refused.exit_code == 2, refused
                assert f"process {owner.pid} on " in refused.stderr
        owner.send(signal.SIGKILL)
        owner.wait()
        gate.unlink()
        assert batch.run(batch.root / "goals").exit_code == 0  # the lock went with its owner
    require_merged_once(batch, ledger, names)
    for name in names:
        assert [entry.iteration for entry in ledger.of(name)] == [1, 2, 2]


@pytest.mark.long
def test_a_goal_that_is_added_meanwhile_is_worked_on(batch: Batch, ledger: Ledger) -> None:
    batch.upstream()
    names = ["early", "late"]
    with batch.runs.start("work", "--max", "1", cwd=batch.root) as running:
        for number, name in enumerate(names, 1):  # the second when there is nothing left to do
            goal = batch.goal(name, ledger.writes(name, 1, seconds=0), repo="upstream")
            added = batch.runs("add", "--queue", goal, cwd=batch.root)
            assert added.exit_code == 0, added.stderr
            wait_until(lambda number=number: running.stdout.count("done: ") == number, f"{name} is done")
        running.send(signal.SIGTERM)
        finished = running.wait()
    assert finished.exit_code == 143
    assert "continue with" not in finished.stdout, "nothing is left"
    require_merged_once(batch, ledger, names)


def test_cancelling_what_runs(batch: Batch, ledger: Ledger) -> None:
    batch.upstream()
    gate = batch.root / "gate"
    gate.touch()
    batch.goal("given-up", endless(ledger, "given-up", gate), repo="upstream")
    with batch.start(batch.root / "goals") as running:
        wait_until(lambda: [e for e in ledger.lines if e.iteration == 2], "its second iteration")
        started = descendants(running)
        assert batch.runs("cancel", "given-up", cwd=batch.root).exit_code == 0
        finished = running.wait()
    assert finished.exit_code == 1
    require_gone(started)
    assert batch.states() == {"given-up": "cancelled"}
    (mirror,) = batch.ralph_dir.glob("mirrors/**/*.git")
    assert "given-up-1.txt" in git(mirror, "ls-tree", "--name-only", "ralph/given-up", "texts/")
    # And it can be taken up again, where it was.
    gate.unlink()
    assert batch.runs("retry", "given-up", cwd=batch.root).exit_code == 0
    assert batch.run().exit_code == 0
    require_merged_once(batch, ledger, ["given-up"])


@pytest.mark.long
def test_cancelling_what_is_being_merged(batch: Batch, ledger: Ledger) -> None:
    slow = Slow(batch)
    batch.upstream(check=slow.check)
    batch.goal("given-up", ledger.writes("given-up", 1, seconds=0), repo="upstream")
    with batch.start(batch.root / "goals") as running:
        slow.wait()
        assert batch.runs("cancel", "given-up", cwd=batch.root).exit_code == 0
        finished = running.wait()
    assert finished.exit_code == 1
    assert batch.states() == {"given-up": "cancelled"}
    assert merged_goals(batch.repos["upstream"]) == []
    slow.go_on()
    assert batch.runs("retry", "given-up", cwd=batch.root).exit_code == 0
    assert batch.run().exit_code == 0
    require_merged_once(batch, ledger, ["given-up"])
    assert len(ledger.lines) == 1, "the agent was started again"


@pytest.mark.parametrize(
    "deed",
    [
        "rm -rf .git",
        pytest.param('cd /; rm -rf "$CLONE"', marks=pytest.mark.long),
        pytest.param("rm .git/HEAD", marks=pytest.mark.long),
    ],
)
def test_an_agent_that_breaks_its_clone(batch: Batch, ledger: Ledger, deed: str) -> None:
    batch.upstream()
    done = batch.root / "broke-it"
    text = "mkdir -p texts; echo Fine. > texts/wild-$RALPH_ITERATION.txt"
    broken = f"[ -e {done} ] || {{ touch {done}; CLONE=$PWD; {deed}; }}"
    script = [
        [ledger.entry(text), says("wrote the first")],
        [ledger.entry(broken), says("tidied up")],
        [ledger.entry(text), says("DONE")],
    ]
    batch.goal("wild", script, repo="upstream")
    batch.goal("tame", ledger.writes("tame", 2, seconds=0), repo="upstream")
    finished = batch.run(batch.root / "goals")
    assert batch.states() == {"wild": "done", "tame": "done"}, finished.stdout
    assert finished.exit_code == 0
    assert "wild-1.txt" in git(batch.repos["upstream"], "ls-tree", "--name-only", "main", "texts/")
    runs = {entry.run for entry in ledger.of("wild")}
    assert [entry.iteration for entry in ledger.of("wild")].count(1) == 1, ledger.of("wild")
    assert len(runs) == 1


@pytest.mark.long
def test_a_remote_that_goes_away(batch: Batch, ledger: Ledger) -> None:
    slow = Slow(batch)
    batch.upstream("far", check=slow.check)
    batch.upstream("near")
    with git_daemon(batch.root) as daemon:
        batch.goal("far", ledger.writes("far", 1, seconds=0), repo=daemon.url("far.git"))
        with batch.start(batch.root / "goals", "--all", "--max", "2") as running:
            slow.wait()
            daemon.stop()
            slow.go_on()
            wait_until(lambda: "waiting for the remote" in running.stdout, "it waits")
            goal = batch.goal("near", ledger.writes("near", 1, seconds=0), repo="near")
            assert batch.runs("add", "--queue", goal, cwd=batch.root).exit_code == 0
            wait_until(lambda: merged_goals(batch.repos["near"]) == ["near"], "the other repository goes on")
            assert merged_goals(batch.repos["far"]) == []
            assert batch.goals()["far"]["reason"].startswith("waiting for the remote: ")
            daemon.start()
            finished = running.wait()
    assert finished.exit_code == 0, finished.stdout + finished.stderr
    assert merged_goals(batch.repos["far"]) == ["far"]
    assert len(ledger.of("far")) == 1, "the agent was started again"
    assert batch.leftovers() == []


def test_a_path_that_is_away_for_a_moment(batch: Batch, ledger: Ledger) -> None:
    slow = Slow(batch)
    upstream = batch.upstream(check=slow.check)
    batch.goal("one", ledger.writes("one", 1, seconds=0), repo="upstream")
    with batch.start(batch.root / "goals") as running:
        slow.wait()
        aside = upstream.rename(batch.root / "aside.git")
        slow.go_on()
        wait_until(lambda: "waiting for the remote" in running.stdout, "it waits")
        aside.rename(upstream)
        finished = running.wait()
    assert finished.exit_code == 0, finished.stdout + finished.stderr
    require_merged_once(batch, ledger, ["one"])
    assert len(ledger.lines) == 1, "the agent was started again"


def test_a_broken_repository_blocks_nobody(batch: Batch, ledger: Ledger) -> None:
    batch.upstream()
    gone = batch.upstream("gone")
    for name in ("lost-1", "lost-2"):
        batch.goal(name, wrote(name), repo="gone", priority=9)
    batch.goal("one", ledger.writes("one", 1, seconds=0), repo="upstream")
    assert batch.runs("add", "--queue", batch.root / "goals", cwd=batch.root).exit_code == 0
    shutil.rmtree(gone)
    finished = batch.run("--max", "1")
    assert finished.exit_code == 1, finished.stdout
    states = batch.states()
    assert {name for name, state in states.items() if state == "stuck"} == {"lost-1", "lost-2"}
    assert {name for name, state in states.items() if state == "done"} == {"one"}
    for name in ("lost-1", "lost-2"):
        assert re.search(r"gone\.git", batch.show(name)["reason"]), batch.show(name)["reason"]
    assert merged_goals(batch.repos["upstream"]) == ["one"]
