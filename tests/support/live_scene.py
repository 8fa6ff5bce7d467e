"""A run that was recorded, shown by the live view at moments that are always the same: `python -m` in a terminal.

It goes on to the next scene when a file of that scene's name is in the working directory.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from ralph.core.events import (
    CheckEnded,
    CheckStarted,
    Event,
    IterationEnded,
    IterationStarted,
    RateLimited,
    SessionEnded,
    SessionStarted,
    Tag,
    Text,
    ToolEnd,
    ToolOutput,
    ToolStart,
    ToolStatus,
    Usage,
    Waiting,
)
from ralph.core.guidance import Steering
from ralph.core.limits import Limits
from ralph.core.text import instant
from ralph.core.usage import Spend
from ralph.ui.console import Console
from ralph.ui.live import LiveRun, LiveTerminal, LiveView
from ralph.ui.output import Output
from ralph.ui.render import Detail
from ralph.ui.run_keys import RunControls, RunKeys
from ralph.ui.terminal import terminal

CHECKING, WAITING, OVER = "checking", "waiting", "over"

BEGUN = "2026-11-16T00:48:20.000Z"
LATER = "2026-11-16T00:51:00.000Z"
_NOW = instant(LATER) or 0.0
_PLAN = """Plan:
1. Reproduce the fault with a test that fails.
2. Let the tokenizer keep the escapes, and only the last step resolve them, so that a quoted separator stays quoted.
"""
_EDIT = {
    "file_path": "/repo/src/tokens.py",
    "old_string": "def resolve(text):\n    return text.replace('\\\\', '')\n",
    "new_string": "def resolve(text):\n    head, *rest = text.split('\\\\')\n    return head + ''.join(rest)\n",
}
_MESSAGE = """I begin with the **test**, since nothing else shows that the separator is lost in `split_row`:

```python
def test_quoted():
    assert split("'a,b'") == ["a,b"]
```
- it fails today
- *nothing* else covers it
"""
_TEST = "python -m pytest tests/test_tokens.py -k 'quoted and not nested' --maxfail=1"
_FAILED = "FAILED tests/test_tokens.py::test_quoted\nE   AssertionError: 'a,b' != 'a'\n1 failed in 12.04s"

WORK: list[Event] = [
    IterationStarted(3, "s", "log"),
    SessionStarted("s", "claude-opus-4-5", "2.1.325", (), "default"),
    Text(Tag.THINK, _PLAN),
    Text(Tag.AI, _MESSAGE),
    ToolStart("1", "Bash", {"command": _TEST}),
    ToolOutput("1", _FAILED),
    ToolEnd("1", ToolStatus.FAIL, 12_300),
    Text(Tag.THINK, "The escape is gone before the split."),
    ToolStart("2", "Edit", _EDIT),
    ToolEnd("2", ToolStatus.OK, 40, line=118),
    Text(Tag.SYS, "--max-cost $5.00 is nearly used up: asking the agent to wrap up"),
    Usage(1_100_000, 20_000, 1_120_000, cache_read_tokens=900_000, context_pct=42.4, cost_usd=4.234),
    RateLimited("allowed_warning", None, "five_hour", 0.83),
    ToolStart("3", "Bash", {"command": "make check"}),
    ToolOutput("3", "\n".join(f"tests/test_rows.py::test_row[{number}] PASSED" for number in range(40))),
]
CLAIM: list[Event] = [
    ToolOutput("3", "ok\n" * 1204),
    ToolEnd("3", ToolStatus.OK, 65_000),
    ToolStart("4", "StructuredOutput", {"summary": "DONE"}),
    ToolEnd("4", ToolStatus.OK, 1),
    Usage(1_150_000, 24_000, 1_174_000, cache_read_tokens=900_000, context_pct=47.0, cost_usd=4.5),
    SessionEnded("s", "ok", "", "", degraded=False, exit_code=0, log="log"),
    IterationEnded(3, "DONE", "0123456789abcdef", 4.5, 47.0, "DONE"),
    CheckStarted(3),
]
REST: list[Event] = [
    CheckEnded(1, 83.0, "lint: ok\ntests/test_rows.py:14: expected 3 rows, found 2\n1 failed, 1203 passed"),
    Waiting("the five hour quota is used up", _NOW + 725),
]


def show() -> None:
    """Show the scenes, one after the other."""
    output = Output(sys.stdout)
    controls = RunControls(ask=lambda _: None, asked=Steering(list), end=lambda: None, is_ending=lambda: False)
    colour = terminal(sys.stdout, os.environ).colour
    limits = Limits(iterations=10, duration=3600, cost_usd=5.0, tokens=2_000_000)
    place = LiveTerminal(output, sys.stdin, sys.stdout, colour, continued=lambda: 0, suspend=lambda: None)
    run = LiveRun(limits, Spend(0.5, 800_000), "/repo", seconds=lambda: 725.0, now=lambda: _NOW)
    view = LiveView(place, run, RunKeys(controls, Detail.NORMAL), Console(output))
    view.say("ralph", "goal.md · claude · at most 10 iterations, 1h00m, $5.00")
    view(WORK, BEGUN, b"")
    _come_to(CHECKING)
    view(CLAIM, BEGUN, b"")
    view.print_check(b"lint: ok\ntests/test_rows.py:14: ")
    view.print_check(b"expected 3 rows, found 2\n\x1b]0;owned\x07")
    _come_to(WAITING)
    view(REST, LATER, b"")
    _come_to(OVER)
    view.say("result", "stopped: limit reached: --max-cost")
    view.close()


def _come_to(scene: str) -> None:
    while not Path(scene).exists():
        time.sleep(0.01)


if __name__ == "__main__":
    show()
