"""The guardian: a small process between ralph and its children that outlives ralph just long enough to end them.

It is a subreaper, so whatever a child starts, however it detaches, becomes the guardian's own child in the end: no
child means no descendant. It ends the tree on request, and when its socket to ralph closes, which the kernel does for
a ralph killed with -9. As a fork it shares ralph's lock on the working tree, and so keeps it until the tree is dead.
One guardian serves a whole run: forking ralph costs more than everything else that a session needs.
"""

import contextlib
import ctypes
import functools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from ralph.core.errors import BlockedError

_START, _STARTED, _SWEEP, _SWEPT = b"start", b"started", b"sweep", b"swept"
_EXIT = b"exit "
_MOST_BYTES = 4096
_SWEEP_LIMIT = 10.0
_PATIENCE = _SWEEP_LIMIT + 2.0
"""Seconds that ralph waits for its guardian's answer."""

_MOMENT = 0.1
"""Seconds after which it makes sure that the guardian is not stopped."""

_LAST_SWEEPS = 6
"""When ralph is gone nobody waits, so the guardian goes on for a minute before it gives a tree up."""

Streams = tuple[int, int, int]
"""Descriptors for stdin, stdout and stderr."""

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


_spared: set[int] = set()


class StartError(BlockedError):
    """The program could not be started."""


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be started, and where."""

    argv: Sequence[str]
    cwd: str
    environment: Mapping[str, str]


class Guardian:
    """Ralph's end: one program at a time is under guard. It can be signalled, its exit is heard of, its tree ended."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self._pid = 0
        self._exit_code: int | None = None
        self._swept = True

    def __enter__(self) -> "Guardian":
        return self

    def __exit__(self, *_: object) -> None:
        self.end_tree()
        if self._socket is not None:
            self._bury()

    def wake(self) -> None:
        """Fork the guardian unless it lives: before ralph's ends of the pipes exist, which it must not hold open."""
        if self._socket is not None and select.select([self._socket], [], [], 0)[0]:
            self._bury()  # between two programs it has nothing to say: it was killed
        if self._socket is not None:
            return
        _become_subreaper()  # should the guardian be killed, ralph inherits the tree
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            try:
                pid = os.fork()
            except OSError as error:
                ours.close()
                raise StartError(
                    f"cannot start a process: {error.strerror}",
                    "check the process limit (ulimit -u) and what else is running",
                ) from error
            if pid == 0:
                ours.close()
                _guard(theirs)
        self._socket, self._pid = ours, pid

    def start(self, argv: Sequence[str], *, cwd: Path, environment: Mapping[str, str], streams: Streams) -> None:
        """Start `argv` on `streams`."""
        self._exit_code = None
        self._swept = False
        answer = self._ordered(Order(argv, str(cwd), environment), streams)
        if answer != _STARTED:
            self._swept = True
            if not answer:
                self._bury()
            why = (
                answer.decode("utf-8", "replace")
                or f"its guardian process ended, or did not answer within {_PATIENCE:.0f} s"
            )
            raise StartError(f"cannot start {argv[0]}: {why}")

    def poll(self) -> int | None:
        """The program's exit status, negative for a signal; None while it runs."""
        if self._exit_code is None:
            self._hear(timeout=0)
        return self._exit_code

    def wait(self, timeout: float) -> int | None:
        """Wait for the exit status, at most so long."""
        deadline = time.monotonic() + timeout
        while self._exit_code is None and not self._swept and (left := deadline - time.monotonic()) > 0:
            self._hear(left)
        return self._exit_code

    def signal(self, number: int) -> None:
        """Signal the program's process group, if it still runs."""
        self._say(str(int(number)).encode())

    def end_tree(self) -> None:
        """End the program and all that came of it: when this returns, nothing of it is left."""
        if self._swept:
            return
        self._say(_SWEEP)
        deadline = time.monotonic() + _PATIENCE
        while not self._swept and (left := deadline - time.monotonic()) > 0:
            self._hear(left)
        if not self._swept:  # the agent has ralph's rights, and may stop the guardian again and again
            self._bury()

    def _ordered(self, order: Order, streams: Streams) -> bytes:
        """Hand an order over; it may be longer than a message can be, so it travels in a file that has no name."""
        if self._socket is None:
            return b""
        with os.fdopen(os.memfd_create("order"), "w+b", buffering=0) as paper:
            paper.write(json.dumps([order.argv, order.cwd, order.environment]).encode())
            paper.seek(0)
            try:
                socket.send_fds(self._socket, [_START], [*streams, paper.fileno()])
                return self._socket.recv(_MOST_BYTES) if self._answers(self._socket, _PATIENCE) else b""
            except OSError:
                return b""

    def _say(self, word: bytes) -> None:
        if self._socket is not None:
            self._rouse()
            with contextlib.suppress(OSError):
                self._socket.send(word)

    def _answers(self, control: socket.socket, timeout: float) -> bool:
        """Wait for a word; who waits longer than a moment sees to it that it can come."""
        deadline = time.monotonic() + timeout
        while not select.select([control], [], [], min(max(deadline - time.monotonic(), 0), _MOMENT))[0]:
            if time.monotonic() >= deadline:
                return False
            self._rouse()
        return True

    def _rouse(self) -> None:
        """Wake a guardian that was stopped: else no word, and so no time limit and no Ctrl-C, would reach the agent."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGCONT)

    def _hear(self, timeout: float) -> None:
        if self._swept or self._socket is None or not self._answers(self._socket, timeout):
            return
        try:
            word = self._socket.recv(_MOST_BYTES)
        except OSError:
            word = b""
        if word.startswith(_EXIT):
            self._exit_code = int(word.removeprefix(_EXIT))
            return
        self._swept = True
        if self._exit_code is None:  # swept, or its guardian was killed: ralph cannot know more
            self._exit_code = -signal.SIGKILL
        if not word:
            self._bury()

    def _bury(self) -> None:
        """End the guardian, dead, stopped or out of work as it is. What it still guarded is ralph's now, and ends."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._pid:  # 0 would be ralph's own group
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(self._pid, signal.SIGKILL)
                os.waitpid(self._pid, 0)
        self._pid = 0
        self._swept = True
        sweep()


