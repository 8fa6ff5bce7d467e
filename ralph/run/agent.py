"""The chosen agent, and the host that starts it: guardian process and signal handling."""

import contextlib
import functools
import glob
import os
import re
import shlex
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ralph.agents import registry
from ralph.agents.base import AgentLog, AgentOptions, Launch, Request, Runner
from ralph.agents.claude_stream import ClaudeTranscript
from ralph.agents.login import PROBES, Login, login_environment, probe_for
from ralph.agents.transcript import Transcript
from ralph.config.settings import Mode, Settings
from ralph.core.errors import BlockedError, DiskError, Interrupted, UsageError
from ralph.core.failures import TABLE, End
from ralph.core.limits import NO_BOUNDS, Allowance
from ralph.core.usage import Estimate, Prices, shipped
from ralph.core.usage import parse as parse_prices
from ralph.run.session import Logs
from ralph.sandbox.sandbox import Sandbox, open_sandbox
from ralph.system.child import Child
from ralph.system.clock import monotonic_with_sleep
from ralph.system.files import append_line, open_to_append, replace_file
from ralph.system.guardian import Guardian
from ralph.system.programs import ask
from ralph.system.signals import Signals

_TELL_VERSION = ("claude", "codex", "ralph-claude")
_VERSION = re.compile(r"\d+(?:\.\d+)+[\w.+-]{0,40}")
_LONGEST_ANSWER = 2.0
"""Seconds: `claude --version` takes 0.02 to 0.06 (2.1.325), or as long as node when it is a script."""
PATIENT_ANSWER = 15.0
"""Seconds, where something depends on the answer, on a busy machine; `claude auth status` takes 0.3 (2.1.325)."""


@dataclass(frozen=True, slots=True)
class ChosenAgent:
    """An installed agent with the settings of its sessions."""

    settings: Settings
    runner: Runner
    transcript: Callable[[], Transcript]
    prices: Prices

    @property
    def model(self) -> str:
        """The name of the model that answers."""
        return self.runner.model(self.settings.model)

    @property
    def idle_timeout(self) -> float:
        return self.settings.idle_timeout

    @property
    def timeout(self) -> float:
        return self.settings.iteration_timeout

    def estimate(self, model: str) -> Estimate:
        """Return what estimates the cost of one running session with this model."""
        return estimate(self.prices, model, self.runner.transcript)

    def own_log(self, session_id: str, environment: Mapping[str, str], log: Path) -> list[bytes]:
        """Return what the agent itself recorded about a session's usage."""
        account = registry.account_of(self.settings.agent, self.runner.transcript, environment)
        return own_log_of(account, session_id, log)

    def request(
        self,
        prompt: str,
        session_id: str,
        mode: Mode,
        *,
        root: Path,
        env: Mapping[str, str],
        folder: Path,
        read_only: bool = False,
        allowance: Allowance = NO_BOUNDS,
    ) -> Request:
        """Describe one session to the agent."""
        file = mode.system_prompt_file
        return Request(
            prompt=prompt,
            session_id=session_id,
            model=mode.model or self.settings.model,
            reasoning=mode.reasoning or self.settings.reasoning,
            tools=mode.tools,
            system_prompt_file=str(root / file) if file else "",
            environment=env,
            folder=folder,
            read_only=read_only,
            allowance=allowance,
            replaces_system_prompt=mode.replaces,
        )


def choose_agent(chosen: Settings, root: Path, env: Mapping[str, str]) -> ChosenAgent:
    """Find the agent and its transcript, or raise what is wrong; `root` may not exist yet."""
    runner = _find_runner(chosen, root, env)
    _refuse_bypass(chosen, env)
    transcript = registry.find_transcript(runner.transcript)
    if transcript is ClaudeTranscript:  # a session learns its context size from the sessions before it
        transcript = functools.partial(ClaudeTranscript, {})
    return ChosenAgent(chosen, runner, transcript, _read_prices(root))


def choose_fallbacks(agent: ChosenAgent, root: Path, env: Mapping[str, str]) -> tuple[ChosenAgent, ...]:
    """Find the agents that stand in, or say which one is missing."""
    found: list[ChosenAgent] = []
    for written in agent.settings.fallback.names:
        try:
            found.append(choose_agent(agent.settings.standing_in(written), root, env))
        except (BlockedError, UsageError) as error:
            kind, hint = type(error), f"{error.hint}; or remove {written} from the setting fallback"
            raise kind(f"fallback {written}: {error.message}", hint) from error
    return tuple(found)


