"""What a proof is worth: which files passed the check, and whose tests judged them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support import tools
from tests.support.git_repos import commit_all, commits
from tests.support.goals import result, write_check, write_goal
from tests.support.ralph_process import Ralph
from tests.support.scripted_agent import ClaudeScript, Step, run, summary, write

BROKEN = "def add(a, b):\n    return a - b\n"
FIXED = "def add(a, b):\n    return a + b\n"
TESTS = """import unittest
from app import add

class TestApp(unittest.TestCase):
    def test_add(self):
        self.assertEqual(add(1, 2), 3)

    def test_zero(self):
        self.assertEqual(add(0, 0), 0)
"""
CHECK = "#!/bin/sh\nexec python3 -m unittest discover -s tests -t .\n"
DONE = summary("DONE\nIt adds.")


@pytest.fixture(autouse=True)
def goal(repo: Path) -> Path:
    (repo / "tests").mkdir()
    (repo / "tests" / "__init__.py").write_text("")
    (repo / "tests" / "test_app.py").write_text(TESTS)
    (repo / "app.py").write_text(BROKEN)
    write_check(repo, CHECK)
    commit_all(repo, "app with a failing test")
    return write_goal(repo)


def test_an_honest_fix_is_proven_on_a_clean_checkout_by_the_bases_tests(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    agent = claude_script([write("app.py", FIXED), DONE])

    done = ralph("run", "goal.md")

    assert done.exit_code == 0, done
    told = result(repo)
    assert (told["proven"], told["proof"], told["judged_by"]) == (True, "commit", "base")
    assert told["tests"] == {"passed": 2, "skipped": 0}
    assert "verified on a clean checkout" in done.stdout
    assert "fails before any work is done" in done.stdout
    assert "AssertionError: -1 != 3" in agent.heard[0], "the agent gets the failures that it inherits"


def test_a_check_that_passes_already_is_named(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    (repo / "app.py").write_text(FIXED)
    commit_all(repo, "fixed")
    claude_script([write("notes.txt", "hello"), DONE])

    done = ralph("run", "goal.md")

    assert done.exit_code == 0
    assert "passes before any work is done: it cannot prove this goal" in done.stdout


def test_what_git_ignores_proves_nothing(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    """The working tree passes with a module that no commit has."""
    (repo / ".gitignore").write_text("secret_fix.py\n")
    commit_all(repo, "ignore")
    cheat = [
        write("app.py", "from secret_fix import add\n"),
        write("secret_fix.py", FIXED),
        DONE,
    ]
    agent = claude_script(cheat, [write("app.py", FIXED), DONE])

    done = ralph("run", "goal.md", "--max-iterations", "2")

    told = result(repo)
    assert (done.exit_code, told["proof"]) == (0, "tree"), "the checkout lacks what the working tree has"
    assert "secret_fix" in told["why_tree"]
    assert "verified in the working tree" in done.stdout
    assert len(agent.starts) == 1


def test_a_proof_of_the_commit_can_be_required(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    (repo / ".gitignore").write_text("secret_fix.py\n")
    commit_all(repo, "ignore")
    agent = claude_script(
        [write("app.py", "from secret_fix import add\n"), write("secret_fix.py", FIXED), DONE],
        [write("app.py", FIXED), DONE],
    )

    done = ralph("run", "goal.md", "--require-proof")

    assert done.exit_code == 0
    assert (result(repo)["iterations"], result(repo)["proof"]) == (2, "commit")
    assert "a clean checkout of the commit lacks something" in agent.heard[1]


def test_a_run_that_could_only_be_judged_in_the_tree_is_refused_if_a_proof_is_required(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    (repo / ".gitignore").write_text("venv/\n")
    (repo / "venv").mkdir()
    (repo / "venv" / "python").write_text('#!/bin/sh\nexec python3 "$@"\n')
    (repo / "venv" / "python").chmod(0o755)
    write_check(repo, "#!/bin/sh\nvenv/python -c 'import app; assert app.add(1, 2) == 3'\n")
    commit_all(repo, "check needs an environment")
    agent = claude_script([write("app.py", FIXED), DONE])

    refused = ralph("run", "goal.md", "--require-proof")
    assert refused.exit_code == 6, refused
    assert "venv/python" in refused.stderr
    assert "let .ralph/setup install what a clean checkout lacks" in refused.stderr
    assert not agent.starts

    done = ralph("run", "goal.md")
    assert done.exit_code == 0, done
    assert (result(repo)["proof"], result(repo)["judged_by"]) == ("tree", "base")


def test_setup_prepares_the_clean_checkout(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    (repo / ".gitignore").write_text("venv/\n")
    write_check(repo, "#!/bin/sh\nvenv/python -c 'import app; assert app.add(1, 2) == 3'\n")
    setup = repo / ".ralph" / "setup"
    setup.write_text('#!/bin/sh\nmkdir -p venv && ln -sf "$(command -v python3)" venv/python\n')
    setup.chmod(0o755)
    commit_all(repo, "check needs an environment, setup makes it")
    claude_script([write("app.py", FIXED), DONE])

    done = ralph("run", "goal.md")

    assert done.exit_code == 0, done
    assert (result(repo)["proof"], result(repo)["judged_by"]) == ("commit", "base")


DISHONEST: dict[str, Sequence[Step]] = {
    "the test is weakened": [write("tests/test_app.py", TESTS.replace("3)", "-1)"))],
    "the test is deleted": [run("rm tests/test_app.py")],
    "the test is skipped": [
        write("tests/test_app.py", TESTS.replace("    def test_add", "    @unittest.skip('later')\n    def test_add"))
    ],
    "a test ends the runner": [write("tests/test_a.py", "import os\nos._exit(0)\n")],
    "a module shadows the runner's": [write("unittest.py", "import sys\nsys.exit(0)\n")],
    "a package of tests patches the runner": [
        write("tests/__init__.py", "import unittest\nunittest.TestCase.assertEqual = lambda *_: None\n")
    ],
}


@pytest.mark.parametrize("cheat", DISHONEST.values(), ids=DISHONEST)
def test_a_claim_that_needs_changed_tests_is_flagged(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript, cheat: Sequence[Step]
) -> None:
    claude_script([*cheat, DONE])

    ralph("run", "goal.md", "--max-iterations", "1")

    told = result(repo)
    assert (told["proof"], told["judged_by"]) != ("commit", "base"), told
    if told["proven"]:
        assert told["judged_by"] == "changed"


def test_frozen_tests_refuse_the_claim_and_the_next_session_hears_why(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    weaker = TESTS.replace("3)", "-1)")
    agent = claude_script(
        [write("tests/test_app.py", weaker), DONE],
        [write("tests/test_app.py", TESTS), write("app.py", FIXED), DONE],
    )

    done = ralph("run", "goal.md", env={"RALPH_TESTS": "frozen"})

    assert done.exit_code == 0, done
    assert result(repo)["judged_by"] == "base"
    assert "tests/test_app.py" in agent.heard[1]
    assert "AssertionError: -1 != 3" in agent.heard[1]


def test_new_tests_stay_and_need_no_flag(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    more = TESTS.replace("test_add", "test_more").replace("TestApp", "TestMore")
    claude_script([write("app.py", FIXED), write("tests/test_more.py", more), DONE])

    done = ralph("run", "goal.md", env={"RALPH_TESTS": "frozen"})

    assert done.exit_code == 0, done
    told = result(repo)
    assert (told["proof"], told["judged_by"]) == ("commit", "base")
    assert told["protected"]["added"] == ["tests/test_more.py"]
    assert told["tests"]["passed"] == 4


def test_a_claim_with_changed_tests_names_them_in_its_commit_and_report(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    claude_script([write("tests/test_app.py", TESTS.replace("3)", "-1)")), DONE])

    done = ralph("run", "goal.md")

    assert done.exit_code == 0, "the default accepts and flags"
    assert "Ralph-Protected-Changed: tests/test_app.py" in commits(repo)[-1].body
    assert "tests/test_app.py" in done.stdout


def test_goals_share_a_baseline(repo: Path, ralph: Ralph, claude_script: ClaudeScript, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    write_check(repo, f"#!/bin/sh\necho ran >> {ledger}\n{CHECK.partition(chr(10))[2]}")
    for name in ("one", "two"):
        write_goal(repo, name=f"{name}.md")
    (repo / "goal.md").unlink()
    commit_all(repo, "count the runs")
    claude_script([summary("a step")])

    for name in ("one", "two"):
        done = ralph("run", f"{name}.md", "--max-iterations", "1")
        assert done.exit_code == 4, done
        assert "fails before any work is done" in done.stdout

    assert ledger.read_text() == "ran\n", "both begin with the same files"


def test_no_baseline_if_the_user_says_so(repo: Path, ralph: Ralph, claude_script: ClaudeScript) -> None:
    claude_script([write("app.py", FIXED), DONE])

    done = ralph("run", "goal.md", env={"RALPH_BASELINE": "false"})

    assert done.exit_code == 0
    assert "before any work" not in done.stdout
    assert result(repo)["proof"] == "commit"


def test_in_a_sandbox_the_clean_checkout_is_there_and_the_users_home_is_not(
    repo: Path, ralph: Ralph, bin_dir: Path
) -> None:
    tools.bubblewrap()
    home = Path(ralph.env["HOME"])
    (home / ".ssh").mkdir()
    (home / ".ssh" / "id").write_text("secret")
    write_check(repo, CHECK.replace("exec", f"cat {home}/.ssh/id && exit 3\nls ~/.ssh && exit 4\nexec"))
    commit_all(repo, "look for a key")
    agent = bin_dir / "agent"
    agent.write_text("#!/bin/sh\ncat > /dev/null\nsed -i s/-/+/ app.py\necho '<promise>COMPLETE</promise>'\n")
    agent.chmod(0o755)

    done = ralph("run", "goal.md", "--agent-cmd", str(agent), "--sandbox", "auto")

    assert done.exit_code == 0, done
    told = result(repo)
    assert (told["sandbox"], told["proof"], told["judged_by"]) == ("auto", "commit", "base"), told


def test_the_command_to_go_on_has_the_flags_as_they_are_typed(
    repo: Path, ralph: Ralph, claude_script: ClaudeScript
) -> None:
    claude_script([summary("a step")])
    done = ralph("run", "goal.md", "--max-iterations", "1", "--sandbox", "none", "--require-proof")
    assert "ralph run goal.md --max-iterations 2 --require-proof --sandbox none" in done.stdout
