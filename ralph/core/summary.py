"""The rolling summary of a run: what stands for its older iterations in a prompt, and when it is due to grow."""

from dataclasses import dataclass, field, replace

from ralph.core.text import both_ends
from ralph.core.usage import Spend

RECENT = 10
"""Iterations that a prompt quotes where none are ever condensed."""

SHORT = 2
"""Those that it quotes when a longer one did not fit."""

_LONGEST = 11_900
"""Characters; with the line that tells of a cut no more than a prompt quotes."""


@dataclass(frozen=True, slots=True)
class Summary:
    """What the iterations 1 to `through` came to."""

    through: int
    text: str


def written(through: int, text: str) -> Summary:
    """A new summary as a file can keep it, so that the next start has the same; of a long one both ends."""
    return Summary(through, both_ends(text.encode("utf-8", "replace").decode().strip(), _LONGEST))


@dataclass(frozen=True, slots=True)
class Condensed:
    """How far the iterations of a run are condensed, and what that has cost."""

    summary: Summary | None = None
    not_before: int = 0
    """How many iterations must be finished before it is tried again, after it was tried in vain."""
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
    """After `every` so many iterations all but the latest `keep` are condensed; `every` 0 is never."""

    every: int = 10
    keep: int = 5

    @property
    def verbatim(self) -> int:
        """The most iterations that a prompt quotes: so many are not condensed just before the next summary."""
        return self.every + self.keep - 1 if self.every else RECENT

    def due(self, finished: int, condensed: Condensed, *, shrink: bool = False) -> int | None:
        """The iteration up to which to condense now; None: not now. `shrink`: all that a short prompt leaves out.

        It goes by what is finished and nothing else: whoever was killed before the summary makes it at the next start,
        and the prompts are the same.
        """
        if not self.every:
            return None
        at = finished if shrink else finished - finished % self.every
        through = at - (SHORT if shrink else self.keep)
        return through if through > condensed.through and finished >= condensed.not_before else None

    def next_try(self, finished: int, *, passes: bool) -> int:
        """The iteration after which a try that failed is made good; `passes`: what it failed by will pass by itself."""
        return finished + 1 if passes else finished - finished % self.every + self.every
