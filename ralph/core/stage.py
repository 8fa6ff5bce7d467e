"""A stage of a pipeline: a file with a task, and with what its agent may do and use."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ralph.core.errors import UsageError
from ralph.core.goal import goal_name, split_front_matter
from ralph.core.run import message_body, subject_of
from ralph.core.usage import Spend
from ralph.core.verdict import Answer

SETTINGS: Mapping[str, str] = {
    "agent": "agent",
    "model": "model",
    "reasoning": "reasoning",
    "tools": "modes.worker.tools",
    "permission_mode": "agents.claude.permission_mode",
    "sandbox": "agents.codex.sandbox",
    "timeout": "iteration_timeout",
    "max_cost": "max_iteration_cost",
    "max_tokens": "max_iteration_tokens",
}
"""Keys of a stage's front matter, and the setting that each decides. `title` is a key as well."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage, as its file says it."""

    name: str
    path: Path
    title: str
    task: str
    settings: Mapping[str, object]


def parse_stage(text: str, path: Path) -> Stage:
    """Read a stage, or say what is wrong."""
    name = goal_name(path.stem)
    if not name:
        raise UsageError(f"{path}: the file name needs at least one letter a-z or digit 0-9", "rename the file")
    front_matter, task = split_front_matter(text.removeprefix("\ufeff"), path, ("title", *SETTINGS))
    if not task.strip():
        raise UsageError(f"{path}: the stage has no task", "describe the task below the front matter")
    settings = {SETTINGS[key]: value for key, value in front_matter.items() if key in SETTINGS}
    return Stage(name, path, " ".join(str(front_matter.get("title") or name).split()), task.strip(), settings)


def stage_message(stage: Stage, *, number: int, total: int, pipe: str, answer: Answer, spend: Spend) -> str:
    """Write the message of a stage's commit; cost and tokens are the pipeline's, cumulative."""
    trailers = {
        "Ralph-Pipe": pipe,
        "Ralph-Stage": f"{number}/{total} {stage.name}",
        "Ralph-Cost-USD": repr(round(spend.cost_usd, 12)) if spend.costed else "unknown",
        "Ralph-Tokens": str(spend.tokens) if spend.knows_tokens else "unknown",
    }
    lines = "".join(f"{key}: {value}\n" for key, value in trailers.items())
    return f"{subject_of(number, total, answer)}\n\n{message_body(answer.summary)}\n\n{lines}"
