"""The lines of a live transcript: calls folded, changes coloured, everything harmless and within the width."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

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
from ralph.ui.draw import Line, Tone, line, painted, plain, width
from ralph.ui.render import Detail
from ralph.ui.transcript import TonedTelling, folded, holds_command
from tests.support.hostile import TEXTS, every_event, steering
from tests.support.rows import rows

AT = "2026-11-16T00:48:20.123Z"


def told(*events: Event, detail: Detail = Detail.NORMAL, root: str = "/repo") -> list[Line]:
    telling = TonedTelling(detail, root)
    return [line for event in events for line in telling.lines(event, AT)]


def texts(*events: Event, detail: Detail = Detail.NORMAL) -> list[str]:
    return [plain(line) for line in told(*events, detail=detail)]


def call(name: str, status: ToolStatus = ToolStatus.OK, output: str = "", **tool_input: object) -> list[Event]:
    return [ToolStart("1", name, tool_input), ToolOutput("1", output), ToolEnd("1", status, 3200)]


def test_a_call_is_one_line_when_it_is_over() -> None:
    events = call("Bash", command="npm test", output="fine\n")
    assert told(events[0]) == []
    (said,) = told(*events)
    assert plain(said) == "✓ Bash     npm test  3.2s"
    assert said == (("✓ Bash     ", Tone.GOOD), ("npm test", Tone.PLAIN), ("  3.2s", Tone.DIM))


def test_of_a_call_that_failed_the_first_lines_are_shown() -> None:
    shown = told(*call("Bash", ToolStatus.FAIL, "\n".join(f"line {n}" for n in range(100)), command="make"))
    assert plain(shown[0]) == "✗ Bash     make  3.2s"
    assert shown[0][0][1] is Tone.BAD
    assert [plain(each) for each in shown[1:]] == [f"           line {n}" for n in range(8)]


def test_an_edit_shows_what_goes_and_what_comes() -> None:
    shown = told(
        *call("Edit", file_path="/repo/a.py", old_string="def f():\n    a\n    b", new_string="def f():\n    c\n    b")
    )
    assert [plain(each) for each in shown] == [
        "✓ Edit     a.py  3.2s",
        "           -    a",
        "           +    c",
    ]
    assert [each[-1][1] for each in shown[1:]] == [Tone.BAD, Tone.GOOD]


def test_of_a_long_change_a_few_lines_are_shown_and_the_rest_counted() -> None:
    shown = texts(*call("Write", file_path="/repo/a.py", content="\n".join(f"line {n}" for n in range(30))))
    assert shown[1:] == [*(f"           +line {n}" for n in range(8)), "           … 22 more changed lines"]


@pytest.mark.parametrize(
    "events",
    [
        call("apply_patch", input="*** Begin Patch\n*** Update File: a\n@@\n-old\n+new\n*** End Patch"),
        call("edit", path="a", changes=[{"path": "a"}], output="--- a/a\n+++ b/a\n@@ -1 +1 @@\n-old\n+new"),
        call("MultiEdit", file_path="a", edits=[{"old_string": "old", "new_string": "new"}]),
    ],
    ids=["handed in", "printed", "several"],
)
def test_patches_are_shown_likewise(events: list[Event]) -> None:
    assert texts(*events)[1:] == ["           -old", "           +new"]


def test_what_stays_within_an_edit_neither_goes_nor_comes() -> None:
    old, new = "import os\n\n\ndef f():\n    return 1\n", "import os\nimport re\n\n\ndef f():\n    return 2\n"
    assert [each.strip() for each in texts(*call("Edit", file_path="a.py", old_string=old, new_string=new))[1:]] == [
        "+import re",
        "-    return 1",
        "+    return 2",
    ]


def test_an_edit_too_long_to_compare_is_shown_all_the_same() -> None:
    old, new = ("\n".join(f"{word} {n}" for n in range(20_000)) for word in ("old", "new"))
    shown = texts(*call("Edit", file_path="a.py", old_string=old, new_string=new))
    assert shown[1] == "           -old 0"
    assert shown[-1].endswith(" more changed lines")


@pytest.mark.parametrize(
    "patch",
    [
        "--- a/a.sql\n+++ b/a.sql\n@@ -1,2 +1,2 @@\n x\n--- a comment\n+++i;\n--- a/b\n+++ b/b\n@@ -1 +0,0 @@\n-b\n",
        "--- a/a.sql\n+++ b/a.sql\n@@ -1 +1 @@ def f()\n--- a comment\n+++i;\ndiff --git a/b b/b\n--- a/b\n"
        "+++ /dev/null\n@@ -1 +0,0 @@\n-b\n",
        "@@ -1,%s +1 @@\n--- a comment\n+++i;\n-b" % ("9" * 5000),
        "*** Begin Patch\n*** Update File: a.sql\n@@\n--- a comment\n+++i;\n*** Update File: b\n-b\n*** End Patch",
        "*** Begin Patch\n*** Update File: a.sql\n@@ class A\n--- a comment\n+++i;\n*** Delete File: c\n"
        "*** Update File: b\n@@\n-b\n*** End Patch",
    ],
    ids=["two files", "git's", "endless", "codex's", "codex's with a place"],
)
def test_lines_that_look_like_the_names_of_files_are_shown_and_those_are_not(patch: str) -> None:
    shown = [each.strip() for each in texts(*call("apply_patch", input=patch))[1:]]
    assert shown == ["--- a comment", "+++i;", "-b"]


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
    telling = TonedTelling(Detail.NORMAL)
    events = call("Bash", command="ls", output="a\nb")
    for event in events[:-1]:
        telling.lines(event, AT)
    telling.detail = Detail.VERBOSE
    assert [plain(each) for each in telling.lines(events[-1], AT)] == [
        "✓ Bash     ls  3.2s",
        "           a",
        "           b",
    ]


def test_a_line_is_folded_between_words_and_keeps_its_column_and_tones() -> None:
    said = line(("agent      ", Tone.CALM), "one two three four ", ("five six", Tone.BAD))
    assert [plain(row) for row in folded(said, 24)] == [
        "agent      one two three",
        "           four five six",
    ]
    assert folded(said, 24)[1][-1] == ("six", Tone.BAD)
    assert folded(said, 80) == [said]


def test_a_rule_is_cut_and_a_word_too_long_is_broken() -> None:
    (rule,) = folded(told(IterationStarted(2, "s", "log"))[-1], 30)
    assert plain(rule) == "── iteration 2 " + "─" * 15
    assert [plain(row) for row in folded(line("x" * 25), 12)] == ["x" * 12, " " * 5 + "x" * 7, " " * 5 + "x" * 6]


@given(st.lists(st.tuples(st.text(), st.sampled_from(Tone))).map(tuple), st.integers(2, 60))
def test_no_word_is_lost_and_no_row_too_wide(said: Line, columns: int) -> None:
    assume(not holds_command(said))  # that one stays whole, and a rule is cut
    assume(not plain(said).startswith("──"))
    rows = folded(said, columns)
    assert all(sum(width(text) for text, _ in row) <= columns for row in rows)
    joined = "".join(plain(row) for row in rows)
    assert joined.replace(" ", "") == plain(said).replace(" ", "")


@given(st.lists(st.text(" ab", max_size=9), max_size=9), st.integers(2, 30))
def test_words_are_neither_glued_together_nor_torn_but_at_the_end_of_a_row(texts: list[str], columns: int) -> None:
    rows = [plain(row) for row in folded(tuple((text, Tone.PLAIN) for text in texts), columns)]
    within, ends = set[int](), set[int]()
    for row in rows:
        begun = max(ends, default=0)
        within |= {begun + place for place in between_words(row)}
        ends.add(begun + len(row.replace(" ", "")))
    gaps = between_words("".join(texts))
    assert within <= gaps <= within | ends


def between_words(text: str) -> set[int]:
    """How many letters stand before each gap between two words."""
    words = text.split()
    return {sum(map(len, words[:number])) for number in range(1, len(words))}


def test_a_wide_gap_before_a_word_that_would_fit_without_it_is_no_reason_to_glue() -> None:
    assert [plain(row).split() for row in folded(line("           name          size   date"), 22)] == [
        ["name"],
        ["size", "date"],
    ]


@pytest.mark.parametrize("detail", Detail)
@rows("name", TEXTS)
def test_nothing_that_is_told_can_steer_a_terminal(name: str, detail: Detail) -> None:
    for said in told(*every_event(TEXTS[name]), detail=detail):
        for columns in (60,) if len(TEXTS[name]) > 10_000 else (1, 7, 60):
            for row in folded(said, columns):
                assert not steering(painted(row, columns, colour=True))
                assert width(plain(row)) <= max(columns, 2)
