"""The faults ralph can meet, each with the exit code and the next step it leads to.

    RalphError(message, hint)     1   caught once, in cli
    ├─ UsageError                 2   bad flag, goal or setting, not a repository, dirty tree, lock held
    ├─ BlockedError               6   agent binary missing, a check required but absent
    ├─ RepoError                  1   git refused
    ├─ DiskError(path, error)     1   full, read-only, broken; at the start of a run 2
    ├─ StateError                 1   the run directory is of a newer version
    └─ QueueError                 1   the database of a queue does not answer any more
    Interrupted(signal)       128+n   SIGINT 130, SIGTERM 143, SIGHUP 129

Anything else that escapes is a bug: exit 3. How a session ended is not a fault but a value: see `failures`.
"""

import errno
from collections.abc import Callable


class RalphError(Exception):
    """A fault with a message for the user and, where one exists, the next step."""

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    @property
    def whole(self) -> str:
        """All of it in one line."""
        return f"{self.message} ({self.hint})" if self.hint else self.message


class UsageError(RalphError):
    """The user asked for something that cannot be: nothing was started, nothing written."""

    exit_code = 2


class BlockedError(RalphError):
    """Only the user can clear the way."""

    exit_code = 6


class RepoError(RalphError):
    """git refused."""


class DiskError(RalphError):
    """A file cannot be read or written."""

    def __init__(self, path: object, error: OSError) -> None:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        hint = (
            "free some space, then run this again: it goes on where it was"
            if full
            else "mend that, then run this again"
        )
        super().__init__(f"{path}: {error.strerror or error}", hint)


class StateError(RalphError):
    """The run directory cannot be believed."""


class QueueError(RalphError):
    """The database of a queue cannot be read or written any more."""


class Interrupted(BaseException):
    """A signal asked ralph to end; not an `Exception`, so that nothing on the way swallows it."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal_number)
        self.signal_number = signal_number

    @property
    def exit_code(self) -> int:
        return 128 + self.signal_number

    @property
    def name(self) -> str:
        return {1: "SIGHUP", 2: "Ctrl-C (SIGINT)", 15: "SIGTERM"}.get(
            self.signal_number, f"signal {self.signal_number}"
        )


BUG = 3
_UNWRITABLE = 1


def exit_code_of(error: Exception) -> int:
    """What ralph ends with when this escapes: a fault has its own, an `OSError` that nobody named is stdout's."""
    if isinstance(error, RalphError):
        return error.exit_code
    return _UNWRITABLE if isinstance(error, OSError) else BUG


def fault_of(work: Callable[[], object]) -> Exception | None:
    """Do some work and return the exception it raised.

    For work whose faults must end nothing else: a thread's, which nobody else would see, and a screen's.
    """
    try:
        work()
    except Exception as error:  # a boundary: the caller reports it, raises it elsewhere, or goes on without the work
        return error
    return None
