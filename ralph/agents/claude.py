"""Claude Code and ralph-claude: fresh `-p` sessions over stream-json, with stdin kept open for corrections."""

import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from ralph.agents.base import (
    CLAUDE_TRANSCRIPT,
    SCRIPTED,
    AgentOptions,
    ClaudeOptions,
    Launch,
    Request,
    find_program,
    interruption,
    own_or_words,
    user_message,
    without_nesting,
)
from ralph.core import ndjson, usage
from ralph.core.errors import BlockedError, UsageError
from ralph.core.limits import Reasoning, thinking_budget
from ralph.core.verdict import SCHEMA, TOOL, Reply

# There is no effort below low; MAX_THINKING_TOKENS=0 says the rest, to the versions that still read it.
_EFFORT = {Reasoning.NONE: "low", Reasoning.LOW: "low", Reasoning.MED: "medium", Reasoning.HIGH: "high"}

FAMILIES = ("haiku", "sonnet", "opus", "fable")
"""Short names of models, each of which stands for one with a price."""

# -P: the agent is started in the user's repository, whose own `ralph/` or `json.py` must not be imported.
_COMMAND = (sys.executable, "-P", "-m", "ralph.claude_cli")


def find_claude(options: AgentOptions, env: Mapping[str, str]) -> "ClaudeRunner":
    """Find Claude Code, or say how to get it and what else there is."""
    path = options.claude.path
    found = find_program(path or "claude", env)
    if found is None:
        raise BlockedError(
            f"the agent was not found: {path}" if path else "the agent `claude` was not found on PATH",
            "install Claude Code (npm install -g @anthropic-ai/claude-code) and log in by running `claude` once;"
            " or say where it is: ralph config set agents.claude.path /path/to/claude;"
            " or take another agent: --agent codex, or, with an API key, ralph's own: --agent ralph-claude;"
            " or look on while a script plays the agent, in a repository made for it: `make demo` in a clone of ralph",
        )
    return ClaudeRunner((found,), options.claude, own_or_words(options, CLAUDE_TRANSCRIPT))


def _always(_model: str) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class ClaudeRunner:
    """An agent with claude's command line: what starts it, and how the user wants it run.

    Read by another transcript than its own it is made to print plain text, and answers in words.
    """

    command: tuple[str, ...]
    options: ClaudeOptions
    transcript: str = CLAUDE_TRANSCRIPT
    own_model: str = ""
    """The only model it has, whatever is asked for."""
    notice: str = ""
    keeps_to_money: Callable[[str], bool] = _always
    """Whether it can be told a budget for this model."""

    @property
    def path(self) -> str:
        return shlex.join(self.command)

    @property
    def reply(self) -> Reply:
        return Reply.TOOL if self.transcript == CLAUDE_TRANSCRIPT else Reply.WORDS

    @property
    def required_tool(self) -> str:
        return TOOL if self.reply == Reply.TOOL else ""

    def permissions(self, *, read_only: bool = False) -> str:  # noqa: ARG002 - its tools are what is read-only then
        mode = self.options.permission_mode
        return (f"permission mode {mode}" if mode else "tools auto-approved") + " · sandbox: none"

    def model(self, asked: str) -> str:
        return self.own_model.partition(":")[0] or asked

    def launch(self, request: Request) -> Launch:
        tools = ",".join(request.tools)
        argv = [*self.command, "-p", "--model", self.own_model or request.model, "--tools", tools]
        if self.reply == Reply.TOOL:
            argv += ["--verbose", "--input-format", "stream-json", "--output-format", "stream-json"]
            argv += ["--json-schema", SCHEMA]
        argv += ["--session-id", request.session_id, "--effort", _EFFORT[request.reasoning]]
        # --tools restricts, --allowedTools approves (2.1.197): the latter also works as root, where bypass is refused.
        mode = self.options.permission_mode
        argv += ["--permission-mode", mode] if mode else ["--allowedTools", tools]
        if not self.options.project_settings:
            # An untrusted repository's hooks and MCP servers run even with -p (2.1.197); this drops them.
            argv += ["--setting-sources", "user", "--strict-mcp-config"]
        argv += self._budget(request)
        if request.system_prompt_file:
            argv += ["--append-system-prompt-file", request.system_prompt_file]
        argv += self.options.extra_args
        environment = self._environment(request)
        if self.reply == Reply.TOOL:
            return Launch(tuple(argv), environment, user_message(request.prompt))
        return Launch(tuple(argv), environment, request.prompt.encode("utf-8", "replace"), listens=False)

    def _budget(self, request: Request) -> list[str]:
        """What makes the agent keep to its allowance, and tell its use while it works."""
        allowance, model = request.allowance, self.own_model or request.model
        argv: list[str] = []
        if allowance.counts and self.reply == Reply.TOOL:
            # Without them the final output tokens of a message are known only from the result (2.1.197, 2.1.325). They
            # multiply the stream, so only those who have a limit pay for them.
            argv.append("--include-partial-messages")
        if allowance.dollars is not None and self.keeps_to_money(model):
            # Looked at after each call, before its tools run (2.1.325): ralph's own stop may come a call too late.
            argv += ["--max-budget-usd", f"{allowance.dollars:.6f}"]
        return argv

    def _environment(self, request: Request) -> dict[str, str]:
        environment = without_nesting(request.environment)
        if self.options.auth != "api-key":
            environment["ANTHROPIC_API_KEY"] = ""  # empty, not absent: the stored login is used
        # Unset means thinking at its most (2.1.197), so `none` is an explicit 0.
        environment["MAX_THINKING_TOKENS"] = str(thinking_budget(request.model, request.reasoning))
        environment["CLAUDE_CODE_MAX_RETRIES"] = str(self.options.max_retries)
        return environment

    def follow_up(self, request: Request, session_id: str, text: str) -> bytes | None:  # noqa: ARG002 - of the Protocol
        return user_message(text) if self.reply == Reply.TOOL else None

    def interrupt(self) -> bytes:
        return interruption() if self.reply == Reply.TOOL else b""


