"""What an agent can write is not believed: green checks, what the check leads to, and processes that it left behind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.git_repos import git
from tests.support.goals import run_directory, write_check, write_goal
from tests.support.ralph_process import Ralph
from tests.support.scripted_agent import ClaudeScript, hang, kill_self, run, summary, write
from tests.support.waiting import comes_true, is_alive, pid_in, wait_until


def test_a_green_check_in_the_runs_record_is_run_again(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    """An agent writes one for its claim, and has ralph killed: the next start checks the claim itself."""
    write_goal(repo)
    write_check(repo)
    claude_script(
        [write("answer.txt", "41\n"), summary("DONE")], [kill_self(9)], [write("answer.txt", "42\n"), summary("DONE")]
    )
    assert ralph("run", "goal.md", "--max-iterations", "1").exit_code == 4
    record = run_directory(repo) / "run.json"
    document = json.loads(record.read_text())
    assert document["check"]["exit_code"] == 1
    document["check"]["exit_code"] = 0
    document["exit_code"] = None
    record.write_text(json.dumps(document))

    done = ralph("run", "goal.md", "--json", "--max-iterations", "4")

    checked = [event["exit_code"] for event in done.events_of("check_ended")]
    assert checked[0] == 1
    assert checked[-1] == (0 if done.exit_code == 0 else 1)


def test_what_the_check_leads_to_counts_as_it_stood(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    write_goal(repo)
    write_check(repo)
    (repo / "tools").mkdir()
    (repo / ".ralph" / "check").rename(repo / "tools" / "check.sh")
    (repo / ".ralph" / "check").symlink_to("../tools/check.sh")
    git(repo, "add", "--all")
    git(repo, "commit", "--quiet", "-mcheck")
    bribe = run("echo '#!/bin/sh' > tools/check.sh")
    agent = claude_script(
        [write("answer.txt", "41\n"), bribe, summary("DONE")], [write("answer.txt", "42\n"), summary("DONE")]
    )

    done = ralph("run", "goal.md", "--json")

    assert done.exit_code == 0, done
    assert [event["exit_code"] for event in done.events_of("check_ended")] == [1, 0]
    assert ".ralph/check" in agent.heard[1]
    assert "grep" in (repo / "tools" / "check.sh").read_text()


@pytest.mark.parametrize("again", [("goal.md",), ("other.md", "--allow-dirty")], ids=["same goal", "other goal"])
def test_what_survived_guardian_and_ralph_is_ended_by_the_next_start(
    repo: Path, ralph: Ralph, world: Path, claude_script: ClaudeScript, again: tuple[str, ...]
) -> None:
    write_goal(repo)
    write_goal(repo, name="other.md")
    left = f"setsid sh -c 'echo $$ > {world}/left; exec sleep 600' > /dev/null 2>&1 < /dev/null &"
    both = "g=$(ps -o ppid= -p $PPID | tr -d ' '); r=$(ps -o ppid= -p $g | tr -d ' ')"
    waiting = f"until test -s {world}/left; do sleep 0.05; done"
    claude_script([run(f"{left} {waiting}; {both}; kill -9 $g $r"), hang()])
    with ralph.start("run", "goal.md", "--allow-dirty") as first:
        wait_until(lambda: not is_alive(first.pid), "the end of ralph")
        survivor = pid_in(world / "left")
        assert is_alive(survivor)
        claude_script([summary("DONE")])

        done = ralph("run", *again)

        assert comes_true(lambda: not is_alive(survivor), 5)
    assert done.exit_code == 0, done
    assert "that an earlier session left running" in done.stdout
