"""The canonical events: all that is shown, counted or decided comes from these.

On the wire each is one JSON object with its `type`; tool, usage and meta events have RTF1's shape (docs of the
transcript format), the others are flat. `seq` and `at` are added when an event is stamped.
"""

import dataclasses
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar


class Tag(StrEnum):
    """Who speaks in a `Text`."""

    AI = "AI"
    THINK = "THINK"
    SYS = "SYS"
    TOOL = "TOOL"
    PROMPT = "PROMPT"
    USER = "USER"


class ToolStatus(StrEnum):
    OK = "ok"
    FAIL = "fail"
    UNKNOWN = "unknown"


# What an agent reports: the six types of RTF1.


@dataclass(frozen=True, slots=True)
class Text:
    type: ClassVar[str] = "text"
    tag: Tag
    text: str


@dataclass(frozen=True, slots=True)
class ToolStart:
    type: ClassVar[str] = "tool_start"
    id: str
    name: str
    input: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class ToolOutput:
    type: ClassVar[str] = "tool_output"
    id: str
    text: str


@dataclass(frozen=True, slots=True)
class ToolEnd:
    type: ClassVar[str] = "tool_end"
    id: str
    status: ToolStatus
    duration_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """What the session has used *so far*: of several, the last one stands. Prompt tokens include cached ones."""

    type: ClassVar[str] = "usage"
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    model: str | None = None
    cache_creation_tokens: int | None = None
    cache_read_tokens: int | None = None
    context_pct: float | None = None
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class Meta:
    type: ClassVar[str] = "meta"
    meta: Mapping[str, object]


# What a session reports.


@dataclass(frozen=True, slots=True)
class SessionStarted:
    """The agent introduced itself."""

    type: ClassVar[str] = "session_started"
    session_id: str
    model: str
    version: str
    tools: tuple[str, ...]
    permission_mode: str


@dataclass(frozen=True, slots=True)
class RateLimited:
    """The account's quota: `allowed`, `allowed_warning` or `rejected`."""

    type: ClassVar[str] = "rate_limited"
    status: str
    resets_at: float | None
    kind: str


@dataclass(frozen=True, slots=True)
class ApiRetry:
    """The agent met an API error and tries again by itself."""

    type: ClassVar[str] = "api_retry"
    attempt: int
    status: int | None
    error: str


@dataclass(frozen=True, slots=True)
class Denial:
    """A tool call that the agent's permissions refused."""

    id: str
    tool: str
    input: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """The agent closed a turn; a session has one for each message it was sent, and more for background tasks."""

    type: ClassVar[str] = "turn_ended"
    is_error: bool
    subtype: str
    text: str
    structured_output: object
    api_status: int | None = None
    error: str = ""
    terminal_reason: str = ""
    denials: tuple[Denial, ...] = ()
    origin: str = ""


@dataclass(frozen=True, slots=True)
class SessionEnded:
    """The process is gone. `end` is a row of the failure table; `degraded`: `text` is what the stream said last."""

    type: ClassVar[str] = "session_ended"
    session_id: str
    end: str
    reason: str
    text: str
    degraded: bool
    exit_code: int | None
    log: str


# What a run reports.


@dataclass(frozen=True, slots=True)
class RunStarted:
    type: ClassVar[str] = "run_started"
    goal: str
    run: str
    repo: str
    branch: str
    agent: str
    agent_path: str
    transcript: str
    model: str
    reasoning: str
    check: str
    continued: bool
    iteration: int


@dataclass(frozen=True, slots=True)
class IterationStarted:
    type: ClassVar[str] = "iteration_started"
    iteration: int
    session_id: str
    log: str


@dataclass(frozen=True, slots=True)
class IterationEnded:
    type: ClassVar[str] = "iteration_ended"
    iteration: int
    verdict: str
    commit: str
    cost_usd: float | None
    context_pct: float | None
    summary: str


@dataclass(frozen=True, slots=True)
class CheckEnded:
    type: ClassVar[str] = "check_ended"
    exit_code: int | None
    seconds: float
    output: str


@dataclass(frozen=True, slots=True)
class Waiting:
    type: ClassVar[str] = "waiting"
    reason: str
    until: float


@dataclass(frozen=True, slots=True)
class RunEnded:
    type: ClassVar[str] = "run_ended"
    exit_code: int
    reason: str
    proven: bool


AgentEvent = Text | ToolStart | ToolOutput | ToolEnd | Usage | Meta
SessionEvent = SessionStarted | RateLimited | ApiRetry | TurnEnded | SessionEnded
RunEvent = RunStarted | IterationStarted | IterationEnded | CheckEnded | Waiting | RunEnded
Event = AgentEvent | SessionEvent | RunEvent


def to_json(event: Event) -> dict[str, object]:
    """Give the event its form on the wire. The first few are written out: a stream consists of them."""
    match event:
        case ToolStart():
            return {"type": "tool_start", "tool": {"id": event.id, "name": event.name, "input": event.input}}
        case ToolOutput():
            return {"type": "tool_output", "tool": {"id": event.id}, "text": event.text}
        case ToolEnd(duration_ms=None):
            return {"type": "tool_end", "tool": {"id": event.id, "status": event.status}}
        case ToolEnd():
            return {"type": "tool_end", "tool": _fields(event)}
        case Usage():
            return {
                "type": "usage",
                "usage": {name: value for name, value in _fields(event).items() if value is not None},
            }
        case TurnEnded():
            return {"type": event.type, **_fields(event), "denials": [_fields(denial) for denial in event.denials]}
        case _:
            return {"type": event.type, **_fields(event)}


def _fields(item: Event | Denial) -> dict[str, object]:
    """The fields as they are: `asdict` would copy an agent's JSON to any depth."""
    return {name: getattr(item, name) for name in _names(type(item))}


@functools.cache
def _names(kind: type[Event] | type[Denial]) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))
