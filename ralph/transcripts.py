"""For packages that bring a transcript: what it promises (entry points of the group `ralph.transcripts`)."""

from ralph.agents.transcript import Capabilities, Transcript

__all__ = ["Capabilities", "Transcript"]
