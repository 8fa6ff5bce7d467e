"""A run that gets nowhere: nudged, then ended with a dossier; an agent that cannot go on says so, twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from ralph.core.text import format_money
from tests.support.git_repos import commits, git
from tests.support.goals import result, run_directory, write_check, write_goal
from tests.support.ralph_process import Finished, Ralph
from tests.support.scripted_agent import ClaudeScript, Session, run, summary, write

SAME: Session = [summary("I tried the cache again; it did not help.")]


@pytest.fixture(autouse=True)
def goal(repo: Path) -> Path:
    return write_goal(repo)


def notes(done: Finished) -> list[str]:
    return [event["text"] for event in done.events_of("text") if event["tag"] == "SYS"]


# Stalls


def test_a_run_that_does_the_same_for_ever_is_nudged_then_ended_with_a_dossier(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    write_check(repo)
    agent = claude_script([write("answer.txt", "41\n"), summary("DONE")], SAME)

    done = ralph("run", "goal.md", "--max-iterations", "30")

    assert done.exit_code == 5, done
    assert result(repo)["reason"] == "stalled: the last 6 iterations changed nothing"
    assert len(agent.starts) == 7
    nudges = [line for line in done.stdout.splitlines() if "no progress" in line]
    assert nudges == [
        f"note       no progress in {idle} iterations; telling the next session to change course" for idle in (3, 4, 5)
    ]
    nudged = ["made no progress" in prompt for prompt in agent.heard]
    assert nudged == [False, False, False, False, True, True, True]
    dossier = (run_directory(repo) / "dossier.md").read_text()
    cost, logs = format_money(result(repo)["cost_usd"]), str(run_directory(repo) / "logs")
    for said in ("I tried the cache again", "not 42 but: 41", "+41", cost, logs):
        assert said in dossier, dossier
    assert ".ralph/runs/goal/dossier.md" in done.stdout, "the last lines name it, and the way on"
    assert "ralph tell goal" in done.stdout


def test_a_dossier_that_cannot_be_written_costs_neither_the_result_nor_its_exit_code(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    claude_script([run(f"mkdir -p {run_directory(repo)}/dossier.md"), summary("nothing")])

    done = ralph("run", "goal.md", "--json", "--max-iterations", "9", env={"RALPH_STALL_AFTER": "1"})

    assert done.exit_code == 5, done
    assert (result(repo)["exit_code"], result(repo)["ending"]) == (5, "stalled")
    assert any(note.startswith("cannot write the dossier: ") for note in notes(done))
    assert [event["exit_code"] for event in done.events_of("run_ended")] == [5]


@pytest.mark.long
def test_claims_that_the_check_refuses_in_the_same_way_are_a_stall(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    write_check(repo, '#!/bin/sh\necho "Ran 3 tests in 0.0$$s"\nexit 1\n')  # $$: another duration each time
    claude_script([summary("DONE")])

    assert ralph("run", "goal.md", "--max-iterations", "30").exit_code == 5
    assert len(commits(repo)) == 1 + 6


def test_a_check_that_cannot_run_is_not_paid_for_again_and_again(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    """Whatever the agent does meanwhile: it may not change the check, and has had the chance to make up for it."""
    write_check(repo, "#!/bin/sh\nexec no-such-judge\n")
    agent = claude_script([run("date +%N >> log.txt"), summary("DONE")])

    done = ralph("run", "goal.md", "--max-iterations", "9")

    assert done.exit_code == 6, done
    assert len(agent.starts) == 2
    assert result(repo)["reason"].startswith("blocked: your check can't run: ")
    assert "no-such-judge" in result(repo)["reason"]
    assert "ralph check" in done.stdout


@pytest.mark.long
def test_going_in_circles_is_a_stall(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    claude_script(*[[write("a.txt", text), summary(f"It must be {text}.")] for text in ("one", "two")] * 20)

    done = ralph("run", "goal.md", "--max-iterations", "30")

    assert done.exit_code == 5, done
    assert len(commits(repo)) == 1 + 7


@pytest.mark.parametrize("stall_after", [1, pytest.param(2, marks=pytest.mark.long)])
def test_how_soon_is_a_setting(repo: Path, ralph: Ralph, claude_script: ClaudeScript, stall_after: int) -> None:
    ralph("config", "set", "stall_after", str(stall_after))
    claude_script(SAME)

    assert ralph("run", "goal.md", "--max-iterations", "30").exit_code == 5
    assert len(commits(repo)) == 1 + 2 * stall_after


def goes_on(ralph: Ralph, repo: Path) -> None:
    """Seven iterations that nothing ends or nudges: three alike bring a nudge, six the end."""
    done = ralph("run", "goal.md", "--json", "--max-iterations", "7")
    assert (done.exit_code, result(repo)["reason"]) == (4, "limit reached: --max-iterations"), done
    assert not [note for note in notes(done) if "progress" in note]


def test_reading_is_progress(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    claude_script(*[[summary(f"Read chapter {number}; nothing to change yet.")] for number in range(7)])
    goes_on(ralph, repo)


def test_a_failing_check_that_moves_is_progress(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    # The agent works outside of the repository, and all it ever says is DONE; only the check can tell.
    left = repo.parent / "left"
    count = f"n=$(cat {left} 2>/dev/null || echo 20); n=$((n-1)); echo $n > {left}"
    write_check(repo, f'#!/bin/sh\n{count}; echo "$n left"; exit 1\n')
    claude_script([summary("DONE")])
    goes_on(ralph, repo)


@pytest.mark.long
def test_changed_files_are_progress_whatever_is_said(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    claude_script([run("date +%s%N >> log.txt"), summary("Working on it.")])
    goes_on(ralph, repo)


ELSEWHERE = {
    "branch": "git commit-tree HEAD^{tree} -m $(date +%s%N) | xargs git update-ref refs/heads/elsewhere",
    "tag": "git tag mark-$(date +%s%N)",
    "repository within": "git init -q inner; git -C inner -c user.name=a -c user.email=a commit -q --allow-empty -m x",
}


@pytest.mark.long
@pytest.mark.parametrize("place", ELSEWHERE)
def test_commits_elsewhere_are_progress(repo: Path, ralph: Ralph, claude_script: ClaudeScript, place: str) -> None:
    claude_script([run(ELSEWHERE[place]), summary("Worked on the other part.")])
    goes_on(ralph, repo)


def test_guidance_gives_a_stalled_run_another_chance(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    claude_script(SAME)
    soon = {"RALPH_STALL_AFTER": "1"}
    assert ralph("run", "goal.md", env=soon).exit_code == 5
    assert ralph("tell", "goal", "try the index instead").exit_code == 0

    done = ralph("run", "goal.md", "--json", env=soon)

    assert done.exit_code == 5
    assert len(commits(repo)) == 1 + 2 + 2


# Blocked


def test_an_agent_that_is_blocked_is_asked_once_more_then_the_run_ends(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    agent = claude_script(
        [write("a.txt", "a"), summary("BLOCKED: the staging password is missing")],
        [summary("BLOCKED: nobody told me the staging password")],
    )

    done = ralph("run", "goal.md")

    assert done.exit_code == 6, done
    assert "nobody told me the staging password" in result(repo)["reason"]
    assert "nobody told me the staging password" in done.stdout
    assert len(agent.heard) == 2
    assert "the staging password is missing" in agent.heard[1]
    assert "Is it really blocked?" in agent.heard[1]
    assert "Is it really blocked?" not in agent.heard[0]
    assert "Ralph-Verdict: BLOCKED" in git(repo, "log", "-1", "--format=%B")
    assert git(repo, "show", "HEAD~1:a.txt") == "a", "what it did before is kept"


def test_a_way_that_is_found_after_all_is_gone(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    write_check(repo)
    agent = claude_script(
        [summary("BLOCKED: no idea")],
        [summary("There is another way.")],
        [summary("BLOCKED: now I am really stuck")],
        [write("answer.txt", "42\n"), summary("DONE")],
    )

    assert ralph("run", "goal.md").exit_code == 0
    assert ["really blocked?" in prompt for prompt in agent.heard] == [False, True, False, True]


@pytest.mark.long
def test_a_new_start_asks_again(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    claude_script([summary("BLOCKED: no key")])
    assert ralph("run", "goal.md").exit_code == 6
    agent = claude_script([summary("BLOCKED: still no key")])

    assert ralph("run", "goal.md").exit_code == 6
    assert len(agent.starts) == 2


@pytest.mark.long
def test_words_about_being_blocked_end_nothing(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    claude_script(*[[summary(f"Part {n}: the port was BLOCKED: by another process.")] for n in range(5)])

    assert ralph("run", "goal.md", "--max-iterations", "4").exit_code == 4


@pytest.mark.parametrize(
    "words",
    [
        "I looked.\\n\\nBLOCKED: need the key",
        pytest.param("I looked.\\nBLOCKED: need the key\\nIt is nowhere.", marks=pytest.mark.long),
        pytest.param("\\033[1mBLOCKED:\\033[0m need the key\\r", marks=pytest.mark.long),
        pytest.param("**BLOCKED:** need the key", marks=pytest.mark.long),
    ],
)
def test_an_agent_in_words_closes_with_it(repo: Path, ralph: Ralph, words: str) -> None:
    done = ralph("run", "goal.md", "--agent-cmd", f"printf '{words}'", "--max-iterations", "5")

    assert done.exit_code == 6, done
    assert result(repo)["reason"].startswith("blocked: the agent reports: need the key")
    assert len(commits(repo)) == 1 + 2


@pytest.mark.long
def test_an_agent_in_words_may_mention_it(repo: Path, ralph: Ralph) -> None:
    lines = "BLOCKED: said the old log\\n" + "more work $RALPH_ITERATION\\n" * 12
    command = f"sh -c \"printf '{lines}'\""

    assert ralph("run", "goal.md", "--agent-cmd", command, "--max-iterations", "3").exit_code == 4
