"""The whole live view in terminals of several sizes, as a person sees it: what scrolls, and the footer below."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

import tests
from tests.support.frames import same_as_golden
from tests.support.hostile import steering
from tests.support.live_scene import CHECKING, OVER, WAITING
from tests.support.terminal import RalphInTerminal
from tests.support.waiting import wait_until

GOLDEN = Path(__file__).with_name("golden")
ROOT = Path(tests.__path__[0]).parent
SIZES = [(40, 10), (80, 24), (100, 30), (120, 40), (200, 50)]
LONG = "p: pause · s: stop after this iteration · d: detail (usual) · q: quit"
SHORT = "p: pause · s: stop · d: usual · q: quit"

_SIXTEEN_COLOURS = {"0", "1", "2", "3", "4", "7", *(str(code) for code in (*range(30, 38), *range(90, 98)))}
_COLOURS = {"31", "32", "33", "35", "36"}


@pytest.mark.parametrize("colour", [True, False], ids=["16 colours", "NO_COLOR"])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_a_run_is_at_work_then_is_checked_then_waits_then_is_over(
    size: tuple[int, int], colour: bool, tmp_path: Path
) -> None:
    columns, height = size
    env = os.environ | {"PYTHONPATH": str(ROOT), **({} if colour else {"NO_COLOR": "1"})}
    with RalphInTerminal([], tmp_path, env, columns, height, module="tests.support.live_scene") as running:

        def frame_with(scrolled: str, footer: Sequence[str], scene: str) -> str:
            def is_whole() -> bool:
                return scrolled in running.text and all(words in "\n".join(running.rows[-12:]) for words in footer)

            wait_until(is_whole, f"{scrolled!r}, and {footer!r} in the footer")
            text = running.text
            assert all(len(row) <= columns for row in text.split("\n"))
            if colour:  # without, the words are the same
                assert same_as_golden(f"{text}\n", GOLDEN / f"live-{scene}-{columns}x{height}.txt")
            if size == (120, 40):
                looks = f"{running.screen.looks}\n"
                assert same_as_golden(looks, GOLDEN / f"live-{scene}-looks-{'colour' if colour else 'plain'}.txt")
            return text

        at_work = frame_with("quota      nearly", ["Bash make check 2m40s"], "at-work")
        keys = at_work.split("\n")[-1]
        (tmp_path / CHECKING).touch()
        frame_with("commit 0123456789", ["checking 2m40s", *(["expected 3 rows"] if height > 10 else [])], CHECKING)
        (tmp_path / WAITING).touch()
        waiting = frame_with("waiting    until", ["waiting 12:05"], WAITING)
        (tmp_path / OVER).touch()
        assert running.wait() == 0
        over = running.text
        assert running.screen.is_as_a_shell_expects
        assert running.screen.title == ""
        written = running.said

    assert keys == (SHORT if columns == 40 else LONG)
    stopped = "\nresult     stopped: limit reached: --max-cost"
    assert " ".join(over.split()) == " ".join(f"{transcript(waiting)}{stopped}".split())
    assert transcript(waiting).startswith(transcript(at_work))
    assert not steering(written)
    used = {code for attributes in re.findall("\x1b\\[([0-9;]+)m", written) for code in attributes.split(";")}
    assert used <= _SIXTEEN_COLOURS
    assert used & _COLOURS == (_COLOURS if colour else set())
    for words in (
        "PLAN 1. Reproduce the fault",
        "✗ Bash python -m pytest",
        "FAILED tests/test_tokens.py::test_quoted",
        "✓ Edit src/tokens.py +2 -1",
        "118 -",
        "119 +",
        "asking the agent to wrap up",
        "✓ Bash make check",
        "summary claims DONE",
        "check red (exit 1) in 1m23s",
    ):
        assert words in " ".join(over.split()) or columns == 40


def transcript(frame: str) -> str:
    """What has scrolled: all above the footer, which begins with a rule."""
    return re.split("\n─+\n", frame)[0].rstrip("\n")
