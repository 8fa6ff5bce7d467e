"""A figure: what was measured, how often, how far it spread, and whether that meets its target."""

import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Measure = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the results. The median decides; without a `target` the figure is only reported."""

    name: str
    values: Sequence[float]
    unit: str = "x"
    target: float | None = None
    at_least: bool = False
    """The target is the least that will do, not the most."""
    missing: str = ""
    """Why nothing could be measured."""

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def quartiles(self) -> tuple[float, float]:
        """The middle half of the values; of fewer than four, all of them."""
        if len(self.values) < 4:
            return min(self.values), max(self.values)
        lower, _, upper = statistics.quantiles(self.values, n=4, method="inclusive")
        return lower, upper

    @property
    def met(self) -> bool | None:
        if self.target is None:
            return None
        if not self.values:
            return False
        return self.median >= self.target if self.at_least else self.median <= self.target


def interleave(contestants: Mapping[str, Measure], rounds: int) -> dict[str, list[float]]:
    """Measure all contestants once a round, in a new order each time: what else the machine does hits them alike."""
    taken: dict[str, list[float]] = {name: [] for name in contestants}
    order = list(contestants)
    for _ in range(rounds):
        random.shuffle(order)
        for name in order:
            taken[name].append(contestants[name]())
    return taken


def ratios(above: Sequence[float], below: Sequence[float]) -> list[float]:
    """Divide what was measured in the same round."""
    return [one / other for one, other in zip(above, below, strict=True)]
