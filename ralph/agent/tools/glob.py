"""Glob: files by name, oldest change first."""

import time
from collections.abc import Mapping
from pathlib import Path

from ralph.agent.tools.arguments import schema, text_argument
from ralph.agent.tools.outcomes import failed
from ralph.claude_cli.desk import Desk, ToolResult
from ralph.claude_cli.tools.ripgrep import Search, SearchError, changed_at, shown_path

_MOST = 100


class Glob:
    name = "Glob"
    description = (
        'Find files by a glob such as "**/*.js" or "src/**/*.{ts,tsx}", sorted by the time of their last change. '
        "Hidden and ignored files are found too; links are not."
    )
    input_schema = schema(
        {
            "pattern": {"type": "string", "description": "The glob"},
            "path": {"type": "string", "description": "The folder to search; the working directory unless given"},
        },
        "pattern",
    )

    def run(self, arguments: Mapping[str, object], desk: Desk) -> ToolResult:
        """List the files."""
        started = time.monotonic()
        given = text_argument(arguments, "path")
        pattern = text_argument(arguments, "pattern")
        if base := base_of(pattern):
            root, pattern = Path(base), pattern[len(base) :].lstrip("/")
        else:
            root = desk.locate(given or ".")
        if refusal := desk.refusal(root, "read from"):
            return failed(refusal)
        if not base and not root.exists():
            return failed(f"Directory does not exist: {given}. Note: your current working directory is {desk.cwd}.")
        if not base and not root.is_dir():
            return failed(f"Path is not a directory: {given}")
        search = Search(root, desk)
        try:
            found = search.files("--files", "--no-ignore", f"--glob={pattern}") if root.is_dir() else []
        except SearchError as error:
            return failed(str(error))
        names = [name for _, name in sorted((changed_at(path), shown_path(path, desk)) for path in found)]
        return _told(names, search, started)


def base_of(pattern: str) -> str:
    """The folder of an absolute pattern: all before its first part that is not plain; empty for a relative one."""
    if not pattern.startswith("/"):
        return ""
    parts = pattern.rstrip("/").split("/")
    plain = next((at for at, part in enumerate(parts) if set(part) & set("*?[{")), len(parts) - 1)
    return "/".join(parts[:plain]) or "/"


def _told(names: list[str], search: Search, started: float) -> ToolResult:
    shown = names[:_MOST]
    detail = {
        "filenames": shown,
        "durationMs": round((time.monotonic() - started) * 1000),
        "numFiles": len(shown),
        "truncated": len(names) > _MOST,
        "totalMatches": len(names),
        "countIsComplete": search.cut is None,
    }
    lines = list(shown) or ["No files found"]
    if left := len(names) - len(shown):
        lines.append(
            f"(Showing {_MOST} of {len(names)} matching files; {left} more are not listed. "
            "Narrow the pattern or path to see the rest.)"
        )
    return search.answer("\n".join(lines), detail, is_empty=not names)
