"""What docs/rtf1.md tells the authors of agents is what the transcript reads."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ralph.agents.custom import SENTINEL, Rtf1Transcript
from ralph.core.events import AGENT_TYPES, Event, Meta, Tag, Text, ToolStatus, Usage

OF_RALPH = ("cost_is_estimate", "uncosted_tokens")
DOCUMENT = (Path(__file__).parent.parent.parent / "docs" / "rtf1.md").read_text()


def example(language: str) -> str:
    """The last block of the language: its agent."""
    return re.findall(rf"^```{language}\n(.*?)^```$", DOCUMENT, re.MULTILINE | re.DOTALL)[-1]


@pytest.mark.parametrize(("language", "interpreter"), [("sh", "sh"), ("python", sys.executable)])
def test_the_example_is_an_agent(tmp_path: Path, language: str, interpreter: str) -> None:
    done = subprocess.run([interpreter, "-c", example(language)], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    transcript = Rtf1Transcript()
    events: list[Event] = [event for line in done.stdout.splitlines() for event in transcript.feed(line)]
    events += transcript.flush()

    assert [event for event in events if isinstance(event, Meta) and "rtf1_error" in event.meta] == []
    assert {event.type for event in events} == set(AGENT_TYPES)
    assert [event.tag for event in events if isinstance(event, Text)] == [Tag.THINK, Tag.AI, Tag.AI]
    assert events[-1] == Text(Tag.AI, "<promise>COMPLETE</promise>")


def test_every_type_tag_status_and_figure_is_described() -> None:
    figures = [field.name for field in dataclasses.fields(Usage) if field.name not in OF_RALPH]
    missing = [word for word in (*AGENT_TYPES, *Tag, *ToolStatus, *figures) if f"`{word}`" not in DOCUMENT]
    assert missing == []
    assert f"`{SENTINEL}`" in DOCUMENT


def test_the_faults_it_quotes_are_those_of_the_transcript() -> None:
    meta, *_ = Rtf1Transcript().feed(SENTINEL + '{"type":"usage","usage":{"prompt_tokens":true}}')
    assert isinstance(meta, Meta)
    assert f"`{meta.meta['rtf1_error']}`" in DOCUMENT
