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
from ralph.core.verdict import TOOL, Reply

# There is no effort below low; MAX_THINKING_TOKENS=0 turns thinking off in versions that still read it.
_EFFORT = {Reasoning.NONE: "low", Reasoning.LOW: "low", Reasoning.MED: "medium", Reasoning.HIGH: "high"}

FAMILIES = ("haiku", "sonnet", "opus", "fable")
"""Short names of models, each for one with a price."""

# -P: the agent is started in the user's repository, whose own `ralph/` or `json.py` must not be imported.
_COMMAND = (sys.executable, "-P", "-m", "ralph.claude_cli")


def find_claude(options: AgentOptions, env: Mapping[str, str]) -> "ClaudeRunner":
    """Find Claude Code, or raise an error with the ways to get an agent."""
    path = options.claude.path
    found = find_program(path or "claude", env)
    if found is None:
        raise BlockedError(
            f"cannot find the agent: {path}" if path else "cannot find the agent: `claude` is not on PATH",
            "install Claude Code (npm install -g @anthropic-ai/claude-code) and log in by running `claude` once\n"
            "  or set its path:        ralph config set agents.claude.path /path/to/claude\n"
            "  or use another agent:   --agent codex\n"
            "  or use an API key:      --agent ralph-claude\n"
            "  or watch a demo first:  make demo (in a clone of ralph)",
        )
    return ClaudeRunner((found,), options.claude, own_or_words(options, CLAUDE_TRANSCRIPT))


def session_login(options: ClaudeOptions, environment: Mapping[str, str]) -> dict[str, str]:
    """Return an agent's environment, with its API key if it may use one."""
    hidden = (
        {} if options.auth == "api-key" else {"ANTHROPIC_API_KEY": ""}
    )  # empty rather than absent, so that the stored login is used
    return {**without_nesting(environment), **hidden}


def _always(_model: str) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class ClaudeRunner:
    """An agent with claude's command line, and the user's options for it.

    With another transcript than its own, it prints plain text and answers in words.
    """

    command: tuple[str, ...]
    options: ClaudeOptions
    transcript: str = CLAUDE_TRANSCRIPT
    own_model: str = ""
    """Its only model, whatever the user sets."""
    notice: str = ""
    keeps_to_money: Callable[[str], bool] = _always
    """Whether it accepts a budget for this model."""

    @property
    def path(self) -> str:
        return shlex.join(self.command)

    @property
    def reply(self) -> Reply:
        return Reply.TOOL if self.transcript == CLAUDE_TRANSCRIPT else Reply.WORDS

    @property
    def required_tool(self) -> str:
        return TOOL if self.reply == Reply.TOOL else ""

    def permissions(self, *, read_only: bool = False) -> str:  # noqa: ARG002 - its tools are read-only then
        mode = self.options.permission_mode
        return f"permission mode {mode}" if mode else "tools auto-approved"

    def model(self, asked: str) -> str:
        return self.own_model.partition(":")[0] or asked

    def launch(self, request: Request) -> Launch:
        tools = ",".join(request.tools)
        argv = [*self.command, "-p", "--model", self.own_model or request.model, "--tools", tools]
        if self.reply == Reply.TOOL:
            argv += ["--verbose", "--input-format", "stream-json", "--output-format", "stream-json"]
            argv += ["--json-schema", request.schema]
        argv += ["--resume", request.resumes] if request.resumes else ["--session-id", request.session_id]
        argv += ["--effort", _EFFORT[request.reasoning]]
        # --tools restricts, --allowedTools approves (2.1.197): the latter also works as root, where bypass is refused.
        mode = self.options.permission_mode
        argv += ["--permission-mode", mode] if mode else ["--allowedTools", tools]
        if not self.options.project_settings:
            # An untrusted repository's hooks and MCP servers run even with -p (2.1.197); this drops them.
            argv += ["--setting-sources", "user", "--strict-mcp-config"]
        argv += self._budget(request)
        if request.system_prompt_file:
            # Replaced, claude still tells the model that it is Claude Code, and how to answer (2.1.325).
            flag = "--system-prompt-file" if request.replaces_system_prompt else "--append-system-prompt-file"
            argv += [flag, request.system_prompt_file]
        argv += self.options.extra_args
        environment = self._environment(request)
        if self.reply == Reply.TOOL:
            return Launch(tuple(argv), environment, user_message(request.prompt), session_id=request.session_id)
        return Launch(tuple(argv), environment, request.prompt.encode("utf-8", "replace"), listens=False)

    def _budget(self, request: Request) -> list[str]:
        """Return the flags that make the agent keep its budget and report its usage while it works."""
        allowance, model = request.allowance, self.own_model or request.model
        argv: list[str] = []
        if allowance.counts and self.reply == Reply.TOOL:
            # Without them, only the result has a message's final output tokens (2.1.197, 2.1.325). They multiply the
            # stream, so ralph asks for them only if there is a limit.
            argv.append("--include-partial-messages")
        if allowance.dollars is not None and self.keeps_to_money(model):
            # Tested after each call, before its tools run (2.1.325): ralph's own stop may come a call too late.
            argv += ["--max-budget-usd", f"{allowance.dollars:.6f}"]
        return argv

    def _environment(self, request: Request) -> dict[str, str]:
        environment = session_login(self.options, request.environment)
        # Unset means thinking at its most (2.1.197), so `none` is an explicit 0.
        environment["MAX_THINKING_TOKENS"] = str(thinking_budget(request.model, request.reasoning))
        environment["CLAUDE_CODE_MAX_RETRIES"] = str(self.options.max_retries)
        return environment

    def follow_up(self, request: Request, session_id: str, text: str) -> bytes | None:  # noqa: ARG002 - of the Protocol
        return user_message(text) if self.reply == Reply.TOOL else None

    def interrupt(self) -> bytes:
        return interruption() if self.reply == Reply.TOOL else b""


