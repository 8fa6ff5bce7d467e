"""What every transcript offers."""

from dataclasses import dataclass
from typing import Protocol

from ralph.core.events import Event


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a transcript can tell; what it cannot is not guessed at, and not shown."""

    supports_roles: bool = False
    """Thinking and other voices are told from the agent's own words. Without it all is `AI`, but for ralph's hints."""
    supports_tool_events: bool = False
    supports_usage_events: bool = False
    supports_prompt_hiding: bool = False
    """The agent echoes the prompt it was given, and the echo is told apart: `PROMPT`."""


class Transcript(Protocol):
    """Turns lines into events. Pure and line-oriented; whatever the line, it never raises.

    One that also has `feed_bytes(line: bytes)` gets lines as they come: JSON need not become a `str` to be parsed. It
    may keep a usage to itself that the next one would replace, until `settle()` asks for it.
    """

    @property
    def capabilities(self) -> Capabilities: ...

    def feed(self, line: str) -> list[Event]: ...

    def flush(self) -> list[Event]: ...
