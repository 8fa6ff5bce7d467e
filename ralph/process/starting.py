"""Start programs so that Ctrl-Z at that very moment still gives the shell its terminal back.

`subprocess` starts a program by vfork: until the child has become the program, the thread that asked can neither go on
nor be stopped. The child is in ralph's process group until it has a session of its own, so Ctrl-Z stops it, too. Ralph
would then wait for the child and the shell for ralph, for ever.
"""

import contextlib
import os
import signal
from collections.abc import Generator


@contextlib.contextmanager
def deaf_to_ctrl_z() -> Generator[None]:
    """Keep SIGTSTP from a program that is started here; other threads still take it for ralph.

    The program keeps it blocked. It has a session of its own, in which the kernel would stop it for no Ctrl-Z anyway.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTSTP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def hear_ctrl_z() -> None:
    """Unblock SIGTSTP in a ralph that another one has started, so that its agent inherits nothing unusual."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTSTP})


def user_to_fork_for() -> int:
    """Return the `user` with which `subprocess` forks, for programs that a library starts and then waits for.

    To run as a named user rules vfork out, also if it is the same one. To fork takes some milliseconds more.
    """
    return os.geteuid()
