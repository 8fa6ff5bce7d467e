"""The preflight of a batch: what keeps its goals from starting is seen before anything is cloned or charged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.batches import Batch, wrote
from tests.support.git_repos import commit_all, git
from tests.support.goals import write_check
from tests.support.ports import free_port
from tests.support.ralph_process import Finished, Ralph

NOBODY = "error: cannot find the agent: `claude` is not on PATH"
NEXT = "\nthen continue with: ralph-runs run --all"


def for_claude(batch: Batch, *names: str, repo: str = "upstream", agent: str = "claude", **keys: Any) -> list[Path]:
    return [batch.goal(name, [], repo=repo, agent=agent, model="sonnet", **keys) for name in names]


def untouched(batch: Batch, count: int) -> bool:
    """Whether these many goals are queued, and nothing was fetched, cloned or charged for them."""
    goals = batch.goals().values()
    rows = {(goal["state"], goal["attempts"]) for goal in goals}
    return len(goals) == count and rows == {("queued", 0)} and not batch.clones() and not mirrors(batch)


def mirrors(batch: Batch) -> list[Path]:
    return list(batch.ralph_dir.glob("mirrors/**/HEAD"))


def program(folder: Path, name: str, script: str) -> Path:
    file = folder / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return file


def hint(done: Finished) -> str:
    return done.stderr.partition("\nhint: ")[2].rstrip("\n")


def test_eight_goals_without_their_agent_cost_nothing(batch: Batch, ralph: Ralph, bin_dir: Path) -> None:
    batch.upstream()
    goals = for_claude(batch, *(f"g{number}" for number in range(8)))
    done = batch.run(*goals)
    assert done.exit_code == 6, done.stdout + done.stderr
    assert done.stderr.splitlines()[0] == NOBODY
    alone = ralph("run", goals[0], "--repo", batch.repos["upstream"], env={"RALPH_DIR": str(batch.root / "other")})
    assert (alone.exit_code, alone.stderr.splitlines()[0]) == (6, NOBODY)
    assert hint(done) == hint(alone) + NEXT
    assert untouched(batch, 8)
    assert batch.runs("work", cwd=batch.root).exit_code == 6
    assert untouched(batch, 8)

    agent = program(bin_dir, "mine", 'cat > /dev/null; echo "<promise>COMPLETE</promise>"')
    assert batch.run("--agent-cmd", str(agent), "--transcript", "plain").exit_code == 0
    assert {(goal["state"], goal["attempts"]) for goal in batch.goals().values()} == {("done", 1)}


def test_an_agent_that_is_logged_out_starts_nothing(batch: Batch, bin_dir: Path) -> None:
    batch.upstream()
    asked = bin_dir / "asked"
    script = (
        f'[ "$1" = --version ] && echo "2.1.325" && exit; echo "$*" >> {asked}; echo \'{{"loggedIn": false}}\'; exit 1'
    )
    program(bin_dir, "claude", script)
    done = batch.run(*for_claude(batch, "one", "two"))
    assert (done.exit_code, done.stderr.splitlines()[0]) == (6, "error: the agent claude is not logged in")
    assert "Claude Code: run `claude`, type /login" in hint(done)
    assert asked.read_text() == "auth status --json\n", "it is asked once, and nothing that would cost anything"
    assert untouched(batch, 2)


@pytest.mark.parametrize("file", [".envrc", ".claude/settings.json"])
def test_a_repository_that_may_log_its_agent_in_is_tried(batch: Batch, bin_dir: Path, file: str) -> None:
    batch.upstream(files={file: "{}\n"})
    asked = bin_dir / "asked"
    program(bin_dir, "claude", f'[ "$1" = --version ] && echo "2.1.325" && exit; touch {asked}; exit 1')
    done = batch.run(*for_claude(batch, "one", max_iterations=1))
    assert (done.exit_code, batch.states()) == (1, {"one": "stuck"})
    assert batch.goals()["one"]["attempts"] == 1


def test_a_check_that_cannot_be_started_is_seen_before_a_session(batch: Batch, ralph_runs: Ralph) -> None:
    batch.upstream("broken", check="")
    first = batch.root / "broken-first"
    write_check(first).chmod(0o644)
    commit_all(first, "a check")
    git(first, "push", "--quiet", str(batch.repos["broken"]), "HEAD:main")
    done = batch.run(batch.goal("one", wrote("one"), repo="broken"))
    assert done.exit_code == 6, done.stdout + done.stderr
    assert done.stderr.splitlines()[0] == f"error: {batch.repos['broken']}/.ralph/check is not executable"
    assert "make it executable: chmod +x .ralph/check" in hint(done)
    assert untouched(batch, 1)

    batch.upstream()
    other = batch.goal("two", wrote("two"), repo="upstream", check="no-such-program --all")
    done = batch.run(other, "--all")
    assert done.exit_code == 6
    assert "  g1: " in done.stderr
    assert "  g2: cannot run the check: 'no-such-program' was not found, or is not executable\n" in done.stderr
    assert untouched(batch, 2)


def test_what_can_start_does_and_the_others_are_not_charged(batch: Batch) -> None:
    batch.upstream()
    good = batch.goal("good", wrote("good"), repo="upstream")
    done = batch.run(good, *for_claude(batch, "one", "two", agent="codex"))
    assert done.exit_code == 1, done.stdout + done.stderr
    assert batch.states() == {"good": "done", "one": "stuck", "two": "stuck"}
    assert [batch.goals()[name]["attempts"] for name in ("one", "two")] == [0, 0]
    assert done.stdout.count("stuck: cannot find the agent: `codex` is not on PATH\n") == 2
    assert done.stdout.count("; then: ralph-runs retry ID\n") == 1, "the way out is told once"
    assert "next       fix that, then: ralph-runs retry g2\n" in batch.runs("show", "g2").stdout


def test_one_repository_that_is_away_holds_up_nobody_else(batch: Batch) -> None:
    batch.upstream()
    away = f"git://127.0.0.1:{free_port()}/away.git"
    lost = batch.goal("lost", wrote("lost"), repo=away)
    done = batch.run(lost)
    assert done.exit_code == 6, done.stdout + done.stderr
    assert done.stderr.startswith(f"error: cannot reach {away}: ")
    assert f"check access with: git ls-remote {away}" in hint(done)
    assert untouched(batch, 1)

    with batch.start("--all", batch.goal("good", wrote("good"), repo="upstream")) as running:
        running.wait_until(lambda: batch.states().get("good") == "done", "the other one is worked on")


def test_a_worker_has_time_limits_and_an_agent_of_its_own(batch: Batch, bin_dir: Path) -> None:
    batch.upstream()
    agent = program(bin_dir, "silent", "exec sleep 60")
    flags = ("--agent-cmd", str(agent), "--idle-timeout", "1s", "--iteration-timeout", "30s")
    goal = batch.goal("one", [], repo="upstream", agent="codex", model="sonnet", max_iterations=1)
    done = batch.run(goal, *flags)
    assert (done.exit_code, batch.states()) == (1, {"one": "stuck"})
    log = batch.runs("logs", "one").stdout
    assert "no output for 1.0s (idle_timeout)" in log, log
    for command in ("run", "work"):
        refused = batch.runs(command, "--idle-timeout", "soon", cwd=batch.root)
        assert refused.exit_code == 2
        assert refused.stderr.startswith("error: invalid settings:\n  --idle-timeout: ")
