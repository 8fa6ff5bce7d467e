"""Records: a dataclass is written as JSON and read back, and a value that is none is refused by the field's name."""

from __future__ import annotations

import dataclasses

import pytest

import tests.core.schema as schema
from ralph.core import ndjson
from ralph.core.events import IterationStarted
from ralph.core.records import NotARecord, from_record, parse, parse_event, to_record
from tests.core.schema import Colour, Part, Whole

WHOLE = Whole(
    title="all",
    number=7,
    colour=Colour.RED,
    part=Part("one", -9),
    maybe=Part("two", None),
    parts=(Part("three", 0), Part("four", 4)),
    by_number={1: Part("five", 5)},
    rates={"a": 0.5},
    words=("x", "y"),
    anything={"deep": [1, None]},
)


def test_a_record_is_read_back_as_it_was_written() -> None:
    assert parse(Whole, ndjson.encode(to_record(WHOLE))) == WHOLE
    assert from_record(Whole, to_record(WHOLE)) == WHOLE


def test_a_record_is_plain_json_under_its_keys() -> None:
    assert to_record(dataclasses.replace(WHOLE, maybe=None, parts=())) == {
        "title": "all",
        "count": 7,
        "colour": "red",
        "part": {"name": "one", "exit_code": -9},
        "maybe": None,
        "parts": [],
        "by_number": {"1": {"name": "five", "exit_code": 5}},
        "rates": {"a": 0.5},
        "words": ("x", "y"),
        "anything": {"deep": [1, None]},
    }


def test_missing_and_null_keys_stand_for_defaults_and_unknown_ones_for_nothing() -> None:
    least = {"title": "t", "count": 1, "colour": "blue", "part": {"name": "p"}}
    read = from_record(Whole, {**least, "maybe": None, "words": None, "of a later ralph": 1})
    assert read == Whole("t", 1, Colour.BLUE, Part("p", None))


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"title": 1}, "title"),
        ({"count": -1}, "count"),
        ({"colour": "green"}, "colour"),
        ({"part": {}}, "part.name"),
        ({"part": []}, "part"),
        ({"maybe": {"name": "m", "exit_code": 1.5}}, "maybe.exit_code"),
        ({"parts": [{"name": "a"}, {"name": 2}]}, "parts.1.name"),
        ({"parts": {}}, "parts"),
        ({"by_number": {"x": {"name": "n"}}}, "by_number"),
        ({"by_number": {"3": {}}}, "by_number.3.name"),
        ({"rates": {"a": float("nan")}}, "rates.a"),
        ({"words": ["a", None]}, "words.1"),
    ],
)
def test_a_fault_names_its_field(wrong: dict[str, object], field: str) -> None:
    with pytest.raises(NotARecord) as caught:
        from_record(Whole, {**to_record(WHOLE), **wrong})
    assert caught.value.field == field
    assert str(caught.value).startswith(f"{field} ")


@pytest.mark.parametrize("text", ["", "{", "[]", "null", b"\xff", b"[" * 100_000])
def test_a_text_that_holds_no_object_is_no_record(text: str | bytes) -> None:
    with pytest.raises(NotARecord):
        parse(Whole, text)
    with pytest.raises(NotARecord):
        parse_event(text)


def test_an_event_is_parsed_with_its_time() -> None:
    line = '{"seq":1,"at":"now","type":"iteration_started","iteration":3,"session_id":"s","log":"l"}'
    assert parse_event(line) == (IterationStarted(3, "s", "l"), "now")


def test_a_class_that_the_codec_does_not_know_is_a_bug_and_no_bad_record() -> None:
    with pytest.raises(TypeError, match="set"):
        from_record(schema.Unknown, {"values": [1]})
