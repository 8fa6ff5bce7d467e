"""Grep: lines, files or counts that match a regular expression."""

import shutil
from collections.abc import Mapping

from ralph.agent.tools.arguments import flag_argument, number_argument, schema, text_argument
from ralph.agent.tools.base import Desk, ToolResult
from ralph.agent.tools.glob import REJECTED
from ralph.agent.tools.large import kept_in_file
from ralph.agent.tools.outcomes import failed
from ralph.agent.tools.ripgrep import search_by_ripgrep
from ralph.agent.tools.search import Search, SearchRejectedError, SearchTimeoutError
from ralph.agent.tools.without_ripgrep import search_plainly
from ralph.process import StartError

_USUAL_LIMIT = 250
_SHOWN = 20_000
_MODES = ("content", "files_with_matches", "count")


class Grep:
    name = "Grep"
    description = (
        "Search file contents with a regular expression (ripgrep's). `output_mode`: files_with_matches (the default: "
        "paths, last changed first), content (matching lines) or count. Filter by `glob` or `type`. Ignored files and "
        "version control's own are left out. `multiline` lets a match span lines."
    )
    input_schema = schema(
        {
            "pattern": {"type": "string", "description": "The regular expression"},
            "path": {"type": "string", "description": "The file or folder to search; else the working directory"},
            "glob": {"type": "string", "description": 'Only files that match, such as "*.js" or "*.{ts,tsx}"'},
            "output_mode": {"type": "string", "enum": list(_MODES), "description": "What is wanted"},
            "-B": {"type": "number", "description": "Lines to show before each match (content)"},
            "-A": {"type": "number", "description": "Lines to show after each match (content)"},
            "-C": {"type": "number", "description": "The same as context"},
            "context": {"type": "number", "description": "Lines to show before and after each match (content)"},
            "-n": {"type": "boolean", "description": "Show line numbers (content); true unless given"},
            "-i": {"type": "boolean", "description": "Take upper and lower case for the same"},
            "-o": {"type": "boolean", "description": "Show only what matched, a match a line (content)"},
            "type": {"type": "string", "description": "Only files of this type: py, js, rust, go and so on"},
            "head_limit": {
                "type": "number",
                "description": "Show so many lines or entries: 250 unless given, 0 for all",
            },
            "offset": {"type": "number", "description": "Leave out so many lines or entries first"},
            "multiline": {"type": "boolean", "description": "Let . match newlines, and patterns span lines"},
        },
        "pattern",
    )

    def run(self, arguments: Mapping[str, object], desk: Desk) -> ToolResult:
        """Search."""
        asked = _asked(arguments, desk)
        if refusal := desk.refusal(asked.path, "read from"):
            return failed(refusal)
        if not asked.path.exists():
            return failed(f"Path does not exist: {asked.path}. Note: your current working directory is {desk.cwd}.")
        try:
            # Which files are hidden, ripgrep cannot be told.
            ripgrep = None if desk.hides else shutil.which("rg", path=desk.environment.get("PATH"))
            lines = search_by_ripgrep(ripgrep, asked, desk) if ripgrep else search_plainly(asked, desk)
        except SearchRejectedError as error:
            return failed(f"{REJECTED}{error}")
        except (StartError, SearchTimeoutError) as error:
            return failed(str(error))
        page = _Page(arguments)
        match asked.mode:
            case "files_with_matches":
                return _files(lines, page, desk)
            case "count":
                return _counts(lines, page)
            case "content":
                return _content(lines, page, desk)


class _Page:
    """Which of the lines or entries are shown."""

    def __init__(self, arguments: Mapping[str, object]) -> None:
        wanted = number_argument(arguments, "head_limit")
        self._limit = _USUAL_LIMIT if wanted is None or wanted < 0 else wanted
        self._offset = max(number_argument(arguments, "offset") or 0, 0)

    def cut(self, entries: list[str]) -> list[str]:
        rest = entries[self._offset :]
        return rest[: self._limit] if self._limit else rest

    def detail(self, entries: list[str]) -> dict[str, object]:
        """What of it had an effect."""
        cut = {"appliedLimit": self._limit} if self._limit and len(entries) - self._offset > self._limit else {}
        return {**cut, **({"appliedOffset": self._offset} if self._offset else {})}

    def told(self, entries: list[str]) -> str:
        effect = self.detail(entries)
        words = {"appliedLimit": "limit", "appliedOffset": "offset"}
        return ", ".join(f"{words[name]}: {value}" for name, value in effect.items())


