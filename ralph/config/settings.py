"""All sources of settings, folded into one frozen `Settings` that knows where each value came from.

The only module that makes settings of the environment, `.env` and TOML files, and the one that writes those.
"""

import io
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

import dotenv

from ralph.agents.base import AUTO, OWN_TRANSCRIPTS, SCRIPTED, AgentOptions, ClaudeOptions, CodexOptions
from ralph.config import files
from ralph.config.keys import APPEND, KEYS, REPLACE, flag, variable
from ralph.config.paths import project_config, user_config
from ralph.core.errors import UsageError
from ralph.core.fallback import Fallback, agent_and_model
from ralph.core.limits import Limits, Reasoning
from ralph.core.proof import ProofRules
from ralph.core.summary import Rhythm
from ralph.core.text import did_you_mean
from ralph.sandbox import variables
from ralph.sandbox.policy import SandboxOptions

DEFAULT = "default"

_MOST_QUOTED = 100
"""Iterations that a prompt may quote: at up to 4,000 characters each, a usual context has no room for more."""


@dataclass(frozen=True, slots=True)
class Value:
    """A setting as written, as parsed, and its source."""

    written: object
    value: object
    source: str


@dataclass(frozen=True, slots=True)
class Mode:
    """Settings of one kind of session; an empty model or reasoning means the run's."""

    tools: tuple[str, ...]
    system_prompt_file: str = ""
    system_prompt: str = APPEND
    """What the file does to the agent's own system prompt."""
    model: str = ""
    reasoning: Reasoning | None = None

    @property
    def replaces(self) -> bool:
        return self.system_prompt == REPLACE


@dataclass(frozen=True, slots=True)
class AskOptions:
    """What `ralph ask` allows claude."""

    max_turns: int
    allowed_tools: tuple[str, ...]
    timeout: float


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings; `config.keys` says which key is kept in which field."""

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
    planner: Mode
    summarizer: Mode
    rhythm: Rhythm
    agents: AgentOptions
    ask: AskOptions
    fallback: Fallback
    sandbox: SandboxOptions
    proof: ProofRules
    notify: tuple[str, ...]
    """The notification command; empty if there is none."""
    bell: bool
    """Whether to ring the terminal's bell when a run or a batch ends."""
    most_goals: int
    """How many goals of the queue may run at once."""
    values: Mapping[str, Value]
    check: str | None = None
    db: str | None = None
    merge: str | None = None
    """Where proven work of a batch goes, unless its goals say otherwise."""
    limits: Limits = field(default_factory=Limits)
    notes: tuple[str, ...] = ()

    @property
    def limited_by_default(self) -> bool:
        """Tell whether the user set no limit, so that the default number of iterations is the only one."""
        return self.values["max_iterations"].source == DEFAULT

    def standing_in(self, written: str) -> "Settings":
        """These settings for an agent that stands in, written as `AGENT` or `AGENT:MODEL`.

        Without a model it has its usual one, for the user's is another agent's. So is the summarizer's, unless both
        agents know Claude's models.
        """
        agent, model = agent_and_model(written)
        as_claude = OWN_TRANSCRIPTS.get(agent) == "claude"
        model = model or (str(KEYS["model"].default) if as_claude else "")
        summarizer = self.summarizer
        if not as_claude or model.startswith(SCRIPTED):
            summarizer = replace(summarizer, model=model)
        elif OWN_TRANSCRIPTS.get(self.agent) != "claude":
            summarizer = replace(summarizer, model=str(KEYS["modes.summarizer.model"].default))
        agents = replace(self.agents, command="", transcript=AUTO)
        return replace(self, agent=agent, model=model, summarizer=summarizer, agents=agents)

    def held_back(self, env: Mapping[str, str]) -> list[str]:
        """Return the names of the variables that the agent does not get, as they look like secrets."""
        return variables.held_back(env, (*variables.needed_by(self.agent, env), *self.sandbox.env))

    def said_in(self, source: str) -> dict[str, str]:
        """Return the values of a source that no stronger source overrides."""
        return {name: str(value.written) for name, value in self.values.items() if value.source == source}

    @property
    def transcript(self) -> str:
        """Return the transcript; what `auto` means for another package's agent is up to that package."""
        return self.agents.transcript_or(OWN_TRANSCRIPTS.get(self.agent, "its own"))


@dataclass(frozen=True, slots=True)
class SettingSource:
    """One source of settings; `trusted`: only the user can write it."""

    name: str
    entries: Mapping[str, object]
    trusted: bool = True


