"""From raw lines to events."""

import json
from pathlib import Path

import pytest

from ralph.agents.claude_stream import ClaudeTranscript
from ralph.agents.custom import PlainTranscript, Rtf1Transcript
from ralph.agents.transcript import Reader, events_in
from ralph.core.events import Event, Meta, Tag, Text, ToolEnd, ToolStart, ToolStatus, TurnEnded, Usage
from ralph.core.ndjson import LONGEST_LINE, Oversized, lines_in
from tests.agents.captures import captures_of, lines_of


def test_whatever_the_bytes_they_are_heard() -> None:
    reader = Reader(PlainTranscript())
    assert reader.hear(b"caf\xc3\xa9") == [Text(Tag.AI, "café")]
    assert reader.hear(b"\xff\x00") == [Text(Tag.AI, "\ufffd\x00")]


ODD = [
    b"", b"  ", b"not json", b'{"type": "assistant", "message"', b"[1]", b'"text"', b"\xff{}", b"NaN",
    b'{"type": "\xff"}',
    b'{"type": "system", "subtype": "\\ud800"}', b'{"type": "result", "total_cost_usd": 1' + b"0" * 400 + b"}",
    b'{"type": "assistant", "message": {"content": [{"type": "text", "text": "caf\xc3\xa9 \xf0\x9f\x99\x82"}]}}',
]  # fmt: skip


def test_a_line_says_the_same_as_bytes_and_as_text() -> None:
    lines = [line.encode("utf-8", "surrogatepass") for path in captures_of("claude") for line in lines_of(path)]
    by_bytes, by_text = ClaudeTranscript(), ClaudeTranscript()
    for line in [*lines, *ODD]:
        heard = [*by_bytes.feed_bytes(line), *by_bytes.settle()]
        assert heard == by_text.feed(line.decode("utf-8", "replace")), line


@pytest.mark.parametrize("capture", captures_of("claude"), ids=lambda path: path.stem)
def test_what_is_read_together_tells_the_same_but_for_uses_that_later_ones_replace(capture: Path) -> None:
    lines = [line.encode("utf-8", "surrogatepass") for line in lines_of(capture)]
    reader = Reader(ClaudeTranscript())
    together = [event for line in lines for event in reader.hear(line)] + reader.close()
    one_by_one = list(events_in(lines, ClaudeTranscript()))
    assert [event for event in together if not isinstance(event, Usage)] == [
        event for event in one_by_one if not isinstance(event, Usage)
    ]
    told, all_told = uses_in(together), uses_in(one_by_one)
    assert [use for use in all_told if use in told] == told, "in their order, and none that nobody told"
    assert told[-1:] == all_told[-1:]
    assert [use for use in all_told if use.in_call is not None] == [use for use in told if use.in_call is not None]
    before_turns = [uses_in(one_by_one[:place])[-1:] for place in ends_of_turns(one_by_one)]
    assert [uses_in(together[:place])[-1:] for place in ends_of_turns(together)] == before_turns


def uses_in(events: list[Event]) -> list[Usage]:
    return [event for event in events if isinstance(event, Usage)]


def ends_of_turns(events: list[Event]) -> list[int]:
    return [place for place, event in enumerate(events) if isinstance(event, TurnEnded)]


def message(number: int, prompt: int, model: str = "m", output: int = 1) -> bytes:
    usage = {"input_tokens": prompt, "output_tokens": output}
    return json.dumps({"type": "assistant", "message": {"id": f"{number}", "model": model, "usage": usage}}).encode()


def told_by(*lines: bytes) -> list[tuple[int | None, str | None]]:
    """The prompt tokens and the model of each usage of lines that were read together."""
    reader = Reader(ClaudeTranscript())
    events = [event for line in lines for event in reader.hear(line)] + reader.settle()
    assert reader.settle() == []
    return [(use.prompt_tokens, use.model) for use in uses_in(events)]


