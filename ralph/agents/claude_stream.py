"""Claude Code's `--output-format stream-json`, read into ralph's events.

Written for the output of 2.1.197 and 2.1.325, and tolerant of changes: it relies on few keys, an unknown type becomes a
`Meta`, and a line that is not JSON becomes a `Meta` and a visible `Text`.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence

from ralph.agents.claude_usage import ClaudeUsage
from ralph.agents.transcript import Capabilities, OpenTools, named, spoken, unread
from ralph.core import ndjson
from ralph.core.events import (
    ApiRetry,
    Compacted,
    Denial,
    Event,
    Meta,
    RateLimited,
    SessionStarted,
    Tag,
    Text,
    ToolEnd,
    ToolOutput,
    ToolStart,
    ToolStatus,
    TurnEnded,
)
from ralph.core.ndjson import count, mapping, sequence, text

_LATEST_RESET = 2**32
"""Seconds since 1970; ralph ignores a later time."""

_QUIET = ("thinking_tokens", "status", "hook_started", "hook_response", "background_tasks_changed")


class ClaudeTranscript:
    """One session's stream. `system/init` and `usage` repeat (seen on 2.1.197): each counts once."""

    capabilities = Capabilities(supports_roles=True, supports_tool_events=True, supports_usage_events=True)

    def __init__(self, windows: dict[str, int] | None = None) -> None:
        """`windows` has the context windows that earlier sessions reported; this one adds its own."""
        self._started = False
        self._usage = ClaudeUsage({} if windows is None else windows)
        self._error = ""
        self._open_tools = OpenTools()
        self._readers: Mapping[str, Callable[[Mapping[str, object]], list[Event]]] = {
            "system": self._system,
            "assistant": self._assistant,
            "user": self._user,
            "result": self._result,
            "stream_event": self._partial,
            "rate_limit_event": _rate_limit_event,
        }

    def feed(self, line: str) -> list[Event]:
        if not line or line.isspace():
            return []
        try:
            record = mapping(ndjson.decode(line))
        except ndjson.Malformed as fault:
            return unread(line, malformed=str(fault))
        return [*self._record(record), *self.settle()]

    def feed_bytes(self, line: bytes) -> list[Event]:
        """Read a line without decoding it to `str`; its usage may wait for `settle`."""
        try:
            record = mapping(ndjson.decode_strictly(line))
        except ndjson.Malformed:
            return self.feed(line.decode("utf-8", "replace"))
        return self._record(record)

    def settle(self) -> list[Event]:
        """Return the usage that was not reported yet."""
        return self._usage.settle()

    def flush(self) -> list[Event]:
        """Return the rest, and close the tools that the stream left open."""
        return [*self.settle(), *self._open_tools.close()]

    def _record(self, record: Mapping[str, object]) -> list[Event]:
        kind = record.get("type")
        read = self._readers.get(kind) if isinstance(kind, str) else None
        return [Meta({"ignored": named(kind)})] if read is None else read(record)

    def _system(self, record: Mapping[str, object]) -> list[Event]:
        subtype = text(record.get("subtype"))
        if subtype == "init":
            return self._init(record)
        if subtype == "api_retry":
            status = count(record.get("error_status")) or None
            return [ApiRetry(count(record.get("attempt")), status, text(record.get("error")))]
        if subtype == "model_fallback":
            fallback = text(record.get("fallback_model"))
            return [Meta({"model_fallback": fallback}), Text(Tag.SYS, f"the agent fell back to model {fallback}")]
        if subtype == "compact_boundary":
            return [_compacted(mapping(record.get("compact_metadata")))]
        if subtype in _QUIET:
            return []
        return [Meta({"system": subtype[:100]})]

    def _init(self, record: Mapping[str, object]) -> list[Event]:
        if self._started:
            return []
        self._started = True
        self._usage.expect(text(record.get("model")))
        return [
            SessionStarted(
                session_id=text(record.get("session_id")),
                model=text(record.get("model")),
                version=text(record.get("claude_code_version")),
                tools=tuple(text(tool) for tool in sequence(record.get("tools"))),
                permission_mode=text(record.get("permissionMode")),
                cwd=text(record.get("cwd")),
            )
        ]

    def _assistant(self, record: Mapping[str, object]) -> list[Event]:
        message = mapping(record.get("message"))
        if error := text(record.get("error")):
            self._error = error
        events: list[Event] = []
        for block in _blocks(message.get("content")):
            events += self._assistant_block(block)
        return events + self._usage.message(message, text(record.get("parent_tool_use_id")))

    def _partial(self, record: Mapping[str, object]) -> list[Event]:
        """Read only the usage from partial messages; the whole message follows, block by block."""
        event = mapping(record.get("event"))
        match event.get("type"):
            case "message_start":
                thread = text(record.get("parent_tool_use_id"))
                return self._usage.message(mapping(event.get("message")), thread, begins=True)
            case "message_delta":
                thread, identity = text(record.get("parent_tool_use_id")), text(record.get("api_message_id"))
                return self._usage.message_grew(mapping(event.get("usage")), identity, thread)
            case _:
                return []

    def _assistant_block(self, block: Mapping[str, object]) -> list[Event]:
        match block.get("type"):
            case "text":
                return spoken(Tag.AI, block.get("text"))
            case "thinking":
                return spoken(Tag.THINK, block.get("thinking"))
            case "tool_use":
                tool_id = text(block.get("id"))
                start = ToolStart(tool_id, text(block.get("name")), mapping(block.get("input")))
                return [*self._open_tools.start(tool_id), start]
            case unknown:
                return [Meta({"ignored_block": named(unknown)})]

    def _user(self, record: Mapping[str, object]) -> list[Event]:
        events: list[Event] = []
        blocks = _blocks(mapping(record.get("message")).get("content"))
        # claude reports the details of each result in its own message (2.1.197, 2.1.325).
        line = _changed_line(record.get("tool_use_result")) if len(blocks) == 1 else None
        for block in blocks:
            if block.get("type") == "tool_result":
                events += self._tool_result(block, line)
            elif record.get("isSynthetic") or record.get("isReplay"):  # nudges, skill bodies, echoes: not a person
                events += spoken(Tag.PROMPT, block.get("text"))
            else:
                events += spoken(Tag.USER, block.get("text"))
        return events

    def _tool_result(self, block: Mapping[str, object], line: int | None) -> list[Event]:
        tool_id = text(block.get("tool_use_id"))
        self._open_tools.end(tool_id)
        content = block.get("content")
        outputs = [content] if isinstance(content, str) else [text(part.get("text")) for part in _blocks(content)]
        events: list[Event] = [ToolOutput(tool_id, output) for output in outputs if output]
        status = ToolStatus.FAIL if block.get("is_error") is True else ToolStatus.OK
        events.append(ToolEnd(tool_id, status, line=line))
        return events

    def _result(self, record: Mapping[str, object]) -> list[Event]:
        errors = [text(error) for error in sequence(record.get("errors"))]
        turn = TurnEnded(
            is_error=record.get("is_error") is True,
            subtype=text(record.get("subtype")),
            text=text(record.get("result")) or "; ".join(errors),
            structured_output=record.get("structured_output"),
            api_status=count(record.get("api_error_status")) or None,
            error=self._error,
            terminal_reason=text(record.get("terminal_reason")),
            denials=tuple(_denial(item) for item in sequence(record.get("permission_denials"))),
            origin=text(mapping(record.get("origin")).get("kind")),
            num_turns=count(record.get("num_turns")) or None,
            duration_ms=count(record.get("duration_ms")) or None,
        )
        self._error = ""
        return [*self._usage.result(record), turn]


