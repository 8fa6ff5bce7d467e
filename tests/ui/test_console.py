"""Events as lines for a person."""

from __future__ import annotations

import io
import json
import os
import termios
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.core import ndjson
from ralph.core.events import (
    ApiRetry,
    CheckEnded,
    Event,
    Guided,
    IterationEnded,
    IterationStarted,
    Meta,
    RateLimited,
    SessionEnded,
    SessionStarted,
    Tag,
    Text,
    ToolEnd,
    ToolOutput,
    ToolStart,
    ToolStatus,
    TurnEnded,
    Usage,
    Waiting,
)
from ralph.core.records import to_json
from ralph.core.text import instant
from ralph.ui.console import Console, json_screen
from ralph.ui.output import Output
from ralph.ui.render import Detail
from tests.support import live_scene
from tests.support.frames import same_as_golden
from tests.support.hostile import TEXTS, every_event, steering
from tests.support.rows import rows
from tests.support.terminal import read_terminal

AT = "2026-11-16T00:48:20.123Z"
HOSTILE = "\x1b]0;owned\x07\x9b2J\r\u202eevil\x08"


@pytest.fixture(autouse=True)
def _wall_clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "JST-9")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def shown(*events: Event, detail: Detail = Detail.NORMAL, root: str = "") -> str:
    stream = io.StringIO()
    console = Console(Output(stream), detail, root)
    for event in events:
        console([event], AT, b"")
    return stream.getvalue()


@rows("detail", Detail)
@rows("event", every_event("words"))
def test_every_event_can_be_shown(event: Event, detail: Detail) -> None:
    text = shown(event, detail=detail)
    assert text == "" or text.endswith("\n")
    assert detail > Detail.QUIET or text == ""


@pytest.mark.parametrize("detail", [Detail.NORMAL, Detail.VERBOSE])
def test_no_event_can_steer_the_terminal(detail: Detail) -> None:
    text = shown(*every_event(HOSTILE), detail=detail)
    assert "owned" in text
    assert not set(text) & set("\x1b\x07\x9b\r\x08\u202e")


@rows("name", TEXTS)
def test_nothing_hostile_gets_through_plain_lines(name: str) -> None:
    for detail in (Detail.NORMAL, Detail.VERBOSE):
        assert not steering(shown(*every_event(TEXTS[name]), detail=detail))


@given(st.text(st.characters()))
def test_whatever_an_event_says_can_be_written_in_utf8(text: str) -> None:
    shown(*every_event(text), detail=Detail.VERBOSE).encode("utf-8")


