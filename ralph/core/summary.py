"""The rolling summary of a run, which replaces older iterations in prompts, and when to extend it."""

from dataclasses import dataclass, field, replace

from ralph.core.text import both_ends
from ralph.core.usage import Spend

RECENT = 10
"""Iterations that a prompt quotes if summaries are off."""

SHORT = 2
"""Iterations that it quotes after a longer prompt did not fit."""

_LONGEST = 11_900
"""Characters; together with the line about a cut, what a prompt quotes."""


@dataclass(frozen=True, slots=True)
class Summary:
    """A summary of the iterations 1 to `through`."""

    through: int
    text: str


def written(through: int, text: str) -> Summary:
    """Return a new summary as a file keeps it, shortened in the middle, so that the next start has the same."""
    return Summary(through, both_ends(text.encode("utf-8", "replace").decode().strip(), _LONGEST))


@dataclass(frozen=True, slots=True)
class Condensed:
    """The summary of a run's iterations and its cost."""

    summary: Summary | None = None
    not_before: int = 0
    """After a failed try: how many iterations must be finished before the next."""
    spend: Spend = field(default_factory=Spend)

    @property
    def through(self) -> int:
        """The last iteration that the summary covers."""
        return 0 if self.summary is None else self.summary.through

    def after(self, summary: Summary) -> "Condensed":
        return replace(self, summary=summary, not_before=0)

    def put_off(self, not_before: int) -> "Condensed":
        return replace(self, not_before=not_before)

    def spent(self, spend: Spend) -> "Condensed":
        return replace(self, spend=self.spend + spend)


@dataclass(frozen=True, slots=True)
class Rhythm:
    """When to condense: after `every` iterations, all but the latest `keep`; `every` 0 means never."""

    every: int = 10
    keep: int = 5

    @property
    def verbatim(self) -> int:
        """Return the most iterations that a prompt quotes: the number just before the next summary."""
        return self.every + self.keep - 1 if self.every else RECENT

    def due(self, finished: int, condensed: Condensed, *, shrink: bool = False) -> int | None:
        """Return the last iteration to condense now; None: not now. `shrink`: all that a short prompt leaves out.

        Only finished iterations count: a run that was killed before the summary makes it at the next start, and the
        prompts are the same.
        """
        if not self.every:
            return None
        at = finished if shrink else finished - finished % self.every
        through = at - (SHORT if shrink else self.keep)
        return through if through > condensed.through and finished >= condensed.not_before else None

    def next_try(self, finished: int, *, passes: bool) -> int:
        """Return the iteration after which to retry; `passes`: the failure will pass by itself."""
        return finished + 1 if passes else finished - finished % self.every + self.every
