"""The line that shows how far work is, in real terminals: it comes late, holds nothing up, and is gone at the end."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
from rich.cells import cell_len

from ralph.core.progress import TaskProgress
from ralph.ui.progress import ProgressBars
from ralph.ui.terminal import painted
from tests.support.hostile import TEXTS, steering
from tests.support.terminal import InTerminal

WORK = """
import os, sys, time
from ralph.core.progress import TaskProgress
from ralph.ui.progress import ProgressScreen

def until(name):
    while not os.path.exists(name):
        time.sleep(0.01)

screen = ProgressScreen(sys.stderr, os.environ)
print("before", flush=True)
try:
    with screen.shown(sys.argv[1]) as report:
        report(TaskProgress("files", 450, 1000, "450 of 1,000"))
        until("half")
        report(TaskProgress("files", 900, 1000, "900 of 1,000"))
        until("done")
        if len(sys.argv) > 2:
            raise KeyboardInterrupt
except KeyboardInterrupt:
    print("stopped")
print("after")
"""


def worker(place: Path, *args: str, **env: str) -> InTerminal:
    argv = [sys.executable, "-c", WORK, *(args or ("copying",))]
    return InTerminal(argv, place, {**os.environ, **env}, columns=100)


def test_the_line_follows_the_work_and_is_gone_at_its_end(tmp_path: Path) -> None:
    with worker(tmp_path) as running:
        running.shows("450 of 1,000")
        assert running.rows[0] == "before"
        assert running.rows[1].startswith("copying ")
        assert " 45 %" in running.rows[1]
        (tmp_path / "half").touch()
        running.shows("900 of 1,000")
        (tmp_path / "done").touch()
        assert running.wait() == 0
        assert running.text == "before\nafter"
        assert running.screen.is_as_a_shell_expects


def test_the_line_goes_away_when_the_work_is_ended(tmp_path: Path) -> None:
    with worker(tmp_path, "copying", "and stops") as running:
        running.shows("450 of 1,000")
        (tmp_path / "half").touch()
        (tmp_path / "done").touch()
        assert running.wait() == 0
        assert running.text == "before\nstopped\nafter"


def test_work_that_is_done_within_a_second_shows_nothing(tmp_path: Path) -> None:
    (tmp_path / "half").touch()
    (tmp_path / "done").touch()
    with worker(tmp_path) as running:
        assert running.wait() == 0
        assert running.said == "before\r\nafter\r\n"


def test_a_terminal_that_is_stopped_holds_no_work_up(tmp_path: Path) -> None:
    with worker(tmp_path) as running:
        running.shows("450 of 1,000")
        running.press("\x13")  # Ctrl-S
        (tmp_path / "half").touch()
        (tmp_path / "done").touch()
        running.press("\x11")  # Ctrl-Q: what comes after is written as ever
        assert running.wait() == 0
        assert running.rows[-1] == "after"


@pytest.mark.parametrize("env", [{"TERM": "dumb"}, {"CI": "true"}])
def test_where_nothing_can_be_redrawn_there_are_two_lines(tmp_path: Path, env: dict[str, str]) -> None:
    with worker(tmp_path, **env) as running:
        running.shows("copying")
        (tmp_path / "half").touch()
        (tmp_path / "done").touch()
        assert running.wait() == 0
        before, during, done, after = running.rows
        assert (before, during, after) == ("before", "copying", "after")
        assert done.startswith("copying: done in ")
        assert "\x1b" not in running.said


def test_without_colour_nothing_is_coloured(tmp_path: Path) -> None:
    with worker(tmp_path, NO_COLOR="1") as running:
        running.shows("450 of 1,000")
        assert "\x1b[36m" not in running.said
        (tmp_path / "half").touch()
        (tmp_path / "done").touch()
        assert running.wait() == 0


@pytest.mark.parametrize("columns", [10, 39, 60, 80, 120, 200])
def test_a_row_fits_whatever_is_in_it(columns: int) -> None:
    bars = ProgressBars(letters=True)
    for text in (*TEXTS.values(), "a" * 500, "漢字" * 100):
        row = bars.row(text, TaskProgress(text, 5, 9, text), 61.0, columns)
        shown = painted(row, columns, colour=True)
        assert "\n" not in shown
        assert not steering(shown)
        assert cell_len(re.sub("\x1b\\[[0-9;]*m", "", shown)) <= columns


@pytest.mark.parametrize(
    ("columns", "wanted"),
    [
        (120, "cloning https://example.org/a/b ⠋ receiving ━━━━━━━━━╺━━━━━━━━━━  45 % 12.00 MiB | 4.00 MiB/s 0:13"),
        (80, "cloning https://exampl… ⠋ receiving ━━━━╸━━━━━  45 % 12.00 MiB | 4.00 MiB/s 0:13"),
        (70, "cloning https://example… ⠋ receiving  45 % 12.00 MiB | 4.00 MiB/s 0:13"),
        (50, "cloning https://example.or… ⠋ receiving  45 % 0:13"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_left_out_last_the_title(columns: int, wanted: str) -> None:
    progress = TaskProgress("receiving", 450, 1000, "12.00 MiB | 4.00 MiB/s")
    row = ProgressBars(letters=True).row("cloning https://example.org/a/b", progress, 13.0, columns)
    said = "".join(segment.text for segment in row).rstrip()
    assert said == wanted


def test_a_terminal_that_knows_only_ascii_gets_only_that() -> None:
    row = ProgressBars(letters=False).row("x" * 500, TaskProgress("receiving", 1, 2), 13.0, 80)
    assert "".join(segment.text for segment in row).isascii()
