"""Many goals, many clones: from the queue to main, with real repositories and an agent that plays scripts."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path

import pytest

from tests.support.batches import (
    CHECK_TEXTS,
    Batch,
    green_before_merges,
    merged_goals,
    require_green_history,
    require_linear,
    says,
    shell,
    write,
    wrote,
)
from tests.support.git_repos import commit_all, git, make_repo
from tests.support.waiting import wait_until

COMMIT = "git -c user.name=x -c user.email=x@y commit --quiet --message"


@pytest.mark.spec("1.7.3-a")
@pytest.mark.spec("3.8-h")
@pytest.mark.long
def test_twenty_goals_over_three_repositories(batch: Batch, tmp_path: Path) -> None:
    for name in ("one", "two", "three"):
        batch.upstream(name, check=green_before_merges() if name == "two" else CHECK_TEXTS)
    # A diamond, in the first repository: base, then left and right, then top, which needs all of them.
    batch.goal("base", wrote("base"), repo="one")
    for side in ("left", "right"):
        needs = [[shell("test -f texts/base.txt"), write(f"texts/{side}.txt", "Fine.\n"), says(f"wrote {side}")]]
        batch.goal(side, [*needs, [says("DONE")]], repo="one", after=["base"])
    batch.goal("top", wrote("top"), repo="one", after=["left", "right"])
    # Green in its run: its first two attempts are refused on the way to main.
    tries = batch.root / "tries"
    better = f'n=$(cat {tries} || echo 0); echo $((n + 1)) > {tries}; [ "$n" -ge 2 ] && echo Fine. > texts/flaky.txt'
    batch.goal(
        "flaky",
        [[shell(f"mkdir -p texts; echo no > texts/flaky.txt; {better}"), says("DONE")]],
        repo="two",
    )
    batch.goal("hopeless", [[shell("mkdir -p texts; echo no > texts/hopeless.txt"), says("DONE")]], repo="two")
    batch.goal("endless", [[shell("sleep 300"), says("DONE")]], repo="two", priority=5)
    batch.goal("limited", [[write("texts/limited.txt", "Fine.\n"), says("more to do")]], repo="three", max_iterations=1)
    batch.upstream("unchecked", check="")
    batch.goal("unproven", wrote("unproven"), repo="unchecked")
    names = [f"plain-{number}" for number in range(11)]
    for number, name in enumerate(names):
        batch.goal(name, wrote(name), repo=("one", "two", "three")[number % 3])

    with batch.start(batch.root / "goals", "--max", "4") as running:
        wait_until(lambda: "endless" in running.stdout and batch.states().get("endless") == "running", "endless runs")
        assert batch.runs("cancel", "endless", cwd=batch.root).exit_code == 0
        finished = running.wait(timeout=300)

    assert finished.exit_code == 1, finished.stdout + finished.stderr
    expected = dict.fromkeys(["base", "left", "right", "top", "flaky", *names], "done")
    expected |= {"hopeless": "stuck", "endless": "cancelled", "limited": "stuck", "unproven": "stuck"}
    assert batch.states() == expected
    assert len(expected) == 20
    for name in ("one", "two", "three"):
        require_linear(batch.repos[name])
        require_green_history(batch.repos[name], tmp_path / "history")
    order = merged_goals(batch.repos["one"])
    assert order.index("base") < min(order.index("left"), order.index("right"))
    assert max(order.index("left"), order.index("right")) < order.index("top")
    assert sorted(order) == sorted(["base", "left", "right", "top", *names[0::3]])
    assert sorted(merged_goals(batch.repos["two"])) == sorted(["flaky", *names[1::3]])
    assert sorted(merged_goals(batch.repos["three"])) == sorted(names[2::3])
    assert merged_goals(batch.repos["unchecked"]) == []

    goals = batch.goals()
    assert (goals["flaky"]["attempts"], goals["hopeless"]["attempts"]) == (3, 4)
    history = [comment["text"] for comment in batch.show("hopeless")["comments"]]
    assert len(history) == 4
    assert all("texts/hopeless.txt: no full stop" in said for said in history)
    assert "limit reached: --max-iterations" in batch.show("limited")["reason"]
    assert "unproven" in batch.show("unproven")["reason"]
    unmerged = {"hopeless", "endless", "limited", "unproven"}
    assert {clone.name.partition("-")[2] for clone in batch.leftovers()} == unmerged


def test_a_push_that_a_rule_of_the_server_declines_is_mended_by_the_next_attempt(batch: Batch) -> None:
    upstream = batch.upstream()
    hook = upstream / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(
        """#!/bin/sh
