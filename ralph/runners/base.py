"""What every runner offers: a request becomes the exact process to start. Pure; nothing is started here."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from ralph.budget import Reasoning


@dataclass(frozen=True, slots=True)
class Request:
    """One session that ralph wants held."""

    prompt: str
    session_id: str
    model: str
    reasoning: Reasoning
    tools: tuple[str, ...]
    system_prompt_file: str
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Launch:
    """The process to start, and what to say to it first."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    first_input: bytes


class Runner(Protocol):
    """Knows one agent's command line and its way of being talked to."""

    @property
    def transcript(self) -> str:
        """Name of the transcript that reads this agent."""
        ...

    @property
    def required_tool(self) -> str:
        """Tool without which the agent cannot give a verdict; empty if it needs none."""
        ...

    def launch(self, request: Request) -> Launch: ...

    def message(self, text: str) -> bytes:
        """What to write on an open stdin to say `text`."""
        ...

    def interrupt(self) -> bytes:
        """What to write on an open stdin to stop the turn softly."""
        ...
