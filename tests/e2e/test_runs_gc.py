"""`ralph-runs gc` as its user sees it: what can go, what stays and why; and that only `--delete` removes anything."""

from __future__ import annotations

import json
import os
import random
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ralph.batch.database import default_url
from ralph.batch.sole import sole_worker
from ralph.repolock import holder_of
from tests.support.batches import Batch, says, shell, wrote
from tests.support.git_repos import git
from tests.support.ralph_process import Ralph
from tests.support.upstreams import work
from tests.support.waiting import wait_until


def everything(place: Path) -> list[str]:
    """All that is below a place; SQLite's own passing files left out."""
    return sorted(str(path) for path in place.rglob("*") if not path.name.endswith(("-wal", "-shm")))


@pytest.fixture
def over(batch: Batch) -> Batch:
    """A queue whose two goals are over: one is done but has a repository that is nowhere else, one was cancelled."""
    batch.upstream(files={".gitignore": "ignored/\n"})
    inner = (
        "git init --quiet ignored/lib && git -C ignored/lib -c user.name=x -c user.email=x@y commit --allow-empty -qm x"
    )
    batch.goal("one", [[shell(inner), *wrote("one")[0]]], repo="upstream")
    batch.goal("two", [[shell("echo half > half.txt"), says("not yet")]], repo="upstream", max_iterations=1)
    assert batch.run(batch.root / "goals").exit_code == 1
    assert batch.states() == {"one": "done", "two": "stuck"}
    assert batch.runs("cancel", "two", cwd=batch.root).exit_code == 0
    return batch


def test_gc_says_first_and_removes_only_when_told_and_beside_a_worker_only_what_is_over(over: Batch) -> None:
    one, two = over.clones()
    before = everything(over.ralph_dir)
    said = over.runs("gc", cwd=over.root)
    assert (said.exit_code, said.stderr) == (0, "")
    lines = said.stdout.splitlines()
    assert lines[0].startswith("can go: ")
    assert lines[1].split()[:2] == ["g2", "two"]
    assert lines[1].endswith("it is cancelled")
    (kept,) = [line for line in lines if " one " in line]
    assert kept.endswith("it is done, but a repository of its own is in ignored/lib: its history may be nowhere else")
    assert any(line.strip().startswith("mirrors ") and "the only copies" in line for line in lines)
    assert any(line.strip().startswith("runs ") and "never removed" in line for line in lines)
    assert lines[-1].startswith("remove it with: ralph-runs gc --delete")
    assert everything(over.ralph_dir) == before

    tip = git(two, "rev-parse", "HEAD")
    checkout = next(iter(over.ralph_dir.glob("batch/*"))) / "checkouts" / "merge"
    checkout.mkdir(parents=True)
    with sole_worker(default_url(over.ralph_dir)):
        done = over.runs("gc", "--delete", "--json", cwd=over.root)
    assert done.exit_code == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["deleted"], [each["goal"] for each in told["goes"]]) == (True, ["g2"])
    assert told["bytes"] == told["goes"][0]["bytes"] > 0
    assert (one.exists(), two.exists()) == (True, False)
    (mirror,) = over.ralph_dir.glob("mirrors/local/*.git")
    assert git(mirror, "rev-parse", "refs/heads/ralph/two") == tip
    assert (told["goes"][0]["mirror"], told["goes"][0]["kept"]) == (str(mirror), [])  # its branch has all of it

    (busy,) = [each for each in told["stays"] if each["what"] == "checkout"]
    assert "serves the queue, and may be at it" in busy["why"]
    assert checkout.exists()
    assert over.runs("gc", "--delete", cwd=over.root).exit_code == 0
    assert not checkout.exists()

    again = over.runs("gc", "--delete", cwd=over.root)
    assert (again.exit_code, again.stdout.splitlines()[0]) == (0, "nothing to remove")
    assert over.runs("retry", "two", cwd=over.root).exit_code == 0
    assert "it is queued" not in over.runs("gc", cwd=over.root).stdout  # it has no clone any more
    over.run()
    (_, two) = over.clones()
    assert (two / "half.txt").read_text() == "half\n"  # it went on where it was


def a_link(clone: Path) -> None:
    shutil.rmtree(clone)
    clone.symlink_to(clone.parent)


def broken(clone: Path) -> None:
    (clone / ".git" / "HEAD").unlink()


def no_branch(clone: Path) -> None:
    git(clone, "switch", "--quiet", "--detach")
    git(clone, "branch", "--quiet", "--delete", "--force", "ralph/two")


def worktree(clone: Path) -> None:
    git(clone, "worktree", "add", "--quiet", "--detach", str(clone.parent.parent / "tree"))


def broken_object(clone: Path) -> None:
    lost = work(clone, {"lost.txt": "lost"})
    git(clone, "reset", "--quiet", "--hard", "HEAD^")
    (clone / ".git" / "objects" / lost[:2] / lost[2:]).unlink()
    (clone / ".git" / "objects" / lost[:2] / lost[2:]).touch()


def broken_index(clone: Path) -> None:
    (clone / ".git" / "index").write_text("junk")


def fetched(clone: Path) -> None:
    """As a build does it."""
    git(clone, "clone", "--quiet", "--no-local", str(clone), "ignored/fetched")


