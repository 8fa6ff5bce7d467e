"""When older iterations are condensed, and what of a summary outlives a restart."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ralph.core.summary import Condensed, Rhythm, Summary, written
from ralph.core.usage import Spend
from ralph.run import summarizer
from ralph.run.summarizer import Unusable
from tests.support.rows import rows

USUAL = Rhythm()


def condensed(through: int = 0, not_before: int = 0) -> Condensed:
    return Condensed(Summary(through, "so far") if through else None, not_before)


@pytest.mark.spec("1.1.2-a")
@rows(
    ("finished", "before", "through"),
    [
        (0, condensed(), None),
        (9, condensed(), None),
        (10, condensed(), 5),
        (10, condensed(5), None),
        (11, condensed(), 5),  # ralph was killed before the summary, or the run directory was lost
        (19, condensed(5), None),
        (20, condensed(5), 15),
        (20, condensed(), 15),
        (10, condensed(not_before=20), None),
        (19, condensed(not_before=20), None),
        (20, condensed(not_before=20), 15),
        (10, condensed(not_before=11), None),
        (11, condensed(not_before=11), 5),
        (20, condensed(11), 15),  # condensed in between, since a prompt was too long
    ],
)
def test_after_every_ten_all_but_the_latest_five(finished: int, before: Condensed, through: int | None) -> None:
    assert USUAL.due(finished, before) == through


@pytest.mark.parametrize(
    ("finished", "before", "through"),
    [
        (2, condensed(), None),
        (3, condensed(), 1),
        (17, condensed(5), 15),
        (17, condensed(15), None),
        (17, condensed(5, not_before=18), None),
        (18, condensed(5, not_before=18), 16),
    ],
)
def test_to_shrink_a_prompt_all_but_two(finished: int, before: Condensed, through: int | None) -> None:
    assert USUAL.due(finished, before, shrink=True) == through


def test_without_a_rhythm_never() -> None:
    never = Rhythm(every=0)
    assert [never.due(finished, Condensed(), shrink=shrink) for finished in (10, 100) for shrink in (True, False)] == [
        None
    ] * 4
    assert never.verbatim == 10


@given(every=st.integers(1, 12), keep=st.integers(1, 12), summaries_fail=st.booleans())
def test_a_prompt_never_lacks_an_iteration_while_summaries_are_made(
    every: int, keep: int, summaries_fail: bool
) -> None:
    rhythm, so_far = Rhythm(every, keep), Condensed()
    for finished in range(1, 60):
        if (through := rhythm.due(finished, so_far)) is not None:
            assert finished % every == 0
            again = rhythm.next_try(finished, passes=False)
            assert again == finished + every
            so_far = so_far.put_off(again) if summaries_fail else so_far.after(Summary(through, "x"))
            assert rhythm.due(finished, so_far) is None, "once is enough"
        if not summaries_fail:
            assert min(finished, keep) <= finished - so_far.through <= rhythm.verbatim


def test_what_it_cost_adds_up() -> None:
    spent = Condensed().spent(Spend(0.5, 10, costed=True)).spent(Spend(0.25, 5, costed=True))
    assert spent.spend == Spend(0.75, 15, costed=True)


def test_a_summary_that_was_made_forgets_the_failure_before() -> None:
    assert condensed(not_before=20).after(Summary(15, "x")) == condensed().after(Summary(15, "x"))


# The file


def test_the_file_says_first_what_it_covers_and_of_which_run(tmp_path: Path) -> None:
    path = tmp_path / "summary.md"
    summarizer.store(path, Summary(15, "It went well."), run="0123456789ab", goal="speed")
    assert path.read_text() == "# Iterations 1-15 of run 0123456789ab, goal speed\n\nIt went well.\n"
    assert path.stat().st_mode & 0o777 == 0o600


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(st.characters(), max_size=80).filter(lambda text: bool(text.strip())) | st.just("x\r\ny\rz\x00"))
def test_what_is_kept_is_read_back_to_the_letter(tmp_path: Path, text: str) -> None:
    path = tmp_path / "summary.md"
    summary = written(7, text)
    summarizer.store(path, summary, run="r", goal="g")
    assert summarizer.stored(path, run="r") == summary


def test_of_a_long_one_both_ends_are_kept_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "summary.md"
    summary = written(7, "first " + "\N{SNOWMAN}" * 1_000_000 + " last")
    assert len(summary.text) < 12_100
    assert summary.text.startswith("first ")
    assert summary.text.endswith(" last")
    summarizer.store(path, summary, run="r", goal="g")
    assert summarizer.stored(path, run="r") == summary


def test_without_a_file_there_is_no_summary(tmp_path: Path) -> None:
    assert summarizer.stored(tmp_path / "summary.md", run="r") is None


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "damaged"),
        (b"# Iterations 1-5 of run r, goal g\n\n \n", "damaged"),
        (b"# Iterations 1-0 of run r, goal g\n\nx\n", "damaged"),
        (b"# Iterations 2-5 of run r, goal g\n\nx\n", "damaged"),
        (b"# Iterations 1-9999999999999 of run r, goal g\n\nx\n", "damaged"),
        (b"x\n", "damaged"),
        (b"# Iterations 1-5 of run r, goal g\n\n" + b"x" * 100_000, "damaged"),
        (b"# Iterations 1-5 of run r, goal g\n\n\xff\n", "not UTF-8"),
        (b"# Iterations 1-5 of run other, goal g\n\nx\n", "belongs to run other"),
    ],
)
def test_what_cannot_be_believed_is_not(tmp_path: Path, content: bytes, why: str) -> None:
    path = tmp_path / "summary.md"
    path.write_bytes(content)
    found = summarizer.stored(path, run="r")
    assert isinstance(found, Unusable)
    assert why in found.reason


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo], ids=["directory", "pipe"])
def test_what_is_no_file_is_no_summary_and_holds_nobody_up(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "summary.md")
    assert summarizer.stored(tmp_path / "summary.md", run="r") == Unusable("it is not a regular file")