@pytest.mark.spec("1.4.2-a")
@pytest.mark.spec("2.5-l", "2.12-d", "2.14-c")
@rows(
    ("event", "text"),
    [
        (Text(Tag.AI, "one\ntwo"), "agent      one\n           two\n"),
        (Text(Tag.SYS, "undone"), "note       undone\n"),
        (Text(Tag.PROMPT, "one\ntwo " + "x" * 1000), f"prompt     one two {'x' * 151}…\n"),
        (Text(Tag.USER, "hello"), ""),
        (Text(Tag.TOOL, "hello"), ""),
        (ToolStart("1", "Bash", {"command": "ls", "description": "List"}), "Bash       ls\n"),
        (ToolStart("1", "Odd", {"a": 1, "b": 2}), "Odd        a=1, b=2\n"),
        (ToolStart("1", "Read", {"file_path": "/repo/src/x.py"}), "Read       src/x.py\n"),
        (ToolStart("1", "StructuredOutput", {"summary": "x"}), ""),
        (SessionStarted("s", "opus", "2.1", (), ""), "session    opus · agent version 2.1\n"),
        (SessionStarted("s", "opus", "", (), ""), "session    opus\n"),
        (SessionStarted("s", "", "2.1", (), ""), "session    agent version 2.1\n"),
        (SessionStarted("0199-abcd", "", "", (), ""), "session    0199-abcd\n"),
        (RateLimited("allowed", None, "five_hour"), ""),
        (
            RateLimited("rejected", 1_794_790_100.0, "weekly"),
            "quota      used up (weekly, resets 09:48:20 JST)\n",
        ),
        (
            RateLimited("allowed_warning", None, "five_hour", 0.834),
            "quota      nearly used up (five hour, 83 % used)\n",
        ),
        (ApiRetry(2, 529, "x"), "retry      the API answered 529; the agent retries (try 2)\n"),
        (ApiRetry(2, None, "x"), "retry      the API answered nothing; the agent retries (try 2)\n"),
        (TurnEnded(False, "success", "fine", None), ""),
        (TurnEnded(True, "error_max_turns", "", None), "error      error_max_turns\n"),
        (CheckEnded(0, 65.0, "long output"), "check      green in 1m05s\n"),
        (
            CheckEnded(None, 1.0, "why\n"),
            "check      red (ran out of time) in 1.0s: DONE rejected\n           why\n",
        ),
        (CheckEnded(2, 1.0, "why\n"), "check      red (exit 2) in 1.0s: DONE rejected\n           why\n"),
        (Waiting("quota", 1_794_790_100.0), "waiting    until 09:48:20 JST: quota\n"),
        (Waiting("quota", 1_794_790_100.0 + 86400), "waiting    until 2026-11-17 09:48:20 JST: quota\n"),
        (Waiting("paused", None), "waiting    paused\n"),
        (Guided(2, "use tabs", "received"), "guidance   2: use tabs (the next session will read it)\n"),
        (Guided(2, "use tabs", "acknowledged"), "guidance   2: acknowledged\n"),
        (Guided(2, "use tabs", "dropped"), "guidance   2: never acknowledged; ralph stops sending it\n"),
    ],
)
def test_an_event_is_shown_as(event: Event, text: str) -> None:
    assert shown(event, root="/repo") == text


def test_an_iterations_end_tells_summary_commit_cost_and_context() -> None:
    text = shown(IterationEnded(3, "CONTINUE", "0123456789abcdef", 0.25, 41.6, "Did it.\nNext: more."))
    assert text == "summary    Did it.\n           Next: more.\n           commit 0123456789 · $0.25 · context 42 %\n"


# What a session planned, did and used


def ended(*events: Event, detail: Detail = Detail.NORMAL) -> str:
    """What is said when a session of these events ends."""
    told = shown(*events, detail=detail)
    return shown(*events, SessionEnded("s", "ok", "", "", degraded=False, exit_code=0, log=""), detail=detail)[
        len(told) :
    ]


@pytest.mark.spec("1.10-d")
@pytest.mark.spec("2.14-d")
def test_the_first_thought_is_shown_as_the_plan() -> None:
    text = shown(
        Text(Tag.THINK, "First,\n\n  look\n"), Text(Tag.THINK, "Hm.\nWell."), Text(Tag.THINK, "**Plan**\n1. go")
    )
    assert text == "PLAN       First,\n           look\nthinks     Hm. Well.\nPLAN       1. go\n"


def test_of_a_long_plan_six_lines_are_shown_and_all_of_them_verbosely() -> None:
    steps = Text(Tag.THINK, "Plan\n" + "".join(f"{number}. step\n\n" for number in range(1, 10)))
    assert shown(steps).splitlines() == [
        "PLAN       Plan",
        *(f"           {number}. step" for number in range(1, 5)),
        "           5. step …",
    ]
    assert "           9. step\n" in shown(steps, detail=Detail.VERBOSE)


@pytest.mark.spec("2.1-i")
def test_a_session_ends_with_what_it_did_and_used() -> None:
    events = (
        ToolStart("1", "read", {}),
        ToolEnd("1", ToolStatus.UNKNOWN),
        ToolStart("2", "shell", {}),
        ToolOutput("2", "line\n" * 14),
        ToolEnd("2", ToolStatus.OK, 300),
        ToolStart("3", "shell", {}),
        ToolOutput("3", "no"),
        ToolEnd("3", ToolStatus.FAIL, 100),
        Usage(2528, 84, 2612, "gpt", cache_read_tokens=60, context_pct=2.1, cost_usd=0.0113),
    )
    assert ended(*events) == (
        "ACTIONS    shell 2: 1 ok, 1 failed · 0.4s · 15 lines\n"
        "           read 1: 1 unknown · 0.0s\n"
        "REPORT     2,612 tokens: 2,528 in (60 cached), 84 out · $0.0113 · context 2 %\n"
    )


