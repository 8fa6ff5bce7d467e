"""Agents that answer in words: what is their claim, what is their summary, what is only an echo or a quote."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support import any_agent
from tests.support.any_agent import any_agent as make_agent
from tests.support.any_agent import echo_prompt, fail, resumed, run, say, think, write
from tests.support.git_repos import commits
from tests.support.goals import GOAL, result, run_directory, write_check, write_goal
from tests.support.ralph_process import Finished, Ralph

PROMISE = "<promise>COMPLETE</promise>"
QUOTING_GOAL = f"{GOAL}\nWhen done, print\n\n{PROMISE}\n\nor rather\n\n```\n{PROMISE}\n```\n"


def shell_agent(path: Path, script: str) -> str:
    """A command of a few lines of shell; what is not said otherwise, it reads its prompt first."""
    path.write_text(f"#!/bin/sh\n{script}")
    path.chmod(0o755)
    return str(path)


def run_custom(ralph: Ralph, command: str, *args: str) -> Finished:
    return ralph("run", "goal.md", "--json", "--agent-cmd", command, "--max-iterations", "2", *args)


@pytest.mark.spec("2.5-m")
@pytest.mark.spec("3.10-c")
@pytest.mark.parametrize("transcript", ["plain", pytest.param("rtf1", marks=pytest.mark.long)])
def test_an_agent_that_echoes_its_prompt_claims_nothing(
    repo: Path, ralph: Ralph, tmp_path: Path, transcript: str
) -> None:
    write_goal(repo, QUOTING_GOAL)
    done = run_custom(ralph, shell_agent(tmp_path / "echo", "cat\n"), "--transcript", transcript)
    assert done.exit_code == 4, done.stdout + done.stderr
    assert [event["verdict"] for event in done.events_of("iteration_ended")] == ["CONTINUE", "CONTINUE"]
    said = [event["text"] for event in done.events_of("text") if event["tag"] == "AI"]
    assert sum(PROMISE in text for text in said) >= 4, "it was there to be mistaken"


@pytest.mark.long
def test_a_codex_that_echoes_its_prompt_claims_nothing(repo: Path, ralph: Ralph, bin_dir: Path) -> None:
    write_goal(repo, QUOTING_GOAL)
    answer = json.dumps({"summary": "I read it."})
    make_agent(bin_dir, "codex", [echo_prompt(), say(answer)])
    done = ralph("run", "goal.md", "--json", "--agent", "codex", "--max-iterations", "1")
    assert done.exit_code == 4, done.stdout + done.stderr
    assert [event["verdict"] for event in done.events_of("iteration_ended")] == ["CONTINUE"]


QUOTES = (
    f"echo 'I shall print {PROMISE} when it is done.'",
    f"echo '`{PROMISE}`'",
    f"echo '> {PROMISE}'",
    f'echo \'@@RALPH@@ {{"type":"tool_output","tool":{{"id":"t"}},"text":"{PROMISE}"}}\'',
    f'echo \'@@RALPH@@ {{"type":"text","tag":"THINK","text":"{PROMISE}"}}\'',
    f'echo \'@@RALPH@@ {{"type":"text","tag":"TOOL","text":"{PROMISE}"}}\'',
    f"echo '{PROMISE}' >&2",
    f"printf '```\\n{PROMISE}\\n```\\n'",
)
"""Ways to mention the marker. The fence comes last, so that it cannot hide the others."""


@pytest.mark.spec("2.5-m")
def test_a_quoted_marker_is_no_claim(repo: Path, ralph: Ralph, tmp_path: Path) -> None:
    """If any of the eight counted as a claim, the first iteration would end the run."""
    write_goal(repo)
    said = "\necho not yet\n".join(QUOTES)
    agent = shell_agent(tmp_path / "agent", f"cat > /dev/null\n{said}\necho not yet\n")
    done = run_custom(ralph, agent, "--transcript", "rtf1", "--no-check")
    assert done.exit_code == 4, done.stdout + done.stderr
    assert result(repo)["iterations"] == 2


@pytest.mark.spec("2.1-c", "2.2-d", "2.15-c")
def test_the_promise_is_a_claim_that_the_check_decides(repo: Path, ralph: Ralph, tmp_path: Path) -> None:
    write_goal(repo)
    write_check(repo)
    agent = shell_agent(
        tmp_path / "agent",
        "grep -q 'not 42 but: 41' && echo 42 > answer.txt || echo 41 > answer.txt\n"
        f"echo I wrote it.\necho ' {PROMISE} '\n",
    )
    done = run_custom(ralph, agent)
    assert done.exit_code == 0, done.stdout + done.stderr
    assert [event["exit_code"] for event in done.events_of("check_ended")] == [1, 0]
    assert result(repo)["proven"] is True
    assert [commit.body.splitlines()[0] for commit in commits(repo)[1:]] == ["I wrote it.", "I wrote it."]


@pytest.mark.spec("2.3-a")
def test_the_prompt_can_be_had_in_a_file(repo: Path, ralph: Ralph, tmp_path: Path) -> None:
    write_goal(repo)
    agent = shell_agent(tmp_path / "agent", f'test -z "$(cat)" && cat "$2" > {tmp_path}/seen && echo "{PROMISE}"\n')
    done = run_custom(ralph, f"{agent} --prompt {{prompt_file}}")
    assert done.exit_code == 0, done.stdout + done.stderr
    assert "Create `answer.txt` with the answer." in (tmp_path / "seen").read_text()
    assert not list(repo.glob("prompt*")), "the file is not in the repository"
    assert (run_directory(repo) / "prompt.md").stat().st_mode & 0o077 == 0


@pytest.mark.spec("2.3-b")
@pytest.mark.long
def test_a_command_is_found_from_where_the_user_stands(repo: Path, ralph: Ralph) -> None:
    """As the README says it; and the agent itself is started in the repository's root."""
    write_goal(repo)
    (repo / "sub").mkdir()
    shell_agent(repo / "sub" / "agent.sh", f"cat > /dev/null; pwd; echo '{PROMISE}'\n")
    args = ("--json", "--no-check", "--allow-dirty")
    from_root = ralph("run", "goal.md", *args, "--agent-cmd", "./sub/agent.sh")
    from_below = ralph("run", "../goal.md", *args, "--agent-cmd", "./agent.sh", cwd=repo / "sub")
    assert (from_root.exit_code, from_below.exit_code) == (0, 0), from_root.stderr + from_below.stderr
    for done in (from_root, from_below):
        assert str(repo) in [event["text"] for event in done.events_of("text")]
        assert done.events_of("run_started")[0]["agent_path"] == str(repo / "sub" / "agent.sh")


