"""`ralph run` as a user meets it, with a scripted agent."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.support.git_repos import commit_all, commits, git, make_repo
from tests.support.goals import (
    GOAL,
    last_cost,
    raw_events,
    raw_logs,
    result,
    run_directory,
    state,
    write_check,
    write_goal,
)
from tests.support.ralph_process import Ralph
from tests.support.scripted_agent import (
    ClaudeScript,
    answer,
    api_error,
    background,
    bill,
    deny,
    hang,
    raw,
    result_subtype,
    run,
    say,
    stderr,
    structured,
    summary,
    write,
)
from tests.support.scripted_agent import (
    exit as exit_with,
)

CORRECTIONS = (
    'You must use the StructuredOutput tool. Return: {"summary": "what you accomplished"}',
    'Missing "summary" field. Return: {"summary": "what you accomplished"}',
    'Invalid output. Use StructuredOutput tool: {"summary": "what you accomplished"}',
)


@pytest.fixture(autouse=True)
def goal(repo: Path) -> Path:
    return write_goal(repo)


@pytest.mark.spec("1.1.1-abcdefgh", "1.1.3-b", "1.3.1-a", "1.3.3-bc", "1.8-af")
@pytest.mark.spec("3.2-adefg", "3.5-cgn", "3.7-abcef", "3.11-de", "3.15-e")
def test_the_invocation_is_the_contract_and_done_without_a_check_is_unproven(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    agent = claude_script([summary("DONE")])

    clouds = {"CLAUDE_CODE_USE_BEDROCK": "1", "CLAUDE_CODE_USE_VERTEX": "0"}
    outside = {"CLAUDECODE": "1", "ANTHROPIC_API_KEY": "from outside", "KEPT": "yes", **clouds}
    done = ralph("run", "goal.md", env=outside)

    (start,) = agent.starts
    tools = "Read,Write,Edit,Glob,Grep,Bash,Skill,StructuredOutput"
    schema = '{"type":"object","properties":{"summary":{"type":"string"}},"required":["summary"]}'
    argv = start["argv"][1:] if start["argv"][0].endswith("claude") else start["argv"]
    session = argv[argv.index("--session-id") + 1]
    assert argv == [
        "-p", "--model", "sonnet", "--tools", tools, "--verbose",
        "--input-format", "stream-json", "--output-format", "stream-json", "--json-schema", schema,
        "--session-id", session, "--effort", "medium", "--allowedTools", tools,
    ]  # fmt: skip
    env = start["env"]
    assert env["ANTHROPIC_API_KEY"] == ""
    assert env["MAX_THINKING_TOKENS"] == "16384"
    assert env["CLAUDE_CODE_MAX_RETRIES"] == "3"
    assert (env["RALPH_GOAL"], env["RALPH_ITERATION"], env["KEPT"]) == ("goal", "1", "yes")
    assert "CLAUDECODE" not in env
    assert clouds.items() <= env.items(), "what chooses claude's provider reaches it"
    assert "from outside" not in agent.heard[0] + raw_logs(repo)[0].read_text(), "a secret stays in the environment"
    assert start["cwd"] == str(repo)
    assert done.exit_code == 0
    assert result(repo) | {"head": "", "base": "", "run": ""} == {
        "version": 1, "goal": "goal", "exit_code": 0, "reason": "done (not verified: there is no check)",
        "proven": False, "iterations": 1, "cost_usd": 0.01, "tokens": 1306, "base": "", "head": "", "run": "",
        "sandbox": result(repo)["sandbox"],
        "end": "done", "ending": "unproven", "todo": "", "hint": "", "limit": None, "not_before": None, "failed": 0,
        "proof": None, "judged_by": None, "why_tree": "", "lost_tests": 0, "newly_skipped": 0,
        "protected": {"changed": [], "deleted": [], "picked_up": [], "added": [], "locks": []},
        "tests": {"passed": None, "skipped": None},
    }  # fmt: skip
    assert "done (not verified: there is no check)" in done.stdout


@pytest.mark.spec("1.3.1-b")
def test_api_key_login_keeps_the_key(ralph: Ralph, claude_script: ClaudeScript) -> None:
    agent = claude_script([summary("DONE")])
    ralph("config", "set", "agents.claude.auth", "api-key")

    ralph("run", "goal.md", "--reasoning", "none", env={"ANTHROPIC_API_KEY": "dummy"})

    env = agent.starts[0]["env"]
    assert (env["ANTHROPIC_API_KEY"], env["MAX_THINKING_TOKENS"]) == ("dummy", "0")


def test_no_check_believes_done_although_there_is_one(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    write_check(repo, "#!/bin/sh\nexit 1\n")
    claude_script([summary("DONE")])

    done = ralph("run", "goal.md", "--no-check")

    assert (done.exit_code, result(repo)["proven"]) == (0, False)


def test_a_check_command_is_split_and_run_without_a_shell(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    claude_script([write("a b", "x"), summary("DONE")])

    done = ralph("run", "goal.md", "--check", "test -e 'a b'")

    assert (done.exit_code, result(repo)["proven"]) == (0, True)
    assert "check      test -e 'a b'\n" in done.stdout


def test_done_on_the_last_allowed_iteration_counts(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    write_check(repo)
    claude_script([summary("one")], [write("answer.txt", "42\n"), summary("DONE")])

    done = ralph("run", "goal.md", "--max-iterations", "2")

    assert (done.exit_code, result(repo)["proven"]) == (0, True)


@pytest.mark.spec("3.9-f")
@pytest.mark.parametrize(
    ("flags", "iterations", "next_flag"),
    [
        (["--max-iterations", "2"], 2, "--max-iterations 4"),
        pytest.param(["--max-cost", "0.025"], 3, "--max-cost 0.06", marks=pytest.mark.long),
        pytest.param(["--max-tokens", "2000"], 2, "--max-tokens 4612", marks=pytest.mark.long),
    ],
)
def test_a_limit_ends_the_run_between_iterations(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript, flags: list[str], iterations: int, next_flag: str
) -> None:
    claude_script([summary("a step")])

    done = ralph("run", "goal.md", *flags)

    assert done.exit_code == 4
    assert result(repo)["iterations"] == iterations
    assert result(repo)["reason"] == f"limit reached: {flags[0]}"
    assert next_flag in done.stdout, "the next command is printed with a higher limit"


@pytest.mark.spec("3.10-c")
def test_the_duration_ends_the_run(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    claude_script([run("perl -e 'select(undef,undef,undef,0.4)'"), summary("a step")])

    done = ralph("run", "goal.md", "--duration", "1s")

    assert (done.exit_code, result(repo)["reason"]) == (4, "limit reached: --duration")


def test_a_finished_run_is_followed_by_a_new_one(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    claude_script([summary("DONE")])
    ralph("run", "goal.md")
    first = run_directory(repo)
    kept = (first / "result.json").read_text()

    done = ralph("run", "goal.md")

    assert done.exit_code == 0
    assert len({commit.trailers["Ralph-Run"] for commit in commits(repo)[1:]}) == 2
    archived = list((first.parent / ".archive").iterdir())
    assert [(path / "result.json").read_text() for path in archived] == [kept]


def test_a_changed_goal_is_continued_with_the_new_text(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    agent = claude_script([summary("a step")], [summary("DONE")])
    ralph("run", "goal.md", "--max-iterations", "1")
    write_goal(repo, GOAL + "\nAnd be quick.\n")

    done = ralph("run", "goal.md")

    assert "the goal has changed since then" in done.stdout
    assert "And be quick." in agent.heard[1]


@pytest.mark.spec("1.1.3-c", "1.4.1-cef", "1.4.4-ab")
@pytest.mark.spec("3.4-e")
def test_each_correction_is_sent_in_the_same_session(ralph: Ralph, claude_script: ClaudeScript) -> None:
    agent = claude_script(
        [[answer("talk")], [structured({"other": 1})], [structured({"summary": 7})], [summary("DONE")]]
    )

    done = ralph("run", "goal.md")

    assert done.exit_code == 0, done.stdout
    assert tuple(agent.heard[1:]) == CORRECTIONS
    assert len(agent.starts) == 1


@pytest.mark.spec("1.4.1-g", "1.4.4-cd")
@pytest.mark.long
def test_after_three_corrections_the_session_has_failed(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    agent = claude_script([answer("nothing but talk")], [summary("DONE")])

    done = ralph("run", "goal.md", "--json")

    assert done.exit_code == 0
    assert [event["end"] for event in done.events_of("session_ended")] == ["invalid", "done"]
    assert len(agent.heard) == 1 + 3 + 1
    assert "nothing but talk" in agent.heard[-1], "the next session hears the last words of the one that failed"
    assert result(repo)["iterations"] == 1


def test_three_failures_in_a_row_end_the_run(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    claude_script([result_subtype("error_max_turns", ["too many turns"])])

    done = ralph("run", "goal.md", "--json")

    assert done.exit_code == 1
    assert len(done.events_of("session_ended")) == 3
    assert "too many turns" in result(repo)["reason"]
    assert [f"failure {number} of 3 in a row" in done.stdout for number in (0, 1, 2, 3, 4)] == [
        False,
        *[True] * 3,
        False,
    ]
    assert [commit.subject for commit in commits(repo)] == ["start"]
    assert result(repo)["cost_usd"] is not None, "what failed sessions cost is counted, too"


@pytest.mark.spec("3.5-lp", "3.8-c", "3.9-ch", "3.14-c")
def test_a_session_without_a_result_names_its_raw_log_and_is_retried_once(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    complaints = json.dumps({"type": "result", "structured_output": {"summary": "DONE"}}) + "\nout of luck\n"
    claude_script([say("half a thought"), stderr(complaints), exit_with(7)], [summary("DONE")])

    done = ralph("run", "goal.md")

    assert done.exit_code == 0
    assert "crashed: the agent exited with 7 without a result: out of luck" in done.stdout
    assert str(raw_logs(repo)[0]) in done.stdout
    assert result(repo)["iterations"] == 1
    assert raw_logs(repo)[0].with_suffix(".stderr").read_text() == complaints


@pytest.mark.spec("3.3-h", "3.5-i", "3.6-jl")
@pytest.mark.long
def test_the_text_of_the_stream_is_a_degraded_answer(ralph: Ralph, claude_script: ClaudeScript) -> None:
    claude_script([say("half"), say("a thought"), exit_with(0)], [summary("DONE")])

    done = ralph("run", "goal.md", "--json")

    first = done.events_of("session_ended")[0]
    assert (first["end"], first["text"], first["degraded"]) == ("no-result", "half\na thought", True)


@pytest.mark.spec("1.4.2-h")
@pytest.mark.spec("3.6-c")
def test_a_background_result_is_paid_for_but_decides_nothing(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    claude_script([background(0.1, then=[summary("something else")]), summary("DONE")])

    done = ralph("run", "goal.md", "--json")

    assert done.exit_code == 0
    assert [event["summary"] for event in done.events_of("iteration_ended")] == ["DONE"]
    origins = [event["origin"] for event in done.events_of("turn_ended")]
    assert origins == ["", "task-notification"]
    assert result(repo)["cost_usd"] == pytest.approx(last_cost(raw_logs(repo)[0]))


def test_a_silent_session_is_ended_by_the_idle_timeout(ralph: Ralph, claude_script: ClaudeScript) -> None:
    claude_script([say("let me think"), hang()], [summary("DONE")])

    done = ralph("run", "goal.md", "--json", "--idle-timeout", "4s")

    assert done.exit_code == 0
    assert [event["end"] for event in done.events_of("session_ended")] == ["hung", "done"]


def test_a_login_problem_blocks_with_the_next_command(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    claude_script([api_error(401, "Not logged in · Please run /login", "authentication_failed")])

    done = ralph("run", "goal.md")

    assert done.exit_code == 6
    assert "type /login" in done.stdout
    assert result(repo)["exit_code"] == 6


@pytest.mark.parametrize(
    ("output", "exit_code"), [({}, 6), ({"structured_output": {"summary": "DONE: All hold."}}, 0)], ids=["no", "yes"]
)
def test_of_an_agent_that_does_not_list_the_tool_for_verdicts_its_verdict_decides(
    repo: Path, ralph: Ralph, bin_dir: Path, tmp_path: Path, output: dict[str, object], exit_code: int
) -> None:
    init = {"type": "system", "subtype": "init", "session_id": "s", "tools": ["Bash"], "model": "m"}
    turn = {"type": "result", "subtype": "success", "is_error": False, "result": "fine", "session_id": "s", **output}
    agent = bin_dir / "claude"
    agent.write_text(
        f"#!/bin/sh\necho '{json.dumps(init)}'\n"
        f"while read -r line; do echo x >> {tmp_path}/heard; echo '{json.dumps(turn)}'; done\n"
    )
    agent.chmod(0o755)

    done = ralph("run", "goal.md")

    assert done.exit_code == exit_code, done
    assert ("has no StructuredOutput tool" in done.stdout) is (exit_code == 6)
    assert [commit.subject for commit in commits(repo)][1:] == (["ralph 1/50: All hold"] if exit_code == 0 else [])
    assert (tmp_path / "heard").read_text() == "x\n", "a correction would be in vain"


@pytest.mark.parametrize(("check", "exit_code"), [("--no-check", 6), ("--check=true", 0)])
def test_a_denied_session_that_claims_done_needs_a_check_to_be_believed(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript, check: str, exit_code: int
) -> None:
    claude_script([deny("Bash", {"command": "make test"}), summary("DONE\nI could not run the tests.")])

    done = ralph("run", "goal.md", check)

    assert done.exit_code == exit_code, done
    assert (result(repo)["proven"], result(repo)["exit_code"]) == (exit_code == 0, exit_code)
    assert ("blocked: denied: permission denied: Bash (make test)" in result(repo)["reason"]) is (exit_code == 6)
    assert commits(repo)[-1].trailers["Ralph-Verdict"] == "DONE"


@pytest.mark.spec("3.9-j", "3.14-d")
def test_a_denial_stops_after_the_verdict_was_committed(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    claude_script([deny("Bash", {"command": "rm -rf /"}), summary("tried")])

    done = ralph("run", "goal.md")

    assert done.exit_code == 6
    assert "permission denied: Bash (rm -rf /)" in done.stdout
    assert commits(repo)[-1].subject == "ralph 1/50: tried"


@pytest.mark.long
def test_a_denied_session_that_is_proven_done_is_done(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    write_check(repo)
    claude_script([deny("Bash", {"command": "x"}), write("answer.txt", "42\n"), summary("DONE")])

    assert ralph("run", "goal.md").exit_code == 0


@pytest.mark.spec("3.9-j")
def test_on_denial_continue_tells_the_next_session(ralph: Ralph, claude_script: ClaudeScript) -> None:
    agent = claude_script([deny("Bash", {"command": "make deploy"}), summary("tried")], [summary("DONE")])
    ralph("config", "set", "on_denial", "continue")

    assert ralph("run", "goal.md").exit_code == 0
    assert "permission denied: Bash (make deploy)" in agent.heard[1]


@pytest.mark.spec("3.11-b")
def test_the_agent_cannot_change_its_judge(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    check = write_check(repo)
    before = check.read_text()
    agent = claude_script(
        [write(".ralph/check", "#!/bin/sh\nexit 0\n"), write(".ralph/config.toml", "max_cost = 1\n"), summary("DONE")],
        [write("answer.txt", "42\n"), summary("DONE")],
    )

    done = ralph("run", "goal.md", "--json")

    assert done.exit_code == 0
    assert [event["exit_code"] for event in done.events_of("check_ended")] == [1, 0]
    assert check.read_text() == before
    assert not (repo / ".ralph" / "config.toml").exists()
    undone = "The session changed .ralph/config.toml, .ralph/check; ralph undid that."
    assert any(event["text"].startswith(undone) for event in done.events_of("text"))
    assert undone in agent.heard[1]
    assert (run_directory(repo) / "undone" / "check").read_text() == "#!/bin/sh\nexit 0\n", "nothing is thrown away"


def test_a_check_that_takes_too_long_is_red(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    write_check(repo, "#!/bin/sh\necho started\nwhile :; do sleep 1; done\n")
    ralph("config", "set", "check_timeout", "4s")
    agent = claude_script([summary("DONE")])

    done = ralph("run", "goal.md", "--json", "--max-iterations", "2")

    assert done.exit_code == 4
    assert [event["exit_code"] for event in done.events_of("check_ended")] == [None, None]
    assert "it ran out of time" in agent.heard[1]
    assert "started" in agent.heard[1]


@pytest.mark.long
def test_a_long_check_output_is_quoted_by_both_ends(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    write_check(repo, "#!/bin/sh\necho first words\nseq 100000\necho '```last words'\nexit 1\n")
    agent = claude_script([summary("DONE")])

    ralph("run", "goal.md", "--max-iterations", "2")

    prompt = agent.heard[1]
    assert "first words\n1\n2\n" in prompt
    assert "100000\n```last words\n````\n" in prompt, "the fence is longer than any in the quote"
    assert "bytes left out" in prompt
    assert len(prompt) < 20_000


@pytest.mark.spec("3.11-c")
def test_untracked_secrets_are_left_out_and_that_is_said(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    (repo / ".env").write_text("TOKEN=1\n")
    claude_script([write("server.pem", "key"), write("ok.txt", "ok"), summary("DONE")])

    done = ralph("run", "goal.md")

    assert done.exit_code == 0
    assert git(repo, "ls-files") == "README.md\nok.txt"
    assert "(looks like a secret): server.pem" in done.stdout


def test_a_tracked_goal_and_tracked_ralph_files_are_committed(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    write_check(repo, "#!/bin/sh\nexit 0\n")
    (repo / ".ralph" / "notes.md").write_text("before\n")
    commit_all(repo, "with ralph")
    claude_script([write(".ralph/notes.md", "after\n"), write(".ralph/new.md", "new\n"), summary("DONE")])

    assert ralph("run", "goal.md").exit_code == 0
    assert git(repo, "show", "--name-only", "--format=") == ".ralph/notes.md"


def test_a_repository_without_a_commit_just_works(tmp_path: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    empty = make_repo(tmp_path / "empty", commit=False)
    write_goal(empty)
    claude_script([write("a.txt", "a"), summary("DONE")])

    done = ralph("run", "goal.md", cwd=empty)

    assert done.exit_code == 0, done.stderr
    assert [commit.subject for commit in commits(empty)] == ["ralph 1/50: claims DONE"]
    assert result(empty)["base"] is None


def test_a_repository_without_an_identity_just_works(tmp_path: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    nobody = make_repo(tmp_path / "nobody", {"a": "a"}, identity=False)
    write_goal(nobody)
    claude_script([summary("DONE")])

    done = ralph("run", "goal.md", cwd=nobody)

    assert done.exit_code == 0, done.stderr
    assert git(nobody, "log", "-1", "--format=%an <%ae>") == "ralph <ralph@localhost>"
    assert "ralph <ralph@localhost>" in done.stdout


@pytest.mark.spec("3.2-h", "3.5-a")
def test_it_works_from_a_subdirectory(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    (repo / "sub").mkdir()
    agent = claude_script([summary("DONE")])

    assert ralph("run", "../goal.md", cwd=repo / "sub").exit_code == 0
    assert agent.starts[0]["cwd"] == str(repo)


def test_a_repository_named_in_the_environment_is_not_taken_for_this_one(
    repo: Path, tmp_path: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    other = make_repo(tmp_path / "other", {"a": "a"})
    agent = claude_script([summary("DONE")])

    done = ralph("run", "goal.md", env={"GIT_DIR": str(other / ".git"), "GIT_WORK_TREE": str(other)})

    assert done.exit_code == 0
    assert agent.starts[0]["cwd"] == str(repo)
    assert len(commits(other)) == 1


@pytest.mark.spec("1.8-e")
def test_repo_works_in_a_clone_and_never_pushes(
    repo: Path, tmp_path: Path, world: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    goal = write_goal(tmp_path, name="The Answer.md")
    before = git(repo, "for-each-ref")
    agent = claude_script([write("answer.txt", "42\n"), summary("DONE")])

    done = ralph("run", goal, "--repo", repo, cwd=tmp_path)

    assert done.exit_code == 0, done.stderr
    (clone,) = (world / "ralph" / "clones" / "local").glob("repo-*/the-answer")
    assert agent.starts[0]["cwd"] == str(clone)
    assert git(clone, "branch", "--show-current") == "ralph/the-answer"
    assert commits(clone)[-1].trailers["Ralph-Goal"] == "the-answer"
    assert git(repo, "for-each-ref") == before
    assert "existing clone" not in done.stdout, "it was made just now"
    claude_script([summary("DONE")])
    again = ralph("run", goal, "--repo", repo, "--fresh", cwd=tmp_path)
    assert "ralph uses the existing clone as it is" in again.stdout
    assert f"git -C {clone} push origin ralph/the-answer" in done.stdout


def test_branch_is_created_and_stood_on(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    claude_script([write("a.txt", "a"), summary("DONE")])

    assert ralph("run", "goal.md", "--branch", "feature/a").exit_code == 0
    assert git(repo, "branch", "--show-current") == "feature/a"
    assert git(repo, "log", "main", "-1", "--format=%s") == "start"


def test_an_agent_that_switches_branches_is_brought_back(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    agent = claude_script([run("git checkout -q -b elsewhere"), write("a.txt", "a"), summary("one")], [summary("DONE")])

    assert ralph("run", "goal.md").exit_code == 0
    assert git(repo, "branch", "--show-current") == "main"
    assert git(repo, "ls-tree", "--name-only", "main") == "README.md\na.txt"
    assert "switched branches" in agent.heard[1]


@pytest.mark.spec("1.4.2-b")
def test_json_prints_the_journaled_events_and_nothing_else(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    claude_script([say("hello"), write("a.txt", "a"), summary("DONE")])

    done = ralph("run", "goal.md", "--json")

    assert done.stdout == (run_directory(repo) / "events.ndjson").read_text()
    assert [event["seq"] for event in done.events] == list(range(1, len(done.events) + 1))
    kinds = [event["type"] for event in done.events]
    assert kinds[:3] == ["run_started", "iteration_started", "session_started"]
    assert kinds[-3:] == ["session_ended", "iteration_ended", "run_ended"]
    (ended,) = done.events_of("iteration_ended")
    assert ended["verdict"] == "DONE"
    assert ended["commit"] == commits(repo)[-1].sha
    assert ended["cost_usd"] == pytest.approx(0.02)
    assert ended["context_pct"] == pytest.approx(0.1, abs=0.1)
    assert done.events[-1] | {"seq": 0, "at": ""} == {
        "seq": 0, "at": "", "type": "run_ended", "exit_code": 0, "reason": "done (not verified: there is no check)",
        "proven": False,
    }  # fmt: skip
    usage = done.events_of("usage")[-1]["usage"]
    assert usage["cost_usd"] == pytest.approx(0.02)
    assert usage["total_tokens"] == 2 * 1306
    start, *_ = done.events_of("tool_start")
    assert (start["tool"]["name"], start["tool"]["input"]["content"]) == ("Write", "a")


def test_dry_run_prints_prompt_and_command_and_starts_nothing(
    repo: Path, world: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    agent = claude_script([summary("DONE")])

    done = ralph("run", "goal.md", "--dry-run")

    assert done.exit_code == 0
    assert "--json-schema" in done.stdout
    assert "Create `answer.txt` with the answer." in done.stdout
    assert not agent.starts
    assert not (world / "ralph").exists()
    assert git(repo, "status", "--porcelain") == "?? goal.md"


def test_quiet_prints_only_the_end(ralph: Ralph, claude_script: ClaudeScript) -> None:
    claude_script([say("chatter"), summary("DONE")])

    done = ralph("run", "goal.md", "--quiet")

    assert "chatter" not in done.stdout
    assert "done (not verified: there is no check)" in done.stdout


def test_hostile_output_cannot_reach_the_terminal(ralph: Ralph, claude_script: ClaudeScript) -> None:
    claude_script([say("\x1b]0;owned\x07\x1b[31mred\x9b2J\u202e"), summary("\x1b[2Jdone \r over")], [summary("DONE")])

    done = ralph("run", "goal.md")

    assert not set(done.stdout) & set("\x1b\x07\x9b\u202e\r")
    assert "\\x1b]0;owned" in done.stdout


@pytest.mark.spec("3.5-q", "3.6-fgh", "3.15-c")
def test_garbage_lines_are_kept_and_they_and_absurd_costs_change_nothing(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    garbage = [b"not json\n", b"\xff\xfe\x00\n", b'{"type":"novel"}\n', b'{"type":"assistant"\n', b"[1,2]\n", b'"x"\n']
    fake = {"type": "result", "subtype": "success", "is_error": False, "origin": {"kind": "task-notification"}}
    lines = [json.dumps(fake | {"total_cost_usd": cost}) + "\n" for cost in (-5, float("nan"), 1e300, "12")]
    claude_script([*map(raw, garbage), *map(raw, lines), summary("DONE")])

    done = ralph("run", "goal.md", "--json")

    assert done.exit_code == 0
    log = raw_logs(repo)[0].read_bytes()
    assert all(line in log for line in garbage)
    assert result(repo)["cost_usd"] == pytest.approx(0.01)
    said = [event["text"] for event in done.events_of("text") if "total_cost_usd" in event["text"]]
    assert said == [
        "the agent reports a wrong figure, total_cost_usd: -5 is not an amount of dollars; ralph ignores it"
    ]


@pytest.mark.spec("1.4.3-c")
@pytest.mark.parametrize(
    ("number", "code"),
    [
        (signal.SIGINT, 130),
        pytest.param(signal.SIGTERM, 143, marks=pytest.mark.long),
        pytest.param(signal.SIGHUP, 129, marks=pytest.mark.long),
    ],
)
def test_a_signal_ends_the_session_and_the_next_start_goes_on(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript, number: int, code: int
) -> None:
    agent = claude_script(
        [summary("first step")], [bill(cost=0.5), write("half.txt", "half"), hang()], [summary("DONE")]
    )
    with ralph.start("run", "goal.md", "--json") as running:
        running.wait_for("tool_end", 2)
        running.send(number)
        assert running.wait().exit_code == code
    assert result(repo)["exit_code"] == code
    assert [commit.subject for commit in commits(repo)] == ["start", "ralph 1/50: first step"]

    done = ralph("run", "goal.md")

    assert done.exit_code == 0
    assert "continuing the unfinished run" in done.stdout
    assert "uncommitted" in agent.heard[-1], "the prompt says that leftovers are in the tree"
    assert "half.txt" in git(repo, "show", "--name-only", "--format=")


@pytest.mark.spec("1.8-b")
@pytest.mark.spec("3.1-b", "3.4-cdfgh", "3.5-q", "3.8-ab", "3.10-b", "3.11-e", "3.15-d")
def test_windows_and_run_directory_have_their_shapes(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    agent = claude_script([summary("one")], [summary("DONE")])

    ralph("run", "goal.md", "--max-cost", "5", "--max-iterations", "7")

    assert state(repo, "budget.json") == {
        "total_cost_usd": 0.02, "max_cost_usd": 5.0, "iterations": 2, "max_iterations": 7,
    }  # fmt: skip
    assert len({raw_events(log)[0]["session_id"] for log in raw_logs(repo)}) == 2, "each iteration is a fresh session"
    assert not any({"--continue", "--resume"} & set(start["argv"]) for start in agent.starts)
    session = state(repo, "claude-session.json")
    assert session.keys() == {"planner_session_id", "coder_session_id", "scout_session_id", "updated_at"}
    assert session["coder_session_id"] == raw_events(raw_logs(repo)[-1])[0]["session_id"]
    directory = run_directory(repo)
    progress = [json.loads(line) for line in (directory / "progress.jsonl").read_text().splitlines()]
    assert [entry.keys() for entry in progress] == [{"iteration", "at", "summary", "commit", "verdict"}] * 2
    assert [entry["commit"] for entry in progress] == [commit.sha for commit in commits(repo)[1:]]
    assert (repo / ".ralph" / "logs").resolve() == directory / "logs"
    assert directory.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o077 for path in directory.rglob("*") if path.is_file()} == {0}
    assert git(repo, "status", "--porcelain") == "?? goal.md"


def test_a_run_imports_neither_gitpython_nor_yaml(ralph: Ralph, claude_script: ClaudeScript) -> None:
    """GitPython takes 98 ms to import and runs git twice; YAML 20 ms, and the goal has no front matter."""
    claude_script([write("a.txt", "one"), summary("DONE")])

    done = ralph("run", "goal.md", env={"PYTHONPROFILEIMPORTTIME": "1"})

    assert done.exit_code == 0
    imported = {line.rsplit("|", 1)[-1].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    assert "ralph.run.loop" in imported
    assert [name for name in imported if name.startswith(("git.", "yaml"))] == []
