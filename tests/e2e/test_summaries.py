"""Rolling summaries: prompts stay short however long the run, and whatever happens to the sessions that condense."""

from __future__ import annotations

import json
import re
import shutil
import signal
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import pytest

from tests.support import tools
from tests.support.any_agent import any_agent
from tests.support.any_agent import say as says
from tests.support.any_agent import write as writes
from tests.support.api_replies import Say, tool
from tests.support.git_repos import commits, git
from tests.support.goals import last_cost, raw_logs, result, run_directory, state, write_goal
from tests.support.messages_api import ServeMessages
from tests.support.ralph_process import Finished, Ralph
from tests.support.real_claude import claude_env
from tests.support.scripted_agent import (
    STANDARD_SUMMARY,
    ClaudeScript,
    ScriptedAgent,
    Session,
    Step,
    answer,
    api_error,
    bill,
    deny,
    hang,
    rate_limit,
    run,
    say,
    scripted_agent,
    structured,
    summary,
    write,
)
from tests.support.scripted_agent import exit as exit_with
from tests.support.stages import make_stage
from tests.support.tokens import ONE_MESSAGE

OFTEN = {"RALPH_SUMMARY_EVERY": "4", "RALPH_SUMMARY_KEEP": "2"}
"""After iteration 4 the first two are condensed, after 8 the first six; at most five are quoted."""


@pytest.fixture(autouse=True)
def goal(repo: Path) -> Path:
    return write_goal(repo)


def steps(count: int) -> list[Session]:
    return [[summary(f"step {number} was taken")] for number in range(1, count + 1)]


def chronicle(count: int) -> list[Session]:
    return [[summary(f"chapter {number}")] for number in range(1, count + 1)]


def quoted(prompt: str) -> tuple[int, list[int]]:
    """The last iteration that a worker's prompt has condensed, and those that it quotes."""
    condensed = re.search(r"^## Iterations 1 to (\d+), condensed$", prompt, re.MULTILINE)
    return int(condensed[1]) if condensed else 0, [
        int(n) for n in re.findall(r"^## Iteration (\d+)", prompt, re.MULTILINE)
    ]


