"""`ralph check`: the repository's own check as a run would run it, with nothing kept and nothing left."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from ralph.system.leash import Leashed
from tests.support.git_repos import commit_all, git
from tests.support.goals import write_check, write_goal
from tests.support.ralph_process import Finished, Ralph
from tests.support.scripted_agent import ClaudeScript, hang
from tests.support.waiting import is_alive, pid_in, wait_until

GREEN = "#!/bin/sh\necho all is well\n"
SLEEP = '#!/bin/sh\nsetsid sh -c "echo \\$\\$ > $PIDS; exec sleep 300" &\necho begun\nwait\n'


def write_setup(repo: Path, text: str, mode: int = 0o755) -> Path:
    path = repo / ".ralph" / "setup"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def told(done: Finished) -> dict[str, object]:
    """What a program is told: one object, and nothing else."""
    (line,) = done.stdout.splitlines()
    document = json.loads(line)
    assert document.pop("seconds") >= 0
    return document


@pytest.fixture
def checkout(repo: Path, tmp_path: Path) -> Path:
    """A clean checkout of what is committed, with a detached HEAD, as a merge is checked in."""
    write_check(repo, '#!/bin/sh\necho "word: ${WORD-none}"\n')
    (repo / ".envrc").write_text("export WORD=secret\n")
    commit_all(repo, "a check")
    place = tmp_path / "checkout"
    git(tmp_path, "clone", "--quiet", "--no-checkout", str(repo), str(place))
    git(place, "checkout", "--quiet", "--detach", "HEAD")
    return place


def test_a_green_check_runs_at_the_root_and_is_shown_as_it_runs(ralph: Ralph, repo: Path) -> None:
    write_check(repo, "#!/bin/sh\npwd\nprintf '\\033[1mbold'; echo oops >&2\n")
    (repo / "below").mkdir()
    done = ralph("check", cwd=repo / "below")
    assert (done.exit_code, done.stdout) == (0, f"{repo}\nboldoops\n")
    assert done.stderr.startswith(".ralph/check: exit 0 after ")


def test_a_red_check_is_exit_1_whatever_it_exits_with(ralph: Ralph, repo: Path) -> None:
    write_check(repo, "#!/bin/sh\necho no\nexit 7\n")
    done = ralph("check", "--json")
    assert (done.exit_code, told(done)) == (1, {"exit_code": 7, "stage": "check", "output": "no\n"})
    assert ralph("check").stderr.startswith(".ralph/check: exit 7 after ")


def test_setup_comes_first(ralph: Ralph, repo: Path) -> None:
    write_setup(repo, "#!/bin/sh\necho deps > deps.txt; echo set up\n")
    write_check(repo, "#!/bin/sh\ncat deps.txt\n")
    assert ralph("check").stdout == "set up\ndeps\n"
    assert told(ralph("check", "--json")) == {"exit_code": 0, "stage": "check", "output": "deps\n"}


def test_what_cannot_be_set_up_is_not_checked(ralph: Ralph, repo: Path) -> None:
    write_setup(repo, "#!/bin/sh\necho no such package\nexit 3\n")
    write_check(repo, "#!/bin/sh\ntouch checked\n")
    done = ralph("check", "--json")
    assert (done.exit_code, told(done)) == (1, {"exit_code": 3, "stage": "setup", "output": "no such package\n"})
    assert ralph("check").stderr.startswith(".ralph/setup: exit 3 after ")
    assert not (repo / "checked").exists()


def test_a_setup_that_cannot_run_is_refused(ralph: Ralph, repo: Path) -> None:
    write_setup(repo, GREEN, mode=0o644)
    write_check(repo, GREEN)
    done = ralph("check")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "setup is not executable" in done.stderr
    assert "chmod +x .ralph/setup" in done.stderr


def test_without_a_check_there_is_nothing_to_run(ralph: Ralph, repo: Path) -> None:
    write_setup(repo, "#!/bin/sh\ntouch set-up\n")
    done = ralph("check", "--json")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "this repository has no check" in done.stderr
    assert "--check" in done.stderr
    assert not (repo / "set-up").exists()


def test_another_command_can_be_named(ralph: Ralph, repo: Path) -> None:
    write_check(repo, "#!/bin/sh\nexit 1\n")
    assert ralph("check", "--check", "echo 'two words'").stdout == "two words\n"
    assert ralph("check", "--check", "nothing-here").exit_code == 2


def test_what_could_never_be_started_is_refused_and_says_why(ralph: Ralph, repo: Path) -> None:
    write_check(repo, "#!/no/such/shell\n")
    done = ralph("check")
    assert done.exit_code == 2
    assert "its interpreter /no/such/shell does not exist" in done.stderr


@pytest.mark.long
def test_who_takes_too_long_is_ended_with_all_that_it_started(ralph: Ralph, repo: Path, tmp_path: Path) -> None:
    write_check(repo, SLEEP)
    env = {"RALPH_CHECK_TIMEOUT": "5s", "PIDS": str(tmp_path / "pid")}
    done = ralph("check", "--json", env=env)
    found = told(done)
    assert (done.exit_code, found["exit_code"], found["stage"]) == (1, None, "check")
    assert str(found["output"]).startswith("begun\n")
    assert "time limit" in str(found["output"])
    assert not is_alive(pid_in(tmp_path / "pid"))


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)])
def test_a_signal_ends_it_with_all_that_it_started(ralph: Ralph, repo: Path, tmp_path: Path, number: int) -> None:
    write_check(repo, SLEEP)
    pid = tmp_path / "pid"
    with ralph.start("check", "--json", env={"PIDS": str(pid)}) as running:
        wait_until(lambda: pid.exists() and pid.read_text(), "the check's own child")
        running.send(number)
        done = running.wait()
    assert (done.exit_code, done.stdout) == (128 + number, "")
    assert not is_alive(pid_in(pid))


def test_it_dies_with_its_parent(ralph: Ralph, repo: Path, tmp_path: Path) -> None:
    write_check(repo, SLEEP)
    pid = tmp_path / "pid"
    argv = [sys.executable, "-P", "-m", "ralph", "check", "--json"]
    with Leashed(argv, cwd=repo, environment={**ralph.env, "PIDS": str(pid)}, stderr_log=tmp_path / "err") as child:
        wait_until(lambda: pid.exists() and pid.read_text(), "the check's own child")
        leash = child._process.stdin
        assert leash is not None
        leash.close()
        wait_until(lambda: child.read(0.1) is None, "the end of what has lost its leash")
        assert child.exit_code == -signal.SIGKILL
        assert not is_alive(pid_in(pid))


def test_a_clean_checkout_stays_clean_and_nothing_is_kept(ralph: Ralph, checkout: Path, world: Path) -> None:
    before = git(checkout, "rev-parse", "HEAD")
    done = ralph("check", cwd=checkout)
    assert (done.exit_code, done.stdout) == (0, "word: none\n")
    assert git(checkout, "status", "--porcelain", "--ignored") == ""
    assert git(checkout, "rev-parse", "HEAD") == before
    assert sorted(path.name for path in (checkout / ".ralph").iterdir()) == ["check"]
    assert [path for path in (world / "ralph").rglob("*") if path.is_file()] == []


@pytest.mark.long
def test_a_run_in_the_same_tree_is_not_in_its_way(ralph: Ralph, repo: Path, claude_script: ClaudeScript) -> None:
    write_goal(repo)
    write_check(repo, GREEN)
    claude_script([hang()])
    with ralph.start("run", "goal.md", "--json") as running:
        running.wait_for("session_started")
        assert ralph("check").exit_code == 0
        running.send(signal.SIGINT)
        assert running.wait().exit_code == 130


def test_trust_given_elsewhere_is_for_that_tree_alone(ralph: Ralph, repo: Path, checkout: Path) -> None:
    ralph("trust")
    assert ralph("check").stdout == "word: secret\n"
    done = ralph("check", cwd=checkout)
    assert done.stdout == "word: none\n"
    assert "you have not trusted it yet" in done.stderr
    assert "secret" not in done.stderr


def test_the_flag_trusts_what_no_agent_wrote_and_only_for_this_once(ralph: Ralph, checkout: Path) -> None:
    assert ralph("check", "--trust-envrc", cwd=checkout).stdout == "word: secret\n"
    assert ralph("check", cwd=checkout).stdout == "word: none\n"


@pytest.mark.parametrize("trailer", ["Ralph-Run: 1", pytest.param("Ralph-Goal: words", marks=pytest.mark.long)])
def test_the_flag_does_not_speak_for_what_was_merged_from_a_run(ralph: Ralph, checkout: Path, trailer: str) -> None:
    (checkout / ".envrc").write_text("export WORD=agent\n")
    commit_all(checkout, f"Words\n\nBy an agent.\n\n{trailer}\n")
    done = ralph("check", "--trust-envrc", cwd=checkout)
    assert done.stdout == "word: none\n"
    assert "--trust-envrc does not cover" in done.stderr


def test_a_session_does_not_decide_what_is_trusted(ralph: Ralph, checkout: Path) -> None:
    assert ralph("check", "--trust-envrc", cwd=checkout, env={"RALPH_RUN_ID": "1"}).exit_code == 2
    assert ralph("check", cwd=checkout, env={"RALPH_RUN_ID": "1"}).exit_code == 0


def test_outside_of_a_repository_it_is_refused(ralph: Ralph, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    done = ralph("check", cwd=tmp_path / "elsewhere", env={"GIT_CEILING_DIRECTORIES": os.fspath(tmp_path)})
    assert (done.exit_code, done.stdout) == (2, "")
