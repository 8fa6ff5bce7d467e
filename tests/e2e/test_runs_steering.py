"""What the user says and wants of goals in the queue: comments, retries, ways to merge, the environment they trust."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.batches import Batch, green_before_merges, merged_goals, says, shell, write, wrote
from tests.support.git_repos import git
from tests.support.scripted_agent import ClaudeScript, run, summary
from tests.support.waiting import wait_until

GREEN = 'mkdir -p texts; echo Fine. > "texts/$RALPH_GOAL.txt"'


def passed_on(batch: Batch, name: str) -> str:
    """What the run of a goal is told by its worker."""
    return "".join(file.read_text() for file in batch.ralph_dir.glob(f"runs/*/{name}/steering.jsonl"))


def test_comments_reach_the_next_prompt_or_the_session_that_runs(batch: Batch, claude_script: ClaudeScript) -> None:
    upstream = batch.upstream()
    goal = batch.goal("talk", [], agent="claude", model="sonnet")
    gate = batch.root / "gate"
    waits = run(f"until [ -e {gate} ]; do sleep 0.1; done")
    agent = claude_script([[waits, summary("more")], [run(GREEN), summary("DONE")]], [run(GREEN), summary("DONE")])
    assert batch.runs("add", goal, "--repo", upstream, "--queue", cwd=batch.root).exit_code == 0
    batch.runs("comment", "talk", "use the blue one", cwd=batch.root)
    with batch.start("--json") as running:
        wait_until(lambda: agent.heard, "the first prompt")
        said = batch.runs("comment", "talk", "no, the red one", cwd=batch.root)
        assert said.exit_code == 0, said.stderr
        wait_until(lambda: "no, the red one" in passed_on(batch, "talk"), "the worker has passed it on")
        gate.touch()
        wait_until(lambda: any("no, the red one" in words for words in agent.heard), "the remark")
        followed = batch.runs.start("logs", "talk", "-f", cwd=batch.root)
        done = running.wait()
    with followed:
        shown = followed.wait()
    assert done.exit_code == 0, done.stdout + done.stderr
    assert "use the blue one" in agent.heard[0]
    assert "no, the red one" not in agent.heard[0]
    assert sum("no, the red one" in words for words in agent.heard[:2]) == 1, "said once to the session that ran"
    assert shown.exit_code == 0
    assert "result     done" in shown.stdout
    assert [(remark["author"], remark["text"]) for remark in batch.show("talk")["comments"]] == [
        ("user", "use the blue one"),
        ("user", "no, the red one"),
    ]


@pytest.mark.long
def test_what_is_tried_again_knows_what_went_wrong_and_counts_anew(batch: Batch) -> None:
    """It is green in its run, and red on its way to main."""
    upstream = batch.upstream(check=green_before_merges())
    seen, cured = batch.root / "seen.md", batch.root / "cured"
    copy = f"cp {batch.ralph_dir}/batch/*/goals/g1/ill.md {seen}"
    word = f"mkdir -p texts; [ -e {cured} ] && echo Fine. > texts/ill.txt || echo no > texts/ill.txt"
    batch.goal("ill", [[shell(copy), shell(word), says("DONE")]])
    first = batch.run(batch.root / "goals", "--repo", upstream)
    assert (first.exit_code, batch.states(), batch.goals()["ill"]["attempts"]) == (1, {"ill": "stuck"}, 4)
    cured.touch()
    batch.runs("comment", "ill", "try the other way", cwd=batch.root)
    again = batch.runs("retry", "ill", cwd=batch.root).stdout
    assert again == "g1 ill: queued\nthe queue has no worker; start one with: ralph-runs run --all\n"

    second = batch.run()

    assert second.exit_code == 0, second.stdout + second.stderr
    assert merged_goals(upstream) == ["ill"]
    told = seen.read_text()
    assert "attempt 1 of 4" in told
    assert "texts/ill.txt: no full stop" in told
    assert "try the other way" in told
    shown = batch.show("ill")
    assert (shown["attempts"], len(shown["comments"])) == (5, 5)


def test_each_way_to_merge_leaves_main_alone_and_says_where_the_work_is(batch: Batch, bin_dir: Path) -> None:
    upstream = batch.upstream()
    for name in ("branch", "none", "pr"):
        batch.goal(name, wrote(name), merge=name)
    before = git(upstream, "rev-parse", "main")

    done = batch.run(batch.root / "goals", "--repo", upstream)

    assert done.exit_code == 0, done.stdout + done.stderr
    assert git(upstream, "rev-parse", "main") == before
    assert git(upstream, "branch", "--format=%(refname:short)").split() == ["main", "ralph/branch", "ralph/pr"]
    assert git(upstream, "show", "ralph/branch:texts/branch.txt") == "Fine."
    assert batch.show("branch")["reason"] == "pushed as ralph/branch"
    assert "open a pull request on its host: from ralph/pr to main" in batch.show("pr")["reason"]
    kept, mirror = batch.show("none")["reason"].removeprefix("kept as ").split(" in ")
    assert git(Path(mirror), "show", f"{kept}:texts/none.txt") == "Fine."


def test_a_pull_request_is_made_by_the_hosts_program_or_its_command_is_said(batch: Batch, bin_dir: Path) -> None:
    upstream = batch.upstream()
    address = "https://github.example/me/site.git"
    git(batch.root, "config", "--file", batch.runs.env["GIT_CONFIG_GLOBAL"], f"url.{upstream}.insteadOf", address)
    first = batch.goal("first", wrote("first"))
    done = batch.run(first, "--repo", address, "--merge", "pr")
    assert done.exit_code == 0, done.stdout + done.stderr
    assert "open a pull request with: gh pr create --repo=github.example/me/site" in batch.show("first")["reason"]

    heard = batch.root / "heard"
    program = bin_dir / "gh"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {heard}\necho https://github.example/me/site/pull/7\n')
    program.chmod(0o755)
    second = batch.goal("second", wrote("second"))
    done = batch.run(second, "--repo", address, "--merge", "pr")
    assert done.exit_code == 0, done.stdout + done.stderr
    assert "pull request https://github.example/me/site/pull/7" in batch.show("second")["reason"]
    said = heard.read_text().splitlines()
    assert said[:2] == ["pr", "create"]
    assert {"--head=ralph/second", "--base=main", "--title=second"} <= set(said)
    assert merged_goals(upstream) == []


def test_an_envrc_is_loaded_for_agent_and_check_where_it_is_trusted(batch: Batch) -> None:
    check = f'#!/bin/sh\ncase "$PWD" in */checkouts/*) echo "$COLOUR" > {batch.root}/check ;; esac\n'
    upstream = batch.upstream(files={".envrc": "export COLOUR=red\n"}, check=check)
    for name, flags in (("plain", []), ("trusted", ["--trust-envrc"])):
        seen = batch.root / name
        session = [shell(f'echo "$COLOUR" > {seen}'), write(f"{name}.txt", "x"), says("DONE")]
        done = batch.run(batch.goal(name, [session]), "--repo", upstream, *flags)
        assert done.exit_code == 0, done.stdout + done.stderr
        colour = "red" if flags else ""
        assert (seen.read_text().strip(), (batch.root / "check").read_text().strip()) == (colour, colour)
        assert (".envrc is not used: " in done.stdout) is not bool(flags), done.stdout
