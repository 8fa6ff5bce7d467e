"""Who is told to wrap up, when, and what comes of it: with stand-ins for the agents, which play any part."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import any_agent
from tests.support.git_repos import commits
from tests.support.goals import result, write_goal
from tests.support.ralph_process import Finished, Ralph
from tests.support.scripted_agent import (
    ClaudeScript,
    Step,
    answer,
    hang,
    ignore_signals,
    pause,
    run,
    say,
    summary,
    write,
)
from tests.support.scripted_agent import exit as exit_with
from tests.support.tokens import ONE_MESSAGE

PLEA = "budget is used ("
ONE = ONE_MESSAGE.total


@pytest.fixture(autouse=True)
def goal(repo: Path) -> Path:
    return write_goal(repo)


def ends(done: Finished) -> list[str]:
    return [event["end"] for event in done.events_of("session_ended")]


def at_work(calls: int) -> list[Step]:
    return [run("sleep 0.1")] * calls


def at_work_until_told(calls: int) -> list[Step]:
    """So many calls, the last of which goes on until it is cut short: a busy machine may take its time to do so."""
    return [*at_work(calls - 1), run("sleep 600")]


def test_the_answer_to_the_plea_is_the_sessions_answer(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    agent = claude_script([at_work_until_told(18), [summary("Wrapped up.")]])

    done = ralph("run", "goal.md", "--json", "--max-iterations", "1", "--max-tokens", str(20 * ONE))

    assert (done.exit_code, ends(done)) == (4, ["ok"]), done
    assert [PLEA in words for words in agent.heard] == [False, True]
    assert "(--max-tokens 26,120)" in agent.heard[1]
    assert commits(repo)[-1].body.startswith("Wrapped up.")
    assert result(repo)["tokens"] == agent.tokens.total <= 20 * ONE
    assert "--include-partial-messages" in agent.starts[0]["argv"]
    assert "--max-budget-usd" not in agent.starts[0]["argv"], "there is no limit on money"


@pytest.mark.long
def test_the_answer_may_claim_done_and_may_be_corrected(ralph: Ralph, claude_script: ClaudeScript) -> None:
    agent = claude_script([at_work_until_told(36), [answer("I stop.")], [summary("DONE")]])

    done = ralph("run", "goal.md", "--json", "--max-tokens", str(40 * ONE))

    assert (done.exit_code, ends(done)) == (0, ["done"]), done
    assert [PLEA in words for words in agent.heard] == [False, True, False]
    assert agent.heard[2].startswith("You must use the StructuredOutput tool.")


@pytest.mark.long
def test_a_turn_that_ends_by_itself_is_not_wrapped_up(ralph: Ralph, claude_script: ClaudeScript) -> None:
    agent = claude_script([*at_work(9), summary("DONE")])

    done = ralph("run", "goal.md", "--json", "--max-tokens", str(11 * ONE + 1))

    assert (done.exit_code, ends(done)) == (0, ["done"]), done
    assert len(agent.heard) == 1


@pytest.mark.long
def test_the_call_that_answers_may_go_beyond_the_limit_but_no_other(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    stops = [say("I stop, and say how it stands:"), pause(1), summary("Wrapped up.")]
    claude_script([at_work_until_told(5), stops])

    done = ralph("run", "goal.md", "--json", "--max-tokens", str(int(5.5 * ONE)))

    assert (done.exit_code, ends(done)) == (4, ["ok"]), done
    assert result(repo)["tokens"] == 6 * ONE
    assert result(repo)["reason"] == "limit reached: --max-tokens"


def test_later_sessions_are_given_what_is_left(ralph: Ralph, claude_script: ClaudeScript) -> None:
    agent = claude_script([*at_work(1), summary("One step.")], cost=0.01)

    done = ralph("run", "goal.md", "--json", "--max-cost", "0.07")

    assert done.exit_code == 4, done
    given = [start["argv"][start["argv"].index("--max-budget-usd") + 1] for start in agent.starts]
    assert given == ["0.070000", "0.050000", "0.030000", "0.010000"]


@pytest.mark.long
def test_the_smaller_of_the_runs_rest_and_the_sessions_own_is_given(ralph: Ralph, claude_script: ClaudeScript) -> None:
    agent = claude_script([summary("One step.")], [summary("DONE")], cost=0.01)

    done = ralph("run", "goal.md", "--max-cost", "0.07", env={"RALPH_MAX_ITERATION_COST": "0.065"})

    assert done.exit_code == 0, done
    given = [start["argv"][start["argv"].index("--max-budget-usd") + 1] for start in agent.starts]
    assert given == ["0.065000", "0.060000"]


@pytest.mark.long
def test_without_limits_on_use_the_stream_is_not_multiplied(ralph: Ralph, claude_script: ClaudeScript) -> None:
    agent = claude_script([summary("DONE")])
    assert ralph("run", "goal.md", "--duration", "1h", "--max-iterations", "3").exit_code == 0
    assert not {"--include-partial-messages", "--max-budget-usd"} & set(agent.starts[0]["argv"])


def test_time_that_is_nearly_up_is_told(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    agent = claude_script([[run("sleep 60")], [summary("Wrapped up.")]])

    done = ralph("run", "goal.md", "--json", "--max-iterations", "1", "--iteration-timeout", "20s")

    assert (done.exit_code, ends(done)) == (4, ["ok"]), done
    assert "(iteration_timeout 20s)" in agent.heard[1]


@pytest.mark.parametrize(
    "session",
    [
        [run("sleep 60")],
        pytest.param([hang()], marks=pytest.mark.long),
        pytest.param([ignore_signals(), hang()], marks=pytest.mark.long),
    ],
    ids=["goes on", "hangs", "is deaf"],
)
def test_the_end_of_the_duration_ends_the_session_and_the_run(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript, session: list[Step]
) -> None:
    claude_script(session)

    done = ralph("run", "goal.md", "--json", "--duration", "8s")

    assert (done.exit_code, ends(done)) == (4, ["budget"]), done
    assert done.events_of("session_ended")[0]["reason"] == "--duration 8.0s is used up"
    assert result(repo)["reason"] == "limit reached: --duration"


@pytest.mark.parametrize("dialect", ["codex", pytest.param("plain", marks=pytest.mark.long)])
def test_who_cannot_be_told_is_stopped_all_the_same(
    repo: Path, ralph: Ralph, bin_dir: Path, dialect: any_agent.Dialect
) -> None:
    agent = any_agent.any_agent(bin_dir, dialect, [any_agent.hang()], name="codex" if dialect == "codex" else "mine")
    chosen = ["--agent", "codex"] if dialect == "codex" else ["--agent-cmd", "mine"]

    done = ralph("run", "goal.md", "--json", "--duration", "8s", *chosen)

    assert (done.exit_code, ends(done)) == (4, ["budget"]), done
    assert len(agent.starts) == 1
    assert not any("wrap up" in event["text"] for event in done.events_of("text"))


def test_an_estimate_is_shown_as_one(ralph: Ralph, claude_script: ClaudeScript) -> None:
    claude_script([*at_work(2), exit_with(1)])

    done = ralph("run", "goal.md", "--max-iterations", "1")

    assert done.exit_code == 4, done
    assert "(estimate)" in done.stdout
    assert "(partly estimated)" in done.stdout.partition("result")[2], "the last lines say so, too"


def test_a_dry_run_shows_what_the_agent_would_be_given(ralph: Ralph, claude_script: ClaudeScript) -> None:
    claude_script([summary("DONE")])
    shown = ralph("run", "goal.md", "--dry-run", "--max-cost", "0.5").stdout
    assert "--include-partial-messages --max-budget-usd 0.500000" in shown


@pytest.mark.long
def test_who_fails_for_want_of_budget_is_told_what_to_raise(ralph: Ralph, claude_script: ClaudeScript) -> None:
    claude_script(at_work(50))

    done = ralph("run", "goal.md", env={"RALPH_MAX_ITERATION_TOKENS": str(3 * ONE)})

    assert done.exit_code == 1, done
    assert "raise max_iteration_tokens to give each session more" in done.stdout


def test_what_an_ended_run_left_in_the_tree_is_said(ralph: Ralph, claude_script: ClaudeScript) -> None:
    claude_script([write("half.txt", "half"), *at_work(50)])

    done = ralph("run", "goal.md", "--max-tokens", str(3 * ONE))

    assert done.exit_code == 4, done
    assert "the working tree has uncommitted work (half.txt); the next session will know" in done.stdout


@pytest.mark.long
def test_a_tree_without_leftovers_is_not_spoken_of(ralph: Ralph, claude_script: ClaudeScript) -> None:
    claude_script([write("whole.txt", "whole"), summary("One step.")])
    done = ralph("run", "goal.md", "--max-iterations", "1")
    assert done.exit_code == 4, done
    assert "not committed" not in done.stdout


@pytest.mark.parametrize(
    ("limits", "is_said"),
    [
        (["--max-tokens", "9999999"], True),
        pytest.param(["--max-tokens", "9999999", "--max-cost", "9"], False, marks=pytest.mark.long),
        pytest.param([], False, marks=pytest.mark.long),
    ],
)
def test_where_subagents_may_work_the_header_says_what_a_limit_on_tokens_is_worth(
    ralph: Ralph, repo: Path, claude_script: ClaudeScript, limits: list[str], is_said: bool
) -> None:
    (repo / ".ralph").mkdir()
    (repo / ".ralph/config.toml").write_text('[modes.worker]\ntools = "Read,Bash,Agent,StructuredOutput"\n')
    claude_script([summary("DONE")])
    done = ralph("run", "goal.md", *limits)
    assert done.exit_code == 0, done
    assert ("subagents report their output at the end of a turn" in done.stdout) == is_said
