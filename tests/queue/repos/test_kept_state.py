"""What the mirror keeps of a run, and what is taken up again where nothing else is known of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ralph.queue.repos.goal_refs import keep_state, take_up_state
from ralph.queue.repos.mirror import Mirror
from tests.support.git_repos import git
from tests.support.upstreams import make_upstream, refreshed

BRANCH = "ralph/speed"


@pytest.fixture
def mirror(world: Path, tmp_path: Path) -> Mirror:
    return refreshed(world, make_upstream(tmp_path / "up.git", {"a.txt": "a\n"}))


def write(directory: Path, files: dict[str, str]) -> Path:
    directory.mkdir(exist_ok=True)
    for name, text in files.items():
        (directory / name).write_text(text)
    return directory


def test_the_latest_state_is_kept_and_no_history_of_it(mirror: Mirror, tmp_path: Path) -> None:
    for text in ("old", "new"):
        files = {"progress.jsonl": text, "summary.md": f"{text} summary", "run.json": "{}", "events.ndjson": "much"}
        keep_state(mirror, BRANCH, write(tmp_path / "run", files))
    assert git(mirror.path, "rev-list", "--count", "refs/ralph/state/speed") == "1"
    assert git(mirror.path, "ls-tree", "--name-only", "refs/ralph/state/speed").split() == [
        "progress.jsonl", "run.json", "summary.md",
    ]  # fmt: skip
    assert git(mirror.path, "show", "refs/ralph/state/speed:progress.jsonl") == "new"


def test_a_run_without_a_summary_yet_has_a_state(mirror: Mirror, tmp_path: Path) -> None:
    keep_state(mirror, BRANCH, write(tmp_path / "run", {"progress.jsonl": "x"}))
    take_up_state(mirror, BRANCH, tmp_path / "elsewhere")
    assert not (tmp_path / "elsewhere").exists()


def test_the_summary_is_taken_up_where_the_run_is_unknown(mirror: Mirror, tmp_path: Path) -> None:
    keep_state(mirror, BRANCH, write(tmp_path / "run", {"summary.md": "# What was done\n\nÄlles.\n"}))
    take_up_state(mirror, BRANCH, tmp_path / "elsewhere")
    assert [path.name for path in (tmp_path / "elsewhere").iterdir()] == ["summary.md"]
    assert (tmp_path / "elsewhere" / "summary.md").read_text() == "# What was done\n\nÄlles.\n"


def test_what_is_known_here_is_left_alone(mirror: Mirror, tmp_path: Path) -> None:
    keep_state(mirror, BRANCH, write(tmp_path / "run", {"summary.md": "kept"}))
    take_up_state(mirror, BRANCH, write(tmp_path / "known", {"run.json": "{}"}))
    assert not (tmp_path / "known" / "summary.md").exists()
