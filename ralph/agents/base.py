"""What every agent implements: a request becomes the exact process to start; and the values that agents share. Pure."""

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
from ralph.core.verdict import Reply

AUTO = "auto"
"""The transcript that the agent's own output calls for."""


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
    """All of it; `command` is what a custom agent is started with, `transcript` how the user wants it read."""

    claude: ClaudeOptions = field(default_factory=ClaudeOptions)
    codex: CodexOptions = field(default_factory=CodexOptions)
    command: str = ""
    transcript: str = AUTO

    def transcript_or(self, own: str) -> str:
        """The transcript that the user chose, else the agent's own."""
        return own if self.transcript == AUTO else self.transcript


@dataclass(frozen=True, slots=True)
class Request:
    """One session that ralph wants held; an empty `model` is the agent's own choice."""

    prompt: str
    session_id: str
    model: str
    reasoning: Reasoning
    tools: tuple[str, ...]
    system_prompt_file: str
    environment: Mapping[str, str]
    folder: Path
    """Where files for the agent may be put; not in the repository."""
    read_only: bool = False
    allowance: Allowance = NO_BOUNDS


@dataclass(frozen=True, slots=True)
class AgentLog:
    """A file that the agent itself keeps of a session, with lines that tell its use: for when its stream did not."""

    folder: Path
    pattern: str
    """Finds the file below the folder; `{session_id}` in it stands for the session's own."""
    telling: re.Pattern[bytes]
    """How those lines begin; each is cumulative, so that the last one tells all."""


@dataclass(frozen=True, slots=True)
class Launch:
    """The process to start, and what to say to it first."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    first_input: bytes
    listens: bool = True
    """More can be said to it later: its stdin stays open."""
    joins_stderr: bool = False
    """What it writes on stderr is part of its transcript."""
    files: Mapping[Path, str] = field(default_factory=dict[Path, str])
    """Files that must be there before it starts."""


class Runner(Protocol):
    """Knows one agent's command line and its way of being talked to."""

    @property
    def path(self) -> str:
        """What is started, as people would type it."""
        ...

    @property
    def transcript(self) -> str:
        """Name of the transcript that reads what this agent is made to print."""
        ...

    @property
    def reply(self) -> Reply:
        """How it gives its answer."""
        ...

    @property
    def required_tool(self) -> str:
        """Tool without which the agent cannot give a verdict; empty if it needs none."""
        ...

    def permissions(self, *, read_only: bool = False) -> str:
        """What the agent may do, in a few words for people."""
        ...

    @property
    def notice(self) -> str:
        """What people should know about this agent before they believe what they see."""
        ...

    def model(self, asked: str) -> str:
        """The model that answers when `asked` is asked for, as people call it."""
        ...

    def launch(self, request: Request) -> Launch: ...

    def follow_up(self, request: Request, session_id: str, text: str) -> bytes | Launch | None:
        """How to say `text` in the same session: on its open stdin, by another process, or not at all."""
        ...

    def interrupt(self) -> bytes:
        """What to write on an open stdin to stop the turn softly; empty if nothing would."""
        ...


def find_program(word: str, env: Mapping[str, str]) -> str | None:
    """Find a program on PATH, or by its path from where ralph stands: the agent is started elsewhere."""
    found = shutil.which(os.path.expanduser(word), path=env.get("PATH"))  # noqa: PTH111 - a Path would drop `./`
    return None if found is None else os.path.abspath(found)  # noqa: PTH100 - links stay, `..` goes


def own_or_words(options: AgentOptions, own: str) -> str:
    """The transcript for an agent that speaks `own`, or else words; the other agent's language it cannot speak."""
    chosen = options.transcript_or(own)
    if chosen in ("claude", "codex") and chosen != own:
        raise UsageError(
            f"--transcript {chosen} cannot read this agent, which speaks {own}",
            f"leave it out, or choose {own}, plain or rtf1; any command can be read by any of them: --agent-cmd",
        )
    return chosen


_NESTING = ("CLAUDECODE", "CLAUDE_CODE_CHILD_SESSION", "CLAUDE_CODE_SESSION_ID", "CLAUDE_CODE_ENTRYPOINT", "AI_AGENT")
"""What a Claude Code session puts into its children's environment: a session of ours is nobody's child."""


def without_nesting(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment for an agent, even if ralph itself was started by one."""
    return {name: value for name, value in environment.items() if name not in _NESTING}


CLAUDE_TRANSCRIPT = "claude"


def user_message(text: str) -> bytes:
    """What to write on the stdin of `--input-format stream-json` to say `text`."""
    said = {"type": "user", "message": {"role": "user", "content": [{"type": "text", "text": text}]}}
    return ndjson.encode_line(said)


def interruption() -> bytes:
    """What to write there to stop the turn; the session survives it (2.1.197)."""
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
"""What `--transcript auto` means for each of them."""
OWN_FORMATS = ("claude", "codex", "rtf1", "plain")
"""The transcripts of ours, by name; `agents/registry` has what reads them."""
RUNNERS_GROUP, TRANSCRIPTS_GROUP = "ralph.runners", "ralph.transcripts"
"""The entry points by which other packages bring agents and transcripts."""


def agent_names() -> list[str]:
    """Every agent that can be chosen; no other package's is loaded for that."""
    return _names(OWN_TRANSCRIPTS, RUNNERS_GROUP)


def transcript_names() -> list[str]:
    """Every transcript that can be chosen."""
    return _names(OWN_FORMATS, TRANSCRIPTS_GROUP)


def _names(ours: Collection[str], group: str) -> list[str]:
    from importlib.metadata import entry_points  # 20 ms that only a strange name is worth

    return [*ours, *sorted({point.name for point in entry_points(group=group)} - set(ours))]


SCRIPTED = "scripted:"
"""How the name of a model begins that is a script."""
