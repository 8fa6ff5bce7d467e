"""The table of settings: one row for each key, from which files, flags, manifests and the reference page are read.

A new setting is a row here, a field of `Settings` where its value is kept, and the place that uses it. Which keys a
goal's front matter may hold is part of its format: `core.goal.KEYS`. This module is light: `ralph --version` reads it.
"""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from ralph.config import values
from ralph.core.text import parse_count, parse_duration, parse_money
from ralph.sandbox.policy import Network, SandboxMode

_PERMISSION_MODES = ("", "acceptEdits", "auto", "bypassPermissions", "default", "dontAsk", "plan")
_SANDBOXES = ("read-only", "workspace-write", "danger-full-access")
APPEND, REPLACE = "append", "replace"
"""What a system prompt of the user's does to the agent's own."""
_WORKER_TOOLS = "Read,Write,Edit,Glob,Grep,Bash,Skill,StructuredOutput"
_SYSTEM_PROMPT = "Whether that file is added to the agent's own system prompt (append) or replaces it (replace)."
_READING_TOOLS = "Read,Glob,Grep,StructuredOutput"


def _agent(raw: object) -> str:
    """Read the name of an agent."""
    from ralph.agents.base import OWN_TRANSCRIPTS, agent_names

    name = values.text(raw)
    return name if name in OWN_TRANSCRIPTS else values.Choice(*agent_names())(name)


def _fallback(raw: object) -> tuple[str, ...]:
    """Read agents in order, each as AGENT or AGENT:MODEL; `none` is no agent."""
    stand_ins = () if raw == "none" else values.names(raw)
    for each in stand_ins:
        name, colon, model = each.partition(":")
        if _agent(name) == "custom":
            raise ValueError("custom cannot be a fallback: name another agent, such as codex")
        if colon and not model.strip():
            raise ValueError(f"{each!r} has no model after the colon")
    return stand_ins


def _transcript(raw: object) -> str:
    """Read the name of a transcript."""
    from ralph.agents.base import AUTO, OWN_FORMATS, transcript_names

    name = values.text(raw)
    return name if name in {AUTO, *OWN_FORMATS} else values.Choice(AUTO, *transcript_names())(name)


Tightening = Callable[[object, object], object]


def _stricter_mode(before: object, wanted: object) -> object:
    """Take a stricter mode; the user's own command is as strict as the user wants, and never the repository's."""
    order = list(SandboxMode)
    if SandboxMode.COMMAND in (before, wanted):
        return before
    return min(before, wanted, key=lambda mode: order.index(SandboxMode(str(mode))))


def _stricter_network(before: object, wanted: object) -> object:
    return Network.NONE if Network.NONE in (before, wanted) else before


def _either(before: object, wanted: object) -> object:
    return bool(before) or bool(wanted)


def _all(before: object, wanted: object) -> object:
    return tuple(dict.fromkeys((*cast("tuple[str, ...]", before or ()), *cast("tuple[str, ...]", wanted or ()))))


def _least(before: object, wanted: object) -> object:
    return min((limit for limit in (before, wanted) if isinstance(limit, int)), default=None)


@dataclass(frozen=True, slots=True)
class SettingKey:
    """One setting: how its text is read, its default, who may set it, and where its value is kept."""

    parse: values.Parser
    help: str
    default: object = None
    at: str = ""
    """Its field in `Settings`, if that is not its own name."""
    guarded: bool = False
    """It runs code or concerns secrets, so a repository's own files cannot set it."""
    flags: tuple[str, ...] = ()
    """The commands with a flag for it; `add` stands for all that take goals into the queue, `work` for its workers."""
    metavar: str | None = None
    flag: str = ""
    """Its flag, if that has another name."""
    in_manifest: bool = False
    """A `batch.toml` may set it for a goal."""
    tightened: Tightening | None = None
    """A repository's own files may only make it stricter: gives what comes of the value so far and theirs."""

    @property
    def is_switch(self) -> bool:
        """Tell whether its flag takes no value."""
        return self.parse is values.switch


_SESSIONS = ("run", "understand", "plan", "pipe")
_GOALS = (*_SESSIONS, "add")
_COMMANDS = ("run", "understand", "pipe", "work")
_CONTAINED = (*_SESSIONS, "ask", "check", "work")

