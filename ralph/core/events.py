"""The canonical events: all that is shown, counted or decided comes from these.

On the wire each is one JSON object with its `type`; tool, usage and meta events have RTF1's shape (docs of the
transcript format), the others are flat. `seq` and `at` are added when an event is stamped.
"""

import dataclasses
import functools
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, cast


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
    input: Mapping[str, object] = field(default_factory=dict[str, object])


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
    cost_is_estimate: bool | None = None
    """True: the agent has not named the cost of all these tokens; prices make up for the rest, where there are any."""
    cache_creation_1h_tokens: int | None = None
    """The part of `cache_creation_tokens` that is kept for an hour, which costs more."""
    uncosted_tokens: int | None = None
    """Those of all the tokens that the agent's last own cost leaves out."""
    in_call: bool | None = None
    """True: the model has begun a message; False: it has ended it; None: not told."""

    def estimated_at(self, dollars: float) -> "Usage":
        """Return the same use with a cost that the agent has not named; written out, for every message has a usage."""
        return Usage(
            self.prompt_tokens,
            self.completion_tokens,
            self.total_tokens,
            self.model,
            self.cache_creation_tokens,
            self.cache_read_tokens,
            self.context_pct,
            dollars,
            True,
            self.cache_creation_1h_tokens,
            self.uncosted_tokens,
            self.in_call,
        )


MOST_TOKENS = 10**12
MOST_DOLLARS = 10**6
"""What no session uses: a larger figure of either kind is absurd, and no more believed than a negative one or NaN."""


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
    used: float | None = None
    """The share of it that is used, from 0 to 1, where the agent tells."""


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
    envrc: str = ""
    """What came of the repository's `.envrc`, in words; empty where there is none."""
    cost_usd: float | None = None
    """What the run had used before this start, also where that had not been recorded; None: not told."""
    tokens: int | None = None


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
class SummaryStarted:
    """A session begins that condenses the iterations 1 to `through`; what is used next is its own."""

    type: ClassVar[str] = "summary_started"
    through: int
    session_id: str
    log: str


@dataclass(frozen=True, slots=True)
class SummaryWritten:
    """From now on `text` stands for the iterations 1 to `through`."""

    type: ClassVar[str] = "summary_written"
    through: int
    cost_usd: float | None
    text: str


@dataclass(frozen=True, slots=True)
class CheckStarted:
    """The claim of an iteration is put to the proof."""

    type: ClassVar[str] = "check_started"
    iteration: int


@dataclass(frozen=True, slots=True)
class CheckEnded:
    type: ClassVar[str] = "check_ended"
    exit_code: int | None
    seconds: float
    output: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """No session is held; `until` None: until the user says so."""

    type: ClassVar[str] = "waiting"
    reason: str
    until: float | None


@dataclass(frozen=True, slots=True)
class Guided:
    """What became of a guidance of the user's: received, acknowledged, unacknowledged (told again) or dropped."""

    type: ClassVar[str] = "guidance"
    number: int
    text: str
    status: str


@dataclass(frozen=True, slots=True)
class RunEnded:
    type: ClassVar[str] = "run_ended"
    exit_code: int
    reason: str
    proven: bool


AgentEvent = Text | ToolStart | ToolOutput | ToolEnd | Usage | Meta
SessionEvent = SessionStarted | RateLimited | ApiRetry | TurnEnded | SessionEnded
RunEvent = (
    RunStarted
    | IterationStarted
    | IterationEnded
    | SummaryStarted
    | SummaryWritten
    | CheckStarted
    | CheckEnded
    | Waiting
    | Guided
    | RunEnded
)
Event = AgentEvent | SessionEvent | RunEvent

AGENT_TYPES = ("text", "tool_start", "tool_output", "tool_end", "usage", "meta")
"""What an agent may say of itself, in RTF1; a session or a run is not its to report."""


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


def from_json(document: Mapping[str, object]) -> Event:
    """Read an event from its form on the wire; the `ValueError` of what is none names what is wrong with it."""
    said = document.get("type")
    kind = _KINDS.get(said) if isinstance(said, str) else None
    if kind is None:
        raise ValueError(f"type {_quoted(said)} is not one of {', '.join(_KINDS)}")
    return kind(**_values(kind, document))


def _values(kind: type[Event] | type[Denial], document: Mapping[str, object], path: str = "") -> dict[str, Any]:
    """Each field read by its type: the classes are the schema. What else the document holds is nobody's."""
    values: dict[str, Any] = {}
    for name, home, read, absent in _fields_to_read(kind):
        holder = _mapping(document.get(home), home) if home else document
        where = f"{home}.{name}" if home else f"{path}{name}"
        if holder.get(name) is not None:
            values[name] = read(holder[name], where)
        elif absent is dataclasses.MISSING:
            raise ValueError(f"{where} is missing")
        elif absent is None:
            values[name] = None
    return values


