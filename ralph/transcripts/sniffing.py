"""Which transcript reads a log that nobody remembers the agent of: the first line that could be only one's decides."""

from collections.abc import Iterable

from ralph.agents.codex_text import is_banner
from ralph.core import ndjson
from ralph.transcripts import codex
from ralph.transcripts.plain import SENTINEL

_OF_CLAUDE = ("system", "assistant", "user", "result", "rate_limit_event")


def sniff(lines: Iterable[str]) -> str:
    """Name the transcript of the first decisive line; without any, the output is plain."""
    return next((name for line in lines if (name := _decided_by(line))), "plain")


def _decided_by(line: str) -> str:
    """Name the one transcript that such a line belongs to; empty if it could be anyone's."""
    if line.startswith(SENTINEL):
        return "rtf1"
    if is_banner(line):
        return "codex"
    if not line.startswith("{"):
        return ""
    try:
        kind = ndjson.mapping(ndjson.decode(line)).get("type")
    except ndjson.Malformed:
        return ""
    return "claude" if kind in _OF_CLAUDE else "codex" if kind in codex.TYPES else ""
