"""A goal's run as rows of its transcript, while it is written; whatever its agent says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ralph.core import ndjson
from ralph.core.events import (
    Event,
    IterationStarted,
    RunEnded,
    Tag,
    Text,
    ToolEnd,
    ToolOutput,
    ToolStart,
    ToolStatus,
    Usage,
)
from ralph.core.records import to_json
from ralph.dashboard.board import TranscriptPage
from ralph.dashboard.frame import frame
from ralph.dashboard.transcript import Reading
from ralph.dashboard.view import View
from ralph.queue.news import GoalStatus
from ralph.ui.draw import painted, plain, width
from ralph.ui.render import Detail
from ralph.ui.transcript import TonedTelling
from tests.dashboard import boards
from tests.support.hostile import hostile_events, steering

AT = "2027-01-15T08:00:00.000Z"


def append(directory: Path, events: Iterable[Event], tail: bytes = b"") -> None:
    directory.mkdir(exist_ok=True)
    with (directory / "events.ndjson").open("ab") as file:
        for event in events:
            file.write(ndjson.encode_line({**to_json(event), "at": AT}))
        file.write(tail)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return tmp_path / "run"


@pytest.fixture
def reading(run: Path) -> Iterator[Reading]:
    opened = Reading(3, run, Path("/clone"), detailed=False)
    yield opened
    opened.close()


def look(reading: Reading, columns: int = 80) -> TranscriptPage:
    return reading.transcript(columns=columns, now=boards.NOW, seconds=75.0)


def text(told: TranscriptPage) -> str:
    return "\n".join(plain(row) for row in told.rows)


SESSION = [
    IterationStarted(2, "claude", "s"),
    Text(Tag.AI, "First I look around."),
    ToolStart("t", "Bash", {"command": "ls"}),
    ToolEnd("t", ToolStatus.OK),
]


def test_a_run_that_is_not_here_is_said(reading: Reading, run: Path) -> None:
    told = look(reading)
    assert (told.rows, told.note) == ((), f"no run of it is to be found on this machine, at\n{run}")


def test_a_run_that_has_told_nothing_whole_yet_is_being_read(reading: Reading, run: Path) -> None:
    append(run, [], b'{"type": "run_started"')
    told = look(reading)
    assert (told.rows, told.note) == ((), "reading…")


def test_it_tells_what_the_live_view_of_a_run_tells(reading: Reading, run: Path) -> None:
    append(run, SESSION)
    live = TonedTelling(Detail.NORMAL, "/clone")
    expected = [plain(line) for event in SESSION for line in live.lines(event, AT)]
    assert text(look(reading)).splitlines() == expected
    assert any("First I look around." in line for line in expected)


def test_what_is_written_later_follows_and_a_torn_line_waits_for_its_end(reading: Reading, run: Path) -> None:
    append(run, SESSION, b'{"type": "text", "tag": "AI", ')
    before = look(reading)
    assert "#2" in plain(before.status) or "iteration 2" in plain(before.status)
    with (run / "events.ndjson").open("ab") as file:
        file.write(f'"text": "and more", "at": "{AT}"}}\n'.encode())
    append(run, [RunEnded(0, "done", proven=True)])
    told = look(reading)
    assert "and more" in text(told)
    assert "done (exit 0)" in text(told)
    assert told.status == ()


def test_a_run_that_begins_anew_is_read_from_its_start(reading: Reading, run: Path) -> None:
    append(run, SESSION)
    look(reading)
    run.rename(run.with_name("old"))
    append(run, [Text(Tag.AI, "a new run")])
    assert text(look(reading)).endswith("a new run")


def test_rows_fit_the_terminal_also_after_its_size_has_changed(reading: Reading, run: Path) -> None:
    append(run, [Text(Tag.AI, "many words " * 40)])
    wide, narrow = len(look(reading, 200).rows), look(reading, 60).rows
    assert len(narrow) > wide
    assert max(width(plain(row)) for row in narrow) <= 60


def test_rows_that_nobody_scrolls_back_to_are_left_out_and_places_keep_their_numbers(
    reading: Reading, run: Path
) -> None:
    append(run, [Text(Tag.AI, f"line {number}") for number in range(9_000)])
    told = look(reading)
    assert len(told.rows) <= 8_000
    assert told.end == 9_000
    assert plain(told.rows[-1]).endswith("line 8999")


def spent(cost_usd: float, number: int = 1) -> list[Event]:
    """A session that has cost so much."""
    return [IterationStarted(number, "claude", "s"), Usage(prompt_tokens=1000, completion_tokens=0, cost_usd=cost_usd)]


def status(reading: Reading, sight: GoalStatus | None) -> str:
    told = [reading.transcript(columns=120, now=boards.NOW, seconds=75.0, sight=sight) for _ in range(12)]
    return plain(told[-1].status)  # by then all is there: a frame takes only so much at once


SEEN = GoalStatus("Bash", boards.NOW, None, 9, 40.0, 31.5, 2_000_000, boards.NOW)


def test_what_a_run_has_used_is_its_events_word_or_its_workers_whichever_knows_more(
    reading: Reading, run: Path
) -> None:
    append(run, [*spent(2.0), *spent(1.5, 2)])
    assert "iteration 2 · $3.50 · 2,000 tokens" in status(reading, None)
    assert "iteration 2 · $31.50 · 2.00M tokens" in status(reading, SEEN)
    behind = replace(SEEN, cost_usd=3.4, tokens=0)
    assert "iteration 2 · $3.50 · 2,000 tokens" in status(reading, behind)


def test_what_a_run_has_used_whose_beginning_was_not_read_is_its_workers_word_or_unsaid(
    reading: Reading, run: Path
) -> None:
    filling = [ToolOutput("t", "x" * 100_000)] * 90
    append(run, [*spent(30.0), *filling, Usage(cost_usd=1.5, prompt_tokens=5, completion_tokens=0, context_pct=40.0)])
    said = status(reading, SEEN)
    assert "what was before is told by: ralph-runs logs g3" in text(look(reading))
    for figure in ("iteration 9", "40 %", "$31.50", "2.00M tokens", "1m15s"):
        assert figure in said
    unseen = status(reading, None)
    assert "$" not in unseen
    assert "tok" not in unseen
    assert "iteration" not in unseen
    assert "40 %" in unseen


def test_an_agent_that_would_take_the_terminal_over_gets_nothing_of_it(reading: Reading, run: Path) -> None:
    append(run, hostile_events())
    told = look(reading)
    for _ in range(20):  # as much as a frame takes at once, until all is there
        told = look(reading)
    board = boards.board(boards.twelve(), bulletin=boards.bulletin(), served="x", transcript=told)
    assert len(told.rows) > 1000
    for bottom in range(24, told.end, 23):
        for line in frame(board, View(open=3, bottom=bottom), 80, 24)[1]:
            assert not steering(painted(line, 80, colour=True))
