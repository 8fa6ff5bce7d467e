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
from ralph.agents.base import AgentLog, Launch, Request, Runner
from ralph.agents.claude_stream import ClaudeTranscript
from ralph.agents.transcript import Transcript
from ralph.config.settings import Mode, Settings
from ralph.core.errors import BlockedError, DiskError, Interrupted, UsageError
from ralph.core.limits import NO_BOUNDS, Allowance
from ralph.core.usage import Estimate, Prices, shipped
from ralph.core.usage import parse as parse_prices
from ralph.run.session import Logs
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


@dataclass(frozen=True, slots=True)
class ChosenAgent:
    """An agent that is there, and everything that is settled about its sessions."""

    settings: Settings
    runner: Runner
    transcript: Callable[[], Transcript]
    prices: Prices

    @property
    def model(self) -> str:
        """The model that answers, as people call it."""
        return self.runner.model(self.settings.model)

    @property
    def idle_timeout(self) -> float:
        return self.settings.idle_timeout

    @property
    def timeout(self) -> float:
        return self.settings.iteration_timeout

    def estimate(self, model: str) -> Estimate:
        """What tells the cost of one session with this model while it runs."""
        return estimate(self.prices, model, self.runner.transcript)

    def own_log(self, session_id: str, environment: Mapping[str, str], log: Path) -> list[bytes]:
        """What the agent itself has kept of a session's use."""
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
        """What a session is asked to be."""
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
        )


def choose_agent(chosen: Settings, root: Path, env: Mapping[str, str]) -> ChosenAgent:
    """Find the agent and what reads it, or say what is wrong or missing; `root` may not be there yet."""
    runner = _find_runner(chosen, root, env)
    _refuse_bypass(chosen, env)
    transcript = registry.find_transcript(runner.transcript)
    if transcript is ClaudeTranscript:  # a session learns from those before it how large its context is
        transcript = functools.partial(ClaudeTranscript, {})
    return ChosenAgent(chosen, runner, transcript, _read_prices(root))


def estimate(prices: Prices, model: str, transcript: str) -> Estimate:
    """What tells the cost of one session that this transcript reads, by the user's prices.

    Only claude's tells each message by itself, and names a model whose list price ralph has brought along.
    """
    if transcript != "claude":
        return Estimate(prices, model, by_message=False)
    return Estimate(Prices(prices.models, below=shipped()), model, by_message=True)


def version_of(agent: ChosenAgent, env: Mapping[str, str]) -> str:
    """What a known agent says its version is; nothing if it does not say so at once."""
    if agent.settings.agent not in _TELL_VERSION:
        return ""
    reply = ask([*shlex.split(agent.runner.path), "--version"], cwd=Path("/"), environment=env, limit=_LONGEST_ANSWER)
    found = _VERSION.search(reply.output) if reply.exit_code == 0 else None
    return found[0] if found is not None else ""


def require_file(mode: Mode, name: str, root: Path) -> None:
    """Refuse a system prompt that is no file."""
    if mode.system_prompt_file and not (root / mode.system_prompt_file).is_file():
        raise UsageError(f"modes.{name}.system_prompt_file: {root / mode.system_prompt_file} is no file")


def _find_runner(chosen: Settings, root: Path, env: Mapping[str, str]) -> Runner:
    try:
        return registry.find_runner(chosen.agent, chosen.agents, env)
    except BlockedError as error:
        if not (root / ".envrc").is_file():
            raise
        # What `.envrc` puts on PATH is not looked through: a repository would decide which program is the agent.
        hint = f"{error.hint}; the PATH that .envrc sets is not searched for the agent"
        raise BlockedError(error.message, hint) from error


def _refuse_bypass(chosen: Settings, env: Mapping[str, str]) -> None:
    mode = chosen.agents.claude.permission_mode
    if mode == "bypassPermissions" and os.geteuid() == 0 and env.get("IS_SANDBOX") != "1":
        raise UsageError(
            "agents.claude.permission_mode = bypassPermissions is refused for root",
            "run as another user, leave it unset (the tool set is approved then), or set IS_SANDBOX=1 in a sandbox",
        )


def _read_prices(root: Path) -> Prices:
    """Read the user's table of prices, or say what is wrong with it; without one, nothing has a price."""
    path = root / ".ralph" / "pricing.toml"
    try:
        return parse_prices(path.read_text("utf-8"), str(path)) if path.exists() else Prices({})
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as fault:  # not TOML, not prices, or not even UTF-8, which does not know the file's name
        words = f"{path}: not UTF-8 text" if isinstance(fault, UnicodeDecodeError) else str(fault)
        raise UsageError(words, "see .ralph.example/pricing.toml of ralph for an example") from fault


_SESSION_ID = re.compile(r"[A-Za-z0-9-]{8,64}")


def own_log_of(account: AgentLog | None, session_id: str, log: Path) -> list[bytes]:
    """The last line that tells the session's use, if there is one; it is in the raw log before anyone parses it."""
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
                    if account.telling.match(line) and line.endswith(b"\n"):
                        last = line.rstrip(b"\n")
    except OSError:  # it is the agent's own file: without it nothing is known, and nothing guessed
        return b""
    return last


class AgentHost:
    """Starts agents in one work tree, under a guardian, and heeds the signals that ask ralph to end."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.guardian = Guardian()
        self.signals = Signals(self._wake)
        self._agent: Child | None = None
        self._started = monotonic_with_sleep()

    @property
    def seconds(self) -> float:
        """How long this start has taken."""
        return monotonic_with_sleep() - self._started

    @property
    def stop_requests(self) -> int:
        return self.signals.count

    def leave_if_interrupted(self) -> None:
        if (number := self.signals.first) is not None:
            raise Interrupted(number)

    def start(self, launch: Launch, logs: Logs) -> Child:
        for path, text in launch.files.items():
            replace_file(path, text, durable=False)
        self._agent = Child(
            launch.argv,
            guardian=self.guardian,
            cwd=self.root,
            environment=launch.environment,
            stdout_log=logs.stdout,
            stderr_log=None if launch.joins_stderr else logs.stderr,
        )
        return self._agent

    def _wake(self, _number: int) -> None:
        """Have a signal heeded now: until the next look, an agent could begin another call of its model."""
        if self._agent is not None:
            self._agent.wake()


@contextlib.contextmanager
def refusing_a_bad_disk() -> Generator[None]:
    """Before a run has begun, a disk that cannot be written is a reason not to begin."""
    try:
        yield
    except DiskError as error:
        raise UsageError(error.message, error.hint) from error
    except OSError as error:
        fault = DiskError(error.filename or "the disk", error)
        raise UsageError(fault.message, fault.hint) from error
