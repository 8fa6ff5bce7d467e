"""Claude Code: fresh `-p` sessions over stream-json, with stdin held open for corrections."""

from dataclasses import dataclass

from ralph import jsonline
from ralph.budget import Reasoning, thinking_budget
from ralph.runners.base import Launch, Request
from ralph.verdict import SCHEMA, TOOL

_NESTING = ("CLAUDECODE", "CLAUDE_CODE_CHILD_SESSION", "CLAUDE_CODE_SESSION_ID", "CLAUDE_CODE_ENTRYPOINT", "AI_AGENT")
"""What a Claude Code session puts into its children's environment: a session of ours is nobody's child."""

# There is no effort below low; MAX_THINKING_TOKENS=0 says the rest, to the versions that still read it.
_EFFORT = {Reasoning.NONE: "low", Reasoning.LOW: "low", Reasoning.MED: "medium", Reasoning.HIGH: "high"}


@dataclass(frozen=True, slots=True)
class ClaudeRunner:
    """Where `claude` is and how the user wants it run; an empty `permission_mode` auto-approves the tool set."""

    path: str
    permission_mode: str = ""
    api_key_auth: bool = False
    project_settings: bool = True
    max_retries: int = 3
    extra_args: tuple[str, ...] = ()

    transcript: str = "claude"
    required_tool: str = TOOL

    def launch(self, request: Request) -> Launch:
        tools = ",".join(request.tools)
        argv = [self.path, "-p", "--model", request.model, "--tools", tools, "--verbose"]
        argv += ["--input-format", "stream-json", "--output-format", "stream-json", "--json-schema", SCHEMA]
        argv += ["--session-id", request.session_id, "--effort", _EFFORT[request.reasoning]]
        # --tools restricts, --allowedTools approves (2.1.197): the latter also works as root, where bypass is refused.
        argv += ["--permission-mode", self.permission_mode] if self.permission_mode else ["--allowedTools", tools]
        if not self.project_settings:
            # An untrusted repository's hooks and MCP servers run even with -p (2.1.197); this drops them.
            argv += ["--setting-sources", "user", "--strict-mcp-config"]
        if request.system_prompt_file:
            argv += ["--append-system-prompt-file", request.system_prompt_file]
        argv += self.extra_args
        return Launch(tuple(argv), self._environment(request), self.message(request.prompt))

    def _environment(self, request: Request) -> dict[str, str]:
        environment = {name: value for name, value in request.environment.items() if name not in _NESTING}
        if not self.api_key_auth:
            environment["ANTHROPIC_API_KEY"] = ""  # empty, not absent: the stored login is used
        # Unset means thinking at its most (2.1.197), so `none` is an explicit 0.
        environment["MAX_THINKING_TOKENS"] = str(thinking_budget(request.model, request.reasoning))
        environment["CLAUDE_CODE_MAX_RETRIES"] = str(self.max_retries)
        return environment

    def message(self, text: str) -> bytes:
        said = {"type": "user", "message": {"role": "user", "content": [{"type": "text", "text": text}]}}
        return jsonline.encode(said).encode() + b"\n"

    def interrupt(self) -> bytes:
        request = {"type": "control_request", "request_id": "ralph-stop", "request": {"subtype": "interrupt"}}
        return jsonline.encode(request).encode() + b"\n"
