"""What an agent, a goal or a repository may say to take a terminal over, or to break who draws it."""

from __future__ import annotations

import re
import typing
from collections.abc import Iterator

from ralph.core.events import (
    AgentChanged,
    ApiRetry,
    CheckEnded,
    CheckStarted,
    Compacted,
    Event,
    Guided,
    IterationEnded,
    IterationStarted,
    Meta,
    RateLimited,
    RunEnded,
    RunStarted,
    SessionEnded,
    SessionStarted,
    SummaryStarted,
    SummaryWritten,
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

MARK = "owned"
"""Stands in every text whose sequence would set a title, a link or the clipboard: it must not become one."""

TEXTS: dict[str, str] = {
    **{f"C0 {code:02x}": f"a{chr(code)}b" for code in range(0x20)},
    "DEL": "a\x7fb",
    **{f"C1 {code:02x}": f"a{chr(code)}b" for code in range(0x80, 0xA0)},
    "OSC 0, a title": f"\x1b]0;{MARK}\x07",
    "OSC 0 in C1": f"\x9d0;{MARK}\x9c",
    "OSC 8, a link": f"\x1b]8;;http://example.invalid/{MARK}\x1b\\here\x1b]8;;\x1b\\",
    "OSC 52, the clipboard": f"\x1b]52;c;{MARK}\x07",
    "OSC without an end": f"\x1b]0;{MARK}",
    "DCS": f"\x1bP$q{MARK}\x1b\\",
    "DCS of tmux": f"\x1bPtmux;\x1b\x1b]52;c;{MARK}\x07\x1b\\",
    "APC, PM and SOS": f"\x1b_{MARK}\x1b\\\x1b^{MARK}\x1b\\\x1bX{MARK}\x1b\\",
    "clears the screen": "\x1b[2J\x1b[H\x1bc",
    "the other screen": "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[5i",
    "asks for an answer": "\x1b[6n\x1b[c\x05",
    "overwrites its line": "rm -rf /\rharmless",
    "colours without an end": "\x1b[31m\x1b[7mred",
    "bidi": "\u202etxt.exe\u2066\u2067\u2068\u2069\u202a\u202b\u202c\u202d\u200e\u200f\u061c",
    "invisible": "\u200b\u200c\u2060\ufeff\u2028\u2029\u00ad",
    "a surrogate": "\ud800\udfff",
    "rich markup": "[bold red]x[/bold red][link=http://example.invalid]y[/link]",
    "a closing tag of nothing": "[/nope][/][",
    "formats": "%s {0} {x!r} \\x1b[0m",
    "wide": "名前" * 60,
    "combining": "e" + "\u0301\u20dd" * 300,
    "joined": "👩‍👩‍👧‍👦🏳️‍🌈" * 30,
    "flags": "🇩🇪🇯🇵" * 20,
    "tabs": "\t" * 200,
    "line breaks": "a\n\r\n\x0b\x0c\x85\u2028b" * 50,
    "a long word": "x" * 100_000,
    "a long line": "word " * 20_000,
    "nothing": "",
    "blank": "  \n \t\n",
}

_OURS = re.compile(
    r"\r?\x1b\[(?:[0-9;]*m|[0-9]*[ABJK]|[0-9]+;1H|2J|\?(?:25|7|1049|2004|2026)[hl])"  # what `ui/terminal` writes
    r"|\x1b\]9;ralph: [^\x00-\x1f\x7f-\x9f]*\x07\x07"
)
_STEERING = re.compile("[\x00-\x07\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


def steering(written: str) -> list[str]:
    """What in all that was written to a terminal could steer it, and is none of ralph's own few sequences.

    A carriage return and a backspace are looked at as well, where they stand in the middle of a line.
    """
    rest = _OURS.sub("", written)
    found = _STEERING.findall(rest)
    return found + re.findall(r"\x08|(?<=[^\r\n])\r(?=[^\r\n])", rest)


def hostile_events() -> Iterator[Event]:
    """Every event with every text of the corpus in all its places."""
    for text in TEXTS.values():
        yield from every_event(text)


def every_event(text: str) -> list[Event]:
    """One event of each kind, and of each kind of call, that says this text wherever it can."""
    return [
        RunStarted(text, text, text, text, text, text, text, text, text, text, continued=False, iteration=1),
        IterationStarted(3, text, text),
        SessionStarted(text, text, text, (text,), text),
        *(Text(tag, text) for tag in Tag),
        ToolStart("t1", text, {"command": text}),
        ToolOutput("t1", text),
        ToolEnd("t1", ToolStatus.FAIL),
        ToolStart("t2", "Odd", {text: text}),
        ToolOutput("t2", text),
        ToolEnd("t2", ToolStatus.OK),
        ToolStart("t3", "Edit", {"file_path": text, "old_string": f"a\n{text}", "new_string": f"{text}\nb"}),
        ToolEnd("t3", ToolStatus.OK, 1500),
        ToolStart("t4", "Write", {"file_path": text, "content": text}),
        ToolEnd("t4", ToolStatus.UNKNOWN),
        ToolStart("t5", "edit", {"path": text, "changes": [text]}),
        ToolOutput("t5", f"@@ {text}\n+{text}\n-{text}"),
        ToolEnd("t5", ToolStatus.OK, -1),
        ToolStart("t6", "Odd", {"edits": [text, {"old_string": text, "new_string": None}], "input": [text]}),
        ToolEnd("t6", ToolStatus.OK),
        ToolStart(text, text, {"command": None}),
        ToolEnd("never started", ToolStatus.UNKNOWN),
        Usage(1, 2, 3, model=text, context_pct=1e300, cost_usd=1e5),
        Meta({text: text}),
        RateLimited(text, 1_794_790_100.0, text, 1e300),
        ApiRetry(1, None, text),
        Compacted(text, 1, None),
        AgentChanged(text, text, text, text, text, 1_794_790_100.0),
        Meta({"ignored": text}),
        TurnEnded(is_error=True, subtype=text, text=text, structured_output=None),
        SessionEnded(text, text, text, text, degraded=False, exit_code=1, log=text),
        IterationEnded(3, "CONTINUE", text, 0.5, 42.0, text),
        SummaryStarted(3, text, text),
        SummaryWritten(3, 0.5, text),
        CheckStarted(3),
        CheckEnded(1, 2.0, text),
        Waiting(text, 1_794_790_100.0),
        Waiting(text, 9e15),
        Waiting(text, None),
        Guided(1, text, text),
        RunEnded(1, text, proven=False),
    ]


assert {type(event) for event in every_event("x")} == set(typing.get_args(Event)), "an event has no hostile example"
