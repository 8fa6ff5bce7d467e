"""Start, feed, read and stop one child and its tree: the only place that knows of subprocesses, signals and threads.

A child lives in a session of its own. Three daemon threads only move bytes between its pipes and queues; the caller's
thread blocks in `read`, where deadlines and due steps of a stop are looked after as well. What a child leaves running
is re-parented to ralph (a subreaper, on Linux) and swept.
"""

import contextlib
import ctypes
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import FrameType, TracebackType
from typing import IO, BinaryIO

import psutil

from ralph.errors import BlockedError
from ralph.lines import LineSplitter, Oversized

FINISH_GRACE = 10.0
"""Seconds an agent has to leave after its result: 2.1.325 waits for its background tasks, without end."""

_STOP = ((2.0, signal.SIGINT), (4.0, signal.SIGTERM), (7.0, signal.SIGKILL))
"""Seconds after the soft request at which each harder one follows."""

_CHUNK = 1 << 20
_STDERR_TAIL = 8192
_PIPE_HELD = 0.3
"""Seconds after the child's exit during which its pipe may stay open before the holder is looked for."""

_PIPE_LOST = 3.0
"""Seconds after the child's exit at which an open pipe is given up."""

_EXIT_WAIT = 2.0
_SWEEP_LIMIT = 5.0
_JOIN_LIMIT = 1.0


class StartError(BlockedError):
    """The program could not be started."""


class Child:
    """One running child. Use as a context manager: leaving it ends the tree, whatever happened."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        environment: Mapping[str, str],
        stdout_log: Path,
        stderr_log: Path | None,
    ) -> None:
        """Start `argv`; its stdout is logged raw before it can be read. Without `stderr_log` stderr joins stdout."""
        _become_subreaper()
        talks = stderr_log is not None
        logs = [_create_log(path) for path in (stdout_log, stderr_log) if path is not None]
        try:
            self._process = subprocess.Popen(
                argv,
                cwd=cwd,
                env=dict(environment),
                stdin=subprocess.PIPE if talks else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE if talks else subprocess.STDOUT,
                bufsize=0,
                start_new_session=True,
            )
        except OSError as error:
            for log in logs:
                log.close()
            raise StartError(f"cannot start {argv[0]}: {error.strerror or error}") from error
        self._inbox: queue.Queue[list[bytes | Oversized] | Exception | None] = queue.Queue(maxsize=8)
        self._outbox: queue.Queue[bytes | None] = queue.Queue()
        self._stderr = b""
        self._last_byte = time.monotonic()
        self._ended = False
        self._exited_at: float | None = None
        self._due: deque[tuple[float, Callable[[], None]]] = deque()
        self._pumps = self._start_pumps(logs)

    def __enter__(self) -> "Child":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        self._ended = True
        self._outbox.put(None)
        sweep()
        for pump in self._pumps:
            self._drain()
            pump.join(_JOIN_LIMIT)

    @property
    def exit_code(self) -> int | None:
        """The exit status, negative for a signal; None while it runs."""
        return self._process.poll()

    @property
    def idle_seconds(self) -> float:
        """Seconds since the child last wrote anything."""
        return time.monotonic() - self._last_byte

    @property
    def stderr_tail(self) -> str:
        return self._stderr.decode("utf-8", "replace")

    def say(self, data: bytes) -> None:
        """Write to the child's stdin, without waiting for it to read."""
        self._outbox.put(data)

    def read(self, timeout: float) -> list[bytes | Oversized] | None:
        """Return the lines that came within `timeout`, possibly none; None once the child is gone and read out."""
        if self._ended:
            return None
        while self._due and time.monotonic() >= self._due[0][0]:
            self._due.popleft()[1]()
        if self._due:
            timeout = min(timeout, max(self._due[0][0] - time.monotonic(), 0.0))
        if self._exited_for() > _PIPE_HELD:
            sweep()  # whoever holds the pipe of a child that is gone; then the end of the stream comes by itself
        try:
            batch = self._inbox.get(timeout=timeout)
        except queue.Empty:
            self._ended = self._exited_for() > _PIPE_LOST
            return None if self._ended else []
        if isinstance(batch, Exception):
            raise batch
        if batch is None:
            self._ended = True
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_EXIT_WAIT)  # the pipe closes a moment before the process is gone
        return batch

    def finish(self) -> None:
        """Let the child go: close its stdin, and stop it if it has not left in time."""
        self._outbox.put(None)
        self._schedule(FINISH_GRACE, self.stop)

    def stop(self, soft: bytes = b"") -> None:
        """End the child in steps, softest first; go on reading meanwhile. `soft` is said on stdin."""
        if soft:
            self.say(soft)
        self._due.clear()
        start = 0.0 if soft else _STOP[0][0]
        for after, number in _STOP:
            self._schedule(after - start, partial(self._signal, number))

    def kill(self) -> None:
        """End the child now."""
        self._due.clear()
        self._signal(signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=_SWEEP_LIMIT)

    def _exited_for(self) -> float:
        if self._exited_at is None and self._process.poll() is not None:
            self._exited_at = time.monotonic()
        return 0.0 if self._exited_at is None else time.monotonic() - self._exited_at

    def _schedule(self, after: float, step: Callable[[], None]) -> None:
        self._due.append((time.monotonic() + after, step))

    def _signal(self, number: int) -> None:
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)

    def _start_pumps(self, logs: Sequence[BinaryIO]) -> list[threading.Thread]:
        process = self._process
        work: list[Callable[[], None]] = []
        if process.stdout is not None:
            work.append(partial(self._pump_stdout, process.stdout, logs[0]))
        if process.stderr is not None:
            work.append(partial(self._pump_stderr, process.stderr, logs[1]))
        if process.stdin is not None:
            work.append(partial(self._pump_stdin, process.stdin))
        threads = [threading.Thread(target=pump, daemon=True) for pump in work]
        for thread in threads:
            thread.start()
        return threads

    def _pump_stdout(self, stream: IO[bytes], log: BinaryIO) -> None:
        splitter = LineSplitter()
        with stream, log:
            try:
                while chunk := os.read(stream.fileno(), _CHUNK):
                    self._last_byte = time.monotonic()
                    _write_all(log, chunk)  # the bytes are safe before anyone parses them
                    if lines := splitter.feed(chunk):
                        self._inbox.put(lines)
                if rest := splitter.flush():
                    self._inbox.put(rest)
                self._inbox.put(None)
            except OSError as error:
                self._inbox.put(error)

    def _pump_stderr(self, stream: IO[bytes], log: BinaryIO) -> None:
        with stream, log, contextlib.suppress(OSError):
            while chunk := os.read(stream.fileno(), _CHUNK):
                self._last_byte = time.monotonic()
                self._stderr = (self._stderr + chunk)[-_STDERR_TAIL:]
                _write_all(log, chunk)

    def _pump_stdin(self, stream: IO[bytes]) -> None:
        with contextlib.suppress(OSError), stream:  # the child may be gone, or never read
            while (data := self._outbox.get()) is not None:
                _write_all(stream, data)

    def _drain(self) -> None:
        """Make room for a pump that waits to deliver, so that its thread can end."""
        with contextlib.suppress(queue.Empty):
            while True:
                self._inbox.get_nowait()


