"""The repository's own check, run by ralph itself, and what its output says."""

import contextlib
import re
import shlex
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from re import Match
from typing import Self

from ralph.core.errors import UsageError
from ralph.core.ndjson import Oversized
from ralph.core.proof import Judgement, TestCounts
from ralph.core.text import Excerpt, format_duration
from ralph.sandbox.policy import Mount, MountKind
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
    judgement: Judgement | None = None
    """What a green check of a claim is worth."""
    setup_failed: bool = False
    """The setup script failed, so the check did not run."""

    @property
    def passed(self) -> bool:
        return self.exit_code == 0


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


@dataclass(frozen=True, slots=True)
class CheckOrder:
    """A check to run in a folder, after a setup script if there is one; their output goes to `log` and `show`."""

    check: Check
    guardian: Guardian
    sandbox: Sandbox
    root: Path
    environment: Mapping[str, str]
    log: Path
    show: Callable[[bytes], None] | None = None
    setup: Check | None = None
    home: Path | None = None
    """Its own HOME, instead of the user's, whose credentials a sandbox hides."""
    reads: tuple[Path, ...] = ()
    """What it must see, wherever that is."""


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
    return run_checks([CheckOrder(check, guardian, sandbox, root, environment, log, show)], stop_requests)[0]


def run_checks(orders: Sequence[CheckOrder], stop_requests: Callable[[], int]) -> list[CheckReport]:
    """Run checks side by side, each under a guardian of its own; return their reports in the same order."""
    with contextlib.ExitStack() as held:
        running = [held.enter_context(_RunningCheck(order)) for order in orders]
        pace = _POLL / len(running)
        going = True
        while going:
            going = any([each.step(pace, stop_requests()) for each in running])  # noqa: C419 - every one takes its step
    return [each.report() for each in running]


def _private(home: Path | None) -> dict[str, str]:
    """Return the variables that lead a program to a HOME of its own."""
    if home is None:
        return {}
    folders = {"CONFIG": ".config", "CACHE": ".cache", "DATA": ".local/share", "STATE": ".local/state"}
    return {"HOME": str(home), **{f"XDG_{kind}_HOME": str(home / folder) for kind, folder in folders.items()}}


class _RunningCheck:
    """A setup script and a check, one after the other, while they run."""

    def __init__(self, order: CheckOrder) -> None:
        self._order, self._started = order, time.monotonic()
        self._seconds, self._timed_out = 0.0, False
        self._coming = [each for each in (order.setup, order.check) if each is not None]
        self._child: Child | None = None
        self._begin()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    def _begin(self) -> None:
        """Start the next script."""
        self._now, self._excerpt = self._coming.pop(0), Excerpt()
        self._exit_code: int | None = None
        self._held = contextlib.ExitStack()
        order = self._order
        mounts = () if order.home is None else (Mount(str(order.home), MountKind.WRITE),)
        contained = order.sandbox.contain(
            self._now.argv, order.environment, order.root, show=order.reads, mounts=mounts
        )
        try:
            self._child = self._held.enter_context(
                Child(
                    contained.argv,
                    guardian=order.guardian,
                    cwd=order.root,
                    environment={**contained.environment, **_private(order.home)},
                    stdout_log=order.log,
                    stderr_log=None,
                    talks=False,
                )
            )
        except StartError as error:
            self._exit_code, self._coming = _CANNOT_START, []
            self._hear(f"{error.message}\n".encode())

    def step(self, pace: float, requests: int) -> bool:
        """Read what it has printed, for `pace` seconds at most; False if it is over."""
        child = self._child
        if child is None:
            return False
        if (lines := child.read(pace)) is None:
            self._exit_code, self._child = child.exit_code, None
            self._seconds = time.monotonic() - self._started
            self._held.close()
            if self._coming and self._exit_code == 0 and not self._timed_out:
                self._begin()
            return self._child is not None
        self._hear(b"".join(map(_printed, lines)))
        if not self._timed_out and (time.monotonic() - self._started > self._now.timeout or requests):
            self._timed_out = True
            child.stop()
        if requests > 1:
            child.kill()
        return True

    def _hear(self, printed: bytes) -> None:
        self._excerpt.feed(printed)
        if self._order.show is not None and printed:
            self._order.show(printed)

    def report(self) -> CheckReport:
        output, in_setup = self._excerpt.text(), self._now is not self._order.check
        if not self._timed_out:
            return CheckReport(self._exit_code, self._seconds, output, setup_failed=in_setup)
        took = format_duration(self._seconds)
        said = f"{output}\n[stopped after {took}: the check's time limit]\n"
        return CheckReport(None, self._seconds, said, setup_failed=in_setup)


