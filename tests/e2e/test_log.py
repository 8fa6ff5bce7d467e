"""`ralph log` and `ralph diff`: what a run did and what it changed, told of runs in every state."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.git_repos import commits, git
from tests.support.goals import raw_logs, run_directory, write_check, write_goal
from tests.support.ralph_process import Finished, Ralph
from tests.support.scripted_agent import ClaudeScript, bill, hang, run, summary, write

FIRST, SECOND = "Wrote a first answer. It may be right.", "The answer is 42. I ran the check."


@pytest.fixture
def told(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> Path:
    """A repository with a run of two iterations: a claim that was refuted, and one that was proven."""
    write_goal(repo)
    write_check(repo)
    claude_script(
        [bill(0.5), write("answer.txt", "41\n"), summary(f"DONE\n{FIRST}")],
        [bill(0.25), run("echo seen by nobody else"), write("answer.txt", "42\n"), summary(f"DONE\n{SECOND}")],
    )
    assert ralph("run", "goal.md", "--max-iterations", "9").exit_code == 0
    return repo


def document(done: Finished) -> dict[str, Any]:
    assert done.exit_code == 0, done
    return json.loads(done.stdout)


def refused(done: Finished, *words: str) -> None:
    assert (done.exit_code, done.stdout) == (2, ""), done
    assert done.stderr.startswith("error: ")
    assert "\n\nhint: " in done.stderr
    assert not [word for word in words if word not in done.stderr], done.stderr


def test_a_run_is_told_iteration_by_iteration(told: Path, ralph: Ralph) -> None:
    said = ralph("log").stdout
    first, second = commits(told)[-2:]

    rows = [line.split() for line in said.splitlines() if line[:2].strip().isdigit()]
    assert [row[:5] for row in rows] == [
        ["1", "DONE", "red", "(1)", "$1.00"],
        ["2", "DONE", "green", "$0.75", rows[1][4]],
    ]
    assert [first.sha[:10] in said, second.sha[:10] in said] == [True, True]
    assert f"claims DONE: {FIRST}\n" in said
    assert f"claims DONE: {SECOND}\n" in said
    assert "state      done · exit 0 · proven" in said
    assert "ralph log goal -i 2; changes: ralph diff goal" in said
    assert ralph("log", "goal.md").stdout == ralph("log", "goal").stdout == said

    known = document(ralph("log", "--json"))
    assert (known["goal"], known["branch"], known["exit_code"], known["proven"]) == ("goal", "main", 0, True)
    assert (known["live"], known["rebuilt"], known["cost_usd"]) == (False, False, 1.75)
    assert [(each["commit"], each["cost_usd"], each["sessions"]) for each in known["iterations"]] == [
        (first.sha, 1.0, 1),
        (second.sha, 0.75, 1),
    ]
    assert [each["check"]["exit_code"] for each in known["iterations"]] == [1, 0]
    assert known["iterations"][0]["check"]["output"] == "not 42 but: 41\n"
    assert all(each["seconds"] > 0 for each in known["iterations"])


def test_an_iteration_shows_its_conversation_with_the_output_of_tools(told: Path, ralph: Ralph) -> None:
    second = ralph("log", "-i", "2").stdout
    assert "echo seen by nobody else" in second
    assert "\n           seen by nobody else\n" in second
    assert f"\ncommit     {commits(told)[-1].sha[:10]} · DONE\nturns      4 (" in second
    assert second.endswith("\ncheck      green\n")
    assert "seen by nobody" not in (first := ralph("log", "goal", "-i", "1").stdout)
    assert first.endswith("check      red (1)\n           not 42 but: 41\n")
    events = [json.loads(line) for line in ralph("log", "-i", "2", "--json").stdout.splitlines()]
    assert "seen by nobody else" in "".join(each["text"] for each in events if each["type"] == "tool_output")


def test_the_diff_is_of_the_whole_run_or_of_one_iteration(told: Path, ralph: Ralph) -> None:
    base, first, second = (commit.sha for commit in commits(told)[-3:])
    assert ralph("diff").stdout.startswith(f"goal · {base[:10]}..{second[:10]} · 1 file, +1 -0\n\ndiff --git ")
    only = ralph("diff", "goal", "-i", "2").stdout
    assert only.startswith(f"goal iteration 2 · {first[:10]}..{second[:10]} · 1 file, +1 -1\n")
    assert "\n-41\n+42\n" in only
    exact = document(ralph("diff", "-i", "2", "--json"))
    assert (exact["base"], exact["head"]) == (first, second)
    assert exact["files"] == [{"path": "answer.txt", "added": 1, "removed": 1}]
    git(told, "reset", "--quiet", "--hard", first)
    (told / "its.patch").write_text(exact["patch"])
    git(told, "apply", "its.patch")
    assert (told / "answer.txt").read_text() == "42\n"


def test_a_run_whose_directory_is_lost_is_told_by_its_commits(told: Path, ralph: Ralph) -> None:
    before, patch = document(ralph("log", "--json")), ralph("diff").stdout
    shutil.rmtree(run_directory(told).parent)

    for args in ((), ("goal",)):
        known = document(ralph("log", *args, "--json"))
        assert (known["rebuilt"], known["cost_usd"], known["directory"]) == (True, 1.75, "")
        same = ("iteration", "verdict", "summary", "commit", "cost_usd")
        assert [[each[key] for key in same] for each in known["iterations"]] == [
            [each[key] for key in same] for each in before["iterations"]
        ]
        assert known["iterations"][0]["check"] is None
    assert "this comes from its commits" in ralph("log").stdout
    assert ralph("log").stdout.endswith("\nchanges: ralph diff goal\n"), "no conversation: its logs are gone as well"
    assert ralph("diff").stdout == patch
    refused(
        ralph("log", "-i", "2"), "cannot find the log of iteration 2 of goal on this machine", "ralph diff goal -i 2"
    )


def test_the_latest_run_is_meant_and_an_archived_one_is_had_by_its_name(
    told: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    claude_script([write("more.txt", "more\n"), summary("DONE: All of it again.")])
    assert ralph("run", "goal.md", "--fresh").exit_code == 0

    latest = document(ralph("log", "--json"))
    assert ([each["summary"] for each in latest["iterations"]], latest["earlier"]) == (["All of it again."], ["goal-1"])
    assert "earlier runs: ralph log goal-1\n" in ralph("log").stdout
    assert [each["summary"] for each in document(ralph("log", "goal-1", "--json"))["iterations"]] == [FIRST, SECOND]
    assert "seen by nobody else" in ralph("log", "goal-1", "-i", "2").stdout
    assert "answer.txt" in ralph("diff", "goal-1").stdout
    assert "answer.txt" not in ralph("diff").stdout


def test_a_run_that_goes_on_is_told_as_far_as_it_has_come(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    write_goal(repo)
    write_check(repo)
    claude_script([write("answer.txt", "41\n"), summary(FIRST)], [run("echo under way"), hang()])
    with ralph.start("run", "goal.md", "--json") as going:
        going.wait_for("tool_end", 3)
        known = document(ralph("log", "--json"))
        assert (known["live"], known["exit_code"], len(known["iterations"])) == (True, None, 1)
        assert "state      live · in a session\n" in ralph("log").stdout
        assert "under way" in ralph("log", "-i", "2").stdout
        refused(ralph("log", "-i", "3"), "goal has no iteration 3: it has 1 to 1", "ralph log goal")


def test_a_run_whose_every_session_failed_is_told_with_their_conversation(repo: Path, ralph: Ralph) -> None:
    write_goal(repo)
    failed = ralph("run", "goal.md", "--agent-cmd", "sh -c 'echo no key; exit 7'", "--transcript", "plain")
    assert failed.exit_code == 1, failed

    told = ralph("log")
    assert told.exit_code == 0, told
    assert "no finished iteration yet" in told.stdout
    assert told.stdout.endswith("\nconversation: ralph log goal -i 1\n")
    assert "no key" in ralph("log", "-i", "1").stdout
    assert document(ralph("log", "--json"))["iterations"] == []
    refused(ralph("log", "-i", "2"), "goal has no finished iteration yet", "ralph log goal")
    refused(ralph("diff"), "goal has no finished iteration yet", "ralph log goal")


def test_what_an_agent_wrote_steers_no_terminal(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    write_goal(repo)
    claude_script(
        [
            write("a\x1b]0;evil\x07.txt", "\x1b[2Jgone\r\n"),
            run("printf 'x\\033[2Jy'"),
            summary("DONE\nSaid \x1b[2J\x9b2J."),
        ]
    )
    assert ralph("run", "goal.md").exit_code == 0
    for args in (("log",), ("log", "-i", "1"), ("diff",), ("log", "--json"), ("diff", "--json")):
        said = ralph(*args)
        assert said.exit_code == 0, said
        assert not set(said.stdout) & {"\x1b", "\x9b", "\x07", "\r"}, args
    assert "\x1b[2Jgone\r\n" in document(ralph("diff", "--json"))["patch"]


def test_what_cannot_be_told_is_refused_with_the_next_step(repo: Path, ralph: Ralph, tmp_path: Path) -> None:
    refused(ralph("log"), f"there is no run for {repo} yet", "ralph run GOAL.md")
    refused(ralph("diff", "nonesuch"), "there is no run for nonesuch", "ralph status")
    outside = tmp_path / "outside"
    outside.mkdir()
    refused(ralph("log", cwd=outside), "there is no run yet")
    assert not (repo / ".ralph").exists()


def test_an_iteration_that_there_is_not_or_whose_log_is_gone(told: Path, ralph: Ralph) -> None:
    refused(ralph("log", "-i", "3"), "goal has no iteration 3: it has 1 to 2", "ralph log goal")
    refused(ralph("diff", "-i", "3"), "goal has no iteration 3")
    refused(ralph("log", "-i", "0"), "0 is less than 1")
    refused(ralph("diff", "-i", "two"), "two")
    raw_logs(told)[0].unlink()
    refused(ralph("log", "-i", "1"), "cannot find the log of iteration 1 of goal on this machine")
    git(told, "checkout", "--quiet", "--orphan", "other")
    git(told, "branch", "--quiet", "-D", "main")
    git(told, "reflog", "expire", "--expire=now", "--all")
    git(told, "gc", "--quiet", "--prune=now")
    gone = ralph("diff")
    assert (gone.exit_code, gone.stdout) == (1, "")
    assert "is no longer in the repository" in gone.stderr
    assert FIRST in ralph("log").stdout
