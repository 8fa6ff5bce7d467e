"""The status line at 60, 80 and 200 columns: it always fits, and what matters most is always there."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.core.events import (
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
from ralph.core.status import RunStatus, StatusFold, standing
from ralph.core.text import instant, timestamp
from ralph.core.usage import Spend
from ralph.ui.draw import Tone, painted, plain, width
from ralph.ui.footer import status_line
from tests.support.frames import same_as_golden
from tests.support.hostile import TEXTS, every_event, steering
from tests.support.rows import rows

GOLDEN = Path(__file__).with_name("golden")
AT = "2026-11-16T00:48:20.000Z"
BEGUN = instant(AT) or 0.0
NOW = BEGUN + 12
WIDTHS = (60, 80, 200)

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
    "waiting": ([*SESSION, Waiting("usage limit", BEGUN + 4 * 3600)], LIMITS),
    "paused": ([*SESSION, Waiting("paused; `ralph resume` goes on", None)], LIMITS),
}


def stands(events: list[Event]) -> RunStatus:
    fold = StatusFold(spent=Spend(0.5, 800_000, costed=True, counted=True))
    for event in events:
        fold.take(event, AT)
    return fold.status


def drawn(scene: str, columns: int) -> str:
    events, limits = SCENES[scene]
    return plain(status_line(stands(events), columns=columns, now=NOW, seconds=725, limits=limits, root="/repo"))


@pytest.mark.parametrize("columns", WIDTHS)
def test_the_line_is_the_one_that_was_looked_at(columns: int) -> None:
    frames = "".join(f"{scene}:\n{drawn(scene, columns)}\n" for scene in SCENES)
    assert same_as_golden(frames, GOLDEN / f"statusline-{columns}.txt")


@rows("columns", WIDTHS)
@rows("scene", SCENES)
def test_it_fits_and_says_where_the_run_is_and_what_it_costs(scene: str, columns: int) -> None:
    line = drawn(scene, columns)
    assert width(line) <= columns
    assert line.startswith(("iteration ", "#"))
    assert "$" in line


def test_a_call_says_what_it_is_about_and_how_long_it_takes() -> None:
    assert drawn("in a call", 200).endswith("Bash npm test -- --watch=false src/a.test.ts 12s")
    assert drawn("in a call", 80).endswith("… 12s")
    assert "(and 1 more)" in drawn("in several calls", 200)
    assert drawn("a call is over", 80).endswith("thinking 12s")


def test_everything_is_said_where_there_is_room() -> None:
    line = drawn("in a call, with limits", 200)
    for part in (
        "iteration 3 of 10",
        "context ████░░░░░░ 42 %",
        "$1.73 of $5.00",
        "920k of 2.00M tokens",
        "47m55s left",
    ):
        assert part in line


def test_what_is_spent_counts_all_sessions_and_the_context_only_the_open_one() -> None:
    line = drawn("condensing", 200)
    assert "$1.73" in line
    assert "context" not in line


def test_a_wait_counts_down_and_a_pause_counts_up() -> None:
    for columns in WIDTHS:
        assert drawn("waiting", columns).endswith(" · waiting 3:59:48")
        assert drawn("paused", columns).endswith(" · paused 12s")


def test_what_is_nearly_used_up_stands_out() -> None:
    events, limits = SCENES["nearly used up"]
    line = status_line(stands(events), columns=200, now=NOW, seconds=725, limits=limits)
    tones = {text.strip(): tone for text, tone in line}
    assert (tones["96 %"], tones["$4.70 of $5.00"], tones["quota 83 %"]) == (Tone.BAD, Tone.WARN, Tone.WARN)
    assert tones["47m55s left"] is Tone.PLAIN


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
    parts = plain(status_line(stands([*SESSION, quota]), columns=200, now=NOW)).split(" · ")
    assert [part for part in parts if "quota" in part] == [said] * bool(said)


@given(st.sampled_from(sorted(SCENES)), st.integers(0, 250), st.floats(0, 1e12), st.floats(-1e6, 1e10))
def test_it_never_takes_more_than_there_is(scene: str, columns: int, seconds: float, later: float) -> None:
    events, limits = SCENES[scene]
    line = status_line(stands(events), columns=columns, now=NOW + later, seconds=seconds, limits=limits)
    assert width(painted(line, columns, colour=False)) <= columns


@rows("name", TEXTS)
def test_nothing_hostile_gets_through(name: str) -> None:
    fold = StatusFold()
    for event in every_event(TEXTS[name]):
        fold.take(event, TEXTS[name][:40])
        for columns in (1, 60):
            line = status_line(fold.status, columns=columns, now=NOW, root=TEXTS[name][:40])
            assert not steering(painted(line, columns, colour=True))


def test_any_stamp_will_do() -> None:
    stands = standing([(IterationStarted(1, "s", "log"), "no time at all"), (BASH, timestamp(9e15))])
    assert "npm test" in plain(status_line(stands, columns=80, now=NOW))
