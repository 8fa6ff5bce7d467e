"""Reasons and next steps: values that code compares and screens put into words."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from ralph.core import ndjson
from ralph.core.records import NotARecord, from_record


class Cause(StrEnum):
    """The kind of a reason. Each has the facts for its line, which `dashboard/reasons` writes."""

    OTHER = "other"
    """Text from elsewhere: only `said` is set."""
    CANCELLED = "cancelled"
    STOPPED = "stopped"
    """Somebody stopped the worker. `detail`: how far the goal had come."""
    CUT_OFF = "cut off"
    """The worker was killed, and the queue is paused."""
    OUT_OF_SCOPE = "out of scope"
    """The worker was killed, and the next one works on other repositories."""
    BUG = "bug"
    """`detail` is the exception, `place` the file with its traceback."""
    LIMIT = "limit"
    """A limit of the goal itself; `limit` names the flag that raises it, if known."""
    STALLED = "stalled"
    """Its run got nowhere; `said` has the words of the run."""
    BUDGET = "budget"
    """The budget of all goals: `used` out of `most` for the flag `limit`."""
    SHARE = "share"
    """The goal has used its share of the budget."""
    TOO_LATE = "too late"
    """The goal cannot continue within the budget's time; the account `who` waits until `until`."""
    QUOTA = "quota"
    """No goal of the account `who` starts before `until`."""
    REFUSED_ACCOUNT = "refused account"
    """The account `who` was refused; the goal `place` reported it."""
    UNPROVEN = "unproven"
    """The work has no proof (`detail`). It stays on `branch`; only --merge-unproven merges it."""
    UNREACHABLE = "unreachable"
    """The repository does not answer (`detail`); ralph retries."""
    REMOTE_AWAY = "remote away"
    """A merge waits for its remote (`detail`)."""
    KEPT = "kept"
    """The work is on `branch` in the mirror `place`."""
    PUSHED = "pushed"
    """The work is on `branch` of the upstream repository; `detail` names its pull request, if there is one."""
    MERGED = "merged"
    """The work is on `branch`; `paths`: files in it that a person should look at."""
    MERGED_EARLIER = "merged earlier"
    """The same, by a worker that ended before it could record it."""
    UNDONE = "undone"
    """`commit` removed the work, merged as `detail`, from `branch`; without one, none of it was there."""
    NOTHING = "nothing"
    """The work changes no file."""
    CONFLICTS = "conflicts"
    """The work conflicts with `branch` in `paths`. In a remark: the merge `commit` left them to the agent."""
    RED = "red"
    """The check failed on a clean checkout of the merged work (`detail`)."""
    TAMPERED = "tampered"
    """The work changes `paths`, which are part of its check."""
    MARKERS = "markers"
    """Conflict markers are left in `paths`."""
    SENSITIVE = "sensitive"
    """The work adds `paths`, which look like secrets."""
    OFFLINE = "offline"
    """The remote does not answer (`detail`): goals use what was fetched before, and their merges wait."""
    DIRTY_CHECKOUT = "dirty checkout"
    """The repository `place` has `branch` checked out with changes in `paths`, so nothing can be merged there."""
    NO_CHECK = "no check"
    """The repository `place` has no check on `branch`, so the work of its goals stays unproven."""
    OTHER_BASE = "other base"
    """Work is merged to `branch` of the repository `place`, which is not the usual branch."""
    UNKNOWN_USE = "unknown use"
    """The agent `who` does not report `paths` ("cost", "tokens"), so limits on them cannot stop it."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why something is in its state. Code compares the cause and its facts, never words."""

    said: str = field(default="", metadata={"key": "line"})
    """The line from git, a run or an earlier ralph; if empty, `dashboard/reasons` writes it from the facts."""
    cause: Cause = Cause.OTHER
    limit: str = ""
    detail: str = ""
    branch: str = ""
    place: str = ""
    who: str = ""
    commit: str = ""
    paths: tuple[str, ...] = ()
    used: float = 0.0
    most: float = 0.0
    until: float = 0.0
    iterations: int = 0
    """Of a failed attempt: how many iterations its run had used by then, failed sessions included."""

    def __bool__(self) -> bool:
        return self != NO_REASON


NO_REASON = Reason()


def recorded_reason(record: Mapping[str, object]) -> Reason:
    """Read a recorded reason; for an unknown cause, keep its text."""
    try:
        return from_record(Reason, record)
    except NotARecord:
        return Reason(ndjson.text(record.get("line")))


_EARLIER = (("limit reached: ", Cause.LIMIT), ("kept as ", Cause.KEPT), ("pushed as ", Cause.PUSHED))


def earlier_reason(line: str) -> Reason:
    """Read a reason that is only a line of text, as in queues up to version 4 and their steps."""
    if line == "cancelled":
        return Reason(line, Cause.CANCELLED)
    if line.endswith("; trying again"):
        return Reason(line, Cause.UNREACHABLE)
    if line.endswith("; --merge-unproven merges it"):
        return Reason(line, Cause.UNPROVEN)
    return Reason(line, next((cause for begin, cause in _EARLIER if line.startswith(begin)), Cause.OTHER))


@dataclass(frozen=True, slots=True)
class NextStep:
    """A next step for the user: words, a command of `ralph-runs`, and words after it.

    The command is a list of words: each screen adds the queue, or shows a key instead.
    """

    lead: str
    command: tuple[str, ...] = ()
    follow: str = ""

    def written(self, flag: str = "") -> str:
        return self.lead + command_line(self.command, flag) + self.follow


def written(steps: Iterable[NextStep], flag: str = "") -> str:
    """Write the steps one after the other; `flag` names the queue in each command."""
    return "".join(step.written(flag) for step in steps)


def command_line(command: Sequence[str], flag: str = "") -> str:
    """Write a command of `ralph-runs` with its queue, because ids are unique only within one."""
    return " ".join([f"ralph-runs {command[0]}{flag}", *command[1:]]) if command else ""
