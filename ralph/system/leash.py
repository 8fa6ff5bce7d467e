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
from pathlib import Path
from types import TracebackType

from ralph.core.errors import UsageError
from ralph.core.ndjson import LineSplitter, Oversized
from ralph.system.files import open_to_append
from ralph.system.guardian import StartError
from ralph.system.programs import deaf_to_ctrl_z, hear_ctrl_z

LEASH = "RALPH_LEASH"
"""The variable that tells a child to heed its leash; not for whom it starts itself."""

_STDIN = "stdin"

_STOP = ((15.0, signal.SIGTERM), (25.0, signal.SIGKILL))
"""Seconds after the SIGINT at which each harder request follows: ralph takes 10 of them for an agent that will not end.

The second request that a ralph hears of, whichever it is, has it kill its agent at once.
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
        """Start `argv`, a ralph that heeds its leash, in a session of its own; what it complains of is appended."""
        with open_to_append(stderr_log) as complaints:
            try:
                with deaf_to_ctrl_z():
                    self._process = subprocess.Popen(
                        argv, cwd=cwd, env={**environment, LEASH: _STDIN}, bufsize=0, start_new_session=True,
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

        Due steps of a stop are taken here: whoever stops a child has somebody go on reading it.
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
        """End the child in steps, softest first; go on reading meanwhile. To ask again changes nothing."""
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
        """Tell whether the child left so long ago that whoever still holds its pipe is none of it."""
        status = self._process.poll()
        if status is None:
            return False
        if self._exited_at is None:
            self._exited_at = time.monotonic()
        return time.monotonic() - self._exited_at > (_PIPE_GUARDED if status < 0 else _PIPE_HELD)


def heed_leash(word: str) -> None:
    """Die with the parent from now on, if it asks for that: `word` is what `RALPH_LEASH` says."""
    if not word:
        return
    if word != _STDIN or not stat.S_ISFIFO(os.fstat(0).st_mode):
        raise UsageError(f"{LEASH}={word}, but stdin is no leash", f"unset {LEASH}: ralph-runs alone sets it")
    hear_ctrl_z()
    threading.Thread(target=_die_with_parent, name="leash", daemon=True).start()


def _die_with_parent() -> None:
    """Wait for the end of stdin. SIGKILL: no step that ralph has begun may hold this up, and its guardian knows it."""
    with contextlib.suppress(OSError):
        while os.read(0, _CHUNK):
            pass
    os.kill(os.getpid(), signal.SIGKILL)
