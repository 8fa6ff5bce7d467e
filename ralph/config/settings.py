"""All sources of settings, folded into one frozen `Settings` that knows where each value came from.

The only module that makes settings of the environment, `.env` and TOML files, and the one that writes those.
"""

import io
import logging
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import dotenv

from ralph.agents import registry
from ralph.agents.base import (
    AUTO,
    OWN_TRANSCRIPTS,
    PERMISSION_MODES,
    SANDBOXES,
    SCOUT_TOOLS,
    SCRIPTED,
    SUMMARIZER_TOOLS,
    WORKER_TOOLS,
    AgentOptions,
    ClaudeOptions,
    CodexOptions,
)
from ralph.agents.registry import AGENTS, TRANSCRIPTS
from ralph.config import files
from ralph.config.paths import project_config, user_config
from ralph.core.errors import UsageError
from ralph.core.limits import Limits, Reasoning
from ralph.core.summary import Rhythm
from ralph.core.text import did_you_mean, parse_count, parse_duration, parse_money

DEFAULT = "default"

_MOST_QUOTED = 100
"""Iterations that a prompt may quote; a quote has up to 4,000 characters, and a usual context no room for more."""

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
    words = (
        ()
        if raw == "none"
        else cast("tuple[str, ...]", _list(shlex.split)(_command(raw) if isinstance(raw, str) else raw))
    )
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


def _choice(*choices: str) -> Parser:
    words = [str(choice) for choice in choices]

    def parser(raw: object) -> str:
        word = _text(raw)
        if word not in words:
            raise ValueError(f"{word!r} is not one of {', '.join(filter(None, words))}{did_you_mean(word, words)}")
        return word

    return parser


def _registered(ours: Collection[str], every: Callable[[], list[str]]) -> Parser:
    """A name of ours, or, looked for only then, one that another package has registered."""

    def parser(raw: object) -> str:
        word = _text(raw)
        return word if word in ours else cast("str", _choice(*every())(word))

    return parser


def _flag(raw: object) -> bool:
    if isinstance(raw, bool):
        return raw
    words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    if str(raw).strip().lower() not in words:
        raise ValueError(f"{raw!r} is neither true nor false")
    return words[str(raw).strip().lower()]


def _list(split: Callable[[str], Sequence[str]]) -> Parser:
    def parser(raw: object) -> tuple[str, ...]:
        items = list(split(raw)) if isinstance(raw, str) else raw
        if not isinstance(items, list) or not all(isinstance(item, str) for item in cast("list[object]", items)):
            raise ValueError(f"{raw!r} is not a list of words")
        return tuple(item.strip() for item in cast("list[str]", items) if item.strip())

    return parser


@dataclass(frozen=True, slots=True)
class SettingKey:
    """One setting: how its text is read, what it is unless said, and whether a repository may set it."""

    parse: Parser
    default: object = None
    guarded: bool = False
    """It runs code or concerns secrets: a repository's own files do not decide it."""