def estimate(prices: Prices, model: str, transcript: str) -> Estimate:
    """Return what estimates the cost of one session from the user's prices.

    Only claude's transcript reports each message, with a model whose list price ralph knows.
    """
    if transcript != "claude":
        return Estimate(prices, model, by_message=False)
    return Estimate(Prices(prices.models, below=shipped()), model, by_message=True)


def version_of(agent: ChosenAgent, env: Mapping[str, str]) -> str:
    """Return the version of a known agent; empty if it doesn't answer quickly."""
    return program_version(agent.runner.path, env) if agent.settings.agent in _TELL_VERSION else ""


def program_version(command: str, env: Mapping[str, str], limit: float = _LONGEST_ANSWER) -> str:
    """Return the version that a program prints; empty if it prints none in time."""
    reply = ask([*shlex.split(command), "--version"], cwd=Path("/"), environment=env, limit=limit)
    found = _VERSION.search(reply.output) if reply.exit_code == 0 else None
    return found[0] if found is not None else ""


def login_of(agent: str, path: str, version: str, options: AgentOptions, env: Mapping[str, str]) -> Login:
    """Ask an agent whether it is logged in: it answers from its own files, without its model, so it costs nothing."""
    probe = probe_for(agent, version)
    if probe is None:
        return Login.UNKNOWN
    around = login_environment(agent, options, env)
    reply = ask([*shlex.split(path), *probe.arguments], cwd=Path("/"), environment=around, limit=PATIENT_ANSWER)
    return probe.read(reply.exit_code, reply.output)


def require_ready(chosen: Settings, root: Path | None, env: Mapping[str, str]) -> None:
    """Refuse an agent that is missing or not logged in, as a run would; nothing is spent to find out.

    `root` has the repository's own settings; None: they are not known yet. What a repository brings along may log the
    agent in, so only where none of that is there the agent's answer counts.
    """
    runner = _find_runner(chosen, root or Path("/"), env)
    if root is None or (root / ".envrc").exists() or (root / ".claude").exists() or chosen.agent not in PROBES:
        return
    version = program_version(runner.path, env, PATIENT_ANSWER)
    if login_of(chosen.agent, runner.path, version, chosen.agents, env) is Login.LOGGED_OUT:
        raise BlockedError(f"the agent {chosen.agent} is not logged in", TABLE[End.AUTH].hint)


def require_file(mode: Mode, name: str, root: Path) -> None:
    """Refuse a missing system prompt: one that is not a file, or none although it replaces the agent's own."""
    if mode.replaces and not mode.system_prompt_file:
        raise UsageError(
            f"modes.{name}.system_prompt = replace: there is no system prompt to use instead",
            f"name a file with one: ralph config set modes.{name}.system_prompt_file PATH",
        )
    if mode.system_prompt_file and not (root / mode.system_prompt_file).is_file():
        raise UsageError(
            f"modes.{name}.system_prompt_file: {root / mode.system_prompt_file} is not a file",
            f"create it, or name another: ralph config set modes.{name}.system_prompt_file PATH",
        )


def _find_runner(chosen: Settings, root: Path, env: Mapping[str, str]) -> Runner:
    try:
        return registry.find_runner(chosen.agent, chosen.agents, env)
    except BlockedError as error:
        if not (root / ".envrc").is_file():
            raise
        # Not on the PATH of `.envrc`: otherwise a repository could decide which program is the agent.
        hint = f"{error.hint}\nnote: ralph does not look for the agent on the PATH that .envrc sets"
        raise BlockedError(error.message, hint) from error


def _refuse_bypass(chosen: Settings, env: Mapping[str, str]) -> None:
    mode = chosen.agents.claude.permission_mode
    if mode == "bypassPermissions" and os.geteuid() == 0 and env.get("IS_SANDBOX") != "1":
        raise UsageError(
            "cannot use agents.claude.permission_mode = bypassPermissions as root",
            "run as another user, remove the setting (ralph then approves its tools), or set IS_SANDBOX=1 in a sandbox",
        )