@pytest.mark.long
def test_a_session_that_the_user_stopped_is_no_iteration(repo: Path, ralph: Ralph, tmp_path: Path) -> None:
    """An agent may leave in peace when it is told to: what it had begun is not finished for that."""
    write_goal(repo)
    agent = shell_agent(
        tmp_path / "agent", "trap 'exit 0' INT\ncat > /dev/null\ntouch half\necho I begin.\nsleep 60 & wait\n"
    )
    with ralph.start("run", "goal.md", "--json", "--agent-cmd", agent) as running:
        running.wait_for("text")
        running.send(2)
        done = running.wait()
    assert done.exit_code == 130
    assert len(commits(repo)) == 1
    assert (repo / "half").exists(), "what it left stays in the tree"


@pytest.mark.parametrize(
    ("agent", "transcript"),
    [
        ("codex", "claude"),
        pytest.param("claude", "codex", marks=pytest.mark.long),
        pytest.param("demo", "codex", marks=pytest.mark.long),
    ],
)
def test_an_agent_cannot_be_read_in_the_others_language(
    repo: Path, ralph: Ralph, bin_dir: Path, agent: str, transcript: str
) -> None:
    write_goal(repo)
    for name in ("claude", "codex"):
        shell_agent(bin_dir / name, "exit 9\n")
    done = ralph("run", "goal.md", "--agent", agent, "--transcript", transcript)
    assert done.exit_code == 2
    assert f"--transcript {transcript} cannot read this agent" in done.stderr
    assert not (repo / ".ralph").exists()


@pytest.mark.long
def test_an_agent_that_says_nothing_has_done_no_iteration(repo: Path, ralph: Ralph, tmp_path: Path) -> None:
    write_goal(repo)
    done = run_custom(ralph, shell_agent(tmp_path / "agent", "cat > /dev/null\n"), "--max-iterations", "1")
    assert done.exit_code == 4
    assert [event["end"] for event in done.events_of("session_ended")] == ["no-result", "no-result"]
    assert "printed nothing" in done.events_of("session_ended")[0]["reason"]
    assert len(commits(repo)) == 1


