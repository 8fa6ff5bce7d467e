"""Searching with ripgrep."""

from ralph.agent.tools.base import Desk
from ralph.agent.tools.search import LONGEST_LINE, Search, SearchRejectedError, told_path
from ralph.agent.tools.searching import run_search

_NOT_SEARCHED = ("!.git", "!.svn", "!.hg", "!.bzr", "!.jj", "!.sl")


def search_by_ripgrep(ripgrep: str, asked: Search, desk: Desk) -> list[str]:
    """Let ripgrep search."""
    argv = [ripgrep, *_ripgrep_arguments(asked), "--", told_path(asked.path, desk.cwd)]
    lines: list[str] = []
    searched = run_search(argv, desk, lambda line: lines.append(line.decode("utf-8", "replace")))
    if searched.exit_code == 2 and not lines:
        raise SearchRejectedError(searched.complaints.removeprefix("rg: ").rstrip())
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
