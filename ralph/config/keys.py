"""The table of settings: one row for each key, from which files, flags, manifests and the reference page are read.

A new setting is a row here, a field of `Settings` where its value is kept, and the place that uses it. Which keys a
goal's front matter may hold is part of its format: `core.goal.KEYS`. This module is light: `ralph --version` reads it.
"""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from ralph.agents.base import AUTO, OWN_FORMATS, OWN_TRANSCRIPTS, agent_names, transcript_names
from ralph.core.limits import Reasoning
from ralph.core.text import did_you_mean, parse_count, parse_duration, parse_money

Parser = Callable[[object], object]


def _text(raw: object) -> str:
    if not isinstance(raw, str):
        raise ValueError(f"{raw!r} is not text")
    return raw.strip()


def _word(raw: object) -> str:
    if not _text(raw):
        raise ValueError("it is empty")
    return _text(raw)


def _command(raw: object) -> str:
    try:
        words = shlex.split(_word(raw))
    except ValueError as fault:
        raise ValueError(f"{raw!r} cannot be split into words: {fault}") from fault
    if not words:
        raise ValueError("it is empty")
    return _word(raw)


def _program(raw: object) -> tuple[str, ...]:
    """A command as text or as a list of words; `none` is nobody. It runs wherever an agent may have written."""
    words = () if raw == "none" else _list(shlex.split)(_command(raw) if isinstance(raw, str) else raw)
    if raw != "none" and not words:
        raise ValueError("it is empty; `none` is nobody")
    if words and "/" in words[0] and not words[0].startswith(("/", "~")):
        raise ValueError(f"{words[0]!r} depends on where ralph stands: write the path in full")
    try:
        return (str(Path(words[0]).expanduser()), *words[1:]) if words else ()
    except RuntimeError as fault:  # ~nobody
        raise ValueError(str(fault)) from fault


def _written(parse: Callable[[str], object]) -> Parser:
    """Accept a number as if it had been written as text; a bool is no number."""

    def parser(raw: object) -> object:
        if isinstance(raw, bool) or not isinstance(raw, str | int | float):
            raise ValueError(f"{raw!r} is not a plain value")
        return parse(str(raw))

    return parser


def _count_or_zero(text: str) -> int:
    return 0 if text.strip() == "0" else parse_count(text)


def _choice(*choices: str) -> Callable[[object], str]:
    words = [str(choice) for choice in choices]

    def parser(raw: object) -> str:
        word = _text(raw)
        if word not in words:
            raise ValueError(f"{word!r} is not one of {', '.join(filter(None, words))}{did_you_mean(word, words)}")
        return word

    return parser


def _agent(raw: object) -> str:
    word = _text(raw)
    return word if word in OWN_TRANSCRIPTS else _choice(*agent_names())(word)


def _transcript(raw: object) -> str:
    word = _text(raw)
    return word if word in {AUTO, *OWN_FORMATS} else _choice(AUTO, *transcript_names())(word)


def _reasoning(raw: object) -> Reasoning:
    return Reasoning(_choice(*Reasoning)(raw))


def _switch(raw: object) -> bool:
    if isinstance(raw, bool):
        return raw
    words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    if str(raw).strip().lower() not in words:
        raise ValueError(f"{raw!r} is neither true nor false")
    return words[str(raw).strip().lower()]


def _list(split: Callable[[str], Sequence[str]]) -> Callable[[object], tuple[str, ...]]:
    def parser(raw: object) -> tuple[str, ...]:
        items = list(split(raw)) if isinstance(raw, str) else raw
        if not isinstance(items, list) or not all(isinstance(item, str) for item in cast("list[object]", items)):
            raise ValueError(f"{raw!r} is not a list of words")
        return tuple(item.strip() for item in cast("list[str]", items) if item.strip())

    return parser


