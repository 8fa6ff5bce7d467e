"""The rows of a transcript: Markdown rendered, calls folded, changes coloured, everything harmless and in the width."""

from __future__ import annotations

import itertools

import pytest
from rich.cells import cell_len

from ralph.core.events import (
    CheckEnded,
    Event,
    IterationEnded,
    IterationStarted,
    SessionEnded,
    Tag,
    Text,
    ToolEnd,
    ToolOutput,
    ToolStart,
    ToolStatus,
    Usage,
)
from ralph.ui.render import Detail, Paragraph
from ralph.ui.terminal import Look, Row, painted
from ralph.ui.theme import style
from ralph.ui.transcript import TranscriptRenderer, paragraph_rows
from tests.support.frames import lines, words
from tests.support.hostile import TEXTS, every_event, steering
from tests.support.rows import rows

AT = "2026-11-16T00:48:20.123Z"


def drawn(*events: Event, detail: Detail = Detail.NORMAL, columns: int = 80, quickly: bool = False) -> list[Row]:
    view = TranscriptRenderer(detail, "/repo")
    return [
        row for event in events for said in view.tell(event, AT) for row in view.rows(said, columns, quickly=quickly)
    ]


def texts(*events: Event, detail: Detail = Detail.NORMAL, columns: int = 80) -> list[str]:
    return lines(drawn(*events, detail=detail, columns=columns))


def call(name: str, status: ToolStatus = ToolStatus.OK, output: str = "", **tool_input: object) -> list[Event]:
    return [ToolStart("1", name, tool_input), ToolOutput("1", output), ToolEnd("1", status, 3200)]


def look_of(row: Row, text: str) -> Look:
    """How the part of a row that holds a text looks."""
    found = next(segment.style for segment in row if text in segment.text)
    return next(look for look in Look if style(look) == found)


def test_a_call_is_one_line_when_it_is_over() -> None:
    events = call("Bash", command="npm test", output="fine\n")
    assert drawn(events[0]) == []
    (row,) = drawn(*events)
    assert words(row) == "✓ Bash     npm test  3.2s"
    assert look_of(row, "✓") is Look.GOOD
    assert look_of(row, "3.2s") is Look.QUIET


def test_of_a_call_that_failed_the_last_lines_are_shown() -> None:
    shown = drawn(*call("Bash", ToolStatus.FAIL, "\n".join(f"  line {n}" for n in range(100)), command="make"))
    assert words(shown[0]) == "✗ Bash     make  3.2s"
    assert look_of(shown[0], "✗") is Look.BAD
    assert lines(shown[1:]) == [f"             line {n}" for n in range(92, 100)]


def test_an_edit_shows_what_goes_and_what_comes_and_where() -> None:
    edit = {
        "file_path": "/repo/a.py",
        "old_string": "def f():\n    a\n    b",
        "new_string": "def f():\n    c\n    d\n    b",
    }
    shown = drawn(ToolStart("1", "Edit", edit), ToolEnd("1", ToolStatus.OK, line=99))
    assert lines(shown) == [
        "✓ Edit     a.py  +2 -1",
        "            99 -     a",
        "            99 +     c",
        "           100 +     d",
    ]
    assert [look_of(row, text) for row, text in zip(shown[1:], "acd", strict=True)] == [Look.BAD, Look.GOOD, Look.GOOD]


def test_what_follows_lines_that_stay_is_numbered_from_there() -> None:
    old, new = "import os\n\ndef f():\n    return 1\n", "import re\n\ndef f():\n    return 2\n"
    edit = ToolStart("1", "Edit", {"file_path": "a.py", "old_string": old, "new_string": new})
    assert [each.strip() for each in texts(edit, ToolEnd("1", ToolStatus.OK, line=7))[1:]] == [
        "7 - import os",
        "7 + import re",
        "10 -     return 1",
        "10 +     return 2",
    ]


def test_of_a_long_change_a_few_lines_are_shown_and_the_rest_counted() -> None:
    shown = texts(*call("Write", file_path="/repo/a.py", content="\n".join(f"line {n}" for n in range(30))))
    assert shown[0].endswith("a.py  +30 · 3.2s")
    assert shown[1:] == [
        *(f"           {n + 1:>2} + line {n}" for n in range(12)),
        "           … 18 more changed lines",
    ]


