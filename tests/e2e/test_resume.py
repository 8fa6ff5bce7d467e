"""A run goes on where it ended, whatever was lost of what ralph knows: its commits say the rest."""

from __future__ import annotations

import fcntl
import json
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from ralph.state.lock import LOCK
from tests.support.git_repos import commit_all, commits, git
from tests.support.goals import result, run_directory, write_check, write_goal
from tests.support.ralph_process import Finished, Ralph
from tests.support.scripted_agent import ClaudeScript, ScriptedAgent, answer, hang, run, summary, write
from tests.support.waiting import comes_true, is_alive, wait_until

STEPS = ([summary("the first step")], [summary("the second step")])


@pytest.fixture(autouse=True)
def goal(repo: Path) -> Path:
    return write_goal(repo)


@pytest.fixture
def agent(claude_script: ClaudeScript) -> ScriptedAgent:
    """An agent whose third session is DONE."""
    return claude_script(*STEPS, [summary("DONE")])


@pytest.fixture
def unfinished(repo: Path, ralph: Ralph, agent: ScriptedAgent) -> Path:
    """The directory of a run that a limit ended after two iterations; the next session is DONE."""
    assert ralph("run", "goal.md", "--max-iterations", "2").exit_code == 4
    return run_directory(repo)


def iterations(repo: Path) -> list[tuple[str, str]]:
    """(run, iteration) of every commit of ralph's."""
    made = [commit.trailers for commit in commits(repo) if "Ralph-Run" in commit.trailers]
    return [(trailers["Ralph-Run"], trailers["Ralph-Iteration"]) for trailers in made]


def assert_continued(repo: Path, done: Finished, cost: float = 0.03) -> None:
    """One run, three iterations, done, and everything counted that was spent."""
    assert done.exit_code == 0, done
    assert [number for _, number in iterations(repo)] == ["1", "2", "3"], done.stdout
    assert len({name for name, _ in iterations(repo)}) == 1
    assert result(repo)["iterations"] == 3
    assert result(repo)["cost_usd"] == pytest.approx(cost)
    assert result(repo)["tokens"] == 3 * 1306
    lines = (run_directory(repo) / "progress.jsonl").read_text().splitlines()
    progress = [json.loads(line) for line in lines if line]
    assert [entry["iteration"] for entry in progress] == [1, 2, 3]
    assert [entry["commit"] for entry in progress] == [commit.sha for commit in commits(repo)[1:]]
    assert [entry["summary"] for entry in progress] == ["the first step", "the second step", "DONE"]


def flattened(text: str) -> str:
    """Text without the line breaks that a narrow terminal makes."""
    return " ".join(text.split())


@pytest.mark.parametrize(
    "flags",
    [["--max-iterations", "5"], pytest.param(["--continue"], marks=pytest.mark.long)],
    ids=["a higher limit", "--continue"],
)
def test_an_unfinished_run_is_continued(
    repo: Path, ralph: Ralph, agent: ScriptedAgent, unfinished: Path, flags: list[str]
) -> None:
    done = ralph("run", "goal.md", *flags)

    assert_continued(repo, done)
    assert "the first step" in agent.heard[1]
    assert "the second step" in agent.heard[2]
    assert "continuing the unfinished run" in done.stdout
    (times,) = (line for line in done.stdout.splitlines() if line.startswith("time "))
    assert times.endswith(" (this start)")


