"""Every agent and transcript by name, including those of other packages (entry points); and format detection."""

import contextlib
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import cast, get_args

from ralph.agents import claude, codex, custom
from ralph.agents.base import OWN_TRANSCRIPTS, RUNNERS_GROUP, TRANSCRIPTS_GROUP, AgentLog, AgentOptions, Runner
from ralph.agents.claude import find_demo, find_ralph_claude
from ralph.agents.claude_stream import ClaudeTranscript
from ralph.agents.codex import CodexTranscript
from ralph.agents.codex_text import is_banner
from ralph.agents.custom import SENTINEL, PlainTranscript, Rtf1Transcript
from ralph.agents.transcript import Capabilities, Transcript
from ralph.core import ndjson
from ralph.core.errors import BlockedError, RalphError
from ralph.core.events import Event, Meta, Tag, Text
from ralph.core.records import from_json, to_json

FindRunner = Callable[[AgentOptions, Mapping[str, str]], Runner]

AGENTS: Mapping[str, FindRunner] = {
    "claude": claude.find_claude,
    "codex": codex.find_codex,
    "custom": custom.find_custom,
    "ralph-claude": find_ralph_claude,
    "demo": find_demo,
}
"""ralph's own agents, and how to find each."""

TRANSCRIPTS: dict[str, Callable[[], Transcript]] = {
    "claude": ClaudeTranscript,
    "codex": CodexTranscript,
    "rtf1": Rtf1Transcript,
    "plain": PlainTranscript,
}
_OF_CLAUDE = ("system", "assistant", "user", "result", "rate_limit_event")
_EVENTS = tuple(kind for kind in get_args(Event))
_LONGEST = 2000

_RUNNER_PARTS = (
    "path", "transcript", "reply", "required_tool", "permissions", "notice", "model", "launch", "follow_up",
    "interrupt",
)  # fmt: skip


def account_of(agent: str, transcript: str, env: Mapping[str, str]) -> AgentLog | None:
    """Return where the agent records the usage of its sessions, in lines for the transcript; mostly None."""
    return codex.account(env) if agent == transcript == "codex" else None


def sniff(lines: Iterable[str]) -> str:
    """Return the transcript of the first decisive line; without one, the output is plain."""
    return next((name for line in lines if (name := _decided_by(line))), "plain")


def _decided_by(line: str) -> str:
    """Return the only transcript that fits a line; empty if several do."""
    if line.startswith(SENTINEL):
        return "rtf1"
    if is_banner(line):
        return "codex"
    if not line.startswith("{"):
        return ""
    try:
        kind = ndjson.mapping(ndjson.decode(line)).get("type")
    except ndjson.Malformed:
        return ""
    return "claude" if kind in _OF_CLAUDE else "codex" if kind in codex.TYPES else ""


def own_transcript(agent: str) -> str:
    """Name the transcript of an agent's own output; empty for another package's agent."""
    return OWN_TRANSCRIPTS.get(agent, "")


class ForeignTranscript:
    """Wraps another package's transcript."""

    def __init__(self, inner: Transcript) -> None:
        self._inner = inner
        capabilities: object = getattr(inner, "capabilities", None)
        self.capabilities = capabilities if isinstance(capabilities, Capabilities) else Capabilities()

    def feed(self, line: str) -> list[Event]:
        return self._events(lambda: self._inner.feed(line), line)

    def flush(self) -> list[Event]:
        return self._events(lambda: self._inner.flush(), "")  # noqa: PLW0108 - looked up inside: it may be missing

    def _events(self, said: Callable[[], list[Event]], line: str) -> list[Event]:
        try:
            return [_believed(event) for event in said()]
        except Exception as error:  # a boundary: a fault in another package's code must not end the run
            fault = Meta({"transcript_fault": f"{type(error).__name__}: {error}"[:500]})
            return [fault, Text(Tag.SYS, line[:_LONGEST])] if line.strip() else [fault]


def _believed(event: object) -> Event:
    """Return an event if its fields are valid; for anything else, a `Meta` that it was there."""
    if not isinstance(event, _EVENTS):
        return Meta({"unknown_event": repr(event)[:500]})
    try:
        return from_json(to_json(cast("Event", event)))
    except ValueError as fault:
        return Meta({"invalid_event": f"{type(event).__name__}: {fault}"[:500]})


def find_runner(agent: str, options: AgentOptions, env: Mapping[str, str]) -> Runner:
    """Find an agent, ralph's own or another package's."""
    if agent in AGENTS:
        return AGENTS[agent](options, env)
    with _faults_named(RUNNERS_GROUP, agent):
        runner = cast("FindRunner", _load(RUNNERS_GROUP, agent))(options, env)
    if missing := [name for name in _RUNNER_PARTS if not hasattr(runner, name)]:
        raise _unusable(RUNNERS_GROUP, agent, TypeError(f"its runner lacks {', '.join(missing)}"))
    return runner


def find_transcript(name: str) -> Callable[[], Transcript]:
    """Find a transcript, ralph's own or another package's."""
    if name in TRANSCRIPTS:
        return TRANSCRIPTS[name]
    with _faults_named(TRANSCRIPTS_GROUP, name):
        make = cast("Callable[[], Transcript]", _load(TRANSCRIPTS_GROUP, name))
        ForeignTranscript(make())
    return lambda: ForeignTranscript(make())


def _load(group: str, name: str) -> object:
    from importlib.metadata import entry_points

    points = list(entry_points(group=group, name=name))
    if not points:
        raise BlockedError(
            f"no installed package provides {name!r} (entry point group {group})",
            "install the package that provides it; list installed packages: pip list",
        )
    return points[0].load()


@contextlib.contextmanager
def _faults_named(group: str, name: str) -> Generator[None]:
    """Name the package in any fault of its code; ralph's own faults pass unchanged."""
    try:
        yield
    except RalphError:
        raise
    except Exception as error:  # a boundary: another package may raise anything
        raise _unusable(group, name, error) from error


def _unusable(group: str, name: str, error: Exception) -> BlockedError:
    return BlockedError(
        f"cannot use {name} (entry point group {group}): {type(error).__name__}: {error}",
        "update or remove the package that provides it; list installed packages: pip list",
    )