def _guard(control: socket.socket) -> None:
    """The guardian's whole life; it never returns."""
    try:
        os.setsid()
        _become_subreaper()
        _be_roused_when_ralph_dies()
        woken = _wake_on_signals()
        while received := _next_order(control):
            child = _start(control, *received)
            if child is not None:
                _watch(control, woken, child)
                sweep()
                control.send(_SWEPT)
    except OSError:  # ralph is gone in the middle of a word
        pass
    finally:
        for _ in range(_LAST_SWEEPS):
            sweep()
        os._exit(0)


def _next_order(control: socket.socket) -> tuple[Order, Streams] | None:
    """Wait for an order; None: ralph is gone. Words that come too late for the last program are passed over."""
    while True:
        word, descriptors, _, _ = socket.recv_fds(control, _MOST_BYTES, 4, socket.MSG_CMSG_CLOEXEC)
        if not word:
            return None
        if word == _START:
            stdin, stdout, stderr, paper = descriptors
            with os.fdopen(paper, "rb") as file:
                return Order(*json.loads(file.read())), (stdin, stdout, stderr)


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


def _start(control: socket.socket, order: Order, streams: Streams) -> "subprocess.Popen[bytes] | None":
    stdin, stdout, stderr = streams
    try:
        child = subprocess.Popen(
            order.argv, cwd=order.cwd, env=order.environment, stdin=stdin, stdout=stdout, stderr=stderr,
            start_new_session=True,
        )  # fmt: skip
    except (OSError, ValueError) as error:  # ValueError: a NUL in an argument
        control.send(str(getattr(error, "strerror", None) or error).encode("utf-8", "replace"))
        return None
    finally:
        for descriptor in streams:
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


def spare(pid: int) -> None:
    """Let a child of this process, which is no tree's, live on through sweeps."""
    _spared.add(pid)


def spare_no_more(pid: int) -> None:
    _spared.discard(pid)


def sweep() -> None:
    """Kill every descendant of this process: its children, then those they leave behind, which become its own."""
    deadline = time.monotonic() + _SWEEP_LIMIT
    while _has_children() and time.monotonic() < deadline:
        _kill_children()
        _reap_children()
        time.sleep(0.0005)


def _kill_children() -> None:
    """Newest first, and each as it is found: what forks and leaves at once would be gone after a look around.

    With its process group, which the kernel kills whole: nothing can be forked out of it. The group is of a
    session that was started for the child, so nobody else's process is in it.
    """
    ours = os.getpgrp()
    for pid, group in _children():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
            if group != ours:
                os.killpg(group, signal.SIGKILL)


def _reap_children() -> None:
    with contextlib.suppress(ChildProcessError):
        if not _spared:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        for pid, _ in _children() if _spared else ():  # a spared one is reaped by its starter
            os.waitpid(pid, os.WNOHANG)


def _children() -> Iterator[tuple[int, int]]:
    """Each child that is not spared, and its group, the newest first."""
    with os.scandir("/proc") as entries:
        pids = sorted((int(entry.name) for entry in entries if entry.name.isdigit()), reverse=True)
    for pid in pids:
        parent, group = _parent_and_group(pid)
        if parent == os.getpid() and pid not in _spared:
            yield pid, group


def _parent_and_group(pid: int) -> tuple[int, int]:
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:  # noqa: PTH123 - a Path takes as long as the kernel
            _, parent, group, _ = file.read(512).rpartition(b") ")[2].split(b" ", 3)
    except (OSError, ValueError):  # it is gone
        return 0, 0
    return int(parent), int(group)


def _has_children() -> bool:
    if _spared:
        return next(_children(), None) is not None
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _become_subreaper() -> None:
    if sys.platform == "linux":
        _libc().prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _be_roused_when_ralph_dies() -> None:
    """A guardian that the agent stopped would else keep agent and lock for ever."""
    if sys.platform == "linux":
        _libc().prctl(_PR_SET_PDEATHSIG, int(signal.SIGCONT), 0, 0, 0)


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
