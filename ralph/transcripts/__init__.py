"""How an agent's output becomes canonical events: one transcript a format, by name."""

from collections.abc import Callable

from ralph.transcripts import claude, plain, rtf1
from ralph.transcripts.base import Capabilities, Transcript

TRANSCRIPTS: dict[str, Callable[[], Transcript]] = {
    "claude": claude.ClaudeTranscript,
    "rtf1": rtf1.Rtf1Transcript,
    "plain": plain.PlainTranscript,
}

__all__ = ["TRANSCRIPTS", "Capabilities", "Transcript"]
