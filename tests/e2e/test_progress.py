"""What takes long shows how far it is: in a terminal by a line that goes away, elsewhere by a line before and after."""

from __future__ import annotations

import contextlib
import random
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from ralph.queue.database import database_file, default_url
from tests.support.batches import Batch, wrote
from tests.support.git_repos import git, make_repo
from tests.support.goals import write_goal
from tests.support.ralph_process import Ralph
from tests.support.scripted_agent import ClaudeScript, summary
from tests.support.terminal import RalphInTerminal
from tests.support.upstreams import Brake, brake, git_daemon
from tests.support.waiting import wait_until

SIZE = 3_000_000
"""Bytes that no compression makes fewer: at a tenth of that a second git tells its progress before they are there."""


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with `big.git` in it."""
    base = tmp_path_factory.mktemp("served")
    data = random.Random(0).randbytes(SIZE)
    seed = make_repo(base / "seed", {f"{number}.bin": data[number::100] for number in range(100)})
    git(base, "clone", "--quiet", "--bare", str(seed), "big.git")
    return base


@pytest.fixture
def slow(base: Path) -> Iterator[Brake]:
    with git_daemon(base) as daemon, brake(daemon.port, most=30_000) as slow:
        yield slow


@pytest.fixture
def silent(base: Path) -> Iterator[Brake]:
    with git_daemon(base) as daemon, brake(daemon.port) as silent:
        yield silent


def clones(world: Path) -> list[Path]:
    return [path for path in (world / "ralph" / "clones").rglob("*") if not path.is_dir()]


def gits(url: str) -> list[psutil.Process]:
    """The git processes that are at this address."""
    found = psutil.process_iter(["name", "cmdline"])
    return [each for each in found if each.info["name"].startswith("git") and url in (each.info["cmdline"] or [])]


def test_a_slow_clone_shows_bytes_and_speed_in_a_line_that_goes_away(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript, slow: Brake
) -> None:
    write_goal(repo)
    claude_script([summary("DONE")])
    url = slow.url("big.git")
    with RalphInTerminal(["run", "goal.md", "--repo", url], repo, ralph.env, columns=120) as running:
        running.shows("iB/s")
        (line,) = [row for row in running.rows if row]
        assert re.fullmatch(
            rf"cloning {url} . receiving [━╸╺]{{10,20}} +\d+ % [\d.]+ \w+ \| [\d.]+ \w+/s \d:\d\d", line
        )
        slow.release()
        assert running.wait() == 0
        assert running.screen.is_as_a_shell_expects
        assert "cloning" not in running.text
        assert running.text.startswith("ralph ")


def test_in_a_pipe_there_is_a_line_before_and_one_after(
    repo: Path, world: Path, ralph: Ralph, claude_script: ClaudeScript, slow: Brake
) -> None:
    write_goal(repo)
    claude_script([summary("DONE")])
    url = slow.url("big.git")
    with ralph.start("run", "goal.md", "--repo", url) as running:
        running.wait_until(lambda: running.stderr == f"cloning {url}\n", "the line before")
        slow.release()
        done = running.wait()
    assert done.exit_code == 0
    assert re.fullmatch(rf"cloning {url}\ncloning {url}: done in [\d.]+s\n", done.stderr)
    assert "cloning" not in done.stdout
    assert len(clones(world)) > 100


def test_what_takes_less_than_a_second_says_nothing(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript, tmp_path: Path
) -> None:
    write_goal(repo)
    claude_script([summary("DONE")])
    done = ralph("run", "goal.md", "--repo", make_repo(tmp_path / "other", {"a": "a"}))
    assert (done.exit_code, done.stderr) == (0, "")


def test_quiet_says_nothing_of_a_slow_clone(repo: Path, ralph: Ralph, claude_script: ClaudeScript, slow: Brake) -> None:
    write_goal(repo)
    claude_script([summary("DONE")])
    with ralph.start("run", "goal.md", "--quiet", "--repo", slow.url("big.git")) as running:
        wait_until(lambda: gits(slow.url("big.git")), "it clones")
        until = time.monotonic() + 1.5
        wait_until(lambda: time.monotonic() > until, "a second has passed")
        slow.release()
        assert running.wait().stderr == ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_clone_of_a_silent_remote_and_nothing_is_left(
    repo: Path, world: Path, ralph: Ralph, claude_script: ClaudeScript, silent: Brake, number: int
) -> None:
    write_goal(repo)
    agent = claude_script([summary("DONE")])
    url = silent.url("big.git")
    with ralph.start("run", "goal.md", "--repo", url) as running:
        running.wait_until(lambda: gits(url), "it clones")
        running.send(number)
        done = running.wait()
    assert done.exit_code == 128 + number
    assert not gits(url)
    assert clones(world) == []
    assert not list((world / "ralph" / "clones").rglob(".clone-*"))
    assert agent.starts == []


def test_ctrl_c_in_a_terminal_ends_a_clone_and_takes_the_line_away(
    repo: Path, world: Path, ralph: Ralph, claude_script: ClaudeScript, silent: Brake
) -> None:
    write_goal(repo)
    claude_script([summary("DONE")])
    url = silent.url("big.git")
    with RalphInTerminal(["run", "goal.md", "--repo", url], repo, ralph.env) as running:
        running.shows("cloning git://")
        running.press("\x03")
        assert running.wait() == 130
        assert "cloning" not in running.text
        assert running.screen.is_as_a_shell_expects
    assert clones(world) == []


HOLD = """
import fcntl, sys
with open(sys.argv[1], "ab", buffering=0) as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    print(flush=True)
    input()
