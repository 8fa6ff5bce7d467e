"""Children that cannot outlive their parent, however it ends: a queue worker's `ralph run` and `ralph check`.

The leash is the child's stdin, a pipe that the parent holds open and never writes to. The kernel closes it when the
parent ends, even by kill -9. The child waits for that and kills itself, and its guardian ends what the child started.
Nothing is forked here without an exec, so a parent with threads may start children, and no child holds another's leash.
"""

import contextlib
import os
import select
import signal
import stat
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from ralph.core import ndjson
from ralph.core.errors import DiskError, UsageError
from ralph.core.ndjson import LineSplitter, Oversized
from ralph.core.records import NotARecord, parse, to_record
from ralph.system.environ import FAULT_FILE
from ralph.system.files import open_to_append, replace_file
from ralph.system.guardian import StartError
from ralph.system.programs import deaf_to_ctrl_z, hear_ctrl_z

LEASH = "RALPH_LEASH"
"""The variable that makes a child follow its leash; its own children don't inherit it."""

_STDIN = "stdin"

_STOP = ((15.0, signal.SIGTERM), (25.0, signal.SIGKILL))
"""Seconds after the SIGINT at which each harder request follows: ralph takes 10 of them for an agent that will not end.

At the second request of any kind, ralph kills its agent at once.
"""

_CHUNK = 1 << 16
_LONGEST = 4 << 20
"""A longer line is passed over: what a parent acts on is short, and fifty children share its memory."""

_LISTEN = 0.5
"""Seconds between two looks whether a child that is listened to is to end."""

_LOOK = 1.0
"""Seconds between two looks at a child that says nothing: has it left, is a step of its stop due?"""

_PIPE_HELD = 1.0
"""Seconds after a child's exit at which an open pipe is given up."""

_PIPE_GUARDED = 15.0
"""The same for one that was killed: its guardian holds the pipe while it ends the tree, 12 s at most as a rule."""


_LEAVING = 15.0
"""Seconds that a child has to leave when its output has ended: without its exit code nobody knows what it came to.

As a rule that is a moment, but a busy machine may give it no processor for longer.
"""


