"""Exit codes, and the faults that lead to them, each with the next step.

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
from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of ralph's programs; `ralph run` uses all of them."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    """Bad usage or input: nothing was started, nothing written."""
    BUG = 3
    LIMIT = 4
    STALLED = 5
    BLOCKED = 6
    """Only the user can fix this."""
    HANGUP = 129
    INTERRUPTED = 130
    TERMINATED = 143

    @classmethod
    def of_signal(cls, number: int) -> int:
        """Return the exit code for a program that any signal ended."""
        return 128 + number


SIGNALLED = frozenset({ExitCode.HANGUP, ExitCode.INTERRUPTED, ExitCode.TERMINATED})
"""Exit codes of a program that a signal stopped."""


class RalphError(Exception):
    """A fault with a message for the user and, where one exists, the next step."""

    exit_code = ExitCode.FAILED

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    @property
    def whole(self) -> str:
        """Return message and hint in one line."""
        return f"{self.message} ({self.hint})" if self.hint else self.message


class UsageError(RalphError):
    """The request is invalid: nothing was started or written."""

    exit_code = ExitCode.USAGE


class BlockedError(RalphError):
    """Only the user can fix this."""

    exit_code = ExitCode.BLOCKED


class RepoError(RalphError):
    """git refused."""


class DiskError(RalphError):
    """A file cannot be read or written."""

    def __init__(self, path: object, error: OSError) -> None:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        hint = (
            "free some disk space, then run this again; it continues where it stopped"
            if full
            else "fix that, then run this again"
        )
        super().__init__(f"{path}: {error.strerror or error}", hint)


class StateError(RalphError):
    """The run directory is unusable."""


class QueueError(RalphError):
    """The database of a queue is no longer readable or writable."""


class Interrupted(BaseException):
    """A signal asked ralph to end; not an `Exception`, so that nothing on the way swallows it."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal_number)
        self.signal_number = signal_number

    @property
    def exit_code(self) -> int:
        return ExitCode.of_signal(self.signal_number)


def exit_code_of(error: Exception) -> ExitCode:
    """Return the exit code for an uncaught exception; a bare `OSError` comes from stdout."""
    if isinstance(error, RalphError):
        return error.exit_code
    return ExitCode.FAILED if isinstance(error, OSError) else ExitCode.BUG


def fault_of(work: Callable[[], object]) -> Exception | None:
    """Call `work` and return the exception that it raised.

    For work whose faults must not end anything else, such as a thread's or a screen's.
    """
    try:
        work()
    except Exception as error:  # a boundary: the caller reports it, raises it elsewhere, or continues without the work
        return error
    return None