def a_pipe(clone: Path) -> None:
    (clone / "README.md").unlink()
    os.mkfifo(clone / "README.md")


REASONS: dict[Callable[[Path], None], str] = {
    a_link: "it is no directory",
    broken: "its git repository is broken: fatal: .*",
    no_branch: "it has no branch ralph/two, or not all of its history",
    worktree: "a further working tree of it is in .*/tree",
    broken_object: "its object [0-9a-f]{12} is broken",
    broken_index: "its index cannot be read: .*",
    fetched: "a repository of its own is in ignored/fetched: its history may be nowhere else",
    a_pipe: "not committed: README.md",
}


def test_each_reason_to_stay_is_said_in_its_words(over: Batch) -> None:
    """Each of a clone that was set aside; when the mirror is gone, that is the reason for all."""
    two = over.clones()[1]
    for number, deed in enumerate(REASONS, 1):
        aside = two.with_name(f"{two.name}.broken-{number}")
        shutil.copytree(two, aside, symlinks=True)
        deed(aside)
    (two.parent / "mine").mkdir()
    done = over.runs("gc", "--delete", "--json", cwd=over.root)
    assert done.exit_code == 0, done.stderr
    told = json.loads(done.stdout)
    assert [Path(each["path"]) for each in told["goes"]] == [two]
    why = {Path(each["path"]).name: each["why"] for each in told["stays"]}
    for number, words in enumerate(REASONS.values(), 1):
        assert re.fullmatch(f"it is cancelled, but {words}", why[f"{two.name}.broken-{number}"])
        assert os.path.lexists(two.with_name(f"{two.name}.broken-{number}"))
    assert why["mine"] == "no goal of this queue has it"
    assert over.runs("retry", "two", cwd=over.root).exit_code == 0
    (two.parent / two.name).mkdir()
    said = over.runs("gc", cwd=over.root).stdout
    assert "it is queued: its next attempt goes on in it" in said
    assert over.runs("cancel", "two", cwd=over.root).exit_code == 0
    (mirror,) = over.ralph_dir.glob("mirrors/local/*.git")
    mirror.rename(mirror.with_name("elsewhere"))
    said = over.runs("gc", "--delete", cwd=over.root)
    assert said.stdout.startswith("nothing to remove\n")
    assert said.stdout.count("its mirror is gone: what is in it is nowhere else") == len(REASONS) + 2


@pytest.mark.long
def test_one_gc_at_a_time_and_none_is_taken_for_a_queue_worker(over: Batch) -> None:
    """While one looks or removes, a second one is refused, and a queue worker can begin."""
    (_, two) = over.clones()
    (root,) = over.ralph_dir.glob("batch/*")
    index = two / ".git" / "index"
    index.unlink()
    os.mkfifo(index)  # git waits for somebody who writes to it
    with over.runs.start("gc", "--delete", cwd=over.root) as first:
        wait_until(lambda: holder_of(root / "gc.lock") is not None, "it looks")
        second = over.runs("gc", "--delete", cwd=over.root)
        assert (second.exit_code, second.stdout) == (2, "")
        assert f"process {first.pid} is removing clones of this queue already" in second.stderr
        assert json.loads(over.runs("resume", "--json", cwd=over.root).stdout)["served"] is False
        served = over.run()
        assert (served.exit_code, served.stderr) == (0, "")
        os.close(os.open(index, os.O_WRONLY))
        done = first.wait()
    assert done.exit_code == 0
    assert "its index cannot be read" in done.stdout
    assert two.exists()


def test_without_a_queue_nothing_is_made(ralph_runs: Ralph, world: Path) -> None:
    said = ralph_runs("gc", "--delete")
    assert (said.exit_code, said.stdout) == (0, "nothing to remove\n")
    for wrong in (["gc", "--now"], ["gc", "g1"], ["gc", "--db", "nonsense"]):
        assert ralph_runs(*wrong).exit_code == 2
    assert not (world / "ralph").exists()


@pytest.mark.long
def test_gc_says_where_it_has_saved_what_was_only_in_a_clone(over: Batch) -> None:
    two = over.clones()[1]
    (two / "loose.txt").write_text("loose\n")
    (two / "large.bin").write_bytes(random.Random(1).randbytes(3_000_000))
    git(two, "-c", "user.name=x", "-c", "user.email=x@y", "commit", "--quiet", "--allow-empty", "-mdropped")
    git(two, "reset", "--quiet", "HEAD^")
    said = over.runs("gc", "--delete", cwd=over.root)
    assert (said.exit_code, said.stderr) == (0, "")
    told = [line.strip() for line in said.stdout.splitlines()]
    kept = re.compile(r"what was only there is kept, 3\.\d MB of it in the mirrors now; look at it with:")
    look = told[[bool(kept.fullmatch(line)) for line in told].index(True) + 1 :]
    shown = [run_command(line) for line in look[:2]]
    assert any("dropped" in text for text in shown)
    assert any("+loose" in text for text in shown)
    assert look[2] == ""
    (command,) = [
        line for line in over.runs("show", "two", cwd=over.root).stdout.splitlines() if "for-each-ref" in line
    ]
    assert len(run_command(command.partition(" ")[2].strip()).splitlines()) == 2


def run_command(line: str) -> str:
    """What a command that the user is told prints."""
    return subprocess.run(shlex.split(line), capture_output=True, text=True, check=True).stdout
