"""What an agent does to the tree, the branch, the judge or the state must not deceive ralph or lose work."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.git_repos import commit_all, commits, git, make_repo
from tests.support.goals import GOAL, result, run_directory, write_check, write_goal
from tests.support.ralph_process import Finished, Ralph
from tests.support.scripted_agent import ClaudeScript, hang, run, summary, write
from tests.support.waiting import comes_true

PASS = "#!/bin/sh\nexit 0\n"


@pytest.fixture(autouse=True)
def goal(repo: Path) -> Path:
    return write_goal(repo)


def test_a_broken_git_directory_never_leads_to_the_repository_around(
    tmp_path: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    outer = make_repo(tmp_path / "outer", {"a": "a"})
    inner = make_repo(outer / "inner", {"b": "b"})
    write_goal(inner)
    (outer / "secret-plan.txt").write_text("mine")
    claude_script([run("rm -rf .git/objects"), summary("one")])

    done = ralph("run", "goal.md", cwd=inner)

    assert done.exit_code == 1
    assert len(commits(outer)) == 1


@pytest.mark.long
def test_a_continued_run_goes_on_on_its_branch(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    claude_script([write("one.txt", "1"), summary("one")], [write("two.txt", "2"), summary("two")])
    ralph("run", "goal.md", "--branch", "feature", "--max-iterations", "1")
    git(repo, "switch", "--quiet", "main")

    done = ralph("run", "goal.md", "--branch", "feature", "--max-iterations", "2")

    assert done.exit_code == 4
    assert git(repo, "branch", "--show-current") == "feature"
    assert git(repo, "ls-files") == "README.md\none.txt\ntwo.txt"


def test_the_check_of_the_branch_is_the_judge(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    git(repo, "switch", "--quiet", "-c", "feature")
    write_check(repo, "#!/bin/sh\nexit 1\n")
    git(repo, "add", ".ralph")
    git(repo, "commit", "--quiet", "-m", "a check")
    git(repo, "switch", "--quiet", "main")
    claude_script([summary("DONE")])

    done = ralph("run", "goal.md", "--branch", "feature", "--max-iterations", "1", "--json")

    assert (done.exit_code, [event["exit_code"] for event in done.events_of("check_ended")]) == (4, [1])


@pytest.mark.parametrize(
    "deed",
    [
        pytest.param("echo RALPH_CHECK=true > .env", marks=pytest.mark.long, id="in .env"),
        pytest.param("mkdir -p .ralph; echo 'check = \"true\"' > .ralph/config.toml", marks=pytest.mark.long,
                     id="in the configuration"),
        pytest.param('for f in check; do printf "#!/bin/sh\\n" > $(readlink .ralph/runs/goal)/snapshot/$f; done;'
                     ' printf "#!/bin/sh\\n" > .ralph/check', id="in the stored copy"),
        pytest.param("rm .ralph/check", marks=pytest.mark.long, id="by deleting it"),
    ],
)  # fmt: skip
def test_the_judge_cannot_be_replaced(repo: Path, ralph: Ralph, claude_script: ClaudeScript, deed: str) -> None:
    write_check(repo, "#!/bin/sh\nexit 1\n")
    claude_script([run(deed), summary("DONE")])

    first = ralph("run", "goal.md", "--max-iterations", "1")
    second = ralph("run", "goal.md", "--max-iterations", "2")

    assert (first.exit_code, second.exit_code) == (4, 4)
    assert result(repo)["proven"] is False


def test_a_judge_replaced_while_ralph_is_killed_is_restored_before_it_is_read(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    write_check(repo, "#!/bin/sh\nexit 1\n")
    claude_script([run("rm .ralph/check; echo 'check = \"true\"' > .ralph/config.toml"), hang()], [summary("DONE")])
    with ralph.start("run", "goal.md", "--json") as running:
        running.wait_for("tool_end")
        running.send(signal.SIGKILL)
        running.wait()

    done = ralph("run", "goal.md", "--max-iterations", "1")

    assert done.exit_code == 4
    assert "restored" in done.stdout
    assert (repo / ".ralph" / "check").read_text() == "#!/bin/sh\nexit 1\n"
    assert not (repo / ".ralph" / "config.toml").exists()


def test_a_check_that_the_goal_newly_names_needs_the_users_word(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    write_check(repo, "#!/bin/sh\nexit 1\n")
    claude_script([summary("DONE")])
    assert ralph("run", "goal.md", "--max-iterations", "1").exit_code == 4
    write_goal(repo, f"---\ncheck: 'true'\n---\n{GOAL}")

    done = ralph("run", "goal.md")

    assert done.exit_code == 2
    assert "the run started with the check '.ralph/check', not 'true'" in done.stderr
    assert ralph("run", "goal.md", "--check", "true").exit_code == 0


def test_what_the_agent_staged_of_ours_is_not_committed(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    write_check(repo, PASS)
    (repo / ".env").write_text("TOKEN=1\n")
    claude_script([run("git add -f .env .ralph goal.md"), write("a.txt", "a"), summary("DONE")])

    assert ralph("run", "goal.md").exit_code == 0
    assert git(repo, "ls-files") == "README.md\na.txt"
    assert (repo / ".env").exists()


def test_an_agent_that_resets_the_branch_does_not_drop_an_iteration(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    agent = claude_script(
        [write("one.txt", "1"), summary("one")],
        [run("git reset -q --hard HEAD~1"), write("two.txt", "2"), summary("two")],
        [summary("DONE")],
    )

    assert ralph("run", "goal.md").exit_code == 0
    assert [commit.trailers.get("Ralph-Iteration") for commit in commits(repo)] == [None, "1", "2", "3"]
    assert "moved the branch off its last commit; ralph undid that" in agent.heard[2]


@pytest.mark.long
def test_a_detached_head_stays_detached_where_the_work_is(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    git(repo, "checkout", "--quiet", "--detach")
    claude_script([run("git checkout -q main"), write("a.txt", "a"), summary("DONE")])

    assert ralph("run", "goal.md").exit_code == 0
    assert git(repo, "log", "main", "-1", "--format=%s") == "start"
    assert git(repo, "branch", "--show-current") == ""
    assert git(repo, "log", "-1", "--format=%s") == "ralph 1/50: claims DONE"


@pytest.mark.long
def test_a_refused_second_start_does_not_move_the_first_ones_branch(
    repo: Path, world: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    claude_script([hang()])
    with ralph.start("run", "goal.md", "--repo", ".", "--json") as first:
        first.wait_for("session_started")
        second = ralph("run", "goal.md", "--repo", ".", "--branch", "zzz")
        (clone,) = (world / "ralph" / "clones" / "local").glob("repo-*/goal")
        assert (second.exit_code, git(clone, "branch", "--show-current")) == (2, "ralph/goal")
        first.send(signal.SIGINT)
        first.wait()


def test_a_state_directory_inside_the_repository_is_refused(repo: Path, ralph: Ralph, agent_free: None) -> None:
    done = ralph("run", "goal.md", env={"RALPH_DIR": str(repo / "state")})
    assert (done.exit_code, "is inside the repository" in done.stderr) == (2, True)
    assert not (repo / "state").exists()


@pytest.fixture
def agent_free(claude_script: ClaudeScript) -> None:
    claude_script([summary("DONE")])


@pytest.mark.long
def test_a_terminal_without_our_letters_is_written_to_all_the_same(ralph: Ralph, agent_free: None) -> None:
    done = ralph("run", "goal.md", env={"PYTHONIOENCODING": "ascii", "LANG": "C"})
    assert done.exit_code == 0
    assert "\\xb7" in done.stdout


def test_an_agent_that_deletes_git_is_a_clear_failure(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    claude_script([run("rm -rf .git"), summary("one")])

    done = ralph("run", "goal.md")

    assert done.exit_code == 1
    assert "is no longer a git repository" in done.stderr
    assert result(repo)["exit_code"] == 1


def test_without_git_that_is_said(ralph: Ralph, bin_dir: Path, agent_free: None) -> None:
    (bin_dir / "python3").symlink_to(sys.executable)
    done = ralph("run", "goal.md", env={"PATH": str(bin_dir)})
    assert (done.exit_code, "cannot find git" in done.stderr) == (2, True)
    (bin_dir / "git").write_bytes(b"\x7fELF, but no program")
    (bin_dir / "git").chmod(0o755)
    done = ralph("run", "goal.md", env={"PATH": str(bin_dir)})
    assert (done.exit_code, "cannot start git: Exec format error" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    "place",
    [
        "/proc/nope",
        pytest.param("/dev/null", marks=pytest.mark.long),
        pytest.param("~nobody-here/x", marks=pytest.mark.long),
    ],
)
def test_a_state_directory_that_cannot_be_is_refused(ralph: Ralph, agent_free: None, place: str) -> None:
    done = ralph("run", "goal.md", env={"RALPH_DIR": place})
    assert done.exit_code == 2, done.stderr
    assert place.removeprefix("~") in done.stderr


@pytest.mark.parametrize(
    "flag", ["--check", *(pytest.param(flag, marks=pytest.mark.long) for flag in ("--repo", "--branch", "--model"))]
)
def test_an_empty_value_is_refused(ralph: Ralph, agent_free: None, flag: str) -> None:
    done = ralph("run", "goal.md", flag, "  ")
    assert (done.exit_code, flag in done.stderr) == (2, True)


def test_a_merge_in_progress_is_not_concluded_by_us(repo: Path, ralph: Ralph, agent_free: None) -> None:
    git(repo, "switch", "--quiet", "-c", "side")
    commit_all(repo, "side")
    git(repo, "switch", "--quiet", "main")
    git(repo, "-c", "user.name=x", "-c", "user.email=x@x", "merge", "--quiet", "--no-ff", "--no-commit", "side")

    done = ralph("run", "goal.md")

    assert (done.exit_code, "a git merge is in progress" in done.stderr) == (2, True)


@pytest.mark.long
def test_failures_are_forgiven_by_a_new_start(ralph: Ralph, claude_script: ClaudeScript) -> None:
    agent = claude_script([run("kill -9 $PPID")])
    assert ralph("run", "goal.md").exit_code == 1
    held = len(agent.starts)

    assert ralph("run", "goal.md").exit_code == 1
    assert len(agent.starts) == 2 * held == 12, "three failures, each tried twice"


@pytest.mark.long
def test_what_the_check_did_is_not_the_sessions_fault(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    write_check(repo, '#!/bin/sh\nrm -- "$0"\ngit checkout -q -b theirs\nexit 1\n')
    agent = claude_script([summary("DONE")])

    done = ralph("run", "goal.md", "--max-iterations", "2")

    assert done.exit_code == 4
    assert "The session" not in agent.heard[1]
    assert git(repo, "branch", "--show-current") == "main"


@pytest.mark.parametrize(
    "deed",
    [
        "git rm -rq .ralph; git commit -qm gone",
        pytest.param("git rm -q .ralph/check; mkdir .ralph/check; git commit -qm gone", marks=pytest.mark.long),
        pytest.param(
            "git rm -rq --cached .ralph goal.md; printf '/.ralph/\n/goal.md\n' > .gitignore;"
            " git add -A; git commit -qm x",
            marks=pytest.mark.long,
        ),
        pytest.param("git rm -rq --cached .ralph; echo '/.ralph/' > .gitignore", marks=pytest.mark.long),
    ],
)
def test_what_the_user_had_committed_of_his_own_is_in_every_iteration(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript, deed: str
) -> None:
    """Whoever merges the branch must not lose the check because an agent has committed that it is gone."""
    write_goal(repo)
    write_check(repo)
    commit_all(repo, "mine")
    claude_script([run(deed), summary("one step")])
    ralph("run", "goal.md", "--max-iterations", "1")
    assert git(repo, "ls-files", ".ralph", "goal.md") == ".ralph/check\ngoal.md"
    assert git(repo, "status", "--porcelain") == ""


@pytest.mark.long
def test_a_chatty_check_is_read_as_fast_as_it_writes(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    write_check(repo, "#!/bin/sh\nyes | head -c 50000000\n")
    claude_script([summary("DONE")])

    done = ralph("run", "goal.md", "--json", timeout=120)

    assert done.exit_code == 0
    assert "bytes left out" in done.events_of("check_ended")[0]["output"]


@pytest.mark.long
def test_the_result_of_an_earlier_start_is_not_left_to_mislead(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    claude_script([summary("one")], [hang()])
    ralph("run", "goal.md", "--max-iterations", "1")
    with ralph.start("run", "goal.md", "--json") as running:
        running.wait_for("session_started")
        assert not (run_directory(repo) / "result.json").exists()
        os.kill(running.pid, signal.SIGKILL)
        running.wait()
    assert not (run_directory(repo) / "result.json").exists()


def test_json_dry_run_is_json(ralph: Ralph, agent_free: None) -> None:
    done = ralph("run", "goal.md", "--dry-run", "--json")
    assert (done.exit_code, done.events[0]["argv"][1], "prompt" in done.events[0]) == (0, "-p", True)


@pytest.mark.long
def test_a_configuration_broken_while_ralph_is_killed_does_not_bar_the_next_start(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    claude_script([run("mkdir -p .ralph; echo 'nonsense = [' > .ralph/config.toml"), hang()], [summary("DONE")])
    with ralph.start("run", "goal.md", "--json") as running:
        running.wait_for("tool_end")
        running.send(signal.SIGKILL)
        running.wait()

    assert ralph("run", "goal.md").exit_code == 0


def test_a_bad_flag_is_refused_before_the_branch_is_switched(repo: Path, ralph: Ralph, agent_free: None) -> None:
    git(repo, "branch", "feature")
    done = ralph("run", "goal.md", "--branch", "feature", "--max-cost", "free")
    assert (done.exit_code, git(repo, "branch", "--show-current")) == (2, "main")


FORK = (
    "git switch -q -c other; echo theirs > shared.txt; git add shared.txt; git commit -qm theirs;"
    " git switch -q main; echo ours > shared.txt; git add shared.txt; git commit -qm ours"
)


@pytest.mark.parametrize(
    "operation",
    ["rebase", *(pytest.param(operation, marks=pytest.mark.long) for operation in ("merge", "cherry-pick"))],
)
def test_what_the_agent_left_in_progress_does_not_bar_or_endanger_the_run(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript, operation: str
) -> None:
    agent = claude_script(
        [write("one.txt", "1"), summary("one")],
        [run(f"{FORK}; git {operation} other"), write("two.txt", "2"), summary("two")],
        [write("three.txt", "3"), summary("three")],
        [summary("DONE")],
    )

    assert ralph("run", "goal.md", "--max-iterations", "3").exit_code == 4
    assert f"The session left `git {operation}` unfinished; ralph undid that" in agent.heard[2]
    abort = subprocess.run(["git", operation, "--abort"], cwd=repo, capture_output=True)
    assert abort.returncode != 0, "there is nothing left that could be aborted"
    assert ralph("run", "goal.md").exit_code == 0
    made = git(repo, "log", "--first-parent", "--reverse", "--format=%(trailers:key=Ralph-Iteration,valueonly)")
    assert made.split() == ["1", "2", "3", "4"]
    assert {"one.txt", "two.txt", "three.txt"} < set(git(repo, "ls-files").split("\n"))
    assert git(repo, "rev-list", "--merges", "--count", "main") == "0"


@pytest.mark.parametrize(
    ("operation", "flags"),
    [
        pytest.param("rebase", [], id="rebase, here"),
        pytest.param("rebase", ["--branch", "main"], marks=pytest.mark.long, id="rebase, --branch"),
        pytest.param("merge", [], marks=pytest.mark.long, id="merge, here"),
        pytest.param("merge", ["--branch", "main"], marks=pytest.mark.long, id="merge, --branch"),
    ],
)
def test_what_the_agent_had_in_progress_when_ralph_was_killed_is_ended_at_the_next_start(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript, operation: str, flags: list[str]
) -> None:
    agent = claude_script(
        [write("one.txt", "1"), summary("one")], [run(f"{FORK}; git {operation} other"), hang()], [summary("DONE")]
    )
    with ralph.start("run", "goal.md", *flags, "--json") as running:
        running.wait_for("tool_end", 3)
        running.send(signal.SIGKILL)
        running.wait()

    done = when_free(ralph, *flags)

    assert done.exit_code == 0, done
    assert f"ended a `git {operation}` that an interrupted session left unfinished" in flattened(done.stdout)
    assert "An earlier session was interrupted" in agent.heard[2]
    assert git(repo, "branch", "--show-current") == "main"
    made = git(repo, "log", "--first-parent", "--reverse", "--format=%(trailers:key=Ralph-Iteration,valueonly)")
    assert made.split() == ["1", "2"]
    assert "<<<<<<<" in git(repo, "show", "main:shared.txt"), "the work stays as it was"


@pytest.mark.long
def test_a_rebase_of_another_branch_is_the_users_own_also_after_a_kill(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    claude_script([write("one.txt", "1"), summary("one")], [run(FORK), hang()], [summary("DONE")])
    with ralph.start("run", "goal.md", "--json") as running:
        running.wait_for("tool_end", 3)
        running.send(signal.SIGKILL)
        running.wait()
    git(repo, "switch", "--quiet", "other")
    subprocess.run(["git", "rebase", "main"], cwd=repo, capture_output=True)

    done = when_free(ralph)

    assert (done.exit_code, "a git rebase is in progress" in done.stderr) == (2, True)
    git(repo, "rebase", "--abort")
    assert git(repo, "branch", "--show-current") == "other"


def test_a_secret_that_the_agent_itself_committed_is_said(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    (repo / ".env").write_text("TOKEN=1\n")
    agent = claude_script(
        [run("git add -f .env && git commit -qm mine"), summary("one")], [summary("two")], [summary("DONE")]
    )

    done = ralph("run", "goal.md", "--json")

    said = "the agent committed a file that looks like a secret: .env"
    assert done.exit_code == 0
    assert [event["text"] for event in done.events_of("text") if "secret" in event["text"]] == [said]
    assert said in agent.heard[1]
    assert said not in agent.heard[2]


@pytest.mark.long
def test_a_secret_that_was_committed_while_ralph_was_killed_is_said(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    (repo / ".env").write_text("TOKEN=1\n")
    agent = claude_script([run("git add -f .env && git commit -qm mine"), hang()], [summary("DONE")])
    with ralph.start("run", "goal.md", "--json") as running:
        running.wait_for("tool_end")
        running.send(signal.SIGKILL)
        running.wait()

    done = when_free(ralph)

    said = "committed since the last iteration (looks like a secret): .env"
    assert done.exit_code == 0
    assert flattened(done.stdout).count("looks like a secret") == 1
    assert said in flattened(done.stdout)
    assert said in agent.heard[1]


@pytest.mark.long
def test_what_the_user_committed_between_two_starts_is_not_the_agents(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    claude_script([summary("one")], [run("git reset -q --hard HEAD~1"), summary("two")], [summary("DONE")])
    ralph("run", "goal.md", "--max-iterations", "1")
    (repo / ".env").write_text("TOKEN=1\n")
    git(repo, "add", ".env")
    mine = commit_all(repo, "my own")

    done = ralph("run", "goal.md")

    assert done.exit_code == 0
    assert "secret" not in done.stdout
    assert mine in git(repo, "rev-list", "main"), "an agent that resets the branch does not drop it"


def flattened(text: str) -> str:
    """Text without the line breaks that a narrow terminal makes."""
    return " ".join(text.split())


def when_free(ralph: Ralph, *flags: str) -> Finished:
    """Start ralph once the tree of the last one is gone."""
    ended: list[Finished] = []

    def starts() -> bool:
        ended.append(ralph("run", "goal.md", *flags))
        return "another run" not in ended[-1].stderr

    assert comes_true(starts, 12), "the lock is never given up"
    return ended[-1]


@pytest.mark.parametrize(
    ("before", "after"),
    [("", "RALPH_MAX_ITERATIONS=9"), pytest.param("RALPH_MAX_ITERATIONS=1", "", marks=pytest.mark.long)],
    ids=["added", "taken away"],
)
def test_settings_that_an_agent_wrote_to_dotenv_do_not_count(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript, before: str, after: str
) -> None:
    write_goal(repo)
    ralph("config", "set", "max_iterations", "1" if not before else "9")
    (repo / ".env").write_text(f"{before}\n")
    agent = claude_script([run(f"echo '{after}' > .env"), summary("One.")], [summary("Two.")])
    assert ralph("run", "goal.md").exit_code == 4

    refused = ralph("run", "goal.md")

    assert refused.exit_code == 2
    assert "max_iterations was" in refused.stderr
    assert len(agent.starts) == 1
    assert ralph("run", "goal.md", "--max-iterations", "2").exit_code == 4, "the user's own word counts"
    assert len(agent.starts) == 2