_names = _list(lambda text: text.split(","))
_PERMISSION_MODES = ("", "acceptEdits", "auto", "bypassPermissions", "default", "dontAsk", "plan")
_SANDBOXES = ("read-only", "workspace-write", "danger-full-access")
_WORKER_TOOLS = "Read,Write,Edit,Glob,Grep,Bash,Skill,StructuredOutput"
_READING_TOOLS = "Read,Glob,Grep,StructuredOutput"


@dataclass(frozen=True, slots=True)
class SettingKey:
    """One setting: how its text is read, what it is unless said, who may set it, and where its value is kept."""

    parse: Parser
    help: str
    default: object = None
    at: str = ""
    """Its field in `Settings`, where that is not its own name."""
    guarded: bool = False
    """It runs code or concerns secrets: a repository's own files do not decide it."""
    flags: tuple[str, ...] = ()
    """The commands with a flag for it; `add` stands for every command that takes goals into the queue."""
    metavar: str | None = None
    in_manifest: bool = False
    """A `batch.toml` may say it of a goal."""

    @property
    def is_switch(self) -> bool:
        """Tell whether its flag takes no value."""
        return self.parse is _switch


_SESSIONS = ("run", "understand")
_GOALS = ("run", "understand", "add")

KEYS: Mapping[str, SettingKey] = {
    "agent": SettingKey(
        _agent,
        "The agent: claude, codex, custom, ralph-claude or demo.",
        "claude",
        flags=_GOALS,
        in_manifest=True,
    ),
    "agent_cmd": SettingKey(
        _command,
        "The agent is this command; it reads the prompt on stdin, or {prompt_file}.",
        at="agents.command",
        guarded=True,
        flags=_SESSIONS,
        metavar="CMD",
    ),
    "transcript": SettingKey(
        _transcript,
        "How its output is read: auto, claude, codex, rtf1 or plain.",
        AUTO,
        at="agents.transcript",
        flags=_SESSIONS,
    ),
    "model": SettingKey(_word, "The model, by alias or full name.", "sonnet", flags=_GOALS, in_manifest=True),
    "reasoning": SettingKey(
        _reasoning, "How much it thinks: none, low, med or high.", "med", flags=_GOALS, in_manifest=True
    ),
    "max_iterations": SettingKey(
        _written(parse_count),
        "End a run after so many iterations.",
        at="limits.iterations",
        flags=("run", "add"),
        metavar="N",
        in_manifest=True,
    ),
    "duration": SettingKey(
        _written(parse_duration),
        "End a run after so long (90s, 30m, 4h), counted from each start.",
        at="limits.duration",
        flags=("run", "add"),
        metavar="TIME",
        in_manifest=True,
    ),
    "max_cost": SettingKey(
        _written(parse_money),
        "End a run when so much is spent.",
        at="limits.cost_usd",
        flags=("run",),
        metavar="USD",
        in_manifest=True,
    ),
    "max_tokens": SettingKey(
        _written(parse_count),
        "End a run when so many tokens are used.",
        at="limits.tokens",
        flags=("run",),
        metavar="N",
        in_manifest=True,
    ),
    "max_iteration_cost": SettingKey(
        _written(parse_money), "End a session that costs more (US dollars).", at="limits.iteration_cost_usd"
    ),
    "max_iteration_tokens": SettingKey(
        _written(parse_count), "End a session that uses more tokens.", at="limits.iteration_tokens"
    ),
    "iteration_timeout": SettingKey(
        _written(parse_duration), "End a session that takes longer.", "1h", flags=_SESSIONS, metavar="TIME"
    ),
    "idle_timeout": SettingKey(
        _written(parse_duration), "End a session that is silent for so long.", "10m", flags=_SESSIONS, metavar="TIME"
    ),
    "check": SettingKey(
        _word, "Prove DONE with this command instead of .ralph/check.", guarded=True, flags=("run",), metavar="CMD"
    ),
    "check_timeout": SettingKey(_written(parse_duration), "Call a check red that takes longer.", "30m"),
    "require_check": SettingKey(_switch, "Refuse to run without a check.", False, flags=("run",)),
    "envrc_timeout": SettingKey(_written(parse_duration), "Do without a trusted .envrc that takes longer.", "30s"),
    "on_denial": SettingKey(
        _choice("stop", "continue"), "What to do when the agent is denied a tool: stop or continue.", "stop"
    ),
    "failures": SettingKey(_written(parse_count), "End a run after so many failed sessions in a row.", 3),
    "stall_after": SettingKey(
        _written(parse_count), "Nudge the agent after so many iterations without progress; end after as many again.", 3
    ),
    "summary_every": SettingKey(
        _written(_count_or_zero), "Iterations between summaries of the older ones; 0 is never.", 10, at="rhythm.every"
    ),
    "summary_keep": SettingKey(
        _written(parse_count), "The latest iterations, which a summary leaves out.", 5, at="rhythm.keep"
    ),
    "notify": SettingKey(
        _program, "The command that is told when a run or goal needs you, or ends.", "none", guarded=True
    ),
    "db": SettingKey(
        _word,
        "The queue: sqlite:///PATH or postgresql://...; a file of ralph's own unless said.",
        guarded=True,
        metavar="URL",
    ),
    "max": SettingKey(
        _written(parse_count),
        "How many goals may run at once; 2 unless set.",
        2,
        at="most_goals",
        guarded=True,
        metavar="N",
    ),
    "modes.worker.tools": SettingKey(_names, "The tools of a worker.", _WORKER_TOOLS, at="worker.tools"),
    "modes.worker.system_prompt_file": SettingKey(
        _text, "A file with its system prompt.", "", at="worker.system_prompt_file"
    ),
    "modes.scout.tools": SettingKey(_names, "The tools of `ralph understand`.", _READING_TOOLS, at="scout.tools"),
    "modes.scout.system_prompt_file": SettingKey(
        _text, "A file with its system prompt.", "", at="scout.system_prompt_file"
    ),
    "modes.summarizer.model": SettingKey(
        _word, "The model that writes summaries; another agent's own.", "haiku", at="summarizer.model"
    ),
    "modes.summarizer.reasoning": SettingKey(
        _reasoning, "How much it thinks: none, low, med or high.", "high", at="summarizer.reasoning"
    ),
    "modes.summarizer.tools": SettingKey(_names, "Its tools.", _READING_TOOLS, at="summarizer.tools"),
    "agents.claude.path": SettingKey(_text, "The program, unless it is `claude` on PATH.", "", guarded=True),
    "agents.claude.permission_mode": SettingKey(
        _choice(*_PERMISSION_MODES), "Its permission mode; without one the tools are approved.", "", guarded=True
    ),
    "agents.claude.auth": SettingKey(
        _choice("login", "api-key"), "Who pays: your login, or the API key in the environment.", "login", guarded=True
    ),
    "agents.claude.project_settings": SettingKey(
        _switch, "Use the repository's .claude/settings.json, hooks and MCP servers.", True
    ),
    "agents.claude.max_retries": SettingKey(_written(_count_or_zero), "How often it retries a failed request.", 3),
    "agents.claude.extra_args": SettingKey(_list(shlex.split), "More arguments for it.", [], guarded=True),
    "agents.codex.path": SettingKey(_text, "The program, unless it is `codex` on PATH.", "", guarded=True),
    "agents.codex.sandbox": SettingKey(
        _choice(*_SANDBOXES),
        f"Its sandbox: {', '.join(_SANDBOXES)}.",
        "workspace-write",
        guarded=True,
    ),
    "agents.codex.extra_args": SettingKey(_list(shlex.split), "More arguments for it.", [], guarded=True),
}

MANIFEST = tuple(name for name, key in KEYS.items() if key.in_manifest)
"""Settings of a run that a `batch.toml` may say of a goal."""


def variable(name: str) -> str:
    """The environment variable of a setting."""
    return "RALPH_" + name.upper().replace(".", "_")


def flag(name: str) -> str:
    """The flag of a setting."""
    return f"--{name.replace('_', '-')}"
