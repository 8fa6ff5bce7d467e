"""How the user wants agents run, as the settings say it."""

from dataclasses import dataclass, field

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