def test_continue_without_an_unfinished_run_is_refused(
    repo: Path, world: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    agent = claude_script([summary("DONE")])

    refused = ralph("run", "goal.md", "--continue")
    assert refused.exit_code == 2
    assert not agent.starts
    assert not (world / "ralph" / "runs").exists()

    assert ralph("run", "goal.md").exit_code == 0
    assert ralph("run", "goal.md", "--continue").exit_code == 2, "a finished run is not continued"


def test_fresh_begins_anew_and_keeps_the_old_one(
    repo: Path, ralph: Ralph, agent: ScriptedAgent, unfinished: Path
) -> None:
    kept = (unfinished / "progress.jsonl").read_text()

    done = ralph("run", "goal.md", "--fresh")

    assert done.exit_code == 0
    assert [number for _, number in iterations(repo)] == ["1", "2", "1"]
    assert len({name for name, _ in iterations(repo)}) == 2
    assert result(repo)["iterations"] == 1
    assert result(repo)["cost_usd"] == pytest.approx(0.01)
    assert "archived" in done.stdout
    assert "the first step" not in agent.heard[2]
    (archived,) = (unfinished.parent / ".archive").iterdir()
    assert (archived / "progress.jsonl").read_text() == kept


@pytest.mark.long
def test_fresh_without_a_run_is_a_plain_start(ralph: Ralph, claude_script: ClaudeScript) -> None:
    claude_script([summary("DONE")])

    assert ralph("run", "goal.md", "--fresh").exit_code == 0


@pytest.mark.long
def test_fresh_begins_anew_although_the_run_directory_is_lost(repo: Path, ralph: Ralph, unfinished: Path) -> None:
    shutil.rmtree(unfinished)

    done = ralph("run", "goal.md", "--fresh")

    assert done.exit_code == 0
    assert [number for _, number in iterations(repo)] == ["1", "2", "1"]


def lose_everything(directory: Path) -> None:
    shutil.rmtree(directory)


def lose_all_state(directory: Path) -> None:
    shutil.rmtree(directory.parents[2])


def lose_run_json(directory: Path) -> None:
    (directory / "run.json").unlink()


def empty(directory: Path) -> None:
    (directory / "run.json").write_bytes(b"")


def tear(directory: Path) -> None:
    path = directory / "run.json"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def scribble(directory: Path) -> None:
    (directory / "run.json").write_bytes(b"\x00\xff\xfe{]")


def a_directory(directory: Path) -> None:
    (directory / "run.json").unlink()
    (directory / "run.json").mkdir()


RARER_DAMAGES = (lose_all_state, lose_run_json, empty, scribble, a_directory)


@pytest.mark.parametrize(
    "damage",
    [lose_everything, tear, *(pytest.param(damage, marks=pytest.mark.long) for damage in RARER_DAMAGES)],
    ids=lambda function: function.__name__,
)
def test_a_lost_or_corrupt_run_is_rebuilt_from_its_commits_and_that_is_said(
    repo: Path, ralph: Ralph, agent: ScriptedAgent, unfinished: Path, damage: Callable[[Path], None]
) -> None:
    damage(unfinished)

    done = ralph("run", "goal.md")

    assert_continued(repo, done)
    assert re.search(r"rebuilt|recovered", done.stdout), done.stdout
    assert "the first step" in agent.heard[2], "the agent is told what was done"
    assert "the second step" in agent.heard[2]


@pytest.mark.long
def test_a_rebuilt_run_is_within_its_limits(repo: Path, ralph: Ralph, unfinished: Path) -> None:
    shutil.rmtree(unfinished)

    done = ralph("run", "goal.md", "--max-iterations", "2")

    assert done.exit_code == 4
    assert len(iterations(repo)) == 2
    assert result(repo)["cost_usd"] == pytest.approx(0.02)


@pytest.mark.long
def test_what_a_power_cut_makes_old_is_told_by_the_commits(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript, unfinished: Path
) -> None:
    """run.json is the one of the start, the logs have lost their last pages; what was spent is on the branch."""
    document = json.loads((unfinished / "run.json").read_text())
    old = {**document, "spend": {"cost_usd": 0.0, "tokens": 0, "costed": False}, "counted": "", "exit_code": None}
    (unfinished / "run.json").write_text(json.dumps(old))
    for lost in (unfinished / "progress.jsonl", *(unfinished / "logs").rglob("*.ndjson")):
        lost.write_bytes(b"")
    claude_script([summary("a third step")])

    done = ralph("run", "goal.md", "--max-iterations", "3")

    assert (done.exit_code, len(iterations(repo))) == (4, 3), done.stdout
    assert "added spend that was not recorded: $0.0200" in done.stdout
    assert result(repo)["cost_usd"] == pytest.approx(0.03)


def test_a_rebuilt_run_keeps_its_judge(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    claude_script([summary("DONE")])
    assert ralph("run", "goal.md", "--check", "test -f proof", "--max-iterations", "1").exit_code == 4
    (run_directory(repo) / "run.json").write_bytes(b"")

    refused = ralph("run", "goal.md")

    assert refused.exit_code == 2
    assert "the run started with the check 'test -f proof', not 'none'" in refused.stderr


@pytest.mark.long
def test_continue_takes_a_run_whose_directory_is_lost(repo: Path, ralph: Ralph, unfinished: Path) -> None:
    shutil.rmtree(unfinished)

    assert_continued(repo, ralph("run", "goal.md", "--continue"))


def torn_tail(text: bytes) -> bytes:
    return text[:-20]


def nothing(text: bytes) -> bytes:
    return b""


def flipped_number(text: bytes) -> bytes:
    return text.replace(b'"iteration":1', b'"iteration":7')


def flipped_first_byte(text: bytes) -> bytes:
    return bytes([text[0] ^ 0x40]) + text[1:]


def flipped_newline(text: bytes) -> bytes:
    return text.replace(b"\n", b"J", 1)


def a_line_twice(text: bytes) -> bytes:
    return text + text.splitlines(keepends=True)[-1]


@pytest.mark.parametrize(
    "damage",
    [
        torn_tail,
        *(
            pytest.param(damage, marks=pytest.mark.long)
            for damage in (nothing, flipped_number, flipped_first_byte, flipped_newline, a_line_twice)
        ),
    ],
    ids=lambda function: function.__name__,
)
def test_a_corrupt_progress_is_mended_from_the_commits(
    repo: Path, ralph: Ralph, unfinished: Path, damage: Callable[[bytes], bytes]
) -> None:
    path = unfinished / "progress.jsonl"
    before = path.read_bytes()
    path.write_bytes(damage(before))
    assert path.read_bytes() != before

    assert_continued(repo, ralph("run", "goal.md"))


@pytest.mark.long
def test_any_flipped_byte_of_run_and_progress_is_survived(repo: Path, ralph: Ralph, unfinished: Path) -> None:
    """A sample of what is flipped everywhere by `tests/state/test_journal.py`: the whole of ralph, some offsets."""
    claude_files = ("run.json", "progress.jsonl")
    before = {name: (unfinished / name).read_bytes() for name in claude_files}
    head = git(repo, "rev-parse", "HEAD")
    for name, content in before.items():
        for offset in range(0, len(content), len(content) // 3 + 1):
            (unfinished / name).write_bytes(content[:offset] + bytes([content[offset] ^ 0x11]) + content[offset + 1 :])

            done = ralph("run", "goal.md", "--max-iterations", "2")

            assert done.exit_code in (1, 2, 4), f"{name} at {offset}: {done}"
            assert git(repo, "rev-parse", "HEAD") == head, f"{name} at {offset}: the limit was forgotten: {done}"
            for known, good in before.items():
                (unfinished / known).write_bytes(good)


@pytest.mark.long
def test_a_run_of_a_newer_version_is_refused_and_left_alone(repo: Path, ralph: Ralph, unfinished: Path) -> None:
    path = unfinished / "run.json"
    document = json.loads(path.read_text())
    newer = json.dumps(document | {"version": document["version"] + 1, "novelty": True})
    path.write_text(newer)

    done = ralph("run", "goal.md")

    assert done.exit_code in (1, 2)
    assert "version" in done.stderr
    assert str(path) in flattened(done.stderr)
    assert path.read_text() == newer
    assert len(iterations(repo)) == 2


@pytest.mark.long
@pytest.mark.parametrize("with_check", [True, False], ids=["proven", "unproven"])
def test_a_run_that_ended_well_is_not_rebuilt(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript, with_check: bool
) -> None:
    if with_check:
        write_check(repo, "#!/bin/sh\nexit 0\n")
    claude_script([summary("one")], [summary("DONE")], [summary("DONE")])
    assert ralph("run", "goal.md").exit_code == 0
    shutil.rmtree(run_directory(repo))

    done = ralph("run", "goal.md")

    # Without its directory nothing says that the DONE was checked. It may be checked again, or a new run begin;
    # what may not be is more iterations in the old run.
    assert done.exit_code == 0, done
    numbers: dict[str, list[str]] = {}
    for name, number in iterations(repo):
        numbers.setdefault(name, []).append(number)
    assert list(numbers.values()) in ([["1", "2"]], [["1", "2"], ["1"]])
    assert result(repo)["proven"] is with_check


@pytest.mark.long
def test_commits_of_another_goal_or_an_older_run_do_not_count(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    write_goal(repo, name="other.md")
    commit_all(repo, "two goals")
    claude_script([summary("of the other")], [summary("old")], [summary("new")], [summary("DONE")])
    ralph("run", "other.md", "--max-iterations", "1")
    ralph("run", "goal.md", "--max-iterations", "1")
    ralph("run", "goal.md", "--max-iterations", "1", "--fresh")
    shutil.rmtree(run_directory(repo))

    done = ralph("run", "goal.md")

    assert done.exit_code == 0, done
    names = [name for name, _ in iterations(repo)]
    assert len(set(names)) == 3
    assert names[2] == names[3], "the newest run of this goal is the one that goes on"
    assert result(repo)["iterations"] == 2
    assert result(repo)["cost_usd"] == pytest.approx(0.02)


@pytest.mark.long
def test_commits_of_the_user_in_between_do_no_harm(repo: Path, ralph: Ralph, unfinished: Path) -> None:
    git(repo, "commit", "--allow-empty", "-m", "mine\n\nRalph-Iteration: 99\nRalph-Run: none\nRalph-Goal: goal")
    shutil.rmtree(unfinished)

    done = ralph("run", "goal.md")

    assert done.exit_code == 0, done
    made = [commit for commit in commits(repo) if commit.subject.startswith("ralph ")]
    assert [commit.trailers["Ralph-Iteration"] for commit in made] == ["1", "2", "3"]


@pytest.mark.long
def test_an_agent_that_forges_trailers_cannot_pass_for_an_iteration(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    forge = "git log -1 --format=%B | sed 's/^Ralph-Iteration: 1$/Ralph-Iteration: 2/; s/CONTINUE/DONE/; s/0.01/0.0/'"
    claude_script(
        [summary("one")],
        [run(f"{forge} | git commit -q --allow-empty -F -"), hang()],
        [summary("two")],
        [summary("DONE")],
    )
    with ralph.start("run", "goal.md", "--json") as running:
        running.wait_for("tool_end", 2)
        running.send(signal.SIGINT)
        assert running.wait().exit_code == 130
    write_check(repo, "#!/bin/sh\nexit 1\n")

    done = ralph("run", "goal.md", "--json", "--max-iterations", "3")

    # The commit cannot be told from ralph's own by its words; but ralph made none in that time and knows what it spent.
    assert done.exit_code == 4, done
    assert result(repo)["cost_usd"] >= 0.02


@pytest.mark.spec("3.8-g")
def test_the_lock_names_its_owner(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    claude_script([hang()])
    with ralph.start("run", "goal.md", "--json") as first:
        first.wait_for("session_started")
        began = time.monotonic()

        refused = ralph("run", "goal.md")

        assert time.monotonic() - began < 11, "it is refused, and not made to wait as for one who is dying"
        assert refused.exit_code == 2
        assert f"process {first.pid}" in refused.stderr
        first.send(signal.SIGTERM)
        assert first.wait().exit_code == 143


@pytest.mark.long
def test_of_twenty_starts_at_once_one_runs(repo: Path, world: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    agent = claude_script([run(f"until test -e {world}/go; do sleep 0.05; done"), summary("DONE")])
    with ExitStack() as stack:
        starts = [stack.enter_context(ralph.start("run", "goal.md", "--json")) for _ in range(20)]
        ended = lambda: [start for start in starts if not is_alive(start.pid)]  # noqa: E731
        wait_until(lambda: len(ended()) >= 19, "nineteen to be refused", 180)
        wait_until(lambda: agent.starts, "the one that runs to have started its agent")
        assert len(agent.starts) == 1
        (world / "go").touch()
        done = [start.wait() for start in starts]

    owner = [start.pid for start, end in zip(starts, done, strict=True) if end.exit_code == 0]
    assert len(owner) == 1
    assert sorted(end.exit_code for end in done) == [0] + [2] * 19
    assert all(str(owner[0]) in end.stderr for end in done if end.exit_code == 2), "each names the one that runs"
    assert len(agent.starts) == 1
    assert len(iterations(repo)) == 1


def test_after_a_kill_the_next_start_works_at_once(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    claude_script([summary("the first step")], [hang()], [summary("the second step")], [summary("DONE")])
    with ralph.start("run", "goal.md", "--json") as first:
        first.wait_for("session_started", 2)
        first.send(signal.SIGKILL)
        first.wait()
    lock = run_directory(repo).parent / LOCK
    assert comes_true(lambda: not is_held(lock), 5), "the lock was still held after 5 s"
    assert_continued(repo, ralph("run", "goal.md"))


def is_held(lock: Path) -> bool:
    with lock.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


@pytest.mark.spec("3.12-a")
def test_what_a_killed_session_had_spent_is_counted(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    agent = claude_script([answer("no verdict"), hang()], [summary("DONE")])
    with ralph.start("run", "goal.md", "--json") as first:
        wait_until(lambda: len(agent.heard) == 2, "the correction, which follows a result")
        first.send(signal.SIGKILL)
        first.wait()

    done = _when_free(ralph)

    assert done.exit_code == 0, done
    assert agent.total_cost == pytest.approx(0.03)
    assert result(repo)["cost_usd"] == pytest.approx(agent.total_cost)
    assert result(repo)["tokens"] == agent.tokens.total
    assert commits(repo)[-1].trailers["Ralph-Cost-USD"] == "0.03"


@pytest.mark.long
def test_a_session_that_was_counted_is_not_counted_again(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    agent = claude_script([summary("one")], [hang()], [hang()], [summary("DONE")])
    for number in (signal.SIGINT, signal.SIGKILL):
        with ralph.start("run", "goal.md", "--json") as running:
            running.wait_for("session_started", 2 if number == signal.SIGINT else 1)
            running.send(number)
            running.wait()

    done = _when_free(ralph)

    assert done.exit_code == 0, done
    assert len(agent.starts) == 4
    assert result(repo)["cost_usd"] == pytest.approx(0.02)
    assert result(repo)["tokens"] == 2 * 1306


def leave_lock(repo: Path) -> Path:
    lock = repo / ".git" / "index.lock"
    lock.touch()
    return lock


def test_a_lock_that_a_killed_git_left_is_removed_and_that_is_said(repo: Path, ralph: Ralph, unfinished: Path) -> None:
    lock = leave_lock(repo)

    done = ralph("run", "goal.md")

    assert_continued(repo, done)
    assert not lock.exists()
    assert "index.lock" in done.stdout + done.stderr


@pytest.mark.long
def test_a_lock_that_is_left_while_the_run_goes_on_is_removed(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    claude_script([write("a.txt", "a"), run("touch .git/index.lock"), summary("DONE")])

    done = ralph("run", "goal.md")

    assert done.exit_code == 0, done
    assert not (repo / ".git" / "index.lock").exists()
    assert git(repo, "show", "--name-only", "--format=") == "a.txt"


@pytest.mark.long
def test_a_lock_that_a_living_git_holds_is_respected(
    repo: Path, tmp_path: Path, ralph: Ralph, unfinished: Path
) -> None:
    """The user has `git commit -a` open in an editor: git keeps the lock, but not the file open."""
    (repo / "README.md").write_text("# Changed\n")
    editor = tmp_path / "editor"
    editor.write_text(f"#!/bin/sh\ntouch {tmp_path}/open\nuntil test -e {tmp_path}/close; do sleep 0.05; done\n")
    editor.chmod(0o755)
    env = {**ralph.env, "GIT_EDITOR": str(editor)}
    user = subprocess.Popen(["git", "commit", "-a", "--quiet"], cwd=repo, env=env, stderr=subprocess.DEVNULL)
    try:
        wait_until((tmp_path / "open").exists, "the editor")
        lock = repo / ".git" / "index.lock"
        assert lock.exists()

        done = ralph("run", "goal.md")

        assert lock.exists(), f"ralph took the lock away from a living git: {done}"
        assert done.exit_code == 1, done
        assert f"git process {user.pid} holds {lock} (waited 10 s for it)" in flattened(done.stderr)
        assert len(iterations(repo)) == 2
    finally:
        (tmp_path / "close").touch()
        user.wait()


def test_a_kill_while_stock_is_taken_leaves_no_note_of_an_earlier_session(
    repo: Path, bin_dir: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    """The third iteration is committed; that it says what the first one did has ralph ask git whether it moves."""
    wrapper, real = bin_dir / "git", shutil.which("git")
    wrapper.write_text(f'#!/bin/sh\ncase "$*" in *cat-file*) rm -f "$0"; kill -9 $PPID ;; esac\nexec {real} "$@"\n')
    wrapper.chmod(0o755)
    meddles = [run("mkdir -p .ralph; echo true > .ralph/check"), summary("changed the judge")]
    agent = claude_script([summary("looked around")], meddles, [summary("looked around")], [summary("DONE")])
    assert ralph("run", "--no-check", "goal.md").exit_code == -signal.SIGKILL

    done = _when_free(ralph, "--no-check")

    assert done.exit_code == 0, done
    assert [number for _, number in iterations(repo)] == ["1", "2", "3", "4"]
    assert ["ralph undid that" in prompt for prompt in agent.heard] == [False, False, True, False]


@pytest.fixture
def committing(repo: Path, world: Path, claude_script: ClaudeScript) -> Path:
    """A file that is there once the commit of the first iteration has begun; it ends when there is a file `go`."""
    waiting = f"touch {world}/committing; until test -e {world}/go; do sleep 0.05; done"
    filtering = f"if test -e .git/index.lock; then {waiting}; fi; cat"  # a status, which filters too, has no lock
    (repo / ".gitattributes").write_text("README.md filter=slow\n")
    git(repo, "add", ".gitattributes")
    git(repo, "commit", "--quiet", "-mslow")
    git(repo, "config", "filter.slow.clean", filtering)
    claude_script([write("README.md", "# A longer text\n"), summary("the first step")], [summary("DONE")])
    return world / "committing"


@pytest.mark.long
def test_a_start_waits_for_the_commit_that_a_killed_ralph_had_begun(
    repo: Path, world: Path, ralph: Ralph, committing: Path
) -> None:
    with ralph.start("run", "goal.md", "--json") as first:
        wait_until(committing.exists, "the commit")
        assert (repo / ".git" / "index.lock").exists()
        first.send(signal.SIGKILL)
        first.wait()
    with ralph.start("run", "goal.md") as second:
        assert not comes_true(lambda: not is_alive(second.pid), 2), second.stderr
        (world / "go").touch()
        done = second.wait()

    assert done.exit_code == 0, done
    assert "iteration 1 was committed but not recorded; ralph counts it" in flattened(done.stdout)
    assert [number for _, number in iterations(repo)] == ["1", "2"]


@pytest.mark.long
def test_a_start_that_waits_for_a_commit_can_be_stopped(
    repo: Path, world: Path, ralph: Ralph, committing: Path
) -> None:
    with ralph.start("run", "goal.md", "--json") as first:
        wait_until(committing.exists, "the commit")
        first.send(signal.SIGKILL)
        first.wait()
    with ralph.start("run", "goal.md") as second:
        assert not comes_true(lambda: not is_alive(second.pid), 2), second.stderr
        second.send(signal.SIGINT)
        done = second.wait()
    (world / "go").touch()

    assert done.exit_code == 130, done
    wait_until(lambda: not (repo / ".git" / "index.lock").exists(), "the end of the commit")
    assert [number for _, number in iterations(repo)] == ["1"]


def test_a_done_that_was_committed_but_not_checked_is_checked_first(
    repo: Path, world: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    agent = claude_script([write("answer.txt", "42\n"), summary("DONE")], [summary("never asked")])
    write_check(repo, f"#!/bin/sh\ntouch {world}/checking\nuntil test -e {world}/go; do sleep 0.05; done\n")
    with ralph.start("run", "goal.md", "--json") as first:
        wait_until((world / "checking").exists, "the check")
        first.send(signal.SIGKILL)
        first.wait()
    (world / "go").touch()
    (world / "checking").unlink()

    done = _when_free(ralph)

    assert done.exit_code == 0, done
    assert (world / "checking").exists()
    assert len(agent.starts) == 1, "nothing was asked of the agent"
    assert (result(repo)["proven"], result(repo)["iterations"]) == (True, 1)
    assert result(repo)["cost_usd"] == pytest.approx(0.02)


@pytest.mark.long
def test_a_proven_run_that_was_killed_before_its_goodbye_needs_no_other_session(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    agent = claude_script([write("answer.txt", "42\n"), summary("DONE")], [summary("never asked")])
    write_check(repo)
    assert ralph("run", "goal.md").exit_code == 0
    path = run_directory(repo) / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"exit_code": None}))  # as it was before the last save
    (run_directory(repo) / "result.json").unlink()

    done = ralph("run", "goal.md", "--max-iterations", "3")

    assert done.exit_code == 0, done
    assert len(agent.starts) == 1
    assert (result(repo)["proven"], result(repo)["iterations"]) == (True, 1)


@pytest.mark.long
@pytest.mark.parametrize("cost", ["nan", "0.0"])
def test_a_forged_cost_does_not_buy_anything(repo: Path, ralph: Ralph, unfinished: Path, cost: str) -> None:
    said = commits(repo)[-1]
    trailers = {**said.trailers, "Ralph-Iteration": "3", "Ralph-Cost-USD": cost, "Ralph-Tokens": "-7"}
    lines = "\n".join(f"{name}: {value}" for name, value in trailers.items())
    git(repo, "commit", "--quiet", "--allow-empty", f"-mralph: iteration 3\n\nforged\n\n{lines}")
    shutil.rmtree(unfinished)

    done = ralph("run", "goal.md", "--max-cost", "0.02")

    assert done.exit_code == 4, done
    assert result(repo)["reason"] == "limit reached: --max-cost"
    assert result(repo)["cost_usd"] == pytest.approx(0.02)
    assert result(repo)["tokens"] == 2 * 1306


def _when_free(ralph: Ralph, *flags: str) -> Finished:
    """Start ralph once the tree of the last one is gone."""
    ended: list[Finished] = []

    def starts() -> bool:
        ended.append(ralph("run", "goal.md", *flags))
        return "another run" not in ended[-1].stderr

    assert comes_true(starts, 12), "the lock is never given up"
    return ended[-1]
