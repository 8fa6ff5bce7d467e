"""A goal's run as rows of its transcript, while it is written; whatever its agent says."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from ralph.core import ndjson
from ralph.core.events import (
    CheckEnded,
    CheckStarted,
    Event,
    IterationEnded,
    IterationStarted,
    RunEnded,
    RunStarted,
    Tag,
    Text,
    ToolEnd,
    ToolOutput,
    ToolStart,
    ToolStatus,
)
from ralph.core.records import to_json
from ralph.dashboard.board import GoalPage
from ralph.dashboard.transcript import Reading
from ralph.dashboard.view import View
from ralph.ui.render import Detail
from ralph.ui.terminal import painted
from ralph.ui.transcript import TranscriptRenderer
from tests.dashboard import boards
from tests.dashboard.boards import frame
from tests.support.frames import lines
from tests.support.hostile import hostile_events, steering

AT = "2027-01-15T08:00:00.000Z"
BEGUN = RunStarted("g", "r", "/r", "b", "claude", "/claude", "t", "opus", "off", "check", continued=False, iteration=1)


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


def look(reading: Reading, columns: int = 80) -> GoalPage:
    return reading.page(columns)


def text(told: GoalPage) -> str:
    return "\n".join(boards.shown(row).rstrip() for row in told.rows)


SESSION = [
    IterationStarted(2, "claude", "s"),
    Text(Tag.AI, "First I look around."),
    ToolStart("t", "Bash", {"command": "ls"}),
    ToolEnd("t", ToolStatus.OK),
]


def test_a_run_that_is_not_here_is_said(reading: Reading, run: Path) -> None:
    told = look(reading)
    assert (told.rows, told.note) == ((), f"no run of this goal on this machine, at\n{run}")


def test_a_run_that_has_told_nothing_whole_yet_is_being_read(reading: Reading, run: Path) -> None:
    append(run, [], b'{"type": "run_started"')
    told = look(reading)
    assert (told.rows, told.note) == ((), "reading…")


def test_it_tells_what_the_live_view_of_a_run_tells(reading: Reading, run: Path) -> None:
    append(run, SESSION)
    live = TranscriptRenderer(Detail.NORMAL, "/clone")
    expected = [row for event in SESSION for said in live.tell(event, AT) for row in lines(live.rows(said, 80))]
    assert text(look(reading)).splitlines() == expected
    assert any("First I look around." in line for line in expected)


def test_the_latest_messages_are_rendered_as_markdown(reading: Reading, run: Path) -> None:
    append(run, [Text(Tag.AI, f"line **{number}**") for number in range(100)])
    told = text(look(reading)).splitlines()
    assert told[0] == "agent      line **0**", "rendering all of a long transcript would take seconds"
    assert told[-30:] == [f"agent      line {number}" for number in range(70, 100)]
    append(run, [Text(Tag.AI, "and **more**")])
    assert text(look(reading)).endswith("and more")


def test_a_run_began_when_the_clocks_here_say(
    reading: Reading, run: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    request.addfinalizer(time.tzset)
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "XXX-5")
        time.tzset()
        append(run, [BEGUN])
        assert text(look(reading)).startswith("run        started 2027-01-15 13:00 · claude · model opus")


def test_what_is_written_later_follows_and_a_torn_line_waits_for_its_end(reading: Reading, run: Path) -> None:
    append(run, SESSION, b'{"type": "text", "tag": "AI", ')
    before = look(reading)
    assert "First I look around." in text(before)
    with (run / "events.ndjson").open("ab") as file:
        file.write(f'"text": "and more", "at": "{AT}"}}\n'.encode())
    append(run, [RunEnded(0, "done", proven=True)])
    told = look(reading)
    assert "and more" in text(told)
    assert "done (exit 0)" in text(told)


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
    assert max(len(boards.shown(row)) for row in narrow) <= 60


def test_rows_that_nobody_scrolls_back_to_are_left_out_and_places_keep_their_numbers(
    reading: Reading, run: Path
) -> None:
    append(run, [Text(Tag.AI, f"line {number}") for number in range(9_000)])
    told = look(reading)
    assert len(told.rows) <= 8_000
    assert told.end == 9_000
    assert boards.shown(told.rows[-1]).endswith("line 8999")


def test_what_the_last_check_and_the_last_iteration_said_is_kept(reading: Reading, run: Path) -> None:
    ended = IterationEnded(2, "CONTINUE", "3f2a91c", 0.5, 42.0, "Which currency do refunds use?")
    append(run, [*SESSION, ended, CheckStarted(2), CheckEnded(1, 2.0, "1 failed"), *SESSION])
    told = look(reading)
    assert (told.last_words, told.check, told.is_green) == ("Which currency do refunds use?", "1 failed", False)
    append(run, [CheckEnded(0, 2.0, "1 passed")])
    assert (look(reading).check, look(reading).is_green) == ("1 passed", True)


def test_a_preview_reads_the_end_alone_and_the_page_says_what_was_left_out(run: Path) -> None:
    append(run, [ToolOutput("t", "x" * 100_000)] * 90 + [Text(Tag.AI, "the end")])
    for whole in (False, True):
        opened = Reading(3, run, Path("/clone"), detailed=False, whole=whole)
        told = [look(opened) for _ in range(12)][-1]  # by then all is there: a frame takes only so much at once
        opened.close()
        assert text(told).rstrip().endswith("the end")
        assert ("earlier lines: ralph-runs log g3 -f" in text(told)) == whole


def test_an_agent_that_would_take_the_terminal_over_gets_nothing_of_it(reading: Reading, run: Path) -> None:
    append(run, hostile_events())
    told = look(reading)
    for _ in range(20):  # as much as a frame takes at once, until all is there
        told = look(reading)
    board = boards.board(boards.twelve(), bulletin=boards.bulletin(), served="x", page=told)
    assert len(told.rows) > 1000
    for bottom in range(24, told.end, 23):
        for line in frame(board, View(open=3, bottom=bottom), 80, 24)[1]:
            assert not steering(painted(line, 80, colour=True))
