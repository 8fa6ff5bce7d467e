"""The table of settings: one row for each key, from which files, flags, manifests and the reference page are read.

A new setting is a row here, a field of `Settings` where its value is kept, and the place that uses it. Which keys a
goal's front matter may hold is part of its format: `core.goal.KEYS`. This module is light: `ralph --version` reads it.
"""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from ralph.core.text import did_you_mean, parse_count, parse_duration, parse_money

if TYPE_CHECKING:  # they take 40 ms to import, and only a setting that is read needs them
    from ralph.core.limits import Reasoning

Parser = Callable[[object], object]


def _wrong(raw: object, wanted: str) -> ValueError:
    """Say what a value should be, and quote it as TOML and JSON write it."""
    match raw:
        case bool():
            shown = str(raw).lower()
        case dict():
            shown = "a table"
        case str() | list():
            shown = repr(cast("object", raw))
        case _:
            shown = str(raw)
    return ValueError(f"must be {wanted}, not {shown}")


_EMPTY = "must not be empty"


def _text(raw: object) -> str:
    if not isinstance(raw, str):
        raise _wrong(raw, "a string")
    return raw.strip()


def _word(raw: object) -> str:
    if not _text(raw):
        raise ValueError(_EMPTY)
    return _text(raw)


def _command(raw: object) -> str:
    text = _word(raw)
    try:
        words = shlex.split(text)
    except ValueError as fault:
        raise ValueError(f"cannot parse {raw!r}: {fault}") from fault
    if not words:
        raise ValueError(_EMPTY)
    return text


def _program(raw: object) -> tuple[str, ...]:
    """Read a command, a string or a list of words; `none` means no command.

    It runs in folders that an agent can write to, so a relative path could name the agent's own program.
    """
    words = () if raw == "none" else _list(shlex.split)(_command(raw) if isinstance(raw, str) else raw)
    if raw != "none" and not words:
        raise ValueError(f"{_EMPTY}; write `none` for no command")
    if words and "/" in words[0] and not words[0].startswith(("/", "~")):
        raise ValueError(f"{words[0]!r} is a relative path; write the full path")
    try:
        return (str(Path(words[0]).expanduser()), *words[1:]) if words else ()
    except RuntimeError as fault:  # ~nobody
        raise ValueError(str(fault)) from fault


def _written(parse: Callable[[str], object]) -> Parser:
    """Accept a number as if it were text; a bool is not a number."""

    def parser(raw: object) -> object:
        if isinstance(raw, bool) or not isinstance(raw, str | int | float):
            raise _wrong(raw, "a number or a string")
        return parse(str(raw))

    return parser


def _seconds(text: str) -> float:
    """Read a duration; a bare number is seconds."""
    return parse_duration(f"{text.strip()}s" if text.strip().isdecimal() else text)


def _count_or_zero(text: str) -> int:
    return 0 if text.strip() == "0" else parse_count(text)


def _count_or_unlimited(text: str) -> int | None:
    return _count_or_zero(text) or None


class _Choice:
    """Takes one of some words."""

    def __init__(self, *words: str) -> None:
        self.words = [str(word) for word in words]

    def __call__(self, raw: object) -> str:
        word = _text(raw)
        if word not in self.words:
            known = ", ".join(filter(None, self.words))
            raise ValueError(f"{word!r} is not one of {known}{did_you_mean(word, self.words)}")
        return word


def _agent(raw: object) -> str:
    from ralph.agents.base import OWN_TRANSCRIPTS, agent_names

    word = _text(raw)
    return word if word in OWN_TRANSCRIPTS else _Choice(*agent_names())(word)


def _fallback(raw: object) -> tuple[str, ...]:
    """Agents in order, each as AGENT or AGENT:MODEL; `none` is no agent."""
    written = () if raw == "none" else _names(raw)
    for each in written:
        agent, colon, model = each.partition(":")
        if _agent(agent) == "custom":
            raise ValueError("custom cannot stand in for another agent, only one that is known by its name")
        if colon and not model.strip():
            raise ValueError(f"{each!r} names no model after the colon")
    return written


def _transcript(raw: object) -> str:
    from ralph.agents.base import AUTO, OWN_FORMATS, transcript_names

    word = _text(raw)
    return word if word in {AUTO, *OWN_FORMATS} else _Choice(AUTO, *transcript_names())(word)


def _reasoning(raw: object) -> "Reasoning":
    from ralph.core.limits import Reasoning

    return Reasoning(_Choice(*Reasoning)(raw))


def _switch(raw: object) -> bool:
    if isinstance(raw, bool):
        return raw
    words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    if str(raw).strip().lower() not in words:
        raise _wrong(raw, "true or false")
    return words[str(raw).strip().lower()]


def _list(split: Callable[[str], Sequence[str]]) -> Callable[[object], tuple[str, ...]]:
    def parser(raw: object) -> tuple[str, ...]:
        items = list(split(raw)) if isinstance(raw, str) else raw
        if not isinstance(items, list) or not all(isinstance(item, str) for item in cast("list[object]", items)):
            raise _wrong(raw, "a string or a list of strings")
        return tuple(item.strip() for item in cast("list[str]", items) if item.strip())

    return parser


