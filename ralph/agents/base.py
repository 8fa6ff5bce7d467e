"""The interface of an agent, which turns a request into a process to start, and shared values. Pure."""

import os
import re
import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from ralph.core import ndjson
from ralph.core.errors import UsageError
from ralph.core.limits import NO_BOUNDS, Allowance, Reasoning
from ralph.core.verdict import SCHEMA, Reply

AUTO = "auto"
"""The setting that picks the transcript for the agent's own output."""


@dataclass(frozen=True, slots=True)
class ClaudeOptions:
    """How the user wants `claude` run; an empty `permission_mode` auto-approves the tool set."""

    path: str = ""
    permission_mode: str = ""
    auth: str = "login"
    project_settings: bool = True
    max_retries: int = 3
    extra_args: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CodexOptions:
    """How the user wants `codex` run. In its workspace-write sandbox `.git` is read-only: ralph commits."""

    path: str = ""
    sandbox: str = "workspace-write"
    extra_args: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """Options of all agents; `command` starts a custom agent, `transcript` is the user's choice."""

    claude: ClaudeOptions = field(default_factory=ClaudeOptions)
    codex: CodexOptions = field(default_factory=CodexOptions)
    command: str = ""
    transcript: str = AUTO

    def transcript_or(self, own: str) -> str:
        """Return the transcript that the user chose, else the agent's own."""
        return own if self.transcript == AUTO else self.transcript


@dataclass(frozen=True, slots=True)
class Request:
    """One session to run; an empty `model` means the agent's own choice."""

    prompt: str
    session_id: str
    model: str
    reasoning: Reasoning
    tools: tuple[str, ...]
    system_prompt_file: str
    environment: Mapping[str, str]
    folder: Path
    """A folder for the agent's files, outside the repository."""
    read_only: bool = False
    allowance: Allowance = NO_BOUNDS
    replaces_system_prompt: bool = False
    """The file replaces the agent's own system prompt; otherwise it is added to that."""
    schema: str = SCHEMA
    """What the answer must be like, as a JSON schema, where the agent answers in structured output."""
    resumes: str = ""
    """The id of a session that has ended, if this one goes on with its conversation; see `RESUMING`."""


RESUMING = ("claude", "codex")
"""Agents that go on with a session of theirs in another process; ralph-claude keeps none."""


@dataclass(frozen=True, slots=True)
class AgentLog:
    """A file in which the agent records a session's usage, for streams without it."""

    folder: Path
    pattern: str
    """The file's pattern below the folder; `{session_id}` is replaced."""
    usage_line: re.Pattern[bytes]
    """How these lines begin; each is cumulative, so only the last one counts."""


@dataclass(frozen=True, slots=True)
class Launch:
    """The process to start, and its first message."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    first_input: bytes
    listens: bool = True
    """Its stdin stays open for further messages."""
    joins_stderr: bool = False
    """Its stderr is part of its transcript."""
    files: Mapping[Path, str] = field(default_factory=dict[Path, str])
    """Files to write before it starts."""
    session_id: str = ""
    """The session that the process starts or continues; empty if the agent chooses."""


class Runner(Protocol):
    """One agent's command line and protocol."""

    @property
    def path(self) -> str:
        """The program, as people would type it."""
        ...

    @property
    def transcript(self) -> str:
        """The name of the transcript for this agent's output."""
        ...

    @property
    def reply(self) -> Reply:
        """The form of its answer."""
        ...

    @property
    def required_tool(self) -> str:
        """The tool that the agent needs to return a verdict; empty if it needs none."""
        ...

    def permissions(self, *, read_only: bool = False) -> str:
        """What the agent may do, in a few words for people."""
        ...

    @property
    def notice(self) -> str:
        """A note for people about this agent; empty without one."""
        ...

    def model(self, asked: str) -> str:
        """Return the name of the model that answers if the user sets `asked`."""
        ...

    def launch(self, request: Request) -> Launch: ...

    def follow_up(self, request: Request, session_id: str, text: str) -> bytes | Launch | None:
        """Return how to send `text` in the same session: on stdin, by another process, or not at all."""
        ...

    def interrupt(self) -> bytes:
        """Return what to write on stdin to stop the turn softly; empty if the agent has no such message."""
        ...


def find_program(word: str, env: Mapping[str, str]) -> str | None:
    """Find a program on PATH, or by a path from the current directory: the agent is started elsewhere."""
    found = shutil.which(os.path.expanduser(word), path=env.get("PATH"))  # noqa: PTH111 - a Path would drop `./`
    return None if found is None else os.path.abspath(found)  # noqa: PTH100 - links stay, `..` goes


def own_or_words(options: AgentOptions, own: str) -> str:
    """Return the transcript for an agent whose format is `own`; refuse another agent's format."""
    chosen = options.transcript_or(own)
    if chosen in ("claude", "codex") and chosen != own:
        raise UsageError(
            f"--transcript {chosen} cannot read this agent: its format is {own}",
            f"leave it out, or use {own}, plain or rtf1 (a command with --agent-cmd works with every transcript)",
        )
    return chosen


_NESTING = ("CLAUDECODE", "CLAUDE_CODE_CHILD_SESSION", "CLAUDE_CODE_SESSION_ID", "CLAUDE_CODE_ENTRYPOINT", "AI_AGENT")
"""Variables that Claude Code sets for its children; ralph removes them so that its sessions are not nested."""


def without_nesting(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for an agent, even if an agent started ralph."""
    return {name: value for name, value in environment.items() if name not in _NESTING}


CLAUDE_TRANSCRIPT = "claude"


def user_message(text: str) -> bytes:
    """Return what to write on the stdin of `--input-format stream-json` to send `text`."""
    said = {"type": "user", "message": {"role": "user", "content": [{"type": "text", "text": text}]}}
    return ndjson.encode_line(said)


def interruption() -> bytes:
    """Return what to write there to stop the turn; the session continues (2.1.197)."""
    return ndjson.encode_line(
        {"type": "control_request", "request_id": "ralph-stop", "request": {"subtype": "interrupt"}}
    )


CODEX_TRANSCRIPT = "codex"


CUSTOM_TRANSCRIPT = "plain"


OWN_TRANSCRIPTS = {
    "claude": CLAUDE_TRANSCRIPT,
    "codex": CODEX_TRANSCRIPT,
    "custom": CUSTOM_TRANSCRIPT,
    "ralph-claude": CLAUDE_TRANSCRIPT,
    "demo": CLAUDE_TRANSCRIPT,
}
"""What `--transcript auto` means for each agent."""
OWN_FORMATS = ("claude", "codex", "rtf1", "plain")
"""ralph's own transcripts by name; `agents/registry` has their readers."""
RUNNERS_GROUP, TRANSCRIPTS_GROUP = "ralph.runners", "ralph.transcripts"
"""The entry points for agents and transcripts of other packages."""


def agent_names() -> list[str]:
    """Return the names of all agents, without loading other packages."""
    return _names(OWN_TRANSCRIPTS, RUNNERS_GROUP)


def transcript_names() -> list[str]:
    """Every transcript that can be chosen."""
    return _names(OWN_FORMATS, TRANSCRIPTS_GROUP)


def _names(ours: Collection[str], group: str) -> list[str]:
    from importlib.metadata import entry_points  # 20 ms, only for an unknown name

    return [*ours, *sorted({point.name for point in entry_points(group=group)} - set(ours))]


SCRIPTED = "scripted:"
"""The prefix of a scripted model's name."""
