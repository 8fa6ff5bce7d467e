"""What an attempt's agent is told beyond the goal: what went wrong before, and what the user has remarked on it."""

import re
from collections.abc import Sequence
from pathlib import Path

from ralph.batch.plan import MOST_ATTEMPTS
from ralph.core.goal import worded_anew
from ralph.core.text import both_ends
from ralph.queue.goals import BatchGoal, Comment

_LONGEST_LOG = 6_000
_LONGEST_REMARK = 4_000
_NOT_FOR_THE_RUN = ("repo", "branch", "after", "priority", "merge")
"""Keys of the front matter that the queue has heeded: the run stands in its clone already."""

_RETRY, _REMARKS = "## Retry context", "## Comments of the user"

RALPH, USER = "ralph", "user"

CONFLICTS = "The base branch was merged into the working tree."
"""How a remark on conflicts, for the next attempt to resolve, begins."""


def told(goal: BatchGoal, comments: Sequence[Comment]) -> str:
    """The goal file of an attempt."""
    more = "\n\n".join(part for part in (_retry_context(goal, comments), _remarks(comments)) if part)
    return worded_anew(goal.text, Path(goal.path), without=_NOT_FOR_THE_RUN, more=more)


def was_told(goal: BatchGoal, file: str) -> bool:
    """Tell whether this is the goal file of an attempt at the goal as it reads now."""
    text = told(goal, ())
    return file == text or file.startswith((f"{text}\n{_RETRY}\n", f"{text}\n{_REMARKS}\n"))


def _retry_context(goal: BatchGoal, comments: Sequence[Comment]) -> str:
    number = goal.attempts - goal.forgiven
    faults = [comment.text for comment in comments if comment.author == RALPH]
    if not faults or (number <= 1 and not goal.forgiven):
        return ""
    return f"""{_RETRY}

This is attempt {max(number, 1)} of {MOST_ATTEMPTS}. The working tree holds what the attempts before it have done:
do not start over, go on from there. This is how the last one ended:

{_fenced(both_ends(faults[-1], _LONGEST_LOG))}

Run the check. Fix what is red, even if it was red before you came. Never edit the check."""


def _remarks(comments: Sequence[Comment]) -> str:
    said = [both_ends(comment.text, _LONGEST_REMARK) for comment in comments if comment.author == USER]
    if not said:
        return ""
    return f"{_REMARKS}\n\n" + "\n\n".join(_fenced(text) for text in said[-10:])


def _fenced(text: str) -> str:
    """Quote text so that it cannot end its own quotation."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}text\n{text.strip()}\n{fence}"