@dataclass(slots=True)
class _Collected:
    """The values of all sources, and every fault in them."""

    values: dict[str, Value] = field(default_factory=dict[str, Value])
    faults: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])
    sources: list[str] = field(default_factory=list[str])

    def later(self, one: Value, other: Value) -> bool:
        """Tell whether one value's source takes precedence over the other's."""
        return self.sources.index(one.source) > self.sources.index(other.source)

    def add(self, source: SettingSource) -> None:
        self.sources.append(source.name)
        for name, written in source.entries.items():
            key = KEYS.get(name)
            if key is None:
                self.faults.append(f"{source.name}: unknown key {name}" + did_you_mean(name, KEYS))
            elif key.guarded and not source.trusted:
                self.notes.append(
                    f"{source.name}: {name} ignored: a repository cannot set it; use: ralph config set {name} VALUE"
                )
            else:
                try:
                    value = Value(written, key.parse(written), source.name)
                except ValueError as fault:
                    self.faults.append(f"{_as_written(name, source.name)}: {fault}")
                else:
                    self.values[name] = value if source.trusted else self._tightened(name, value)

    def _tightened(self, name: str, theirs: Value) -> Value:
        """Let a repository's file make a setting stricter, where that is all it may do."""
        tighten, ours = KEYS[name].tightened, self.values.get(name)
        if tighten is None:
            return theirs
        before = None if ours is None else ours.value
        after = tighten(before, theirs.value)
        if ours is not None and after == before:
            if theirs.value != before:
                self.notes.append(f"{theirs.source}: {name} ignored: a repository can only make the sandbox stricter")
            return ours
        return Value(theirs.written, after, theirs.source)


def _as_written(name: str, source: str) -> str:
    """Name a setting as its source spells it."""
    match source:
        case "flag":
            return flag(name)
        case "environment":
            return variable(name)
        case _:
            return f"{source}: {variable(name) if Path(source).name == '.env' else name}"


DOTENV = "RALPH_DOTENV"
"""`no`: ralph ignores settings in a repository's `.env`."""


ITERATIONS_BEFORE = "RALPH_ITERATIONS_BEFORE"
"""How many iterations of the run belong to earlier attempts at the goal: its limit does not count them."""


def load(
    *,
    env: Mapping[str, str],
    root: Path | None = None,
    flags: Mapping[str, object] | None = None,
    front_matter: Mapping[str, object] | None = None,
    goal: Path | None = None,
) -> Settings:
    """Combine all sources, weakest first; report every fault at once."""
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
    _settle_iterations(collected, env.get(ITERATIONS_BEFORE, ""))
    if collected.faults:
        # `ralph config` fails on a broken file as well, so it is no way out.
        raise UsageError(
            "invalid settings:\n" + "\n".join(f"  {fault}" for fault in collected.faults),
            "fix each value; to change one in your configuration: ralph config set KEY VALUE",
        )
    return _settings(collected)


def _settle_agent(collected: _Collected) -> None:
    """Let `agent_cmd` replace an agent from the same or a weaker source; only claude has a default model."""
    agent, command = collected.values.get("agent"), collected.values.get("agent_cmd")
    if agent is None:
        return
    if command is not None and agent.value != "custom":
        if command.source == agent.source:
            name = _as_written("agent_cmd", command.source)
            collected.faults.append(f"{name} works only with the agent custom, not {agent.value}")
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
            f"summary_every + summary_keep: a prompt would quote {quoted} iterations, at most {_MOST_QUOTED} fit;"
            " to turn summaries off, set summary_every = 0"
        )


def _settle_iterations(collected: _Collected, before: str) -> None:
    """Drop the default limit on iterations where the user has limited the run in another way; add those `before`."""
    iterations = collected.values["max_iterations"]
    other = next((name for name in ("max_cost", "max_tokens", "duration") if name in collected.values), None)
    if iterations.source == DEFAULT and other is not None:
        collected.values["max_iterations"] = Value(None, None, f"{other} is set")
    elif isinstance(iterations.value, int) and before.isdecimal():
        whole = iterations.value + int(before)
        collected.values["max_iterations"] = Value(whole, whole, iterations.source)


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
    "planner": Mode,
    "summarizer": Mode,
    "agents": AgentOptions,
    "ask": AskOptions,
    "fallback": Fallback,
    "proof": ProofRules,
    "claude": ClaudeOptions,
    "codex": CodexOptions,
    "sandbox": SandboxOptions,
}
"""The fields of `Settings`, and of its groups, that are groups of settings."""


def _built(kind: Callable[..., object], tree: Mapping[str, object]) -> object:
    """Build a dataclass from the values of its fields, groups included."""
    groups = {name: _GROUPS[name] for name, value in tree.items() if name in _GROUPS and isinstance(value, dict)}
    built = {name: _built(group, cast("Mapping[str, object]", tree[name])) for name, group in groups.items()}
    return kind(**{**tree, **built})


def _from_environment(env: Mapping[str, str]) -> dict[str, object]:
    """Read settings from `RALPH_*` variables; an empty one counts as unset, as in most shells."""
    names = {variable(name): name for name in KEYS}
    return {names[variable]: value for variable, value in env.items() if variable in names and value.strip()}


def _dotenv(path: Path, collected: _Collected) -> dict[str, str]:
    try:
        content = path.read_text("utf-8", "replace")
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        collected.faults.append(f"cannot read {path}: {error.strerror}")
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
    """Write one setting into a TOML file; return a note about a backup, if one was made."""
    key = KEYS.get(name)
    if key is None:
        raise UsageError(f"unknown key {name}" + did_you_mean(name, KEYS), "list every key: ralph config")
    try:
        value = key.parse(written)
    except ValueError as fault:
        raise UsageError(f"{name}: {fault}", "see every key with its value: ralph config") from fault
    if isinstance(value, tuple) and value:  # an empty list is not the `none` that was written
        return files.put(path, name, list(cast("tuple[str, ...]", value)))
    if value is None:  # no limit
        return files.put(path, name, 0)
    return files.put(path, name, value if isinstance(value, bool | int) else written)
