"""`ralph-runs gc` as its user sees it: what can go, what stays and why; `--delete` and `--force` alone remove it."""

from __future__ import annotations

import json
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ralph.queue.database import default_url
from ralph.queue.open import sole_worker
from ralph.state.lock import holder_of
from tests.support.batches import Batch, says, shell, wrote
from tests.support.git_repos import git, make_repo
from tests.support.ralph_process import Ralph
from tests.support.terminal import InTerminal
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
    assert (said.exit_code, said.complaints) == (0, "")
    lines = said.stdout.splitlines()
    assert lines[0].startswith("can go: ")
    assert lines[1].split()[:2] == ["g2", "two"]
    assert lines[1].endswith("it is cancelled")
    (kept,) = [line for line in lines if " one " in line]
    assert kept.endswith(
        "it is done, but it contains another repository in ignored/lib, whose history may exist nowhere else"
    )
    assert any(line.strip().startswith("mirrors ") and "the only copies" in line for line in lines)
    assert any(line.strip().startswith("runs ") and "never removed" in line for line in lines)
    assert lines[-3].startswith("remove it with: ralph-runs gc --delete")
    assert lines[-1] == "to remove a clone that stays: ralph-runs gc --force ID (it lists what would be lost, and asks)"
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
    assert "works on the queue and may be using it" in busy["why"]
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
    git(clone, "-c", "user.name=x", "-c", "user.email=x@y", "commit", "--quiet", "--allow-empty", "-mlost")
    lost = git(clone, "rev-parse", "HEAD")
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
    a_link: "it is not a directory",
    broken: "its git repository is broken: fatal: .*",
    no_branch: "branch ralph/two or part of its history is missing",
    worktree: "it has another worktree in .*/tree",
    broken_object: "its object [0-9a-f]{12} is broken",
    broken_index: "its index cannot be read: .*",
    fetched: "it contains another repository in ignored/fetched, whose history may exist nowhere else",
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
    assert why["mine"] == "belongs to no goal of this queue"
    assert over.runs("retry", "two", cwd=over.root).exit_code == 0
    (two.parent / two.name).mkdir()
    said = over.runs("gc", cwd=over.root).stdout
    assert "it is queued: its next attempt continues in it" in said
    assert over.runs("cancel", "two", cwd=over.root).exit_code == 0
    (mirror,) = over.ralph_dir.glob("mirrors/local/*.git")
    mirror.rename(mirror.with_name("elsewhere"))
    said = over.runs("gc", "--delete", cwd=over.root)
    assert said.stdout.startswith("nothing to remove\n")
    assert said.stdout.count("its mirror is gone, so its work exists nowhere else") == len(REASONS) + 2


@pytest.mark.long
def test_one_gc_at_a_time_and_none_is_taken_for_a_queue_worker(over: Batch) -> None:
    """While one looks or removes, a second one is refused, and a queue worker can begin."""
    (_, two) = over.clones()
    (root,) = over.ralph_dir.glob("batch/*")
    waits = over.root / "waits"
    os.mkfifo(waits)
    slow = over.root / "slow" / "git"
    slow.parent.mkdir()
    waiting = f'case "$*" in *--batch-all-objects*) test ! -p {waits} || cat {waits} ;; esac'
    slow.write_text(f'#!/bin/sh\n{waiting}\nexec {shutil.which("git")} "$@"\n')
    slow.chmod(0o755)
    path = f"{slow.parent}:{over.runs.env['PATH']}"
    with over.runs.start("gc", "--delete", cwd=over.root, env={"PATH": path}) as first:
        wait_until(lambda: holder_of(root / "gc.lock") is not None, "it looks")
        second = over.runs("gc", "--delete", cwd=over.root)
        assert (second.exit_code, second.stdout) == (2, "")
        assert f"cannot remove clones: process {first.pid} is already doing so" in second.stderr
        assert json.loads(over.runs("resume", "--json", cwd=over.root).stdout)["served"] is False
        served = over.run()
        assert (served.exit_code, served.complaints) == (0, "")
        assert two.exists()
        writes = os.open(waits, os.O_WRONLY)
        waits.unlink()
        os.close(writes)
        done = first.wait()
    assert done.exit_code == 0
    assert not two.exists()


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
    assert (said.exit_code, said.complaints) == (0, "")
    told = [line.strip() for line in said.stdout.splitlines()]
    kept = re.compile(r"saved work that existed only there, 3\.\d MB of it now in the mirrors; list it with:")
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


