"""A history worth reading: what a claim says is in its commit, in the progress and in what ralph shows of the run."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.git_repos import commits, git
from tests.support.goals import run_directory, write_check, write_goal
from tests.support.ralph_process import Ralph
from tests.support.scripted_agent import ClaudeScript, summary, write

CLAIM = "**DONE**\n\nThe answer is 42, as the goal asks. I ran the check and read answer.txt."
SAID = "The answer is 42, as the goal asks. I ran the check and read answer.txt."


def progress(repo: Path) -> list[tuple[str, str]]:
    lines = (run_directory(repo) / "progress.jsonl").read_text().splitlines()
    return [(line["verdict"], line["summary"]) for line in map(json.loads, lines)]


def test_what_a_claim_says_goes_where_people_look(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    write_goal(repo)
    write_check(repo)
    agent = claude_script(
        [write("answer.txt", "41\n"), summary("Wrote a first answer. It is to be checked next.")],
        [write("answer.txt", "42\n"), summary(CLAIM)],
    )

    done = ralph("run", "goal.md", "--max-iterations", "9")

    assert done.exit_code == 0, done
    assert [commit.subject for commit in commits(repo)][-2:] == [
        "ralph 1/9: Wrote a first answer",
        "ralph 2/9: The answer is 42, as the goal asks",
    ]
    assert git(repo, "log", "-1", "--format=%b").startswith(f"{SAID}\n\nRalph-Goal: goal\n")
    assert progress(repo)[-1] == ("DONE", SAID)
    assert f"claims DONE: {SAID}" in done.stdout
    assert SAID in ralph("status").stdout
    assert "begin the summary with `DONE` on a" in agent.heard[0]


def test_a_claim_that_is_refuted_again_and_again_is_no_progress_however_it_is_put(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    write_goal(repo)
    write_check(repo)
    claude_script(*[[write("answer.txt", "41\n"), summary(f"DONE\nVersion {n} of my praise.")] for n in range(9)])

    done = ralph("run", "goal.md", env={"RALPH_STALL_AFTER": "1"})

    assert done.exit_code == 5, done
    assert len(progress(repo)) == 2


def test_a_run_whose_directory_is_lost_gets_its_claims_back_from_commits(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    write_goal(repo)
    write_check(repo)
    claude_script([write("answer.txt", "41\n"), summary(f"DONE: {SAID}")], [summary("Looked again. Nothing.")])
    assert ralph("run", "goal.md", "--max-iterations", "2").exit_code == 4
    before = progress(repo)
    (run_directory(repo) / "run.json").unlink()
    (run_directory(repo) / "progress.jsonl").unlink()
    claude_script([write("answer.txt", "42\n"), summary("DONE")])

    assert ralph("run", "goal.md", "--max-iterations", "3").exit_code == 0
    assert progress(repo)[:2] == before == [("DONE", SAID), ("CONTINUE", "Looked again. Nothing.")]
    assert commits(repo)[-1].subject == "ralph 3/3: claims DONE"


def test_of_an_agent_that_answers_in_words_the_last_paragraph_is_the_subject(
    repo: Path, ralph: Ralph, tmp_path: Path
) -> None:
    write_goal(repo)
    agent = tmp_path / "agent"
    agent.write_text(
        "#!/bin/sh\ncat > /dev/null\necho 'step 1. log'\necho 'step 2. log'\necho\n"
        "echo 'The answer is 42. I read it again.'\necho\necho '<promise>COMPLETE</promise>'\n"
    )
    agent.chmod(0o755)

    done = ralph("run", "goal.md", "--agent-cmd", str(agent))

    assert done.exit_code == 0, done
    assert commits(repo)[-1].subject == "ralph 1/50: The answer is 42"
    assert progress(repo) == [("DONE", "step 1. log\nstep 2. log\nThe answer is 42. I read it again.")]
