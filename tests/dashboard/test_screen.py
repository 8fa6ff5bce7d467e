"""The dashboard's thread in a terminal: what it leaves there, and what is left when it breaks.

Keys are heard only where ralph is in the foreground: `tests/e2e/test_runs_dashboard.py` presses them.
"""

from __future__ import annotations

import os
import re
import select
import termios
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ralph.dashboard.lines import Progress
from ralph.dashboard.screen import DashboardTerminal, Showing
from ralph.dashboard.source import BoardSource
from ralph.queue.database import default_url
from ralph.queue.goals import State, Submission
from ralph.queue.news import Bulletin, GoalStatus, News, NewsKind
from ralph.queue.open import QueueAddress
from ralph.queue.store import Store, open_store
from ralph.system.signals import Signals
from tests.dashboard import boards
from tests.support.hostile import TEXTS, steering
from tests.support.terminal import Screen
from tests.support.waiting import wait_until


class Terminal:
    """Both ends of a pseudo-terminal."""

    def __init__(self) -> None:
        self._near, far = os.openpty()
        termios.tcsetwinsize(far, (24, 80))
        self.stdin, self.stdout = os.fdopen(far, "r"), os.fdopen(os.dup(far), "w")
        self.before = termios.tcgetattr(far)
        self.screen, self.said = Screen(80), b""

    @property
    def rows(self) -> list[str]:
        while select.select([self._near], [], [], 0)[0]:
            data = os.read(self._near, 65536)
            self.said += data
            self.screen.feed(data)
        return self.screen.rows

    def shows(self, words: str) -> None:
        wait_until(lambda: any(words in row for row in self.rows), f"{words!r} on the screen")

    def close(self) -> None:
        self.stdin.close()
        self.stdout.close()
        os.close(self._near)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    opened = Terminal()
    yield opened
    opened.close()


@pytest.fixture
def place(tmp_path: Path) -> QueueAddress:
    return QueueAddress(default_url(tmp_path), tmp_path, {}, 2, "claude")


@pytest.fixture
def store(place: QueueAddress) -> Iterator[Store]:
    opened = open_store(place.url)
    assert opened is not None
    yield opened
    opened.close()


Show = Callable[[Callable[[], Bulletin], Progress], Showing]


@pytest.fixture
def show(terminal: Terminal, place: QueueAddress, store: Store) -> Show:
    dashboard_terminal = DashboardTerminal(terminal.stdin, terminal.stdout, True, lambda: 0)
    return lambda told, progress: Showing(
        dashboard_terminal, BoardSource(place, store, told), place, store, progress, Signals()
    )


def added(store: Store, *names: str) -> None:
    store.submit([Submission(name, name, "x", f"/{name}.md", "/repo") for name in names], State.QUEUED)


def is_as_before(terminal: Terminal) -> bool:
    """Whether the terminal is as a shell left it: its settings, and its own screen."""
    rows = terminal.rows
    assert rows
    written = terminal.said.decode()
    is_left = written.endswith("\x1b[?1049l") and terminal.screen.is_as_a_shell_expects
    return is_left and termios.tcgetattr(terminal.stdin) == terminal.before


def test_it_covers_the_lines_and_leaves_the_terminal_as_it_was(
    terminal: Terminal, store: Store, show: Show, capsys: pytest.CaptureFixture[str]
) -> None:
    added(store, "alpha", "beta")
    progress = Progress(as_json=False, quiet=False)
    with show(lambda: boards.bulletin(statuses={}, merging=()), progress):
        terminal.shows("beta")
        progress(News(0.0, NewsKind.STARTED, "on ralph/alpha", store.goal(1)))
        progress(News(0.0, NewsKind.NOTE, "$2.00 of $2.00 spent: stopping"))
        assert capsys.readouterr().out == ""
    assert is_as_before(terminal)
    assert "spent: stopping" in (said := capsys.readouterr().out)
    assert "on ralph/alpha" not in said