class Leashed:
    """One child on its leash. Use as a context manager: leaving it ends the child, whatever happened.

    One thread reads; any may signal, stop or kill. There is no thread for it: who reads waits for the pipe itself.
    """

    def __init__(self, argv: Sequence[str], *, cwd: Path, environment: Mapping[str, str], stderr_log: Path) -> None:
        """Start `argv`, a ralph that follows its leash, in its own session; its stderr is appended to `stderr_log`.

        If a fault ends it, `read_fault` knows that by the name of the same file.
        """
        fault_file = _fault_file(stderr_log)
        fault_file.unlink(missing_ok=True)
        told = {LEASH: _STDIN, FAULT_FILE: str(fault_file.resolve())}
        with open_to_append(stderr_log) as complaints:
            try:
                with deaf_to_ctrl_z():
                    self._process = subprocess.Popen(
                        argv, cwd=cwd, env={**environment, **told}, bufsize=0, start_new_session=True,
                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=complaints,
                    )  # fmt: skip
            except (OSError, ValueError) as error:  # ValueError: a NUL in an argument
                why = getattr(error, "strerror", None) or error
                raise StartError(f"cannot start {argv[0]}: {why}") from error
        self._splitter = LineSplitter(_LONGEST)
        self._due: deque[tuple[float, int]] = deque()
        self._asking = threading.Lock()
        self._asked = False
        self._exited_at: float | None = None
        self._ended = False

    def __enter__(self) -> "Leashed":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        while self.read(_LOOK) is not None:  # the tree is ended when its guardian has let go of the pipe
            pass
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """The exit status, negative for a signal; None while it runs."""
        return self._process.poll()

    def read(self, timeout: float) -> list[bytes] | None:
        """Return the lines that came within `timeout`, possibly none; None once the child is gone and read out.

        This also takes the due steps of a stop, so reading must continue during a stop.
        """
        deadline = time.monotonic() + timeout
        while not self._ended:
            self._take_due_steps()
            left = max(deadline - time.monotonic(), 0.0)
            if self._comes_to_say(min(left, _LOOK)):
                if lines := self._heard():
                    return lines
            elif self._pipe_is_lost():
                self._ended = True
            elif left == 0.0:
                return []
        return None

    def lines(self, requests: Callable[[], int]) -> Iterator[bytes]:
        """Every line that the child prints until it ends; `requests`: whether it is to end soon (1), or now (2)."""
        while (lines := self.read(_LISTEN)) is not None:
            yield from lines
            asked = requests()
            if asked > 1:
                self.kill()
            elif asked:
                self.stop()

    def signal(self, number: int) -> None:
        """Signal the child, if it still runs; it alone, for the git that it has at work is to end its work."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    def stop(self) -> None:
        """End the child in steps, softest first, while reading continues. A second call changes nothing."""
        with self._asking:
            if self._asked:
                return
            self._asked, now = True, time.monotonic()
            self._due.extend((now + after, number) for after, number in _STOP)
        self.signal(signal.SIGINT)

    def kill(self) -> None:
        """End the child now; its guardian ends the tree."""
        self.signal(signal.SIGKILL)

    def _take_due_steps(self) -> None:
        while self._due and time.monotonic() >= self._due[0][0]:
            self.signal(self._due.popleft()[1])

    def _descriptor(self) -> int:
        return -1 if self._process.stdout is None else self._process.stdout.fileno()

    def _comes_to_say(self, timeout: float) -> bool:
        """Wait for something to read, or the end of it; not by select, which knows no descriptor beyond 1023."""
        waiting = select.poll()
        waiting.register(self._descriptor(), select.POLLIN)
        return bool(waiting.poll(timeout * 1000))

    def _heard(self) -> list[bytes]:
        chunk = os.read(self._descriptor(), _CHUNK)
        if not chunk:
            self._ended = True
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_LEAVING)
        lines = self._splitter.feed(chunk) if chunk else self._splitter.flush()
        return [line for line in lines if not isinstance(line, Oversized)]

    def _pipe_is_lost(self) -> bool:
        """Tell whether the child left so long ago that the holder of its pipe is not part of it."""
        status = self._process.poll()
        if status is None:
            return False
        if self._exited_at is None:
            self._exited_at = time.monotonic()
        return time.monotonic() - self._exited_at > (_PIPE_GUARDED if status < 0 else _PIPE_HELD)


@dataclass(frozen=True, slots=True)
class Fault:
    """What ended a child before its work could: as its user would have read it, but not in one text."""

    message: str
    hint: str = ""


def write_fault(file: str, fault: Fault) -> None:
    """Report to the parent, which named the file."""
    with contextlib.suppress(DiskError):  # it is on stderr as well
        replace_file(Path(file), ndjson.encode(to_record(fault)) + "\n", durable=False)


def read_fault(stderr_log: Path) -> Fault | None:
    """Return the fault that ended the child whose stderr went to this file; None: there was none."""
    try:
        return parse(Fault, _fault_file(stderr_log).read_bytes())
    except (OSError, NotARecord):
        return None


def _fault_file(stderr_log: Path) -> Path:
    return stderr_log.with_suffix(".fault.json")


def heed_leash(word: str) -> None:
    """Die with the parent from now on, if it asks for that: `word` is what `RALPH_LEASH` says."""
    if not word:
        return
    if word != _STDIN or not stat.S_ISFIFO(os.fstat(0).st_mode):
        raise UsageError(f"{LEASH}={word} is set, but stdin is not a leash", f"unset {LEASH}: only ralph-runs sets it")
    hear_ctrl_z()
    threading.Thread(target=_die_with_parent, name="leash", daemon=True).start()


def _die_with_parent() -> None:
    """Wait for the end of stdin. SIGKILL: no step that ralph has begun may hold this up, and its guardian knows it."""
    with contextlib.suppress(OSError):
        while os.read(0, _CHUNK):
            pass
    os.kill(os.getpid(), signal.SIGKILL)
