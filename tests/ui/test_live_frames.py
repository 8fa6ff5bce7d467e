"""The whole live view at 60, 80 and 200 columns, as a person sees it: what scrolls, and the foot below."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

import tests
from tests.support.frames import same_as_golden
from tests.support.live_scene import OVER, WAITING
from tests.support.terminal import RalphInTerminal
from tests.support.waiting import wait_until

GOLDEN = Path(__file__).with_name("golden")
ROOT = Path(tests.__path__[0]).parent
AT_WORK_STATUS = {
    60: "#3/10 · ctx 42 % · $4.73 · quota! · Bash make check 2m40s",
    80: "#3/10 · ctx 42 % · $4.73/$5 · 47m55s left · quota! · Bash make check 2m40s",
    200: "iteration 3 of 10 · context ████░░░░░░ 42 % · $4.73 of $5.00 · 1.92M of 2.00M tokens · 12m05s, 47m55s left"
    " · quota 83 % · Bash make check 2m40s",
}
WAITING_STATUS = {
    60: "#3/10 · ctx 47 % · $5.00/$5 · 47m55s left · waiting 12:05",
    80: "#3/10 · ██░░░ 47 % · $5.00/$5 · 1.97M tok · 12m05s, 47m55s left · waiting 12:05",
    200: "iteration 3 of 10 · context █████░░░░░ 47 % · $5.00 of $5.00 · 1.97M of 2.00M tokens · 12m05s, 47m55s left"
    " · waiting 12:05",
}
LONG = "p: pause · s: stop after this iteration · d: detail (usual) · q: quit"
SHORT = "p: pause · s: stop · d: usual · q: quit"


@dataclass(frozen=True)
class Frame:
    """All that can be seen and scrolled to."""

    text: str

    @property
    def transcript(self) -> str:
        return self.text.rpartition("\n\n")[0]

    @property
    def foot(self) -> list[str]:
        return self.text.rpartition("\n\n")[2].split("\n")

    @property
    def words(self) -> str:
        """The transcript, wherever it is folded."""
        return " ".join(self.transcript.split())

    def fits(self, columns: int) -> bool:
        return all(len(row) <= columns for row in self.text.split("\n"))


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_a_run_is_at_work_then_waits_then_is_over(columns: int, tmp_path: Path) -> None:
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    with RalphInTerminal([], tmp_path, env, columns, module="tests.support.live_scene") as running:

        def frame_with(words: str) -> Frame:
            wait_until(lambda: words in "".join(running.rows[-2:]), f"{words!r} in the foot")
            return Frame(running.text)

        at_work = frame_with("make check")
        (tmp_path / WAITING).touch()
        waiting = frame_with("waiting 12:05")
        (tmp_path / OVER).touch()
        assert running.wait() == 0
        over = running.text
        assert running.screen.is_as_a_shell_expects
        written = running.said

    assert same_as_golden(f"{at_work.text}\n", GOLDEN / f"live-at-work-{columns}.txt")
    assert same_as_golden(f"{waiting.text}\n", GOLDEN / f"live-waiting-{columns}.txt")
    assert over == f"{waiting.transcript}\nresult     stopped: limit reached: --max-cost"
    assert waiting.text.startswith(at_work.transcript)
    assert at_work.fits(columns)
    assert waiting.fits(columns)
    _tells_what_the_agent_did(at_work)
    _tells_what_it_came_to(waiting)
    assert "\x1b[31m✗" in written
    assert "\x1b[32m✓" in written
    assert at_work.foot == [AT_WORK_STATUS[columns], SHORT if columns == 60 else LONG]
    assert waiting.foot == [WAITING_STATUS[columns], f"w: go on now · {LONG if columns == 200 else SHORT}"]


def _tells_what_the_agent_did(frame: Frame) -> None:
    for words in (
        "── iteration 3 ──",
        "session claude-opus-4-5 · agent version 2.1.325",
        "PLAN 1. Reproduce the fault with a test that fails. 2. Let the tokenizer",
        "agent I begin with the test, since nothing else shows that the separator is lost in the second pass.",
        "✗ Bash python -m pytest tests/test_tokens.py -k 'quoted and not nested' --maxfail=1 12s FAILED tests",
        "E AssertionError: 'a,b' != 'a' 1 failed in 12.04s",
        "✓ Edit src/tokens.py 0.0s - return",
        "note the agent is told to wrap up: 90 % of --max-cost are used",
        "quota nearly used up (five hour, 83 % used)",
    ):
        assert words in frame.words
    changes = [row for row in frame.text.split("\n") if row.startswith(("           -  ", "           +  "))]
    assert changes == [
        "           -    return text.replace('\\\\', '')",
        "           +    head, *rest = text.split('\\\\')",
        "           +    return head + ''.join(rest)",
    ]


def _tells_what_it_came_to(frame: Frame) -> None:
    for words in (
        "✓ Bash make check 1m05s ACTIONS Bash 2: 1 ok, 1 failed · 1m17s · 1,207 lines Edit 1: 1 ok · 0.0s REPORT",
        "REPORT 1,174,000 tokens: 1,150,000 in (900,000 cached), 24,000 out · $4.50 · context 47 %",
        "summary claims DONE commit 0123456789",
        "check red (exit 1) in 1m23s: DONE is withdrawn lint: ok",
        "1 failed, 1203 passed",
        "waiting until 01:03:05 UTC: the five hour quota is used up",
    ):
        assert words in frame.words
