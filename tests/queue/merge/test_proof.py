"""The check of a merge, by a real `ralph check` in a checkout."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ralph.queue.merge.pipeline import CheckOutcome, check_checkout
from tests.support.git_repos import make_repo


@pytest.mark.parametrize(
    ("check", "how"),
    [("exit 3", "exit 3"), ("kill -9 $$", "killed by signal 9"), ("sleep 600", "out of time")],
)
def test_how_a_red_check_has_ended_is_said_as_it_is(world: Path, tmp_path: Path, check: str, how: str) -> None:
    repo = make_repo(tmp_path / "checkout", {".ralph/check": f"#!/bin/sh\necho begun\n{check}\n"})
    (repo / ".ralph" / "check").chmod(0o755)
    env = {**os.environ, "RALPH_CHECK_TIMEOUT": "2s"}
    found = check_checkout(repo, flags=[], env=env, complaints=tmp_path / "log", stop_requests=lambda: 0)
    assert isinstance(found, CheckOutcome)
    assert (found.exit_code, found.how) == (1, how)
    assert found.output.startswith(f"the check failed: {how}:\nbegun\n")
