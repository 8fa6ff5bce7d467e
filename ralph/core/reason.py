"""Why something is as it is, and what to do next: values that code compares, beside the line that people read."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ralph.core import ndjson


class Cause(StrEnum):
    """What a reason is about, as far as anything depends on it."""

    OTHER = "other"
    """Nothing depends on it: the line says all there is."""
    CANCELLED = "cancelled"
    LIMIT = "limit"
    """A limit of the goal's own; `limit` names the flag that raises it, where that is known."""
    BUDGET = "budget"
    """The budget of all goals together."""
    UNPROVEN = "unproven"
    """The work has no proof, and is only merged without one if the user wants that."""
    UNREACHABLE = "unreachable"
    """The repository does not answer, and is tried again."""
    KEPT = "kept"
    """The work is on a branch in the mirror."""
    PUSHED = "pushed"
    """The work is on a branch of the upstream repository, or proposed there."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why something is where it is. Code looks at the cause and its facts, never at the line."""

    line: str = ""
    cause: Cause = Cause.OTHER
    limit: str = ""

    def __bool__(self) -> bool:
        return self != NO_REASON

    def record(self) -> dict[str, str]:
        """All of it, to be written as JSON."""
        return {"cause": self.cause, "line": self.line, "limit": self.limit}


NO_REASON = Reason()


def recorded_reason(record: Mapping[str, object]) -> Reason:
    """Read back what `Reason.record` wrote; of a cause that this ralph does not know, the line alone."""
    cause, line, limit = (ndjson.text(record.get(name)) for name in ("cause", "line", "limit"))
    return Reason(line, Cause(cause), limit) if cause in list(Cause) else Reason(line)


_EARLIER = (("limit reached: ", Cause.LIMIT), ("kept as ", Cause.KEPT), ("pushed as ", Cause.PUSHED))


def earlier_reason(line: str) -> Reason:
    """Read a reason that was written when there was nothing but the line: queues up to version 4, and their steps."""
    if line == "cancelled":
        return Reason(line, Cause.CANCELLED)
    if line.endswith("; trying again"):
        return Reason(line, Cause.UNREACHABLE)
    if line.endswith("; --merge-unproven merges it"):
        return Reason(line, Cause.UNPROVEN)
    return Reason(line, next((cause for begin, cause in _EARLIER if line.startswith(begin)), Cause.OTHER))


@dataclass(frozen=True, slots=True)
class NextStep:
    """Something that the user can do: words that lead up to a command of `ralph-runs`, the command, and what follows.

    The command is kept as its words, each as it is typed: who shows it names the queue, or a key that does the same.
    """

    lead: str
    command: tuple[str, ...] = ()
    follow: str = ""

    def written(self, flag: str = "") -> str:
        return self.lead + command_line(self.command, flag) + self.follow


def written(steps: Iterable[NextStep], flag: str = "") -> str:
    """Steps in words, one after the other; `flag` names the queue in each command."""
    return "".join(step.written(flag) for step in steps)


def command_line(command: Sequence[str], flag: str = "") -> str:
    """A command of `ralph-runs` that names its queue: an id is another goal's in another one."""
    return " ".join([f"ralph-runs {command[0]}{flag}", *command[1:]]) if command else ""
