"""What other packages add to ralph: agents and transcripts, by entry points. Ours come first, and are found faster."""

from collections.abc import Callable, Mapping
from typing import cast

from ralph.agents.base import Runner
from ralph.core.errors import BlockedError, RalphError
from ralph.runners import AGENTS, FindRunner
from ralph.runners.options import AgentOptions
from ralph.transcripts import TRANSCRIPTS
from ralph.transcripts.base import Transcript
from ralph.transcripts.foreign import ForeignTranscript

RUNNERS_GROUP = "ralph.runners"
TRANSCRIPTS_GROUP = "ralph.transcripts"


def agent_names() -> list[str]:
    """Every agent that can be chosen."""
    return _names(AGENTS, RUNNERS_GROUP)


def transcript_names() -> list[str]:
    """Every transcript that can be chosen."""
    return _names(TRANSCRIPTS, TRANSCRIPTS_GROUP)


def find_runner(agent: str, options: AgentOptions, env: Mapping[str, str]) -> Runner:
    """Find an agent, one of ours or another package's."""
    if agent in AGENTS:
        return AGENTS[agent](options, env)
    find = cast("FindRunner", _load(RUNNERS_GROUP, agent))
    try:
        runner = find(options, env)
    except RalphError:
        raise
    except Exception as error:  # whatever another package raises
        raise _unusable(RUNNERS_GROUP, agent, error) from error
    if missing := [name for name in _RUNNER_PARTS if not hasattr(runner, name)]:
        raise _unusable(RUNNERS_GROUP, agent, TypeError(f"its runner lacks {', '.join(missing)}"))
    return runner


def find_transcript(name: str) -> Callable[[], Transcript]:
    """Find a transcript, one of ours or another package's."""
    if name in TRANSCRIPTS:
        return TRANSCRIPTS[name]
    make = cast("Callable[[], Transcript]", _load(TRANSCRIPTS_GROUP, name))
    try:
        ForeignTranscript(make())
    except Exception as error:  # whatever another package raises
        raise _unusable(TRANSCRIPTS_GROUP, name, error) from error
    return lambda: ForeignTranscript(make())


_RUNNER_PARTS = (
    "path", "transcript", "reply", "required_tool", "permissions", "notice", "model", "launch", "follow_up",
    "interrupt",
)  # fmt: skip


def _names(ours: Mapping[str, object], group: str) -> list[str]:
    from importlib.metadata import entry_points  # 20 ms that only a strange name is worth

    return [*ours, *sorted({point.name for point in entry_points(group=group)} - set(ours))]


def _load(group: str, name: str) -> object:
    from importlib.metadata import entry_points

    points = list(entry_points(group=group, name=name))
    if not points:
        raise BlockedError(f"no package has {name!r} among its entry points of the group {group}")
    try:
        return points[0].load()
    except Exception as error:  # whatever another package raises
        raise _unusable(group, name, error) from error


def _unusable(group: str, name: str, error: Exception) -> BlockedError:
    return BlockedError(
        f"{name}, an entry point of the group {group}, cannot be used: {type(error).__name__}: {error}",
        "mend or remove the package that brings it; `pip list` names those that are installed",
    )
