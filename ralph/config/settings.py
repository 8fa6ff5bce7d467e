"""All sources of settings, folded into one frozen `Settings` that knows where each value came from.

The only module that makes settings of the environment, `.env` and TOML files, and the one that writes those.
"""

import io
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import dotenv

from ralph.agents.base import OWN_TRANSCRIPTS, SCRIPTED, AgentOptions, ClaudeOptions, CodexOptions
from ralph.config import files
from ralph.config.keys import KEYS, flag, variable
from ralph.config.paths import project_config, user_config
from ralph.core.errors import UsageError
from ralph.core.limits import Limits, Reasoning
from ralph.core.summary import Rhythm
from ralph.core.text import did_you_mean

DEFAULT = "default"

_MOST_QUOTED = 100
"""Iterations that a prompt may quote; a quote has up to 4,000 characters, and a usual context no room for more."""


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
    """Every value in force; `config.keys` says which key is kept in which field."""

    agent: str
    model: str
    reasoning: Reasoning
    iteration_timeout: float
    idle_timeout: float
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
    most_goals: int
    """How many goals of the queue may run at once."""
    values: Mapping[str, Value]
    check: str | None = None
    db: str | None = None
    limits: Limits = field(default_factory=Limits)
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
                    where = flag(name) if source.name == "flag" else f"{source.name}: {name}"
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
    tree: dict[str, object] = {"values": collected.values, "notes": tuple(collected.notes)}
    for name, value in collected.values.items():
        *groups, last = (KEYS[name].at or name).split(".")
        inner = tree
        for group in groups:
            inner = cast("dict[str, object]", inner.setdefault(group, {}))
        inner[last] = value.value
    return cast("Settings", _built(Settings, tree))


_GROUPS: Mapping[str, Callable[..., object]] = {
    "limits": Limits,
    "rhythm": Rhythm,
    "worker": Mode,
    "scout": Mode,
    "summarizer": Mode,
    "agents": AgentOptions,
    "claude": ClaudeOptions,
    "codex": CodexOptions,
}
"""The fields of `Settings`, and of its groups, that are groups of settings."""


def _built(kind: Callable[..., object], tree: Mapping[str, object]) -> object:
    """A dataclass from the values of its fields; a group among them is built from those of its own."""
    groups = {name: _GROUPS[name] for name in tree if name in _GROUPS}
    built = {name: _built(group, cast("Mapping[str, object]", tree[name])) for name, group in groups.items()}
    return kind(**{**tree, **built})


def _from_environment(env: Mapping[str, str]) -> dict[str, object]:
    """Pick the settings out of `RALPH_*` names; the empty text is no setting, as in most shells' habits."""
    names = {variable(name): name for name in KEYS}
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
