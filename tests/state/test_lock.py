"""The lock of a work tree: held by one, told of by all who look."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ralph.core.errors import UsageError
from ralph.state.lock import RepoLock
from ralph.state.lock import holder as lock_holder

HOLD = """
import sys, time
from pathlib import Path
from ralph.state.lock import RepoLock
with RepoLock(Path(sys.argv[1]), "other-goal", Path("/some/repo")):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path: Path):
    with subprocess.Popen([sys.executable, "-c", HOLD, tmp_path], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


TAKE = """
import fcntl, os, sys, time
from pathlib import Path
with open(Path(sys.argv[1]) / ".lock", "ab", buffering=0) as file:
    fcntl.flock(file, fcntl.LOCK_EX if sys.argv[2] == "owner" else fcntl.LOCK_SH)
    print("held", flush=True)
    time.sleep(0.5)
    if sys.argv[2] == "owner":
        file.write(b'{"pid": %d, "host": "%s"}\\n' % (os.getpid(), os.uname().nodename.encode()))
        time.sleep(60)
"""
"""A lock as others find it between two steps: of one who takes it, or of one who looks whether anybody has it."""


def taken(tmp_path: Path, who: str) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", TAKE, tmp_path, who], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_an_owner_who_has_not_yet_written_who_he_is_is_named_all_the_same(tmp_path: Path) -> None:
    with taken(tmp_path, "owner") as owner:
        with pytest.raises(UsageError, match=f"process {owner.pid} "):
            RepoLock(tmp_path, "speed", tmp_path).probe()
        owner.kill()


def test_nobody_is_refused_a_new_lock_because_someone_looks_at_it(tmp_path: Path) -> None:
    with taken(tmp_path, "onlooker"), RepoLock(tmp_path, "speed", tmp_path):
        pass


def test_a_lock_that_is_held_names_its_holder(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    lock = RepoLock(tmp_path, "speed", tmp_path)
    for attempt in (lock.probe, lock.__enter__):
        with pytest.raises(UsageError) as caught:
            attempt()
        assert f"process {holder.pid} " in caught.value.message
        assert "goal other-goal" in caught.value.message


def test_a_lock_is_free_once_its_holder_was_killed(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    with RepoLock(tmp_path, "speed", tmp_path):
        (file,) = tmp_path.iterdir()
        assert json.loads(file.read_text())["pid"] == os.getpid()


def test_a_refused_start_leaves_the_owners_lock_as_it_is(tmp_path: Path) -> None:
    with RepoLock(tmp_path, "first", tmp_path):
        before = (tmp_path / ".lock").read_bytes()
        with pytest.raises(UsageError, match="goal first"):
            RepoLock(tmp_path, "second", tmp_path).probe()
        assert (tmp_path / ".lock").read_bytes() == before


def test_a_lock_is_free_once_it_is_left(tmp_path: Path) -> None:
    lock = RepoLock(tmp_path, "speed", tmp_path)
    for _ in range(2):
        with lock:
            pass
    lock.probe()


def test_probing_a_free_lock_leaves_no_trace(tmp_path: Path) -> None:
    RepoLock(tmp_path / "new", "speed", tmp_path).probe()
    assert list(tmp_path.iterdir()) == []


def test_a_garbled_lock_is_still_a_lock(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    (file,) = tmp_path.iterdir()
    file.write_bytes(b"\xff{")
    with pytest.raises(UsageError, match=r"process \?"):
        RepoLock(tmp_path, "speed", tmp_path).probe()


def test_a_lock_tells_who_holds_it_and_where_he_works(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    owner = lock_holder(tmp_path)
    assert owner is not None
    assert (owner.pid, owner.goal, owner.repo) == (holder.pid, "other-goal", "/some/repo")


def test_nobody_holds_a_lock_whose_holder_was_killed(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert lock_holder(tmp_path) is None


def test_nobody_holds_a_lock_that_was_left(tmp_path: Path) -> None:
    with RepoLock(tmp_path, "speed", tmp_path):
        assert lock_holder(tmp_path) is not None
    assert lock_holder(tmp_path) is None


def test_nobody_holds_a_lock_that_is_not_there(tmp_path: Path) -> None:
    assert lock_holder(tmp_path) is None
    assert list(tmp_path.iterdir()) == []
