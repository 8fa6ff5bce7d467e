"""A transcript of another package's, held to what ours promise: it never raises, and gives only events we know."""

from collections.abc import Callable
from typing import cast, get_args

from ralph.core.events import Event, Meta, Tag, Text
from ralph.core.records import from_json, to_json
from ralph.transcripts.base import Capabilities, Transcript

_EVENTS = tuple(kind for kind in get_args(Event))
_LONGEST = 2000


class ForeignTranscript:
    """Wraps a transcript that is not ours."""

    def __init__(self, inner: Transcript) -> None:
        self._inner = inner
        capabilities: object = getattr(inner, "capabilities", None)
        self.capabilities = capabilities if isinstance(capabilities, Capabilities) else Capabilities()

    def feed(self, line: str) -> list[Event]:
        return self._events(lambda: self._inner.feed(line), line)

    def flush(self) -> list[Event]:
        return self._events(lambda: self._inner.flush(), "")  # noqa: PLW0108 - looked up within: it may not be there

    def _events(self, said: Callable[[], list[Event]], line: str) -> list[Event]:
        try:
            return [_believed(event) for event in said()]
        except Exception as error:  # a fault in another package's code must not end the run
            fault = Meta({"transcript_fault": f"{type(error).__name__}: {error}"[:500]})
            return [fault, Text(Tag.SYS, line[:_LONGEST])] if line.strip() else [fault]


def _believed(event: object) -> Event:
    """An event whose every field is what it should be; of anything else only that it was there."""
    if not isinstance(event, _EVENTS):
        return Meta({"unknown_event": repr(event)[:500]})
    try:
        return from_json(to_json(cast("Event", event)))
    except ValueError as fault:
        return Meta({"invalid_event": f"{type(event).__name__}: {fault}"[:500]})
