"""Figures of use and cost as an agent tells them: plausible ones count, the others are said once and change nothing."""

from collections.abc import Mapping

from ralph.core.events import MOST_DOLLARS, MOST_TOKENS, Event, Tag, Text
from ralph.transcripts.wording import named


class Figures:
    """Reads the figures of one session. What is wrong with them is kept until it is told, and told once for each name.

    A figure that is missing, or null, says nothing and is nothing to complain about.
    """

    def __init__(self) -> None:
        self._told: set[str] = set()
        self._faults: list[Event] = []

    def tokens(self, value: object, name: str) -> int:
        """Narrow the figure called `name` to a number of tokens."""
        if type(value) is int and 0 <= value <= MOST_TOKENS:  # a bool is no number
            return value
        if value is not None:
            self._complain(name, f"{_shown(value)} is no number of tokens: it does not count")
        return 0

    def dollars(self, holder: Mapping[str, object], name: str) -> float | None:
        value = holder.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < MOST_DOLLARS:
            return float(value)  # compared before converted: an integer may be beyond any float
        if value is not None:
            self._complain(name, f"{_shown(value)} is no amount of dollars: it does not count")
        return None

    def fell(self, name: str, before: float, after: float) -> None:
        self._complain(f"{name} fell", f"it fell from {before:g} to {after:g}: what was spent stays spent")

    def faults(self) -> list[Event]:
        """What there is to complain about since the last call."""
        faults, self._faults = self._faults, []
        return faults

    def _complain(self, kind: str, words: str) -> None:
        if kind not in self._told:
            self._told.add(kind)
            self._faults.append(Text(Tag.SYS, f"the agent reports a wrong figure, {kind.partition(' ')[0]}: {words}"))


def _shown(value: object) -> str:
    if isinstance(value, str):
        return repr(value[:40])
    if isinstance(value, int) and abs(value) >= 10**20:  # it may have thousands of digits
        return "a number of more than 20 digits"
    return str(value) if isinstance(value, int) else named(value)