_Reader = Callable[[object, str], object]
"""Takes a value from outside and its name; returns it as what it should be, or says that it is not."""


@functools.cache
def _fields_to_read(kind: type[Event] | type[Denial]) -> tuple[tuple[str, str, _Reader, object], ...]:
    """For each field: its name, the object that holds it on the wire, its reader, what it is if it is not there."""
    fields: list[tuple[str, str, _Reader, object]] = []
    for item in dataclasses.fields(kind):
        said: object = item.type
        options = typing.get_args(said) if isinstance(said, types.UnionType) else (said,)
        read = _READERS_BY_NAME.get(item.name) or _READERS[options[0]]
        has_default = item.default is not dataclasses.MISSING or item.default_factory is not dataclasses.MISSING
        absent = "its default" if has_default else None if said is object or len(options) > 1 else dataclasses.MISSING
        fields.append((item.name, _home(kind, item.name), read, absent))
    return tuple(fields)


def _home(kind: type[Event] | type[Denial], name: str) -> str:
    if kind is Usage:
        return "usage"
    return "tool" if kind in (ToolStart, ToolEnd) or (kind is ToolOutput and name == "id") else ""


def _text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{name} is not a string")
    return value


def _flag(value: object, name: str) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{name} is not true or false")
    return value


_TOO_MANY = 2**53
"""Beyond it, readers of JSON that know only floats count wrong."""


def _whole(value: object, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) >= _TOO_MANY:
        raise ValueError(f"{name} is not a whole number")
    return value


def _count(value: object, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _TOO_MANY:
        raise ValueError(f"{name} is not a count")
    return value


def _figure(value: object, name: str, what: str = "a number of zero or more", too_much: float = 2.0**63) -> float:
    # Compared before converted: an integer may be beyond any float; and NaN is on neither side of anything.
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < too_much:
        raise ValueError(f"{name} is not {what}")
    return float(value)


def _money(value: object, name: str) -> float:
    return _figure(value, name, "an amount of US dollars", MOST_DOLLARS)


def _tokens(value: object, name: str) -> int:
    if (tokens := _count(value, name)) > MOST_TOKENS:
        raise ValueError(f"{name} is not a number of tokens that a session can use")
    return tokens


def _tag(value: object, name: str) -> Tag:
    if value not in _TAGS:
        raise ValueError(f"{name} {_quoted(value)} is not one of {', '.join(Tag)}")
    return Tag(value)


def _status(value: object, name: str) -> ToolStatus:
    if value not in _STATUSES:
        raise ValueError(f"{name} {_quoted(value)} is not one of {', '.join(ToolStatus)}")
    return ToolStatus(value)


_TAGS, _STATUSES = list(Tag), list(ToolStatus)  # lists: what is asked for may have no hash


def _mapping(value: object, name: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{name} is not an object")
    return cast("Mapping[str, object]", value)


def _items(value: object, name: str) -> Sequence[object]:
    if not isinstance(value, list | tuple):
        raise ValueError(f"{name} is not an array")
    return cast("Sequence[object]", value)


def _texts(value: object, name: str) -> tuple[str, ...]:
    return tuple(_text(item, f"{name}.{number}") for number, item in enumerate(_items(value, name)))


def _denials(value: object, name: str) -> tuple[Denial, ...]:
    named = [(item, f"{name}.{number}") for number, item in enumerate(_items(value, name))]
    return tuple(Denial(**_values(Denial, _mapping(item, where), f"{where}.")) for item, where in named)


def _quoted(value: object) -> str:
    """What was said instead; never the whole of it, which may be nested without end."""
    return repr(value[:60]) if isinstance(value, str) else f"({type(value).__name__})"


_READERS: Mapping[object, _Reader] = {
    str: _text,
    bool: _flag,
    int: _count,
    float: _figure,
    object: lambda value, _: value,
    Tag: _tag,
    ToolStatus: _status,
    Mapping[str, object]: _mapping,
    tuple[str, ...]: _texts,
    tuple[Denial, ...]: _denials,
}
_READERS_BY_NAME: Mapping[str, _Reader] = {
    "cost_usd": _money,
    "exit_code": _whole,  # a signal's is negative
    **{item.name: _tokens for item in dataclasses.fields(Usage) if item.name.endswith("_tokens")},
}
_KINDS: Mapping[str, type[Event]] = {kind.type: kind for kind in typing.get_args(Event)}
