"""The canonical events: all that is shown, counted or decided comes from these.

On the wire each is one JSON object with its `type`; tool, usage and meta events have RTF1's shape (docs of the
transcript format), the others are flat. `seq` and `at` are added when an event is stamped.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
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
    envrc_used: bool | None = None
    """Whether the agent has what `.envrc` sets; None where there is none, or an earlier ralph has not said."""
    envrc_why: str = ""
    """Why it is not used."""


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
    end: str = ""
    """The row of the failure table because of which it waits; empty where the user wants it."""


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
