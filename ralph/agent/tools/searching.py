"""A search in a process of its own: it ends with its time, or with the session."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ralph.agent.tools.base import Desk
from ralph.agent.tools.search import TIME_LIMIT, SearchTimeoutError
from ralph.process import Child, Guardian

_POLL = 0.1


@dataclass(frozen=True, slots=True)
class Searched:
    exit_code: int | None
    complaints: str


def run_search(argv: Sequence[str], desk: Desk, hear: Callable[[bytes], None], *, said: bytes = b"") -> Searched:
    """Start the program, say `said` to it, and hear it out line by line."""
    log = desk.place_for_output("grep")
    complaints = log.with_suffix(".err")
    deadline = time.monotonic() + TIME_LIMIT
    try:
        with (
            Guardian() as guardian,
            Child(
                argv,
                guardian=guardian,
                cwd=desk.cwd,
                environment=desk.environment,
                stdout_log=log,
                stderr_log=complaints,
            ) as child,
        ):
            child.say(said)
            while (batch := child.read(_POLL)) is not None:
                for line in batch:
                    if isinstance(line, bytes):  # else it is longer than anything that is shown
                        hear(line)
                if desk.stop.is_set() or time.monotonic() > deadline:
                    raise SearchTimeoutError
            return Searched(child.exit_code, child.stderr_tail)
    finally:
        log.unlink(missing_ok=True)
        complaints.unlink(missing_ok=True)
