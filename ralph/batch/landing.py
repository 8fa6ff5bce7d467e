"""What came of bringing a goal's work to where it belongs, in the words of the queue."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum

from ralph.core import ndjson
from ralph.queue.engine import Record
from ralph.queue.merge import pipeline


class Landed(StrEnum):
    """What a merge means for its goal."""

    DONE = "done"
    FAILED = "failed"
    """The work must change: another attempt."""
    HELD = "held"
    """The work is good, but something stands in its way that only the user can clear."""
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Landing:
    """What a merge means for its goal, in a line, and what the next attempt needs to know."""

    what: Landed
    reason: str
    log: str = ""

    def record(self) -> Record:
        return asdict(self)


def recorded_landing(record: Record) -> Landing:
    """Read back what `Landing.record` wrote."""
    text = ndjson.text
    return Landing(Landed(text(record.get("what"))), text(record.get("reason")), text(record.get("log")))


def landing_of(outcome: pipeline.Outcome, base: str) -> Landing:
    """Say what an outcome means."""
    match outcome:
        case pipeline.Merged(_, how):
            return Landing(Landed.DONE, how)
        case pipeline.Nothing(_):
            return Landing(Landed.DONE, "nothing to merge: the work changes no file")
        case pipeline.Conflict(paths, log):
            files = _few(paths)
            said = f"The work conflicts with what is on {base} by now:\n{log}"
            return Landing(Landed.FAILED, f"conflicts with {base}: {files}", said)
        case pipeline.Red(how, output):
            said = f"The check is red on a clean checkout of the work merged with {base}:\n{output}"
            return Landing(Landed.FAILED, f"the check is red on a clean checkout ({how})", said)
        case pipeline.Tampered(paths):
            files = ", ".join(paths)
            said = f"The work changes {files}, which judges it and is not the agent's to change. Leave it as it is."
            return Landing(Landed.FAILED, f"changes {files}, which is not the agent's", said)
        case pipeline.Unresolved(paths):
            files = _few(paths)
            said = f"Conflict markers are left in {files}: resolve them, so that what both sides intended holds."
            return Landing(Landed.FAILED, f"conflict markers are left in {files}", said)
        case pipeline.Sensitive(paths):
            files = _few(paths)
            said = (
                f"The work adds {files}, which looks like a secret, and nothing that does is pushed."
                " Take it out of the working tree and commit that, or name it otherwise if it is none."
            )
            return Landing(Landed.FAILED, f"adds what looks like a secret: {files}", said)
        case pipeline.Refused(reason, by_rule):
            return Landing(Landed.FAILED if by_rule else Landed.HELD, reason)
        case pipeline.OutOfReach(reason):
            return Landing(Landed.HELD, reason)
        case pipeline.Stopped():
            return Landing(Landed.STOPPED, "stopped before it was merged")


def _few(paths: Sequence[str]) -> str:
    return ", ".join(paths[:5]) + (f" and {len(paths) - 5} more" if len(paths) > 5 else "")