def _read_prices(root: Path) -> Prices:
    """Read the user's price table; without one, no model has a price."""
    path = root / ".ralph" / "pricing.toml"
    try:
        return parse_prices(path.read_text("utf-8"), str(path)) if path.exists() else Prices({})
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}", "check that you can read that file") from error
    except ValueError as fault:  # not TOML, not prices, or not UTF-8 (whose error lacks the file's name)
        words = f"cannot read {path}: not UTF-8 text" if isinstance(fault, UnicodeDecodeError) else str(fault)
        raise UsageError(words, "see .ralph.example/pricing.toml in ralph's repository for an example") from fault


_SESSION_ID = re.compile(r"[A-Za-z0-9-]{8,64}")


def own_log_of(account: AgentLog | None, session_id: str, log: Path) -> list[bytes]:
    """Return the last line about the session's usage, if there is one, and write it to the raw log."""
    line = b"" if account is None else _last_line(account, session_id)
    if not line:
        return []
    with open_to_append(log) as file:
        append_line(file, line + b"\n")
    return [line]


def _last_line(account: AgentLog, session_id: str) -> bytes:
    if not _SESSION_ID.fullmatch(session_id):  # it came from the agent, and becomes part of a path
        return b""
    pattern = account.pattern.format(session_id=glob.escape(session_id))
    last = b""
    try:
        for path in account.folder.glob(pattern):
            with path.open("rb") as file:
                for line in file:
                    if account.usage_line.match(line) and line.endswith(b"\n"):
                        last = line.rstrip(b"\n")
    except OSError:  # the agent's own file; without it the usage stays unknown
        return b""
    return last


class AgentHost:
    """Starts agents in one working tree, under a guardian, and handles the signals that stop ralph."""

    def __init__(self, root: Path, tree: Path | None = None) -> None:
        """Work in `root`, a folder of `tree`."""
        self.root, self.tree = root, tree or root
        self.sandbox = Sandbox()
        self.guardian = Guardian()
        self.signals = Signals(self._wake)
        self._agent: Child | None = None
        self._started = monotonic_with_sleep()

    @property
    def seconds(self) -> float:
        """Seconds since this start."""
        return monotonic_with_sleep() - self._started

    @property
    def stop_requests(self) -> int:
        return self.signals.count

    def leave_if_interrupted(self) -> None:
        if (number := self.signals.first) is not None:
            raise Interrupted(number)

    def open_sandbox(self, chosen: Settings, env: Mapping[str, str], ralph_dir: Path) -> Sandbox:
        """Contain from now on what is started here, as far as the settings say."""
        self.sandbox = open_sandbox(chosen.sandbox, env, self.tree, (ralph_dir,))
        return self.sandbox

    def serving(self, agent: ChosenAgent) -> "AgentSeat":
        """Return what starts the sessions of one agent."""
        return AgentSeat(self, agent.settings.agent)

    def start(self, launch: Launch, logs: Logs, agent: str) -> Child:
        for path, text in launch.files.items():
            replace_file(path, text, durable=False)
        contained = self.sandbox.contain(
            launch.argv, launch.environment, self.tree, cwd=self.root, agent=agent, show=list(launch.files)
        )
        self._agent = Child(
            contained.argv,
            guardian=self.guardian,
            cwd=self.root,
            environment=contained.environment,
            stdout_log=logs.stdout,
            stderr_log=None if launch.joins_stderr else logs.stderr,
        )
        return self._agent

    def _wake(self, _number: int) -> None:
        """Handle a signal at once, before the agent makes another call to its model."""
        if self._agent is not None:
            self._agent.wake()


@dataclass(frozen=True, slots=True)
class AgentSeat:
    """The host of one agent's sessions: what it starts has that agent's login and variables."""

    host: AgentHost
    agent: str

    @property
    def root(self) -> Path:
        return self.host.root

    @property
    def stop_requests(self) -> int:
        return self.host.stop_requests

    def start(self, launch: Launch, logs: Logs) -> Child:
        return self.host.start(launch, logs, self.agent)


@contextlib.contextmanager
def refusing_a_bad_disk() -> Generator[None]:
    """Turn a disk error before the run starts into a usage error."""
    try:
        yield
    except DiskError as error:
        raise UsageError(error.message, error.hint) from error
    except OSError as error:
        fault = DiskError(error.filename or "the disk", error)
        raise UsageError(fault.message, fault.hint) from error