KEYS: Mapping[str, SettingKey] = {
    "agent": SettingKey(_registered(AGENTS, registry.agent_names), "claude"),
    "agent_cmd": SettingKey(_command, guarded=True),
    "transcript": SettingKey(_registered({AUTO, *TRANSCRIPTS}, lambda: [AUTO, *registry.transcript_names()]), AUTO),
    "model": SettingKey(_word, "sonnet"),
    "reasoning": SettingKey(_choice(*Reasoning), "med"),
    "max_iterations": SettingKey(_written(parse_count)),
    "duration": SettingKey(_written(parse_duration)),
    "max_cost": SettingKey(_written(parse_money)),
    "max_tokens": SettingKey(_written(parse_count)),
    "max_iteration_cost": SettingKey(_written(parse_money)),
    "max_iteration_tokens": SettingKey(_written(parse_count)),
    "iteration_timeout": SettingKey(_written(parse_duration), "1h"),
    "idle_timeout": SettingKey(_written(parse_duration), "10m"),
    "check": SettingKey(_word, guarded=True),
    "check_timeout": SettingKey(_written(parse_duration), "30m"),
    "require_check": SettingKey(_flag, False),
    "envrc_timeout": SettingKey(_written(parse_duration), "30s"),
    "on_denial": SettingKey(_choice("stop", "continue"), "stop"),
    "failures": SettingKey(_written(parse_count), 3),
    "stall_after": SettingKey(_written(parse_count), 3),
    "summary_every": SettingKey(_written(_count_or_zero), 10),
    "summary_keep": SettingKey(_written(parse_count), 5),
    "notify": SettingKey(_program, "none", guarded=True),
    "db": SettingKey(_word, guarded=True),
    "max": SettingKey(_written(parse_count), 2, guarded=True),
    "modes.worker.tools": SettingKey(_list(lambda text: text.split(",")), WORKER_TOOLS),
    "modes.worker.system_prompt_file": SettingKey(_text, ""),
    "modes.scout.tools": SettingKey(_list(lambda text: text.split(",")), SCOUT_TOOLS),
    "modes.scout.system_prompt_file": SettingKey(_text, ""),
    "modes.summarizer.model": SettingKey(_word, "haiku"),
    "modes.summarizer.reasoning": SettingKey(_choice(*Reasoning), "high"),
    "modes.summarizer.tools": SettingKey(_list(lambda text: text.split(",")), SUMMARIZER_TOOLS),
    "agents.claude.path": SettingKey(_text, "", guarded=True),
    "agents.claude.permission_mode": SettingKey(_choice(*PERMISSION_MODES), "", guarded=True),
    "agents.claude.auth": SettingKey(_choice("login", "api-key"), "login", guarded=True),
    "agents.claude.project_settings": SettingKey(_flag, True),
    "agents.claude.max_retries": SettingKey(_written(_count_or_zero), 3),
    "agents.claude.extra_args": SettingKey(_list(shlex.split), [], guarded=True),
    "agents.codex.path": SettingKey(_text, "", guarded=True),
    "agents.codex.sandbox": SettingKey(_choice(*SANDBOXES), "workspace-write", guarded=True),
    "agents.codex.extra_args": SettingKey(_list(shlex.split), [], guarded=True),
}


@dataclass(frozen=True, slots=True)
class Value:
    """A setting as it was written, as it was read, and where it stood."""

    written: object
    value: object
    source: str


@dataclass(frozen=True, slots=True)
class Mode:
    """What a kind of session is given besides its prompt; without a model or reasoning of its own, the run's."""

    tools: tuple[str, ...]
    system_prompt_file: str = ""
    model: str = ""
    reasoning: Reasoning | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """Every value in force."""

    agent: str
    model: str
    reasoning: Reasoning
    limits: Limits
    iteration_timeout: float
    idle_timeout: float
    check: str | None
    check_timeout: float
    require_check: bool
    envrc_timeout: float
    on_denial: str
    failures: int
    stall_after: int
    worker: Mode
    scout: Mode
    summarizer: Mode
    rhythm: Rhythm
    agents: AgentOptions
    notify: tuple[str, ...]
    """The command that is told what someone who is away wants to know; empty without one."""
    values: Mapping[str, Value]
    notes: tuple[str, ...] = ()

    def said_in(self, source: str) -> dict[str, str]:
        """What a source says, as far as nothing counts more."""
        return {name: str(value.written) for name, value in self.values.items() if value.source == source}

    @property
    def transcript(self) -> str:
        """The transcript in force; what `auto` means for an agent of another package, only that knows."""
        return self.agents.transcript_or(OWN_TRANSCRIPTS.get(self.agent, "its own"))


@dataclass(frozen=True, slots=True)
class SettingSource:
    """One place where settings stand; `trusted` is the user's own word."""

    name: str
    entries: Mapping[str, object]
    trusted: bool = True


