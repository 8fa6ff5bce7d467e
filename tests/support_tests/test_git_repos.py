from pathlib import Path

import pytest

from tests.support.git_repos import commit_all, commits, git, make_repo


def test_a_repository_holds_its_files_in_one_commit(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "r", {"a.txt": "a\n", "deep/b.bin": b"\xff\r\n"})
    assert (repo / "deep" / "b.bin").read_bytes() == b"\xff\r\n"
    assert git(repo, "ls-files") == "a.txt\ndeep/b.bin"
    assert git(repo, "status", "--porcelain") == ""
    assert [commit.subject for commit in commits(repo)] == ["start"]


def test_a_repository_may_lack_a_commit_and_an_identity(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "r", {"a.txt": "a"}, commit=False, identity=False)
    assert commits(repo) == []
    assert git(repo, "status", "--porcelain") == "?? a.txt"
    with pytest.raises(AssertionError, match="tell me who you are"):
        git(repo, "commit", "--allow-empty", "-m", "x")


def test_commits_are_read_oldest_first_with_body_and_trailers(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "r")
    sha = commit_all(repo, "second\n\nIt says: more,\nin two lines.\n\nRalph-Goal: g\nRalph-Iteration: 1\n")
    first, second = commits(repo)
    assert (first.subject, first.body, first.trailers) == ("start", "", {})
    assert (second.sha, second.subject) == (sha, "second")
    assert second.body.startswith("It says: more,\nin two lines.")
    assert second.trailers == {"Ralph-Goal": "g", "Ralph-Iteration": "1"}
