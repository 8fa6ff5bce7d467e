"""`ralph-runs log` and `diff`: what a goal of a batch did, and what it changed, in one command each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.batches import Batch, says, shell, write, wrote
from tests.support.git_repos import commits, git
from tests.support.ralph_process import Finished


def document(done: Finished) -> dict[str, Any]:
    assert done.exit_code == 0, done
    return json.loads(done.stdout)


def refused(done: Finished, *words: str) -> None:
    assert (done.exit_code, done.stdout) == (2, ""), done
    assert "\n\nhint: " in done.stderr
    assert not [word for word in words if word not in done.stderr], done.stderr


@pytest.fixture
def night(batch: Batch) -> Batch:
    """Eight goals: six are merged, one in two iterations; one gets nowhere; one waits for it."""
    batch.upstream()
    two = [
        [write("texts/long.txt", "Half a"), says("Wrote half of it. The rest is next.")],
        [shell("echo 'Half a sentence, and its end.' > texts/long.txt"), says("DONE\nThe text has its end now.")],
    ]
    goals = [batch.goal("long", two, repo="upstream")]
    goals += [batch.goal(name, wrote(name), repo="upstream") for name in ("a", "b", "c", "d", "e")]
    lost = [[write("texts/lost.txt", "No stop"), says("DONE\nIt is written.")]]
    goals += [batch.goal("lost", lost, repo="upstream", max_iterations=1)]
    goals += [batch.goal("after", wrote("after"), repo="upstream", after=["lost"])]
    assert batch.run(*goals, "--max", "3").exit_code == 1
    return batch


def test_the_morning_after_a_night_of_eight_goals(night: Batch) -> None:
    bare = night.repos["upstream"]
    (merge,) = [commit for commit in commits(bare, "main") if commit.trailers.get("Ralph-Goal") == "long"]

    told = night.runs("log", "long")
    assert told.exit_code == 0, told.stderr
    assert "Wrote half of it. The rest is next." in told.stdout
    assert "The text has its end now." in told.stdout
    assert "2 iterations" in told.stdout
    assert "conversation: ralph-runs log g1 -i 2; changes: ralph-runs diff g1" in told.stdout

    known = document(night.runs("log", "g1", "--json"))
    assert (known["id"], known["goal"], known["proven"], known["exit_code"]) == ("g1", "long", True, 0)
    assert [(each["iteration"], each["verdict"]) for each in known["iterations"]] == [(1, "CONTINUE"), (2, "DONE")]
    assert known["iterations"][1]["check"]["exit_code"] == 0

    conversation = night.runs("log", "g1", "-i", "1").stdout
    assert "iteration 1, session 1 of 1" in conversation
    assert "texts/long.txt" in conversation
    assert "its end" not in conversation, "that is the second one's"
    types = {event["type"] for event in night.runs("log", "g1", "-i", "1", "--json").events}
    assert {"tool_start", "tool_end", "usage"} <= types

    changes = document(night.runs("diff", "g1", "--json"))
    assert (changes["base"], changes["head"]) == (git(bare, "rev-parse", f"{merge.sha}^"), merge.sha)
    assert [(file["path"], file["added"], file["removed"]) for file in changes["files"]] == [("texts/long.txt", 1, 0)]
    assert "+Half a sentence, and its end." in changes["patch"]
    second = night.runs("diff", "g1", "-i", "2").stdout
    assert second.startswith("g1 long iteration 2 · ")
    assert "-Half a\n" in second


def test_a_goal_that_got_nowhere_and_one_that_did_not_begin(night: Batch) -> None:
    told = night.runs("log", "lost").stdout
    assert "It is written." in told
    assert "red (1)" in told
    assert "texts/lost.txt: no full stop" in night.runs("log", "lost", "-i", "1").stdout
    assert "+No stop" in night.runs("diff", "lost").stdout

    refused(night.runs("log", "after"), "g8 after has not run yet: it is queued", "ralph-runs show g8")
    refused(night.runs("diff", "after"), "g8 after has not run yet: it is queued")


@pytest.mark.long
def test_wrong_uses(night: Batch) -> None:
    refused(night.runs("log", "nope"), "nope")
    refused(night.runs("log", "g1", "-i", "3"), "has no iteration 3: it has 1 to 2", "ralph-runs log g1")
    refused(night.runs("diff", "g1", "-i", "3"), "has no iteration 3: it has 1 to 2", "ralph-runs log g1")
    refused(night.runs("log", "g1", "-i", "0"), "-i")
    refused(night.runs("log", "g1", "-i", "1", "-f"), "--follow")


@pytest.mark.long
def test_the_transcript_is_followed_and_its_old_name_stays(night: Batch) -> None:
    followed = night.runs("log", "g1", "-f")
    assert "result     done" in followed.stdout
    assert night.runs("logs", "g1").stdout == followed.stdout
    assert night.runs("log", "g1", "-f", "--json").events[-1]["type"] == "run_ended"
    assert "\n  logs" not in night.runs("--help").stdout


@pytest.mark.long
def test_what_is_left_when_clone_and_run_are_gone(night: Batch, world: Path) -> None:
    """The merge stands on main whatever `gc` has removed; the conversation does not."""
    assert night.runs("gc", "--delete").exit_code == 0
    assert "+Half a sentence, and its end." in night.runs("diff", "g1").stdout
    for directory in (world / "ralph" / "runs").glob("*/long"):
        directory.rename(world / "lost")
    refused(night.runs("log", "g1"), "cannot find the run of g1 long on this machine")
