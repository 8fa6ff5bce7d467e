"""The tools that an agent has started and not ended yet."""

from ralph.core.events import Event, ToolEnd, ToolStatus

_MOST = 1000
"""Open at a time; an agent that never ends its tools must not fill the memory."""


class OpenTools:
    """Remembers what was started, so that nothing stays open for ever."""

    def __init__(self) -> None:
        self._ids: dict[str, None] = {}

    def __contains__(self, tool_id: str) -> bool:
        return tool_id in self._ids

    @property
    def latest(self) -> str:
        """The one that was started last; empty if none is open."""
        return next(reversed(self._ids), "")

    def start(self, tool_id: str) -> list[Event]:
        """Remember a tool; if there are too many, the oldest ends unknown."""
        self._ids[tool_id] = None
        if len(self._ids) <= _MOST:
            return []
        oldest = next(iter(self._ids))
        del self._ids[oldest]
        return [ToolEnd(oldest, ToolStatus.UNKNOWN)]

    def end(self, tool_id: str) -> bool:
        """Forget a tool; tell whether it was open."""
        if tool_id not in self._ids:
            return False
        del self._ids[tool_id]
        return True

    def close(self) -> list[Event]:
        """End all that are open: how, the stream has not said."""
        closed: list[Event] = [ToolEnd(tool_id, ToolStatus.UNKNOWN) for tool_id in self._ids]
        self._ids.clear()
        return closed
