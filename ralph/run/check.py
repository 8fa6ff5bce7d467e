"""The judge of DONE: the repository's own check, run by ralph itself."""

import shlex
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ralph.core.errors import UsageError
from ralph.core.ndjson import Oversized
from ralph.core.text import Excerpt, format_duration
from ralph.sandbox.sandbox import Sandbox
from ralph.system.child import Child
from ralph.system.guardian import Guardian, StartError

_CANNOT_START = 127
_BINARY = (b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe")
_POLL = 0.2


@dataclass(frozen=True, slots=True)
class Check:
    """The command that proves a goal, and its time limit; `script`: the repository's own, in its protected version."""

    argv: tuple[str, ...]
    label: str
    timeout: float
    script: bool


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The check's result; `exit_code` is None if it ran out of time."""

    exit_code: int | None
    seconds: float
    output: str


def find_check(root: Path, command: str | None, *, timeout: float, path: str | None) -> Check | None:
    """Choose the user's command, else `.ralph/check`, else none; refuse one that cannot run before a cent is spent.

    Without a `path`, the program is looked up later.
    """
    return _script(root, "check", timeout) if command is None else _command_check(root, command, timeout, path)


def find_setup(root: Path, *, timeout: float) -> Check | None:
    """Find `.ralph/setup`, which prepares a clean checkout for the check."""
    return _script(root, "setup", timeout)


def _script(root: Path, name: str, timeout: float) -> Check | None:
    script = root / ".ralph" / name
    if not script.exists() and not script.is_symlink():
        return None
    if shutil.which(str(script)) is None:
        raise UsageError(f"{script} is not executable", f"make it executable: chmod +x .ralph/{name}")
    text = script.read_bytes()
    if text[:4] not in _BINARY:
        _require_interpreter(script, text.partition(b"\n")[0], root)
    return Check((str(script),), f".ralph/{name}", timeout, script=True)


def _require_interpreter(script: Path, first_line: bytes, root: Path) -> None:
    """Refuse a script that the kernel would not start: no agent session could fix that."""
    if not first_line.startswith(b"#!") or not first_line[2:].strip():
        raise UsageError(f"{script} has no interpreter line", "start it with #!/bin/sh, or with another interpreter")
    if first_line.endswith(b"\r"):
        raise UsageError(
            f"cannot run {script}: it has Windows line endings",
            "save it with Unix line endings; if git converts them, set core.autocrlf to input or false",
        )
    interpreter = first_line[2:].split()[0].decode("utf-8", "surrogateescape")
    if shutil.which(str(root / interpreter)) is None:
        raise UsageError(
            f"cannot run {script}: its interpreter {interpreter} does not exist or is not executable",
            "install the interpreter, or change the first line of the script",
        )


def _command_check(root: Path, command: str, timeout: float, path: str | None) -> Check:
    try:
        argv = shlex.split(command)
    except ValueError as fault:
        raise UsageError(f"cannot parse the check {command!r}: {fault}", "check its quotes") from fault
    if not argv:
        raise UsageError("the check is empty", "leave out --check, or use --no-check")
    check = Check(tuple(argv), command, timeout, script=False)
    if path is not None:
        require_program(check, root, path)
    return check


def require_program(check: Check, root: Path, path: str) -> None:
    """Refuse a command whose program is missing; relative paths start at the repository root."""
    program = check.argv[0]
    if shutil.which(str(root / program) if "/" in program else program, path=path) is None:
        raise UsageError(
            f"cannot run the check: {program!r} was not found, or is not executable",
            "ralph runs the command without a shell; for shell syntax use: --check \"sh -c '...'\"",
        )


def _printed(line: bytes | Oversized) -> bytes:
    return line + b"\n" if isinstance(line, bytes) else f"[a line of {line.size} bytes]\n".encode()


def run_check(
    check: Check,
    *,
    guardian: Guardian,
    sandbox: Sandbox,
    root: Path,
    environment: Mapping[str, str],
    log: Path,
    stop_requests: Callable[[], int],
    show: Callable[[bytes], None] | None = None,
) -> CheckReport:
    """Run the check in the repository root; its output goes to `log` and `show`."""
    started = time.monotonic()
    excerpt = Excerpt()
    timed_out = False
    contained = sandbox.contain(check.argv, environment, root)
    try:
        with Child(
            contained.argv,
            guardian=guardian,
            cwd=root,
            environment=contained.environment,
            stdout_log=log,
            stderr_log=None,
            talks=False,
        ) as child:
            while (lines := child.read(_POLL)) is not None:
                printed = b"".join(map(_printed, lines))
                excerpt.feed(printed)
                if show is not None and printed:
                    show(printed)
                requests = stop_requests()
                if not timed_out and (time.monotonic() - started > check.timeout or requests):
                    timed_out = True
                    child.stop()
                if requests > 1:
                    child.kill()
            exit_code = child.exit_code
    except StartError as error:
        if show is not None:
            show(f"{error.message}\n".encode())
        return CheckReport(_CANNOT_START, time.monotonic() - started, f"{error.message}\n")
    seconds = time.monotonic() - started
    if timed_out:
        return CheckReport(
            None, seconds, f"{excerpt.text()}\n[stopped after {format_duration(seconds)}: the check's time limit]\n"
        )
    return CheckReport(exit_code, seconds, excerpt.text())
