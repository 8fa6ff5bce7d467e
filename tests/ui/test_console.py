"""Events as lines for a person."""

from __future__ import annotations

import io
import json
import os
import termios
import typing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph import jsonline
from ralph.events import (
    ApiRetry,
    CheckEnded,
    Event,
    IterationEnded,
    IterationStarted,
    Meta,
    RateLimited,
    RunEnded,
    RunStarted,
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
    to_json,
)
from ralph.ui.console import Console, Detail, json_screen
from ralph.ui.outlet import Outlet

AT = "2026-11-16T00:48:20.123Z"
HOSTILE = "\x1b]0;owned\x07\x9b2J\r\u202eevil\x08"


def shown(*events: Event, detail: Detail = Detail.NORMAL, root: str = "") -> str:
    stream = io.StringIO()
    console = Console(Outlet(stream), detail, root)
    for event in events:
        console([event], AT, b"")
    return stream.getvalue()


def every_event(text: str) -> list[Event]:
    return [
        IterationStarted(3, text, text),
        SessionStarted(text, text, text, (text,), text),
        *(Text(tag, text) for tag in Tag),
        ToolStart("t1", text, {"command": text}),
        ToolOutput("t1", text),
        ToolEnd("t1", ToolStatus.FAIL),
        ToolStart("t2", "Odd", {text: text}),
        ToolOutput("t2", text),
        ToolEnd("t2", ToolStatus.OK),
        ToolEnd("never started", ToolStatus.UNKNOWN),
        Usage(model=text),
        Meta({text: text}),
        RateLimited(text, 1_794_790_100.0, text),
        ApiRetry(1, None, text),
        TurnEnded(is_error=True, subtype=text, text=text, structured_output=None),
        SessionEnded(text, text, text, text, degraded=False, exit_code=1, log=text),
        IterationEnded(3, "CONTINUE", text, 0.5, 42.0, text),
        CheckEnded(1, 2.0, text),
        Waiting(text, 1_794_790_100.0),
        RunStarted(text, text, text, text, text, text, text, text, text, text, continued=False, iteration=1),
        RunEnded(1, text, proven=False),
    ]


def test_there_is_an_example_of_every_event() -> None:
    assert {type(event) for event in every_event("x")} == set(typing.get_args(Event))


@pytest.mark.parametrize("detail", Detail)
@pytest.mark.parametrize("event", every_event("words"), ids=lambda event: event.type)
def test_every_event_can_be_shown(event: Event, detail: Detail) -> None:
    text = shown(event, detail=detail)
    assert text == "" or text.endswith("\n")
    assert detail > Detail.QUIET or text == ""


@pytest.mark.parametrize("detail", [Detail.NORMAL, Detail.VERBOSE])
def test_no_event_can_steer_the_terminal(detail: Detail) -> None:
    text = shown(*every_event(HOSTILE), detail=detail)
    assert "owned" in text
    assert not set(text) & set("\x1b\x07\x9b\r\x08\u202e")


