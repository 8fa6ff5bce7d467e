"""Four goals at once in clones of their own, each worker: the real Claude Code, against one scripted model."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support import tools
from tests.support.api_replies import Reply, Say, tool
from tests.support.batches import Batch, merged_goals, require_green_history, require_linear
from tests.support.git_repos import commits, git
from tests.support.messages_api import ServeMessages
from tests.support.real_claude import claude_env

NAMES = ("amber", "birch", "cedar", "drift")


class Model:
    """Answers each goal's requests by that goal's own script, in whatever order they come."""

    def __init__(self) -> None:
        self.asked = Counter[str]()
        self._together = threading.Barrier(len(NAMES), timeout=60)

    def __call__(self, _: int, request: dict[str, Any]) -> Reply:
        prompt = str(request["messages"])
        (name,) = [name for name in NAMES if f"Write {name}." in prompt]
        self.asked[name] += 1
        match self.asked[name]:
            case 1:
                self._together.wait()  # all four sessions are open at this moment
                command = f"mkdir -p texts && echo Fine. > texts/{name}.txt"
                return Say(tool("Bash", command=command, description="write it"))
            case 2:
                return Say(tool("StructuredOutput", summary=f"wrote {name}.txt"))
            case _:
                return Say(tool("StructuredOutput", summary="DONE"))


@pytest.mark.long
def test_four_real_claudes_in_parallel_clones(
    batch: Batch, bin_dir: Path, world: Path, tmp_path: Path, messages_api: ServeMessages
) -> None:
    (bin_dir / "claude").symlink_to(tools.find("claude"))
    upstream = batch.upstream()
    for name in NAMES:
        batch.goal(name, [], agent="claude", model="sonnet")
    model = Model()
    api = messages_api(model)
    env = claude_env(world / "home", api.url) | {"PATH": batch.runs.env["PATH"], "API_TIMEOUT_MS": "60000"}

    finished = batch.run(batch.root / "goals", "--repo", upstream, "--max", "4", env=env)

    assert finished.exit_code == 0, finished.stdout + finished.stderr
    assert batch.states() == dict.fromkeys(NAMES, "done")
    assert sorted(merged_goals(upstream)) == sorted(NAMES)
    assert batch.leftovers() == []
    require_linear(upstream)
    require_green_history(upstream, tmp_path / "history")

    assert model.asked == dict.fromkeys(NAMES, 3)
    assert len(api.ledger.main) == 3 * len(NAMES)
    (mirror,) = batch.ralph_dir.glob("mirrors/local/*.git")
    kept = git(mirror, "for-each-ref", "--format=%(refname)", "refs/ralph/done").split()
    last = [commits(mirror, branch)[-1] for branch in kept]
    assert sum(int(commit.trailers["Ralph-Tokens"]) for commit in last) == api.ledger.tokens.total
    costs = [float(commit.trailers["Ralph-Cost-USD"]) for commit in commits(upstream, "main")[1:]]
    assert min(costs) > 0
    assert sum(costs) == pytest.approx(sum(goal["cost_usd"] for goal in batch.goals().values()))
