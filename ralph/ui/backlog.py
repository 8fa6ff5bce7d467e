"""Events on their way from the run's thread to its view's: handing them over takes no time, and holds no run up."""

from collections import deque
from collections.abc import Iterator, Sequence

from ralph.core.events import Event, Tag, Text, ToolEnd, ToolOutput, ToolStart, ToolStatus
from ralph.ui.render import Said

Item = Event | Said
"""An event, or words that are no event's."""


Taken = tuple[Item, str, bool]
"""An item, the moment it was read, and whether it is passed over: counted then, and not drawn."""

_MOST_BYTES = 4_000_000
"""What waits to be drawn, as it was journaled; of what a view that is that far behind is handed, little is kept."""

_MOST_ITEMS = 100_000
"""What waits at all. A view takes it ten times a second: one that has so much before it has stood still for long."""

_MOST_WAITING = 500
"""Items that are still worth drawing one by one: nobody reads more in a few seconds."""

_MOST_TELLING = 500
"""Of what an agent may say without end, and is drawn all the same, that much at once."""

_KEPT_THOUGHT = 1000
"""Letters that are kept of a thought that is not drawn: it may be a plan."""

_AGENTS = (Text, ToolStart, ToolOutput, ToolEnd)
"""What an agent says and does. All else is rare, and tells where a run stands: it is always drawn."""


def _is_common(item: Item) -> bool:
    """Whether it is one of many of an agent's; a note tells more than that, and the end of a call that has failed."""
    kind = type(item)
    if kind is ToolStart or kind is ToolOutput:
        return True
    if isinstance(item, ToolEnd):
        return item.status is not ToolStatus.FAIL
    return isinstance(item, Text) and item.tag is not Tag.SYS


def _counts(item: Item) -> bool:
    """Whether it is counted if it is not drawn. Of texts a thought is, for it may be a plan."""
    return not isinstance(item, Text) or item.tag is Tag.THINK


def _in_brief(item: Item) -> Item:
    """As much of it as is needed to count it."""
    match item:
        case ToolStart():
            return ToolStart(item.id, item.name, {})
        case ToolOutput():
            return ToolOutput(item.id, "\n" * (item.text.count("\n") + (not item.text.endswith("\n"))))
        case Text(tag=Tag.THINK):
            return Text(Tag.THINK, item.text[:_KEPT_THOUGHT])
        case _:
            return item


def _is_kept(item: Item) -> bool:
    return _counts(item) or not _is_common(item)


class Backlog:
    """One thread puts, another takes. Each figure is written by one of them alone."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Item, str, bool, int]] = deque()
        self._put, self._taken = 0, 0
        self._turned_away, self._passed_over, self._told = 0, 0, 0

    def put(self, items: Sequence[Item], at: str, size: int) -> None:
        """Hand over what was read together, of so many bytes."""
        share = size // max(1, len(items))
        if self._put - self._taken <= _MOST_BYTES:
            self._put += share * len(items)
            self._waiting.extend([(item, at, False, share) for item in items])
            return
        is_full = len(self._waiting) > _MOST_ITEMS
        kept = [item for item in items if (not isinstance(item, _AGENTS) if is_full else _is_kept(item))]
        self._turned_away += len(items) - len(kept)
        self._waiting.extend([(_in_brief(item), at, _is_common(item), 0) for item in kept])

    def take(self, most: int, telling: int = _MOST_TELLING) -> Iterator[Taken]:
        """The next items: whatever has waited too long, most of it passed over, and then so many more.

        One by one: thousands of them, held together, cost more than all that is done with them.
        """
        drawn = 0
        while (waiting := len(self._waiting)) > _MOST_WAITING or (waiting and drawn < most):
            item, at, passed_over, size = self._waiting.popleft()
            self._taken += size
            if waiting > _MOST_WAITING and not passed_over and isinstance(item, _AGENTS):
                passed_over = telling <= 0 or _is_common(item)
                telling -= not passed_over
            if passed_over:
                self._passed_over += 1
            else:
                drawn += 1
            if not passed_over or _counts(item):
                yield item, at, passed_over

    def take_all(self) -> Iterator[Taken]:
        """What is left; of that, too, no more than anybody reads."""
        return self.take(len(self._waiting))

    def left_out(self) -> int:
        """How many items were left out since this was last asked."""
        so_far = self._turned_away + self._passed_over
        told, self._told = self._told, so_far
        return so_far - told
