"""What every runner offers: a request becomes the exact process to start. Pure; nothing is started here."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from ralph.budget import Reasoning
from ralph.verdict import Reply


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


@dataclass(frozen=True, slots=True)
class Account:
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
    account: Account | None = None


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

    @property
    def permissions(self) -> str:
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


_NESTING = ("CLAUDECODE", "CLAUDE_CODE_CHILD_SESSION", "CLAUDE_CODE_SESSION_ID", "CLAUDE_CODE_ENTRYPOINT", "AI_AGENT")
"""What a Claude Code session puts into its children's environment: a session of ours is nobody's child."""


def without_nesting(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment for an agent, even if ralph itself was started by one."""
    return {name: value for name, value in environment.items() if name not in _NESTING}
