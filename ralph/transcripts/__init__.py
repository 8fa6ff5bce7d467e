"""How an agent's output becomes canonical events: one transcript a format, by name."""

from collections.abc import Callable

from ralph.agents.claude_stream import ClaudeTranscript
from ralph.agents.custom import Rtf1Transcript
from ralph.transcripts.base import Capabilities, Transcript
from ralph.transcripts.codex import CodexTranscript
from ralph.transcripts.plain import PlainTranscript
from ralph.transcripts.sniffing import sniff

TRANSCRIPTS: dict[str, Callable[[], Transcript]] = {
    "claude": ClaudeTranscript,
    "codex": CodexTranscript,
    "rtf1": Rtf1Transcript,
    "plain": PlainTranscript,
}

__all__ = ["TRANSCRIPTS", "Capabilities", "Transcript", "sniff"]