KEYS: Mapping[str, SettingKey] = {
    "agent": SettingKey(
        _agent,
        "The agent: claude, codex, custom, ralph-claude or demo.",
        "claude",
        flags=_GOALS,
        in_manifest=True,
    ),
    "agent_cmd": SettingKey(
        values.command,
        "Run this command as the agent; it reads the prompt from stdin, or from {prompt_file}.",
        at="agents.command",
        guarded=True,
        flags=_COMMANDS,
        metavar="CMD",
    ),
    "transcript": SettingKey(
        _transcript,
        "The format of the agent's output: auto, claude, codex, rtf1 or plain.",
        "auto",
        at="agents.transcript",
        flags=_COMMANDS,
        metavar="FORMAT",
    ),
    "model": SettingKey(values.word, "The model: an alias or a full name.", "sonnet", flags=_GOALS, in_manifest=True),
    "reasoning": SettingKey(
        values.reasoning,
        "How much it thinks: none, low, med or high.",
        "med",
        flags=_GOALS,
        metavar="LEVEL",
        in_manifest=True,
    ),
    "max_iterations": SettingKey(
        values.written(values.count_or_unlimited),
        "Stop a run after this many iterations; 0: no limit. The default applies only if you set no other limit.",
        50,
        at="limits.iterations",
        flags=("run", "add"),
        metavar="N",
        in_manifest=True,
    ),
    "duration": SettingKey(
        values.written(parse_duration),
        "Stop a run after this time (90s, 30m, 4h), counted from each start.",
        at="limits.duration",
        flags=("run", "plan", "pipe", "add"),
        metavar="TIME",
        in_manifest=True,
    ),
    "max_cost": SettingKey(
        values.written(parse_money),
        "Stop a run after spending this much.",
        at="limits.cost_usd",
        flags=("run", "plan", "pipe"),
        metavar="USD",
        in_manifest=True,
    ),
    "max_tokens": SettingKey(
        values.written(parse_count),
        "Stop a run after this many tokens.",
        at="limits.tokens",
        flags=("run", "plan", "pipe"),
        metavar="N",
        in_manifest=True,
    ),
    "max_iteration_cost": SettingKey(
        values.written(parse_money), "Stop a session that costs more (US dollars).", at="limits.iteration_cost_usd"
    ),
    "max_iteration_tokens": SettingKey(
        values.written(parse_count), "Stop a session that uses more tokens.", at="limits.iteration_tokens"
    ),
    "fallback": SettingKey(
        _fallback,
        "Agents that take over, in this order, while the quota of the one before is used up: AGENT or AGENT:MODEL.",
        "none",
        at="fallback.names",
    ),
    "fallback_after": SettingKey(
        values.written(parse_duration),
        "Wait for the quota instead of switching if it resets within this time.",
        "10m",
        at="fallback.after",
    ),
    "iteration_timeout": SettingKey(
        values.written(parse_duration),
        "Stop a session that takes longer.",
        "1h",
        flags=(*_SESSIONS, "work"),
        metavar="TIME",
    ),
    "idle_timeout": SettingKey(
        values.written(parse_duration),
        "Stop a session that is silent for this long.",
        "10m",
        flags=(*_SESSIONS, "work"),
        metavar="TIME",
    ),
    "check": SettingKey(
        values.word,
        "Verify DONE with this command instead of .ralph/check.",
        guarded=True,
        flags=("run",),
        metavar="CMD",
    ),
    "check_timeout": SettingKey(values.written(parse_duration), "Treat a check that takes longer as failed.", "30m"),
    "require_check": SettingKey(values.switch, "Refuse to run without a check.", False, flags=("run",)),
    "tests": SettingKey(
        values.tests,
        "What to do with a proof that needs changed tests: accept and report it (may-change), or refuse it (frozen).",
        "may-change",
        at="proof.tests",
    ),
    "protect": SettingKey(
        values.names, "Patterns of more files that the check relies on, as in .gitignore.", [], at="proof.protect"
    ),
    "baseline": SettingKey(
        values.switch, "Run the check on the base before the first session.", True, at="proof.baseline"
    ),
    "require_proof": SettingKey(
        values.switch,
        "Accept only a check that passes on a clean checkout; refuse to run where that is impossible.",
        False,
        at="proof.needs_commit",
        flags=("run",),
    ),
    "envrc_timeout": SettingKey(values.written(parse_duration), "Ignore a trusted .envrc that takes longer.", "30s"),
    "on_denial": SettingKey(
        values.Choice("stop", "continue"), "What to do when the agent may not use a tool: stop or continue.", "stop"
    ),
    "failures": SettingKey(values.written(parse_count), "Stop a run after this many failed sessions in a row.", 3),
    "stall_after": SettingKey(
        values.written(parse_count),
        "Nudge the agent after this many iterations without progress; stop after as many again.",
        3,
    ),
    "summary_every": SettingKey(
        values.written(values.count_or_zero),
        "Summarize older iterations after this many new ones; 0: never.",
        10,
        at="rhythm.every",
    ),
    "summary_keep": SettingKey(
        values.written(parse_count), "Quote this many of the latest iterations in full.", 5, at="rhythm.keep"
    ),
    "notify": SettingKey(
        values.program, "A command to run when a run or a goal needs you, or ends.", "none", guarded=True
    ),
    "bell": SettingKey(
        values.switch, "Ring the terminal's bell and show a notification there when a run or a batch ends.", True
    ),
    "db": SettingKey(
        values.word,
        "The queue: sqlite:///PATH or postgresql://...; by default a file in the state directory.",
        guarded=True,
        metavar="URL",
    ),
    "max": SettingKey(
        values.written(parse_count),
        "How many goals may run at once; the default is 2.",
        2,
        at="most_goals",
        guarded=True,
        metavar="N",
    ),
    "merge": SettingKey(
        values.Choice("direct", "pr", "branch", "none"),
        "Where proven work of a batch goes: direct, pr, branch or none. Unset: ralph asks once per repository.",
        guarded=True,
        flags=("add",),
        metavar="MODE",
    ),
    "modes.worker.tools": SettingKey(values.names, "The tools of a worker.", _WORKER_TOOLS, at="worker.tools"),
    "modes.worker.system_prompt_file": SettingKey(
        values.text, "A file with its system prompt.", "", at="worker.system_prompt_file"
    ),
    "modes.worker.system_prompt": SettingKey(
        values.Choice(APPEND, REPLACE), _SYSTEM_PROMPT, APPEND, at="worker.system_prompt"
    ),
    "modes.scout.tools": SettingKey(values.names, "The tools of `ralph understand`.", _READING_TOOLS, at="scout.tools"),
    "modes.scout.system_prompt_file": SettingKey(
        values.text, "A file with its system prompt.", "", at="scout.system_prompt_file"
    ),
    "modes.scout.system_prompt": SettingKey(
        values.Choice(APPEND, REPLACE), _SYSTEM_PROMPT, APPEND, at="scout.system_prompt"
    ),
    "modes.planner.tools": SettingKey(values.names, "The tools of `ralph plan`.", _READING_TOOLS, at="planner.tools"),
    "modes.planner.system_prompt_file": SettingKey(
        values.text, "A file with its system prompt.", "", at="planner.system_prompt_file"
    ),
    "modes.planner.system_prompt": SettingKey(
        values.Choice(APPEND, REPLACE), _SYSTEM_PROMPT, APPEND, at="planner.system_prompt"
    ),
    "modes.summarizer.model": SettingKey(
        values.word,
        "The model that writes summaries; agents other than claude use their own.",
        "haiku",
        at="summarizer.model",
    ),
    "modes.summarizer.reasoning": SettingKey(
        values.reasoning, "How much it thinks: none, low, med or high.", "high", at="summarizer.reasoning"
    ),
    "modes.summarizer.tools": SettingKey(values.names, "Its tools.", _READING_TOOLS, at="summarizer.tools"),
    "agents.claude.path": SettingKey(values.text, "The program, unless it is `claude` on PATH.", "", guarded=True),
    "agents.claude.permission_mode": SettingKey(
        values.Choice(*_PERMISSION_MODES), "Its permission mode; if empty, ralph approves the tools.", "", guarded=True
    ),
    "agents.claude.auth": SettingKey(
        values.Choice("login", "api-key"),
        "Who pays: your login, or the API key in the environment.",
        "login",
        guarded=True,
    ),
    "agents.claude.project_settings": SettingKey(
        values.switch, "Use the repository's .claude/settings.json, hooks and MCP servers.", True
    ),
    "agents.claude.max_retries": SettingKey(
        values.written(values.count_or_zero), "How many times it retries a failed request.", 3
    ),
    "agents.claude.extra_args": SettingKey(values.list_of(shlex.split), "More arguments for it.", [], guarded=True),
    "agents.codex.path": SettingKey(values.text, "The program, unless it is `codex` on PATH.", "", guarded=True),
    "agents.codex.sandbox": SettingKey(
        values.Choice(*_SANDBOXES),
        f"Its sandbox: {', '.join(_SANDBOXES)}.",
        "workspace-write",
        guarded=True,
    ),
    "agents.codex.extra_args": SettingKey(values.list_of(shlex.split), "More arguments for it.", [], guarded=True),
    "sandbox.mode": SettingKey(
        values.Choice(*SandboxMode, kind=SandboxMode),
        "What contains agents, checks and set-up scripts: auto or strict (bubblewrap), command (yours), none.",
        "none",
        flags=_CONTAINED,
        metavar="MODE",
        flag="--sandbox",
        tightened=_stricter_mode,
    ),
    "sandbox.required": SettingKey(
        values.switch,
        "Refuse to start without a sandbox (exit 6).",
        False,
        flags=_CONTAINED,
        flag="--require-sandbox",
        tightened=_either,
    ),
    "sandbox.command": SettingKey(
        values.text,
        "Your own sandbox, for the mode command: words to start it with, and {cmd} where the command goes.",
        "",
        guarded=True,
    ),
    "sandbox.network": SettingKey(
        values.Choice(*Network, kind=Network),
        "What bubblewrap lets through: host (everything) or none.",
        "host",
        tightened=_stricter_network,
    ),
    "sandbox.bind": SettingKey(
        values.paths, "More paths to show, writable unless they end in `:ro`.", [], guarded=True
    ),
    "sandbox.hide": SettingKey(values.paths, "More paths to hide.", [], tightened=_all),
    "sandbox.env": SettingKey(
        values.names,
        "Variables to pass on although their names look like secrets; `AWS_*` is a pattern.",
        [],
        guarded=True,
    ),
    "sandbox.processes": SettingKey(
        values.written(values.or_none(parse_count)),
        "How many processes and threads there may be; 0: no limit.",
        8192,
        tightened=_least,
    ),
    "sandbox.memory": SettingKey(
        values.written(values.or_none(values.size)),
        "How much memory one process may reserve, such as 8G.",
        tightened=_least,
    ),
    "sandbox.file_size": SettingKey(
        values.written(values.or_none(values.size)), "How large one file may become, such as 10G.", tightened=_least
    ),
    "provider.claude-code.max_turns": SettingKey(
        values.written(parse_count),
        "How many turns claude may take to answer.",
        10,
        at="ask.max_turns",
        flags=("ask",),
        metavar="N",
        flag="--max-turns",
    ),
    "provider.claude-code.allowed_tools": SettingKey(
        values.names,
        "The tools that claude may use, without asking.",
        "Bash,Read,Write,Edit",
        at="ask.allowed_tools",
        flags=("ask",),
        metavar="LIST",
        flag="--allowed-tools",
    ),
    "provider.claude-code.timeout_secs": SettingKey(
        values.written(values.seconds),
        "Give up after this time: 90s, 10m, 1h; a plain number is seconds.",
        600,
        at="ask.timeout",
        flags=("ask",),
        metavar="TIME",
        flag="--timeout",
    ),
}

MANIFEST = tuple(name for name, key in KEYS.items() if key.in_manifest)
"""Settings of a run that a `batch.toml` may set for a goal."""


def variable(name: str) -> str:
    """The environment variable of a setting."""
    return "RALPH_" + name.upper().replace(".", "_").replace("-", "_")


def flag(name: str) -> str:
    """Return the flag of a setting, or of a parameter that is none."""
    key = KEYS.get(name)
    return (key.flag if key else "") or f"--{name.replace('_', '-')}"


def choices_of(name: str) -> Sequence[str]:
    """The words that a setting takes, if it takes only some."""
    from ralph.agents.base import AUTO, agent_names, transcript_names
    from ralph.core.limits import Reasoning

    words: Mapping[values.Parser, Callable[[], Sequence[str]]] = {
        _agent: agent_names,
        _transcript: lambda: [AUTO, *transcript_names()],
        values.reasoning: lambda: list(Reasoning),
    }
    parse = KEYS[name].parse
    return [word for word in parse.words if word] if isinstance(parse, values.Choice) else words.get(parse, list[str])()
