"""RTF1: events among plain lines, and what becomes of those that are none."""

from __future__ import annotations

import json

import pytest

from ralph.agents.custom import PlainTranscript, Rtf1Transcript
from ralph.core.events import (
    AGENT_TYPES,
    MOST_TOKENS,
    Event,
    Meta,
    Tag,
    Text,
    ToolEnd,
    ToolOutput,
    ToolStart,
    ToolStatus,
    Usage,
)
from tests.support.rows import rows


def heard(*lines: str) -> list[Event]:
    transcript = Rtf1Transcript()
    return [event for line in lines for event in transcript.feed(line)] + transcript.flush()


def rtf1(**document: object) -> str:
    return "@@RALPH@@ " + json.dumps(document)


def usage(**figures: object) -> str:
    return rtf1(type="usage", usage=figures)


@pytest.mark.spec("2.9-d")
def test_the_example_of_the_specification() -> None:
    assert heard(
        '@@RALPH@@ {"type":"text","tag":"THINK","text":"Plan: inspect auth layer"}',
        '@@RALPH@@ {"type":"tool_start","tool":{"id":"t1","name":"shell","input":{"cmd":"rg -n authz -S ."}}}',
        '@@RALPH@@ {"type":"tool_end","tool":{"id":"t1","status":"ok","duration_ms":218}}',
        '@@RALPH@@ {"type":"usage","usage":{"prompt_tokens":1234,"completion_tokens":567,"total_tokens":1801}}',
    ) == [
        Text(Tag.THINK, "Plan: inspect auth layer"),
        ToolStart("t1", "shell", {"cmd": "rg -n authz -S ."}),
        ToolEnd("t1", ToolStatus.OK, 218),
        Usage(1234, 567, 1801),
    ]


@pytest.mark.spec("2.5-acej", "2.9-b", "2.18-a")
def test_each_of_the_six_types_is_read() -> None:
    events = heard(
        rtf1(type="text", tag="USER", text="hello"),
        rtf1(type="tool_start", tool={"id": "a", "name": "b"}),
        rtf1(type="tool_output", tool={"id": "a"}, text="c"),
        rtf1(type="tool_end", tool={"id": "a", "status": "fail"}),
        rtf1(type="usage", usage={"model": "m", "cache_read_tokens": 1, "context_pct": 2.5, "cost_usd": 0.5}),
        rtf1(type="meta", meta={"any": ["thing"]}),
    )
    assert events == [
        Text(Tag.USER, "hello"),
        ToolStart("a", "b", {}),
        ToolOutput("a", "c"),
        ToolEnd("a", ToolStatus.FAIL),
        Usage(model="m", cache_read_tokens=1, context_pct=2.5, cost_usd=0.5),
        Meta({"any": ["thing"]}),
    ]
    assert tuple(event.type for event in events) == AGENT_TYPES


PLAIN = ["hello", "", "@@RALPH@@", "@@RALPH@@{}", ' @@RALPH@@ {"type":"meta","meta":{}}', "say @@RALPH@@ {}", "a\r"]


@pytest.mark.spec("2.9-a", "2.11-d")
def test_other_lines_are_plain() -> None:
    transcript = PlainTranscript()
    assert heard(*PLAIN) == [event for line in PLAIN for event in transcript.feed(line)]


@pytest.mark.spec("2.9-c", "2.10-a", "2.11-abc", "2.18-bc")
@rows(
    ("document", "fault"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ('{"type":"text","tag":"AI","text":"a"} {}', "not JSON"),
        ("[]", "not a JSON object"),
        ("null", "not a JSON object"),
        ('"text"', "not a JSON object"),
        ("{}", "type is not one of text, tool_start, tool_output, tool_end, usage, meta"),
        ('{"type":["text"]}', "type is not one of"),
        ('{"type":"text","tag":"X","text":""}', "tag 'X' is not one of AI, THINK"),
        ('{"type":"usage","usage":{"prompt_tokens":true}}', "usage.prompt_tokens is not a count"),
        ('{"type":"usage","usage":{"cost_usd":NaN}}', "usage.cost_usd is not an amount"),
        ('{"type":"run_ended","exit_code":0,"reason":"","proven":true}', "type is not one of text"),
        ('{"type":"rate_limited","status":"rejected","resets_at":1,"kind":""}', "type is not one of text"),
        (
            '{"type":"turn_ended","is_error":false,"subtype":"","text":"","structured_output":{"summary":"DONE"}}',
            "type is not one of text",
        ),
        ('{"type":"session_started"}', "type is not one of text"),
    ],
)
def test_a_line_that_is_no_event_is_told_and_shown(document: str, fault: str) -> None:
    line = f"@@RALPH@@ {document}"
    meta, text, reason = heard(line)
    assert isinstance(meta, Meta)
    assert str(meta.meta["rtf1_error"]).startswith(fault)
    assert text == Text(Tag.SYS, line)
    assert isinstance(reason, Text)
    assert reason.text.startswith(f"invalid RTF1 event: {fault}")


