"""A plugin for ralph: an agent that thinks in lower case and SPEAKS IN UPPER CASE, with its transcript."""

import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass

from ralph.agents.base import AgentOptions, Launch, Request
from ralph.agents.transcript import Capabilities
from ralph.core.errors import BlockedError
from ralph.core.events import Event, Tag, Text
from ralph.core.verdict import PROMISE, Reply


class ShoutTranscript:
    """Turn a line into events. ralph calls `feed` for every line and `flush` at the end."""

    capabilities = Capabilities(supports_roles=True)

    def feed(self, line: str) -> list[Event]:
        if not line.strip():
            return []
        spoken = line.isupper() or line.strip() == PROMISE
        return [Text(Tag.AI if spoken else Tag.THINK, line)]

    def flush(self) -> list[Event]:
        return []


def find_shout(options: AgentOptions, env: Mapping[str, str]) -> "ShoutRunner":
    """Find the program, or say how to get it. ralph calls this once, before it starts anything."""
    found = shutil.which("shout", path=env.get("PATH"))
    if found is None:
        raise BlockedError("the agent `shout` was not found on PATH", "install shout, or add its folder to PATH")
    return ShoutRunner((found,), options.transcript_or("shout"))


@dataclass(frozen=True, slots=True)
class ShoutRunner:
    """Start the agent and talk to it."""

    command: tuple[str, ...]
    transcript: str
    reply: Reply = Reply.WORDS
    required_tool: str = ""
    notice: str = ""

    @property
    def path(self) -> str:
        return shlex.join(self.command)

    def permissions(self, *, read_only: bool = False) -> str:
        return "it only reads and talks" if read_only else "it only talks"

    def model(self, asked: str) -> str:
        return asked or "loud"

    def launch(self, request: Request) -> Launch:
        return Launch(self.command, request.environment, request.prompt.encode(), listens=False)

    def follow_up(self, request: Request, session_id: str, text: str) -> None:
        """Do nothing: the agent reads one message per session."""

    def interrupt(self) -> bytes:
        return b""
