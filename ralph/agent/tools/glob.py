"""Glob: files by name, oldest change first."""

import time
from collections.abc import Mapping
from pathlib import Path

from ralph.agent.globs import GlobError, compile_glob
from ralph.agent.tools.arguments import schema, text_argument
from ralph.agent.tools.base import Desk, ToolResult
from ralph.agent.tools.outcomes import failed
from ralph.agent.tree import all_files

_MOST = 100
REJECTED = "Search failed — ripgrep rejected the pattern, glob, or file type without searching:\nrg: "


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
        root, pattern = _split_absolute(pattern, desk.locate(given or "."))
        if refusal := desk.refusal(root, "read from"):
            return failed(refusal)
        if not root.exists():
            return failed(f"Directory does not exist: {root}. Note: your current working directory is {desk.cwd}.")
        if not root.is_dir():
            return failed(f"Path is not a directory: {root}")
        try:
            found = [path for path in _matching(root, pattern) if desk.hides is None or not desk.hides(path)]
        except GlobError as error:
            return failed(f"{REJECTED}{error}")
        return _told([shorten(path, desk) for path in found], started)


def shorten(path: Path, desk: Desk) -> str:
    """The path as it is told: from the working directory where it lies there."""
    return str(path.relative_to(desk.cwd)) if path.is_relative_to(desk.cwd) else str(path)


def base_of(pattern: str) -> str:
    """The folder of an absolute pattern: all before its first part that is not plain; empty for a relative one."""
    if not pattern.startswith("/"):
        return ""
    parts = pattern.split("/")
    plain = next((at for at, part in enumerate(parts) if set(part) & set("*?[{")), len(parts) - 1)
    return "/".join(parts[:plain]) or "/"


def _split_absolute(pattern: str, root: Path) -> tuple[Path, str]:
    base = base_of(pattern)
    return (Path(base), pattern[len(base) :]) if base else (root, pattern)


def _matching(root: Path, pattern: str) -> list[Path]:
    glob = compile_glob(pattern)
    found: list[tuple[int, Path]] = []
    for path in all_files(root):
        if glob.matches(path.relative_to(root).as_posix()) != glob.negated:
            try:
                found.append((path.stat().st_mtime_ns, path))
            except OSError:  # gone between two looks
                continue
    return [path for _, path in sorted(found)]


def _told(names: list[str], started: float) -> ToolResult:
    shown = names[:_MOST]
    detail = {
        "filenames": shown,
        "durationMs": round((time.monotonic() - started) * 1000),
        "numFiles": len(shown),
        "truncated": len(names) > _MOST,
        "totalMatches": len(names),
        "countIsComplete": True,
    }
    if not names:
        return ToolResult("No files found", detail=detail)
    lines = list(shown)
    if left := len(names) - len(shown):
        lines.append(
            f"(Showing {_MOST} of {len(names)} matching files; {left} more are not listed. "
            "Narrow the pattern or path to see the rest.)"
        )
    return ToolResult("\n".join(lines), detail=detail)
