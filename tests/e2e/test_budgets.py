"""Budgets hold while a session works: with the real Claude Code, and with `ralph-claude` in its place.

The scripted model's own ledger is the judge: what it served, at list price, exceeds no limit by more than one call.
`make test` runs one story of each kind, `make long` all of them with both programs.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ralph.core.usage import Tokens as UsageTokens
from ralph.core.usage import shipped
from tests.support import tools
from tests.support.api_replies import Reply, Say, Stall, text, tool
from tests.support.git_repos import commits
from tests.support.goals import result, write_check, write_goal
from tests.support.messages_api import Ledger, MessagesApi, ServeMessages
from tests.support.ralph_process import Finished, Ralph
from tests.support.real_claude import claude_env
from tests.support.tokens import Tokens
from tests.support.waiting import wait_until

ClaudeRun = Callable[..., Finished]

USAGE = Tokens(input=1000, output=500, cache_creation=300, cache_read=200)
LITTLE = Tokens(input=100, output=20)
ONE_CALL = 0.00777
"""Dollars for one of these at the list price of the model that `sonnet` stands for; a test compares it."""

PLEA = "budget is used ("


def dollars(ledger: Ledger) -> float:
    """What was served, at list price: asked of the table for each message by itself."""
    served = [(one.request["model"], one.usage) for one in ledger]
    return sum(
        shipped().dollars(model, UsageTokens(use.input, use.output, use.cache_creation, use.cache_read)) or 0
        for model, use in served
    )


def summary(words: str, usage: Tokens = USAGE) -> Say:
    return Say(tool("StructuredOutput", summary=words), usage=usage)


def work(seconds: float = 0.2) -> Say:
    command = f"sleep {seconds} && echo on"
    return Say(text("On I go."), tool("Bash", command=command, description="go on"), usage=USAGE)


def work_until_cut() -> Say:
    """A call whose command goes on until ralph cuts it: however long that takes, there is no other call meanwhile."""
    return Say(tool("Bash", command="for i in $(seq 600); do sleep 0.1; done", description="wait"), usage=USAGE)


def told_to_wrap_up(request: dict[str, Any]) -> bool:
    return PLEA in json.dumps(request["messages"])


def obedient(number: int, request: dict[str, Any]) -> Reply:
    if told_to_wrap_up(request):
        return summary("Wrapped up.", LITTLE)
    return work() if number < 10 else work_until_cut()


def deaf(number: int, request: dict[str, Any]) -> Reply:
    return work()


def deaf_and_slow(number: int, request: dict[str, Any]) -> Reply:
    """Near the limit it takes its time over its commands: ralph, on a busy machine, over hearing of their use."""
    return work() if number < 11 else work(3)


@pytest.fixture(params=["claude", pytest.param("ralph-claude", marks=pytest.mark.long)])
def run_claude(request: pytest.FixtureRequest, ralph: Ralph, repo: Path, bin_dir: Path, world: Path) -> ClaudeRun:
    ours = Path(sys.executable).with_name("ralph-claude")
    (bin_dir / "claude").symlink_to(ours if request.param == "ralph-claude" else tools.find("claude"))
    write_goal(repo)

    def run(api: MessagesApi, *args: str, **env: str) -> Finished:
        whole = claude_env(world / "home", api.url) | {"PATH": ralph.env["PATH"]} | env
        return ralph("run", "goal.md", "--json", *args, env=whole, timeout=120)

    return run


def ends(done: Finished) -> list[str]:
    return [event["end"] for event in done.events_of("session_ended")]


def notes(done: Finished) -> list[str]:
    return [event["text"] for event in done.events_of("text") if event["tag"] == "SYS"]


def test_a_call_costs_what_the_tests_take_it_for() -> None:
    tokens = UsageTokens(USAGE.input, USAGE.output, USAGE.cache_creation, USAGE.cache_read)
    assert shipped().dollars("claude-sonnet-5-5", tokens) == pytest.approx(ONE_CALL)


COST, TOKENS = ["--max-cost", f"{10.5 * ONE_CALL:.6f}"], ["--max-tokens", str(int(10.5 * USAGE.total))]


@pytest.mark.parametrize(
    ("run_claude", "limit"),
    [
        pytest.param("claude", COST, id="claude-cost"),
        pytest.param("ralph-claude", TOKENS, id="ralph-claude-tokens"),
        pytest.param("claude", TOKENS, id="claude-tokens", marks=pytest.mark.long),
        pytest.param("ralph-claude", COST, id="ralph-claude-cost", marks=pytest.mark.long),
    ],
    indirect=["run_claude"],
)
def test_at_nine_tenths_the_agent_is_told_to_wrap_up_and_its_answer_counts(
    repo: Path, run_claude: ClaudeRun, messages_api: ServeMessages, limit: list[str]
) -> None:
    api = messages_api(obedient)

    done = run_claude(api, *limit, "--max-iterations", "1")

    assert done.exit_code == 4, done.stdout + done.stderr
    assert ends(done) == ["ok"]
    assert commits(repo)[-1].body.startswith("Wrapped up.")
    pleas = [told_to_wrap_up(served.request) for served in api.ledger.main]
    assert pleas == [False] * 10 + [True], "told after the call that brought it to 90 %, and then one call"
    assert sum(PLEA in words for words in api.ledger.main[-1].user_texts) == 1
    found = result(repo)
    assert found["reason"] == "limit reached: --max-iterations"
    assert found["tokens"] == api.ledger.tokens.total
    assert found["cost_usd"] == pytest.approx(dollars(api.ledger))


@pytest.mark.parametrize(
    ("limited", "headroom"),
    [
        ("tokens", 0.95),
        pytest.param("tokens", 0.1, marks=pytest.mark.long),
        pytest.param("cost", 0.95, marks=pytest.mark.long),
        pytest.param("cost", 0.1, marks=pytest.mark.long),
    ],
)
def test_an_agent_that_will_not_wrap_up_is_stopped_within_one_call(
    repo: Path, run_claude: ClaudeRun, messages_api: ServeMessages, limited: str, headroom: float
) -> None:
    """Wherever in a call the limit lies."""
    api = messages_api(deaf_and_slow)
    cost, tokens = (12 + headroom) * ONE_CALL, int((12 + headroom) * USAGE.total)

    done = run_claude(api, *(["--max-cost", f"{cost:.6f}"] if limited == "cost" else ["--max-tokens", str(tokens)]))

    assert done.exit_code == 4, done.stdout + done.stderr
    assert ends(done) == ["budget"]
    assert result(repo)["reason"] == f"limit reached: --max-{limited}"
    assert any(told_to_wrap_up(served.request) for served in api.ledger.main)
    assert dollars(api.ledger) <= cost + ONE_CALL
    assert api.ledger.tokens.total <= tokens + USAGE.total
    assert commits(repo)[-1].subject == "start"
    assert not any("failures in a row" in note for note in notes(done)), "a limit of the run is no failure"


@pytest.mark.long
def test_the_rest_of_the_money_goes_to_the_agent_and_limits_hold_over_sessions_and_corrections(
    repo: Path, run_claude: ClaudeRun, messages_api: ServeMessages
) -> None:
    """Each session works twice, then talks where it should answer, is corrected, and answers; and so on."""
    turn = {0: work, 1: work, 2: lambda: Say("All well.", usage=USAGE), 3: lambda: Say("Very well.", usage=USAGE)}

    def model(number: int, request: dict[str, Any]) -> Reply:
        return turn.get((number - 1) % 5, lambda: summary("One step."))()

    cost = 13.3 * ONE_CALL
    api = messages_api(model)

    done = run_claude(api, "--max-cost", f"{cost:.6f}")

    assert done.exit_code == 4, done.stdout + done.stderr
    assert ends(done)[:2] == ["ok", "ok"]
    assert result(repo)["reason"] == "limit reached: --max-cost"
    assert cost <= dollars(api.ledger) <= cost + ONE_CALL
    assert result(repo)["cost_usd"] == pytest.approx(dollars(api.ledger))


@pytest.mark.long
def test_a_limit_of_one_session_is_a_failure_and_the_next_one_begins(
    repo: Path, run_claude: ClaudeRun, messages_api: ServeMessages
) -> None:
    api = messages_api(deaf)

    done = run_claude(api, "--max-iterations", "2", RALPH_MAX_ITERATION_COST=f"{3.5 * ONE_CALL:.6f}")

    assert done.exit_code == 4, done.stdout + done.stderr
    assert ends(done) == ["budget", "budget"]
    assert [event["reason"] for event in done.events_of("session_ended")] == [
        "max_iteration_cost $0.0272 is used up"
    ] * 2
    assert result(repo)["reason"] == "limit reached: --max-iterations"
    assert len(api.ledger.main) == 8


@pytest.mark.long
@pytest.mark.parametrize(
    "limit",
    [["--max-cost", f"{3.5 * ONE_CALL:.6f}"], ["--max-tokens", str(int(3.5 * USAGE.total))]],
    ids=["cost", "tokens"],
)
def test_a_verdict_counts_though_its_call_goes_beyond_the_limit(
    repo: Path, run_claude: ClaudeRun, messages_api: ServeMessages, limit: list[str]
) -> None:
    """The money is looked at before the tool that takes the verdict is run (2.1.325)."""
    write_check(repo, "#!/bin/sh\ntrue\n")
    api = messages_api([work(), work(), work(), summary("DONE")])

    done = run_claude(api, *limit)

    assert (done.exit_code, ends(done)) == (0, ["done"]), done.stdout + done.stderr
    assert result(repo)["proven"]
    assert result(repo)["cost_usd"] == pytest.approx(4 * ONE_CALL)


@pytest.mark.long
@pytest.mark.parametrize(
    "limit",
    [["--max-cost", f"{2.6 * ONE_CALL:.6f}"], ["--max-tokens", str(int(2.6 * USAGE.total))]],
    ids=["cost", "tokens"],
)
def test_a_verdict_counts_though_other_tools_follow_it_in_its_message(
    repo: Path, run_claude: ClaudeRun, messages_api: ServeMessages, limit: list[str]
) -> None:
    write_check(repo, "#!/bin/sh\ntrue\n")
    late = tool("Bash", command="sleep 0.2 && echo late", description="one more thing")
    last = Say(tool("StructuredOutput", summary="DONE"), late, usage=USAGE)
    api = messages_api([work(), work(), last])

    done = run_claude(api, *limit)

    assert (done.exit_code, ends(done)) == (0, ["done"]), done.stdout + done.stderr
    assert result(repo)["cost_usd"] == pytest.approx(3 * ONE_CALL)


@pytest.mark.long
def test_the_call_that_the_limit_falls_into_is_heard_out(
    repo: Path, run_claude: ClaudeRun, messages_api: ServeMessages
) -> None:
    """Its prompt alone is beyond the limit, and its answer a second away."""
    slow = Say(tool("StructuredOutput", summary="DONE"), usage=USAGE, pause=1.0)
    api = messages_api([work(), work(), work(), slow])

    done = run_claude(api, "--max-tokens", str(int(3.35 * USAGE.total)))

    assert (done.exit_code, ends(done)) == (0, ["done"]), done.stdout + done.stderr
    assert [served.complete for served in api.ledger.main] == [True] * 4


@pytest.mark.long
@pytest.mark.parametrize(
    "blocks", [[text("I stop.")], [tool("StructuredOutput", nonsense=1)]], ids=["text only", "an invalid verdict"]
)
def test_an_answer_without_a_verdict_is_the_last_call(
    repo: Path, run_claude: ClaudeRun, messages_api: ServeMessages, blocks: list[dict[str, object]]
) -> None:
    """The agent asks the model once more by itself; that call is not waited for."""
    answers = iter([Say(*blocks, usage=USAGE), Stall(), Stall()])

    def model(number: int, request: dict[str, Any]) -> Reply:
        if told_to_wrap_up(request):
            return next(answers)
        return work() if number < 10 else work_until_cut()

    api = messages_api(model)

    # Long enough for the agent to start on a busy machine; a ralph that waited for the stalled call would end `hung`.
    done = run_claude(api, "--max-tokens", str(int(10.2 * USAGE.total)), RALPH_IDLE_TIMEOUT="60s")

    assert (done.exit_code, ends(done)) == (4, ["budget"]), done.stdout + done.stderr
    assert result(repo)["reason"] == "limit reached: --max-tokens"
    answers_given = [served.reply for served in api.ledger.main if isinstance(served.reply, Say)]
    # On a busy machine the agent is gone before the server has sent the last of an answer whose use was read.
    assert sum(reply.usage.total for reply in answers_given) == 11 * USAGE.total
    assert api.ledger.tokens.total <= 11 * USAGE.total


@pytest.mark.long
def test_a_call_that_was_cut_stays_paid_for(repo: Path, run_claude: ClaudeRun, messages_api: ServeMessages) -> None:
    """The agent's own figure leaves it out; a loop around ralph must not spend without end."""
    api = messages_api(lambda number, request: work() if number == 1 else Stall("mid_stream"))
    limit = ["--max-cost", "0.01", "--duration", "25s"]

    cut = run_claude(api, *limit)

    assert (cut.exit_code, ends(cut)) == (4, ["budget"]), cut.stdout + cut.stderr
    assert [served.complete for served in api.ledger.main][:2] == [True, False]
    assert result(repo)["cost_usd"] == pytest.approx(dollars(api.ledger))
    assert result(repo)["tokens"] == api.ledger.tokens.total
    assert result(repo)["cost_usd"] > 0.01

    again = run_claude(api, *limit)

    assert again.exit_code == 4, again.stdout + again.stderr
    assert result(repo)["reason"] == "limit reached: --max-cost"
    assert not ends(again), "no session was held"