@dataclass(slots=True)
class _Collected:
    """What the sources say, and what is wrong with it; one fault does not hide another."""

    values: dict[str, Value] = field(default_factory=dict[str, Value])
    faults: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])
    sources: list[str] = field(default_factory=list[str])

    def later(self, one: Value, other: Value) -> bool:
        """Tell whether one value's source counts more than the other's."""
        return self.sources.index(one.source) > self.sources.index(other.source)

    def add(self, source: SettingSource) -> None:
        self.sources.append(source.name)
        for name, written in source.entries.items():
            key = KEYS.get(name)
            if key is None:
                self.faults.append(f"{source.name}: unknown key {name}" + did_you_mean(name, KEYS))
            elif key.guarded and not source.trusted:
                self.notes.append(
                    f"{source.name}: {name} ignored: a repository does not decide it; `ralph config set {name} …` does"
                )
            else:
                try:
                    self.values[name] = Value(written, key.parse(written), source.name)
                except ValueError as fault:
                    where = f"--{name.replace('_', '-')}" if source.name == "flag" else f"{source.name}: {name}"
                    self.faults.append(f"{where}: {fault}")


DOTENV = "RALPH_DOTENV"
"""`no`: what stands in a repository's `.env` is not heeded."""


def load(
    *,
    env: Mapping[str, str],
    root: Path | None = None,
    flags: Mapping[str, object] | None = None,
    front_matter: Mapping[str, object] | None = None,
    goal: Path | None = None,
) -> Settings:
    """Fold all sources, weakest first, or name every fault at once."""
    collected = _Collected()
    collected.add(SettingSource(DEFAULT, {name: key.default for name, key in KEYS.items() if key.default is not None}))
    _add_toml(collected, user_config(), trusted=True)
    if root is not None:
        _add_toml(collected, project_config(root), trusted=False)
        if env.get(DOTENV) != "no":
            own = _from_environment(_dotenv(root / ".env", collected))
            collected.add(SettingSource(str(root / ".env"), own, trusted=False))
    wanted = {name: value for name, value in (front_matter or {}).items() if name in KEYS}
    collected.add(SettingSource(str(goal or "goal"), wanted))
    collected.add(SettingSource("environment", _from_environment(env)))
    collected.add(SettingSource("flag", flags or {}))
    _settle_agent(collected)
    _settle_summaries(collected)
    if collected.faults:
        raise UsageError(
            "invalid settings:\n" + "\n".join(f"  {fault}" for fault in collected.faults),
            "`ralph config` lists every key",
        )
    return _settings(collected)


def _settle_agent(collected: _Collected) -> None:
    """A command that is named where, or later than, the agent is, is the agent; and only claude's has a usual model."""
    agent, command = collected.values.get("agent"), collected.values.get("agent_cmd")
    if agent is None:
        return
    if command is not None and agent.value != "custom":
        if command.source == agent.source:
            collected.faults.append(f"{command.source}: agent_cmd is for the agent custom, not {agent.value}")
        elif collected.later(command, agent):
            collected.values["agent"] = agent = Value("custom", "custom", f"agent_cmd: {command.source}")
    model = collected.values.get("model")
    if OWN_TRANSCRIPTS.get(str(agent.value)) != "claude" and model is not None and model.source == DEFAULT:
        collected.values["model"] = Value("", "", f"{agent.value}'s own")


def _settle_summaries(collected: _Collected) -> None:
    """Give the summarizer the worker's model where claude's usual one does not exist; a script does not summarise."""
    agent, model, own, every, keep = (
        collected.values.get(name)
        for name in ("agent", "model", "modes.summarizer.model", "summary_every", "summary_keep")
    )
    if agent is None or model is None or own is None or every is None or keep is None:
        return
    scripted = agent.value == "demo" or str(model.value).startswith(SCRIPTED)
    if own.source == DEFAULT and (scripted or OWN_TRANSCRIPTS.get(str(agent.value)) != "claude"):
        collected.values["modes.summarizer.model"] = Value(model.written, model.value, "model")
        if scripted and every.source == DEFAULT:
            collected.values["summary_every"] = every = Value(0, 0, "the scripted model's")
    if (quoted := Rhythm(cast("int", every.value), cast("int", keep.value)).verbatim) > _MOST_QUOTED:
        collected.faults.append(
            f"summary_every + summary_keep: a prompt would quote {quoted} iterations, more than {_MOST_QUOTED};"
            " summary_every = 0 is never"
        )