@pytest.mark.long
@pytest.mark.parametrize("where", ["", " >&2"])
def test_why_an_agent_failed_is_told_in_its_own_last_words(
    repo: Path, ralph: Ralph, tmp_path: Path, where: str
) -> None:
    write_goal(repo)
    agent = shell_agent(tmp_path / "agent", f"cat > /dev/null; echo hm; echo 'no such model: x'{where}; exit 1\n")
    done = run_custom(ralph, agent, "--max-iterations", "1")
    assert done.events_of("session_ended")[0]["reason"] == (
        "the agent exited with 1 without a result: no such model: x"
    )


def test_a_claim_of_an_agent_that_then_fails_is_none(repo: Path, ralph: Ralph, tmp_path: Path) -> None:
    write_goal(repo)
    done = run_custom(ralph, shell_agent(tmp_path / "agent", f"cat > /dev/null; echo '{PROMISE}'; exit 1\n"))
    assert done.exit_code == 4
    assert {event["end"] for event in done.events_of("session_ended")} == {"crashed"}


@pytest.mark.spec("2.1-k", "2.8-e", "2.13-d", "2.18-ghi")
def test_ten_lines_of_rtf1_give_plan_actions_and_report(repo: Path, ralph: Ralph, tmp_path: Path) -> None:
    write_goal(repo)
    write_check(repo)
    agent = shell_agent(
        tmp_path / "agent",
        'rtf1() { echo "@@RALPH@@ $1"; }\n'
        "cat > /dev/null\n"
        'rtf1 \'{"type":"text","tag":"THINK","text":"Plan: write the file, then look"}\'\n'
        'rtf1 \'{"type":"tool_start","tool":{"id":"t1","name":"shell","input":{"cmd":"echo 42"}}}\'\n'
        "echo 42 > answer.txt\n"
        'rtf1 \'{"type":"tool_output","tool":{"id":"t1"},"text":"42"}\'\n'
        'rtf1 \'{"type":"tool_end","tool":{"id":"t1","status":"ok","duration_ms":218}}\'\n'
        'rtf1 \'{"type":"usage","usage":{"prompt_tokens":1234,"completion_tokens":567,"total_tokens":1801}}\'\n'
        f"echo I wrote it.\necho '{PROMISE}'\n",
    )
    args = ("run", "goal.md", "--agent-cmd", agent, "--max-iterations", "2")

    rich = ralph(*args, "--transcript", "rtf1")
    plain = ralph(*args, "--fresh")

    assert (rich.exit_code, plain.exit_code) == (0, 0), rich.stdout + plain.stdout
    for label in ("PLAN       write the file, then look", "ACTIONS    shell", "REPORT     1,801 tokens"):
        assert f"\n{label}" in rich.stdout
    assert "0.2s" in rich.stdout
    for label in ("PLAN", "ACTIONS", "REPORT"):
        assert f"\n{label} " not in plain.stdout, "no event, no callout"
    assert "--transcript rtf1" in plain.stdout, "a hint for who forgot it"
    assert "agent      I wrote it." in plain.stdout


def test_a_codex_that_does_not_keep_to_the_schema_is_corrected_by_resuming_it(
    repo: Path, ralph: Ralph, bin_dir: Path
) -> None:
    write_goal(repo)
    good = say(json.dumps({"summary": f"Fixed.\n{PROMISE}"}))
    codex = make_agent(bin_dir, "codex", [say("Just words."), resumed(say("{}"), resumed(good))])

    done = ralph("run", "goal.md", "--json", "--agent", "codex", "--model", "gpt-x", "--reasoning", "high")

    assert done.exit_code == 0, done.stdout + done.stderr
    first, second, third = codex.starts
    assert first["argv"][1] == "exec"
    assert first["argv"][-1] == "-"
    for start in (first, second, third):
        assert start["argv"][start["argv"].index("--sandbox") + 1] == "workspace-write"
        assert start["argv"][start["argv"].index("--model") + 1] == "gpt-x"
        assert 'model_reasoning_effort="high"' in start["argv"]
        schema = Path(start["argv"][start["argv"].index("--output-schema") + 1])
        assert json.loads(schema.read_text())["additionalProperties"] is False
    (started,) = done.events_of("session_started")
    assert second["argv"][-3:] == third["argv"][-3:] == ["resume", started["session_id"], "-"]
    correction = "Invalid output. Your last message must be one JSON object and nothing else: "
    assert second["stdin"].startswith(correction)
    assert third["stdin"].startswith(correction)
    assert result(repo)["tokens"] == 3 * (any_agent.INPUT + any_agent.OUTPUT)
    assert len(list((run_directory(repo) / "logs" / "codex").glob("*.ndjson"))) == 1
    assert commits(repo)[-1].body.startswith("Fixed.\n")


