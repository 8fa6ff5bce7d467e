"""`ralph init` in real repositories: what it proposes was tried with the real toolchain, and nothing is overwritten."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from ralph.core.goal import parse_goal
from tests.support.git_repos import git, make_repo
from tests.support.ralph_process import Finished, Ralph
from tests.support.terminal import RalphInTerminal
from tests.support.tools import RUSTUP_HOME, lacking

PYTEST_GREEN = "def test_it():\n    assert True\n"
UNITTEST_RED = (
    "import unittest\n\n\nclass T(unittest.TestCase):\n    def test_it(self):\n        self.assertEqual(1, 2)\n"
)
MAKE_GREEN = "test:\n\t@echo all is well\n"
NPM = '{"name": "a", "version": "1.0.0", "scripts": {"test": "node test.js"}}\n'
CARGO = '[package]\nname = "a"\nversion = "0.1.0"\nedition = "2021"\n'
RUST = "#[test]\nfn it() {\n    assert_eq!(1, 2);\n}\n"
CMAKE = """cmake_minimum_required(VERSION 3.20)
project(a C)
enable_testing()
add_executable(a a.c)
add_test(NAME a COMMAND a)
"""
Files = Mapping[str, str]


def require(program: str, env: Mapping[str, str]) -> None:
    if shutil.which(program, path=env["PATH"]) is None:
        lacking(f"{program} is not installed: get it from your distribution")


def repository(ralph: Ralph, files: Files) -> Path:
    """A repository of its own with these files, committed."""
    return make_repo(ralph.repo.parent / "project", files)


def init(ralph: Ralph, place: Path, *args: str, env: Mapping[str, str] | None = None) -> Finished:
    return ralph("init", *args, cwd=place, env=env)


def written(place: Path) -> set[str]:
    return set(git(place, "status", "--porcelain", "--untracked-files=all").replace("?? ", "").split("\n")) - {""}


def test_unittest_red_today(ralph: Ralph) -> None:
    place = repository(ralph, {"test_a.py": UNITTEST_RED, ".gitignore": "__pycache__/\n"})
    (place / "below").mkdir()

    done = init(ralph, place / "below", "--yes")

    assert (done.exit_code, done.stderr) == (0, "")
    assert "tried .ralph/check on a copy of this repository: exit 1 after " in done.stdout
    assert f'File "{place}/test_a.py", line 6, in test_it' in done.stdout
    assert "FAILED (failures=1)" in done.stdout
    assert written(place) == {".ralph/check", "goal.md"}
    assert os.access(place / ".ralph" / "check", os.X_OK)
    assert parse_goal((place / "goal.md").read_text(), place / "goal.md").title == "Make the check pass"
    assert done.stdout.endswith(
        "next\n  git add ../.ralph/check ../goal.md && git commit -m 'Set up ralph'\n  ralph run ../goal.md\n"
    )
    assert ralph("check", cwd=place).exit_code == 1
    assert not list((Path(ralph.env["RALPH_DIR"]) / "runs").rglob("clone")), "the copy is gone"


def test_pytest_green_today_leaves_a_goal_that_is_still_to_be_written(ralph: Ralph, bin_dir: Path) -> None:
    (bin_dir / "python3").symlink_to(sys.executable)
    place = repository(ralph, {"pyproject.toml": "[tool.pytest.ini_options]\n", "tests/test_a.py": PYTEST_GREEN})

    done = init(ralph, place, "--yes")

    assert done.exit_code == 0, done.stdout + done.stderr
    assert "  python3 -m pytest -q\n" in done.stdout
    assert "1 passed" in done.stdout
    assert "It passes today" in done.stdout
    assert "  edit goal.md: say under Objective what you want\n" in done.stdout
    refused = ralph("run", "goal.md", "--agent", "demo", cwd=place)
    assert (refused.exit_code, "section is empty" in refused.stderr) == (2, True)
    assert ralph("check", cwd=place).exit_code == 0


def test_make_green_today(ralph: Ralph) -> None:
    require("make", ralph.env)
    place = repository(ralph, {"Makefile": MAKE_GREEN, "pyproject.toml": "[project]\n"})

    done = init(ralph, place, "--yes")

    assert done.exit_code == 0
    assert "  Makefile: it has the target test\n" in done.stdout
    assert "  all is well\n" in done.stdout
    assert (place / ".ralph" / "check").read_text().endswith("set -eu\nmake test\n")


@pytest.mark.long
def test_npm_with_a_dependency(ralph: Ralph) -> None:
    require("npm", ralph.env)
    package = NPM.replace('"scripts"', '"dependencies": {"b": "file:./b"}, "scripts"')
    files = {"package.json": package, "test.js": "console.log(require('b'))\n", "b/index.js": "module.exports = 42\n"}
    place = repository(ralph, {**files, "b/package.json": '{"name": "b", "version": "1.0.0"}\n'})

    done = init(ralph, place, "--yes")

    assert done.exit_code == 0, done.stdout + done.stderr
    assert "tried .ralph/setup on a copy of this repository: exit 0 after " in done.stdout
    assert "  42\n" in done.stdout
    assert "  printf '%s\\n' node_modules/ >> .gitignore" in done.stdout
    assert written(place) == {".ralph/check", ".ralph/setup", "goal.md"}
    assert ralph("check", cwd=place).exit_code == 0


@pytest.mark.long
def test_cargo(ralph: Ralph) -> None:
    require("cargo", ralph.env)
    place = repository(ralph, {"Cargo.toml": CARGO, "src/lib.rs": RUST, ".gitignore": "target/\n"})

    done = init(ralph, place, "--yes", env={"RUSTUP_HOME": RUSTUP_HOME})

    assert done.exit_code == 0, done.stdout + done.stderr
    assert "tried .ralph/check on a copy of this repository: exit 101 after " in done.stdout
    assert "test result: FAILED" in done.stdout
    assert "  commit or ignore what the check leaves behind: Cargo.lock\n" in done.stdout
    assert written(place) == {".ralph/check", "goal.md"}


@pytest.mark.long
def test_cmake(ralph: Ralph) -> None:
    require("cmake", ralph.env)
    place = repository(ralph, {"CMakeLists.txt": CMAKE, "a.c": "int main(void) { return 0; }\n"})

    done = init(ralph, place, "--yes")

    assert done.exit_code == 0, done.stdout + done.stderr
    assert "100% tests passed" in done.stdout
    assert "  printf '%s\\n' build/ >> .gitignore" in done.stdout
    assert written(place) == {".ralph/check", "goal.md"}


def test_an_empty_repository_gets_a_goal_and_learns_what_a_check_is(ralph: Ralph) -> None:
    place = make_repo(ralph.repo.parent / "project", commit=False)

    done = init(ralph, place, "--yes")

    assert done.exit_code == 0
    assert "no check proposed: nothing here says how to test this repository (looked for Makefile, " in done.stdout
    (example,) = [line for line in done.stdout.splitlines() if line.startswith("  mkdir -p .ralph && printf")]
    assert written(place) == {"goal.md"}
    subprocess.run(["sh", "-c", example], cwd=place, check=True)  # what it says can be typed
    assert (place / ".ralph" / "check").read_text() == "#!/bin/sh\nset -eu\nmake test\n"
    assert os.access(place / ".ralph" / "check", os.X_OK)


def test_what_is_there_is_kept(ralph: Ralph) -> None:
    place = repository(ralph, {"Makefile": MAKE_GREEN, "goal.md": "mine\n"})

    first = init(ralph, place, "--yes")
    (place / ".ralph" / "check").write_text("#!/bin/sh\nexit 9\n")
    second = init(ralph, place)

    assert first.exit_code == second.exit_code == 0
    assert first.stdout.startswith("left as they are: goal.md\n")
    assert second.stdout.startswith("left as they are: .ralph/check, goal.md\n")
    assert "there is nothing to add\n" in second.stdout
    assert "edit goal.md: say under Objective what you want" in second.stdout, "it has none, so a run would refuse it"
    assert (place / "goal.md").read_text() == "mine\n"
    assert (place / ".ralph" / "check").read_text() == "#!/bin/sh\nexit 9\n"


def test_a_missing_toolchain_is_named_and_nothing_is_tried(ralph: Ralph, bin_dir: Path) -> None:
    place = repository(ralph, {"go.mod": "module a\n"})
    (bin_dir / "git").symlink_to(shutil.which("git") or "")

    done = init(ralph, place, "--yes", env={"PATH": str(bin_dir)})

    assert done.exit_code == 1
    assert "not tried: go is not on PATH; install that, then: ralph check\n" in done.stdout
    assert (place / ".ralph" / "check").read_text().endswith("go test ./...\n")


def test_a_setup_that_fails_is_told_and_the_check_is_not_tried(ralph: Ralph, bin_dir: Path) -> None:
    uv = bin_dir / "uv"
    uv.write_text("#!/bin/sh\necho 'no such index' >&2\nexit 3\n")
    uv.chmod(0o755)
    place = repository(ralph, {"pyproject.toml": "[tool.pytest.ini_options]\n", "uv.lock": ""})

    done = init(ralph, place, "--yes")

    assert done.exit_code == 1
    assert "tried .ralph/setup on a copy of this repository: exit 3 after " in done.stdout
    assert "  no such index\n" in done.stdout
    assert "tried .ralph/check" not in done.stdout
    assert "It does not run yet" in done.stdout
    assert written(place) == {".ralph/check", ".ralph/setup", "goal.md"}


def test_without_a_terminal_nothing_happens_unless_told_so(ralph: Ralph) -> None:
    place = repository(ralph, {"Makefile": "test:\n\ttouch $$HOME/tried\n"})

    done = init(ralph, place)

    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("error: cannot ask before writing: there is no terminal\n")
    assert done.stderr.endswith("hint: write without asking: ralph init --yes\n")
    assert written(place) == set()
    assert not (Path(ralph.env["HOME"]) / "tried").exists()


def test_outside_of_a_repository_it_names_the_command_that_makes_one(ralph: Ralph, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    done = init(ralph, elsewhere, "--yes")

    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == (
        f"error: {elsewhere} is not in a git repository\n\nhint: create a repository here, then try again: git init\n"
    )
    assert not list(elsewhere.iterdir())


def test_where_ralph_cannot_write_it_refuses(ralph: Ralph) -> None:
    place = repository(ralph, {"Makefile": MAKE_GREEN})
    (place / ".ralph").symlink_to(place.parent)

    done = init(ralph, place, "--yes")

    assert done.exit_code == 2
    assert ".ralph is not a plain directory" in done.stderr
    assert written(place) == {".ralph"}


@pytest.mark.parametrize(
    ("answer", "code"), [("\r", 0), ("y\r", 0), ("n\r", 1), ("what\r", 1), ("\x04", 1), ("\x03", 130)]
)
def test_in_a_terminal_it_asks_before_it_writes(answer: str, code: int, ralph: Ralph) -> None:
    place = repository(ralph, {"Makefile": MAKE_GREEN})

    with RalphInTerminal(["init"], place, ralph.env, 120, 60) as terminal:
        terminal.shows("write .ralph/check, goal.md? [Y/n]")
        assert written(place) == set()
        terminal.press(answer)
        assert terminal.wait() == code
        said = terminal.text

    assert written(place) == ({".ralph/check", "goal.md"} if code == 0 else set())
    assert ("nothing was written" in said) is (code == 1)
    assert ("ralph run goal.md" in said) is (code == 0)


def test_ctrl_c_ends_a_trial_with_all_that_it_started(ralph: Ralph) -> None:
    place = repository(ralph, {"Makefile": "test:\n\ttouch $$HOME/begun; sleep 300\n"})

    with RalphInTerminal(["init"], place, ralph.env, 120, 60) as terminal:
        terminal.shows("trying .ralph/check on a copy of this repository")
        terminal.press("\x03")
        assert terminal.wait() == 130

    assert written(place) == set()
    assert not list((Path(ralph.env["RALPH_DIR"]) / "runs").rglob("clone"))
