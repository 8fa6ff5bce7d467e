"""What holds for every transcript, whatever it is given: one suite over all of them.

`RALPH_EXTRA_CAPTURES=FOLDER` holds them to it over everything in that folder, too.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.agents.registry import TRANSCRIPTS, sniff
from ralph.agents.transcript import events_in
from ralph.core import ndjson
from ralph.core.events import AGENT_TYPES, Event, SessionStarted, Tag, Text, ToolEnd, ToolOutput, ToolStart, Usage
from ralph.core.ndjson import lines_in
from ralph.core.records import from_json, to_json
from tests.agents.captures import CAPTURES, captures_of, extra_captures, lines_of
from tests.support.rows import rows

NAMES = list(TRANSCRIPTS)
SENTINEL = "@@RALPH@@ "
OF_A_SESSION = ("session_started", "rate_limited", "api_retry", "compacted", "turn_ended")
every_transcript = pytest.mark.parametrize("name", NAMES)


def conforms(name: str, lines: Iterable[str]) -> list[Event]:
    """Hear the lines; hold what comes of them to all that is promised of a transcript."""
    transcript = TRANSCRIPTS[name]()
    events = [event for line in lines for event in transcript.feed(line)]
    events += transcript.flush()
    assert transcript.flush() == []
    _can_be_journaled(events)
    _figures_never_fall(events)
    _tools_that_start_also_end(events)
    _is_honest(name, events)
    sessions = [event.session_id for event in events if isinstance(event, SessionStarted)]
    assert all(one != other for one, other in itertools.pairwise(sessions))  # a fork is introduced as well
    return events


def _can_be_journaled(events: list[Event]) -> None:
    for event in events:
        line = ndjson.encode(to_json(event))
        assert line.isascii()
        assert "\n" not in line
        read = from_json(ndjson.mapping(ndjson.decode(line)))
        assert type(read) is type(event)
        assert ndjson.encode(to_json(read)) == line


def _figures_never_fall(events: list[Event]) -> None:
    told = [event for event in events if isinstance(event, Usage)]
    for name in ("prompt_tokens", "completion_tokens", "total_tokens", "cost_usd"):
        figures = [getattr(usage, name) or 0 for usage in told]
        assert figures == sorted(figures), name


def _tools_that_start_also_end(events: list[Event]) -> None:
    still_open: set[str] = set()
    for event in events:
        if isinstance(event, ToolStart):
            still_open.add(event.id)
        elif isinstance(event, ToolEnd):
            still_open.discard(event.id)
    assert still_open == set()


def _is_honest(name: str, events: list[Event]) -> None:
    """A transcript that does not claim to tell something does not tell it; nobody tells what is a run's."""
    able = TRANSCRIPTS[name]().capabilities
    tags = {event.tag for event in events if isinstance(event, Text)}
    assert able.supports_roles or tags <= {Tag.AI, Tag.SYS}
    assert able.supports_tool_events or not any(isinstance(e, ToolStart | ToolOutput | ToolEnd) for e in events)
    assert able.supports_usage_events or not any(isinstance(event, Usage) for event in events)
    assert {event.type for event in events} <= {*AGENT_TYPES, *(OF_A_SESSION if name in ("claude", "codex") else ())}


@pytest.mark.spec("2.1-h", "2.8-abcd")
@every_transcript
def test_what_it_claims_is_told_of_some_capture(name: str) -> None:
    able = TRANSCRIPTS[name]().capabilities
    events = [event for path in captures_of(name) for event in conforms(name, lines_of(path))]
    kinds, tags = {event.type for event in events}, {event.tag for event in events if isinstance(event, Text)}
    assert (Tag.THINK in tags) is able.supports_roles
    assert ({"tool_start", "tool_output", "tool_end"} <= kinds) is able.supports_tool_events
    assert ("usage" in kinds) is able.supports_usage_events
    assert Tag.PROMPT in tags or not able.supports_prompt_hiding