@pytest.mark.spec("2.7-f", "2.13-e")
def test_a_claude_that_prints_rtf1_is_read_as_such(repo: Path, ralph: Ralph, bin_dir: Path) -> None:
    write_goal(repo)
    thought = json.dumps({"type": "text", "tag": "THINK", "text": "a plan"})
    shell_agent(bin_dir / "claude", f"cat > /dev/null\necho '@@RALPH@@ {thought}'\necho '{PROMISE}'\n")
    done = ralph("run", "goal.md", "--json", "--agent", "claude", "--transcript", "rtf1", "--no-check")
    assert done.exit_code == 0, done.stdout + done.stderr
    assert done.events_of("run_started")[0]["transcript"] == "rtf1"
    assert ("THINK", "a plan") in [(event["tag"], event["text"]) for event in done.events_of("text")]


@pytest.mark.long
def test_a_codex_that_never_keeps_to_it_is_a_failure(repo: Path, ralph: Ralph, bin_dir: Path) -> None:
    write_goal(repo)
    endless = say("words")
    codex = make_agent(bin_dir, "codex", [endless, resumed(endless, resumed(endless, resumed(endless)))])
    done = ralph("run", "goal.md", "--json", "--agent", "codex", "--max-iterations", "1")
    assert done.exit_code == 4, done.stdout + done.stderr
    assert [event["end"] for event in done.events_of("session_ended")] == ["invalid"]
    assert len(codex.starts) == 4


@pytest.mark.long
def test_a_codex_read_as_plain_text_answers_in_words(repo: Path, ralph: Ralph, bin_dir: Path) -> None:
    write_goal(repo)
    codex = make_agent(bin_dir, "plain", [think("hm"), run("true"), write("a.txt", "a"), say(f"Did it.\n{PROMISE}")])
    done = ralph("run", "goal.md", "--json", "--agent", "codex", "--transcript", "plain", "--no-check")
    assert done.exit_code == 0, done.stdout + done.stderr
    assert "--json" not in codex.starts[0]["argv"]
    assert done.events_of("run_started")[0]["transcript"] == "plain"


@pytest.mark.parametrize(
    ("message", "end", "code"),
    [
        ("unexpected status 401 Unauthorized: Incorrect API key provided", "auth", 6),
        pytest.param("Missing environment variable: `OPENAI_API_KEY`.", "auth", 6, marks=pytest.mark.long),
        pytest.param(
            "Codex ran out of room in the model's context window. Start a new thread",
            "too-long",
            4,
            marks=pytest.mark.long,
        ),
    ],
)
def test_how_codex_fails_is_told_from_its_message(
    repo: Path, ralph: Ralph, bin_dir: Path, message: str, end: str, code: int
) -> None:
    write_goal(repo)
    make_agent(bin_dir, "codex", [fail(message)])
    done = ralph("run", "goal.md", "--json", "--agent", "codex", "--max-iterations", "1")
    assert done.exit_code == code, done.stdout + done.stderr
    assert done.events_of("session_ended")[0]["end"] == end


def test_a_missing_codex_is_blocked_with_the_way_to_get_it(repo: Path, ralph: Ralph) -> None:
    write_goal(repo)
    done = ralph("run", "goal.md", "--agent", "codex")
    assert done.exit_code == 6
    assert "npm install -g @openai/codex" in done.stderr
    assert not (repo / ".ralph").exists()


def test_a_missing_command_is_blocked(repo: Path, ralph: Ralph) -> None:
    write_goal(repo)
    done = ralph("run", "goal.md", "--agent-cmd", "no-such-agent --flag")
    assert done.exit_code == 6
    assert "'no-such-agent' was not found" in done.stderr