"""
"""A guardian that is slow: it has the lock of a ralph that is gone."""


def test_whoever_still_holds_the_lock_is_named_while_he_is_waited_for(
    repo: Path, world: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    write_goal(repo)
    claude_script([summary("DONE")], [summary("DONE")])
    assert ralph("run", "goal.md").exit_code == 0
    (lock,) = (world / "ralph" / "runs").glob("*/.lock")
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    lock.write_text(f'{{"pid": {gone.pid}, "host": "{socket.gethostname()}"}}\n')
    with subprocess.Popen([sys.executable, "-c", HOLD, lock], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == b"\n"
        with RalphInTerminal(["run", "goal.md", "--fresh"], repo, ralph.env, columns=120) as running:
            running.shows(f"waiting for process {gone.pid} to release the lock")
            holder.stdin.write(b"\n")
            holder.stdin.flush()
            assert running.wait() == 0
            assert "waiting for process" not in running.text


def test_the_row_of_a_goal_whose_repository_is_fetched_says_how_far_that_is(batch: Batch, slow: Brake) -> None:
    batch.goal("one", wrote("one"))
    args = ["run", str(batch.root / "goals"), "--repo", slow.url("big.git"), "--merge", "none"]
    with RalphInTerminal(args, batch.root, {**batch.runs.env, "CI": ""}, 120, 30, "ralph.cli.runs") as running:
        running.shows("iB/s")
        (row,) = [row for row in running.rows if "g1  one" in row]
        assert re.search(r"fetching: \d+ % re", row)
        running.shows(f"fetching {slow.url('big.git')}")  # among the news
        slow.release()
        assert running.wait() == 0
        assert "1 done" in running.text
        assert running.screen.is_as_a_shell_expects


def test_a_batch_says_for_whom_it_waits_before_it_starts(batch: Batch, silent: Brake) -> None:
    batch.goal("one", wrote("one"))
    args = ["run", str(batch.root / "goals"), "--repo", silent.url("big.git"), "--merge", "none"]
    with RalphInTerminal(args, batch.root, {**batch.runs.env, "CI": ""}, 120, 30, "ralph.cli.runs") as running:
        running.shows(f"waiting for {silent.url('big.git')}")
        running.press("\x03")
        assert running.wait() == 130
        assert f"waiting for {silent.url('big.git')}" not in running.text
        assert running.screen.is_as_a_shell_expects
    assert batch.states() == {"one": "queued"}
    assert batch.clones() == []


def test_a_batch_in_a_pipe_says_that_it_fetches_and_that_it_has(batch: Batch, slow: Brake) -> None:
    batch.goal("one", wrote("one"))
    url = slow.url("big.git")
    with batch.start(batch.root / "goals", "--repo", url, "--merge", "none") as running:
        running.wait_until(lambda: f"fetching {url}\n" in running.stdout, "the line before")
        assert batch.states() == {"one": "queued"}
        slow.release()
        done = running.wait()
    assert done.exit_code == 0
    before, after = [line for line in done.stdout.splitlines() if f"fetching {url}" in line]
    assert re.fullmatch(rf"[\d:]+ +ralph-runs +fetching {url}", before)
    assert re.fullmatch(rf"[\d:]+ +ralph-runs +fetching {url}: done in [\d.]+s", after)


@contextlib.contextmanager
def locked(batch: Batch) -> Iterator[Callable[[], object]]:
    """Keep everyone from writing to the queue, as a long transaction of another program does, until told otherwise."""
    file = database_file(default_url(batch.ralph_dir))
    assert file is not None
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield lambda: other.execute("ROLLBACK")


def test_adding_goals_shows_a_line_that_goes_away(batch: Batch) -> None:
    batch.upstream()
    first, second = batch.goal("one", wrote("one"), repo="upstream"), batch.goal("two", wrote("two"), repo="upstream")
    assert batch.runs("add", first, "--merge", "none", cwd=batch.root).exit_code == 0
    adding = ["add", str(second), "--merge", "none"]
    env = {**batch.runs.env, "CI": ""}
    with locked(batch) as unlock, RalphInTerminal(adding, batch.root, env, 100, module="ralph.cli.runs") as running:
        running.shows("adding goals")
        unlock()
        assert running.wait() == 0
        assert "adding goals" not in running.text
        assert "g2" in running.text


def test_removing_clones_shows_a_line_that_goes_away(batch: Batch) -> None:
    batch.upstream()
    goal = batch.goal("one", wrote("one", "no full stop"), repo="upstream", max_iterations=1)
    assert batch.run(goal, "--merge", "none").exit_code == 1
    assert batch.runs("cancel", "g1", cwd=batch.root).exit_code == 0
    env, removing = {**batch.runs.env, "CI": ""}, ["gc", "--delete"]
    with locked(batch) as unlock, RalphInTerminal(removing, batch.root, env, 100, module="ralph.cli.runs") as running:
        running.shows("removing clones")
        unlock()
        assert running.wait() == 0
        assert "removing clones" not in running.text
        assert batch.clones() == []
