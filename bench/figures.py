"""A figure: its name, one value per round, the spread of those values, and its target."""

import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

RATIO = "x"
TOLERANCE = 2.0
"""How far the short form lets a ratio miss its target: a shared machine moves single figures by half."""

Measure = Callable[[], float]


class Unmeasurable(Exception):
    """A contestant is missing or failed; the message says which and why."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the results. The median decides; a figure without a `target` is only reported."""

    name: str
    values: Sequence[float]
    unit: str = RATIO
    target: float | None = None
    at_least: bool = False
    """The target is a minimum instead of a maximum."""
    goal: float | None = None
    """A value to work towards. It is printed beside the target and has no verdict."""
    missing: str = ""
    """Why there is no value."""

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def quartiles(self) -> tuple[float, float]:
        """Return the bounds of the middle half of the values, or of all values when there are fewer than four."""
        if len(self.values) < 4:
            return min(self.values), max(self.values)
        lower, _, upper = statistics.quantiles(self.values, n=4, method="inclusive")
        return lower, upper

    @property
    def met(self) -> bool | None:
        """Tell whether the target is met; None without a target. A figure that could not be measured misses it."""
        if self.target is None:
            return None
        return bool(self.values) and not self._misses(self.target)

    @property
    def is_far_off(self) -> bool:
        """Tell whether a ratio misses its target by more than the tolerance. Absolute times are never judged."""
        if self.unit != RATIO or self.target is None or not self.values:
            return False
        return self._misses(self.target / TOLERANCE if self.at_least else self.target * TOLERANCE)

    def _misses(self, bound: float) -> bool:
        return self.median < bound if self.at_least else self.median > bound


def interleave(contestants: Mapping[str, Measure], rounds: int) -> dict[str, list[float]]:
    """Measure every contestant once a round, in a new order each round, so that other load hits all of them alike."""
    taken: dict[str, list[float]] = {name: [] for name in contestants}
    order = list(contestants)
    for _ in range(rounds):
        random.shuffle(order)
        for name in order:
            taken[name].append(contestants[name]())
    return taken


def ratios(above: Sequence[float], below: Sequence[float]) -> list[float]:
    """Divide the values of each round."""
    return [one / other for one, other in zip(above, below, strict=True)]