def test_force_says_what_is_lost_and_removes_the_clones_that_are_named(over: Batch) -> None:
    """A repository inside it is lost; what is not committed is saved; whatever else there is stays."""
    one, two = over.clones()
    (one / "loose.txt").write_text("loose\n")
    before = everything(over.ralph_dir)
    said = over.runs("gc", "--force", "one", "--dry-run", cwd=over.root)
    assert (said.exit_code, said.complaints) == (0, "")
    lines = [line.split("  ") for line in said.stdout.splitlines()]
    assert ["", "g1 one", "git repository", "ignored/lib"] in lines
    planned = json.loads(over.runs("gc", "--force", "g1", "--dry-run", "--json", cwd=over.root).stdout)
    (gone,) = planned["goes"]
    assert (planned["deleted"], gone["goal"], gone["path"]) == (False, "g1", str(one))
    why = "it contains another repository in ignored/lib, whose history may exist nowhere else"
    assert gone["unsaved"] == [{"what": "repositories", "items": ["ignored/lib"], "why": why}]
    assert everything(over.ralph_dir) == before

    done = over.runs("gc", "--force", "one", cwd=over.root)
    assert (done.exit_code, done.complaints) == (0, "")
    told = [line.strip() for line in done.stdout.splitlines()]
    assert told.index("lost for good, along with files that git ignores:") < [
        line.startswith("removed: ") for line in told
    ].index(True)
    (look,) = [line for line in told if "refs/ralph/leftovers/" in line]
    assert "+loose" in run_command(look)
    assert (one.exists(), two.exists()) == (False, True)
    again = over.runs("gc", "--force", "one", cwd=over.root)
    assert (again.exit_code, again.stdout) == (0, "nothing to remove\n")


def test_what_stays_for_any_other_reason_goes_by_force_and_is_named(over: Batch) -> None:
    """With the clone of a goal go those that were set aside; their mirror keeps what it can."""
    two = over.clones()[1]
    tips: list[str] = []
    for number, deed in enumerate(REASONS, 1):
        aside = two.with_name(f"{two.name}.broken-{number}")
        shutil.copytree(two, aside, symlinks=True)
        tips.append(work(aside, {"more.txt": f"{number}"}))
        (aside / "loose.txt").write_text(f"loose {number}")
        deed(aside)
    assert over.runs("retry", "two", cwd=over.root).exit_code == 0  # it is queued, and so is no clone of its own spared
    done = over.runs("gc", "--force", "two", cwd=over.root)
    assert (done.exit_code, done.complaints) == (0, "")
    assert [clone.name for clone in over.clones()] == ["g1-one"]
    lost = done.stdout.partition("lost for good, along with files that git ignores:")[2].partition("\n\n")[0]
    for words in (
        "what is in its place  it is not a directory",
        "what git cannot read  its git repository is broken",
        "working tree          .*/tree\n",
        "what git cannot read  its index cannot be read",
        "what git cannot read  its object [0-9a-f]{12} is broken\n",
        "git repository        ignored/fetched\n",
        "file                  README.md\n",
    ):
        assert re.search(words, lost + "\n"), (words, lost)
    (mirror,) = over.ralph_dir.glob("mirrors/local/*.git")
    kept = git(mirror, "rev-list", "--all").split()
    spared = [number for number, tip in enumerate(tips, 1) if tip not in kept]
    assert spared == [1]  # of a link there is nothing to keep
    leftovers = git(mirror, "for-each-ref", "--format=%(refname)", "refs/ralph/leftovers").split()
    texts = {git(mirror, "show", f"{ref}:loose.txt") for ref in leftovers}
    assert texts == {f"loose {number}" for number in range(2, len(REASONS) + 1)}


def test_force_removes_what_has_no_mirror_any_more(over: Batch) -> None:
    one, two = over.clones()
    (mirror,) = over.ralph_dir.glob("mirrors/local/*.git")
    mirror.rename(mirror.with_name("elsewhere"))
    done = over.runs("gc", "--force", "one", "two", cwd=over.root)
    assert (done.exit_code, done.complaints) == (0, "")
    assert done.stdout.count("everything  its mirror is gone") == 2
    assert (one.exists(), two.exists()) == (False, False)


def test_in_a_terminal_force_asks(over: Batch) -> None:
    one = over.clones()[0]
    argv = [sys.executable, "-P", "-m", "ralph.cli.runs", "gc", "--force", "one"]
    for answer, code in (("n\n", 1), ("\n", 1), ("\x04", 1), ("\x03", 130), ("y\n", 0)):
        assert one.exists()
        with InTerminal(argv, over.root, over.runs.env, columns=200) as asked:
            asked.shows("remove it? [y/N]")
            assert "git repository  ignored/lib" in asked.text
            asked.press(answer)
            assert asked.wait() == code
            assert ("nothing was removed" in asked.text) == (code == 1)
    assert not one.exists()