def flattened(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.long
def test_two_hundred_iterations_and_prompts_that_do_not_grow(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    filler = "and saw that it was good. " * 80  # 2 KB
    agent = claude_script(
        *([summary(f"step {number} was taken, {filler}")] for number in range(1, 201)),
        summarizer=[[bill(cost=0.003), summary(f"chapter {number}, {filler}")] for number in range(1, 20)],
    )

    # In two starts, the second of which begins with a summary that was due.
    assert ralph("run", "goal.md", "--max-iterations", "110", "--quiet", timeout=300).exit_code == 4
    done = ralph("run", "goal.md", "--max-iterations", "200", "--quiet", timeout=300)

    assert done.exit_code == 4, done.stdout + done.stderr
    prompts = agent.heard
    assert len(prompts) == 200
    sizes = [len(prompt) for prompt in prompts]
    assert max(sizes) < 40_000, "fourteen summaries of 2 KB, the condensed ones, and what is always said"
    assert max(sizes[100:]) <= max(sizes[20:40]) + 100, "longer numbers, and nothing else"
    for number, prompt in enumerate(prompts, 1):
        finished = number - 1
        through = max(0, finished - finished % 10 - 5)
        assert quoted(prompt) == (through, list(range(through + 1, number)))
        assert (f"chapter {finished // 10}, and saw" in prompt) is (finished >= 10)
        assert "not shown" not in prompt
    asked = agent.heard_as_summarizer
    assert len(asked) == 19
    assert max(map(len, asked)) < 30_000
    assert all(f"chapter {number}, and saw" in told for number, told in enumerate(asked[1:], 1))
    assert (run_directory(repo) / "summary.md").read_text().startswith("# Iterations 1-185 of run ")
    assert result(repo)["cost_usd"] == pytest.approx(agent.total_cost)
    assert "$2.06 ($0.0570 of it for summaries)" in flattened(done.stdout)


@pytest.mark.spec("1.1.2-bcde", "1.5-i", "1.6-a")
@pytest.mark.spec("3.7-c")
def test_a_summarizer_is_a_session_of_its_own_kind(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    agent = claude_script(*steps(4), [summary("DONE")])

    done = ralph("run", "goal.md", "--json", env=OFTEN)

    assert done.exit_code == 0, done.stdout + done.stderr
    asked = next(start for start in agent.starts if "haiku" in start["argv"])
    options = asked["argv"]
    assert options[options.index("--tools") + 1] == "Read,Glob,Grep,StructuredOutput"
    assert options[options.index("--effort") + 1] == "high"
    forms = [
        argv[argv.index("--verbose") : argv.index("--json-schema") + 2] for argv in (options, agent.starts[0]["argv"])
    ]
    assert forms[0] == forms[1], "it speaks and answers as the worker does"
    assert asked["env"]["MAX_THINKING_TOKENS"] == "16384"
    assert asked["env"]["RALPH_ITERATION"] == "4"
    assert "step 2 was taken" in agent.heard_as_summarizer[0]
    assert "step 3 was taken" not in agent.heard_as_summarizer[0]
    (log,) = [log for log in raw_logs(repo) if "-summarizer-goal-4" in log.name]
    (started,), (written,) = done.events_of("summary_started"), done.events_of("summary_written")
    assert (started["through"], started["log"]) == (2, str(log))
    assert (written["through"], written["cost_usd"], written["text"]) == (2, 0.01, STANDARD_SUMMARY)
    assert [event["cost_usd"] for event in done.events_of("iteration_ended")] == [0.01] * 5, "counted apart"


def test_the_screen_tells_of_it(ralph: Ralph, claude_script: ClaudeScript) -> None:
    claude_script(*steps(4), [summary("DONE")], summarizer=[[bill(cost=0.5), summary("It went well.")]])

    done = ralph("run", "goal.md", env=OFTEN)

    assert "── summary of iterations 1-2 ───" in done.stdout
    assert "summary    It went well." in done.stdout
    assert "5 iterations · $0.55 ($0.50 of it for summaries) · 7,836 tokens (1,306 for summaries)" in flattened(
        done.stdout
    )


# Restarts


@pytest.fixture(scope="module")
def known_prompts() -> list[str]:
    """The prompts that `unbroken` has found: they say nothing of where the repository is."""
    return []


@pytest.fixture
def unbroken(known_prompts: list[str], tmp_path: Path, ralph: Ralph) -> list[str]:
    """The prompts of ten iterations that nothing disturbed."""
    if not known_prompts:
        stage = make_stage(tmp_path / "other", ralph)
        agent = scripted_agent(tmp_path / "other" / "bin", steps(10), summarizer=chronicle(2))
        assert stage.ralph("run", "goal.md", "--max-iterations", "10", env=OFTEN).exit_code == 4
        assert [quoted(prompt)[0] for prompt in agent.heard] == [0, 0, 0, 0, 2, 2, 2, 2, 6, 6]
        known_prompts[:] = agent.heard
    return known_prompts


def told(agent: ScriptedAgent) -> list[str]:
    """The worker's prompts; one that was said again, since its session was cut off, counts once."""
    return [prompt for prompt, _ in groupby(agent.heard)]


@pytest.mark.spec("3.1-m", "3.13-a")
@pytest.mark.parametrize(
    "limits", [[4, 10], *(pytest.param(limits, marks=pytest.mark.long) for limits in ([5, 10], [8, 9, 10]))], ids=str
)
def test_a_run_that_is_continued_has_the_same_prompts(
    ralph: Ralph, claude_script: ClaudeScript, unbroken: list[str], limits: list[int]
) -> None:
    """Also where it ended between the commit and the summary that it made due."""
    agent = claude_script(*steps(10), summarizer=chronicle(2))
    for limit in limits:
        assert ralph("run", "goal.md", "--max-iterations", str(limit), env=OFTEN).exit_code == 4

    assert agent.heard == unbroken
    assert len(agent.heard_as_summarizer) == 2, "none was made twice"


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=["kill -9", "Ctrl-C"])
@pytest.mark.parametrize("when", ["in the first summarizer", "in the second summarizer", "in a worker"])
def test_a_run_that_is_killed_has_the_same_prompts(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript, unbroken: list[str], number: int, when: str
) -> None:
    chapters, workers = chronicle(2), steps(10)
    stuck: Session = [bill(cost=0.07), say("I look at it."), hang()]
    match when:
        case "in the first summarizer":
            chapters.insert(0, stuck)
        case "in the second summarizer":
            chapters.insert(1, stuck)
        case _:
            workers.insert(6, stuck)
    agent = claude_script(*workers, summarizer=chapters)
    with ralph.start("run", "goal.md", "--json", "--max-iterations", "10", env=OFTEN) as running:
        count = 0
        while not any(event.get("text") == "I look at it." for event in running.events):
            count += 1
            running.wait_for("text", count)
        running.send(number)
        assert running.wait().exit_code == (130 if number == signal.SIGINT else -9)

    done = ralph("run", "goal.md", "--max-iterations", "10", env=OFTEN)

    assert done.exit_code == 4, done.stdout + done.stderr
    assert told(agent) == unbroken
    assert len(agent.heard_as_summarizer) == (2 if when == "in a worker" else 3)
    reported = sum(map(reported_cost, raw_logs(repo)))
    if number == signal.SIGINT:
        assert result(repo)["cost_usd"] == pytest.approx(agent.total_cost) == pytest.approx(reported)
        assert_apart(repo, done, agent)
    else:  # who is killed with -9 cannot ask the agent what it has spent: the message counts by its list price
        assert reported < result(repo)["cost_usd"] < reported + 0.003


def reported_cost(log: Path) -> float:
    return last_cost(log) if '"type":"result"' in log.read_text() else 0.0


def assert_apart(repo: Path, done: Finished, agent: ScriptedAgent) -> None:
    """What summaries have cost is what the summarizer's sessions say they have."""
    document = json.loads((run_directory(repo) / "run.json").read_text())
    assert document["condensed"]["spend"]["cost_usd"] == pytest.approx(agent.spent("summarizer"))
    shown = re.search(r"\(\$([0-9.]+) of it for summaries\)", flattened(done.stdout))
    assert shown is not None
    assert float(shown[1]) == pytest.approx(agent.spent("summarizer"), abs=0.005)


def test_what_a_summarizer_spent_before_a_kill_is_counted_apart(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    """It had said its cost, and ralph was killed before it wrote that down."""
    agent = claude_script(
        *steps(6),
        summarizer=[[[bill(cost=0.07), answer("no summary")], [bill(cost=0.02), hang()]], [summary("chapter 1")]],
    )
    with ralph.start("run", "goal.md", "--json", "--max-iterations", "6", env=OFTEN) as running:
        running.wait_for("summary_started")
        running.wait_for("turn_ended", 5)
        running.send(signal.SIGKILL)
        running.wait()

    done = ralph("run", "goal.md", "--max-iterations", "6", env=OFTEN)

    assert "added spend that was not recorded: $0.14" in flattened(done.stdout)
    assert result(repo)["cost_usd"] == pytest.approx(agent.total_cost)
    assert_apart(repo, done, agent)


@pytest.mark.long
def test_a_branch_that_was_reset_has_no_summary_of_what_it_has_lost(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    agent = claude_script(*steps(14), summarizer=chronicle(3))
    assert ralph("run", "goal.md", "--max-iterations", "9", env=OFTEN).exit_code == 4
    git(repo, "reset", "--hard", "HEAD~5")

    done = ralph("run", "goal.md", "--max-iterations", "6", env=OFTEN)

    assert "summary.md: it covers iterations up to 6, but the branch has 4" in flattened(done.stdout)
    assert quoted(agent.heard[9]) == (2, [3, 4])
    assert "chapter 3" in agent.heard[9]


@pytest.mark.long
@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "it is damaged"),
        (b"\xff\xfe", "it is not UTF-8 text"),
        (b"# Iterations 1-2 of run 0123456789ab, goal goal\n\nDo as I say.\n", "it belongs to run 0123456789ab"),
    ],
)
def test_a_summary_that_cannot_be_believed_is_made_again(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript, content: bytes, why: str
) -> None:
    agent = claude_script(*steps(7), summarizer=chronicle(2))
    assert ralph("run", "goal.md", "--max-iterations", "5", env=OFTEN).exit_code == 4
    (run_directory(repo) / "summary.md").write_bytes(content)

    done = ralph("run", "goal.md", "--max-iterations", "6", env=OFTEN)

    assert f"summary.md: {why}" in flattened(done.stdout)
    assert (quoted(agent.heard[5]), "chapter 2" in agent.heard[5]) == ((2, [3, 4, 5]), True)
    assert "ignoring" not in ralph("run", "goal.md", "--max-iterations", "7", env=OFTEN).stdout


@pytest.mark.long
def test_a_lost_directory_takes_the_summary_with_it(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    agent = claude_script(*steps(12), summarizer=chronicle(3))
    assert ralph("run", "goal.md", "--max-iterations", "10", env=OFTEN).exit_code == 4
    shutil.rmtree(run_directory(repo))

    assert ralph("run", "goal.md", "--max-iterations", "11", env=OFTEN).exit_code == 4

    assert quoted(agent.heard[10]) == (6, [7, 8, 9, 10])
    assert "chapter 3" in agent.heard[10]
    assert all(f"step {number} was taken" in agent.heard_as_summarizer[2] for number in range(1, 7)), "all at once"


# Failures


@pytest.mark.parametrize(
    ("session", "said"),
    [
        pytest.param([exit_with(3)], "crashed: the agent exited with 3", id="crash"),
        pytest.param([hang()], "hung: no output for 6.0s", marks=pytest.mark.long, id="hang"),
        pytest.param([answer("I would rather not.")], "invalid: ", marks=pytest.mark.long, id="invalid"),
        pytest.param(
            [deny("Read", {"file_path": "/etc/shadow"}), answer("I may not.")],
            "denied: permission denied: Read",
            marks=pytest.mark.long,
            id="denied",
        ),
        pytest.param([summary("DONE")], "its answer is DONE", marks=pytest.mark.long, id="DONE"),
        pytest.param(
            [summary("BLOCKED: nobody told me")], "its answer is BLOCKED", marks=pytest.mark.long, id="BLOCKED"
        ),
        pytest.param([structured({"summary": "  "})], "invalid: ", marks=pytest.mark.long, id="empty"),
        pytest.param(
            [api_error(401, "no such login", "authentication_failed")],
            "auth: no such login",
            marks=pytest.mark.long,
            id="login",
        ),
        pytest.param(
            [api_error(404, "no such model", "model_not_found")],
            "config: no such model",
            marks=pytest.mark.long,
            id="model",
        ),
    ],
)
def test_a_summarizer_that_fails_stops_nothing(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript, session: Sequence[Step], said: str
) -> None:
    agent = claude_script(*steps(8), [summary("DONE")], summarizer=[session])

    done = ralph("run", "goal.md", "--json", env=OFTEN | {"RALPH_IDLE_TIMEOUT": "6s"})

    assert done.exit_code == 0, done.stdout + done.stderr
    notes = [event["text"] for event in done.events_of("text") if event["tag"] == "SYS"]
    first, second = [note for note in notes if note.startswith("no summary of iterations")]
    assert first.startswith(f"no summary of iterations 1-2: {said}")
    assert "raw log: " in first
    assert "the run continues and retries after iteration 8" in first
    assert second.startswith("no summary of iterations 1-6: ")
    assert len(done.events_of("summary_started")) == 2, "tried once each time"
    assert not (run_directory(repo) / "summary.md").exists()
    assert [quoted(prompt)[1] for prompt in agent.heard[6:]] == [[2, 3, 4, 5, 6], [3, 4, 5, 6, 7], [4, 5, 6, 7, 8]]
    assert "3 earlier iterations are not shown" in agent.heard[-1]
    assert result(repo)["cost_usd"] == pytest.approx(agent.total_cost)


@pytest.mark.long
@pytest.mark.parametrize(
    ("session", "said"),
    [
        pytest.param(
            [rate_limit("rejected", 4_000_000_000), api_error(429, "You've hit your limit", "rate_limit")],
            "usage-limit: ",
            id="usage limit",
        ),
        pytest.param([api_error(529, "Overloaded")], "overloaded: Overloaded", id="overloaded"),
    ],
)
def test_what_fails_by_something_that_passes_is_tried_again_after_the_next_iteration(
    ralph: Ralph, claude_script: ClaudeScript, session: Sequence[Step], said: str
) -> None:
    agent = claude_script(*steps(6), [summary("DONE")], summarizer=[session, [summary("chapter 1")]])

    done = ralph("run", "goal.md", "--json", env=OFTEN)

    assert done.exit_code == 0, done.stdout + done.stderr
    (note,) = [event["text"] for event in done.events_of("text") if event["text"].startswith("no summary")]
    assert note.startswith(f"no summary of iterations 1-2: {said}")
    assert "retries after iteration 5" in note
    assert [quoted(prompt) for prompt in agent.heard[4:]] == [(0, [1, 2, 3, 4]), (2, [3, 4, 5]), (2, [3, 4, 5, 6])]


@pytest.mark.long
def test_a_limit_of_the_run_that_falls_into_a_summary_fails_no_summary(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    claude_script(*steps(4), [summary("DONE")], summarizer=[[hang()]])
    cut = ralph("run", "goal.md", "--duration", "15s", env=OFTEN)
    assert (cut.exit_code, "no summary" in cut.stdout) == (4, False), cut.stdout
    agent = claude_script([summary("DONE")], summarizer=[[summary("chapter 1")]])

    assert ralph("run", "goal.md", env=OFTEN).exit_code == 0
    assert "chapter 1" in agent.heard[0]


@pytest.mark.long
def test_a_valid_summary_counts_though_a_tool_was_denied(ralph: Ralph, claude_script: ClaudeScript) -> None:
    agent = claude_script(*steps(4), [summary("DONE")], summarizer=[[deny("Read", {}), summary("chapter 1")]])

    assert ralph("run", "goal.md", env=OFTEN).exit_code == 0
    assert "chapter 1" in agent.heard[-1]


@pytest.mark.long
def test_a_failure_is_remembered_over_a_restart_and_made_good_later(ralph: Ralph, claude_script: ClaudeScript) -> None:
    agent = claude_script(*steps(10), summarizer=[[exit_with(1)], [summary("chapter 1")]])
    for limit in (5, 6, 10):
        assert ralph("run", "goal.md", "--max-iterations", str(limit), env=OFTEN).exit_code == 4

    assert len(agent.heard_as_summarizer) == 2
    assert all(f"step {number} was taken" in agent.heard_as_summarizer[1] for number in range(1, 7))
    assert quoted(agent.heard[8]) == (6, [7, 8])


def test_no_summary_is_begun_when_a_limit_is_reached(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    agent = claude_script(*steps(4))
    done = ralph("run", "goal.md", "--max-cost", "0.04", env=OFTEN)
    assert (done.exit_code, agent.heard_as_summarizer) == (4, [])


def test_what_it_costs_counts_against_the_limit(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    agent = claude_script(*steps(5), summarizer=[[bill(cost=1.0), summary("chapter 1")]])
    done = ralph("run", "goal.md", "--max-cost", "0.5", env=OFTEN)
    assert (done.exit_code, len(agent.heard)) == (4, 4)
    assert result(repo)["reason"] == "limit reached: --max-cost"
    last_worker = agent.starts[3]["argv"]
    session_id = last_worker[last_worker.index("--session-id") + 1]
    assert state(repo, "claude-session.json")["coder_session_id"] == session_id, "the summarizer codes nothing"
    assert_apart(repo, done, agent)


@pytest.mark.long
def test_it_may_use_a_tenth_of_what_is_left_and_the_work_goes_on(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    """One that reads for ever would else eat the budget of the run, and again at each start."""
    agent = claude_script(*steps(6), [summary("DONE")], summarizer=[[*[run("sleep 0.1")] * 3, *[run("sleep 5")] * 50]])
    limits = ["--max-tokens", str(40 * ONE_MESSAGE.total), "--max-cost", "1.04"]

    first = ralph("run", "goal.md", "--json", "--max-iterations", "5", *limits, env=OFTEN)
    second = ralph("run", "goal.md", "--json", *limits, env=OFTEN)

    assert (first.exit_code, second.exit_code) == (4, 0), first.stdout + second.stdout + second.stderr
    notes = [event["text"] for event in first.events_of("text") if event["tag"] == "SYS"]
    (failed,) = [note for note in notes if note.startswith("no summary of iterations 1-2: ")]
    tenth = f"{3.6 * ONE_MESSAGE.total:,.0f}"
    assert f"budget: a tenth of the rest of --max-tokens: {tenth} is used up" in failed
    assert "the run continues and retries after iteration 8" in failed
    assert len(agent.heard_as_summarizer) == 1, "none at the second start"
    spent = json.loads((run_directory(repo) / "run.json").read_text())["condensed"]["spend"]["tokens"]
    assert 3.6 * ONE_MESSAGE.total <= spent < 7 * ONE_MESSAGE.total
    given = [start["argv"][start["argv"].index("--max-budget-usd") + 1] for start in agent.starts]
    assert given[3:5] == ["1.010000", "0.100000"], "the fourth worker's, and the summarizer's"


def test_what_it_does_to_the_tree_is_said_or_undone(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    (repo / ".ralph").mkdir()
    (repo / ".ralph" / "config.toml").write_text("failures = 2\n")
    deeds = [write("mine.txt", "x"), write(".ralph/config.toml", "failures = 9\n"), run("git switch -c other")]
    agent = claude_script(*steps(4), [summary("DONE")], summarizer=[[*deeds, summary("chapter 1")]])

    done = ralph("run", "goal.md", env=OFTEN)

    assert done.exit_code == 0, done.stdout + done.stderr
    words = flattened(done.stdout)
    assert "the summarizer changed .ralph/config.toml; ralph undid that" in words
    assert "the summarizer switched branches; ralph undid that" in words
    assert "the summarizer changed files although it is read-only: mine.txt; the next commit includes them" in words
    assert (repo / ".ralph" / "config.toml").read_text() == "failures = 2\n"
    assert git(repo, "branch", "--show-current") == "main"
    assert git(repo, "show", "--name-only", "--format=", "HEAD") == "mine.txt"
    assert "What you must know about the last session" not in agent.heard[-1], "the worker did none of it"


def test_a_prompt_that_is_too_long_has_its_older_part_condensed(ralph: Ralph, claude_script: ClaudeScript) -> None:
    too_long: Session = [api_error(400, "Prompt is too long", "invalid_request", "prompt_too_long")]
    agent = claude_script(*steps(5), too_long, [summary("DONE")])

    assert ralph("run", "goal.md").exit_code == 0

    assert len(agent.heard_as_summarizer) == 1
    assert quoted(agent.heard[5]) == (0, [1, 2, 3, 4, 5])
    assert quoted(agent.heard[6]) == (3, [4, 5])
    assert STANDARD_SUMMARY in agent.heard[6]


# Settings


@pytest.mark.parametrize(
    ("env", "said"),
    [
        pytest.param({"RALPH_SUMMARY_EVERY": "-1"}, "RALPH_SUMMARY_EVERY: '-1'", marks=pytest.mark.long),
        pytest.param({"RALPH_SUMMARY_KEEP": "0"}, "RALPH_SUMMARY_KEEP: '0'", marks=pytest.mark.long),
        ({"RALPH_SUMMARY_EVERY": "90", "RALPH_SUMMARY_KEEP": "20"}, "a prompt would quote 109 iterations"),
        pytest.param(
            {"RALPH_MODES_SUMMARIZER_REASONING": "much"},
            "RALPH_MODES_SUMMARIZER_REASONING: 'much'",
            marks=pytest.mark.long,
        ),
    ],
)
def test_nonsense_is_refused(
    world: Path, ralph: Ralph, claude_script: ClaudeScript, env: dict[str, str], said: str
) -> None:
    agent = claude_script([summary("DONE")])
    refused = ralph("run", "goal.md", env=env)
    assert (refused.exit_code, agent.starts) == (2, [])
    assert said in refused.stderr
    assert not (world / "ralph" / "runs").exists()


@pytest.mark.long
def test_zero_is_never(ralph: Ralph, claude_script: ClaudeScript) -> None:
    agent = claude_script(*steps(12), [summary("DONE")])
    assert ralph("run", "goal.md", env={"RALPH_SUMMARY_EVERY": "0"}).exit_code == 0
    assert agent.heard_as_summarizer == []
    assert quoted(agent.heard[-1]) == (0, list(range(3, 13)))


@pytest.mark.long
def test_a_repositorys_own_template(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    template = repo / ".ralph" / "prompts" / "summarizer.md.j2"
    template.parent.mkdir(parents=True)
    template.write_text("Briefly: {{ iterations[-1].summary }}")
    agent = claude_script(*steps(4), [summary("DONE")])
    refused = ralph("run", "goal.md", env=OFTEN)
    assert (refused.exit_code, agent.starts) == (2, []), "of a first run there are no iterations"
    assert str(template) in refused.stderr

    template.write_text("Briefly: {% for item in iterations %}{{ item.summary }}. {% endfor %}")
    assert ralph("run", "goal.md", env=OFTEN).exit_code == 0
    assert agent.heard_as_summarizer == ["Briefly: step 1 was taken. step 2 was taken. "]


@pytest.mark.long
def test_a_template_that_only_fails_with_iterations_stops_nothing(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    template = repo / ".ralph" / "prompts" / "summarizer.md.j2"
    template.parent.mkdir(parents=True)
    template.write_text("Briefly: {% for item in iterations %}{{ item.sumary }}{% endfor %}")
    agent = claude_script(*steps(4), [summary("DONE")])

    done = ralph("run", "goal.md", env=OFTEN)

    assert (done.exit_code, len(agent.heard), agent.heard_as_summarizer) == (0, 5, [])
    assert f"no summary of iterations 1-2: {template}: cannot render the template" in flattened(done.stdout)
    assert "for summaries" not in done.stdout, "nothing was spent on one"


# Other agents


def test_codex_condenses_in_a_sandbox_that_is_read_only(repo: Path, ralph: Ralph, bin_dir: Path) -> None:
    sessions = [[says(json.dumps({"summary": f"turn {number}"}))] for number in range(1, 6)]
    sessions += [[says('{"summary": "All done.\\n<promise>COMPLETE</promise>"}')]]
    agent = any_agent(bin_dir, "codex", *sessions)

    assert ralph("run", "goal.md", "--agent", "codex", "--model", "gpt", env=OFTEN).exit_code == 0

    words = [start["argv"] for start in agent.starts]
    assert [argv[argv.index("--sandbox") + 1] for argv in words] == [
        *["workspace-write"] * 4,
        "read-only",
        "workspace-write",
    ]
    assert all(argv[argv.index("--model") + 1] == "gpt" for argv in words), "haiku is claude's"
    assert "one JSON object and nothing else" in agent.heard[4]
    assert "turn 5" in agent.heard[5], "the fifth session was the summarizer's"
    assert quoted(agent.heard[5]) == (2, [3, 4])
    assert result(repo)["tokens"] == 6 * 1050


@pytest.mark.long
def test_a_command_condenses_in_words(repo: Path, ralph: Ralph, bin_dir: Path) -> None:
    sessions = [[writes(f"{number}.txt", ""), says(f"turn {number}")] for number in range(1, 5)]
    long = "It went well.\n" * 400  # more than the end that would be an iteration's summary
    agent = any_agent(bin_dir, "plain", *sessions, [says(long)], [says("<promise>COMPLETE</promise>")], name="mine")

    done = ralph("run", "goal.md", "--agent-cmd", "mine", env=OFTEN)

    assert done.exit_code == 0, done.stdout + done.stderr
    assert agent.heard[5].count("It went well.") == 400
    assert (run_directory(repo) / "summary.md").read_text().count("It went well.") == 400


def script(directory: Path, count: int) -> Path:
    """A script of so many steps and a DONE."""
    summaries = [*(f"step {number} was taken" for number in range(1, count + 1)), "DONE"]
    sessions = [
        [[{"type": "tool_use", "name": "StructuredOutput", "input": {"summary": words}}]] for words in summaries
    ]
    path = directory / "play.json"
    path.write_text(json.dumps(sessions))
    return path


@pytest.mark.long
@pytest.mark.parametrize("agent", ["demo", "ralph-claude"])
def test_a_script_has_one_session_an_iteration_and_does_not_summarise(
    repo: Path, tmp_path: Path, ralph: Ralph, agent: str
) -> None:
    path = script(tmp_path, 11)
    model = ["--model", f"scripted:{path}"] if agent == "ralph-claude" else []

    done = ralph("run", "goal.md", "--agent", agent, *model, "--json", env={"RALPH_DEMO_SCRIPT": str(path)})

    assert done.exit_code == 0, done.stdout + done.stderr
    assert len(commits(repo)) == 13
    assert done.events_of("summary_started") == []


@pytest.mark.long
def test_a_summarizer_may_have_a_script_of_its_own(repo: Path, tmp_path: Path, ralph: Ralph) -> None:
    (tmp_path / "summaries").mkdir()
    own = tmp_path / "summaries" / "play.json"
    own.write_text('[[[{"type": "tool_use", "name": "StructuredOutput", "input": {"summary": "chapter 1"}}]]]')
    env = OFTEN | {"RALPH_MODES_SUMMARIZER_MODEL": f"scripted:{own}"}

    model = f"scripted:{script(tmp_path, 5)}"
    done = ralph("run", "goal.md", "--agent", "ralph-claude", "--model", model, "--json", env=env)

    assert done.exit_code == 0, done.stdout + done.stderr
    assert [event["text"] for event in done.events_of("summary_written")] == ["chapter 1"]


@pytest.mark.long
def test_the_real_claude_condenses(
    repo: Path, ralph: Ralph, bin_dir: Path, world: Path, messages_api: ServeMessages
) -> None:
    (bin_dir / "claude").symlink_to(tools.find("claude"))
    said = ["step 1 was taken", "step 2 was taken", "chapter 1", "DONE"]
    api = messages_api([Say(tool("StructuredOutput", summary=words)) for words in said])
    env = claude_env(world / "home", api.url) | {"PATH": ralph.env["PATH"]}

    every_two = {"RALPH_SUMMARY_EVERY": "2", "RALPH_SUMMARY_KEEP": "1"}
    done = ralph("run", "goal.md", "--json", env=env | every_two, timeout=120)

    assert done.exit_code == 0, done.stdout + done.stderr
    asked, told_last = api.ledger.main[2], api.ledger.main[3]
    assert "haiku" in asked.request["model"]
    names = {tool["name"] for tool in asked.request["tools"]}
    assert {"Read", "Glob", "Grep", "StructuredOutput"} <= names
    assert not {"Bash", "Edit", "Write"} & names
    assert any("step 1 was taken" in words for words in asked.user_texts)
    assert any("chapter 1" in words for words in told_last.user_texts)
    assert result(repo)["tokens"] == api.ledger.tokens.total
    apart = done.events_of("summary_written")[0]["cost_usd"]
    (log,) = [log for log in raw_logs(repo) if "-summarizer-" in log.name]
    assert apart == pytest.approx(last_cost(log))
