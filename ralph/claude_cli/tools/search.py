"""The Grep tool (lines, files or counts that match a regular expression) and the Glob tool (files by name)."""

import contextlib
import time
from collections.abc import Generator, Iterable, Iterator, Mapping
from pathlib import Path

from ralph.claude_cli.desk import Access, Desk, ToolResult, failed, kept_in_file, rejected
from ralph.claude_cli.permissions.rules import base_of
from ralph.claude_cli.schemas import flag_argument, number_argument, schema, text_argument
from ralph.claude_cli.tools.ripgrep import Cut, Search, SearchError, changed_at, raw_text, shown_path
from ralph.core import ndjson

_USUAL_LIMIT = 250
_SHOWN = 20_000
_MOST_KEPT = 16 << 20
"""Characters of matching lines after which a search is cut."""

_LONGEST_LINE = 500
"""Bytes beyond which a line is not shown: minified files would fill the conversation."""

_MODES = ("content", "files_with_matches", "count")
_NOT_SEARCHED = (".git", ".svn", ".hg", ".bzr", ".jj", ".sl")

_MOST = 100
"""Files that Glob names."""


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
            "glob": {
                "type": "string",
                "description": 'Only files that match, such as "*.js" or "src/**/*.{ts,tsx}", seen from `path`',
            },
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
        if fault := _fault(arguments):
            return rejected(fault)
        given = text_argument(arguments, "path")
        place = desk.locate(given or ".")
        if refusal := desk.refusal(place, Access.READ):
            return failed(refusal.message)
        if not place.exists():
            return failed(f"Path does not exist: {given}. Note: your current working directory is {desk.cwd}.")
        try:
            return _search(arguments, Search(place, desk), desk)
        except SearchError as error:
            return failed(str(error))


def _search(arguments: Mapping[str, object], search: Search, desk: Desk) -> ToolResult:
    page = _Page(arguments)
    options = _options(arguments)
    match text_argument(arguments, "output_mode"):
        case "content":
            return _content(arguments, options, search, page, desk)
        case "count":
            found = search.counts("--sort=path", *options)
            return _counts([(shown_path(path, desk), count) for path, count in found], search, page)
        case _:
            found = search.files("--files-with-matches", *options)
            newest_first = sorted((-changed_at(path), shown_path(path, desk)) for path in found)
            return _files([name for _, name in newest_first], search, page)


def _options(arguments: Mapping[str, object]) -> list[str]:
    """Return the flags for every mode. `--max-columns` is not among them: `--json` ignores it."""
    globs = _globs(text_argument(arguments, "glob"))
    options = [f"--glob={glob}" for glob in (*(f"!{name}" for name in _NOT_SEARCHED), *globs)]
    options += ["--multiline", "--multiline-dotall"] if flag_argument(arguments, "multiline") else []
    options += ["--ignore-case"] if flag_argument(arguments, "-i") else []
    file_type = text_argument(arguments, "type")
    options += [f"--type={file_type}"] if file_type else []
    return [*options, "-e", text_argument(arguments, "pattern")]


def _context(arguments: Mapping[str, object]) -> list[str]:
    """Return the flags for lines around a match: `context` comes before -C, and -C before -B and -A.

    ripgrep judges the numbers, as with claude.
    """
    for name in ("context", "-C"):
        if around := _number_as_given(arguments, name):
            return [f"-C{around}"]
    return [f"{name}{lines}" for name in ("-B", "-A") if (lines := _number_as_given(arguments, name))]


def _number_as_given(arguments: Mapping[str, object], name: str) -> str:
    value = arguments.get(name)
    is_fraction = isinstance(value, float) and not value.is_integer()
    number = value if is_fraction else number_argument(arguments, name)
    return "" if number is None else str(number)


def _fault(arguments: Mapping[str, object]) -> str:
    """Return why such a page cannot be shown; empty: it can."""
    for name, hint in (("head_limit", " Pass 0 for unlimited."), ("offset", "")):
        number = _number_as_given(arguments, name)
        if number and not number.isdecimal():
            return f"{name} must be a whole number of 0 or more, got {number}.{hint}"
    return ""


class _Page:
    """Which of the lines or entries are shown, and how many there are."""

    def __init__(self, arguments: Mapping[str, object]) -> None:
        wanted = number_argument(arguments, "head_limit")
        self._limit = _USUAL_LIMIT if wanted is None else wanted
        self._offset = number_argument(arguments, "offset") or 0
        self.shown: list[str] = []
        self.total = 0

    def fill(self, entries: Iterable[str], search: Search) -> None:
        """Count the entries, and keep those that are shown."""
        kept = 0
        for entry in entries:
            if self.total >= self._offset and (not self._limit or len(self.shown) < self._limit):
                self.shown.append(entry)
                kept += len(entry)
            self.total += 1
            if kept > _MOST_KEPT:
                search.cut = Cut.SIZE
                break

    @property
    def detail(self) -> dict[str, int]:
        """The limit and the offset, if they had an effect."""
        cut = {"appliedLimit": self._limit} if self._limit and self.total - self._offset > self._limit else {}
        return {**cut, **({"appliedOffset": self._offset} if self._offset else {})}

    @property
    def nothing(self) -> str:
        """What is said when there is no text to show."""
        return "No entries at this offset" if self.total and not self.shown else "No matches found"

    @property
    def told(self) -> str:
        words = {"appliedLimit": "limit", "appliedOffset": "offset"}
        return ", ".join(f"{words[name]}: {value}" for name, value in self.detail.items())


