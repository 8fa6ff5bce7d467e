"""The results: of one clean commit or not at all."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bench import commits, report
from bench.commits import Unclean, clean_commit
from bench.figures import Figure
from bench.report import Measured, MixedCommits
from tests.support.git_repos import git, make_repo

FIGURES = [
    Figure("fast", [0.5], target=1.0),
    Figure("slow", [2.0], target=1.5),
    Figure("keen", [1.1, 1.2], target=1.0, at_least=True, goal=3.0),
    Figure("absent", [], missing="RALPH_RUBY names no checkout"),
    Figure("endless", [float("inf")], target=3.0),
]


def test_the_page_names_its_commit_once_and_every_missed_target_first() -> None:
    page = report.page([Measured("One", "abc123", FIGURES, 0.1, 0.2), Measured("Two", "abc123", [], 0, 0)], "abc123")
    assert page.count("abc123") == 1
    head = page.partition("## One")[0]
    assert "**2 of 4 targets are met.**" in head
    assert "- **Missed:** slow: 2 x, target ≤ 1.5 x\n" in head
    assert "- **Missed:** endless: didn't finish, target ≤ 3 x\n" in head
    assert "| keen | 1.15 x | 1.1 to 1.2 | 2 | ≥ 1 x, goal ≥ 3 x | met |" in page
    assert "| absent | not measured: RALPH_RUBY names no checkout |  | 0 |  |  |" in page


def test_a_section_that_failed_is_named_first() -> None:
    failed = Measured("Dashboard", "abc", [], 0, 0, "it printed nothing")
    head, _, rest = report.page([Measured("One", "abc", FIGURES, 0, 0), failed], "abc").partition("## One")
    assert "- **Not measured:** all of Dashboard\n" in head
    assert "\nNot measured: it printed nothing\n" in rest


def test_a_section_of_another_commit_is_refused() -> None:
    old, new = Measured("Old", "abc", FIGURES, 0, 0), Measured("New", "def", FIGURES, 0, 0)
    with pytest.raises(MixedCommits, match="Old on abc"):
        report.page([old, new], "def")


def test_only_a_clean_commit_has_a_name(tmp_path: Path) -> None:
    with pytest.raises(Unclean, match="not a git checkout"):
        clean_commit(tmp_path)
    repo = make_repo(tmp_path / "repo", {"bench/RESULTS.md": "old", "ralph/run.py": "one"})
    head = git(repo, "rev-parse", "HEAD")
    assert clean_commit(repo) == head
    (repo / "bench" / "RESULTS.md").write_text("a run's own results are no change")
    assert clean_commit(repo) == head
    (repo / "ralph" / "run.py").write_text("two")
    with pytest.raises(Unclean, match=r"uncommitted changes: ralph/run\.py$"):
        clean_commit(repo)
    (repo / "ralph" / "new.py").write_text("new")
    with pytest.raises(Unclean, match=r"uncommitted changes: ralph/run\.py and 1 more$"):
        clean_commit(repo)


def test_a_run_on_a_changed_tree_writes_nothing_and_says_why(tmp_path: Path) -> None:
    for name in ("bench", "tools"):
        shutil.copytree(commits.HERE / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    results = tmp_path / "bench" / "RESULTS.md"
    results.write_text("as before")
    make_repo(tmp_path)
    with (tmp_path / "bench" / "figures.py").open("a") as file:
        file.write("# changed\n")
    argv = [sys.executable, "-B", "-m", "bench"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "error: cannot measure: the tree has uncommitted changes: bench/figures.py\n"
    assert results.read_text() == "as before"
