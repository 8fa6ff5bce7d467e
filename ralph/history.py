"""The iterations of a run so far: what the next prompt may know of them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ralph.core.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Iteration:
    """One finished step of a run; its commit is the proof that it happened."""

    number: int
    at: str
    summary: str
    commit: str
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class History:
    """The finished iterations, oldest first."""

    iterations: tuple[Iteration, ...] = ()

    @property
    def next_number(self) -> int:
        return self.iterations[-1].number + 1 if self.iterations else 1

    @property
    def last(self) -> Iteration | None:
        return self.iterations[-1] if self.iterations else None

    def recent(self, most: int) -> Sequence[Iteration]:
        """The latest iterations, which a prompt quotes verbatim."""
        return self.iterations[max(0, len(self.iterations) - most) :]

    def since(self, number: int) -> Sequence[Iteration]:
        """The iterations after the one of this number."""
        return [item for item in self.iterations if item.number > number] if number else self.iterations

    def after(self, iteration: Iteration) -> "History":
        return replace(self, iterations=(*self.iterations, iteration))
