"""Any command: it reads the prompt on stdin, or in a file that its command line names, and answers on stdout."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from ralph.agents.base import Launch, Request, find_program, without_nesting
from ralph.agents.claude import interruption, user_message
from ralph.core.errors import BlockedError, UsageError
from ralph.core.verdict import Reply
from ralph.runners.options import AgentOptions

OWN_TRANSCRIPT = "plain"
PROMPT_FILE = "{prompt_file}"


def find_custom(options: AgentOptions, env: Mapping[str, str]) -> "CustomRunner":
    """Find the command's program, or say what is wrong with the command."""
    if not options.command.strip():
        raise UsageError(
            "the agent custom needs a command", "name one: --agent-cmd 'my-agent --flag'; it reads the prompt on stdin"
        )
    program, *arguments = shlex.split(options.command)  # the settings have seen that it can be
    found = find_program(program, env)
    if found is None:
        raise BlockedError(
            f"the agent's program {program!r} was not found, or is not executable",
            "--agent-cmd is split into words and run without a shell; give the program's path, or one on PATH",
        )
    return CustomRunner((found, *arguments), options.transcript_or(OWN_TRANSCRIPT))


@dataclass(frozen=True, slots=True)
class CustomRunner:
    """A command of the user's. One that speaks claude's stream-json decides by structured output as claude does."""

    command: tuple[str, ...]
    transcript: str = OWN_TRANSCRIPT
    required_tool: str = ""
    notice: str = ""

    @property
    def path(self) -> str:
        return shlex.join(self.command)

    @property
    def reply(self) -> Reply:
        return Reply.TOOL if self.transcript == "claude" else Reply.WORDS

    def permissions(self, *, read_only: bool = False) -> str:  # noqa: ARG002 - of the Protocol: nobody can tell it
        return "what it may do is its own affair · sandbox: none"

    @property
    def _hears_stream_json(self) -> bool:
        words = self.command[1:]
        asked = ("--input-format", "stream-json") in pairwise(words) or "--input-format=stream-json" in words
        return asked and self.reply == Reply.TOOL

    def model(self, asked: str) -> str:  # noqa: ARG002 - of the Protocol: nobody can tell the command which
        return "its own choice"

    def launch(self, request: Request) -> Launch:
        environment = without_nesting(request.environment)
        if self._hears_stream_json:
            return Launch(self.command, environment, user_message(request.prompt))
        file = request.folder / "prompt.md"
        in_file = any(PROMPT_FILE in word for word in self.command)
        return Launch(
            tuple(word.replace(PROMPT_FILE, str(file)) for word in self.command),
            environment,
            b"" if in_file else request.prompt.encode("utf-8", "replace"),
            listens=False,
            joins_stderr=self.transcript == "codex",  # its human transcript is there, stdout has the last message only
            files={file: request.prompt} if in_file else {},
        )

    def follow_up(self, request: Request, session_id: str, text: str) -> bytes | None:  # noqa: ARG002 - of the Protocol
        return user_message(text) if self._hears_stream_json else None

    def interrupt(self) -> bytes:
        return interruption() if self._hears_stream_json else b""
