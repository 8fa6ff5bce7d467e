"""A disk that is full, read-only or broken: one clear message, nothing wrong on disk, and the next start goes on."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import tools
from tests.support.forms import POINTS
from tests.support.git_repos import commits, git, make_repo
from tests.support.goals import raw_logs, result, write_check, write_goal
from tests.support.ralph_process import Finished, Ralph
from tests.support.scripted_agent import ClaudeScript, Step, raw, run, say, summary, write
from tests.support.sweep import Point, make_run, spread, trace, violations

Mount = Callable[[Path, str], Path]


@pytest.fixture
def mount() -> Iterator[Mount]:
    """Mount small file systems in memory, which are gone when the test ends."""
    tools.mounting()
    mounted: list[Path] = []

    def make(directory: Path, size: str) -> Path:
        directory.mkdir(parents=True, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "tmpfs", directory], check=True)
        mounted.append(directory)
        return directory

    yield make
    for directory in reversed(mounted):
        subprocess.run(["umount", "--lazy", directory], check=True)


@pytest.fixture
def state_disk(world: Path, mount: Mount) -> Path:
    """`$RALPH_DIR`, as a disk of its own."""
    return mount(world / "ralph", "1m")


@pytest.fixture(autouse=True)
def goal(repo: Path) -> Path:
    return write_goal(repo)


def fill(disk: Path) -> Path:
    """Leave no byte free."""
    path = disk / "fill"
    with path.open("wb", buffering=0) as file:
        for size in (4096, 1):
            try:
                while file.write(b"x" * size):
                    pass
            except OSError:
                pass
    return path


def fill_step(disk: Path) -> Step:
    """Let the agent fill the disk."""
    return run(f"dd if=/dev/zero of={disk}/fill bs=4096 2>/dev/null; true")


def assert_clear(done: Finished, exit_code: int, path: Path, words: str) -> None:
    """The message names the place and the fault, and is no traceback."""
    said = " ".join(done.stderr.split())
    assert done.exit_code == exit_code, done
    assert str(path) in said
    assert words in said
    assert "Traceback" not in done.stdout + done.stderr


def numbers(repo: Path) -> list[str]:
    return [commit.trailers["Ralph-Iteration"] for commit in commits(repo)[1:]]


def test_a_disk_that_is_full_at_the_start(
    repo: Path, state_disk: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    agent = claude_script([summary("DONE")])
    filler = fill(state_disk)

    done = ralph("run", "goal.md")

    assert_clear(done, 2, state_disk, "No space left on device")
    assert not agent.starts
    assert len(commits(repo)) == 1

    filler.unlink()
    assert ralph("run", "goal.md").exit_code == 0


def test_a_disk_that_is_full_when_a_run_is_continued(
    repo: Path, state_disk: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    agent = claude_script([summary("one")], [summary("DONE")])
    assert ralph("run", "goal.md", "--max-iterations", "1").exit_code == 4
    filler = fill(state_disk)

    done = ralph("run", "goal.md")

    assert_clear(done, 2, state_disk, "No space left on device")
    assert len(agent.starts) == 1

    filler.unlink()
    done = ralph("run", "goal.md")
    assert (done.exit_code, numbers(repo)) == (0, ["1", "2"])
    assert result(repo)["cost_usd"] == pytest.approx(0.02)


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param([say("and now"), summary("two")], id="between"),
        pytest.param([raw(b'{"type":"system","subtype":"status"}\n' * 20_000), summary("two")], id="by the raw log"),
    ],
)
def test_a_disk_that_fills_up_in_the_middle(
    repo: Path, state_disk: Path, ralph: Ralph, claude_script: ClaudeScript, steps: list[Step]
) -> None:
    agent = claude_script([write("a.txt", "a"), summary("one")], [fill_step(state_disk), *steps], [summary("DONE")])

    done = ralph("run", "goal.md")

    assert_clear(done, 1, state_disk, "No space left on device")
    assert len(agent.starts) == 2
    assert numbers(repo) in (["1"], ["1", "2"])
    finished = numbers(repo)
    assert git(repo, "status", "--porcelain") == "?? goal.md"

    (state_disk / "fill").unlink()
    for log in raw_logs(repo)[1:]:
        if log.stat().st_size > 500_000:
            log.write_bytes(log.read_bytes()[:1000])  # what it takes must be free again, too
    done = ralph("run", "goal.md")
    assert done.exit_code == 0, done
    assert numbers(repo) == [*finished, str(len(finished) + 1)]
    assert result(repo)["iterations"] == len(finished) + 1


def test_a_disk_that_fills_up_under_the_repository(
    tmp_path: Path, mount: Mount, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    disk = mount(tmp_path / "disk", "2m")
    repo = make_repo(disk / "repo", {"README.md": "# Example\n"})
    write_goal(repo)
    (repo / ".git" / "info" / "exclude").write_text("/fill\n")
    claude_script(
        [summary("one")],
        [write("a.txt", os.urandom(20_000).hex()), fill_step(repo), summary("two")],
        [summary("DONE")],
    )

    done = ralph("run", "goal.md", cwd=repo)

    assert_clear(done, 1, repo, "git")
    assert numbers(repo) == ["1"]

    (repo / "fill").unlink()
    done = ralph("run", "goal.md", cwd=repo)
    assert (done.exit_code, numbers(repo)) == (0, ["1", "2"]), done
    assert git(repo, "show", "--name-only", "--format=") == "a.txt"
    git(repo, "fsck", "--strict")


@pytest.mark.parametrize("continued", [False, True], ids=["a new run", "a continued run"])
def test_a_disk_that_is_read_only(
    repo: Path, state_disk: Path, ralph: Ralph, claude_script: ClaudeScript, continued: bool
) -> None:
    agent = claude_script([summary("one")], [summary("DONE")])
    if continued:
        assert ralph("run", "goal.md", "--max-iterations", "1").exit_code == 4
    started = len(agent.starts)
    subprocess.run(["mount", "-o", "remount,ro", state_disk], check=True)

    done = ralph("run", "goal.md")

    assert_clear(done, 2, state_disk, "Read-only file system")
    assert len(agent.starts) == started

    subprocess.run(["mount", "-o", "remount,rw", state_disk], check=True)
    assert ralph("run", "goal.md").exit_code == 0
    assert numbers(repo) == ["1", "2"]


def test_a_disk_with_no_room_for_a_scouts_clone(
    repo: Path, state_disk: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    agent = claude_script([summary("a map")])
    (repo / "large.bin").write_bytes(b"x" * 1_200_000)

    done = ralph("understand")

    assert_clear(done, 2, state_disk, "No space left on device")
    assert not agent.starts
    assert not list(state_disk.glob("runs/*/.understand/clone"))

    (repo / "large.bin").unlink()
    assert ralph("understand").exit_code == 0


def test_a_repository_that_is_read_only_is_not_mapped(
    tmp_path: Path, mount: Mount, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    agent = claude_script([summary("a map")])
    disk = mount(tmp_path / "disk", "1m")
    repo = make_repo(disk / "repo", {"a.txt": "a"})
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)

    done = ralph("understand", cwd=repo)

    assert_clear(done, 2, repo, "is not writable")
    assert not agent.starts


def test_windows_that_cannot_be_written_do_not_matter(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    claude_script([summary("one")], [summary("DONE")])
    (repo / ".ralph").mkdir()
    (repo / ".ralph" / "state").write_text("in the way\n")

    assert ralph("run", "goal.md").exit_code == 0


FAULTS = {
    "ENOSPC at a write": ("write", "ENOSPC", ""),
    "ENOSPC from a write on": ("write", "ENOSPC", "+"),
    "EIO at an fsync": ("fsync", "EIO", ""),
    "ENOSPC from a rename on": ("rename", "ENOSPC", "+"),
}


@pytest.mark.long
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_the_disk_at_any_call_is_no_bug_and_the_next_start_goes_on(
    tmp_path: Path, ralph: Ralph, fault: str
) -> None:
    strace = tools.strace()
    call, error, onward = FAULTS[fault]
    points = [point for point in trace(tmp_path / "clean", ralph, strace) if point.call == call]
    wrong: list[str] = []
    for number, point in enumerate(spread(points, max(2, POINTS // 10))):
        wrong += _fault(tmp_path / str(number), ralph, strace, point, f"error={error}:when={point.number}{onward}")

    assert not wrong, "\n".join(wrong)


def _fault(directory: Path, ralph: Ralph, strace: str, point: Point, fault: str) -> list[str]:
    """Let one call fail, then go on without; say all that is wrong."""
    run = make_run(directory, ralph)
    write_check(run.repo)
    under = [strace, "-o", "/dev/null", "-e", f"trace={point.call}", "-e", f"inject={point.call}:{fault}"]
    first = run.stage.ralph("run", "goal.md", under=under)
    where = f"{fault} at {point}\n    "
    if first.exit_code not in (0, 1, 2) or "Traceback" in first.stdout + first.stderr:
        return [f"{where}exit {first.exit_code}: {first.stdout[-1000:]}{first.stderr[-1000:]}"]
    before = commits(run.repo)
    if first.exit_code != 0:
        again = run.stage.ralph("run", "goal.md")
        if again.exit_code != 0:
            return [f"{where}the next start exited {again.exit_code}: {again.stdout[-1000:]}{again.stderr[-1000:]}"]
    # Windows are nothing to rely on: what could not be written to them in the end is not written.
    return [where + found for found in violations(run, before) if not found.startswith("budget.json")]
