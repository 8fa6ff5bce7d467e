"""Where proven work of a batch goes is decided when goals are added, by whoever adds them."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.support.batches import Batch, wrote
from tests.support.git_repos import git, make_repo
from tests.support.ralph_process import Finished, Ralph
from tests.support.terminal import RalphInTerminal

MODES = ("direct", "pr", "branch", "none")


@pytest.fixture
def undecided(ralph_runs: Ralph, batch: Batch) -> Batch:
    """A batch of a user who has set nothing up."""
    config(ralph_runs).unlink()
    batch.upstream()
    return batch


def config(runs: Ralph) -> Path:
    return Path(runs.env["XDG_CONFIG_HOME"]) / "ralph" / "config.toml"


def add(batch: Batch, goal: Path, *more: str, env: dict[str, str] | None = None) -> Finished:
    return batch.runs("add", goal, *more, cwd=batch.root, env=env)


def mode(batch: Batch, name: str) -> Any:
    return json.loads(batch.runs("show", name, "--json").stdout)["merge"]


def in_terminal(batch: Batch, *args: str | Path) -> RalphInTerminal:
    words = [str(arg) for arg in args]
    return RalphInTerminal(words, batch.root, {**batch.runs.env, "CI": "1"}, 150, module="ralph.cli.runs")


@pytest.mark.parametrize("command", ["add", "run"])
def test_without_a_terminal_nobody_is_asked_and_nothing_is_written(undecided: Batch, command: str) -> None:
    goal = undecided.goal("one", wrote("one"), repo="upstream")
    done = undecided.runs(command, goal, cwd=undecided.root)
    assert (done.exit_code, done.stdout) == (2, "")
    assert f"error: cannot add goals for {undecided.repos['upstream']}: no merge mode is set" in done.stderr
    assert all(f"  --merge {name:6}  " in done.stderr for name in MODES)
    assert not undecided.ralph_dir.exists()


def test_a_terminal_is_asked_once_for_each_repository_and_the_answer_is_remembered(undecided: Batch) -> None:
    undecided.upstream("other")
    goals = [undecided.goal(name, wrote(name), repo="upstream") for name in ("one", "two")]
    goals.append(undecided.goal("three", wrote("three"), repo="other"))
    with in_terminal(undecided, "add", *goals) as asking:
        asking.shows(f"Where should proven work on {undecided.repos['upstream']} go?")
        asking.shows("1-4, or the name:")
        asking.press("maybe\n")
        asking.shows("maybe")
        asking.press("3\n")
        asking.shows(f"Where should proven work on {undecided.repos['other']} go?")
        asking.press("NONE\n")
        assert asking.wait() == 0
        assert asking.text.count("Where should") == 2
    assert [mode(undecided, name) for name in ("one", "two", "three")] == ["branch", "branch", "none"]

    again = add(undecided, undecided.goal("four", wrote("four"), repo=f"file://{undecided.repos['upstream']}"))
    assert again.exit_code == 0, again.stderr
    assert (mode(undecided, "four"), again.complaints) == ("branch", "")
    (file, _) = sorted((undecided.ralph_dir / "merge").iterdir(), key=lambda file: "other" in file.name)
    file.write_text("merge = 'squash'\n")
    broken = add(undecided, undecided.goal("five", wrote("five"), repo="upstream"))
    assert (broken.exit_code, f"hint: remove it and choose again: rm {file}" in broken.stderr) == (1, True)


def test_who_gives_no_answer_adds_nothing(undecided: Batch) -> None:
    goal = undecided.goal("one", wrote("one"), repo="upstream")
    for key, exit_code in (("\x04", 2), ("\x03", 130)):
        with in_terminal(undecided, "add", goal) as asking:
            asking.shows("1-4, or the name:")
            asking.press(key)
            assert asking.wait() == exit_code
    assert not undecided.ralph_dir.exists()


def test_a_mode_is_taken_from_the_first_place_that_says_one(undecided: Batch) -> None:
    """The flag, the manifest's entry, the environment, the front matter, the manifest's defaults, the queue, a file."""
    goal = undecided.goal("one", wrote("one"), repo="upstream", merge="pr")
    manifest = undecided.root / "batch.toml"

    def said(*more: str, env: dict[str, str] | None = None) -> Any:
        shown = undecided.runs("run", *more, "--dry-run", "--json", cwd=undecided.root, env=env)
        assert shown.exit_code == 0, shown.stderr
        return json.loads(shown.stdout)[0]["merge"]

    manifest.write_text('[defaults]\nmerge = "branch"\n[[goal]]\nfile = "goals/one.md"\nmerge = "none"\n')
    assert said("batch.toml", "--merge", "direct") == "direct"
    assert said("batch.toml", env={"RALPH_MERGE": "direct"}) == "none"
    manifest.write_text('[defaults]\nmerge = "branch"\n[[goal]]\nfile = "goals/one.md"\n')
    assert said("batch.toml", env={"RALPH_MERGE": "direct"}) == "direct"
    assert said("batch.toml") == "pr"
    undecided.goal("one", wrote("one"), repo="upstream")
    assert said("batch.toml") == "branch"
    assert said(str(goal)) is None
    shown = undecided.runs("run", goal, "--dry-run", cwd=undecided.root)
    assert "merge not chosen yet: direct, pr, branch or none" in shown.stdout
    config(undecided.runs).write_text('merge = "none"\n')
    assert said(str(goal)) == "none"
    assert add(undecided, goal, "--merge", "pr").exit_code == 0
    assert said(str(goal)) == "pr"  # as it is stored with the goal
    config(undecided.runs).write_text('merge = "squash"\n')
    refused = add(undecided, goal)
    assert (refused.exit_code, "merge: 'squash' is not one of direct, pr, branch, none" in refused.stderr) == (2, True)


def test_a_batch_says_where_its_work_goes_before_it_starts(undecided: Batch) -> None:
    undecided.upstream("other")
    goals = [undecided.goal(name, wrote(name), repo="upstream", merge="branch") for name in ("one", "two")]
    goals.append(undecided.goal("three", wrote("three"), repo="other", merge="direct"))
    goals.append(undecided.goal("four", wrote("four"), repo="other", merge="none"))
    done = undecided.run(*goals)
    assert done.exit_code == 0, done.stdout
    first, *_ = done.stdout.partition("started on")
    assert "proven work on upstream is pushed as a branch (merge: branch)\n" in first
    assert "proven work on other is pushed to its main branch (merge: direct): g3\n" in first
    assert "proven work on other is not pushed; it stays in ralph's mirror (merge: none): g4\n" in first
    assert git(undecided.repos["upstream"], "branch", "--format=%(refname:short)").split() == [
        "main",
        "ralph/one",
        "ralph/two",
    ]
    assert len(git(undecided.repos["other"], "log", "--format=%s", "main").splitlines()) == 2


def test_goals_of_a_queue_without_modes_go_to_main(undecided: Batch) -> None:
    """An earlier version stored none unless it was said, and its workers merged to main."""
    add(undecided, undecided.goal("one", wrote("one"), repo="upstream"), "--queue", "--merge", "branch")
    with sqlite3.connect(undecided.ralph_dir / "runs.sqlite") as queue:
        queue.execute("update ralph_goals set merge = null")
    queue.close()
    assert mode(undecided, "one") == "direct"
    assert add(undecided, undecided.root / "goals" / "one.md").exit_code == 0
    assert mode(undecided, "one") == "direct"


def test_workers_are_not_told_where_work_goes(ralph_runs: Ralph, tmp_path: Path) -> None:
    for refused in (ralph_runs("work", "--merge", "none"), ralph_runs("run", "--merge", "none")):
        assert refused.exit_code == 2
        assert "--merge" in refused.stderr
    project = make_repo(tmp_path / "project", {".ralph/config.toml": 'merge = "direct"\n'})
    shown = Ralph(project, ralph_runs.env)("config", "--json")
    assert json.loads(shown.stdout)["merge"]["source"] == str(config(ralph_runs))
