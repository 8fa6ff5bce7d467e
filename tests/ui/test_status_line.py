"""The status line at several widths: it always fits, and what matters most is always there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from ralph.core.events import (
    CheckStarted,
    Event,
    IterationEnded,
    IterationStarted,
    RateLimited,
    SessionEnded,
    SessionStarted,
    SummaryStarted,
    ToolEnd,
    ToolStart,
    ToolStatus,
    Usage,
    Waiting,
)
from ralph.core.limits import Limits
from ralph.core.status import RunStatus, StatusFold, status_of
from ralph.core.text import instant, timestamp
from ralph.core.usage import Spend
from ralph.ui.status_line import activities, activity_lines, alarm, gauge, lasting, status_line
from ralph.ui.terminal import Look, painted
from ralph.ui.theme import render, style
from tests.support.frames import same_as_golden
from tests.support.hostile import TEXTS, every_event, steering
from tests.support.rows import rows

GOLDEN = Path(__file__).with_name("golden")
AT = "2026-11-16T00:48:20.000Z"
BEGUN = instant(AT) or 0.0
NOW = BEGUN + 12
WIDTHS = (40, 60, 80, 120, 200)
NEWLINE = "\n"

LIMITS = Limits(iterations=10, duration=3600, cost_usd=5.0, tokens=2_000_000)
SESSION: list[Event] = [
    IterationStarted(3, "s", "log"),
    SessionStarted("s", "opus", "2.1", (), ""),
    Usage(100_000, 20_000, 120_000, context_pct=42.4, cost_usd=1.234),
]
BASH = ToolStart("1", "Bash", {"command": "npm test -- --watch=false /repo/src/a.test.ts"})
SCENES: dict[str, tuple[list[Event], Limits]] = {
    "at the start": ([IterationStarted(1, "s", "log")], Limits()),
    "thinking": (SESSION, Limits()),
    "in a call": ([*SESSION, BASH], Limits()),
    "in a call, with limits": ([*SESSION, BASH], LIMITS),
    "in several calls": ([*SESSION, BASH, ToolStart("2", "Read", {"file_path": "/repo/a.py"})], LIMITS),
    "a call is over": ([*SESSION, BASH, ToolEnd("1", ToolStatus.OK)], LIMITS),
    "nearly used up": (
        [
            *SESSION,
            Usage(1_900_000, 20_000, 1_920_000, context_pct=96.0, cost_usd=4.2),
            RateLimited("allowed_warning", None, "five_hour", 0.83),
        ],
        LIMITS,
    ),
    "condensing": ([*SESSION, SummaryStarted(3, "s", "log")], LIMITS),
    "finishing": ([*SESSION, SessionEnded("s", "ok", "", "", degraded=False, exit_code=0, log="")], LIMITS),
    "proving": ([*SESSION, IterationEnded(3, "DONE", "c", None, None, "DONE")], LIMITS),
    "checking": ([*SESSION, IterationEnded(3, "DONE", "c", None, None, "DONE"), CheckStarted(3)], LIMITS),
    "waiting": ([*SESSION, Waiting("usage limit", BEGUN + 4 * 3600)], LIMITS),
    "paused": ([*SESSION, Waiting("paused; continue with: ralph resume", None)], LIMITS),
}


def stands(events: list[Event]) -> RunStatus:
    fold = StatusFold(spent=Spend(0.5, 800_000, costed=True, counted=True))
    for event in events:
        fold.take(event, AT)
    return fold.status


def drawn(scene: str, columns: int) -> str:
    events, limits = SCENES[scene]
    return status_line(stands(events), columns=columns, now=NOW, seconds=725, limits=limits).plain


def at_work(scene: str, columns: int, room: int = 1, output: Sequence[str] = ()) -> list[str]:
    """What is said to go on."""
    going_on = activities(
        stands(SCENES[scene][0]), now=NOW, output_of=lambda _: output, check_output=["a check's line"], root="/repo"
    )
    return [line.plain[2:] for line in activity_lines(going_on, columns=columns, now=NOW, room=room)]


@pytest.mark.parametrize("columns", WIDTHS)
def test_the_line_is_the_one_that_was_looked_at(columns: int) -> None:
    frames = "".join(
        f"{scene}:\n{NEWLINE.join([*at_work(scene, columns), drawn(scene, columns)])}\n" for scene in SCENES
    )
    assert same_as_golden(frames, GOLDEN / f"statusline-{columns}.txt")


@rows("columns", WIDTHS)
@rows("scene", SCENES)
def test_it_fits_and_says_where_the_run_is_and_what_it_costs(scene: str, columns: int) -> None:
    line = drawn(scene, columns)
    assert cell_len(line) <= columns
    assert line.startswith(("iteration ", "#"))
    assert "$" in line


def test_a_call_says_what_it_is_about_and_how_long_it_takes() -> None:
    assert at_work("in a call", 200) == ["Bash npm test -- --watch=false src/a.test.ts 12s"]
    assert at_work("in a call", 40)[0].endswith("… 12s")
    assert len(at_work("in a call", 40)[0]) == 38
    assert at_work("a call is over", 80) == ["thinking 12s"]


def test_calls_at_the_same_time_have_a_line_each_as_far_as_there_is_room() -> None:
    both = ["Bash npm test -- --watch=false src/a.test.ts 12s", "Read a.py 12s"]
    assert at_work("in several calls", 80, room=2) == both
    events = [*SESSION, *(ToolStart(str(number), "Read", {"path": str(number)}) for number in range(1100))]
    going_on = activities(stands(events), now=NOW, output_of=lambda _: (), check_output=())
    assert [each.words for each in going_on] == [*(f"Read {number}" for number in range(4)), "and 1,096 more"]


def test_what_a_long_call_prints_is_shown_below_it_as_far_as_there_is_room() -> None:
    output = ["one", "\x1b[2Jtwo", "three"]
    assert at_work("in a call", 80, room=3, output=output)[1:] == ["\\x1b[2Jtwo", "three"]
    assert at_work("in a call", 80, room=9, output=output)[1:] == ["one", "\\x1b[2Jtwo", "three"]
    assert len(at_work("in a call", 80, room=1, output=output)) == 1
    going_on = activities(stands([*SESSION, BASH]), now=BEGUN + 0.5, output_of=lambda _: output, check_output=())
    assert going_on[0].output == (), "most are over by then"


def test_what_the_check_prints_is_shown_while_it_runs() -> None:
    assert at_work("proving", 80, room=3) == ["checking 12s"]
    assert at_work("checking", 80, room=3) == ["checking 12s", "a check's line"]


def test_everything_is_said_where_there_is_room() -> None:
    line = drawn("in a call, with limits", 200)
    for part in (
        "iteration 3 of 10 ██",
        "context █████",
        "░ 42 %",
        "$1.73 of $5.00 ███",
        "920k of 2.00M tokens",
        "12m05s of 1h00m ██",
    ):
        assert part in line


def test_bars_are_as_long_as_fits() -> None:
    lengths = [drawn("in a call, with limits", columns).count("░") for columns in (80, 120, 200)]
    assert lengths == sorted(lengths)
    assert 0 < lengths[0] < lengths[-1]


def test_what_is_spent_counts_all_sessions_and_the_context_only_the_open_one() -> None:
    line = drawn("condensing", 200)
    assert "$1.73" in line
    assert "context" not in line


def test_a_wait_counts_down_and_a_pause_counts_up() -> None:
    for columns in WIDTHS:
        assert at_work("waiting", columns) == ["waiting 3:59:48"]
        assert at_work("paused", columns) == ["paused 12s"]


def test_what_is_nearly_used_up_stands_out() -> None:
    events, limits = SCENES["nearly used up"]
    (row,) = render(status_line(stands(events), columns=200, now=NOW, seconds=725, limits=limits), 200)
    looks = {segment.text.strip(): segment.style for segment in row}
    assert looks["96 %"] == style(Look.BAD)
    assert looks["$4.70 of $5.00"] == looks["quota 83 %"] == style(Look.WARN)
    assert looks["12m05s of 1h00m"] == style(Look.PLAIN)


@pytest.mark.parametrize(
    ("quota", "said"),
    [
        (RateLimited("allowed_warning", None, "weekly"), "quota nearly used up"),
        (RateLimited("allowed_warning", NOW + 60, "weekly", 0.9), "quota 90 %"),
        (RateLimited("allowed_warning", NOW - 1, "weekly", 0.9), ""),
        (RateLimited("rejected", NOW + 60, "weekly"), "quota used up"),
        (RateLimited("rejected", None, "weekly", 1.0), "quota used up"),
        (RateLimited("rejected", NOW - 1, "weekly"), ""),
    ],
)
def test_a_quota_is_told_while_what_was_heard_of_it_holds(quota: RateLimited, said: str) -> None:
    parts = status_line(stands([*SESSION, quota]), columns=200, now=NOW).plain.split(" · ")
    assert [part for part in parts if "quota" in part] == [said] * bool(said)


@given(st.sampled_from(sorted(SCENES)), st.integers(0, 250), st.floats(0, 1e12), st.floats(-1e6, 1e10))
def test_it_never_takes_more_than_there_is(scene: str, columns: int, seconds: float, later: float) -> None:
    events, limits = SCENES[scene]
    line = status_line(stands(events), columns=columns, now=NOW + later, seconds=seconds, limits=limits)
    assert line.cell_len <= columns


@rows("name", TEXTS)
def test_nothing_hostile_gets_through(name: str) -> None:
    fold = StatusFold()
    for event in every_event(TEXTS[name]):
        fold.take(event, TEXTS[name][:40])
        for columns in (1, 60):
            going_on = activities(
                fold.status,
                now=NOW,
                output_of=lambda _: [TEXTS[name]],
                check_output=[TEXTS[name]],
                root=TEXTS[name][:40],
            )
            lines = [
                status_line(fold.status, columns=columns, now=NOW),
                *activity_lines(going_on, columns=columns, now=NOW, room=9),
            ]
            for line in lines:
                for row in render(line, columns):
                    assert not steering(painted(row, columns, colour=True))


def test_any_stamp_will_do() -> None:
    stands = status_of([(IterationStarted(1, "s", "log"), "no time at all"), (BASH, timestamp(9e15))])
    assert "npm test" in activities(stands, now=NOW, output_of=lambda _: (), check_output=())[0].words


@pytest.mark.parametrize(
    ("percent", "bar"), [(-5.0, "░░░░░"), (0.0, "░░░░░"), (42.0, "██░░░"), (100.0, "█████"), (1e9, "█████")]
)
def test_a_bar_is_as_long_as_it_is_whatever_it_shows(percent: float, bar: str) -> None:
    assert gauge(percent, 5).plain == bar


def test_a_share_stands_out_once_it_is_nearly_the_whole() -> None:
    looks = [alarm(percent) for percent in (79.9, 80, 94.9, 95, 300)]
    assert looks == [Look.ACCENT, Look.WARN, Look.WARN, Look.BAD, Look.BAD]
    assert alarm(10, calm=Look.PLAIN) is Look.PLAIN


@pytest.mark.parametrize(
    ("seconds", "words"), [(-1, "0s"), (0.9, "0s"), (9.9, "9s"), (59.9, "59s"), (60, "1m00s"), (3725, "1h02m")]
)
def test_a_time_that_goes_by_is_told_in_whole_seconds_that_are_over(seconds: float, words: str) -> None:
    assert lasting(seconds) == words
