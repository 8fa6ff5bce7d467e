"""One child process and its pipes: started, fed, read, and stopped in steps.

The child has its own session, under a guardian. Three daemon threads only move bytes between its pipes and queues. The
caller's thread blocks in `read`, which also takes the due steps of a stop.
"""

import contextlib
import fcntl
import os
import queue
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from ralph.core.errors import DiskError
from ralph.core.ndjson import LineSplitter, Oversized
from ralph.system.files import open_to_append, write_all
from ralph.system.guardian import Guardian
from ralph.system.signals import SignalSafeQueue

FINISH_GRACE = 10.0
"""Seconds an agent has to leave after its result: 2.1.325 waits for its background tasks, without end."""

_STOP = ((2.0, signal.SIGINT), (4.0, signal.SIGTERM), (7.0, signal.SIGKILL))
"""Seconds after the soft request at which each harder one follows."""

_STOP_LIMIT = 8.0
"""Seconds after it at which a child that still is not gone is taken from its guardian, whatever holds that one up."""

_CHUNK = 1 << 20
_UNREAD = 8
"""Batches of lines that wait to be read, at most: then the child waits for its pipe."""

_WOKEN: list[bytes | Oversized] = []
_STDERR_TAIL = 8192
_PIPE_HELD = 0.3
"""Seconds after the child's exit during which its pipe may stay open before the holder is looked for."""

_PIPE_LOST = 3.0
"""Seconds after the child's exit at which an open pipe is given up."""

_EXIT_WAIT = 2.0
_JOIN_LIMIT = 1.0

_SUSPENDED = 1.5
"""Seconds between two looks at a child after which ralph itself must have been suspended."""