@pytest.mark.parametrize(
    ("events", "numbers"),
    [
        (call("apply_patch", input="*** Begin Patch\n*** Update File: a\n@@\n-old\n+new\n*** End Patch"), ["", ""]),
        (
            call("edit", path="a", changes=[{"path": "a"}], output="--- a/a\n+++ b/a\n@@ -4,2 +5,2 @@\n x\n-old\n+new"),
            ["5 ", "6 "],
        ),
        (call("MultiEdit", file_path="a", edits=[{"old_string": "old", "new_string": "new"}]), ["", ""]),
    ],
    ids=["handed in", "printed", "several"],
)
def test_patches_are_shown_likewise(events: list[Event], numbers: list[str]) -> None:
    assert texts(*events)[1:] == [f"           {numbers[0]}- old", f"           {numbers[1]}+ new"]


def test_of_a_patch_the_files_are_named() -> None:
    patch = "*** Begin Patch\n*** Update File: /repo/a.py\n@@\n-b\n*** Delete File: c\n*** End Patch"
    assert texts(*call("apply_patch", input=patch))[0] == "✓ apply_patch  a.py, c  -1 · 3.2s"
    bare = "@@ -1 +1 @@\n-old\n+new"
    assert texts(*call("apply_patch", input=bare))[0] == "✓ apply_patch  a patch  +1 -1 · 3.2s"


def test_what_stays_within_an_edit_neither_goes_nor_comes() -> None:
    old, new = "import os\n\n\ndef f():\n    return 1\n", "import os\nimport re\n\n\ndef f():\n    return 2\n"
    assert [each.strip() for each in texts(*call("Edit", file_path="a.py", old_string=old, new_string=new))[1:]] == [
        "+ import re",
        "-     return 1",
        "+     return 2",
    ]


def test_an_edit_too_long_to_compare_is_shown_all_the_same() -> None:
    old, new = ("\n".join(f"{word} {n}" for n in range(20_000)) for word in ("old", "new"))
    shown = texts(*call("Edit", file_path="a.py", old_string=old, new_string=new))
    assert shown[1] == "           - old 0"
    assert shown[-1].endswith(" more changed lines")


@pytest.mark.parametrize(
    "patch",
    [
        "--- a/a.sql\n+++ b/a.sql\n@@ -1,2 +1,2 @@\n x\n--- a comment\n+++i;\n--- a/b\n+++ b/b\n@@ -1 +0,0 @@\n-b\n",
        "--- a/a.sql\n+++ b/a.sql\n@@ -1 +1 @@ def f()\n--- a comment\n+++i;\ndiff --git a/b b/b\n--- a/b\n"
        "+++ /dev/null\n@@ -1 +0,0 @@\n-b\n",
        "@@ -1,%s +1 @@\n--- a comment\n+++i;\n-b" % ("9" * 9),
        "*** Begin Patch\n*** Update File: a.sql\n@@\n--- a comment\n+++i;\n*** Update File: b\n-b\n*** End Patch",
        "*** Begin Patch\n*** Update File: a.sql\n@@ class A\n--- a comment\n+++i;\n*** Delete File: c\n"
        "*** Update File: b\n@@\n-b\n*** End Patch",
    ],
    ids=["two files", "git's", "endless", "codex's", "codex's with a place"],
)
def test_lines_that_look_like_the_names_of_files_are_shown_and_those_are_not(patch: str) -> None:
    shown = [each.strip().lstrip("0123456789 ") for each in texts(*call("apply_patch", input=patch))[1:]]
    assert shown == ["- -- a comment", "+ ++i;", "- b"]


def test_what_only_looks_like_an_edit_is_none() -> None:
    assert len(texts(*call("Bash", command="diff a b", output="@@ -1 +1 @@\n-old\n+new"))) == 1
    assert (
        len(texts(*call("Edit", ToolStatus.FAIL, "no such file", file_path="a", old_string="a", new_string="b"))) == 2
    )


def test_the_verdict_is_no_action_unless_all_is_told() -> None:
    assert texts(*call("StructuredOutput", summary="x")) == []
    assert texts(*call("StructuredOutput", summary="x"), detail=Detail.VERBOSE)[0].startswith("✓ StructuredOutput")


def test_a_session_in_brief_is_what_it_came_to() -> None:
    session = [
        IterationStarted(1, "s", "log"),
        Text(Tag.THINK, "Plan: look"),
        Text(Tag.AI, "I look"),
        *call("Bash", ToolStatus.FAIL, command="ls"),
        Text(Tag.SYS, "undone"),
        Usage(total_tokens=5),
        SessionEnded("s", "ok", "", "", degraded=False, exit_code=0, log=""),
        IterationEnded(1, "DONE", "0" * 40, None, None, "DONE"),
        CheckEnded(0, 2.0, ""),
    ]
    labels = [text[:9].strip() for text in texts(*session, detail=Detail.QUIET)]
    assert labels == ["", "── iterat", "note", "ACTIONS", "REPORT", "summary", "", "check"]
    assert [text[:9].strip() for text in texts(*session)][2:5] == ["PLAN", "agent", "✗ Bash"]