def test_figures_stay_when_an_attempt_goes_over_to_its_merge(terminal: Terminal, store: Store, show: Show) -> None:
    added(store, "alpha")
    store.move(store.goal(1), State.RUNNING, starts=1, attempts=1)
    told = [boards.bulletin(statuses={1: GoalStatus("Bash", iteration=2, cost_usd=0.52, tokens=9)}, merging=())]
    rows: list[str] = []

    def is_merging() -> bool:
        rows.extend(row for row in terminal.rows if row[2:5] == "g1 " and not row.endswith("─"))
        return "◆ g1" in rows[-1]

    with show(lambda: told[-1], Progress(as_json=False, quiet=True)):
        terminal.shows("$0.52")
        store.note(store.goal(1), unmerged={"proven": True}, iterations=2, cost_usd=0.52, costed=True)
        told.append(boards.bulletin(statuses={}, merging=(1,)))
        wait_until(is_merging, "it is merged")
    assert [row for row in rows if "$0.52" not in row] == []


def test_a_broken_view_gives_the_terminal_back_and_lines_go_on(
    terminal: Terminal, store: Store, show: Show, capsys: pytest.CaptureFixture[str]
) -> None:
    added(store, "alpha")
    progress = Progress(as_json=False, quiet=False)
    calls: list[int] = []

    def told() -> Bulletin:
        calls.append(1)
        if len(calls) > 3:
            raise ZeroDivisionError("a bug")
        return boards.bulletin(statuses={}, merging=())

    with show(told, progress):
        wait_until(lambda: is_as_before(terminal), "the terminal is given back")
        wait_until(lambda: not progress.is_covered, "lines are written again")
        progress(News(0.0, NewsKind.STARTED, "on ralph/alpha", store.goal(1)))
    said = capsys.readouterr().out
    assert said.count("the dashboard failed (ZeroDivisionError('a bug')); continuing with plain lines") == 1
    assert "started on ralph/alpha" in said


def seconds_of_silence(terminal: Terminal) -> int:
    """For how long the queue has not answered, as far as the screen tells."""
    told = re.search(r"no answer for (\d+)s", "\n".join(terminal.rows))
    return int(told[1]) if told else 0


def test_a_queue_that_does_not_answer_holds_up_neither_frames_nor_the_end(
    terminal: Terminal, store: Store, show: Show
) -> None:
    added(store, "alpha")
    answers = threading.Event()
    answers.set()

    def told() -> Bulletin:
        if threading.current_thread().name == "database":  # which reads the queue
            answers.wait()
        return boards.bulletin(statuses={}, merging=())

    with show(told, Progress(as_json=False, quiet=True)):
        terminal.shows("alpha")
        answers.clear()
        terminal.shows("locked or slow: no answer for ")
        first = seconds_of_silence(terminal)
        wait_until(lambda: seconds_of_silence(terminal) > first, "the seconds to be counted")
        assert any("alpha" in row for row in terminal.rows), "what was known is still there"
        answers.set()
        wait_until(lambda: not any("no answer" in row for row in terminal.rows), "the queue is read again")
    assert is_as_before(terminal)


def test_whatever_goals_say_the_terminal_is_not_theirs(terminal: Terminal, store: Store, show: Show) -> None:
    texts = [text[:300] for text in TEXTS.values() if "\x00" not in text and "\ud800" not in text]
    store.submit(
        [Submission(f"goal-{number}", text, "x", f"/{text}.md", text) for number, text in enumerate(texts)],
        State.QUEUED,
    )
    for text in texts:
        store.publish(News(0.0, NewsKind.NOTE, text))
    told = boards.bulletin(
        host=TEXTS["OSC 0, a title"], waits={TEXTS["clears the screen"]: boards.NOW * 2}, statuses={}
    )
    with show(lambda: told, Progress(as_json=False, quiet=True)):
        terminal.shows("goal-1")
        terminal.shows("ralph-runs  ")
    assert is_as_before(terminal)
    assert steering(terminal.said.decode()) == []
    assert terminal.screen.title == ""
