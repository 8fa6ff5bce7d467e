"""The guardian: a small process between ralph and a child, which outlives ralph by as long as it takes to end the tree.

It is a subreaper, so whatever the child starts, however it detaches, becomes the guardian's own child in the end: no
child means no descendant. It ends the tree when told to, and when its socket to ralph closes, which the kernel does for
a ralph killed with -9. As a fork it shares ralph's lock on the working tree, and so keeps it until the tree is dead.
"""

import contextlib
import ctypes
import functools
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType

import psutil

from ralph.errors import BlockedError

_STARTED, _SWEEP, _SWEPT = b"started", b"sweep", b"swept"
_EXIT = b"exit "
_MOST_BYTES = 4096
_SWEEP_LIMIT = 10.0

Streams = tuple[int, int, int]
"""Descriptors for stdin, stdout and stderr."""


class StartError(BlockedError):
    """The program could not be started."""


class Guardian:
    """Ralph's end: one program under guard. It can be signalled, its exit is heard of, its tree swept."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        environment: Mapping[str, str],
        streams: Streams,
        not_theirs: Sequence[int],
    ) -> None:
        """Start `argv` on `streams`; `not_theirs` are ralph's ends of them, which must not stay open elsewhere."""
        _become_subreaper()  # should the guardian be killed, ralph inherits the tree
        self._exit_code: int | None = None
        self._gone = False
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._pid = os.fork()
        if self._pid == 0:
            _guard(theirs, [self._socket.fileno(), *not_theirs], argv, cwd, environment, streams)
        theirs.close()
        answer = self._socket.recv(_MOST_BYTES)
        if answer != _STARTED:
            self.end()
            raise StartError(f"cannot start {argv[0]}: {answer.decode('utf-8', 'replace') or 'its guardian died'}")

    def poll(self) -> int | None:
        """The program's exit status, negative for a signal; None while it runs."""
        if self._exit_code is None:
            self._hear(timeout=0)
        return self._exit_code

    def wait(self, timeout: float) -> int | None:
        """Wait for the exit status, at most so long."""
        deadline = time.monotonic() + timeout
        while self._exit_code is None and not self._gone and (left := deadline - time.monotonic()) > 0:
            self._hear(left)
        return self._exit_code

    def signal(self, number: int) -> None:
        """Signal the program's process group, if it still runs."""
        self._say(str(int(number)).encode())

    def end(self) -> None:
        """End the tree: when this returns, nothing of it is left."""
        self._say(_SWEEP)
        deadline = time.monotonic() + _SWEEP_LIMIT
        while not self._gone and (left := deadline - time.monotonic()) > 0:
            self._hear(left)
        self._socket.close()
        self._gone = True
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._pid, 0)
        sweep()

    def _say(self, word: bytes) -> None:
        with contextlib.suppress(OSError):
            self._socket.send(word)

    def _hear(self, timeout: float) -> None:
        if self._gone or not select.select([self._socket], [], [], timeout)[0]:
            return
        try:
            word = self._socket.recv(_MOST_BYTES)
        except OSError:
            word = b""
        if word.startswith(_EXIT):
            self._exit_code = int(word.removeprefix(_EXIT))
        elif word in (_SWEPT, b""):
            self._gone = True
            if self._exit_code is None:  # swept, or its guardian was killed: ralph cannot know more
                self._exit_code = -signal.SIGKILL


def _guard(
    control: socket.socket,
    not_ours: Sequence[int],
    argv: Sequence[str],
    cwd: Path,
    environment: Mapping[str, str],
    streams: Streams,
) -> None:
    """The guardian's whole life; it never returns."""
    try:
        for descriptor in not_ours:
            os.close(descriptor)
        os.setsid()
        _become_subreaper()
        woken = _wake_on_signals()
        child = _start(control, argv, cwd, environment, streams)
        if child is not None:
            _watch(control, woken, child)
            sweep()
            control.send(_SWEPT)
    except OSError:  # ralph is gone in the middle of a word
        sweep()
    finally:
        os._exit(0)


def _wake_on_signals() -> socket.socket:
    """Give every signal that could end or must wake the guardian a handler that only wakes it.

    Not SIG_IGN: what is ignored here would stay ignored in the child.
    """
    woken, waker = socket.socketpair()
    for end in (woken, waker):
        end.setblocking(False)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
        if number is not signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:  # nohup is for all of us
            signal.signal(number, _do_nothing)
    signal.set_wakeup_fd(waker.detach(), warn_on_full_buffer=False)
    return woken


def _do_nothing(_number: int, _frame: FrameType | None) -> None: ...


def _start(
    control: socket.socket, argv: Sequence[str], cwd: Path, environment: Mapping[str, str], streams: Streams
) -> "subprocess.Popen[bytes] | None":
    stdin, stdout, stderr = streams
    try:
        child = subprocess.Popen(
            argv, cwd=cwd, env=dict(environment), stdin=stdin, stdout=stdout, stderr=stderr, start_new_session=True
        )
    except (OSError, ValueError) as error:  # ValueError: a NUL in an argument
        control.send(str(getattr(error, "strerror", None) or error).encode("utf-8", "replace"))
        return None
    for descriptor in set(streams):
        os.close(descriptor)
    control.send(_STARTED)
    return child


def _watch(control: socket.socket, woken: socket.socket, child: "subprocess.Popen[bytes]") -> None:
    """Pass signals on and the exit status back, until ralph wants the tree ended or is gone."""
    told = False
    while True:
        if not told and (status := child.poll()) is not None:
            told = True
            control.send(_EXIT + str(status).encode())
        ready, _, _ = select.select([control, woken], [], [])
        if woken in ready:
            woken.recv(_MOST_BYTES)
        if control in ready:
            word = control.recv(_MOST_BYTES)
            if word in (_SWEEP, b""):
                return
            if child.poll() is None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(child.pid, int(word))


def sweep() -> None:
    """Kill every descendant of this process; the children among them are buried."""
    deadline = time.monotonic() + _SWEEP_LIMIT
    while _has_children() and time.monotonic() < deadline:
        for orphan in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.Error):
                orphan.kill()
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.002)


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


_PR_SET_CHILD_SUBREAPER = 36


def _become_subreaper() -> None:
    if sys.platform == "linux":
        _libc().prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
