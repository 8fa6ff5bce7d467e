"""`ralph-runs undo`: a goal's merge is reverted on main, or nothing is."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.support.batches import CHECK_TEXTS, Batch, Session, says, shell, write, wrote
from tests.support.git_repos import commits, git
from tests.support.ralph_process import Finished
from tests.support.upstreams import outsider

NEEDS = f"{CHECK_TEXTS}[ ! -e texts/two.txt ] || [ -e texts/one.txt ] || {{ echo 'two needs one'; exit 1; }}\n"


def on_main(bare: Path) -> list[str]:
    return git(bare, "ls-tree", "-r", "--name-only", "main", "--", "texts").split()


def document(done: Finished) -> dict[str, Any]:
    assert done.exit_code == 0, done
    return json.loads(done.stdout)


def refused(done: Finished, exit_code: int, *words: str) -> None:
    assert (done.exit_code, done.stdout) == (exit_code, ""), done
    assert "\n\nhint: " in done.stderr
    assert not [word for word in words if word not in done.stderr], done.stderr


def add(batch: Batch, name: str, sessions: list[Session] | None = None, **keys: Any) -> Path:
    return batch.goal(name, sessions or wrote(name), repo="upstream", **keys)


def test_the_first_of_three_goals_that_build_on_each_other(batch: Batch) -> None:
    bare = batch.upstream()
    goals = [add(batch, "one"), add(batch, "two", after=["one"]), add(batch, "three", after=["two"])]
    assert batch.run(*goals).exit_code == 0
    add(batch, "four", after=["one"])
    assert batch.runs("add", batch.root / "goals" / "four.md", "--queue").exit_code == 0
    merge, before = commits(bare, "main")[-3], git(bare, "rev-parse", "main")

    with batch.runs.start("work", cwd=batch.root) as worker:  # which is kept from nothing, and keeps from nothing
        worker.wait_until(lambda: batch.states()["four"] == "done", "the fourth goal to be done")
        said = document(batch.runs("undo", "one", "--json"))

    last = commits(bare, "main")[-1]
    assert git(bare, "rev-parse", "main~2") == before
    assert on_main(bare) == ["texts/four.txt", "texts/three.txt", "texts/two.txt"]
    assert (last.subject, last.body.split("\n\n")[0]) == ('Revert "one"', f"This reverts commit {merge.sha}.")
    assert last.trailers == {"Ralph-Goal": "one", "Ralph-Run": merge.trailers["Ralph-Run"], "Ralph-Undoes": merge.sha}
    assert (said["state"], said["merge"], said["revert"], said["base"]) == ("undone", merge.sha, last.sha, "main")
    assert said["paths"] == ["texts/one.txt"]
    assert [(each["id"], each["state"], each["after"], each["shared"]) for each in said["later"]] == [
        ("g2", "done", True, []),
        ("g3", "done", True, []),
        ("g4", "done", True, []),
    ]
    assert batch.states() == {"one": "undone", "two": "done", "three": "done", "four": "done"}
    assert "4 goals: 3 done, 1 undone" in batch.runs("list").stdout
    shown = batch.runs("show", "one").stdout
    assert f"undone · removed from main again by {last.sha[:10]}" in shown
    assert "do it again: ralph-runs retry g1" in shown
    assert document(batch.runs("stats", "--json"))["states"] == {"done": 3, "undone": 1}
    again = batch.runs("undo", "one")
    assert (again.exit_code, again.stdout) == (0, "g1 one: undone already; do it again: ralph-runs retry g1\n")
    assert batch.runs("run", goals[0]).exit_code == 1, "what was taken out is not done again without being asked"
    assert git(bare, "rev-parse", "main") == last.sha

    assert batch.runs("retry", "one").exit_code == 0
    assert batch.run().exit_code == 0
    assert "texts/one.txt" in on_main(bare)
    assert "and then reverted on main" in batch.runs("show", "one").stdout


def test_what_conflicts_with_a_later_goal_is_reported_and_nothing_is_pushed(batch: Batch) -> None:
    bare = batch.upstream()
    edit: list[Session] = [[shell("echo 'Better.' > texts/one.txt"), says("DONE")]]
    assert batch.run(add(batch, "one"), add(batch, "two", edit, after=["one"]), add(batch, "three")).exit_code == 0
    tip = git(bare, "rev-parse", "main")

    words = "later commits changed the same lines of texts/one.txt; nothing was pushed"
    refused(batch.runs("undo", "one"), 1, words, "ralph-runs undo g2")
    assert git(bare, "rev-parse", "main") == tip
    assert set(batch.states().values()) == {"done"}

    said = batch.runs("undo", "g2").stdout
    assert said.startswith("g2 two: undone; main is at ")
    assert git(bare, "show", "main:texts/one.txt") == "Fine."
    first = batch.runs("undo", "g1")
    assert first.exit_code == 0, first
    assert on_main(bare) == ["texts/three.txt"]
    assert batch.states() == {"one": "undone", "two": "undone", "three": "done"}


def test_a_red_check_keeps_the_work_and_a_push_that_was_made_before_is_recognised(batch: Batch) -> None:
    bare = batch.upstream(check=NEEDS)
    assert batch.run(add(batch, "one"), add(batch, "two", after=["one"])).exit_code == 0
    tip = git(bare, "rev-parse", "main")

    refused(batch.runs("undo", "one"), 1, "without it the check is red (exit 1); nothing was pushed", "two needs one")
    assert git(bare, "rev-parse", "main") == tip

    assert batch.runs("undo", "two").exit_code == 0
    undone = git(bare, "rev-parse", "main")
    with contextlib.closing(sqlite3.connect(batch.ralph_dir / "runs.sqlite")) as database, database:
        # As if ralph had been killed right after its push; the row is one of a queue that told no causes.
        database.execute("update ralph_goals set state = 'done', reason = 'merged', why = null where name = 'two'")
    assert document(batch.runs("undo", "two", "--json"))["revert"] == undone
    assert git(bare, "rev-parse", "main") == undone
    assert batch.states()["two"] == "undone"


def test_a_main_that_moves_meanwhile_is_met_by_doing_it_again(batch: Batch) -> None:
    flag = batch.root / "move"
    moving = f"if [ -e {flag} ]; then rm {flag}; git -C {batch.root}/upstream.git branch -q -f main side; fi\n"
    bare = batch.upstream(check=CHECK_TEXTS + moving)
    assert batch.run(add(batch, "one")).exit_code == 0
    theirs = outsider(bare, {"theirs.txt": "Fine.\n"}, branch="main")
    git(bare, "branch", "side", theirs)
    git(bare, "branch", "--force", "main", f"{theirs}~1")
    flag.touch()

    assert batch.runs("undo", "one").exit_code == 0
    assert not flag.exists()
    assert git(bare, "rev-parse", "main~1") == theirs
    assert (on_main(bare), git(bare, "show", "main:theirs.txt")) == ([], "Fine.")


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("none", ["g1 was not merged (merge mode none)", "its work is only on ralph/one in ralph's mirror"]),
        ("branch", ["g1 was pushed as ralph/one, and not merged", "git push --delete origin ralph/one"]),
    ],
)
def test_what_is_not_merged_is_refused_with_the_next_step(batch: Batch, mode: str, words: list[str]) -> None:
    bare = batch.upstream()
    assert batch.run(add(batch, "one", merge=mode)).exit_code == 0
    refused(batch.runs("undo", "one"), 2, *words)
    assert batch.runs("add", add(batch, "two", after=["one"]), "--queue").exit_code == 0
    refused(batch.runs("undo", "g2"), 2, "g2 is queued, and not merged", "ralph-runs cancel g2")
    refused(batch.runs("undo", "g9"), 2, "there is no goal g9")
    assert len(commits(bare, "main")) == 1


def test_a_goal_after_one_that_is_undone_waits_for_it(batch: Batch) -> None:
    batch.upstream()
    assert batch.run(add(batch, "one", [[write("texts/one.txt", "Fine.\n"), says("DONE")]])).exit_code == 0
    assert batch.runs("add", add(batch, "two", after=["one"]), "--queue").exit_code == 0
    said = batch.runs("undo", "one").stdout
    assert "g2 waits until it is done again\ndo it again: ralph-runs retry g1\n" in said
    assert "waits for g1, which is undone" in batch.runs("list").stdout
    assert batch.run().exit_code == 1
    assert batch.states() == {"one": "undone", "two": "queued"}
