"""`--version` names the commit, whatever ralph was installed from, and stays quick."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import ralph
from tests.support.git_repos import commit_all, git, make_repo
from tests.support.ralph_process import Ralph

VERSION = ralph.__version__


def said(root: Path) -> str:
    """What the package in a checkout says of itself."""
    code = "import ralph; print(ralph.version_and_commit())"
    return subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True
    ).stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    root = make_repo(tmp_path / "checkout", {"prompts/worker.md.j2": ""}, commit=False)
    (root / "ralph").mkdir()
    shutil.copy(ralph.__file__, root / "ralph" / "__init__.py")
    return root


@pytest.mark.parametrize("program", ["ralph", "ralph-runs"])
def test_both_programs_say_version_and_commit(ralph: Ralph, ralph_runs: Ralph, program: str) -> None:
    done = (ralph if program == "ralph" else ralph_runs)("--version")
    here = Path(__file__).parents[1]
    commit = f" ({git(here, 'rev-parse', 'HEAD')[:10]})" if (here / ".git").exists() else ""
    assert (done.exit_code, done.stdout) == (0, f"{program} {VERSION}{commit}\n")


def test_a_checkout_is_read_wherever_git_keeps_its_head(checkout: Path, tmp_path: Path) -> None:
    assert said(checkout) == VERSION  # no commit yet

    first = commit_all(checkout, "first")
    assert said(checkout) == f"{VERSION} ({first[:10]})"

    git(checkout, "pack-refs", "--all")
    assert said(checkout) == f"{VERSION} ({first[:10]})"

    git(checkout, "worktree", "add", "--quiet", "-b", "other", str(tmp_path / "other"))
    second = commit_all(tmp_path / "other", "second")
    assert said(tmp_path / "other") == f"{VERSION} ({second[:10]})"
    git(checkout, "pack-refs", "--all")
    assert said(tmp_path / "other") == f"{VERSION} ({second[:10]})"

    git(checkout, "checkout", "--quiet", "--detach", second)
    assert said(checkout) == f"{VERSION} ({second[:10]})"


def test_the_repository_of_somebody_else_around_it_says_nothing(checkout: Path) -> None:
    shutil.rmtree(checkout / "prompts")
    commit_all(checkout, "vendored")
    assert said(checkout) == VERSION


def test_what_is_no_repository_or_a_broken_one_says_the_version(checkout: Path) -> None:
    (checkout / ".git" / "HEAD").unlink()
    assert said(checkout) == VERSION
    shutil.rmtree(checkout / ".git")
    assert said(checkout) == VERSION
    (checkout / ".git").write_text("gitdir: /nowhere\n")
    assert said(checkout) == VERSION


def test_it_takes_hardly_longer_for_that(checkout: Path) -> None:
    commit_all(checkout, "first")
    code = "import time, ralph; t = time.perf_counter(); ralph.built_from(); print(time.perf_counter() - t)"
    argv = [sys.executable, "-c", code]
    took = min(float(subprocess.run(argv, cwd=checkout, capture_output=True, check=True).stdout) for _ in range(5))
    assert took < 0.005
