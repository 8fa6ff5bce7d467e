"""`ralph run -p "…"`: a goal that is a sentence, kept as a file in the run directory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ralph.core.goal import goal_of_words, parse_goal
from tests.support.git_repos import commits
from tests.support.goals import GOAL, result, run_directory, write_check, write_goal
from tests.support.ralph_process import Ralph
from tests.support.scripted_agent import ClaudeScript, ScriptedAgent, summary, write
from tests.support.terminal import RalphInTerminal

SENTENCE = "fix the flaky test"
NAME = "fix-the-flaky-test"


@pytest.fixture
def agent(claude_script: ClaudeScript) -> ScriptedAgent:
    return claude_script([summary("looked around")], [write("answer.txt", "42\n"), summary("DONE")])


def kept(repo: Path, name: str = NAME) -> Path:
    return run_directory(repo, name) / "goal" / f"{name}.md"


def test_a_sentence_is_a_goal(ralph: Ralph, repo: Path, agent: ScriptedAgent) -> None:
    write_check(repo)
    done = ralph("run", "-p", SENTENCE)
    assert done.exit_code == 0
    assert f" · {NAME}: {SENTENCE}" in done.stdout
    assert result(repo, NAME)["proven"]
    assert kept(repo).read_text() == f"# {SENTENCE}\n\n## Objective\n{SENTENCE}\n"
    assert f"## Objective\n{SENTENCE}" in agent.heard[0]
    assert commits(repo)[-1].trailers["Ralph-Goal"] == NAME

    again = ralph("run", "--prompt", SENTENCE)
    assert (again.exit_code, "already proven" in again.stdout, len(agent.starts)) == (0, True, 2)


def test_the_same_sentence_goes_on_and_so_does_its_file(ralph: Ralph, repo: Path, agent: ScriptedAgent) -> None:
    first = ralph("run", "-p", SENTENCE, "--max-iterations", "1")
    assert first.exit_code == 4
    assert f"ralph run -p '{SENTENCE}' --max-iterations 2" in first.stdout
    assert ralph("status", NAME).exit_code == 0

    done = ralph("run", kept(repo), "--max-iterations", "2")
    assert done.exit_code == 0
    assert "continuing the unfinished run" in done.stdout
    assert len(commits(repo)) == 3


def test_the_file_outlives_a_fresh_start_from_it(ralph: Ralph, repo: Path, agent: ScriptedAgent) -> None:
    assert ralph("run", "-p", SENTENCE, "--max-iterations", "1").exit_code == 4
    assert ralph("run", kept(repo), "--fresh", "--max-iterations", "1").exit_code == 0
    assert kept(repo).exists()


def test_stdin_may_hold_it(ralph: Ralph, repo: Path, agent: ScriptedAgent) -> None:
    text = "# Mend the tests\n\nAll of them:\n- one\n- two\n"
    done = ralph("run", "-p", "-", "--max-iterations", "1", input=text)
    assert done.exit_code == 4
    file = kept(repo, "mend-the-tests")
    assert file.read_text() == "# Mend the tests\n\n## Objective\nAll of them:\n- one\n- two\n"
    assert f"ralph run {file} --max-iterations 2" in done.stdout  # what was piped in is not there to be piped again
    assert ralph("run", file, "--max-iterations", "2").exit_code == 0


def test_stdin_may_hold_a_whole_goal_file(ralph: Ralph, repo: Path, agent: ScriptedAgent) -> None:
    done = ralph("run", "-p", "-", input=f"---\nmax_iterations: 1\n---\n{GOAL}")
    assert (done.exit_code, "limit reached: --max-iterations" in done.stdout) == (4, True)
    assert kept(repo, "the-answer-is-42").read_text().endswith(GOAL)


def test_a_dry_run_writes_nothing(ralph: Ralph, repo: Path, world: Path, agent: ScriptedAgent) -> None:
    done = ralph("run", "-p", SENTENCE, "--dry-run")
    assert (done.exit_code, f"## Objective\n{SENTENCE}" in done.stdout) == (0, True)
    assert not (world / "ralph").exists()


@pytest.mark.parametrize(
    ("args", "stdin", "cause"),
    [
        (["goal.md", "-p", SENTENCE], "", "GOAL.md and -p cannot be combined"),
        ([], "", "there is no goal to run"),
        (["-p", ""], "", "-p is empty"),
        (["-p", " \n\t"], "", "-p is empty"),
        (["-p", "-"], "", "stdin is empty"),
        (["-p", "-"], " \n ", "stdin is empty"),
        (["-p", "goal.md"], "", "-p takes a sentence, but goal.md is a file"),
        (["-p", "-"], "---\nnonesuch: 1\n---\n# A\n\n## Objective\nb\n", "unknown key `nonesuch`"),
        (["-p", "-"], "# A\n\n## Objective\n", "the `## Objective` section is empty"),
        (["-p", "-"], "x" * (4 * 2**20 + 1), "larger than 4 MiB"),
        (["-p", os.fsdecode(b"mend \xff")], "", "-p: not UTF-8 text"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_bad_input_is_refused_and_nothing_written(
    ralph: Ralph, repo: Path, world: Path, agent: ScriptedAgent, args: list[str], stdin: str, cause: str
) -> None:
    write_goal(repo)
    argv = [sys.executable, "-P", "-m", "ralph", "run", *map(os.fsencode, args)]
    done = subprocess.run(argv, cwd=repo, env=ralph.env, input=stdin.encode(), capture_output=True)
    assert (done.returncode, done.stdout) == (2, b"")
    assert cause in done.stderr.decode()
    assert b"\nhint: " in done.stderr or "UTF-8" in cause or "unknown" in cause
    assert not agent.starts
    assert not (world / "ralph").exists()


def test_stdin_that_is_no_text_is_refused(ralph: Ralph, repo: Path) -> None:
    argv = [sys.executable, "-P", "-m", "ralph", "run", "-p", "-"]
    done = subprocess.run(argv, cwd=repo, env=ralph.env, input=b"mend \xff\n", capture_output=True)
    assert (done.returncode, b"-p -: not UTF-8 text (byte 5)" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("words", "name", "title", "text"),
    [
        ("  Fix it!\n", "fix-it", "Fix it!", "# Fix it!\n\n## Objective\nFix it!\n"),
        ("## Steps\n1. a\n", "steps", "Steps", "# Steps\n\n## Objective\n1. a\n"),
        ("# Tidy up", "tidy-up", "Tidy up", "# Tidy up\n\n## Objective\nTidy up\n"),
        ("# A\n## B\nc", "a", "A", "# A\n\n## Objective\nA\n\n## B\nc\n"),
        ("one\n\n# two\n", "one", "one", "# one\n\n## Objective\none\n\n# two\n"),
        ("{{ goal }} $(x)", "goal-x", "{{ goal }} $(x)", "# {{ goal }} $(x)\n\n## Objective\n{{ goal }} $(x)\n"),
    ],
)
def test_words_become_a_goal_file(words: str, name: str, title: str, text: str) -> None:
    assert goal_of_words(words) == (name, text)
    assert parse_goal(text, Path(f"{name}.md")).title == title


def test_long_words_and_words_in_any_script_have_names_of_their_own() -> None:
    long = "make the parser accept " + "very " * 30 + "long files"
    name, text = goal_of_words(long)
    other, _ = goal_of_words(long + "!")
    assert name.startswith("make-the-parser-accept-very-very-")
    assert len(name) <= 48
    assert name != other
    assert parse_goal(text, Path(f"{name}.md")).title.endswith("…")
    names = {goal_of_words(words)[0] for words in ("修复测试", "删除测试", "修复 test", "删除 test", "test", "!!!")}
    assert len(names) == 6
    assert all(parse_goal("## Objective\nx", Path(f"{name}.md")).name == name for name in names)


def test_in_a_terminal_it_says_what_it_waits_for(ralph: Ralph, repo: Path, agent: ScriptedAgent) -> None:
    argv = ["run", "-p", "-", "--dry-run"]
    with RalphInTerminal(argv, repo, ralph.env) as terminal:
        terminal.shows("press Ctrl-D")
        terminal.press(f"{SENTENCE}\n\x04")
        assert terminal.wait() == 0
        assert "## Objective" in terminal.text
