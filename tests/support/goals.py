"""Goals and checks for tests: written into a repository, untracked, as a user would."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

GOAL = """# The answer is 42

## Objective
Create `answer.txt` with the answer.

## Acceptance
- It holds the line 42.
"""

CHECK_42 = '#!/bin/sh\ngrep -qx 42 answer.txt || { echo "not 42 but: $(cat answer.txt)"; exit 1; }\n'


def write_goal(repo: Path, text: str = GOAL, name: str = "goal.md") -> Path:
    path = repo / name
    path.write_text(text)
    return path


def write_check(repo: Path, text: str = CHECK_42) -> Path:
    path = repo / ".ralph" / "check"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def run_directory(repo: Path, goal: str = "goal") -> Path:
    """The run directory, found the way a person would: through the link in `.ralph/`."""
    return (repo / ".ralph" / "runs" / goal).resolve()


def result(repo: Path, goal: str = "goal") -> dict[str, Any]:
    return json.loads((run_directory(repo, goal) / "result.json").read_text())


def state(repo: Path, name: str) -> dict[str, Any]:
    return json.loads((repo / ".ralph" / "state" / name).read_text())


def raw_logs(repo: Path, goal: str = "goal") -> list[Path]:
    """The raw logs of the agent's sessions, oldest first."""
    return sorted((run_directory(repo, goal) / "logs" / "claude").glob("*.ndjson"))


def raw_events(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_bytes().split(b"\n") if line]


def last_cost(log: Path) -> float:
    """The last cumulative cost that a session reported."""
    return [event["total_cost_usd"] for event in raw_events(log) if event["type"] == "result"][-1]
