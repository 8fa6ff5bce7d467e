"""RTF1, ralph's transcript format: plain output in which some lines are events. `docs/rtf1.md` is for its authors."""

from dataclasses import replace
from typing import TypeVar

from ralph.core import ndjson
from ralph.core.events import AGENT_TYPES, MOST_TOKENS, Event, Meta, Tag, Text, ToolEnd, ToolOutput, ToolStart, Usage
from ralph.core.records import from_json
from ralph.transcripts.base import Capabilities
from ralph.transcripts.opentools import OpenTools
from ralph.transcripts.plain import SENTINEL, said
from ralph.transcripts.wording import unread

_MOST_FAULTS = 100
"""Different faults that are said; an agent may find ever new ones."""


class Rtf1Transcript:
    """A line that begins with the sentinel is an event, or is shown as it is with a `Meta` that says why not."""

    capabilities = Capabilities(supports_roles=True, supports_tool_events=True, supports_usage_events=True)

    def __init__(self) -> None:
        self._open_tools = OpenTools()
        self._usage = Usage()
        self._faults: set[str] = set()

    def feed(self, line: str) -> list[Event]:
        if not line.startswith(SENTINEL):
            return said(line)
        try:
            event = _read(line[len(SENTINEL) :])
        except ValueError as fault:
            return [*unread(line, rtf1_error=str(fault)), *self._said_once(f"no RTF1 event: {fault}"[:300])]
        match event:
            case ToolStart():
                return [*self._open_tools.start(event.id), event]
            case ToolOutput() if event.id not in self._open_tools:
                return [_unknown(event), event]
            case ToolEnd():
                return [event] if self._open_tools.end(event.id) else [_unknown(event), event]
            case Usage():
                return self._used(event)
            case _:
                return [event]

    def flush(self) -> list[Event]:
        return self._open_tools.close()

    def _used(self, told: Usage) -> list[Event]:
        """Fold what is told into what is known: each says what the session has used so far, so no figure can fall."""
        tokens = [count for count in (told.prompt_tokens, told.completion_tokens) if count is not None]
        if told.total_tokens is None and tokens:
            told = replace(told, total_tokens=min(sum(tokens), MOST_TOKENS))
        known, fallen = self._usage, _fallen(self._usage, told)
        total = _larger(known.total_tokens, told.total_tokens)
        uncosted = known.cost_usd is not None and told.cost_usd is None  # its tokens may be more, its cost is as it was
        stale = uncosted and (known.cost_is_estimate is True or total != known.total_tokens)
        self._usage = Usage(
            prompt_tokens=_larger(known.prompt_tokens, told.prompt_tokens),
            completion_tokens=_larger(known.completion_tokens, told.completion_tokens),
            total_tokens=total,
            model=told.model or known.model,
            cache_creation_tokens=_larger(known.cache_creation_tokens, told.cache_creation_tokens),
            cache_read_tokens=_larger(known.cache_read_tokens, told.cache_read_tokens),
            context_pct=known.context_pct if told.context_pct is None else told.context_pct,
            cost_usd=_larger(known.cost_usd, told.cost_usd),
            cost_is_estimate=True if stale else None,
            cache_creation_1h_tokens=_larger(known.cache_creation_1h_tokens, told.cache_creation_1h_tokens),
            in_call=told.in_call,
        )
        if not fallen:
            return [self._usage]
        words = f"the agent reports a smaller {', '.join(fallen)} than before: what was spent stays spent"
        return [Meta({"usage_fell": fallen}), *self._said_once(words), self._usage]

    def _said_once(self, words: str) -> list[Event]:
        """A word to people about a fault; an agent that repeats the fault need not be complained about again."""
        if words in self._faults or len(self._faults) >= _MOST_FAULTS:
            return []
        self._faults.add(words)
        return [Text(Tag.SYS, words)]


def _read(document: str) -> Event:
    try:
        value = ndjson.decode(document)
    except ndjson.Malformed as fault:
        raise ValueError(f"not JSON: {fault}") from None
    record = ndjson.mapping(value)
    if record is not value:
        raise ValueError("not a JSON object")
    if record.get("type") not in AGENT_TYPES:
        raise ValueError(f"type is not one of {', '.join(AGENT_TYPES)}")
    return from_json(record)


def _unknown(event: ToolOutput | ToolEnd) -> Meta:
    return Meta({"rtf1_error": f"{event.type} for a tool that is not open", "tool": event.id[:100]})


_FIGURES = (
    "prompt_tokens", "completion_tokens", "total_tokens", "cache_creation_tokens", "cache_read_tokens",
    "cache_creation_1h_tokens", "cost_usd",
)  # fmt: skip


def _fallen(known: Usage, told: Usage) -> list[str]:
    """Name the figures that are smaller than they were."""
    pairs = [(name, getattr(known, name), getattr(told, name)) for name in _FIGURES]
    return [name for name, before, after in pairs if before is not None and after is not None and after < before]


_Figure = TypeVar("_Figure", int, float)


def _larger(known: _Figure | None, told: _Figure | None) -> _Figure | None:
    return known if told is None else told if known is None else max(known, told)
