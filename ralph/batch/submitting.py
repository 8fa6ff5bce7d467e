"""What comes of a goal that is asked for: it is new, or it is there already and is brought up to date, or left."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ralph.core import ndjson
from ralph.core.errors import UsageError
from ralph.queue.goals import BatchGoal, State, Submission

_UPDATED = "updated"


@dataclass(frozen=True, slots=True)
class Taken:
    """What is to be done, in a word for the user, and what is written for it."""

    what: str
    new: bool = False
    changes: Mapping[str, object] = field(default_factory=dict[str, object])
    if_moved: str = ""
    """The word instead, if the goal is to come after others than before."""


def taken(asked: Submission, there: BatchGoal | None, state: State, *, alone: bool) -> Taken:
    """Decide; `there` is the latest goal of the same name in the same repository, if there is one.

    Nothing is done twice: what is done with the same text stays done. `alone`: no queue worker is at work, so whatever
    is said to be running was cut off.
    """
    said: dict[str, object] = {
        "title": asked.title,
        "text": asked.text,
        "path": asked.path,
        "repo": asked.repo,  # another spelling of the same, with another password say
        "priority": asked.priority,
        "merge": asked.merge,
        "settings": ndjson.encode(dict(asked.settings)),
        "trust_envrc": asked.trust_envrc,
        "agent": asked.agent,
    }
    if there is None:
        return Taken("added", new=True, changes=said)
    if there.state is State.DONE:
        done = there.text == asked.text  # with which model, or within which limits, does not make it another goal
        return Taken(_done_already(there)) if done else Taken("added", new=True, changes=said)
    same = (there.text, dict(there.settings)) == (asked.text, dict(asked.settings))
    wished, had = ((goal.priority, goal.merge, goal.trust_envrc) for goal in (asked, there))
    updated = not same or wished != had
    if there.state is State.RUNNING and same:
        kept = {name: said[name] for name in ("repo", "priority", "merge", "trust_envrc")}
        what = "goes on" if alone or there.cancelling else "running already"
        return Taken(what, changes={**kept, "cancelling": False})
    if there.state is State.RUNNING and not alone:
        raise UsageError(
            f"{asked.name} runs as {there.label}, with another text",
            f"cancel it first: ralph-runs cancel {there.label}; or add the new text as a comment",
        )
    if not same and there.unmerged is not None:  # what is to be merged was done for another text: that run is over
        said |= {"unmerged": None, "run": "", **there.closed()}
    if there.state is State.RUNNING:
        charged = there.attempts - (there.unmerged is None)
        said |= {"state": State.QUEUED, "starts": there.starts + 1, "attempts": charged, "cancelling": False}
        return Taken(_UPDATED, changes=said)
    if state is State.DRAFT:
        return Taken(_UPDATED if updated else "left as it is", changes=said, if_moved=_UPDATED)
    if there.state in (State.STUCK, State.CANCELLED):
        said |= {"state": State.QUEUED, "forgiven": there.attempts, "killed": 0, "reason": "", "cancelling": False}
        return Taken("queued again", changes=said)
    return Taken(_UPDATED if updated else "queued", changes=said | {"state": State.QUEUED}, if_moved=_UPDATED)


def _done_already(goal: BatchGoal) -> str:
    """What is said of a goal that is done; its work is not on the base branch if its mode was another than direct."""
    verb, _, rest = goal.reason.partition(" as ")
    return (
        f"done already; {verb} as {goal.branch}, not merged" if rest and verb in ("kept", "pushed") else "done already"
    )