read old new ref
git ls-tree -r --name-only "$new" | grep -q LICENSE || { echo "no LICENSE here"; exit 1; }
"""
    )
    hook.chmod(0o755)
    seen = batch.root / "seen.md"
    copy = f"cp {batch.ralph_dir}/batch/*/goals/g1/rules.md {seen}; [ -e texts/rules.txt ] && touch LICENSE"
    batch.goal("rules", [[shell(copy), write("texts/rules.txt", "Fine.\n"), says("DONE")]])

    finished = batch.run(batch.root / "goals" / "rules.md", "--repo", upstream)

    assert finished.exit_code == 0, finished.stdout + finished.stderr
    assert batch.goals()["rules"]["attempts"] == 2
    assert "no LICENSE here" in seen.read_text()
    assert "attempt 2 of 4" in seen.read_text()


def test_a_conflict_is_resolved_by_the_next_attempt_which_finds_both_sides(batch: Batch) -> None:
    upstream = batch.upstream(files={"texts/shared.txt": "First.\n"})
    batch.goal("quick", [[shell("echo Quick. >> texts/shared.txt"), says("DONE")]], priority=1)
    tried = batch.root / "tried"
    again = "grep -q '<<<<<<<' texts/shared.txt && printf 'First.\\nQuick.\\nSlow.\\n' > texts/shared.txt"
    waits = f"until git --git-dir={upstream} log --format=%s main | grep -qx quick; do sleep 0.05; done"
    first = f"touch {tried}; {waits}; echo Slow. >> texts/shared.txt"
    batch.goal("slow", [[shell(f"if [ -e {tried} ]; then {again}; else {first}; fi"), says("DONE")]])

    finished = batch.run(batch.root / "goals", "--repo", upstream, "--max", "2")

    assert finished.exit_code == 0, finished.stdout + finished.stderr
    assert git(upstream, "show", "main:texts/shared.txt") == "First.\nQuick.\nSlow."
    assert [goal["attempts"] for goal in batch.goals().values()] == [1, 2]
    assert "conflicts with main: texts/shared.txt" in finished.stdout
    require_linear(upstream)


@pytest.mark.long
def test_what_the_agent_leaves_undone_under_a_green_check_goes_to_the_next_attempt(batch: Batch) -> None:
    """Nobody looks at `notes` but the merge: first conflicts, then their markers, then a secret."""
    upstream = batch.upstream(files={"notes": "First\n"}, check="#!/bin/sh\n")
    batch.goal("quick", [[shell("echo Quick >> notes"), says("DONE")]], priority=1)
    waits = f"until git --git-dir={upstream} log --format=%s main | grep -qx quick; do sleep 0.05; done"
    count, read = (
        f"echo >> {batch.root}/tries; case $(wc -l < {batch.root}/tries) in",
        f"cat {batch.ralph_dir}/batch/*/goals/g2/slow.md",
    )
    tries = [
        f"{waits}; echo Slow >> notes",
        ":",
        f"printf 'First\nQuick\nSlow\n' > notes; echo x > id_rsa; git add id_rsa; {COMMIT} key",
        f"{read} | grep -q id_rsa && git rm -q id_rsa",
    ]
    cases = " ".join(f"{number}) {command} ;;" for number, command in enumerate(tries, 1))
    batch.goal("slow", [[shell(f"{count} {cases} esac"), says("DONE")]])

    finished = batch.run(batch.root / "goals", "--repo", upstream, "--max", "2")

    assert finished.exit_code == 0, finished.stdout + finished.stderr
    assert [goal["attempts"] for goal in batch.goals().values()] == [1, 4]
    reasons = [event.partition("will retry: ")[2] for event in finished.stdout.splitlines() if "retry: " in event]
    assert reasons == [
        "conflicts with main: notes",
        "unresolved conflict markers in notes",
        "adds a file that looks like a secret: id_rsa",
    ]
    assert git(upstream, "show", "main:notes") == "First\nQuick\nSlow"
    assert "id_rsa" not in git(upstream, "log", "--name-only", "--format=", "main")


def test_what_is_unproven_is_merged_when_that_is_wanted_and_the_agent_is_not_run_again(batch: Batch) -> None:
    """Whoever has no check is told before anything is spent."""
    upstream = batch.upstream(check="")
    no_check = f"{upstream} has no .ralph/check on main: work cannot be proven, so it is not merged"
    batch.goal("bold", [[shell(f"echo >> {batch.root}/sessions"), write("bold.txt", "x"), says("DONE")]])
    first = batch.run(batch.root / "goals", "--repo", upstream)
    assert (first.exit_code, batch.states()) == (1, {"bold": "stuck"})
    assert "--merge-unproven" in first.stdout
    assert first.stdout.index(no_check) < first.stdout.index("started on ralph/bold")

    second = batch.run(batch.root / "goals", "--repo", upstream, "--merge-unproven")

    assert second.exit_code == 0, second.stdout + second.stderr
    assert no_check not in second.stdout
    assert merged_goals(upstream) == ["bold"]
    assert (batch.root / "sessions").read_text() == "\n"


def test_a_repository_here_with_changes_takes_nothing_and_loses_nothing(batch: Batch) -> None:
    """What is in the way is said of the queue, until work is merged."""
    mine = make_repo(batch.root / "mine", {"notes.txt": "Mine.\n", ".ralph/check": "#!/bin/sh\n"}, commit=False)
    (mine / ".ralph" / "check").chmod(0o755)
    commit_all(mine, "start")
    (mine / "notes.txt").write_text("Mine, and more.\n")
    goal = batch.goal("first", wrote("first"))

    refused = batch.run(goal, "--repo", mine)

    assert refused.exit_code == 1
    assert f"{mine} has main checked out with changes in notes.txt" in refused.stdout
    assert batch.states() == {"first": "stuck"}
    assert (mine / "notes.txt").read_text() == "Mine, and more.\n"
    with batch.runs.start("work", "--json", cwd=batch.root) as worker:
        assert batch.runs("retry", "first", cwd=batch.root).exit_code == 0
        worker.wait_for("stuck")
        wait_until(batch.cautions, "the caution")
        assert "changes in notes.txt: commit or stash them; merges wait" in batch.cautions()[0]
        commit_all(mine, "more")
        assert batch.runs("retry", "first", cwd=batch.root).exit_code == 0
        worker.wait_for("done")
        wait_until(lambda: not batch.cautions(), "its withdrawal")
        worker.send(signal.SIGTERM)
        worker.wait()
    assert (mine / "texts" / "first.txt").read_text() == "Fine.\n"
    assert batch.goals()["first"]["attempts"] == 1


def test_what_a_check_leaves_behind_hinders_no_retry_and_no_clone_from_going(batch: Batch) -> None:
    merged = "case $PWD in */checkouts/*) [ -e good.txt ];; esac"
    upstream = batch.upstream(check=f"#!/bin/sh\ndate > report.txt\n{merged}\n")
    second = f"echo one > part.txt; [ -e {batch.root}/tried ] && touch good.txt; touch {batch.root}/tried"
    batch.goal("tidy", [[shell(second), says("DONE")]])

    finished = batch.run(batch.root / "goals", "--repo", upstream)

    assert finished.exit_code == 0, finished.stdout + finished.stderr
    assert batch.goals()["tidy"]["attempts"] == 2
    assert batch.leftovers() == []


@pytest.mark.long
def test_a_goal_goes_on_from_what_the_mirror_keeps_of_it(batch: Batch) -> None:
    upstream = batch.upstream()
    counted = shell(f"echo $RALPH_ITERATION >> {batch.root}/iterations")
    waits = shell(f"until [ -e {batch.root}/go ]; do sleep 0.05; done")
    sessions = [[counted, write("texts/a.txt", "Fine.\n"), says("wrote a")], [counted, waits, says("DONE")]]
    batch.goal("long", sessions)
    with batch.start(batch.root / "goals", "--repo", upstream) as running:
        wait_until(lambda: (batch.root / "iterations").exists() and "iteration 1" in running.stdout, "one iteration")
        wait_until(lambda: (batch.root / "iterations").read_text() == "1\n2\n", "another one")
        running.send(signal.SIGTERM)
        assert running.wait().exit_code == 143
    (mirror,) = batch.ralph_dir.glob("mirrors/local/*.git")
    state = git(mirror, "show", "refs/ralph/state/long:progress.jsonl")
    assert json.loads(state)["summary"] == "wrote a"
    shutil.rmtree(batch.ralph_dir / "runs")
    (clone,) = batch.clones()
    shutil.rmtree(clone)
    (batch.root / "go").touch()

    finished = batch.run(batch.root / "goals", "--repo", upstream)

    assert finished.exit_code == 0, finished.stdout + finished.stderr
    assert (batch.root / "iterations").read_text() == "1\n2\n2\n"
    assert merged_goals(upstream) == ["long"]


def test_a_red_check_is_said_on_the_screen_in_the_history_and_to_the_next_attempt(batch: Batch) -> None:
    upstream = batch.upstream(check="#!/bin/sh\necho 'three of four pass'\nexit 1\n")
    batch.goal("red", [[write("texts/a.txt", "x"), says("DONE")]], max_iterations=2)

    finished = batch.run(batch.root / "goals", "--repo", upstream)

    assert finished.exit_code == 1
    lines = [line.split(maxsplit=3)[-1] for line in finished.stdout.splitlines() if " g1 red " in line]
    assert lines[1:] == [
        "iteration 1: claims DONE",
        "check red (exit 1): three of four pass",
        "iteration 2: claims DONE",
        "check red (exit 1): three of four pass",
        "stuck: limit reached: --max-iterations",
    ]
    (remark,) = batch.show("red")["comments"]
    assert "three of four pass" in remark["text"]


def test_what_refuses_a_run_before_it_begins_is_told_with_its_way_out(batch: Batch) -> None:
    batch.upstream(files={".ralph/config.toml": "failures = 0\n"})
    finished = batch.run(batch.goal("refused", wrote("refused"), repo="upstream"))

    assert finished.exit_code == 1
    assert batch.states() == {"refused": "stuck"}
    assert "invalid settings" in batch.show("refused")["reason"]
    assert "failures: '0' is not a whole number above zero" in batch.show("refused")["reason"]
    hint = "to change one in your configuration: ralph config set KEY VALUE, then ralph-runs retry g1"
    assert hint in finished.stdout


def test_the_hint_of_a_fault_is_shown_where_no_run_began(batch: Batch) -> None:
    """One fault is the worker's own, before it starts a run; the other ends `ralph run` before its first session."""
    upstream = batch.upstream(check="", files={".ralph/config.toml": "require_check = true\n"})
    batch.goal("mine", wrote("mine"), branch="main")
    batch.goal("bare", wrote("bare"))

    finished = batch.run(batch.root / "goals", "--repo", upstream)

    assert finished.exit_code == 1
    assert batch.states() == {"mine": "stuck", "bare": "stuck"}
    ids = {name: goal["id"] for name, goal in batch.goals().items()}
    mine, bare = ids["mine"], ids["bare"]
    assert f"give the goal a branch of its own, then ralph-runs retry {mine}" in finished.stdout
    assert f"write .ralph/check, or pass one with --check, then ralph-runs retry {bare}" in finished.stdout
    assert batch.show("bare")["reason"] == "this run requires a check, and there is none"
