"""From raw lines to events."""

from ralph.events import Meta, Tag, Text, ToolEnd, ToolStart, ToolStatus
from ralph.lines import LONGEST_LINE, Oversized, lines_in
from ralph.transcripts.plain import PlainTranscript
from ralph.transcripts.reader import Reader, events_in
from ralph.transcripts.rtf1 import Rtf1Transcript


def test_whatever_the_bytes_they_are_heard() -> None:
    reader = Reader(PlainTranscript())
    assert reader.hear(b"caf\xc3\xa9") == [Text(Tag.AI, "café")]
    assert reader.hear(b"\xff\x00") == [Text(Tag.AI, "\ufffd\x00")]


def test_a_line_that_was_too_long_to_keep_is_noted() -> None:
    meta, text = Reader(PlainTranscript()).hear(Oversized(7))
    assert meta == Meta({"oversized_line": 7})
    assert text == Text(Tag.SYS, "a line of 7 bytes is too long to be read; the raw log has it")


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
