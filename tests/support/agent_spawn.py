"""The processes that the scripted agent starts: commands it waits for, and strays meant to outlive it.

Part of the scripted agent's own process: standard library only, and few of its modules, for start-up counts.
"""

# Importing pathlib takes start-up time.
# ruff: noqa: PTH104, PTH108, PTH110, PTH123

from __future__ import annotations

import os
import signal
import time

TYPE_CHECKING = False  # importing typing would take as long as all the rest
if TYPE_CHECKING:
    from io import BufferedRandom
    from typing import NoReturn

SECONDS = "300"  # a stray that no test ends is gone after that


def start_command(command: str, session_id: str) -> tuple[int, BufferedRandom]:
    """Start a shell command in a session of its own, as claude does; return its pid and the file it prints to."""
    # A file, not a pipe: a stray of the command holds a pipe open, and claude does not wait for that either.
    path = f"{os.environ.get('TMPDIR', '/tmp')}/scripted-agent-{os.getpid()}"
    output = open(path, "w+b")  # noqa: SIM115 - the caller closes it
    os.unlink(path)
    marks = {"CLAUDECODE": "1", "CLAUDE_CODE_SESSION_ID": session_id, "GIT_EDITOR": "true"}
    files = [
        (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, output.fileno(), 1),
        (os.POSIX_SPAWN_DUP2, output.fileno(), 2),
    ]
    argv = ["sh", "-c", command]
    return os.posix_spawn("/bin/sh", argv, {**os.environ, **marks}, file_actions=files, setsid=True), output


def spawn(pidfile: str, kind: str) -> None:
    """Start a stray and return once its pid stands in the file."""
    pid = os.fork()
    if pid == 0:
        _become_stray(pidfile, kind)
    if kind in ("double_fork", "stripped"):
        os.waitpid(pid, 0)
    while not os.path.exists(pidfile):
        time.sleep(0.001)


def _become_stray(pidfile: str, kind: str) -> NoReturn:
    if kind != "child":
        os.setsid()
    if kind in ("double_fork", "stripped") and os.fork():
        os._exit(0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN if kind == "ignore_term" else signal.SIG_DFL)
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 2) if kind == "holds_stdout" else (0, 1, 2):
        os.dup2(nothing, descriptor)
    with open(f"{pidfile}.new", "w") as file:
        file.write(str(os.getpid()))
    os.rename(f"{pidfile}.new", pidfile)
    os.execvpe("sleep", ["sleep", SECONDS], {"PATH": os.environ["PATH"]} if kind == "stripped" else dict(os.environ))