_names = _list(lambda text: text.split(","))
_PERMISSION_MODES = ("", "acceptEdits", "auto", "bypassPermissions", "default", "dontAsk", "plan")
_SANDBOXES = ("read-only", "workspace-write", "danger-full-access")
APPEND, REPLACE = "append", "replace"
"""What a system prompt of the user's does to the agent's own."""
_WORKER_TOOLS = "Read,Write,Edit,Glob,Grep,Bash,Skill,StructuredOutput"
_SYSTEM_PROMPT = "Whether that file is added to the agent's own system prompt (append) or replaces it (replace)."
_READING_TOOLS = "Read,Glob,Grep,StructuredOutput"


@dataclass(frozen=True, slots=True)
class SettingKey:
    """One setting: how its text is read, its default, who may set it, and where its value is kept."""

    parse: Parser
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

    @property
    def is_switch(self) -> bool:
        """Tell whether its flag takes no value."""
        return self.parse is _switch


_SESSIONS = ("run", "understand", "plan", "pipe")
_GOALS = (*_SESSIONS, "add")
_COMMANDS = ("run", "understand", "pipe", "work")

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
    "model": SettingKey(_word, "The model: an alias or a full name.", "sonnet", flags=_GOALS, in_manifest=True),
    "reasoning": SettingKey(
        _reasoning,
        "How much it thinks: none, low, med or high.",
        "med",
        flags=_GOALS,
        metavar="LEVEL",
        in_manifest=True,
    ),
    "max_iterations": SettingKey(
        _written(_count_or_unlimited),
        "Stop a run after this many iterations; 0: no limit. The default applies only if you set no other limit.",
        50,
        at="limits.iterations",
        flags=("run", "add"),
        metavar="N",
        in_manifest=True,
    ),
    "duration": SettingKey(
        _written(parse_duration),
        "Stop a run after this time (90s, 30m, 4h), counted from each start.",
        at="limits.duration",
        flags=("run", "plan", "pipe", "add"),
        metavar="TIME",
        in_manifest=True,
    ),
    "max_cost": SettingKey(
        _written(parse_money),
        "Stop a run after spending this much.",
        at="limits.cost_usd",
        flags=("run", "plan", "pipe"),
        metavar="USD",
        in_manifest=True,
    ),
    "max_tokens": SettingKey(
        _written(parse_count),
        "Stop a run after this many tokens.",
        at="limits.tokens",
        flags=("run", "plan", "pipe"),
        metavar="N",
        in_manifest=True,
    ),
    "max_iteration_cost": SettingKey(
        _written(parse_money), "Stop a session that costs more (US dollars).", at="limits.iteration_cost_usd"
    ),
    "max_iteration_tokens": SettingKey(
        _written(parse_count), "Stop a session that uses more tokens.", at="limits.iteration_tokens"
    ),
    "fallback": SettingKey(
        _fallback,
        "The agents that take over, in this order, while the quota of the one before is used up: AGENT or AGENT:MODEL.",
        "none",
        at="fallback.names",
    ),
    "fallback_after": SettingKey(_written(parse_duration), "Wait for a reset this near.", "10m", at="fallback.after"),
    "iteration_timeout": SettingKey(
        _written(parse_duration),
        "Stop a session that takes longer.",
        "1h",
        flags=(*_SESSIONS, "work"),
        metavar="TIME",
    ),
    "idle_timeout": SettingKey(
        _written(parse_duration),
        "Stop a session that is silent for this long.",
        "10m",
        flags=(*_SESSIONS, "work"),
        metavar="TIME",
    ),
    "check": SettingKey(
        _word, "Verify DONE with this command instead of .ralph/check.", guarded=True, flags=("run",), metavar="CMD"
    ),
    "check_timeout": SettingKey(_written(parse_duration), "Treat a check that takes longer as failed.", "30m"),
    "require_check": SettingKey(_switch, "Refuse to run without a check.", False, flags=("run",)),
    "envrc_timeout": SettingKey(_written(parse_duration), "Ignore a trusted .envrc that takes longer.", "30s"),
    "on_denial": SettingKey(
        _Choice("stop", "continue"), "What to do when the agent may not use a tool: stop or continue.", "stop"
    ),
    "failures": SettingKey(_written(parse_count), "Stop a run after this many failed sessions in a row.", 3),
    "stall_after": SettingKey(
        _written(parse_count),
        "Nudge the agent after this many iterations without progress; stop after as many again.",
        3,
    ),
    "summary_every": SettingKey(
        _written(_count_or_zero),
        "Summarize older iterations after this many new ones; 0: never.",
        10,
        at="rhythm.every",
    ),
    "summary_keep": SettingKey(
        _written(parse_count), "Quote this many of the latest iterations in full.", 5, at="rhythm.keep"
    ),
    "notify": SettingKey(_program, "A command to run when a run or a goal needs you, or ends.", "none", guarded=True),
    "bell": SettingKey(
        _switch, "Ring the terminal's bell and show a notification there when a run or a batch ends.", True
    ),
    "db": SettingKey(
        _word,
        "The queue: sqlite:///PATH or postgresql://...; by default a file in the state directory.",
        guarded=True,
        metavar="URL",
    ),
    "max": SettingKey(
        _written(parse_count),
        "How many goals may run at once; the default is 2.",
        2,
        at="most_goals",
        guarded=True,
        metavar="N",
    ),
    "merge": SettingKey(
        _Choice("direct", "pr", "branch", "none"),
        "Where proven work of a batch goes: direct, pr, branch or none. Unset: ralph asks once per repository.",
        guarded=True,
        flags=("add",),
        metavar="MODE",
    ),
    "modes.worker.tools": SettingKey(_names, "The tools of a worker.", _WORKER_TOOLS, at="worker.tools"),
    "modes.worker.system_prompt_file": SettingKey(
        _text, "A file with its system prompt.", "", at="worker.system_prompt_file"
    ),
    "modes.worker.system_prompt": SettingKey(
        _Choice(APPEND, REPLACE), _SYSTEM_PROMPT, APPEND, at="worker.system_prompt"
    ),
    "modes.scout.tools": SettingKey(_names, "The tools of `ralph understand`.", _READING_TOOLS, at="scout.tools"),
    "modes.scout.system_prompt_file": SettingKey(
        _text, "A file with its system prompt.", "", at="scout.system_prompt_file"
    ),
    "modes.scout.system_prompt": SettingKey(_Choice(APPEND, REPLACE), _SYSTEM_PROMPT, APPEND, at="scout.system_prompt"),
    "modes.planner.tools": SettingKey(_names, "The tools of `ralph plan`.", _READING_TOOLS, at="planner.tools"),
    "modes.planner.system_prompt_file": SettingKey(
        _text, "A file with its system prompt.", "", at="planner.system_prompt_file"
    ),
    "modes.planner.system_prompt": SettingKey(
        _Choice(APPEND, REPLACE), _SYSTEM_PROMPT, APPEND, at="planner.system_prompt"
    ),
    "modes.summarizer.model": SettingKey(
        _word,
        "The model that writes summaries; agents other than claude use their own.",
        "haiku",
        at="summarizer.model",
    ),
    "modes.summarizer.reasoning": SettingKey(
        _reasoning, "How much it thinks: none, low, med or high.", "high", at="summarizer.reasoning"
    ),
    "modes.summarizer.tools": SettingKey(_names, "Its tools.", _READING_TOOLS, at="summarizer.tools"),
    "agents.claude.path": SettingKey(_text, "The program, unless it is `claude` on PATH.", "", guarded=True),
    "agents.claude.permission_mode": SettingKey(
        _Choice(*_PERMISSION_MODES), "Its permission mode; if empty, ralph approves the tools.", "", guarded=True
    ),
    "agents.claude.auth": SettingKey(
        _Choice("login", "api-key"), "Who pays: your login, or the API key in the environment.", "login", guarded=True
    ),
    "agents.claude.project_settings": SettingKey(
        _switch, "Use the repository's .claude/settings.json, hooks and MCP servers.", True
    ),
    "agents.claude.max_retries": SettingKey(_written(_count_or_zero), "How many times it retries a failed request.", 3),
    "agents.claude.extra_args": SettingKey(_list(shlex.split), "More arguments for it.", [], guarded=True),
    "agents.codex.path": SettingKey(_text, "The program, unless it is `codex` on PATH.", "", guarded=True),
    "agents.codex.sandbox": SettingKey(
        _Choice(*_SANDBOXES),
        f"Its sandbox: {', '.join(_SANDBOXES)}.",
        "workspace-write",
        guarded=True,
    ),
    "agents.codex.extra_args": SettingKey(_list(shlex.split), "More arguments for it.", [], guarded=True),
    "provider.claude-code.max_turns": SettingKey(
        _written(parse_count),
        "How many turns claude may take to answer.",
        10,
        at="ask.max_turns",
        flags=("ask",),
        metavar="N",
        flag="--max-turns",
    ),
    "provider.claude-code.allowed_tools": SettingKey(
        _names,
        "The tools that claude may use, without asking.",
        "Bash,Read,Write,Edit",
        at="ask.allowed_tools",
        flags=("ask",),
        metavar="LIST",
        flag="--allowed-tools",
    ),
    "provider.claude-code.timeout_secs": SettingKey(
        _written(_seconds),
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
    """The flag of a setting."""
    return KEYS[name].flag or f"--{name.replace('_', '-')}"


def choices_of(name: str) -> Sequence[str]:
    """The words that a setting takes, if it takes only some."""
    from ralph.agents.base import AUTO, agent_names, transcript_names
    from ralph.core.limits import Reasoning

    words: Mapping[Parser, Callable[[], Sequence[str]]] = {
        _agent: agent_names,
        _transcript: lambda: [AUTO, *transcript_names()],
        _reasoning: lambda: list(Reasoning),
    }
    parse = KEYS[name].parse
    return [word for word in parse.words if word] if isinstance(parse, _Choice) else words.get(parse, list[str])()
