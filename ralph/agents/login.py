"""Whether an agent is logged in: which command to ask, and how to read its answer. No secret is read. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from ralph.agents.base import AgentOptions, without_nesting
from ralph.agents.claude import session_login
from ralph.core import ndjson


class Login(StrEnum):
    """What an agent says about its account."""

    LOGGED_IN = "logged in"
    LOGGED_OUT = "not logged in"
    UNKNOWN = "login unknown"


@dataclass(frozen=True, slots=True)
class LoginProbe:
    """How to ask an agent; it answers from its own files and environment, without its model."""

    arguments: tuple[str, ...]
    since: tuple[int, ...]
    """The first version with this command; an earlier one could take it for a prompt."""
    read: Callable[[int | None, str], Login]
    """Reads its exit code and its output, which is never shown because it may quote part of a key."""
    command: str
    """The command that logs in."""


def _read_claude(_: int | None, output: str) -> Login:
    try:
        said = ndjson.mapping(ndjson.decode(output)).get("loggedIn")
    except ndjson.Malformed:
        return Login.UNKNOWN
    return Login.UNKNOWN if not isinstance(said, bool) else Login.LOGGED_IN if said else Login.LOGGED_OUT


def _read_codex(exit_code: int | None, _: str) -> Login:
    return {0: Login.LOGGED_IN, 1: Login.LOGGED_OUT}.get(-1 if exit_code is None else exit_code, Login.UNKNOWN)


PROBES: Mapping[str, LoginProbe] = {
    # Seen on 2.1.325: JSON with `loggedIn`, also for a token in the environment and for Bedrock.
    "claude": LoginProbe(("auth", "status", "--json"), (2, 1, 41), _read_claude, "claude auth login"),
    # Seen on 0.163.0: exit 0 or 1.
    "codex": LoginProbe(("login", "status"), (0, 20), _read_codex, "codex login"),
}
"""Agents with such a command."""
KEYS = ("ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN")
"""The variables in which ralph-claude looks for a key, in order."""


def probe_for(agent: str, version: str) -> LoginProbe | None:
    """Return how to ask this version of an agent; None if it cannot be asked."""
    probe = PROBES.get(agent)
    numbers = tuple(int(part) for part in version.split(".")[:3] if part.isdecimal())
    return probe if probe is not None and numbers >= probe.since else None


def login_environment(agent: str, options: AgentOptions, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for asking an agent: that of a session, which may not have every key."""
    return session_login(options.claude, environment) if agent == "claude" else without_nesting(environment)