@given(st.text(st.characters()))
def test_whatever_an_event_says_can_be_written_in_utf8(text: str) -> None:
    shown(*every_event(text), detail=Detail.VERBOSE).encode("utf-8")


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (Text(Tag.AI, "one\ntwo"), "agent      one\n           two\n"),
        (Text(Tag.SYS, "undone"), "ralph      undone\n"),
        (Text(Tag.USER, "hello"), ""),
        (Text(Tag.TOOL, "hello"), ""),
        (ToolStart("1", "Bash", {"command": "ls", "description": "List"}), "Bash       ls\n"),
        (ToolStart("1", "Odd", {"a": 1, "b": 2}), "Odd        a=1, b=2\n"),
        (ToolStart("1", "Read", {"file_path": "/repo/src/x.py"}), "Read       src/x.py\n"),
        (ToolStart("1", "StructuredOutput", {"summary": "x"}), ""),
        (SessionStarted("s", "opus", "2.1", (), ""), "session    opus · agent version 2.1\n"),
        (RateLimited("allowed", None, "five_hour"), ""),
        (
            RateLimited("rejected", 1_794_790_100.0, "weekly"),
            "quota      rejected (weekly, resets 2026-11-16T00:48:20.000Z)\n",
        ),
        (ApiRetry(2, 529, "x"), "retry      the API answered 529; the agent tries again (2)\n"),
        (ApiRetry(2, None, "x"), "retry      the API answered nothing; the agent tries again (2)\n"),
        (TurnEnded(False, "success", "fine", None), ""),
        (TurnEnded(True, "error_max_turns", "", None), "error      error_max_turns\n"),
        (CheckEnded(0, 65.0, "long output"), "check      green in 1m05s\n"),
        (
            CheckEnded(None, 1.0, "why\n"),
            "check      red (ran out of time) in 1.0s: DONE is withdrawn\n           why\n",
        ),
        (CheckEnded(2, 1.0, "why\n"), "check      red (exit 2) in 1.0s: DONE is withdrawn\n           why\n"),
        (Waiting("quota", 1_794_790_100.0), "waiting    until 2026-11-16T00:48:20.000Z: quota\n"),
    ],
)
def test_an_event_is_shown_as(event: Event, text: str) -> None:
    assert shown(event, root="/repo") == text


def test_an_iterations_end_tells_summary_commit_cost_and_context() -> None:
    text = shown(IterationEnded(3, "CONTINUE", "0123456789abcdef", 0.25, 41.6, "Did it.\nNext: more."))
    assert text == "summary    Did it.\n           Next: more.\n           commit 0123456789 · $0.25 · context 42 %\n"


def test_a_claim_is_shown_as_a_claim() -> None:
    assert shown(IterationEnded(3, "DONE", "0" * 40, None, None, "DONE")).startswith("summary    claims DONE\n")


def test_a_failed_tool_shows_its_first_lines() -> None:
    output = "\n".join(f"line {number}" for number in range(100))
    start, said, end = ToolStart("1", "Bash", {}), ToolOutput("1", output), ToolEnd("1", ToolStatus.FAIL)
    assert "Bash failed:\n           line 0\n" in shown(start, said, end)
    assert len(shown(start, said, end).splitlines()) < 12
    assert "line 99" in shown(start, said, end, detail=Detail.VERBOSE)


def test_all_parts_of_a_failed_tools_output_are_shown() -> None:
    events = (ToolOutput("1", "first part"), ToolOutput("1", "second part"), ToolEnd("1", ToolStatus.FAIL))
    assert "first part" in shown(*events)
    assert "second part" in shown(*events)


LONG = "x" * 1_000_000


@pytest.mark.parametrize(
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
        Console(Outlet(stream))([CheckEnded(1, 0.1, f"{'-' * 75}\n{'word ' * 40}")], AT, b"")
        lines = reader.read(65536).decode().splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert all(line.startswith(" " * 11) for line in lines[1:])
    assert "".join(lines).count("-") == 75


@pytest.mark.parametrize("when", [0.0, 1e10, 1e13, 9e15])
def test_any_instant_can_be_shown(when: float) -> None:
    assert "rejected" in shown(RateLimited("rejected", when, "weekly"))
    assert "quota" in shown(Waiting("quota", when))


def test_quiet_shows_no_event_but_says_what_it_is_told_to() -> None:
    stream = io.StringIO()
    console = Console(Outlet(stream), Detail.QUIET)
    console([Text(Tag.AI, "words")], AT, b"")
    console.say("done", f"proven {HOSTILE}")
    assert stream.getvalue().startswith("done       proven \\x1b]0;")


def test_for_programs_every_event_is_its_journaled_line() -> None:
    stream = io.TextIOWrapper(io.BytesIO())
    screen = json_screen(Outlet(stream))
    for event in every_event(HOSTILE):
        screen([event], AT, jsonline.encode_line(to_json(event)))
    stream.seek(0)
    lines = stream.read().splitlines()
    assert [json.loads(line)["type"] for line in lines] == [event.type for event in every_event(HOSTILE)]
