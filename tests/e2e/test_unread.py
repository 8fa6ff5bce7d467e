"""A reader of ralph's lines who stops reading, `| less` say: the run goes on, within its limits."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.goals import result, write_goal
from tests.support.ralph_process import Ralph
from tests.support.waiting import wait_until

STEPS = 60
AGENT = f"""#!/bin/sh
i=0
while [ $i -lt {STEPS} ]; do
    i=$((i + 1))
    echo "step $i"
    cost=0.$(printf %02d $i)
    echo '@@RALPH@@ {{"type": "usage", "usage": {{"prompt_tokens": 1, "completion_tokens": 1, "cost_usd": '$cost'}}}}'
    sleep 0.25
done
"""


def fill(pipe: int) -> None:
    """Leave no room in a pipe."""
    for size in (4096, 1):
        try:
            while os.write(pipe, b"x" * size):
                pass
        except BlockingIOError:
            pass


def test_limits_hold_though_nobody_reads_what_is_said(repo: Path, ralph: Ralph, tmp_path: Path) -> None:
    write_goal(repo)
    agent = tmp_path / "agent"
    agent.write_text(AGENT)
    agent.chmod(0o755)
    reading, writing = os.pipe()
    filling = os.open(f"/proc/self/fd/{writing}", os.O_WRONLY | os.O_NONBLOCK)
    argv = [sys.executable, "-P", "-m", "ralph", "run", "goal.md", "--agent-cmd", str(agent), "--transcript", "rtf1"]
    with subprocess.Popen([*argv, "--max-cost", "0.05"], cwd=repo, env=dict(ralph.env), stdout=writing) as process:
        os.close(writing)
        said = b""
        while b"step 1" not in said:
            said += os.read(reading, 65536)
        fill(filling)
        os.close(filling)
        wait_until((repo / ".ralph" / "runs" / "goal" / "result.json").exists, "the run to end unread")
        assert process.poll() is None, "its last words wait for the reader"
        unread = b""
        while more := os.read(reading, 65536):
            unread += more
        os.close(reading)
        assert process.wait() == 4
    assert result(repo)["reason"] == "limit reached: --max-cost"
    assert result(repo)["cost_usd"] <= 0.30, "it would have cost 0.60"
    told = unread.lstrip(b"x").decode()
    assert [f"step {number}\n" in told for number in (2, 3, 4, 5)] == [True] * 4
    assert "limit reached: --max-cost" in told
