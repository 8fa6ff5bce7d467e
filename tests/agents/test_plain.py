"""Output without any format."""

import pytest

from ralph.agents.custom import PlainTranscript
from ralph.core.events import Event, Meta, Tag, Text


def heard(*lines: str) -> list[Event]:
    transcript = PlainTranscript()
    return [event for line in lines for event in transcript.feed(line)] + transcript.flush()


@pytest.mark.spec("2.5-k")
def test_every_line_is_the_agents() -> None:
    assert heard("one", "  two", "\x1b[31mred\x1b[0m") == [
        Text(Tag.AI, "one"),
        Text(Tag.AI, "  two"),
        Text(Tag.AI, "\x1b[31mred\x1b[0m"),
    ]


@pytest.mark.parametrize("line", ["", "  ", "\t", "\r", "\u2003"])
def test_a_blank_line_is_nothing(line: str) -> None:
    assert heard(line) == []


def test_a_line_of_windows_ends_where_its_text_does() -> None:
    assert heard("one\r") == [Text(Tag.AI, "one")]


def test_rtf1_that_nobody_reads_is_hinted_at_once() -> None:
    line = '@@RALPH@@ {"type":"text","tag":"THINK","text":"a plan"}'
    meta, hint, *rest = heard(line, line)
    assert isinstance(meta, Meta)
    assert isinstance(hint, Text)
    assert hint.tag is Tag.SYS
    assert "--transcript rtf1" in hint.text
    assert rest == [Text(Tag.AI, line), Text(Tag.AI, line)]
