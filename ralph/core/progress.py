"""Progress of long tasks: what the task reports and what people see."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TaskProgress:
    """A step of a task and its progress."""

    step: str = ""
    """Such as `receiving objects`, or what it waits for."""
    done: int = 0
    total: int | None = None
    """None if the total is unknown."""
    detail: str = ""
    """More details, such as git's bytes and speed."""

    @property
    def percent(self) -> int | None:
        """Return the finished share of the step; None if unknown."""
        return None if not self.total else min(100, 100 * self.done // self.total)

    def __str__(self) -> str:
        share = "" if self.percent is None else f"{self.percent} %"
        return ", ".join(part for part in (f"{share} {self.step}".strip(), self.detail) if part)


Reporter = Callable[[TaskProgress], None]
"""Called several times a second during the work, even without news. It may raise to stop the work."""


def unreported(_: TaskProgress) -> None:
    """Report to nobody."""
