"""Goals of a batch that get nowhere, or fail: how often they are tried again, with what, and within which limits."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.batches import Batch

NO_SUMMARIES = {"RALPH_SUMMARY_EVERY": "0"}


@pytest.fixture
def idle(batch: Batch, bin_dir: Path) -> Path:
    """An agent that keeps its prompts and the names of its variables, and does nothing."""
    batch.upstream()
    heard = batch.root / "heard"
    heard.mkdir()
    agent = bin_dir / "idle"
    program = f'#!/bin/sh\ncat > "{heard}/$(ls {heard} | wc -l)"\nenv > "{batch.root}/env"\necho "I looked around."\n'
    agent.write_text(program)
    agent.chmod(0o755)
    return heard


def prompts(heard: Path) -> list[str]:
    return [(heard / str(number)).read_text() for number in range(len(list(heard.iterdir())))]


def test_a_goal_that_gets_nowhere_is_tried_once_more_with_what_was_tried(batch: Batch, idle: Path) -> None:
    goal = batch.goal("one", [], repo="upstream", agent="custom", model="none", max_iterations=7)
    flags = ("--agent-cmd", "idle", "--transcript", "plain")
    done = batch.run(goal, *flags, env=NO_SUMMARIES)
    assert done.exit_code == 1, done.stdout + done.stderr
    heard = prompts(idle)
    assert len(heard) == 12, "two attempts of six sessions, the second one with a limit of its own"
    assert "RALPH_ITERATIONS_BEFORE" not in (batch.root / "env").read_text(), "the second attempt's, for ralph alone"
    assert batch.states() == {"one": "stuck"}
    shown = batch.show("one")
    assert (shown["attempts"], shown["reason"]) == (2, "stalled: the last 6 iterations changed nothing")
    assert "limit reached" not in done.stdout

    assert "Retry context" not in heard[5]
    for words in (
        "This is attempt 2 of 4.",
        "Attempt 1 ended with exit code 5: stalled: the last 6 iterations changed nothing",
        "## What was tried",
        "### Iteration 6, commit ",
        "That attempt got nowhere: it repeated itself and changed nothing.",
    ):
        assert words in heard[6], words
    first, second = (comment["text"] for comment in shown["comments"])
    assert "## What was tried" in first
    assert second == "Attempt 2 ended with exit code 5: stalled: the last 6 iterations changed nothing"

    assert batch.runs("retry", "one").exit_code == 0
    again = batch.run(*flags, env=NO_SUMMARIES)
    assert (again.exit_code, len(prompts(idle))) == (1, 24), "a retry by hand gets as many as a new goal"


def test_a_command_by_a_relative_path_is_the_one_where_ralph_runs_was_started(batch: Batch, bin_dir: Path) -> None:
    batch.upstream()
    agent = batch.root / "tool" / "agent"
    agent.parent.mkdir()
    agent.write_text("#!/bin/sh\necho 'a page' > page.txt\necho '<promise>COMPLETE</promise>'\n")
    agent.chmod(0o755)
    goal = batch.goal("one", [], repo="upstream", agent="custom", model="none")
    done = batch.run(goal, "--agent-cmd", "./tool/agent", "--transcript", "plain")
    assert batch.states() == {"one": "done"}, done.stdout + done.stderr


def test_a_limit_on_iterations_is_for_each_attempt(batch: Batch, idle: Path, bin_dir: Path) -> None:
    (bin_dir / "broken").write_text(f'#!/bin/sh\ncat > "{idle}/$(ls {idle} | wc -l)"\nexit 1\n')
    (bin_dir / "broken").chmod(0o755)
    goal = batch.goal("one", [], repo="upstream", agent="custom", model="none", max_iterations=4)
    done = batch.run(goal, "--agent-cmd", "broken", "--transcript", "plain")
    assert done.exit_code == 1, done.stdout + done.stderr
    shown = batch.show("one")
    assert shown["attempts"] == 4
    assert shown["reason"].startswith("3 failures in a row; the last one: ")
    assert "limit reached" not in done.stdout

    fault = f": {shown['reason']}\n"
    assert [done.stdout.count(f"{kind}{fault}") for kind in ("will retry", "stuck")] == [1, 1]
    assert done.stdout.count("will retry: it failed in the same way again\n") == 2
    told = batch.runs("show", "one").stdout
    assert told.count(f"  Attempts 1 to 4 ended with exit code 1{fault}") == 1
    assert "Attempt 1 " not in told
    assert len(shown["comments"]) == 4, "programs get each of them"
    assert batch.runs("retry", "one").stdout.endswith("start one with: ralph-runs run --all\n")
    with batch.runs.start("work", "--agent-cmd", "broken", cwd=batch.root) as serving:
        serving.wait_until(lambda: batch.states() == {"one": "stuck"}, "the worker tries it again")
        assert batch.runs("retry", "one").stdout == "g1 one: queued\n"
