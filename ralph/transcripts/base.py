"""What every transcript offers."""

from typing import Protocol

from ralph.events import Event


class Transcript(Protocol):
    """Turns lines into events. Pure and line-oriented; whatever the line, it never raises."""

    def feed(self, line: str) -> list[Event]: ...

    def flush(self) -> list[Event]: ...
