"""Pages: tables, facts and lines for a pipe, and for terminals of every kind."""

from __future__ import annotations

import re

import pytest

from ralph.ui.page import PIPES_ONLY, FactList, Paper, Part, Table, TableColumn, TableRow, lines
from ralph.ui.theme import Look
from tests.support.hostile import TEXTS, steering
from tests.support.terminal import Screen

PIPE = Paper()
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
WHY = "the check is red: see the log, mend it, then: ralph-runs retry g10"
GOALS = Table(
    [
        TableColumn("id", whole=True),
        TableColumn("goal"),
        TableColumn("cost", right=True, whole=True),
        TableColumn("title", at_least=60),
        TableColumn("repo", at_least=PIPES_ONLY),
    ],
    [
        TableRow(["g1", ("a", Look.GOOD), "$0.50", "名前", "shop"]),
        TableRow(["g10", "a-goal-with-a-rather-long-name", "$12.00", "Longer", "shop"], (WHY, Look.QUIET)),
    ],
    "goals",
)


def shown(parts: list[Part], columns: int) -> list[str]:
    """What a terminal of so many columns shows."""
    screen = Screen(columns, 200)
    screen.feed("".join(f"{line}\r\n" for line in lines(parts, Paper(columns, styled=True, colour=True))).encode())
    return screen.rows


def test_a_pipe_gets_every_column_and_nothing_is_cut() -> None:
    assert lines([GOALS], PIPE) == [
        "goals",
        "id   goal                              cost  title   repo",
        "g1   a                                $0.50  名前    shop",
        f"g10  a-goal-with-a-rather-long-name  $12.00  Longer  shop  {WHY}",
    ]


def test_a_wide_terminal_has_notes_beside_the_rows() -> None:
    rows = shown([GOALS], 130)
    assert rows[:2] == ["goals", "id   goal                              cost  title"]
    assert rows[3] == f"g10  a-goal-with-a-rather-long-name  $12.00  Longer  {WHY}"
    folded = shown([GOALS], 100)
    assert folded[3].startswith("g10  a-goal-with-a-rather-long-name  $12.00  Longer  the check is red")
    assert len(folded) == 5
    assert " ".join([folded[3].partition("Longer")[2].strip(), folded[4].strip()]) == WHY


def test_a_narrow_terminal_cuts_names_drops_columns_and_has_notes_below() -> None:
    rows = shown([GOALS], 40)
    assert rows[1] == "id   goal                           cost"
    assert rows[3] == "g10  a-goal-with-a-rather-long-…  $12.00"
    assert all(row.startswith("    ") for row in rows[4:])
    assert " ".join(row.strip() for row in rows[4:]) == WHY


@pytest.mark.parametrize("columns", [1, 5, 12, 20, 40, 80, 120, 200])
def test_a_table_never_is_wider_than_the_terminal(columns: int) -> None:
    for line in lines([GOALS], Paper(columns, styled=True, colour=True)):
        screen = Screen(columns, 5)
        screen.feed(line.encode())
        assert len(screen.rows) <= 1


def test_facts_are_folded_beside_their_labels_and_commands_are_not() -> None:
    command = "git -C /srv/mirrors/shop.git for-each-ref refs/ralph/clones"
    facts = FactList({"state": WHY, "cost": "", "saved": command}, copied=("saved",))
    assert lines([facts], PIPE) == [f"state      {WHY}", f"saved      {command}"]
    written = lines([facts], Paper(40, styled=False))
    assert written[0] == "state      the check is red: see the"
    assert all(line.startswith(" " * 11) for line in written[1:-1])
    assert written[-1] == f"saved      {command}", "it cannot be copied in one go"
    assert lines([facts], Paper(20, styled=False))[0] == "state"


def test_attributes_go_where_they_are_understood() -> None:
    full, plain = Paper(80, styled=True, colour=True), Paper(80)
    parts: list[Part] = [GOALS, ("words", Look.BAD)]
    assert "\x1b[32ma" in "".join(lines(parts, full))
    assert "\x1b[31mwords" in "".join(lines(parts, full))
    without_colour = "".join(lines(parts, Paper(80, styled=True)))
    assert "\x1b[1mgoals" in without_colour
    assert not re.search(r"\x1b\[(?:3|4|9)[0-9]", without_colour)
    assert "\x1b" not in "".join(lines(parts, plain) + lines(parts, PIPE))
    assert [COLOURS.sub("", line).rstrip() for line in lines(parts, full)] == lines(parts, plain)


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("on", [PIPE, Paper(40), Paper(40, styled=True, colour=True), Paper(200, styled=True)])
def test_hostile_text_steers_nothing(name: str, on: Paper) -> None:
    text = TEXTS[name][:3000]
    table = Table(
        [TableColumn(text), TableColumn("", right=True), TableColumn("x", whole=True)],
        [TableRow([text] * 3, text)] * 2,
        text,
    )
    facts = FactList({"label": (text, Look.BAD), "saved": text}, copied=("saved",))
    written = "\n".join(lines([table, facts, text, (text, Look.STRONG)], on))
    assert not steering(written)
    assert "[bold red]" not in text or "[bold red]" in written, "markup was honoured"