def _globs(given: str) -> list[str]:
    """Several globs may be given with blanks or commas between them; a comma in braces belongs to its glob."""
    globs: list[str] = []
    for word in given.split():
        globs += [word] if "{" in word and "}" in word else filter(None, word.split(","))
    return globs


def _files(names: list[str], search: Search, page: _Page) -> ToolResult:
    page.fill(names, search)
    shown = page.shown
    detail = {"mode": "files_with_matches", "filenames": shown, "numFiles": len(shown), "totalFiles": len(names)}
    head = " ".join(part for part in (f"Found {len(shown)} {_files_word(len(shown))}", page.told) if part)
    told = "\n".join([head, *shown])
    if not shown:
        beyond = f"{page.nothing}. [Showing results with pagination = {page.told}]"
        told = beyond if names else "No files found"
    return search.answer(told, {**detail, **page.detail}, is_empty=not names)


def _counts(found: list[tuple[str, int]], search: Search, page: _Page) -> ToolResult:
    matches = sum(count for _, count in found)
    page.fill((f"{name}:{count}" for name, count in found), search)
    shown = "\n".join(page.shown)
    times = "occurrence" if matches == 1 else "occurrences"
    told = f"{shown or page.nothing}\n\nFound {matches} total {times} across {len(found)} {_files_word(len(found))}."
    if page.told:
        told += f" with pagination = {page.told}"
    detail: dict[str, object] = {"mode": "count", "numFiles": len(found), "filenames": [], "content": shown}
    return search.answer(told, {**detail, "numMatches": matches, **page.detail}, is_empty=not found)


def _content(
    arguments: Mapping[str, object], options: list[str], search: Search, page: _Page, desk: Desk
) -> ToolResult:
    with contextlib.closing(_lines(arguments, options, search, desk)) as lines:
        page.fill(lines, search)
    content = "\n".join(page.shown)
    detail: dict[str, object] = {"mode": "content", "numFiles": 0, "filenames": [], "content": content}
    detail |= {"numLines": len(page.shown), "totalLines": page.total, **page.detail}
    told = content or page.nothing
    if page.told:
        told += f"\n\n[Showing results with pagination = {page.told}]"
    if len(told) > _SHOWN:
        place = desk.place_for_output("grep")
        place.write_text(told, "utf-8")
        told = kept_in_file(told, len(told.encode()), place)
    return search.answer(told, detail, is_empty=not page.total)


def _lines(arguments: Mapping[str, object], options: list[str], search: Search, desk: Desk) -> Generator[str]:
    """Write what ripgrep found as it would itself: `file:number:line`, and `-` for `:` in lines around a match."""
    context = _context(arguments)
    has_numbers = flag_argument(arguments, "-n", default=True)
    only_matching = flag_argument(arguments, "-o")
    last: tuple[Path, int] | None = None
    for path, kind, data in search.events("--sort=path", *context, *options, with_matches=only_matching):
        names = [] if search.is_of_file else [shown_path(path, desk)]
        number = ndjson.count(data.get("line_number"))
        match kind:
            case "match" | "context":
                mark = ":" if kind == "match" else "-"
                if context and last is not None and last != (path, number - 1):
                    yield "--"
                raw = raw_text(data.get("lines"))
                last = path, number + raw.removesuffix(b"\n").count(b"\n")
                for at, line in _matches(raw, data) if only_matching and kind == "match" else enumerate(_split(raw)):
                    if b"\0" not in line:
                        numbers = [str(number + at)] if has_numbers else []
                        yield mark.join([*names, *numbers, _shortened(line, kind)])
            case "end" if data.get("binary_offset") is not None:
                yield ":".join(
                    [*names, f'binary file matches (found "\\0" byte around offset {data["binary_offset"]})']
                )
            case _:
                pass


def _split(raw: bytes) -> list[bytes]:
    return raw.removesuffix(b"\n").split(b"\n")


def _matches(raw: bytes, data: Mapping[str, object]) -> Iterator[tuple[int, bytes]]:
    """Yield each line of each match in these lines, and how many lines below the first one it stands."""
    for each in ndjson.sequence(data.get("submatches")):
        match = ndjson.mapping(each)
        first = raw.count(b"\n", 0, ndjson.count(match.get("start")))
        yield from enumerate(raw_text(match.get("match")).split(b"\n"), first)


def _shortened(line: bytes, kind: str) -> str:
    line = line.removesuffix(b"\r")
    if len(line) > _LONGEST_LINE:
        return "[Omitted long matching line]" if kind == "match" else "[Omitted long context line]"
    return line.decode("utf-8", "replace")


def _files_word(count: int) -> str:
    return "file" if count == 1 else "files"


class GlobTool:
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
        if refusal := desk.refusal(root, Access.READ):
            return failed(refusal.message)
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
