"""Goals of a queue as programs read them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ralph.core.text import timestamp
from ralph.queue.gc import Holding
from ralph.queue.goals import BatchGoal, Comment, State
from ralph.queue.repos.remote import without_password


def row(goal: BatchGoal, *, cut_off: bool = False) -> dict[str, object]:
    """A goal in a list; `cut_off`: nobody serves its queue, whatever is said to be running there."""
    return {
        "id": goal.label,
        "name": goal.name,
        "title": goal.title,
        "repo": without_password(goal.repo),
        "state": goal.state,
        "reason": goal.reason,
        "cut_off": cut_off and goal.state is State.RUNNING,
        "attempts": goal.attempts,
        "priority": goal.priority,
        "after": [f"g{number}" for number in goal.after],
        "branch": goal.branch,
        "cost_usd": goal.known_cost,
        "tokens": goal.known_tokens,
        "iterations": goal.iterations,
        "seconds": goal.seconds,
    }


@dataclass(frozen=True, slots=True)
class Known:
    """All that is known of one goal."""

    goal: BatchGoal
    comments: Sequence[Comment]
    clone: Path | None
    mirror: Path | None
    """Where its branch is to be had, if it is there."""
    kept: Sequence[str]
    """The refs under which the mirror keeps what was only in a clone that is gone."""
    look: str
    """The command that lists them."""
    cut_off: bool
    paused: bool


def document(known: Known) -> dict[str, object]:
    """All that is known of one goal; a clone or mirror that is not there is empty."""
    goal = known.goal
    return {
        **row(goal, cut_off=known.cut_off),
        "path": goal.path,
        "body": goal.text,
        "starts": goal.starts,
        "merge": goal.merge,
        "settings": dict(goal.settings),
        "clone": str(known.clone or ""),
        "mirror": str(known.mirror or ""),
        "created_at": timestamp(goal.created_at),
        "updated_at": timestamp(goal.updated_at),
        "comments": [
            {"at": timestamp(comment.at), "author": comment.author, "text": comment.text} for comment in known.comments
        ],
        "kept": list(known.kept),
        "paused": known.paused,
    }


def clearing(found: Sequence[Holding], moved: int = 0, *, deleted: bool) -> dict[str, object]:
    """What `ralph-runs gc` found; `deleted`: what goes has gone, and the mirrors have taken over so many bytes."""
    return {
        "deleted": deleted,
        "bytes": sum(holding.size for holding in found if holding.goes),
        "moved": moved,
        "goes": [_holding(holding) for holding in found if holding.goes],
        "stays": [_holding(holding) for holding in found if not holding.goes],
    }


def _holding(holding: Holding) -> dict[str, object]:
    goal = holding.goal
    return {
        "path": str(holding.path),
        "what": holding.what,
        "goal": "" if goal is None else goal.label,
        "name": "" if goal is None else goal.name,
        "state": "" if goal is None else goal.state,
        "bytes": holding.size,
        "why": holding.why,
        "unsaved": [{"what": each.what, "items": list(each.items), "why": each.why} for each in holding.unsaved],
        "mirror": str(holding.mirror or ""),
        "kept": list(holding.kept),
    }