class Child:
    """One running child. Use as a context manager: leaving it ends the tree, whatever happened."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        guardian: Guardian,
        cwd: Path,
        environment: Mapping[str, str],
        stdout_log: Path,
        stderr_log: Path | None,
        talks: bool = True,
    ) -> None:
        """Start `argv`; its stdout is logged raw before it can be read. Without `stderr_log` stderr joins stdout.

        One that does not talk has nothing on its stdin.
        """
        self._guardian = guardian
        guardian.wake()
        log = open_to_append(stdout_log)
        pipes = _Pipes(talks=talks, complains=stderr_log is not None)
        with contextlib.ExitStack() as on_failure:
            on_failure.callback(log.close)
            on_failure.callback(pipes.close_ours)
            try:
                guardian.start(argv, cwd=cwd, environment=environment, streams=pipes.theirs)
            finally:
                pipes.close_theirs()
            on_failure.pop_all()
        self._inbox: SignalSafeQueue[list[bytes | Oversized] | Exception | None] = SignalSafeQueue()
        self._room = threading.Semaphore(_UNREAD)
        self._outbox: queue.Queue[bytes | None] = queue.Queue()
        self._stderr = b""
        self._complains = stderr_log is not None
        self._last_byte = time.monotonic()
        self._ended = False
        self._exited_at: float | None = None
        self._due: deque[tuple[float, Callable[[], None]]] = deque()
        self._last_look = self._last_byte
        self._pumps = self._start_pumps(pipes, log, stderr_log)

    def __enter__(self) -> "Child":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._due.clear()
        self._ended = True
        self._outbox.put(None)
        self._guardian.end_tree()
        for pump in self._pumps:
            self._drain()
            pump.join(_JOIN_LIMIT)

    @property
    def exit_code(self) -> int | None:
        """The exit status, negative for a signal; None while it runs."""
        return self._guardian.poll()

    @property
    def idle_seconds(self) -> float:
        """Seconds since the child last wrote anything; none while what it wrote waits to be read."""
        self._notice_suspension()
        return 0.0 if self._inbox.has_news else time.monotonic() - self._last_byte

    @property
    def stderr_tail(self) -> str:
        return self._stderr.decode("utf-8", "replace")

    def say(self, data: bytes) -> None:
        """Write to the child's stdin, without waiting for it to read."""
        self._outbox.put(data)

    def end_input(self) -> None:
        """Close the child's stdin, once all that was said is written."""
        self._outbox.put(None)

    def read(self, timeout: float) -> list[bytes | Oversized] | None:
        """Return the lines that came within `timeout`, possibly none; None once the child is gone and read out."""
        if self._ended:
            return None
        self._notice_suspension()
        while self._due and time.monotonic() >= self._due[0][0]:
            self._due.popleft()[1]()
        if self._due:
            timeout = min(timeout, max(self._due[0][0] - time.monotonic(), 0.0))
        if self._exited_for() > _PIPE_HELD:
            self._guardian.end_tree()  # and with it the process that still holds the pipe; then the stream ends
        try:
            batch = self._inbox.get(timeout=timeout)
            if batch is not _WOKEN:
                self._room.release()
        except queue.Empty:
            self._ended = self._exited_for() > _PIPE_LOST
            return None if self._ended else []
        if isinstance(batch, Exception):
            raise batch
        if batch is None:
            self._ended = True
            self._guardian.wait(_EXIT_WAIT)  # the pipe closes a moment before the process is gone
            if self._complains:
                self._pumps[-1].join(_PIPE_HELD)  # last words often are complaints, and come by another way
        return batch

    def wake(self) -> None:
        """Have `read` return at once; a signal handler may call this."""
        self._inbox.put(_WOKEN)

    def finish(self) -> None:
        """Let the child go: close its stdin, and stop it if it has not left in time."""
        self.end_input()
        self._schedule(FINISH_GRACE, self.stop)

    def stop(self, soft: bytes = b"") -> None:
        """End the child in steps, softest first, while reading continues. `soft` is written to stdin."""
        if soft:
            self.say(soft)
        self._due.clear()
        start = 0.0 if soft else _STOP[0][0]
        for after, number in _STOP:
            self._schedule(after - start, partial(self._guardian.signal, number))
        self._schedule(_STOP_LIMIT - start, self._guardian.end_tree)

    def kill(self) -> None:
        """End the child now."""
        self._due.clear()
        self._guardian.signal(signal.SIGKILL)
        if self._guardian.wait(_EXIT_WAIT) is None:
            self._guardian.end_tree()

    def _exited_for(self) -> float:
        if self._exited_at is None and self._guardian.poll() is not None:
            self._exited_at = time.monotonic()
        return 0.0 if self._exited_at is None else time.monotonic() - self._exited_at

    def _schedule(self, after: float, step: Callable[[], None]) -> None:
        self._due.append((time.monotonic() + after, step))

    def _notice_suspension(self) -> None:
        """Restart the idle clock if ralph itself did not run: a laptop that slept, a job that was stopped."""
        now = time.monotonic()
        if now - self._last_look > _SUSPENDED:
            self._last_byte = now
        self._last_look = now

    def _start_pumps(self, pipes: "_Pipes", log: BinaryIO, stderr_log: Path | None) -> list[threading.Thread]:
        work = [partial(self._pump_stdout, pipes.stdout, log)]
        if pipes.stdin is not None:
            work.append(partial(self._pump_stdin, pipes.stdin))
        if pipes.stderr is not None and stderr_log is not None:
            work.append(partial(self._pump_stderr, pipes.stderr, stderr_log))
        threads = [threading.Thread(target=pump, daemon=True) for pump in work]
        for thread in threads:
            thread.start()
        return threads

    def _pump_stdout(self, stream: BinaryIO, log: BinaryIO) -> None:
        splitter = LineSplitter()
        with stream, log:
            try:
                while chunk := os.read(stream.fileno(), _CHUNK):
                    self._last_byte = time.monotonic()
                    write_all(log, chunk)  # the bytes are safe before anyone parses them
                    if lines := splitter.feed(chunk):
                        self._deliver(lines)
                if rest := splitter.flush():
                    self._deliver(rest)
                self._deliver(None)
            except OSError as error:
                self._deliver(DiskError(log.name, error))

    def _deliver(self, batch: list[bytes | Oversized] | Exception | None) -> None:
        """Hand over to who reads, and wait while that one is behind."""
        self._room.acquire()
        self._inbox.put(batch)

    def _pump_stderr(self, stream: BinaryIO, path: Path) -> None:
        """Complaints are rare: their log is made when the first one comes."""
        with stream, contextlib.ExitStack() as held, contextlib.suppress(OSError, DiskError):
            log: BinaryIO | None = None
            while chunk := os.read(stream.fileno(), _CHUNK):
                self._last_byte = time.monotonic()
                self._stderr = (self._stderr + chunk)[-_STDERR_TAIL:]
                log = log or held.enter_context(open_to_append(path))
                write_all(log, chunk)

    def _pump_stdin(self, stream: BinaryIO) -> None:
        with contextlib.suppress(OSError), stream:  # the child may be gone, or never read
            while (data := self._outbox.get()) is not None:
                write_all(stream, data)

    def _drain(self) -> None:
        """Make room for a pump that waits to deliver, so that its thread can end."""
        with contextlib.suppress(queue.Empty):
            while True:
                self._inbox.get_nowait()
                self._room.release()


class _Pipes:
    """The pipes of a child: ours to read and write, theirs to hand over.

    One that is not talked to hears nothing; one that does not complain apart does so on its stdout.
    """

    def __init__(self, *, talks: bool, complains: bool) -> None:
        self.stdin: BinaryIO | None = None
        self.stderr: BinaryIO | None = None
        out_read, out_write = os.pipe()
        with contextlib.suppress(OSError, AttributeError):  # 1 MiB: nearly twice the throughput of the usual 64 KiB
            fcntl.fcntl(out_write, fcntl.F_SETPIPE_SZ, _CHUNK)
        self.stdout: BinaryIO = os.fdopen(out_read, "rb", buffering=0)
        if talks:
            in_read, in_write = os.pipe()
            self.stdin = os.fdopen(in_write, "wb", buffering=0)
        else:
            in_read = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        if complains:
            err_read, err_write = os.pipe()
            self.stderr = os.fdopen(err_read, "rb", buffering=0)
        else:
            err_write = out_write
        self.theirs = (in_read, out_write, err_write)

    def close_ours(self) -> None:
        for stream in self._ours():
            stream.close()

    def close_theirs(self) -> None:
        for descriptor in set(self.theirs):
            os.close(descriptor)

    def _ours(self) -> list[BinaryIO]:
        return [stream for stream in (self.stdin, self.stdout, self.stderr) if stream is not None]