def test_the_use_of_messages_that_are_read_together_is_told_once_as_long_as_they_are_charged_alike() -> None:
    assert told_by(message(1, 10), message(2, 20), message(3, 30)) == [(60, "m")]
    assert told_by(message(1, 10), message(2, 20, "n"), message(3, 30, "n")) == [(10, "m"), (60, "n")]
    assert told_by(message(1, 10), message(2, 10, output=9), message(1, 10, output=5)) == [(20, "m"), (20, "m")]
    assert told_by(message(1, 60_000), message(2, 40_000), message(3, 1)) == [(100_000, "m"), (100_001, "m")]
    assert told_by(message(1, 10), message(2, 300_000), message(3, 10)) == [(10, "m"), (300_010, "m"), (300_020, "m")]


def test_a_line_that_was_too_long_to_keep_is_noted() -> None:
    meta, text = Reader(PlainTranscript()).hear(Oversized(7))
    assert meta == Meta({"oversized_line": 7})
    assert text == Text(Tag.SYS, "a line of 7 bytes is too long to show; the raw log has it")


@pytest.mark.spec("3.6-d", "3.14-b")
def test_of_a_long_line_the_start_of_each_text_is_heard() -> None:
    block = {"type": "tool_use", "id": "t", "name": "Write", "input": {"path": "a.txt", "content": "日🙂" * 2**21}}
    line = json.dumps({"type": "assistant", "message": {"content": [block]}}, ensure_ascii=False).encode()
    [start] = Reader(ClaudeTranscript()).hear(line)
    assert isinstance(start, ToolStart)
    assert (start.id, start.name, start.input["path"]) == ("t", "Write", "a.txt")
    content = str(start.input["content"])
    assert content.startswith("日🙂" * 37_449)
    assert content.endswith("… (14,417,921 bytes left out; the raw log has them)")


@pytest.mark.spec("3.6-d", "3.14-b")
def test_a_line_of_four_mebibytes_is_heard_whole() -> None:
    assert Reader(PlainTranscript()).hear(b"x" * 2**22) == [Text(Tag.AI, "x" * 2**22)]


def test_a_long_line_of_short_texts_is_heard() -> None:
    """A result must not be lost: it tells what the session has cost."""
    denials = [
        {"tool_name": "Bash", "tool_use_id": f"t{number}", "tool_input": {"command": "x" * 150}}
        for number in range(40_000)
    ]
    result = {
        "type": "result",
        "subtype": "success",
        "result": "Fine.",
        "total_cost_usd": 1.25,
        "permission_denials": denials,
    }
    line = json.dumps(result).encode()
    assert 2**23 < len(line) < 2**24
    events = Reader(ClaudeTranscript()).hear(line)
    assert [event.cost_usd for event in events if isinstance(event, Usage)] == [1.25]
    [turn] = [event for event in events if isinstance(event, TurnEnded)]
    assert len(turn.denials) == 40_000


def test_a_line_that_is_too_long_also_without_its_long_texts_is_noted() -> None:
    line = json.dumps(["x" * 1030] * 2**14).encode()
    assert Reader(ClaudeTranscript()).hear(line)[0] == Meta({"oversized_line": len(line)})


def test_a_long_line_of_very_many_values_is_noted() -> None:
    """Each of them would take many times its length in memory."""
    line = b"[" + b"1," * 2**21 + b"1]"
    assert Reader(ClaudeTranscript()).hear(line)[0] == Meta({"oversized_line": len(line)})


def test_a_log_is_read_to_its_end() -> None:
    chunks = [b'@@RALPH@@ {"type":"tool_start","to', b'ol":{"id":"a","name":"b"}}\nhel', b"lo"]
    assert list(events_in(lines_in(chunks), Rtf1Transcript())) == [
        ToolStart("a", "b", {}),
        Text(Tag.AI, "hello"),
        ToolEnd("a", ToolStatus.UNKNOWN),
    ]


def test_no_line_of_a_log_fills_the_memory() -> None:
    chunks = (b"x" * 2**20 for _ in range(LONGEST_LINE // 2**20 + 36))
    meta, _ = events_in(lines_in(chunks), PlainTranscript())
    assert meta == Meta({"oversized_line": LONGEST_LINE + 36 * 2**20})
