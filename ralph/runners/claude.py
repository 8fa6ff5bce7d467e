"""Claude Code: fresh `-p` sessions over stream-json, with stdin held open for corrections."""

import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ralph import jsonline
from ralph.budget import Reasoning, thinking_budget
from ralph.errors import BlockedError
from ralph.runners.base import Launch, Request
from ralph.verdict import SCHEMA, TOOL

_NESTING = ("CLAUDECODE", "CLAUDE_CODE_CHILD_SESSION", "CLAUDE_CODE_SESSION_ID", "CLAUDE_CODE_ENTRYPOINT", "AI_AGENT")
"""What a Claude Code session puts into its children's environment: a session of ours is nobody's child."""

# There is no effort below low; MAX_THINKING_TOKENS=0 says the rest, to the versions that still read it.
_EFFORT = {Reasoning.NONE: "low", Reasoning.LOW: "low", Reasoning.MED: "medium", Reasoning.HIGH: "high"}


@dataclass(frozen=True, slots=True)
class ClaudeOptions:
    """How the user wants `claude` run; an empty `permission_mode` auto-approves the tool set."""

    path: str = ""
    permission_mode: str = ""
    auth: str = "login"
    project_settings: bool = True
    max_retries: int = 3
    extra_args: tuple[str, ...] = ()


def find_claude(options: ClaudeOptions, env: Mapping[str, str]) -> "ClaudeRunner":
    """Find Claude Code, or say how to get it and what else there is."""
    wanted = str(Path(options.path).expanduser()) if options.path else "claude"
    found = shutil.which(wanted, path=env.get("PATH"))
    if found is None:
        raise BlockedError(
            f"the agent was not found: {wanted}" if options.path else "the agent `claude` was not found on PATH",
            "install Claude Code (npm install -g @anthropic-ai/claude-code) and log in by running `claude` once;"
            " or say where it is: ralph config set agents.claude.path /path/to/claude;"
            " or, with an API key, take ralph's own agent: --agent ralph-claude;"
            " or look on while a script plays the agent, in a repository made for it: `make demo` in a clone of ralph",
        )
    return ClaudeRunner((str(Path(found).absolute()),), options)


@dataclass(frozen=True, slots=True)
class ClaudeRunner:
    """An agent with claude's command line: what starts it, and how the user wants it run."""

    command: tuple[str, ...]
    options: ClaudeOptions
    own_model: str = ""
    """The only model it has, whatever is asked for."""
    notice: str = ""
    """What people should know about this agent before they believe what they see."""

    transcript: str = "claude"
    required_tool: str = TOOL

    @property
    def path(self) -> str:
        """What is started, as people would type it."""
        return shlex.join(self.command)

    def model(self, asked: str) -> str:
        """The model that answers when `asked` is asked for, as people call it."""
        return self.own_model.partition(":")[0] or asked

    def launch(self, request: Request) -> Launch:
        tools = ",".join(request.tools)
        argv = [*self.command, "-p", "--model", self.own_model or request.model, "--tools", tools, "--verbose"]
        argv += ["--input-format", "stream-json", "--output-format", "stream-json", "--json-schema", SCHEMA]
        argv += ["--session-id", request.session_id, "--effort", _EFFORT[request.reasoning]]
        # --tools restricts, --allowedTools approves (2.1.197): the latter also works as root, where bypass is refused.
        mode = self.options.permission_mode
        argv += ["--permission-mode", mode] if mode else ["--allowedTools", tools]
        if not self.options.project_settings:
            # An untrusted repository's hooks and MCP servers run even with -p (2.1.197); this drops them.
            argv += ["--setting-sources", "user", "--strict-mcp-config"]
        if request.system_prompt_file:
            argv += ["--append-system-prompt-file", request.system_prompt_file]
        argv += self.options.extra_args
        return Launch(tuple(argv), self._environment(request), self.message(request.prompt))

    def _environment(self, request: Request) -> dict[str, str]:
        environment = {name: value for name, value in request.environment.items() if name not in _NESTING}
        if self.options.auth != "api-key":
            environment["ANTHROPIC_API_KEY"] = ""  # empty, not absent: the stored login is used
        # Unset means thinking at its most (2.1.197), so `none` is an explicit 0.
        environment["MAX_THINKING_TOKENS"] = str(thinking_budget(request.model, request.reasoning))
        environment["CLAUDE_CODE_MAX_RETRIES"] = str(self.options.max_retries)
        return environment

    def message(self, text: str) -> bytes:
        said = {"type": "user", "message": {"role": "user", "content": [{"type": "text", "text": text}]}}
        return jsonline.encode(said).encode() + b"\n"

    def interrupt(self) -> bytes:
        request = {"type": "control_request", "request_id": "ralph-stop", "request": {"subtype": "interrupt"}}
        return jsonline.encode(request).encode() + b"\n"
