"""Codex: its JSON or what it prints for people, whichever it turns out to be."""

from ralph.agents.codex_stream import CodexJson
from ralph.agents.codex_text import CodexHuman, is_banner
from ralph.core import ndjson
from ralph.core.events import Event, Tag
from ralph.transcripts.base import Capabilities
from ralph.transcripts.wording import spoken

TYPES = (
    "thread.started", "turn.started", "turn.completed", "turn.failed", "item.started", "item.updated", "item.completed",
)  # fmt: skip
"""What codex's JSON is known by. Its `error` is not among them: others have one, too."""

_MOST_HELD = 65_536
"""Characters that are held back until it is clear what they belong to."""


class CodexTranscript:
    """One session of codex. What comes before it is known which output this is, is codex's environment speaking."""

    capabilities = Capabilities(
        supports_roles=True, supports_tool_events=True, supports_usage_events=True, supports_prompt_hiding=True
    )

    def __init__(self) -> None:
        self._reader: CodexJson | CodexHuman | None = None
        self._held: list[str] = []
        self._held_size = 0

    def feed(self, line: str) -> list[Event]:
        if self._reader is not None:
            return self._reader.feed(line)
        if has_codex_type(line):
            self._reader = CodexJson()
        elif is_banner(line):
            self._reader = CodexHuman()
        else:
            return self._hold(line)
        return [*self._release(Tag.SYS), *self._reader.feed(line)]

    def flush(self) -> list[Event]:
        """Close what is open; what was never decided on is the agent's."""
        return [*self._release(Tag.AI), *([] if self._reader is None else self._reader.flush())]

    def _hold(self, line: str) -> list[Event]:
        """Once too much was held in vain, nothing is."""
        self._held.append(line)
        self._held_size += len(line) + 1
        return self._release(Tag.AI) if self._held_size > _MOST_HELD else []

    def _release(self, tag: Tag) -> list[Event]:
        held, self._held = self._held, []
        return [event for line in held for event in spoken(tag, line.rstrip("\r"))]


def has_codex_type(line: str) -> bool:
    """Tell a line of codex's JSON."""
    if not line.startswith("{"):
        return False
    try:
        return ndjson.mapping(ndjson.decode(line)).get("type") in TYPES
    except ndjson.Malformed:
        return False
