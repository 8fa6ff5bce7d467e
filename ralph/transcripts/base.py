"""What every transcript offers."""

from dataclasses import dataclass
from typing import Protocol

from ralph.events import Event


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a transcript can tell; what it cannot is never guessed."""

    supports_roles: bool = False
    supports_tool_events: bool = False
    supports_usage_events: bool = False
    supports_prompt_hiding: bool = False


class Transcript(Protocol):
    """Turns lines into events. Pure and line-oriented; whatever the line, it never raises."""

    @property
    def capabilities(self) -> Capabilities: ...

    def feed(self, line: str) -> list[Event]: ...

    def flush(self) -> list[Event]: ...
