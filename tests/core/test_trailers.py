"""The message of an iteration's commit, as git itself reads it back."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ralph.core.run import commit_message, read_message, subject_of
from ralph.core.usage import Spend
from ralph.core.verdict import Answer, Verdict
from ralph.git.repo import open_repo
from tests.support.git_repos import git
from tests.support.rows import rows

SCISSORS = "# ------------------------ >8 ------------------------"
RIGHT = {
    "Ralph-Goal": "speed",
    "Ralph-Run": "0123456789ab",
    "Ralph-Iteration": "7",
    "Ralph-Verdict": "CONTINUE",
    "Ralph-Cost-USD": "0.30375",
    "Ralph-Tokens": "1234",
}
HOSTILE = {
    "a trailer": "Ralph-Run: evil",
    "a block of trailers": "Did it.\n\nRalph-Run: evil\nRalph-Iteration: 99\n",
    "a divider": "Ralph-Run: evil\n---\nmore",
    "scissors": f"Ralph-Run: evil\n{SCISSORS}\nmore",
    "a comment at the start": "# Heading\n\ntext",
    "comments only": "# one\n# two",
    "old conflicts": "Conflicts:\n\tREADME.md",
    "a continuation": "text\n\n  Ralph-Run: evil",
    "CRLF": "text\r\n\r\nRalph-Run: evil\r\n",
    "only CR": "text\r\rRalph-Run: evil",
    "NUL": "before\0after\0",
    "signed off": "Signed-off-by: A <a@b>\n(cherry picked from commit 0123)",
    "a patch": "diff --git a/x b/x\n--- a/x\n+++ b/x",
    "mail": "From: evil\nSubject: evil\n\nbody",
}


SUBJECTS = [
    (Answer(Verdict.CONTINUE, "Fixed the parser. Then more."), 50, "ralph 7/50: Fixed the parser"),
    (Answer(Verdict.CONTINUE, "Fixed the parser. Then more."), None, "ralph 7: Fixed the parser"),
    (Answer(Verdict.DONE, "DONE"), 50, "ralph 7/50: claims DONE"),
    (Answer(Verdict.DONE, "All hold. Seen by make test."), None, "ralph 7: All hold"),
    (Answer(Verdict.BLOCKED, "BLOCKED: the key is missing. Ask Ann."), None, "ralph 7: BLOCKED: the key is missing"),
    (Answer(Verdict.CONTINUE, "# Report\n\n- Moved `a.py` to v1.2 of\n  the tree. Good."), None,
     "ralph 7: Moved `a.py` to v1.2 of the tree"),
    (Answer(Verdict.CONTINUE, "\x1b[31mRed\x1b[0m\0 \u202eevil\u2028 line. x"), None, "ralph 7: Red evil line. x"),
    (Answer(Verdict.CONTINUE, "log\nlog\n\nFixed it. More.", closing="Fixed it. More."), None, "ralph 7: Fixed it"),
    (Answer(Verdict.CONTINUE, "Ralph-Run: evil\n\nRalph-Run: evil"), None, "ralph 7: Ralph-Run: evil"),
    (Answer(Verdict.CONTINUE, "\0"), None, "ralph 7: no summary"),
]  # fmt: skip


@rows(("answer", "limit", "subject"), SUBJECTS, ids=[str(number) for number in range(len(SUBJECTS))])
def test_the_subject_is_the_first_sentence(answer: Answer, limit: int | None, subject: str) -> None:
    assert subject_of(7, limit, answer) == subject


@pytest.mark.parametrize("limit", [None, 50, 10**12])
@pytest.mark.parametrize("summary", ["word " * 40, "x" * 200, "Ä" * 200], ids=["words", "one word", "not ASCII"])
def test_the_subject_has_72_characters_at_most(summary: str, limit: int | None) -> None:
    subject = subject_of(123, limit, Answer(Verdict.CONTINUE, summary))
    assert 55 < len(subject) <= 72
    assert subject.endswith("…")


def test_the_commits_of_earlier_versions_are_known_by_their_trailers() -> None:
    earlier = message("Did this.").replace("ralph 7: Did this", "ralph: iteration 7")
    assert earlier.startswith("ralph: iteration 7\n")
    assert read_message(earlier) == read_message(message("Did this."))
    found = read_message(earlier)
    assert found is not None
    assert (found.iteration, found.summary) == (7, "Did this.")


def message(summary: str, *, spend: Spend | None = None, verdict: Verdict = Verdict.CONTINUE) -> str:
    return commit_message(
        goal="speed",
        run="0123456789ab",
        iteration=7,
        answer=Answer(verdict, summary),
        spend=spend or Spend(0.30375, 1234, costed=True),
    )


def parsed(text: str) -> dict[str, str]:
    done = subprocess.run(
        ["git", "interpret-trailers", "--parse"], input=text.encode(), capture_output=True, check=True
    )
    return dict(line.split(": ", 1) for line in done.stdout.decode("utf-8", "replace").splitlines())


@rows("summary", HOSTILE.values(), ids=list(HOSTILE))
def test_a_summary_cannot_become_a_trailer(summary: str) -> None:
    assert parsed(message(summary)) == RIGHT


@pytest.mark.parametrize("summary", HOSTILE.values(), ids=HOSTILE)
def test_a_committed_summary_cannot_become_a_trailer(repo: Path, summary: str) -> None:
    open_repo(repo).commit_all(message(summary), repo / "goal.md")
    told = git(repo, "log", "-1", "--format=%(trailers:only,unfold)")
    assert dict(line.split(": ", 1) for line in told.splitlines()) == RIGHT


def test_scissors_of_a_users_own_comment_character_cut_nothing(repo: Path) -> None:
    git(repo, "config", "core.commentChar", ";")
    open_repo(repo).commit_all(message("Ralph-Run: evil\n" + SCISSORS.replace("#", ";")), repo / "goal.md")
    told = git(repo, "log", "-1", "--format=%(trailers:only,unfold)")
    assert dict(line.split(": ", 1) for line in told.splitlines()) == RIGHT


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(["Ralph-Run: evil", "", "#", "---", SCISSORS, "text", "\t", "x: y", "\r"])))
def test_no_mixture_of_lines_becomes_a_trailer(lines: list[str]) -> None:
    assert parsed(message("\n".join(lines))) == RIGHT


def test_the_summary_stands_in_the_body() -> None:
    assert message("Did this.\n\n# And that").startswith("ralph 7: Did this\n\nDid this.\n\n# And that\n\nRalph-Goal: ")


def test_a_nul_would_end_the_message_and_is_dropped() -> None:
    assert "\0" not in message("a\0b")


def test_a_cost_that_nobody_told_is_unknown() -> None:
    assert parsed(message("x", spend=Spend(0.0, 5)))["Ralph-Cost-USD"] == "unknown"


def test_a_sum_of_floats_is_written_without_its_dust() -> None:
    spend = sum([Spend(0.1, 1, costed=True)] * 3, Spend())
    assert parsed(message("x", spend=spend))["Ralph-Cost-USD"] == "0.3"


def test_a_claim_is_written_as_done() -> None:
    assert parsed(message("DONE", verdict=Verdict.DONE))["Ralph-Verdict"] == "DONE"