@pytest.mark.long
def test_time_is_told_and_then_ends_the_session(repo: Path, run_claude: ClaudeRun, messages_api: ServeMessages) -> None:
    api = messages_api(lambda number, request: summary("Wrapped up.") if told_to_wrap_up(request) else work_until_cut())

    done = run_claude(api, "--max-iterations", "1", "--duration", "30s")  # of which a tenth is for the answer

    assert done.exit_code == 4, done.stdout + done.stderr
    assert ends(done) == ["ok"]
    assert commits(repo)[-1].body.startswith("Wrapped up.")


@pytest.mark.long
def test_a_model_without_a_price_is_said_once_and_held_by_its_agents_own_budget(
    repo: Path, request: pytest.FixtureRequest, run_claude: ClaudeRun, messages_api: ServeMessages
) -> None:
    """2.1.325 charges one that it does not know like another; ralph-claude names no cost, and iterations rule."""
    api = messages_api(lambda number, request: work() if number % 3 else summary("One step."))

    ours = "ralph-claude" in request.node.name
    agent = ["--agent", "ralph-claude"] if ours else []

    done = run_claude(api, "--max-cost", "0.05", "--max-iterations", "3", "--model", "claude-nonesuch-9", *agent)

    assert done.exit_code == 4, done.stdout + done.stderr
    assert sum("claude-nonesuch-9 has no known price" in note for note in notes(done)) == 1
    assert result(repo)["reason"] == f"limit reached: {'--max-iterations' if ours else '--max-cost'}"


@pytest.mark.long
def test_what_a_session_had_spent_when_ralph_was_killed_counts_by_its_price(
    repo: Path, ralph: Ralph, run_claude: ClaudeRun, messages_api: ServeMessages, world: Path
) -> None:
    api = messages_api(lambda number, request: work() if number < 4 else work_until_cut())
    env = claude_env(world / "home", api.url) | {"PATH": ralph.env["PATH"]}
    with ralph.start("run", "goal.md", "--json", "--max-cost", "1", env=env) as running:
        running.wait_for("tool_start", 4)
        wait_until(lambda: spent_so_far(running.events) >= 4 * USAGE.total, "the use of the fourth call")
        running.send(signal.SIGKILL)
        running.wait()

    done = run_claude(api, "--max-cost", f"{3.9 * ONE_CALL:.6f}")

    assert done.exit_code == 4, done.stdout + done.stderr
    assert result(repo)["cost_usd"] == pytest.approx(4 * ONE_CALL)
    assert len(api.ledger.main) == 4, "no session was held"


def spent_so_far(events: list[dict[str, Any]]) -> int:
    return max((event["usage"]["total_tokens"] for event in events if event["type"] == "usage"), default=0)
