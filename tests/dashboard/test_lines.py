"""The last words of a queue worker."""

from __future__ import annotations

import contextlib
import os
import termios
import time

import pytest

from ralph.dashboard.lines import Progress
from ralph.queue.goals import State
from ralph.queue.news import News, NewsKind
from tests.dashboard.boards import goal
from tests.support.terminal import read_terminal

OVER = "--max-cost: $0.88 of $0.30 spent; continue with a new budget: ralph-runs run --db sqlite:////srv/queue.sqlite"


def test_a_summary_says_what_else_is_queued_and_how_to_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    goals = [goal(number, f"goal-{number}", State.QUEUED) for number in range(1, 100)]
    progress = Progress(as_json=False, quiet=True)
    for each in goals[:6]:
        progress(News(0.0, NewsKind.STARTED, "on a branch", each))
    progress.summary(goals, 4, OVER)
    *_, tally, others, last = capsys.readouterr().out.splitlines()
    assert tally == "6 goals: 6 queued"
    assert others == "and 93 more in the queue, not started: ralph-runs list"
    assert last == OVER


@pytest.mark.parametrize(
    ("stuck", "named"),
    [
        (1, "g1 --db x"),
        (3, "g1 --db x (also g2, g3)"),
        (5, "g1 --db x (also g2, g3, g4, g5)"),
        (8, "g1 --db x (also g2, g3, g4, g5 and 3 more)"),
    ],
)
def test_a_summary_names_all_that_is_stuck(stuck: int, named: str, capsys: pytest.CaptureFixture[str]) -> None:
    goals = [goal(number, f"goal-{number}", State.STUCK) for number in range(1, stuck + 1)]
    progress = Progress(as_json=False, quiet=True, flag=" --db x")
    for each in goals:
        progress(News(0.0, NewsKind.STUCK, "out of attempts", each))
    progress.summary(goals, 1)
    assert capsys.readouterr().out.splitlines()[-1] == f"why goals are stuck, and what to do: ralph-runs show {named}"


def test_commands_in_ralphs_own_notes_name_the_queue_and_words_of_agents_stay_as_they_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    progress = Progress(as_json=False, quiet=False, flag=" --db sqlite:////srv/q")
    progress(News(0.0, NewsKind.NOTE, "log in; then: ", command=("retry", "g7")))
    progress(News(0.0, NewsKind.ITERATION, "iteration 1: wrote how ralph-runs retry works"))
    note, iteration = capsys.readouterr().out.splitlines()
    assert note.endswith("log in; then: ralph-runs retry --db sqlite:////srv/q g7")
    assert iteration.endswith("iteration 1: wrote how ralph-runs retry works")


def test_a_reader_who_does_not_read_holds_nobody_up_who_is_asked_to_end() -> None:
    read, write = os.pipe()
    os.set_blocking(write, False)
    with contextlib.suppress(BlockingIOError):
        while os.write(write, bytes(65536)):
            pass
    os.set_blocking(write, True)
    with os.fdopen(write, "w") as pipe, contextlib.redirect_stdout(pipe):
        progress = Progress(as_json=False, quiet=False)
        progress.asked_to_end = lambda: True
        began = time.monotonic()
        progress(News(0.0, NewsKind.NOTE, "stopping"))
        assert time.monotonic() - began < 30, "else it has a minute"
        os.close(read)
        with contextlib.suppress(BrokenPipeError):
            pipe.close()


def test_what_a_view_has_covered_is_written_whole_when_it_ends() -> None:
    near, far = os.openpty()
    termios.tcsetwinsize(far, (24, 80))
    with os.fdopen(far, "w") as terminal, contextlib.redirect_stdout(terminal):
        progress = Progress(as_json=False, quiet=False)
        progress.cover()
        progress(News(0.0, NewsKind.BUDGET, OVER))
        progress.uncover()
        terminal.flush()
        said = read_terminal(near).decode()
    os.close(near)
    assert said.rstrip().endswith(OVER)