@pytest.mark.spec("2.14-e")
@pytest.mark.parametrize(
    ("usage", "text"),
    [
        (Usage(total_tokens=5000), "5,000 tokens"),
        (Usage(prompt_tokens=10, completion_tokens=5, cache_read_tokens=0), "15 tokens: 10 in, 5 out"),
        (Usage(completion_tokens=1), "1 token: 1 out"),
        (Usage(total_tokens=0, prompt_tokens=0, completion_tokens=0, cost_usd=0.0), "0 tokens · $0.00"),
        (Usage(cost_usd=1.5), "$1.50"),
        (Usage(context_pct=40.4), "context 40 %"),
    ],
)
def test_a_report_says_only_what_was_told(usage: Usage, text: str) -> None:
    assert ended(usage) == f"REPORT     {text}\n"


@pytest.mark.spec("2.8-e", "2.14-fj")
@pytest.mark.parametrize(
    "events",
    [(), (Text(Tag.AI, "Plan: x"),), (Usage(model="gpt"),), (ToolStart("1", "StructuredOutput", {}),), (Meta({}),)],
)
def test_what_no_event_told_is_not_said(events: tuple[Event, ...]) -> None:
    assert ended(*events) == ""


def test_a_new_session_begins_with_nothing() -> None:
    first = (ToolStart("1", "shell", {}), ToolOutput("1", "x"), Usage(total_tokens=5), Text(Tag.THINK, "Plan"))
    assert ended(*first, IterationStarted(2, "s", "log"), Text(Tag.THINK, "look")) == ""
    gone = SessionEnded("s", "ok", "", "", degraded=False, exit_code=0, log="")
    assert ended(*first, gone) == ""
    assert shown(*first, gone, Text(Tag.THINK, "look")).endswith("PLAN       look\n")


def test_what_the_report_has_told_the_iterations_end_does_not_repeat() -> None:
    gone = SessionEnded("s", "ok", "", "", degraded=False, exit_code=0, log="")
    end = IterationEnded(1, "CONTINUE", "0" * 40, 0.25, 41.6, "Did it.")
    commit = f"commit {'0' * 10}"
    assert shown(Usage(cost_usd=0.25, context_pct=41.6), gone, end).endswith(f" {commit}\n")
    assert shown(Usage(total_tokens=5), gone, end).endswith(f" {commit} · $0.25 · context 42 %\n")
    assert shown(Usage(cost_usd=0.25), gone, end).endswith(f" {commit} · context 42 %\n")
    assert shown(gone, end).endswith(f" {commit} · $0.25 · context 42 %\n")
    assert shown(Usage(cost_usd=0.25), gone, IterationStarted(2, "", ""), end).endswith(" · $0.25 · context 42 %\n")


def test_a_duration_is_taken_from_the_stamps_where_there_are_any() -> None:
    for stamps, said in ((("2026-11-16T00:00:01.000Z", "2026-11-16T00:00:03.500Z"), " · 2.5s"), ((None, None), "")):
        stream = io.StringIO()
        console = Console(Output(stream))
        console([ToolStart("1", "shell", {})], stamps[0], b"")
        console([ToolEnd("1", ToolStatus.OK)], stamps[1], b"")
        console([SessionEnded("s", "ok", "", "", degraded=False, exit_code=0, log="")], stamps[1], b"")
        assert stream.getvalue().endswith(f"ACTIONS    shell 1: 1 ok{said}\n")


