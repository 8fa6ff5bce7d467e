"""Other programs: running one to its end with a time limit, finding one on PATH, telling which run; and leftovers."""

import contextlib
import fcntl
import functools
import os
import select
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_LOOK = 0.1
"""Seconds between two looks at a program that says nothing."""
_DYING = 2.0
"""Seconds that a killed program is waited for: a process that a disk holds up ends later."""
_CHUNK = 1 << 16
_LOADED = ("LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT")


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


@dataclass(frozen=True, slots=True)
class ProgramAnswer:
    """What it printed and complained of; `exit_code` None: it ran out of time, or could not be started."""

    exit_code: int | None
    output: str
    complaints: str


class OutOfTime(Exception):
    """The program was ended, with all that it had started, because it took longer than its limit."""


def run_to_end(
    argv: Sequence[str],
    *,
    environment: Mapping[str, str],
    said: bytes | None,
    limit: float | None = None,
    hear: Callable[[bytes], None] | None = None,
) -> tuple[int, bytes, bytes]:
    """Run a program to its end; return its exit status, output and complaints.

    `hear` is given the complaints as they come, and nothing if none come for a moment. If it raises, the program is
    ended with all that it has started. Raise the `OSError` of a program that cannot be started, and `OutOfTime` if it
    takes longer than `limit`: with `hear`, from its last sign of life.
    """
    with deaf_to_ctrl_z():
        program = subprocess.Popen(
            argv, env=environment, stdin=subprocess.DEVNULL if said is None else subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
    with program:
        try:
            if hear is not None:
                output, complaints = _heard(program, limit, hear)
            else:
                output, complaints = program.communicate(said, timeout=limit)
        except subprocess.TimeoutExpired as error:
            _end_group(program)
            raise OutOfTime from error
    return program.returncode, output, complaints


def _heard(program: subprocess.Popen[bytes], limit: float | None, hear: Callable[[bytes], None]) -> tuple[bytes, bytes]:
    """Read both outputs of a program to their ends, or end it."""
    output, complaints = bytearray(), bytearray()
    last_sign = time.monotonic()
    with _ended_on_a_fault(program), selectors.DefaultSelector() as pipes:
        for pipe, text in ((program.stdout, output), (program.stderr, complaints)):
            if pipe is not None:
                pipes.register(pipe, selectors.EVENT_READ, text)
        while pipes.get_map():
            ready = pipes.select(_LOOK)
            for key, _ in ready:
                chunk = os.read(key.fd, _CHUNK)
                if not chunk:
                    pipes.unregister(key.fileobj)
                key.data.extend(chunk)
                if key.data is complaints:
                    hear(chunk)
            if ready:
                last_sign = time.monotonic()
            elif limit is not None and time.monotonic() > last_sign + limit:
                raise OutOfTime
            else:
                hear(b"")
    return bytes(output), bytes(complaints)


@contextlib.contextmanager
def _ended_on_a_fault(program: subprocess.Popen[bytes]) -> Generator[None]:
    with contextlib.ExitStack() as on_fault:
        on_fault.callback(_end_group, program)
        yield
        on_fault.pop_all()


def _end_group(program: subprocess.Popen[bytes]) -> None:
    """Kill a program that leads a session of its own, with all that it started there, and wait for their end.

    They have all left, as far as they can write anything, when nobody holds its pipes any more.
    """
    with contextlib.suppress(ProcessLookupError):
        os.killpg(program.pid, signal.SIGKILL)
    until = time.monotonic() + _DYING
    for pipe in (program.stdout, program.stderr):
        waiting = select.poll()
        if pipe is not None:
            waiting.register(pipe, select.POLLIN)
            while waiting.poll(max(0.0, until - time.monotonic()) * 1000) and os.read(pipe.fileno(), _CHUNK):
                pass


def ask(argv: Sequence[str], *, cwd: Path, environment: Mapping[str, str], limit: float) -> ProgramAnswer:
    """Run a program to its end, without a guardian: for short ones of the user's own, such as `gh`."""
    try:
        with deaf_to_ctrl_z():
            program = subprocess.Popen(
                argv, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, start_new_session=True,
            )  # fmt: skip
    except OSError as error:
        return ProgramAnswer(None, "", f"{argv[0]}: {error.strerror}")
    with program:
        try:
            output, complaints = program.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            _end_group(program)
            return ProgramAnswer(None, "", f"{argv[0]} did not answer within {limit:g} s")
    return ProgramAnswer(program.returncode, output.decode("utf-8", "replace"), complaints.decode("utf-8", "replace"))


def running_in(directory: Path, name: str) -> list[int]:
    """The processes whose program's name begins with `name` and that stand in `directory`, as far as one may look."""
    import psutil

    found: list[int] = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.name().startswith(name) and Path(process.cwd()).is_relative_to(directory):
                found.append(process.pid)
    return found


def is_running(pid: int) -> bool:
    """Tell whether the process lives; a zombie does not."""
    import psutil

    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def outside(path: str, root: Path) -> str:
    """PATH without the folders that lie in the repository that `root` is in, and those that lie wherever one stands."""
    around = _top(os.path.realpath(root)) + os.sep
    return os.pathsep.join(folder for folder in path.split(os.pathsep) if not _lies_in(folder, around))


def rejoined(path: str, searched: str, before: str) -> str:
    """A PATH that grew out of `searched`, what `outside` left of the one before: with that one whole in its place.

    Where it did not simply grow, what was taken out stands at its end.
    """
    if path.endswith(searched):
        return path[: len(path) - len(searched)] + before
    kept, left = path.split(os.pathsep), searched.split(os.pathsep)
    taken_out = [folder for folder in before.split(os.pathsep) if folder not in left and folder not in kept]
    return os.pathsep.join([*kept, *taken_out])


def loading_outside(env: Mapping[str, str], root: Path) -> dict[str, str]:
    """Those variables by which programs would load libraries of the repository's, without its folders and files."""
    told = {name: env[name].replace(" ", os.pathsep) for name in _LOADED if env.get(name)}
    return {name: clean for name, value in told.items() if (clean := outside(value, root)) != value}


def passed_over(programs: Iterable[str], path: str, root: Path) -> list[str]:
    """The programs that would have been found in the repository, by their paths."""
    found = {program: shutil.which(program, path=path) for program in programs}
    around = _top(os.path.realpath(root)) + os.sep
    return [place for place in found.values() if place and _lies_in(os.path.dirname(place), around)]  # noqa: PTH120


def _lies_in(folder: str, around: str) -> bool:
    return not os.path.isabs(folder) or (os.path.realpath(folder) + os.sep).startswith(around)  # noqa: PTH117


def _top(place: str) -> str:
    """The repository around a place, as git would find it; the place itself where there is none."""
    for folder in (Path(place), *Path(place).parents):
        if (folder / ".git").is_file() or (folder / ".git" / "HEAD").exists():
            return str(folder)
    return place


_held: list[object] = []
"""What is held stays open for as long as this process lives."""


@functools.cache
def held_in_memory(content: bytes) -> str:
    """Keep bytes where our own children can read them and nobody can change them; return their path."""
    if sys.platform == "linux":
        descriptor = os.memfd_create("ralph", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        file = os.fdopen(descriptor, "w+b")
        file.write(content)
        file.flush()
        seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
        path = f"/proc/{os.getpid()}/fd/{descriptor}"
    else:  # a private file, gone when ralph ends
        file = tempfile.NamedTemporaryFile(prefix="ralph-")  # noqa: SIM115 - held to the end
        file.write(content)
        file.flush()
        path = file.name
    _held.append(file)
    return path


RUN_MARKER = "RALPH_RUN_ID"
"""The variable that all processes of a run's sessions inherit; it holds the id of the run."""
_LEAVING = 5.0
"""Seconds that they are given to be gone: one that a disk holds up ends later."""
_MOMENT = 0.01


def end_marked(runs: Collection[str]) -> int:
    """Kill every process that belongs to a session of these runs; return how many there were.

    Neither this process nor those above it: a user may have started it from what a session left.
    """
    wanted = {f"{RUN_MARKER}={run}".encode() for run in runs}
    ended: set[int] = set()
    deadline = time.monotonic() + _LEAVING
    while wanted and (found := set(_marked(wanted))) and time.monotonic() < deadline:
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        ended |= found
        time.sleep(_MOMENT)
    return len(ended)


def _marked(wanted: set[bytes]) -> Iterator[int]:
    above = set(_above(os.getpid()))
    for entry in Path("/proc").iterdir() if Path("/proc/self").exists() else ():
        if entry.name.isdigit() and int(entry.name) not in above:
            with contextlib.suppress(OSError):  # another user's, or gone; a zombie has no environment
                if not wanted.isdisjoint((entry / "environ").read_bytes().split(b"\0")):
                    yield int(entry.name)


def _above(pid: int) -> Iterator[int]:
    while pid:
        yield pid
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2].split()[1])
        except OSError:
            return
