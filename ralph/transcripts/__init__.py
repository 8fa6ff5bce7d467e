"""How an agent's output becomes canonical events: one transcript a format, by name."""

from collections.abc import Callable

from ralph.transcripts import claude
from ralph.transcripts.base import Transcript

TRANSCRIPTS: dict[str, Callable[[], Transcript]] = {
    "claude": claude.ClaudeTranscript,
}

__all__ = ["TRANSCRIPTS", "Transcript"]