_COLOURS = re.compile("\x1b" + r"\[[0-9;]*m")


def _pytest(found: list[Match[str]]) -> TestCounts:
    counts: dict[str, int] = {}
    for line in found:
        for number, word in re.findall(r"(\d+) (passed|failed|skipped|xfailed|xpassed|error|deselected)", line[0]):
            counts[word] = counts.get(word, 0) + int(number)
    skipped = sum(counts.get(word, 0) for word in ("skipped", "xfailed", "deselected"))
    return TestCounts(sum(counts.get(word, 0) for word in ("passed", "xpassed")), skipped)


def _unittest(found: list[Match[str]]) -> TestCounts:
    ran = sum(int(each["ran"]) for each in found)
    ended = " ".join(each["ended"] or "" for each in found)
    skipped = sum(map(int, re.findall(r"skipped=(\d+)", ended)))
    aside = sum(map(int, re.findall(r"(?:failures|errors|expected failures)=(\d+)", ended)))
    return TestCounts(max(0, ran - skipped - aside), skipped)


def _summed(found: list[Match[str]]) -> TestCounts:
    return TestCounts(sum(int(each["passed"]) for each in found), sum(int(each["skipped"] or 0) for each in found))


def _by_line(found: list[Match[str]]) -> TestCounts:
    words = [each["how"] for each in found]
    return TestCounts(words.count("PASS"), words.count("SKIP"))


_READERS: Mapping[str, tuple[re.Pattern[str], Callable[[list[Match[str]]], TestCounts]]] = {
    "pytest": (
        re.compile(r"^=* ?\d+ (?:passed|failed|skipped|xfailed|error)[^\n]* in \d[\d.]*s[^\n]*$", re.MULTILINE),
        _pytest,
    ),
    "unittest": (
        re.compile(r"^Ran (?P<ran>\d+) tests? in [^\n]*\n+(?P<ended>(?:OK|FAILED)[^\n]*)", re.MULTILINE),
        _unittest,
    ),
    "node": (
        re.compile(
            r"^. pass (?P<passed>\d+)\n(?:. [a-z]+ \d+\n)*?. skipped (?P<skipped>\d+)$",
            re.MULTILINE,
        ),
        _summed,
    ),
    "jest": (
        re.compile(
            r"^\s*Tests:?\s+(?:\d+ failed[,|\s]+)?(?:(?P<skipped>\d+) skipped[,|\s]+)?(?P<passed>\d+) passed[^\n]*$",
            re.MULTILINE,
        ),
        _summed,
    ),
    "cargo": (
        re.compile(r"^test result: \w+\. (?P<passed>\d+) passed; \d+ failed; (?P<skipped>\d+) ignored", re.MULTILINE),
        _summed,
    ),
    "go": (re.compile(r"^\s*--- (?P<how>PASS|FAIL|SKIP): ", re.MULTILINE), _by_line),
}


def counts_in(output: str) -> TestCounts:
    """Read the counts from a check's output; the first runner that is recognized counts."""
    text = _COLOURS.sub("", output)
    for pattern, read in _READERS.values():
        if found := list(pattern.finditer(text)):
            return read(found)
    return TestCounts()


_CANNOT_RUN = (126, 127)
"""Exit codes of shells, `env` and ralph for a program that is missing or cannot be started."""
_MISSING = re.compile(
    r"not found|No module named|ModuleNotFoundError|ImportError|Cannot find (?:module|package)"
    r"|No such file or directory|ENOENT|MODULE_NOT_FOUND|cannot open shared object|[Nn]o such command|unable to find"
    r"|could not find|Missing script|not installed|command not in PATH"
)
"""What compilers, shells and package managers say of something that is not there."""


def missing_in(clean: CheckReport, tree: CheckReport | None) -> str:
    """Return what a clean checkout lacks and the working tree has, in the words of the failed run; empty if nothing.

    Only to choose between two honest labels of a proof: what an agent writes into this text can only weaken it.
    """
    if clean.passed:
        return ""
    lines = [line.strip() for line in clean.output.splitlines() if line.strip()]
    if clean.setup_failed:
        return f".ralph/setup failed: {lines[-1] if lines else 'it printed nothing'}"
    known = "" if tree is None else tree.output
    news = [line for line in lines if _MISSING.search(line) and line not in known]
    if news:
        return news[-1]  # the first ones often only say that something could not be loaded
    cannot_run = clean.exit_code in _CANNOT_RUN and (tree is None or tree.exit_code not in _CANNOT_RUN)
    return (lines or [f"exit {clean.exit_code}"])[-1] if cannot_run else ""
