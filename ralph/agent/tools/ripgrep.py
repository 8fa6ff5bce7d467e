"""Searching with ripgrep."""

import time

from ralph.agent.tools.base import Desk
from ralph.agent.tools.search import (
    LONGEST_LINE,
    TIME_LIMIT,
    Search,
    SearchRejectedError,
    SearchTimeoutError,
    told_path,
)
from ralph.process import Child, Guardian

_POLL = 0.1
_NOT_SEARCHED = ("!.git", "!.svn", "!.hg", "!.bzr", "!.jj", "!.sl")


def search_by_ripgrep(ripgrep: str, asked: Search, desk: Desk) -> list[str]:
    """Let ripgrep search."""
    log = desk.place_for_output("grep")
    argv = [ripgrep, *_ripgrep_arguments(asked), "--", told_path(asked.path, desk.cwd)]
    deadline = time.monotonic() + TIME_LIMIT
    lines: list[str] = []
    try:
        with (
            Guardian() as guardian,
            Child(
                argv,
                guardian=guardian,
                cwd=desk.cwd,
                environment=desk.environment,
                stdout_log=log,
                stderr_log=None,
            ) as child,
        ):
            while (batch := child.read(_POLL)) is not None:
                lines += [line.decode("utf-8", "replace") for line in batch if isinstance(line, bytes)]
                if desk.stop.is_set() or time.monotonic() > deadline:
                    raise SearchTimeoutError
            exit_code = child.exit_code
    finally:
        log.unlink(missing_ok=True)
    if exit_code == 2 and lines and lines[0].startswith("rg: "):
        raise SearchRejectedError("\n".join(lines).removeprefix("rg: ").rstrip())
    return [line.removeprefix("./") for line in lines]


def _ripgrep_arguments(asked: Search) -> list[str]:
    arguments = ["--no-config", "--hidden", "--no-messages", "--color=never", "--no-heading", "--sort=path"]
    arguments += [f"--glob={glob}" for glob in (*_NOT_SEARCHED, *asked.globs)]
    arguments += [f"--max-columns={LONGEST_LINE}"]
    arguments += ["-U", "--multiline-dotall"] if asked.multiline else []
    arguments += ["-i"] if asked.ignore_case else []
    arguments += [f"--type={asked.file_type}"] if asked.file_type else []
    match asked.mode:
        case "files_with_matches":
            arguments += ["-l"]
        case "count":
            arguments += ["-c", "--with-filename"]
        case "content":
            arguments += ["-n" if asked.numbers else "-N", f"-B{asked.before}", f"-A{asked.after}"]
            arguments += ["-o"] if asked.only_matching else []
    return [*arguments, "-e", asked.pattern]