def test_bad_input_removes_nothing(over: Batch) -> None:
    before = everything(over.ralph_dir)
    refused = {
        "--force": "--force needs at least one goal",
        "--force g9": "there is no goal g9",
        "--force one nobody": "there is no goal nobody",
        "one": "goals can be given only with --force: one",
        "--dry-run one": "goals can be given only with --force: one",
        "--delete --force one": "--delete cannot be combined with --force or --dry-run",
        "--delete --dry-run": "--delete cannot be combined with --force or --dry-run",
    }
    for words, why in refused.items():
        said = over.runs("gc", *words.split(), cwd=over.root)
        assert (said.exit_code, said.stdout) == (2, "")
        assert f"error: {why}" in said.stderr
    assert everything(over.ralph_dir) == before


def test_force_without_a_queue_is_refused(ralph_runs: Ralph, world: Path) -> None:
    said = ralph_runs("gc", "--force", "g1")
    assert (said.exit_code, said.stdout) == (2, "")
    assert not (world / "ralph").exists()


def test_a_goal_that_is_at_work_or_being_merged_keeps_its_clone(batch: Batch) -> None:
    """Whatever else is named: nothing is removed. The clone that stays after the merge, and how it goes, are told."""
    root = batch.root
    waits = "case $PWD in *checkouts*) touch {0}/merging; until [ -e {0}/go-on ]; do sleep 0.05; done;; esac"
    batch.upstream(check=f"#!/bin/sh\n{waits.format(root)}\n", files={".gitignore": "ignored/\n"})
    agent = shell(f"git init -q ignored/lib; touch {root}/at-work; until [ -e {root}/on ]; do sleep 0.05; done")
    batch.goal("one", [[agent, *wrote("one")[0]]], repo="upstream")
    batch.goal("two", [[says("not yet")]], repo="upstream", max_iterations=1)
    assert batch.run(root / "goals" / "two.md").exit_code == 1
    with batch.start(root / "goals" / "one.md") as running:
        wait_until((root / "at-work").exists, "the agent works")
        for words in (["one"], ["two", "one"]):
            said = batch.runs("gc", "--force", *words, cwd=root)
            assert (said.exit_code, said.stdout) == (2, "")
            assert "error: cannot remove the clone of g2 one: the goal is running" in said.stderr
        (root / "on").touch()
        wait_until((root / "merging").exists, "it is merged")
        said = batch.runs("gc", "--force", "two", "one", cwd=root)
        assert (said.exit_code, said.stdout) == (2, "")
        assert "error: cannot remove the clone of g2 one: the goal is being merged" in said.stderr
        assert len(batch.clones()) == 2
        (root / "go-on").touch()
        done = running.wait()
    assert batch.states() == {"one": "done", "two": "stuck"}
    assert "its clone stays: " in done.stdout + done.stderr
    assert "remove it anyway with: ralph-runs gc --force g2" in done.stdout + done.stderr
    assert batch.runs("gc", "--force", "one", "two", cwd=root).exit_code == 0
    assert batch.clones() == []


@pytest.mark.parametrize("finishes", [["--force", "two"], ["--delete"], []], ids=" ".join)
def test_kill_9_in_the_middle_of_a_removal_leaves_nothing_half_believed(over: Batch, finishes: list[str]) -> None:
    """What is left has another name; whoever comes next removes it, and the goal goes on in a clone of its own."""
    two = over.clones()[1]
    going = two.with_name(f".{two.name}.going")
    for name in ("a", "b"):
        (two / "ignored" / name).mkdir(parents=True)
        for number in range(10_000):
            (two / "ignored" / name / str(number)).touch()
    make_repo(two / "ignored" / "lib", {"x.txt": "x"})
    tip = work(two, {"more.txt": "more"})
    with over.runs.start("gc", "--force", "two", cwd=over.root) as removing:
        wait_until(lambda: not two.exists(), "the clone is being removed")
        removing.send(signal.SIGKILL)
        assert removing.wait().exit_code == -signal.SIGKILL
    assert going.exists()
    said = over.runs("gc", cwd=over.root).stdout
    assert f"{going.relative_to(over.ralph_dir)} " in said.partition("stays:")[0]
    assert "two" not in said.partition("stays:")[2]
    if finishes:
        finished = over.runs("gc", *finishes, cwd=over.root)
        assert (finished.exit_code, finished.complaints, going.exists()) == (0, "", False)
    over.runs("retry", "two", cwd=over.root)
    over.run()
    assert not going.exists()
    # After it, the merge of main and the iteration that the limit allows each attempt.
    assert git(over.clones()[1], "rev-parse", "HEAD~2") == tip
