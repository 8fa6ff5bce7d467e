"""`codex exec --json`, read into ralph's events, and the faults that codex reports.

Written for the output of 0.163.0 and 0.166.0; `mcp_tool_call` and `web_search` follow their published shape. An
`error`, event or item, ends nothing: codex goes on after it. Only `turn.completed` and `turn.failed` end a turn.
"""

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ralph.agents.transcript import Figures, OpenTools, named, spoken, unread
from ralph.core import ndjson
from ralph.core.events import (
    MOST_TOKENS,
    Event,
    Meta,
    QuotaStatus,
    RateLimited,
    SessionStarted,
    Tag,
    Text,
    ToolEnd,
    ToolOutput,
    ToolStart,
    ToolStatus,
    TurnEnded,
    Usage,
)
from ralph.core.ndjson import mapping, sequence, text

_LATEST_RESET = 2**32
_LIMIT = re.compile(r"\bhit your usage limit\b", re.IGNORECASE)
_RESET = re.compile(r"try again at ([A-Z][a-z]{2}) (\d{1,2})(?:st|nd|rd|th), (\d{4}) (\d{1,2}:\d{2} [AP]M)")
_STATUS = re.compile(r"\b(?:unexpected|last) status:? (\d{3})\b")
_KINDS: Mapping[str, re.Pattern[str]] = {
    "billing_error": re.compile(
        r"\binsufficient_quota\b|\bbilling_hard_limit_reached\b|\bexceeded your current quota\b|^Quota exceeded\b"
        r"|\bout of credits\b|^To use Codex with your ChatGPT plan\b",
        re.IGNORECASE,
    ),
    "authentication_failed": re.compile(
        r"^Missing environment variable\b|\binvalid_api_key\b|\baccess token could not be refreshed\b", re.IGNORECASE
    ),
    "model_not_found": re.compile(
        r"\bmodel_not_found\b|\bmodel\b.{0,100}\b(?:does not exist|is not supported)\b", re.IGNORECASE | re.DOTALL
    ),
}
_TOO_LONG = re.compile(r"\bran out of room in the model.s context window\b|\bcontext_length_exceeded\b")
# A 500, a 429 within the stream and a busy model have these messages, without a number (seen on 0.163.0).
_OVERLOADED = re.compile(r"\bcurrently experiencing high demand\b|^rate limit exceeded\b|\bmodel is at capacity\b")
_NETWORK = re.compile(
    r"\bstream (?:disconnected|closed)\b|\berror sending request\b|\bconnection (?:failed|refused|reset|closed)\b"
    r"|\bconnection error\b|\bidle timeout\b|\boperation timed out\b|\bdns error\b",
    re.IGNORECASE,
)
_NAMES = ("input_tokens", "output_tokens", "cached_input_tokens", "cache_write_input_tokens")
_NO_TOKENS: tuple[int, ...] = (0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class CodexFault:
    """What the failure table asks for; the names are those of claude's results."""

    api_status: int | None = None
    error: str = ""
    terminal_reason: str = ""
    quota: RateLimited | None = None


def read_fault(message: str) -> CodexFault:
    """Read the message of a failed turn; a kind that stops a run is given only where the words leave no doubt."""
    said = message[:4000]
    if _TOO_LONG.search(said):
        return CodexFault(terminal_reason="prompt_too_long")
    if _LIMIT.search(said):
        return CodexFault(quota=RateLimited(QuotaStatus.USED_UP, _resets_at(said), "codex"))
    status = _http_status(said)
    for kind, words in _KINDS.items():
        if words.search(said):
            return CodexFault(status, kind)
    if status is None and _NETWORK.search(said):
        return CodexFault(error="server_error")
    return CodexFault(status)


def _http_status(said: str) -> int | None:
    found = _STATUS.search(said)
    if found is not None:
        return ndjson.count(int(found[1])) or None
    return 500 if _OVERLOADED.search(said) else None


def _resets_at(said: str) -> float | None:
    """When the quota is back, which codex tells in local time; a time without its day is none: what day is it?"""
    found = _RESET.search(said)
    if found is None:
        return None
    month, day, year, clock = found.groups()
    try:
        resets_at = time.mktime(time.strptime(f"{month} {day} {year} {clock}", "%b %d %Y %I:%M %p"))
    except (ValueError, OverflowError):
        return None
    return resets_at if 0 < resets_at < _LATEST_RESET else None


class CodexJson:
    """One session: a thread, read from one process or, when it is resumed for a correction, from several in turn."""

    def __init__(self) -> None:
        self._thread = ""
        self._processes = 0
        self._usage = _CodexUsage()
        self._open_tools = OpenTools()
        self._answer = ""
        self._plan = ""

    def feed(self, line: str) -> list[Event]:
        if not line or line.isspace():
            return []
        try:
            record = mapping(ndjson.decode(line))
        except ndjson.Malformed as fault:
            return unread(line, malformed=str(fault))
        match record.get("type"):
            case "thread.started":
                return self._thread_started(text(record.get("thread_id")))
            case "turn.started":
                self._answer = ""
                return []
            case "item.started" | "item.updated" | "item.completed" as step:
                return self._item(mapping(record.get("item")), finished=step == "item.completed")
            case "error":
                return spoken(Tag.SYS, record.get("message"))
            case "turn.completed":
                return [*self._open_tools.close(), *self._usage.told(mapping(record.get("usage"))), self._completed()]
            case "turn.failed":
                return [*self._open_tools.close(), *_failed(text(mapping(record.get("error")).get("message")))]
            case "event_msg" | "token_usage_record":
                return self._kept(mapping(record.get("payload")))
            case unknown:
                return [Meta({"ignored": named(unknown)})]

    def flush(self) -> list[Event]:
        """Close the tools that the stream left open."""
        return self._open_tools.close()

    def _kept(self, record: Mapping[str, object]) -> list[Event]:
        """A line of the file that codex keeps of a thread, which alone tells what a turn that failed has used."""
        counted = record.get("thread_token_usage", mapping(record.get("info")).get("total_token_usage"))
        return self._usage.told(mapping(counted)) if counted is not None else [Meta({"ignored": "event_msg"})]

    def _thread_started(self, thread: str) -> list[Event]:
        """Introduce each session once. A resumed thread has its old name, but counts its items from zero again."""
        self._processes += 1
        self._answer = self._plan = ""
        closed = self._open_tools.close()
        is_new, self._thread = thread != self._thread, thread
        started = SessionStarted(thread, model="", version="", tools=(), permission_mode="")
        if self._processes == 1:
            return [*closed, started]
        if is_new:
            self._usage.next_thread()
        resumed = Meta({"thread": thread[:100], "process": self._processes})
        return [*closed, resumed, *([started] if is_new and thread else [])]

    def _item(self, item: Mapping[str, object], *, finished: bool) -> list[Event]:
        match item.get("type"):
            case "agent_message" | "reasoning" | "error":
                return self._said(item) if finished else []
            case "command_execution":
                return self._tool(item, "shell", {"command": text(item.get("command"))}, finished=finished)
            case "file_change":
                changes = list(sequence(item.get("changes")))
                paths = ", ".join(text(mapping(change).get("path")) for change in changes)
                return self._tool(item, "edit", {"path": paths, "changes": changes}, finished=finished)
            case "mcp_tool_call":
                name = f"{text(item.get('server'))}.{text(item.get('tool'))}"
                return self._tool(item, name, mapping(item.get("arguments")), finished=finished)
            case "web_search":
                query = text(item.get("query"))  # empty until the search is done
                wanted = finished or bool(query)
                return self._tool(item, "web_search", {"query": query}, finished=finished) if wanted else []
            case "todo_list":
                return self._todo_list(sequence(item.get("items")))
            case unknown:
                return [Meta({"ignored_item": named(unknown)})]

    def _said(self, item: Mapping[str, object]) -> list[Event]:
        if item.get("type") == "error":
            return spoken(Tag.SYS, item.get("message"))
        if item.get("type") == "reasoning":
            return spoken(Tag.THINK, item.get("text"))
        self._answer = text(item.get("text"))
        return spoken(Tag.AI, self._answer)

    def _tool(
        self, item: Mapping[str, object], name: str, tool_input: Mapping[str, object], *, finished: bool
    ) -> list[Event]:
        """A tool call: codex repeats all of it when it is done, and tells some calls only then."""
        number = text(item.get("id"))
        tool_id = number if self._processes <= 1 else f"{self._processes}:{number}"
        events: list[Event] = []
        if tool_id not in self._open_tools:
            events += [*self._open_tools.start(tool_id), ToolStart(tool_id, name, tool_input)]
        if not finished:
            return events
        self._open_tools.end(tool_id)
        if output := _output(item):
            events.append(ToolOutput(tool_id, output))
        return [*events, ToolEnd(tool_id, _status(item))]

    def _todo_list(self, items: Sequence[object]) -> list[Event]:
        """The plan, whenever it has changed; its end repeats what was said."""
        steps = [mapping(item) for item in items]
        lines = [f"[{'x' if step.get('completed') is True else ' '}] {text(step.get('text'))}" for step in steps]
        plan = "\n".join(["Plan:", *lines])
        if not lines or plan == self._plan:
            return []
        self._plan = plan
        return [Text(Tag.THINK, plan)]

    def _completed(self) -> TurnEnded:
        structured = _structured(self._answer)
        return TurnEnded(is_error=False, subtype="success", text=self._answer, structured_output=structured)


class _CodexUsage:
    """What the session has used: codex counts over a whole thread, resumed or not (0.166.0: 1000, 2000, 3000)."""

    def __init__(self) -> None:
        self._figures = Figures()
        self._before = _NO_TOKENS
        self._thread = _NO_TOKENS
        self._known = False

    def next_thread(self) -> None:
        self._before = _plus(self._before, self._thread)
        self._thread = _NO_TOKENS

    def told(self, usage: Mapping[str, object]) -> list[Event]:
        reported = tuple(self._figures.tokens(usage.get(name), name) for name in _NAMES)
        self._thread = tuple(map(max, self._thread, reported))
        self._known = self._known or bool(usage)
        if not self._known:
            return []
        prompt, completion, cache_read, cache_creation = _plus(self._before, self._thread)
        return [
            *self._figures.faults(),
            Usage(
                prompt_tokens=prompt,
                completion_tokens=completion,
                total_tokens=min(prompt + completion, MOST_TOKENS),
                cache_creation_tokens=cache_creation,
                cache_read_tokens=cache_read,
            ),
        ]


def _plus(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(min(mine + more, MOST_TOKENS) for mine, more in zip(one, other, strict=True))


def _failed(message: str) -> list[Event]:
    fault = read_fault(message)
    ended = TurnEnded(
        is_error=True,
        subtype="turn_failed",
        text=message,
        structured_output=None,
        api_status=fault.api_status,
        error=fault.error,
        terminal_reason=fault.terminal_reason,
    )
    return [ended] if fault.quota is None else [fault.quota, ended]


def _structured(answer: str) -> object:
    """The answer as an object: with --output-schema it is one, if the model keeps to it; codex itself does not look."""
    if not answer.lstrip().startswith("{"):
        return None
    try:
        return ndjson.decode(answer)
    except ndjson.Malformed:
        return None


def _output(item: Mapping[str, object]) -> str:
    if output := text(item.get("aggregated_output")):
        return output
    parts = [text(mapping(part).get("text")) for part in sequence(mapping(item.get("result")).get("content"))]
    parts.append(text(mapping(item.get("error")).get("message")))
    return "\n".join(part for part in parts if part)


def _status(item: Mapping[str, object]) -> ToolStatus:
    status, exit_code = item.get("status"), item.get("exit_code")
    if status in ("failed", "declined") or (isinstance(exit_code, int) and exit_code != 0):
        return ToolStatus.FAIL
    # A web search has no status at all.
    return ToolStatus.OK if status == "completed" or "status" not in item else ToolStatus.UNKNOWN