@pytest.mark.spec("2.14-i")
def test_verbosely_every_call_tells_how_it_ended() -> None:
    start, said = ToolStart("1", "Bash", {"command": "ls"}), ToolOutput("1", "a\nb\n")
    ok, failed = ToolEnd("1", ToolStatus.OK, 2500), ToolEnd("1", ToolStatus.FAIL)
    assert shown(start, said, ok, detail=Detail.VERBOSE).endswith(
        "Bash ok · 2.5s · 2 lines:\n           a\n           b\n"
    )
    assert shown(start, said, failed, detail=Detail.VERBOSE).endswith(
        "Bash failed · 0.0s · 2 lines:\n           a\n           b\n"
    )
    assert shown(start, ok, detail=Detail.VERBOSE).endswith("Bash ok · 2.5s\n")
    assert shown(start, said, ok) == "Bash       ls\n"


@pytest.mark.parametrize("text", ['{"summary": "DONE"}', ' {"summary":"I did {this}.\\nNext"}\n'])
def test_an_answer_in_json_is_not_shown_for_its_summary_follows(text: str) -> None:
    assert shown(Text(Tag.AI, text)) == ""
    assert "summary" in shown(Text(Tag.AI, text), detail=Detail.VERBOSE)


@pytest.mark.parametrize(
    "text",
    ['{"summary": "x", "more": 1}', '{"summary": 1}', "{}", "{summary}", '[{"summary": "x"}]', 'So: {"summary": "x"}'],
)
def test_what_is_not_just_an_answer_is_shown(text: str) -> None:
    assert shown(Text(Tag.AI, text)) == f"agent      {text}\n"


@pytest.mark.parametrize("call", ["always the same", "{}"], ids=["one call", "many calls"])
def test_what_calls_print_without_end_is_not_kept(call: str) -> None:
    console = Console(Output(io.StringIO()))
    tracemalloc.start()
    try:
        for number in range(10_000):
            console([ToolOutput(call.format(number), f"{number:01000}")], AT, b"")
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert held < 3_000_000


def test_a_claim_is_shown_as_a_claim() -> None:
    assert shown(IterationEnded(3, "DONE", "0" * 40, None, None, "DONE")).startswith("summary    claims DONE\n")


def test_a_failed_tool_shows_its_last_lines() -> None:
    output = "\n".join(f"line {number}" for number in range(100))
    start, said, end = ToolStart("1", "Bash", {}), ToolOutput("1", output), ToolEnd("1", ToolStatus.FAIL)
    assert "Bash failed:\n           line 92\n" in shown(start, said, end)
    assert len(shown(start, said, end).splitlines()) < 12
    assert "line 99" in shown(start, said, end, detail=Detail.VERBOSE)


def test_all_parts_of_a_failed_tools_output_are_shown() -> None:
    events = (ToolOutput("1", "first part"), ToolOutput("1", "second part"), ToolEnd("1", ToolStatus.FAIL))
    assert "first part" in shown(*events)
    assert "second part" in shown(*events)


LONG = "x" * 1_000_000


@rows(
    "events",
    [
        (Text(Tag.THINK, LONG),),
        (Text(Tag.PROMPT, LONG),),
        (ToolStart("1", LONG, {"command": LONG}),),
        (ToolStart("1", LONG, {}), ToolEnd("1", ToolStatus.FAIL)),
        (ToolStart("1", "Read", {}), ToolOutput("1", LONG), ToolEnd("1", ToolStatus.FAIL)),
        (TurnEnded(True, "success", LONG, None),),
        (RateLimited(LONG, None, LONG),),
        (Waiting(LONG, 0.0),),
    ],
    ids=["thinking", "prompt", "tool", "name of a failed tool", "output of a failed tool", "error", "quota", "waiting"],
)
def test_a_long_text_is_folded(events: tuple[Event, ...]) -> None:
    assert len(shown(*events)) < 5000


def test_in_a_terminal_every_line_keeps_its_column_and_its_width() -> None:
    ours, theirs = os.openpty()
    termios.tcsetwinsize(theirs, (24, 80))
    with os.fdopen(ours, "rb", buffering=0) as reader, os.fdopen(theirs, "w") as stream:
        Console(Output(stream))([CheckEnded(1, 0.1, f"{'-' * 75}\n{'word ' * 40}")], AT, b"")
        lines = read_terminal(reader.fileno()).decode().splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert all(line.startswith(" " * 11) for line in lines[1:])
    assert "".join(lines).count("-") == 75


