"""How long `ralph-runs` takes as a queue grows: processor time of whole commands, as ratios with wide margins."""

from __future__ import annotations

import json
import resource
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.git_repos import make_repo
from tests.support.ralph_process import Ralph


class Timed:
    """Runs commands and tells the processor time that each took, which other work on the machine hardly changes."""

    def __init__(self, runs: Ralph, folder: Path) -> None:
        self._runs, self._folder = runs, folder
        self._repo = make_repo(folder / "upstream", {"README.md": "# x\n"})

    def __call__(self, queue: str, *args: str | Path) -> tuple[float, str]:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = self._runs(*args, "--db", f"sqlite:///{self._folder}/{queue}.sqlite", cwd=self._folder, timeout=900)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert done.exit_code == 0, done.stderr
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout

    def add(self, queue: str, count: int) -> float:
        goals = self._folder / f"goals-{queue}"
        goals.mkdir()
        for number in range(count):
            text = f"---\nagent: demo\npriority: {number % 7}\n---\n# Goal {number}\n\n## Objective\nWrite {number}.\n"
            (goals / f"goal-{number}.md").write_text(text)
        return self(queue, "add", goals, "--queue", "--repo", self._repo)[0]


@pytest.fixture
def timed(ralph_runs: Ralph, tmp_path: Path) -> Timed:
    # Not forked: the fork server waits for its children itself, so their time is not among that of ours.
    return Timed(replace(ralph_runs, forks=None), tmp_path)


def require_growth(timed: Timed, few: int, many: int) -> None:
    """Fail where `add` is not linear, or `list` or `stats` are slower than the issue allows for 10,000 goals."""
    assert timed.add("many", many) <= 1.2 * (many / few) * timed.add("few", few)
    empty, _ = timed("empty", "list", "--json")
    listing, listed = timed("many", "list", "--json")
    assert len(json.loads(listed)) == many
    assert listing <= 3 * empty
    empty, _ = timed("empty", "stats")
    counting, counted = timed("many", "stats", "--json")
    assert json.loads(counted)["states"] == {"queued": many}
    assert counting <= 3 * empty


def test_commands_stay_fast_as_a_queue_grows(timed: Timed) -> None:
    require_growth(timed, few=60, many=600)


@pytest.mark.long
def test_commands_stay_fast_with_ten_thousand_goals(timed: Timed) -> None:
    require_growth(timed, few=1_000, many=10_000)