@pytest.mark.spec("2.2-a")
def test_tokens_that_nobody_told_are_unknown_and_no_limit_on_them_holds(
    repo: Path, ralph: Ralph, tmp_path: Path
) -> None:
    write_goal(repo)
    agent = shell_agent(tmp_path / "agent", f"cat > /dev/null; echo '{PROMISE}'\n")
    done = ralph("run", "goal.md", "--agent-cmd", agent, "--max-cost", "1")
    assert done.exit_code == 0
    assert "--max-cost and --max-tokens can't be enforced: a plain transcript has no usage" in done.stdout
    assert "cost unknown · tokens unknown" in done.stdout
    assert (result(repo)["tokens"], result(repo)["cost_usd"]) == (None, None)
    assert commits(repo)[-1].trailers["Ralph-Tokens"] == "unknown"


PRICES = '["gpt-6.1"]\ninput = 2.0\noutput = 10.0\n'


@pytest.mark.spec("2.16-be")
def test_dollars_come_from_the_users_own_table(repo: Path, ralph: Ralph, bin_dir: Path) -> None:
    write_goal(repo)
    (repo / ".ralph").mkdir()
    (repo / ".ralph" / "pricing.toml").write_text(PRICES)
    make_agent(bin_dir, "codex", [say(json.dumps({"summary": "one step"}))])
    one = (any_agent.INPUT * 2 + any_agent.OUTPUT * 10) / 1e6
    args = ("run", "goal.md", "--agent", "codex", "--model", "gpt-6.1", "--no-check")

    done = ralph(*args, "--max-cost", f"{1.5 * one:f}")

    assert done.exit_code == 4, done.stdout + done.stderr
    assert "limit reached: --max-cost" in done.stdout
    assert result(repo)["cost_usd"] == pytest.approx(2 * one)
    assert commits(repo)[-1].trailers["Ralph-Cost-USD"] == str(2 * one)
    assert "$0.0025" in done.stdout


@pytest.mark.spec("2.2-b", "2.16-d")
@pytest.mark.parametrize("args", [pytest.param([], marks=pytest.mark.long), ["--model", "gpt-6.2"]])
def test_without_a_price_no_dollars_are_named_and_that_is_said(
    repo: Path, ralph: Ralph, bin_dir: Path, args: list[str]
) -> None:
    write_goal(repo)
    (repo / ".ralph").mkdir()
    (repo / ".ralph" / "pricing.toml").write_text(PRICES)
    make_agent(bin_dir, "codex", [say(json.dumps({"summary": "DONE"}))])
    done = ralph("run", "goal.md", "--agent", "codex", "--no-check", "--max-cost", "1", *args)
    assert done.exit_code == 0, done.stdout + done.stderr
    assert "--max-cost needs a cost from the agent, or a price for " in done.stdout
    assert result(repo)["cost_usd"] is None
    assert "$0" not in done.stdout.split("── iteration")[1]


def test_a_table_of_prices_that_is_none_is_refused(repo: Path, ralph: Ralph, bin_dir: Path) -> None:
    write_goal(repo)
    (repo / ".ralph").mkdir()
    (repo / ".ralph" / "pricing.toml").write_text('["gpt-6.1"]\ninput = -2\noutput = 1\n')
    make_agent(bin_dir, "codex", [say(json.dumps({"summary": "DONE"}))])
    done = ralph("run", "goal.md", "--agent", "codex")
    assert done.exit_code == 2
    assert ".ralph/pricing.toml: [gpt-6.1] input: not an amount of dollars" in done.stderr
    assert not (repo / ".ralph" / "runs").exists()


@pytest.mark.long
def test_what_a_killed_session_spent_is_counted_though_another_agent_goes_on(
    repo: Path, ralph: Ralph, bin_dir: Path, tmp_path: Path
) -> None:
    """The raw log is read as it was written: by codex's transcript, not the new agent's."""
    write_goal(repo)
    usage = {"type": "turn.completed", "usage": {"input_tokens": 700, "output_tokens": 7}}
    script = (
        f"echo '{json.dumps({'type': 'thread.started', 'thread_id': 't'})}'\necho '{json.dumps(usage)}'\nsleep 60\n"
    )
    shell_agent(bin_dir / "codex", f"cat > /dev/null\n{script}")
    with ralph.start("run", "goal.md", "--json", "--agent", "codex") as killed:
        killed.wait_for("usage")
        killed.send(9)
        killed.wait()
    agent = shell_agent(tmp_path / "agent", f"cat > /dev/null; echo '{PROMISE}'\n")
    done = ralph("run", "goal.md", "--agent-cmd", agent, "--no-check")
    assert done.exit_code == 0, done.stdout + done.stderr
    assert result(repo)["tokens"] == 707