def _settings(collected: _Collected) -> Settings:
    def get(name: str) -> object:
        return collected.values[name].value if name in collected.values else None

    def mode(name: str) -> Mode:
        tools = cast("tuple[str, ...]", get(f"modes.{name}.tools"))
        return Mode(tools, cast("str", get(f"modes.{name}.system_prompt_file")))

    return Settings(
        agent=cast("str", get("agent")),
        model=cast("str", get("model")),
        reasoning=Reasoning(cast("str", get("reasoning"))),
        limits=Limits(
            cast("int | None", get("max_iterations")),
            cast("float | None", get("duration")),
            cast("float | None", get("max_cost")),
            cast("int | None", get("max_tokens")),
            cast("float | None", get("max_iteration_cost")),
            cast("int | None", get("max_iteration_tokens")),
        ),
        iteration_timeout=cast("float", get("iteration_timeout")),
        idle_timeout=cast("float", get("idle_timeout")),
        check=cast("str | None", get("check")) or None,
        check_timeout=cast("float", get("check_timeout")),
        require_check=cast("bool", get("require_check")),
        envrc_timeout=cast("float", get("envrc_timeout")),
        on_denial=cast("str", get("on_denial")),
        failures=cast("int", get("failures")),
        stall_after=cast("int", get("stall_after")),
        worker=mode("worker"),
        scout=mode("scout"),
        summarizer=Mode(
            cast("tuple[str, ...]", get("modes.summarizer.tools")),
            model=cast("str", get("modes.summarizer.model")),
            reasoning=Reasoning(cast("str", get("modes.summarizer.reasoning"))),
        ),
        rhythm=Rhythm(cast("int", get("summary_every")), cast("int", get("summary_keep"))),
        agents=AgentOptions(
            claude=ClaudeOptions(
                path=cast("str", get("agents.claude.path")),
                permission_mode=cast("str", get("agents.claude.permission_mode")),
                auth=cast("str", get("agents.claude.auth")),
                project_settings=cast("bool", get("agents.claude.project_settings")),
                max_retries=cast("int", get("agents.claude.max_retries")),
                extra_args=cast("tuple[str, ...]", get("agents.claude.extra_args")),
            ),
            codex=CodexOptions(
                path=cast("str", get("agents.codex.path")),
                sandbox=cast("str", get("agents.codex.sandbox")),
                extra_args=cast("tuple[str, ...]", get("agents.codex.extra_args")),
            ),
            command=cast("str | None", get("agent_cmd")) or "",
            transcript=cast("str", get("transcript")),
        ),
        notify=cast("tuple[str, ...]", get("notify")),
        values=collected.values,
        notes=tuple(collected.notes),
    )


def _from_environment(env: Mapping[str, str]) -> dict[str, object]:
    """Pick the settings out of `RALPH_*` names; the empty text is no setting, as in most shells' habits."""
    names = {"RALPH_" + name.upper().replace(".", "_"): name for name in KEYS}
    return {names[variable]: value for variable, value in env.items() if variable in names and value.strip()}


def _dotenv(path: Path, collected: _Collected) -> dict[str, str]:
    try:
        content = path.read_text("utf-8", "replace")
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        collected.faults.append(f"{path}: cannot be read: {error.strerror}")
        return {}
    logging.getLogger("dotenv").setLevel(logging.CRITICAL)  # a line it cannot parse is not ours to complain about
    # Without interpolation: `.env` is data, and must not pull other variables of ours into a setting.
    values = dotenv.dotenv_values(stream=io.StringIO(content), interpolate=False)
    return {name: value for name, value in values.items() if value is not None}


def _add_toml(collected: _Collected, path: Path, *, trusted: bool) -> None:
    try:
        collected.add(SettingSource(str(path), files.read(path, KEYS), trusted))
    except UsageError as error:
        collected.faults.append(error.message)


def set_value(path: Path, name: str, written: str) -> str:
    """Write one setting into a TOML file; return a note about what was kept aside, if anything was."""
    key = KEYS.get(name)
    if key is None:
        raise UsageError(f"unknown key {name}" + did_you_mean(name, KEYS), "`ralph config` lists every key")
    try:
        value = key.parse(written)
    except ValueError as fault:
        raise UsageError(f"{name}: {fault}") from fault
    if isinstance(value, tuple):
        return files.put(path, name, list(cast("tuple[str, ...]", value)))
    return files.put(path, name, value if isinstance(value, bool | int) else written)