def test_the_detail_can_be_changed_at_any_time() -> None:
    view = TranscriptRenderer(Detail.NORMAL)
    events = call("Bash", command="ls", output="a\nb")
    said = [each for event in events for each in view.tell(event, AT)]
    assert [line for each in said for line in lines(view.rows(each, 80))] == ["✓ Bash     ls  3.2s"]
    view.detail = Detail.VERBOSE
    assert [line for each in said for line in lines(view.rows(each, 80))] == [
        "✓ Bash     ls  3.2s",
        "           a",
        "           b",
    ]


MARKDOWN = """I've **found** it in `tokens.py`:
two lines

# Next
1. first
2. second

```python
def f():
    return 1
```
| file | change |
|---|---|
| a.py | new |

See [the docs](https://example.invalid/x), <b>&#27;[31m</b> and ![a picture](x.png).
"""


def test_what_an_agent_says_is_markdown() -> None:
    rows = drawn(Text(Tag.AI, MARKDOWN))
    shown = lines(rows)
    assert shown[:2] == ["agent      I've found it in tokens.py:", "           two lines"]
    assert [line.strip() for line in shown if line][2:] == [
        "Next", "1. first", "2. second", "def f():", "return 1", "file  change", "────────────", "a.py  new",
        "See the docs (https://example.invalid/x), <b>&#27;[31m</b> and !a",
        "picture (x.png).",
    ]  # fmt: skip
    assert "\x1b]8" not in "".join(painted(row, 80, colour=True) for row in rows), "no link"
    assert "" not in {first + second for first, second in itertools.pairwise(shown)}, "one row of room at most"
    assert "**found**" in texts_quickly(Text(Tag.AI, MARKDOWN))[0]


def looks(language: str, code: str) -> set[str]:
    """The colours in which code of a message is drawn."""
    rows = drawn(Text(Tag.AI, f"~~~{language}\n{code}\n~~~"))
    return {segment.style.color.name for row in rows[1:] for segment in row if segment.style and segment.style.color}


def test_code_has_the_colours_of_its_language() -> None:
    code = "def f():  # no\n    return 'text'"
    assert looks("python", code) == {"magenta", "yellow"}
    assert looks("Python", code) == looks("python", code)
    for plain in (looks("", code), looks("no-such-language", code), looks("python", f"{code}\n" * 100)):
        assert plain == {"cyan"}
    for name in sorted(TEXTS):
        for row in drawn(Text(Tag.AI, f"~~~python\n{TEXTS[name][:1500]}\n~~~")):
            assert not steering(painted(row, 80, colour=True)), name


def texts_quickly(event: Event) -> list[str]:
    return lines(drawn(event, quickly=True))


def test_a_message_without_end_is_shown_as_far_as_anybody_reads() -> None:
    rows = texts(Text(Tag.AI, "word " * 100_000))
    assert rows[-1] == "           … (the rest is in the log)"
    assert len(rows) < 400
    assert texts(Text(Tag.AI, "line\n" * 3000))[-1] == "           … 2,600 more lines"


def test_words_are_wrapped_beside_their_label_and_a_label_too_long_stands_before_them() -> None:
    assert lines(paragraph_rows(Paragraph("agent", "one two three four five six"), 34)) == [
        "agent      one two three four five",
        "           six",
    ]
    assert lines(paragraph_rows(Paragraph("✓ mcp__github__merge", "title"), 80)) == ["✓ mcp__github__merge  title"]
    assert lines(paragraph_rows(Paragraph("agent", "one two"), 12)) == ["agent  one", "  two"]


def test_a_command_is_one_row_however_long() -> None:
    command = "ralph run goal.md --max-iterations 20 --max-cost 12.50"
    assert lines(paragraph_rows(Paragraph("next", command), 40)) == [f"next       {command}"]


def test_a_divider_goes_across_the_screen() -> None:
    assert lines(drawn(IterationStarted(2, "s", "log"), columns=30))[-1] == "── iteration 2 " + "─" * 15


@pytest.mark.parametrize("detail", Detail)
@rows("name", TEXTS)
def test_nothing_that_is_told_can_steer_a_terminal(name: str, detail: Detail) -> None:
    for columns in (60,) if len(TEXTS[name]) > 10_000 else (1, 7, 60):
        for row in drawn(*every_event(TEXTS[name]), detail=detail, columns=columns):
            assert not steering(painted(row, columns, colour=True))
            assert columns < 60 or cell_len(words(row)) <= columns