def _asked(arguments: Mapping[str, object], desk: Desk) -> Search:
    mode = text_argument(arguments, "output_mode")
    around = number_argument(arguments, "context")
    around = number_argument(arguments, "-C") if around is None else around
    before, after = number_argument(arguments, "-B"), number_argument(arguments, "-A")
    return Search(
        pattern=text_argument(arguments, "pattern"),
        path=desk.locate(text_argument(arguments, "path") or "."),
        mode=mode if mode in _MODES else "files_with_matches",
        globs=_globs(text_argument(arguments, "glob")),
        file_type=text_argument(arguments, "type"),
        before=max((before if around is None else around) or 0, 0),
        after=max((after if around is None else around) or 0, 0),
        numbers=flag_argument(arguments, "-n", default=True),
        ignore_case=flag_argument(arguments, "-i"),
        only_matching=flag_argument(arguments, "-o"),
        multiline=flag_argument(arguments, "multiline"),
    )


def _globs(given: str) -> tuple[str, ...]:
    """Several globs may be given with blanks or commas between them; a comma in braces belongs to its glob."""
    words = given.split()
    return tuple(glob for word in words for glob in ([word] if "{" in word else word.split(",")) if glob)


def _files(names: list[str], page: _Page, desk: Desk) -> ToolResult:
    names = sorted(names, key=lambda name: (-_changed_at(name, desk), name))
    shown = page.cut(names)
    detail = {"mode": "files_with_matches", "filenames": shown, "numFiles": len(shown), "totalFiles": len(names)}
    if not shown:
        beyond = f"No entries at this offset. [Showing results with pagination = {page.told(names)}]"
        return ToolResult(beyond if names else "No files found", detail={**detail, **page.detail(names)})
    head = " ".join(part for part in (f"Found {len(shown)} {_files_word(len(shown))}", page.told(names)) if part)
    return ToolResult("\n".join([head, *shown]), detail={**detail, **page.detail(names)})


def _counts(lines: list[str], page: _Page) -> ToolResult:
    matches = sum(int(line.rpartition(":")[2]) for line in lines if line.rpartition(":")[2].isdigit())
    shown = "\n".join(page.cut(lines))
    times = "occurrence" if matches == 1 else "occurrences"
    told = (
        f"{shown or 'No matches found'}\n\nFound {matches} total {times} across {len(lines)} {_files_word(len(lines))}."
    )
    if effect := page.told(lines):
        told += f" with pagination = {effect}"
    detail: dict[str, object] = {
        "mode": "count",
        "numFiles": len(lines),
        "filenames": [],
        "content": shown,
        "numMatches": matches,
    }
    return ToolResult(told, detail={**detail, **page.detail(lines)})


def _content(lines: list[str], page: _Page, desk: Desk) -> ToolResult:
    shown = page.cut(lines)
    content = "\n".join(shown)
    detail: dict[str, object] = {"mode": "content", "numFiles": 0, "filenames": [], "content": content}
    detail |= {"numLines": len(shown), "totalLines": len(lines), **page.detail(lines)}
    told = content or "No matches found"
    if effect := page.told(lines):
        told += f"\n\n[Showing results with pagination = {effect}]"
    if len(told) <= _SHOWN:
        return ToolResult(told, detail=detail)
    place = desk.place_for_output("grep")
    place.write_text(told)
    return ToolResult(kept_in_file(told, len(told.encode()), place), detail=detail)


def _files_word(count: int) -> str:
    return "file" if count == 1 else "files"


def _changed_at(name: str, desk: Desk) -> int:
    try:
        return (desk.cwd / name).stat().st_mtime_ns
    except OSError:
        return 0