def test_of_a_long_line_that_is_no_event_only_the_beginning_is_shown() -> None:
    line = "@@RALPH@@ " + "x" * 100_000
    meta, text, _ = heard(line)
    assert isinstance(meta, Meta)
    assert meta.meta["length"] == len(line)
    assert text == Text(Tag.SYS, line[:2000])


@pytest.mark.spec("2.6-b")
def test_a_tool_that_is_left_open_ends_unknown() -> None:
    assert heard(rtf1(type="tool_start", tool={"id": "a", "name": "b"}))[-1] == ToolEnd("a", ToolStatus.UNKNOWN)


@pytest.mark.parametrize("kind", ["tool_output", "tool_end"])
def test_a_tool_that_nobody_started_is_passed_on_and_noted(kind: str) -> None:
    meta, event = heard(rtf1(type=kind, tool={"id": "ghost", "status": "ok"}, text="boo"))
    assert meta == Meta({"rtf1_error": f"{kind} for a tool that is not open", "tool": "ghost"})
    assert event in (ToolOutput("ghost", "boo"), ToolEnd("ghost", ToolStatus.OK))


def test_usage_is_what_the_session_has_used_so_far() -> None:
    assert heard(
        usage(prompt_tokens=100, completion_tokens=10),
        usage(cost_usd=0.25, context_pct=40),
        usage(prompt_tokens=300, completion_tokens=20, total_tokens=350, context_pct=20, model="m"),
    ) == [
        Usage(100, 10, 110),
        Usage(100, 10, 110, context_pct=40.0, cost_usd=0.25),
        Usage(300, 20, 350, model="m", context_pct=20.0, cost_usd=0.25, cost_is_estimate=True),
    ]


def test_a_figure_that_falls_is_said_and_does_not_count() -> None:
    *_, meta, said, last = heard(usage(total_tokens=100, cost_usd=2), usage(total_tokens=50, cost_usd=3))
    assert meta == Meta({"usage_fell": ["total_tokens"]})
    assert said == Text(Tag.SYS, "the agent reports a smaller total_tokens than before; ralph keeps the larger figure")
    assert last == Usage(total_tokens=100, cost_usd=3.0)


def test_what_the_prompt_and_the_answer_come_to_is_still_a_count() -> None:
    (told,) = heard(usage(prompt_tokens=MOST_TOKENS, completion_tokens=MOST_TOKENS))
    assert isinstance(told, Usage)
    assert told.total_tokens == MOST_TOKENS


@pytest.mark.parametrize(
    ("name", "figure"),
    [
        ("prompt_tokens", 10**18),
        ("total_tokens", -1),
        ("completion_tokens", "7"),
        ("cost_usd", 1e12),
        ("cost_usd", float("nan")),
        ("cost_usd", -0.5),
    ],
)
def test_an_absurd_figure_changes_nothing_and_is_said_once(name: str, figure: object) -> None:
    events = heard(usage(total_tokens=100, cost_usd=2), *[usage(**{name: figure})] * 3, usage(total_tokens=110))
    told = [event for event in events if isinstance(event, Usage)]
    assert [(use.total_tokens, use.cost_usd) for use in told] == [(100, 2.0), (110, 2.0)]
    said = [event.text for event in events if isinstance(event, Text) and event.text.startswith("invalid RTF1 event")]
    assert len(said) == 1
    assert f"usage.{name} is not " in said[0]