@pytest.mark.parametrize(("columns", "height"), [(40, 10), (80, 24), (100, 30), (120, 40), (200, 50)])
def test_a_dumb_terminal_shows_a_run_in_the_lines_that_were_looked_at(columns: int, height: int) -> None:
    ours, theirs = os.openpty()
    termios.tcsetwinsize(theirs, (height, columns))
    with os.fdopen(ours, "rb", buffering=0) as reader, os.fdopen(theirs, "w") as stream:
        console, said = Console(Output(stream)), b""
        for events, at in ((live_scene.WORK, live_scene.BEGUN), (live_scene.CLAIM, live_scene.BEGUN)):
            console(events, at, b"")
            said += read_terminal(reader.fileno())
        console(live_scene.REST, live_scene.LATER, b"")
        console.tick(instant(live_scene.LATER) or 0.0, keys=True, redraws=False)
        said += read_terminal(reader.fileno())
    assert b"\x1b" not in said
    lines = said.decode().replace("\r\n", "\n")
    assert all(len(line) <= columns for line in lines.split("\n"))
    assert same_as_golden(lines, Path(__file__).parent / "golden" / f"dumb-{columns}x{height}.txt")


@pytest.mark.parametrize("label", ["next", "push", "fetch"])
def test_in_a_terminal_a_command_stays_one_line(label: str) -> None:
    ours, theirs = os.openpty()
    termios.tcsetwinsize(theirs, (24, 80))
    with os.fdopen(ours, "rb", buffering=0) as reader, os.fdopen(theirs, "w") as stream:
        Console(Output(stream)).say(label, f"ralph run goal.md {'--flag ' * 20}--max-cost 1")
        said = read_terminal(reader.fileno()).decode()
    assert said == f"{label:<11}ralph run goal.md {'--flag ' * 20}--max-cost 1\r\n"


@pytest.mark.parametrize("redraws", [True, False])
def test_a_wait_is_counted_down_in_place_or_said_once(redraws: bool) -> None:
    ours, theirs = os.openpty()
    termios.tcsetwinsize(theirs, (24, 80))
    with os.fdopen(ours, "rb", buffering=0) as reader, os.fdopen(theirs, "w") as stream:
        console = Console(Output(stream))
        console([Waiting("quota", 100.0)], AT, b"")
        for now in (10.0, 11.0, 12.0):
            console.tick(now, keys=True, redraws=redraws)
        console.end_wait()
        said = read_terminal(reader.fileno()).decode()
    assert said.count("left · `ralph wake` or w: continue now") == (3 if redraws else 1)
    assert ("\x1b" in said) is redraws
    assert redraws or said.endswith("1:30 left · `ralph wake` or w: continue now\r\n")


@pytest.mark.parametrize("when", [0.0, 1e10, 1e13, 9e15])
def test_any_instant_can_be_shown(when: float) -> None:
    assert "used up" in shown(RateLimited("rejected", when, "weekly"))
    assert "quota" in shown(Waiting("quota", when))


def test_quiet_shows_no_event_but_says_what_it_is_told_to() -> None:
    stream = io.StringIO()
    console = Console(Output(stream), Detail.QUIET)
    console([Text(Tag.AI, "words")], AT, b"")
    console.say("done", f"proven {HOSTILE}")
    assert stream.getvalue().startswith("done       proven \\x1b]0;")


def test_for_programs_every_event_is_its_journaled_line() -> None:
    stream = io.TextIOWrapper(io.BytesIO())
    screen = json_screen(Output(stream))
    for event in every_event(HOSTILE):
        screen([event], AT, ndjson.encode_line(to_json(event)))
    stream.seek(0)
    lines = stream.read().splitlines()
    assert [json.loads(line)["type"] for line in lines] == [event.type for event in every_event(HOSTILE)]
