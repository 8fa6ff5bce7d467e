"""What a search asks, whoever does it. The answer is ripgrep's lines, files in the order of their paths."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Mode = Literal["content", "files_with_matches", "count"]

TIME_LIMIT = 20.0
LONGEST_LINE = 500
"""Bytes beyond which a line is not shown: minified files would fill the conversation."""


class SearchRejectedError(ValueError):
    """The pattern, glob or file type makes no sense; the message is ripgrep's, or like it."""


class SearchTimeoutError(TimeoutError):
    """The search took too long, or the session was stopped meanwhile."""

    def __init__(self) -> None:
        super().__init__(f"Ripgrep search timed out after {TIME_LIMIT:.0f} seconds")


@dataclass(frozen=True, slots=True)
class Search:
    """One search; `path` is a file or a folder that exists."""

    pattern: str
    path: Path
    mode: Mode
    globs: tuple[str, ...] = ()
    file_type: str = ""
    before: int = 0
    after: int = 0
    numbers: bool = True
    ignore_case: bool = False
    only_matching: bool = False
    multiline: bool = False


def told_path(path: Path, cwd: Path) -> str:
    """The path as it is handed on: from the working directory where it lies there."""
    if path == cwd:
        return "./"
    return f"./{path.relative_to(cwd)}" if path.is_relative_to(cwd) else str(path)
