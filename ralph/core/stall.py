"""Whether a run still moves, judged by content: what repeats an earlier iteration in every respect is no progress.

In doubt it moves: words, numbers, a failing check that fails otherwise, a commit anywhere in the repository all count.
"""

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

_REMEMBERED = 50
"""Iterations that a new one is compared with; an agent that goes in circles goes in small ones."""

_COMPARED = 3
_FLEETING = re.compile(
    r"(?=[\d/aiprst])(?:"  # what any of them begins with: to try each one everywhere takes nine times as long
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
"""What differs between two runs of one thing. No other number is left out: 14 failures are not 13."""


@dataclass(frozen=True, slots=True)
class StallMark:
    """An iteration as far as words tell: `words` is a digest of its summary and of what the check said of it."""

    words: str
    commit: str


@dataclass(frozen=True, slots=True)
class Stall:
    """How many iterations in a row, the first one included, came to the same as an earlier one."""

    marks: tuple[StallMark, ...] = ()
    idle: int = 0
    elsewhere: str = ""
    """What stood elsewhere in the repository when an iteration was last found to repeat another."""

    def after(
        self, mark: StallMark, *, same_tree: Callable[[Sequence[str], str], bool], elsewhere: Callable[[], str]
    ) -> "Stall":
        """Take in a finished iteration; trees and other branches are looked at only where its words are not new."""
        alike = [earlier.commit for earlier in self.marks if earlier.words == mark.words]
        marks = (*self.marks, mark)[-_REMEMBERED:]
        if not alike or not same_tree(alike[-_COMPARED:], mark.commit):
            return Stall(marks, idle=1)
        now = elsewhere()
        moved = bool(self.elsewhere) and now != self.elsewhere
        return Stall(marks, idle=1 if moved else self.idle + 1, elsewhere=now)

    def forgiven(self) -> "Stall":
        """Begin to count anew: something from outside has changed the situation."""
        return replace(self, idle=0, elsewhere="")


def words_of(summary: str, check_output: str) -> str:
    """A digest of what was said, without what differs each time."""
    plain = "\0".join(" ".join(_FLEETING.sub("…", text).casefold().split()) for text in (summary, check_output))
    return hashlib.sha256(plain.encode("utf-8", "replace")).hexdigest()[:32]
