"""The Bash tool: one command in its own shell. Every process it starts ends with it, or when its time is up.

A successful `cd` inside the working directories carries over to the next command; nothing else does.
"""

import shlex
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ralph.claude_cli.desk import INTERRUPTED, Desk, ToolResult, failed, kept_in_file
from ralph.claude_cli.schemas import number_argument, schema, text_argument
from ralph.claude_cli.shell import last_program, programs
from ralph.core.errors import DiskError
from ralph.system.child import Child
from ralph.system.guardian import Guardian, StartError

_DEFAULT_TIMEOUT, _MOST_TIMEOUT = 120_000, 600_000
_POLL = 0.1
_SHOWN = 30_000
_SHOWN_OF_FAILURE = 10_000
_LARGEST = 1 << 30
"""Bytes after which a command that does not stop talking is ended: its output is kept on disk."""

_TIMED_OUT, _FLOODED, _STOPPED = 143, 144, 137
"""Exit codes of what did not end by itself; the first is the original's, whatever signal it took."""

_NOT_A_FAILURE = {
    "grep": "No matches found",
    "rg": "No matches found",
    "diff": "Files differ",
    "find": "Some directories were inaccessible",
    "test": "Condition is false",
    "[": "Condition is false",
}
"""Programs whose exit code 1 is an answer."""

