"""Any command as an agent, and the two formats it may print: plain text, and RTF1, ralph's own (`docs/rtf1.md`)."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeVar

from ralph.agents.base import (
    CUSTOM_TRANSCRIPT,
    AgentOptions,
    Launch,
    Request,
    find_program,
    interruption,
    user_message,
    without_nesting,
)
from ralph.agents.transcript import Capabilities, OpenTools, unread
from ralph.core import ndjson
from ralph.core.errors import BlockedError, UsageError
from ralph.core.events import AGENT_TYPES, MOST_TOKENS, Event, Meta, Tag, Text, ToolEnd, ToolOutput, ToolStart, Usage
from ralph.core.records import from_json
from ralph.core.verdict import Reply

PROMPT_FILE = "{prompt_file}"

SENTINEL = "@@RALPH@@ "
"""What a line of RTF1 begins with."""
_HINT = "the agent prints RTF1 events; read them with --transcript rtf1"

_MOST_FAULTS = 100
"""How many different faults to report; an agent may produce new ones for ever."""

_FIGURES = (
    "prompt_tokens", "completion_tokens", "total_tokens", "cache_creation_tokens", "cache_read_tokens",
    "cache_creation_1h_tokens", "cost_usd",
)  # fmt: skip
_Figure = TypeVar("_Figure", int, float)


def find_custom(options: AgentOptions, env: Mapping[str, str]) -> "CustomRunner":
    """Find the command's program, or raise what is wrong with the command."""
    if not options.command.strip():
        raise UsageError(
            "the agent custom needs a command",
            "pass one: --agent-cmd 'my-agent --flag' (it reads the prompt from stdin)",
        )
    program, *arguments = shlex.split(options.command)  # the settings have checked that this works
    found = find_program(program, env)
    if found is None:
        raise BlockedError(
            f"cannot run the agent: {program!r} was not found, or is not executable",
            "pass a program on PATH, or its path; ralph runs --agent-cmd without a shell",
        )
    return CustomRunner((found, *arguments), options.transcript_or(CUSTOM_TRANSCRIPT))


@dataclass(frozen=True, slots=True)
class CustomRunner:
    """The user's command. One with claude's stream-json uses structured output as claude does."""

    command: tuple[str, ...]
    transcript: str = CUSTOM_TRANSCRIPT
    required_tool: str = ""
    notice: str = ""

    @property
    def path(self) -> str:
        return shlex.join(self.command)

    @property
    def reply(self) -> Reply:
        return Reply.TOOL if self.transcript == "claude" else Reply.WORDS

    def permissions(self, *, read_only: bool = False) -> str:  # noqa: ARG002 - of the Protocol: a command has no such option
        return "permissions: up to the command"

    @property
    def _hears_stream_json(self) -> bool:
        words = self.command[1:]
        asked = ("--input-format", "stream-json") in pairwise(words) or "--input-format=stream-json" in words
        return asked and self.reply == Reply.TOOL

    def model(self, asked: str) -> str:  # noqa: ARG002 - of the Protocol: a command has no such option
        return "the command's own choice"

    def launch(self, request: Request) -> Launch:
        environment = without_nesting(request.environment)
        if self._hears_stream_json:
            return Launch(self.command, environment, user_message(request.prompt))
        file = request.folder / "prompt.md"
        in_file = any(PROMPT_FILE in word for word in self.command)
        return Launch(
            tuple(word.replace(PROMPT_FILE, str(file)) for word in self.command),
            environment,
            b"" if in_file else request.prompt.encode("utf-8", "replace"),
            listens=False,
            joins_stderr=self.transcript == "codex",  # its human transcript is there, stdout has the last message only
            files={file: request.prompt} if in_file else {},
        )

    def follow_up(self, request: Request, session_id: str, text: str) -> bytes | None:  # noqa: ARG002 - of the Protocol
        return user_message(text) if self._hears_stream_json else None

    def interrupt(self) -> bytes:
        return interruption() if self._hears_stream_json else b""


class PlainTranscript:
    """Lines as they are, with colours: the screen makes text safe."""

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
    """Return a line of the agent's text; nothing for a blank one, because a screen gives every text its own line."""
    return [Text(Tag.AI, line.rstrip("\r"))] if line and not line.isspace() else []


class Rtf1Transcript:
    """Reads lines with the sentinel as events; shows others as they are, with a `Meta` for faulty ones."""

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
            return [*unread(line, rtf1_error=str(fault)), *self._said_once(f"invalid RTF1 event: {fault}"[:300])]
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
        """Add reported usage; each report is cumulative, so no figure can fall."""
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
        words = f"the agent reports a smaller {', '.join(fallen)} than before; ralph keeps the larger figure"
        return [Meta({"usage_fell": fallen}), *self._said_once(words), self._usage]

    def _said_once(self, words: str) -> list[Event]:
        """Report a fault once, even if the agent repeats it."""
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


def _fallen(known: Usage, told: Usage) -> list[str]:
    """Name the figures that are smaller than before."""
    pairs = [(name, getattr(known, name), getattr(told, name)) for name in _FIGURES]
    return [name for name, before, after in pairs if before is not None and after is not None and after < before]


def _larger(known: _Figure | None, told: _Figure | None) -> _Figure | None:
    return known if told is None else told if known is None else max(known, told)
