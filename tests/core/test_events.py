"""Events on the wire: what is written can be read back, and what is not an event is refused by name."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ralph.core import events, ndjson
from ralph.core.events import AGENT_TYPES, Event, Meta, Tag, Text, ToolEnd, ToolStart, ToolStatus, Usage
from ralph.core.records import from_json, to_json
from tests.support.rows import rows

KINDS: tuple[type[Event], ...] = typing.get_args(Event)

TEXTS = st.text(st.characters(), max_size=10)  # lone surrogates, too
COUNTS = st.integers(min_value=0, max_value=2**53 - 1)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(TEXTS, JSON, max_size=3)
DENIALS = st.builds(events.Denial, TEXTS, TEXTS, OBJECTS)
BY_TYPE: Mapping[object, st.SearchStrategy[object]] = {
    str: TEXTS,
    int: COUNTS,
    bool: st.booleans(),
    float: st.floats(min_value=0, max_value=2**62),
    object: JSON,
    type(None): st.none(),
    Tag: st.sampled_from(Tag),
    ToolStatus: st.sampled_from(ToolStatus),
    Mapping[str, object]: OBJECTS,
    tuple[str, ...]: st.lists(TEXTS, max_size=3).map(tuple),
    tuple[events.Denial, ...]: st.lists(DENIALS, max_size=2).map(tuple),
}
TOKENS = [field.name for field in dataclasses.fields(Usage) if field.name.endswith("_tokens")]
BY_NAME = {
    "cost_usd": st.none() | st.floats(min_value=0, max_value=events.MOST_DOLLARS, exclude_max=True),
    **{name: st.none() | st.integers(0, events.MOST_TOKENS) for name in TOKENS},
    "exit_code": st.integers(-64, 255),
}


def any_of(kind: type[Event]) -> st.SearchStrategy[Event]:
    fields: dict[str, st.SearchStrategy[object]] = {}
    for name, hint in typing.get_type_hints(kind).items():
        if name != "type":
            options = typing.get_args(hint) if type(None) in typing.get_args(hint) else (hint,)
            fields[name] = BY_NAME[name] if name in BY_NAME else st.one_of(*(BY_TYPE[option] for option in options))
    return st.builds(kind, **fields)


ANY_EVENT = st.one_of(*map(any_of, KINDS))


@given(ANY_EVENT)
def test_what_is_written_is_read_back(event: Event) -> None:
    assert from_json(to_json(event)) == event
    line = ndjson.encode({"seq": 7, "at": "2026-01-01T00:00:00.000Z", **to_json(event)})
    assert from_json(ndjson.mapping(ndjson.decode(line))) == event


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@settings(max_examples=25)  # for each of the kinds, beside the examples of all of them
@given(st.data())
def test_every_kind_is_read_back_as_that_kind(kind: type[Event], data: st.DataObject) -> None:
    assert type(from_json(to_json(data.draw(any_of(kind))))) is kind


@pytest.mark.spec("2.5-a")
def test_the_six_types_of_an_agent_are_those_of_its_events() -> None:
    assert tuple(kind.type for kind in typing.get_args(events.AgentEvent)) == AGENT_TYPES


@pytest.mark.spec("2.5-fhi", "2.10-fijk")
@pytest.mark.parametrize(
    ("document", "event"),
    [
        ({"type": "tool_start", "tool": {"id": "t", "name": "shell"}}, ToolStart("t", "shell", {})),
        ({"type": "tool_end", "tool": {"id": "t", "status": "ok"}, "more": 1}, ToolEnd("t", ToolStatus.OK)),
        ({"type": "usage", "usage": {}}, Usage()),
        ({"type": "usage", "usage": {"total_tokens": None, "cost_usd": 1}}, Usage(cost_usd=1.0)),
        ({"type": "text", "tag": "AI", "text": ""}, Text(Tag.AI, "")),
        ({"type": "meta", "meta": {}}, Meta({})),
    ],
)
def test_what_may_be_left_out_can_be(document: dict[str, object], event: Event) -> None:
    assert from_json(document) == event


def usage(**fields: object) -> dict[str, object]:
    return {"type": "usage", "usage": fields}


@pytest.mark.spec("2.5-bgh", "2.10-bcdefghijkl")
@rows(
    ("document", "fault"),
    [
        ({}, r"type \(NoneType\) is not one of text, tool_start, .*"),
        ({"type": "txt"}, "type 'txt' is not one of text, .*"),
        ({"type": ["text"]}, r"type \(list\) is not one of .*"),
        ({"type": "text", "tag": "X", "text": ""}, "tag 'X' is not one of AI, THINK, SYS, TOOL, PROMPT, USER"),
        ({"type": "text", "tag": "ai", "text": ""}, "tag 'ai' is not one of .*"),
        ({"type": "text", "tag": {}, "text": ""}, r"tag \(dict\) is not one of .*"),
        ({"type": "text", "tag": "AI"}, "text is missing"),
        ({"type": "text", "tag": "AI", "text": 5}, "text is not a string"),
        ({"type": "tool_start"}, "tool is not an object"),
        ({"type": "tool_start", "tool": []}, "tool is not an object"),
        ({"type": "tool_start", "tool": {"id": "a"}}, "tool.name is missing"),
        ({"type": "tool_start", "tool": {"id": 1, "name": "a"}}, "tool.id is not a string"),
        ({"type": "tool_start", "tool": {"id": "a", "name": 1}}, "tool.name is not a string"),
        ({"type": "tool_start", "tool": {"id": "a", "name": "a", "input": "ls"}}, "tool.input is not an object"),
        ({"type": "tool_output", "tool": {"id": "a"}}, "text is missing"),
        ({"type": "tool_output", "tool": {"id": "a"}, "text": 5}, "text is not a string"),
        ({"type": "tool_output", "tool": {"id": 1}, "text": "a"}, "tool.id is not a string"),
        ({"type": "tool_end", "tool": {"id": 1, "status": "ok"}}, "tool.id is not a string"),
        ({"type": "tool_end", "tool": {"id": "a"}}, "tool.status is missing"),
        ({"type": "tool_end", "tool": {"id": "a", "status": "OK"}}, "tool.status 'OK' is not one of ok, fail, unknown"),
        (
            {"type": "tool_end", "tool": {"id": "a", "status": "ok", "duration_ms": 1.5}},
            "tool.duration_ms is not a count",
        ),
        (usage(prompt_tokens=True), "usage.prompt_tokens is not a count"),
        (usage(prompt_tokens=-1), "usage.prompt_tokens is not a count"),
        (usage(completion_tokens=1.5), "usage.completion_tokens is not a count"),
        (usage(prompt_tokens=2**53), "usage.prompt_tokens is not a count"),
        (usage(total_tokens=10**12 + 1), "usage.total_tokens is not a number of tokens that a session can use"),
        (usage(cost_usd=10**6), "usage.cost_usd is not an amount of US dollars"),
        (usage(total_tokens="5"), "usage.total_tokens is not a count"),
        (usage(cost_usd=float("nan")), "usage.cost_usd is not an amount of US dollars"),
        (usage(cost_usd=-0.01), "usage.cost_usd is not an amount of US dollars"),
        (usage(cost_usd=10**400), "usage.cost_usd is not an amount of US dollars"),
        (usage(cost_usd=True), "usage.cost_usd is not an amount of US dollars"),
        (usage(context_pct=float("inf")), "usage.context_pct is not a number of zero or more"),
        (usage(model=5), "usage.model is not a string"),
        ({"type": "usage"}, "usage is not an object"),
        ({"type": "meta", "meta": []}, "meta is not an object"),
        ({"type": "run_ended", "exit_code": 0, "reason": "", "proven": 1}, "proven is not true or false"),
        ({"type": "run_ended", "exit_code": False, "reason": "", "proven": True}, "exit_code is not a whole number"),
        (
            {"type": "session_started", "session_id": "", "model": "", "version": "", "tools": ["a", 1]},
            "tools.1 is not a string",
        ),
        (
            {"type": "turn_ended", "is_error": False, "subtype": "", "text": "", "denials": [{"id": "a"}]},
            "denials.0.tool is missing",
        ),
    ],
)
def test_what_is_no_event_is_refused_by_name(document: dict[str, object], fault: str) -> None:
    with pytest.raises(ValueError, match=f"^{fault}$"):
        from_json(document)


@given(ANY_EVENT, st.data())
def test_whatever_stands_in_a_field_is_read_or_refused(event: Event, data: st.DataObject) -> None:
    document = to_json(event)
    holder = data.draw(st.sampled_from([document, *(value for value in document.values() if isinstance(value, dict))]))
    holder[data.draw(st.sampled_from(sorted(holder) or ["x"]))] = data.draw(JSON | st.floats())
    try:
        read = from_json(document)
    except ValueError:
        return
    assert dataclasses.is_dataclass(read)