_SILENT = frozenset({
    "cd", "chgrp", "chmod", "chown", "cp", "export", "ln", "mkdir", "mv", "rm", "rmdir", "touch", "unset", "wait",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Ran:
    exit_code: int
    output: str
    size: int
    said: str = ""
    """Why it was ended, if it was."""


class Bash:
    name = "Bash"
    description = (
        "Run a command with bash and return its output, stdout and stderr together. `timeout` is in milliseconds: "
        "120000 unless given, 600000 at most. The working directory carries over to the next command, variables do "
        "not. Processes that a command leaves in the background are ended when it returns. No input can be given. "
        "Prefer Read, Edit, Write, Glob and Grep to shell commands that do the same."
    )
    input_schema = schema(
        {
            "command": {"type": "string", "description": "The command to run"},
            "timeout": {"type": "number", "description": "Milliseconds until the command is ended (at most 600000)"},
            "description": {"type": "string", "description": "What the command does, in a few plain words"},
            "dangerouslyDisableSandbox": {
                "type": "boolean",
                "description": "Accepted and ignored: there is no sandbox",
            },
        },
        "command",
    )

    def run(self, arguments: Mapping[str, object], desk: Desk) -> ToolResult:
        """Run the command to its end."""
        command = text_argument(arguments, "command")
        if not desk.cwd.is_dir():
            desk.cwd = desk.start
        log = desk.place_for_output(self.name)
        landed = log.with_suffix(".cwd")
        try:
            ran = _run(command, log, landed, _timeout(arguments, desk.environment), desk)
            if ran.said is INTERRUPTED:
                return ToolResult(INTERRUPTED, is_error=True, detail="User rejected tool use")
            moved = _follow(landed, desk)
            return _told(command, ran, moved, log)
        except StartError as error:
            return failed(error.message)
        except (DiskError, OSError) as error:
            return failed(f"The command's output could not be kept: {error}")
        finally:
            landed.unlink(missing_ok=True)
            if log.exists() and log.stat().st_size <= _SHOWN:
                log.unlink()


def _run(command: str, log: Path, landed: Path, timeout: float, desk: Desk) -> _Ran:
    """Feed the command to a shell and wait until it ends, its time is up, it floods, or the session is stopped."""
    usual = Path("/bin/bash")
    shell = str(usual) if usual.exists() else shutil.which("bash", path=desk.environment.get("PATH")) or "bash"
    # `eval` on a quoted word, so that no syntax of the command can reach what follows it.
    script = f"eval {shlex.quote(command)} < /dev/null && pwd -P >| {shlex.quote(str(landed))}"
    environment = {**desk.environment, "SHELL": shell, "CLAUDECODE": "1", "GIT_EDITOR": "true", "CDPATH": ""}
    deadline = time.monotonic() + timeout
    ended: tuple[int, str] | None = None
    argv = [shell, "-c", script]
    with (
        Guardian() as guardian,
        Child(
            argv,
            guardian=guardian,
            cwd=desk.cwd,
            environment=environment,
            stdout_log=log,
            stderr_log=None,
            talks=False,
        ) as child,
    ):
        while ended is None and child.read(_POLL) is not None:
            if desk.stop.is_set():
                ended = _STOPPED, INTERRUPTED
            elif time.monotonic() > deadline:
                ended = _TIMED_OUT, f"Command timed out after {_duration(timeout)}"
            elif log.stat().st_size > _LARGEST:
                ended = _FLOODED, f"Command ended: its output exceeded {_LARGEST >> 30}GB"
        if ended is not None:
            child.kill()
        exit_code = child.exit_code
    code, said = ended or (exit_code if exit_code is not None else _STOPPED, "")
    size = log.stat().st_size
    with log.open("rb") as file:
        output = file.read(4 * _SHOWN + 4096)
    return _Ran(code if code >= 0 else 128 - code, output.decode("utf-8", "replace"), size, said)


def _told(command: str, ran: _Ran, moved: str, log: Path) -> ToolResult:
    whole = _trimmed(ran.output)
    shown = whole[:_SHOWN]
    answer = _NOT_A_FAILURE.get(last_program(command), "") if ran.exit_code == 1 and not ran.said else ""
    if ran.exit_code != 0 and not answer:
        lines = [f"Exit code {ran.exit_code}", ran.said, shown, moved.strip()]
        return failed(_middle_cut("\n".join(line for line in lines if line)))
    detail: dict[str, object] = {"stdout": shown, "stderr": moved, "interrupted": False, "isImage": False}
    if answer:
        detail["returnCodeInterpretation"] = answer
    detail["noOutputExpected"] = _is_silent(command)
    if len(whole) > _SHOWN:
        detail |= {"persistedOutputPath": str(log), "persistedOutputSize": ran.size}
        return ToolResult(kept_in_file(whole, ran.size, log), detail=detail)
    content = "\n".join(part for part in (shown, moved.strip()) if part)
    return ToolResult(content or "(Bash completed with no output)", detail=detail)


def _follow(landed: Path, desk: Desk) -> str:
    """Stand where the command ended; outside of what is allowed, go back and say so."""
    try:
        place = Path(landed.read_text().removesuffix("\n"))
    except (OSError, UnicodeDecodeError):
        return ""
    if any(place.is_relative_to(root) for root in desk.roots):
        desk.cwd = place
        return ""
    desk.cwd = desk.start
    return f"\nShell cwd was reset to {desk.start}"


def _timeout(arguments: Mapping[str, object], environment: Mapping[str, str]) -> float:
    """Seconds the command may take."""
    most = max(_from(environment, "BASH_MAX_TIMEOUT_MS", _MOST_TIMEOUT), 1)
    usual = min(_from(environment, "BASH_DEFAULT_TIMEOUT_MS", _DEFAULT_TIMEOUT), most)
    wanted = number_argument(arguments, "timeout")
    return min(wanted if wanted and wanted > 0 else usual, most) / 1000


def _from(environment: Mapping[str, str], name: str, default: int) -> int:
    value = environment.get(name, "")
    return int(value) if value.isdigit() and int(value) > 0 else default


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m {rest}s" if minutes else f"{rest}s"


def _trimmed(output: str) -> str:
    """Without empty lines before and white space after."""
    output = output.rstrip()
    first = next((at for at, letter in enumerate(output) if not letter.isspace()), 0)
    return output[output.rfind("\n", 0, first) + 1 :]


def _middle_cut(message: str) -> str:
    half = _SHOWN_OF_FAILURE // 2
    if len(message) <= _SHOWN_OF_FAILURE:
        return message
    left_out = len(message) - _SHOWN_OF_FAILURE
    return f"{message[:half]}\n\n... [{left_out} characters truncated] ...\n\n{message[-half:]}"


def _is_silent(command: str) -> bool:
    """Tell whether the command is made only of programs that say nothing when all is well."""
    names = programs(command)
    return bool(names) and all(name in _SILENT for name in names)
