"""Plain output: every line is something the agent said."""

from ralph.core.events import Event, Meta, Tag, Text
from ralph.transcripts.base import Capabilities

SENTINEL = "@@RALPH@@ "
"""What a line of RTF1 begins with."""

_HINT = "the agent prints RTF1 events, which nobody reads here; --transcript rtf1 does"


class PlainTranscript:
    """Lines as they come. Colours are left in: whoever shows a text makes it safe."""

    capabilities = Capabilities()

    def __init__(self) -> None:
        self._hinted = False

    def feed(self, line: str) -> list[Event]:
        if self._hinted or not line.startswith(SENTINEL):
            return said(line)
        self._hinted = True
        return [Meta({"hint": _HINT}), Text(Tag.SYS, _HINT), *said(line)]

    def flush(self) -> list[Event]:
        return []


def said(line: str) -> list[Event]:
    """A line of the agent's own words; a blank one is nothing, as a screen gives every text a line of its own."""
    return [Text(Tag.AI, line.rstrip("\r"))] if line and not line.isspace() else []