def find_ralph_claude(options: AgentOptions, _env: Mapping[str, str]) -> ClaudeRunner:
    """Find the agent that comes with this ralph. It has no login, so it uses the API key."""
    if find_spec("anthropic") is None:
        raise BlockedError(
            "cannot use the agent ralph-claude: Anthropic's SDK is not installed",
            "in a clone of ralph: pip install '.[models]'; or use another agent: --agent claude",
        )
    own = replace(options.claude, auth="api-key")
    return ClaudeRunner(_COMMAND, own, own_or_words(options, CLAUDE_TRANSCRIPT), keeps_to_money=_has_price)


def _has_price(model: str) -> bool:
    """Tell whether it accepts a budget: it refuses one for a model without a known price."""
    if model.startswith("scripted:") or model.removesuffix("[1m]") in FAMILIES:
        return True
    return usage.shipped().price(model) is not None


def find_demo(options: AgentOptions, env: Mapping[str, str]) -> ClaudeRunner:
    """Find the same agent with a script as its model: it really edits and runs, but nothing in it thinks."""
    script = Path(env.get("RALPH_DEMO_SCRIPT", "").strip() or _shipped_script()).expanduser().absolute()
    if not script.is_file():
        raise UsageError(
            f"RALPH_DEMO_SCRIPT: {script} is not a file", "set it to a script, or unset it to use the built-in one"
        )
    if fault := _fault_in(script):
        raise UsageError(
            f"RALPH_DEMO_SCRIPT: cannot use {script}: {fault}",
            "a script is a list of sessions, a session a list of turns, a turn a list of content blocks with a type",
        )
    notice = f"the model is a script ({script.name}): it does the same for every goal, and costs nothing"
    transcript = own_or_words(options, CLAUDE_TRANSCRIPT)
    return ClaudeRunner(_COMMAND, options.claude, transcript, own_model=f"{SCRIPTED}{script}", notice=notice)


def _fault_in(script: Path) -> str:
    """Return what is wrong with a script; empty if nothing."""
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
    """Return the demo's script from the wheel, else from the checkout."""
    packaged = Path(__file__).parent.parent / "_demo" / "script.json"
    return packaged if packaged.is_file() else Path(__file__).parent.parent.parent / "examples" / "demo" / "script.json"
