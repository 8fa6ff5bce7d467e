"""A goal that is proven and run again: it costs nothing, unless the check says that it is no longer so."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest

from tests.support.git_repos import commit_all, commits, git
from tests.support.goals import GOAL, result, run_directory, write_check, write_goal
from tests.support.ralph_process import Finished, Ralph
from tests.support.scripted_agent import ClaudeScript, ScriptedAgent, summary, write

DONE = [write("answer.txt", "42\n"), summary("DONE")]
AGAIN = [write("answer.txt", "42\n"), summary("DONE")]


@pytest.fixture
def agent(claude_script: ClaudeScript) -> ScriptedAgent:
    return claude_script(DONE, AGAIN, AGAIN)


@pytest.fixture
def proven(ralph: Ralph, repo: Path, agent: ScriptedAgent) -> str:
    """A goal that was proven; returns the commit."""
    write_goal(repo)
    write_check(repo)
    assert ralph("run", "goal.md").exit_code == 0
    assert len(agent.starts) == 1
    return git(repo, "rev-parse", "HEAD")


def files(directory: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()}


def said(done: Finished) -> list[str]:
    return [event["type"] for event in done.events]


def test_it_is_not_run_again_and_says_at_which_commit(
    ralph: Ralph, repo: Path, agent: ScriptedAgent, proven: str
) -> None:
    before = files(run_directory(repo))
    done = ralph("run", "goal.md")
    assert done.exit_code == 0
    assert f"done: already proven at commit {proven[:10]}; neither the goal nor HEAD has changed" in done.stdout
    assert "next       start over: ralph run goal.md --fresh" in done.stdout
    assert ralph("run", "goal.md", "--quiet").stdout.strip().startswith("result")
    assert (len(agent.starts), git(repo, "rev-parse", "HEAD")) == (1, proven)
    assert files(run_directory(repo)) == before


def test_programs_are_told_the_same(ralph: Ralph, agent: ScriptedAgent, proven: str) -> None:
    done = ralph("run", "goal.md", "--json")
    assert (done.exit_code, said(done), len(agent.starts)) == (0, ["run_started", "run_ended"], 1)
    (ended,) = done.events_of("run_ended")
    assert (ended["exit_code"], ended["proven"]) == (0, True)
    assert proven[:10] in ended["reason"]


def test_where_head_has_moved_a_green_check_is_enough(
    ralph: Ralph, repo: Path, agent: ScriptedAgent, proven: str
) -> None:
    (repo / "more.txt").write_text("more\n")
    moved = commit_all(repo, "more")
    run = result(repo)["run"]
    done = ralph("run", "goal.md")
    assert done.exit_code == 0
    assert f"proven at commit {proven[:10]}; checking it again" in done.stdout
    assert f"done: proven again by .ralph/check at commit {moved[:10]}\n" in done.stdout
    assert len(agent.starts) == 1
    assert result(repo) == {**result(repo), "run": run, "proven": True, "head": moved, "iterations": 1}

    again = ralph("run", "goal.md", "--json")
    assert (again.exit_code, said(again)) == (0, ["run_started", "run_ended"])  # not even the check
    assert moved[:10] in again.events[-1]["reason"]


def test_a_red_one_starts_a_session_that_is_told_of_it(
    ralph: Ralph, repo: Path, agent: ScriptedAgent, proven: str
) -> None:
    (repo / "answer.txt").write_text("43\n")
    commit_all(repo, "break it")
    first = result(repo)["run"]
    done = ralph("run", "goal.md", "--json")
    assert (done.exit_code, len(agent.starts)) == (0, 2)
    assert [event["exit_code"] for event in done.events_of("check_ended")] == [1, 0]
    assert said(done).index("check_ended") < said(done).index("iteration_started")
    assert [event["seq"] for event in done.events] == list(range(1, len(done.events) + 1))
    assert "An earlier run reached this goal. Commits since then broke it" in agent.heard[1]
    assert "not 42 but: 43" in agent.heard[1]
    assert "claimed DONE" not in agent.heard[1].partition("# The goal")[0]
    assert result(repo)["run"] != first


def test_stopped_while_it_checks_again_it_stays_proven(
    ralph: Ralph, repo: Path, agent: ScriptedAgent, proven: str, tmp_path: Path
) -> None:
    write_check(repo, "#!/bin/sh\necho begun > $BEGUN\nsleep 300\n")
    before, begun = files(run_directory(repo)), tmp_path / "begun"
    with ralph.start("run", "goal.md", env={"BEGUN": str(begun)}) as running:
        running.wait_until(begun.exists, "the check")
        running.send(signal.SIGINT)
        assert running.wait().exit_code == 130
    left = {name: text for name, text in files(run_directory(repo)).items() if "/logs/check/" not in name}
    assert left == {name: text for name, text in before.items() if "/logs/check/" not in name}
    assert len(agent.starts) == 1


def test_fresh_starts_over(ralph: Ralph, agent: ScriptedAgent, proven: str) -> None:
    assert ralph("run", "goal.md", "--fresh").exit_code == 0
    assert len(agent.starts) == 2


def test_another_text_is_another_goal(ralph: Ralph, repo: Path, agent: ScriptedAgent, proven: str) -> None:
    write_goal(repo, GOAL + "- And nothing else.\n")
    assert ralph("run", "goal.md").exit_code == 0
    assert len(agent.starts) == 2


def test_another_check_judges_anew(ralph: Ralph, repo: Path, agent: ScriptedAgent, proven: str) -> None:
    write_check(repo, "#!/bin/sh\necho as you like it\n")
    done = ralph("run", "goal.md", "--json")
    assert (done.exit_code, said(done)[-2:], len(agent.starts)) == (0, ["check_ended", "run_ended"], 1)
    assert said(ralph("run", "goal.md", "--json")) == ["run_started", "run_ended"]

    named = ralph("run", "goal.md", "--json", "--check", "grep -c 42 answer.txt")
    assert (named.exit_code, named.events_of("check_ended")[0]["output"], len(agent.starts)) == (0, "1\n", 1)


def test_what_was_never_proven_is_run(ralph: Ralph, repo: Path, agent: ScriptedAgent) -> None:
    write_goal(repo)
    assert "not verified" in ralph("run", "goal.md").stdout
    assert ralph("run", "goal.md").exit_code == 0
    assert len(agent.starts) == 2


def test_work_that_is_gone_is_done_again_whatever_the_check_says(
    ralph: Ralph, repo: Path, agent: ScriptedAgent
) -> None:
    write_goal(repo)
    write_check(repo, "#!/bin/sh\nexit 0\n")
    assert ralph("run", "goal.md").exit_code == 0
    git(repo, "reset", "--quiet", "--hard", "HEAD~1")
    assert ralph("run", "goal.md").exit_code == 0
    assert (len(agent.starts), (repo / "answer.txt").read_text()) == (2, "42\n")


def test_work_that_was_squashed_is_still_there(ralph: Ralph, repo: Path, agent: ScriptedAgent, proven: str) -> None:
    git(repo, "reset", "--quiet", "--soft", "HEAD~1")
    git(repo, "commit", "--quiet", "-m", "The answer")
    done = ralph("run", "goal.md", "--json")
    assert (done.exit_code, len(done.events_of("check_ended")), len(agent.starts)) == (0, 1, 1)
    assert len(commits(repo)) == 2


def test_uncommitted_changes_are_not_part_of_it(ralph: Ralph, repo: Path, agent: ScriptedAgent, proven: str) -> None:
    (repo / "README.md").write_text("changed\n")
    done = ralph("run", "goal.md")
    assert (done.exit_code, len(agent.starts)) == (0, 1)
    assert "the proof does not cover uncommitted changes: README.md" in done.stdout

    assert ralph("run", "goal.md", "--allow-dirty").exit_code == 0  # whoever says so means them
    assert len(agent.starts) == 2


def test_a_moved_head_with_changes_in_the_tree_is_refused(
    ralph: Ralph, repo: Path, agent: ScriptedAgent, proven: str
) -> None:
    (repo / "more.txt").write_text("more\n")
    commit_all(repo, "more")
    (repo / "README.md").write_text("changed\n")
    done = ralph("run", "goal.md")
    assert (done.exit_code, len(agent.starts)) == (2, 1)
    assert "the working tree has uncommitted changes: README.md" in done.stderr


def test_a_record_that_is_damaged_or_gone_proves_nothing(
    ralph: Ralph, repo: Path, agent: ScriptedAgent, proven: str
) -> None:
    (run_directory(repo) / "result.json").write_text("{")
    assert ralph("run", "goal.md").exit_code == 0
    assert len(agent.starts) == 2
    shutil.rmtree(run_directory(repo))
    assert ralph("run", "goal.md").exit_code == 0
    assert len(agent.starts) == 3