@pytest.mark.spec("2.1-g", "2.6-a")
@every_transcript
@rows("path", [path for _, path in CAPTURES])
def test_every_capture_whosever_it_is(name: str, path: Path) -> None:
    conforms(name, lines_of(path))


@rows(("name", "path"), CAPTURES)
def test_a_capture_is_known_for_what_it_is(name: str, path: Path) -> None:
    assert sniff(lines_of(path)) in (name, "rtf1" if name == "plain" else name)


@pytest.mark.skipif(not extra_captures(), reason="RALPH_EXTRA_CAPTURES names no folder with captures")
@every_transcript
def test_every_capture_that_was_brought_along(name: str) -> None:
    for path in extra_captures():
        events = conforms(name, lines_of(path))
        with path.open("rb") as file:
            read = list(events_in(lines_in(iter(lambda: file.read(1000), b"")), TRANSCRIPTS[name]()))
        assert [ndjson.encode(to_json(event)) for event in read] == [ndjson.encode(to_json(event)) for event in events]


# Streams that are cut off, and noise.


@rows(("name", "path"), CAPTURES)
def test_a_stream_that_is_cut_off_anywhere(name: str, path: Path) -> None:
    whole = path.read_bytes()
    for cut in range(0, len(whole), max(1, len(whole) // 50)):
        conforms(name, whole[:cut].decode("utf-8", "replace").split("\n"))


@rows(("name", "path"), CAPTURES)
def test_two_streams_at_once(name: str, path: Path) -> None:
    conforms(name, [line for line in lines_of(path) for _ in range(2)])
    conforms(name, lines_of(path)[::-1])


HOSTILE = [
    "",
    " ",
    "\r",
    "\x00",
    "\x1b[31m",
    "\x1b]0;title\x07",
    "\ud800",
    "\u2028",
    "{",
    "}",
    "[]",
    "null",
    "NaN",
    '"',
    '{"type":NaN}',
    '{"type":"\\ud800"}',
    '{"type":' + "9" * 5000 + "}",
    '{"type":' + "[" * 5000,
    *('{"type":' + "[" * depth + "]" * depth + "}" for depth in (200, 900, 990, 1000, 1020, 3000)),
    "x" * 1_000_000,
    '{"type":"assistant","message":{"content":"' + "x" * 1_000_000 + '"}}',
    '{"type":"item.completed","item":{"type":"agent_message","text":"' + "x" * 1_000_000 + '"}}',
    SENTINEL + '{"type":"text","tag":"AI","text":"' + "x" * 1_000_000 + '"}',
    SENTINEL + "x" * 1_000_000,
    "OpenAI Codex v",
    "OpenAI Codex v" + "9" * 1_000_000,
    "--------",
    "codex",
    "exec",
    "tokens used",
    " exited -99999999999999999999 in 99999999999999999999ms:",
    "9" * 5000,
]


@pytest.mark.spec("2.6-d")
@every_transcript
def test_lines_that_no_agent_should_print(name: str) -> None:
    conforms(name, HOSTILE)
    for line in HOSTILE:
        conforms(name, [line])


@every_transcript
def test_noise_between_the_lines(name: str) -> None:
    lines = lines_of(captures_of(name)[0])
    small = [line for line in HOSTILE if len(line) < 10_000]
    conforms(name, [text for line in lines for text in (*small, line)])


# A wrong value in every field.

WRONG: list[object] = [
    None, True, False, 0, -1, 2**53 - 1, 2**53, 10**400, 0.5, 999_999_999.5, float("nan"), float("inf"), "", "x",
    "\ud800", [], [None], {}, {"a": 1},
]  # fmt: skip


def documents(name: str) -> list[tuple[str, object]]:
    """The JSON that the captures hold, one line for each shape, with what stands before it."""
    shapes: dict[str, tuple[str, object]] = {}
    for line in (line for path in captures_of(name) for line in lines_of(path)):
        prefix = SENTINEL if line.startswith(SENTINEL) else ""
        try:
            document = ndjson.decode(line.removeprefix(prefix))
        except ndjson.Malformed:
            continue
        shapes.setdefault(str(sorted("/".join(map(str, path)) for path in paths(document))), (prefix, document))
    return list(shapes.values())


def paths(document: object) -> Iterator[tuple[str | int, ...]]:
    yield ()
    items = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for key, value in items:
        yield from ((key, *rest) for rest in paths(value))


def replaced(document: object, path: tuple[str | int, ...], value: object) -> object:
    if not path:
        return value
    if isinstance(document, dict):
        return {key: replaced(item, path[1:], value) if key == path[0] else item for key, item in document.items()}
    assert isinstance(document, list)
    return [replaced(item, path[1:], value) if key == path[0] else item for key, item in enumerate(document)]


@every_transcript
def test_a_wrong_value_in_any_field(name: str) -> None:
    for prefix, document in documents(name):
        for path in paths(document):
            conforms(name, [f"{prefix}{json.dumps(replaced(document, path, value))}" for value in WRONG])


@pytest.mark.spec("3.6-o")
@every_transcript
def test_any_field_left_out(name: str) -> None:
    for prefix, document in documents(name):
        for path in paths(document):
            holder = json.loads(json.dumps(document))
            *way, last = path or ("",)
            for key in way:
                holder = holder[key]
            if isinstance(holder, dict) and path:
                whole = replaced(document, tuple(way), {key: item for key, item in holder.items() if key != last})
                conforms(name, [f"{prefix}{json.dumps(whole)}"] * 2)


# Whatever else there is.

FRAGMENTS = [
    "OpenAI Codex v0.166.0", "--------", "workdir: /srv", "\x1b[1mmodel:\x1b[0m m", "session id: s", "user", "codex",
    "apply patch", "patch: completed", "/srv/a", "\x1b[1mapply patch\x1b[0m", "exec", "thinking", "tokens used",
    "2,850", "/bin/bash -lc 'ls' in /srv", " succeeded in 1ms:", " exited 3 in 0ms:",
    " in progress:", " succeeded in 99999999999999999999ms:", "", "some text", "warning: w", "ERROR: e",
    "**Bold** line", "\x1b[35m\x1b[3mcodex\x1b[0m\x1b[0m",
    "\x1b[35m\x1b[3mexec\x1b[0m\x1b[0m", "\x1b[2mdim", "more\x1b[0m", "\x1b[2mtokens used\x1b[0m",
    "\x1b[36muser\x1b[0m",
]  # fmt: skip
SEEN = [line for _, path in CAPTURES for line in lines_of(path) if line]


@every_transcript
@given(st.lists(st.sampled_from(FRAGMENTS), max_size=40))
def test_titles_in_any_order(name: str, lines: list[str]) -> None:
    conforms(name, ["OpenAI Codex v0.166.0", *lines])
    conforms(name, lines)


@every_transcript
@given(st.lists(st.sampled_from(SEEN) | st.text(st.characters(), max_size=20), max_size=12))
def test_lines_of_all_agents_in_any_order(name: str, lines: list[str]) -> None:
    conforms(name, lines)


@every_transcript
@given(st.lists(st.binary(max_size=40), max_size=6))
def test_any_bytes(name: str, chunks: list[bytes]) -> None:
    events = list(events_in(lines_in(chunks), TRANSCRIPTS[name]()))
    _can_be_journaled(events)


@every_transcript
def test_after_its_end_it_goes_on(name: str) -> None:
    """A session that is resumed is heard on."""
    transcript = TRANSCRIPTS[name]()
    events: list[Event] = []
    for path in itertools.islice(captures_of(name), 3):
        events += [event for line in lines_of(path) for event in transcript.feed(line)]
        events += transcript.flush()
    _can_be_journaled(events)
    _tools_that_start_also_end(events)