def _blocks(content: object) -> Sequence[Mapping[str, object]]:
    """Return content, a string or a list of blocks, as blocks."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [mapping(block) for block in sequence(content)]


def _changed_line(detail: object) -> int | None:
    """Return the line where an edit's first change begins: the one after its patch's leading context."""
    hunks = sequence(mapping(detail).get("structuredPatch"))
    if not hunks:
        return None
    hunk = mapping(hunks[0])
    context = itertools.takewhile(lambda line: text(line).startswith(" "), sequence(hunk.get("lines")))
    return count(hunk.get("newStart")) + sum(1 for _ in context) or None


def _denial(item: object) -> Denial:
    """Read either shape: what claude prints (2.1.197, 2.1.325), or the documented `{tool, reason}`, which has no id."""
    denial = mapping(item)
    tool, reason = text(denial.get("tool_name")) or text(denial.get("tool")), text(denial.get("reason"))
    identity = text(denial.get("tool_use_id")) or f"{tool}: {reason}"
    return Denial(identity, tool, mapping(denial.get("tool_input")), reason)


def _compacted(metadata: Mapping[str, object]) -> Compacted:
    before, after = (count(metadata.get(name)) or None for name in ("pre_tokens", "post_tokens"))
    return Compacted(text(metadata.get("trigger")), before, after)


def _rate_limit_event(record: Mapping[str, object]) -> list[Event]:
    return [_rate_limited(mapping(record.get("rate_limit_info")))]


def _rate_limited(info: Mapping[str, object]) -> RateLimited:
    resets_at = count(info.get("resetsAt"))
    if resets_at > _LATEST_RESET:
        resets_at = 0
    return RateLimited(
        text(info.get("status")),
        float(resets_at) if resets_at else None,
        text(info.get("rateLimitType")),
        ndjson.amount(info.get("utilization")),
    )