def sweep() -> None:
    """Kill every descendant that is left. As a subreaper ralph inherits all orphans: no child means no descendant."""
    deadline = time.monotonic() + _SWEEP_LIMIT
    while _has_children() and time.monotonic() < deadline:
        for orphan in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.Error):
                orphan.kill()
        _reap()
        time.sleep(0.01)


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


_PR_SET_CHILD_SUBREAPER = 36


def _become_subreaper() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _create_log(path: Path) -> BinaryIO:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600), "ab", buffering=0)


def _write_all(stream: IO[bytes], data: bytes) -> None:
    """Write every byte: a raw write may be short, silently so on a full disk."""
    rest = memoryview(data)
    while rest:
        rest = rest[stream.write(rest) :]


class Signals:
    """The signals that asked ralph to end. They only leave a mark: who is busy finishes its step and looks."""

    def __init__(self) -> None:
        self._received: list[int] = []

    @property
    def first(self) -> int | None:
        return self._received[0] if self._received else None

    @property
    def count(self) -> int:
        return len(self._received)

    @contextlib.contextmanager
    def watched(self) -> Generator["Signals"]:
        """Receive SIGINT, SIGTERM and SIGHUP; a SIGHUP that was ignored at start (nohup) stays ignored."""
        numbers = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            numbers.append(signal.SIGHUP)
        before = {number: signal.signal(number, self._receive) for number in numbers}
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _receive(self, number: int, _frame: FrameType | None) -> None:
        self._received.append(number)
