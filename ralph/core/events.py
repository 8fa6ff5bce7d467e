"""The canonical events: everything that ralph shows, counts or decides comes from these.

On the wire each is one JSON object with its `type`; tool, usage and meta events have RTF1's shape (docs of the
transcript format), the others are flat. `seq` and `at` are added when an event is stamped.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import ClassVar


class Tag(StrEnum):
    """The author of a `Text`."""

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
    line: int | None = None
    """For an edit: the line of the file where the first change begins, if the agent reports it."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What the session has used *so far*: the last event counts. Prompt tokens include cached ones."""

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
    """True: the agent did not report the cost of all these tokens; ralph adds the rest if it knows the price."""
    cache_creation_1h_tokens: int | None = None
    """The part of `cache_creation_tokens` that is cached for an hour, which costs more."""
    uncosted_tokens: int | None = None
    """The tokens that the agent's last reported cost does not include."""
    in_call: bool | None = None
    """True: the model has started a message; False: it has finished it; None: unknown."""

    def estimated_at(self, dollars: float) -> "Usage":
        """Return the same usage with an estimated cost; written out for speed, because every message has a usage."""
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
"""More than any session uses: ralph ignores a larger figure, like a negative one or NaN."""


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
    cwd: str = ""
    """The folder that it works in, where it says so."""
    forked_from: str = ""
    """The session that ralph asked for, where the agent began or went on with another one."""

    def instead_of(self, asked_for: str) -> "SessionStarted":
        """Return the same start, with the session that was asked for if it is another; empty: none was."""
        is_other = bool(asked_for and self.session_id) and self.session_id != asked_for
        return replace(self, forked_from=asked_for) if is_other else self


class QuotaStatus(StrEnum):
    """What an agent reports about its account's quota; other words may come."""

    ALLOWED = "allowed"
    NEARLY_USED_UP = "allowed_warning"
    USED_UP = "rejected"


@dataclass(frozen=True, slots=True)
class RateLimited:
    """The account's quota; `status`: see `QuotaStatus`."""

    type: ClassVar[str] = "rate_limited"
    status: str
    resets_at: float | None
    kind: str
    used: float | None = None
    """The used share, from 0 to 1, if the agent reports it."""


@dataclass(frozen=True, slots=True)
class ApiRetry:
    """The agent met an API error and tries again by itself."""

    type: ClassVar[str] = "api_retry"
    attempt: int
    status: int | None
    error: str


@dataclass(frozen=True, slots=True)
class Compacted:
    """The agent summarized its conversation, which had grown too long for its context."""

    type: ClassVar[str] = "compacted"
    trigger: str
    """What called for it, in the agent's word: `auto` or `manual`."""
    pre_tokens: int | None = None
    post_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Denial:
    """A tool call that the agent's permissions refused."""

    id: str
    tool: str
    input: Mapping[str, object]
    reason: str = ""
    """Why, where the agent says that instead of what the call was."""


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
    num_turns: int | None = None
    """As the agent counts; claude's figure is no number of API calls."""
    duration_ms: int | None = None


@dataclass(frozen=True, slots=True)
class SessionEnded:
    """The process is gone. `end` is a row of the failure table; `degraded`: `text` is the stream's last text."""

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
    """What happened to the repository's `.envrc`, in words; empty if there is none."""
    cost_usd: float | None = None
    """What the run had used before this start, recorded or not; None: unknown."""
    tokens: int | None = None
    envrc_used: bool | None = None
    """Whether the agent has the variables of `.envrc`; None if there is none, or in events of an earlier ralph."""
    envrc_why: str = ""
    """Why it is not used."""
    max_iterations: int | None = None
    """The run's limit; None if it has none, or in events of an earlier ralph."""
    fallback: tuple[str, ...] = ()
    """The agents that stand in when the quota of this one is used up."""
    sandbox: str = ""
    """The sandbox in force: auto, strict, command or none; empty in events of an earlier ralph."""


@dataclass(frozen=True, slots=True)
class AgentChanged:
    """From now on another agent works: one that stands in, or one that comes before it and is back."""

    type: ClassVar[str] = "agent_changed"
    agent: str
    agent_path: str
    transcript: str
    model: str
    instead_of: str = ""
    """The agent that it stands in for; empty if this is the one that the user wants."""
    until: float | None = None
    """When an agent that comes before it is tried again."""


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
    """A session starts that condenses the iterations 1 to `through`; the usage that follows is its own."""

    type: ClassVar[str] = "summary_started"
    through: int
    session_id: str
    log: str


@dataclass(frozen=True, slots=True)
class SummaryWritten:
    """From now on `text` replaces the iterations 1 to `through` in prompts."""

    type: ClassVar[str] = "summary_written"
    through: int
    cost_usd: float | None
    text: str


@dataclass(frozen=True, slots=True)
class CheckStarted:
    """The check of an iteration's claim starts."""

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
    """No session runs; `until` is None if the wait lasts until the user ends it."""

    type: ClassVar[str] = "waiting"
    reason: str
    until: float | None
    end: str = ""
    """The row of the failure table that causes the wait; empty if the user asked for it."""


@dataclass(frozen=True, slots=True)
class Guided:
    """What happened to a message of the user; `status`: see `guidance.Receipt`."""

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
SessionEvent = SessionStarted | RateLimited | ApiRetry | Compacted | TurnEnded | SessionEnded
RunEvent = (
    RunStarted
    | AgentChanged
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
"""The events that an agent may report about itself in RTF1; events of sessions and runs are ralph's."""
