from pathlib import Path

import pytest

from ralph.system.programs import loading_outside, outside, passed_over, rejoined


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    (tmp_path / "repo" / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    for folder in ("repo/sub/deep", "repo/bin", "repository", "usr"):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    return tmp_path / "repo"


@pytest.mark.parametrize("stands", ["", "sub", "sub/deep", "sub/gone"])
def test_folders_of_the_repository_are_left_out_wherever_one_stands_in_it(repo: Path, stands: str) -> None:
    (repo.parent / "link").symlink_to(repo / "bin")
    path = f"{repo}/bin:/usr/bin:{repo}:.::bin:{repo}/../repo/gone:{repo.parent}/link:{repo.parent}/repository"

    assert outside(path, repo / stands) == f"/usr/bin:{repo.parent}/repository"


def test_without_a_repository_it_is_the_place_itself(repo: Path) -> None:
    assert outside(f"{repo.parent}/usr:{repo}/bin", repo.parent / "usr") == f"{repo}/bin"


def test_what_is_passed_over_is_named(repo: Path) -> None:
    for place in ("repo/bin/git", "usr/direnv"):
        (repo.parent / place).write_text("")
        (repo.parent / place).chmod(0o755)

    found = passed_over(("git", "direnv", "no-such-program"), f"{repo}/bin:{repo.parent}/usr", repo)

    assert found == [f"{repo}/bin/git"]


def test_what_was_left_out_comes_back_in_its_place() -> None:
    assert rejoined("/new:/usr/bin", "/usr/bin", "/repo/bin:/usr/bin:.") == "/new:/repo/bin:/usr/bin:."


def test_where_more_was_changed_it_comes_back_at_the_end() -> None:
    assert rejoined("/bin:/new", "/usr/bin:/bin", "/repo/bin:/usr/bin:/bin") == "/bin:/new:/repo/bin"


def test_libraries_of_the_repository_are_not_loaded(repo: Path) -> None:
    env = {"LD_LIBRARY_PATH": f"{repo}/lib:/usr/lib", "LD_PRELOAD": f"{repo}/a.so /usr/lib/b.so", "LD_AUDIT": "/x.so"}
    assert loading_outside(env, repo) == {"LD_LIBRARY_PATH": "/usr/lib", "LD_PRELOAD": "/usr/lib/b.so"}