def find_ralph_claude(options: AgentOptions, _env: Mapping[str, str]) -> ClaudeRunner:
    """The agent that came with this ralph. It has no login of its own to prefer: whoever chooses it means the key."""
    if find_spec("anthropic") is None:
        raise BlockedError(
            "the agent ralph-claude needs Anthropic's SDK, which is not installed",
            "in a clone of ralph: pip install '.[models]'; or take another agent: --agent claude",
        )
    own = replace(options.claude, auth="api-key")
    return ClaudeRunner(_COMMAND, own, own_or_words(options, CLAUDE_TRANSCRIPT), keeps_to_money=_has_price)


def _has_price(model: str) -> bool:
    """Tell whether it will take a budget: it refuses one for a model of which it does not know what it costs."""
    if model.startswith("scripted:") or model.removesuffix("[1m]") in FAMILIES:
        return True
    return usage.shipped().price(model) is not None


def find_demo(options: AgentOptions, env: Mapping[str, str]) -> ClaudeRunner:
    """The same agent with a script for a model: it really edits and runs, but nothing in it thinks."""
    script = Path(env.get("RALPH_DEMO_SCRIPT", "").strip() or _shipped_script()).expanduser().absolute()
    if not script.is_file():
        raise UsageError(
            f"RALPH_DEMO_SCRIPT: {script} is no file", "name a script, or leave it unset for the shipped one"
        )
    if fault := _fault_in(script):
        raise UsageError(
            f"RALPH_DEMO_SCRIPT: {script} is no script: {fault}",
            "a script is a list of sessions, a session a list of turns, a turn a list of content blocks with a type",
        )
    notice = f"the model is scripted ({script.name}): it plays its part whatever the goal says, and costs nothing"
    transcript = own_or_words(options, CLAUDE_TRANSCRIPT)
    return ClaudeRunner(_COMMAND, options.claude, transcript, own_model=f"{SCRIPTED}{script}", notice=notice)


def _fault_in(script: Path) -> str:
    """Why the scripted model could not play it; empty: it can."""
    try:
        sessions = ndjson.decode(script.read_text("utf-8"))
    except OSError as error:
        return error.strerror or str(error)
    except ValueError as error:
        return f"not JSON: {error}"
    things: Sequence[object] = [sessions]
    for name in ("script", "session", "turn"):
        if not all(isinstance(thing, list) for thing in things):
            return f"a {name} is not a list"
        things = [inner for thing in things for inner in ndjson.sequence(thing)]
    has_types = all(ndjson.text(ndjson.mapping(block).get("type")) for block in things)
    return "" if has_types else "a block has no type"


def _shipped_script() -> Path:
    """The demo's script of the wheel, else that of the checkout."""
    packaged = Path(__file__).parent.parent / "_demo" / "script.json"
    return packaged if packaged.is_file() else Path(__file__).parent.parent.parent / "examples" / "demo" / "script.json"
