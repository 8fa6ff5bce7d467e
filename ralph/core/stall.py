"""Stall detection: an iteration that changes no file and reports nothing new is no progress.

When in doubt, it counts as progress: new words or numbers, another failure of the check, a commit anywhere.
"""

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

_REMEMBERED = 50
"""Earlier iterations that a new one is compared with; agents go round in small circles."""

_COMPARED = 3
_FLEETING = re.compile(
    r"(?=[\d/aiprst])(?:"  # their possible first characters: without this the match takes nine times as long
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?"  # instants
    r"|\b\d\d:\d\d:\d\d(?:\.\d+)?\b"  # times of day
    r"|\b\d+(?:\.\d+)?\s?(?:ns|µs|us|ms|s|secs?|seconds?|mins?|minutes?)\b"  # durations
    r"|\b0x[0-9a-f]+\b"  # addresses
    r"|\bpid[ =:]?\d+\b"
    r"|/tmp/[^\s'\"]+"
    r"|\b(?:iteration|attempt|try|session|round) ?#?\d+\b"
    r"|\b\d+(?:st|nd|rd|th) (?:iteration|attempt|try|session|round)\b)",
    re.IGNORECASE,
)
"""Parts that differ between two identical runs. Other numbers count: 14 failures are not 13."""


@dataclass(frozen=True, slots=True)
class StallMark:
    """An iteration's words: `words` is a digest of its summary and the check's output."""

    words: str
    commit: str


@dataclass(frozen=True, slots=True)
class Stall:
    """The number of iterations in a row, including the first, without progress."""

    marks: tuple[StallMark, ...] = ()
    idle: int = 0
    elsewhere: str = ""
    """The digest of other branches when an iteration last repeated another."""

    def after(
        self, mark: StallMark, *, same_tree: Callable[[Sequence[str], str], bool], elsewhere: Callable[[], str]
    ) -> "Stall":
        """Add a finished iteration; compare trees and other branches only if its words are not new."""
        alike = [earlier.commit for earlier in self.marks if earlier.words == mark.words]
        marks = (*self.marks, mark)[-_REMEMBERED:]
        if not alike or not same_tree(alike[-_COMPARED:], mark.commit):
            return Stall(marks, idle=1)
        now = elsewhere()
        moved = bool(self.elsewhere) and now != self.elsewhere
        return Stall(marks, idle=1 if moved else self.idle + 1, elsewhere=now)

    def forgiven(self) -> "Stall":
        """Reset the count: something from outside has changed the situation."""
        return replace(self, idle=0, elsewhere="")


def words_of(summary: str, check_output: str) -> str:
    """Return a digest of the text, without parts that always differ."""
    plain = "\0".join(" ".join(_FLEETING.sub("…", text).casefold().split()) for text in (summary, check_output))
    return hashlib.sha256(plain.encode("utf-8", "replace")).hexdigest()[:32]
