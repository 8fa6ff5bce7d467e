"""Searching without ripgrep, with the same answer.

Python's regular expressions are written a little differently, and a pattern made to take for ever does: ripgrep's
cannot.
"""

import re
import time
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

from ralph.agent.globs import Glob, compile_glob
from ralph.agent.tools.base import Desk
from ralph.agent.tools.search import (
    LONGEST_LINE,
    TIME_LIMIT,
    Search,
    SearchRejectedError,
    SearchTimeoutError,
    told_path,
)
from ralph.agent.tree import searched_files


def search_plainly(asked: Search, desk: Desk) -> Iterator[str]:
    """Search file by file."""
    expression = _expression(asked)
    globs = [compile_glob(glob) for glob in asked.globs]
    types = _globs_of_type(asked.file_type)
    single = asked.path.is_file()
    deadline = time.monotonic() + TIME_LIMIT
    apart = ""
    for path in [asked.path] if single else searched_files(asked.path, partial(_choose, globs, desk)):
        if desk.stop.is_set() or time.monotonic() > deadline:
            raise SearchTimeoutError
        if desk.hides is not None and desk.hides(path):
            continue
        name = told_path(path, desk).removeprefix("./")
        if not single and types and not any(kind.matches(name) for kind in types):
            continue
        found = list(_lines_of(path, name, expression, asked, single=single))
        if found and apart:
            yield apart
        yield from found
        if found and asked.mode == "content" and (asked.before or asked.after):
            apart = "--"


def _choose(globs: list[Glob], desk: Desk, path: Path, is_folder: bool) -> bool | None:
    """The last glob that matches decides; a file that none matches is unwanted if some glob asks for others."""
    name = told_path(path, desk).removeprefix("./")
    for glob in reversed(globs):
        if (is_folder or not glob.only_folders) and glob.matches(name):
            return not glob.negated
    return None if is_folder or all(glob.negated for glob in globs) else False


def _lines_of(path: Path, name: str, expression: re.Pattern[str], asked: Search, *, single: bool) -> Iterator[str]:
    try:
        content = path.read_bytes()
    except OSError:
        return
    nul = content.find(b"\0") if not content.startswith((b"\xff\xfe", b"\xfe\xff")) else -1
    if nul >= 0 and not single:
        return
    text = _decoded(content)
    lines = text.split("\n")[:-1] if text.endswith("\n") else text.split("\n") if text else []
    hits = _multiline_hits(text, expression) if asked.multiline else _hits(lines, expression)
    if not hits:
        return
    prefix = "" if single and asked.mode == "content" else name
    match asked.mode:
        case "files_with_matches":
            yield name
        case "count":
            yield f"{name}:{sum(len(parts) for parts in hits.values()) if asked.multiline else len(hits)}"
        case "content" if nul >= 0:
            yield f'{prefix + ": " if prefix else ""}binary file matches (found "\\0" byte around offset {nul})'
        case "content" if asked.only_matching:
            for number, parts in hits.items():
                yield from (_line(prefix, number, part, ":", asked) for part in parts if part)
        case "content":
            yield from _in_context(prefix, lines, hits.keys(), asked)


def _hits(lines: list[str], expression: re.Pattern[str]) -> dict[int, list[str]]:
    """The matching parts of each matching line, by its number from 0."""
    found: dict[int, list[str]] = {}
    for number, line in enumerate(lines):
        if parts := [match.group() for match in expression.finditer(line)]:
            found[number] = parts
    return found


def _multiline_hits(text: str, expression: re.Pattern[str]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for match in expression.finditer(text):
        first = text.count("\n", 0, match.start())
        for at, part in enumerate(match.group().removesuffix("\n").split("\n")):
            found.setdefault(first + at, []).append(part)
    return found


def _in_context(prefix: str, lines: list[str], hits: Iterable[int], asked: Search) -> Iterator[str]:
    matching = set(hits)
    shown = {
        number
        for hit in matching
        for number in range(max(hit - asked.before, 0), min(hit + asked.after + 1, len(lines)))
    }
    last = None
    for number in sorted(shown):
        if last is not None and number > last + 1 and (asked.before or asked.after):
            yield "--"
        last = number
        yield _line(prefix, number, lines[number], ":" if number in matching else "-", asked)


def _line(prefix: str, number: int, text: str, mark: str, asked: Search) -> str:
    if len(text.encode("utf-8", "replace")) > LONGEST_LINE:
        text = "[Omitted long matching line]" if mark == ":" else "[Omitted long context line]"
    parts = [prefix] if prefix else []
    parts += [str(number + 1)] if asked.numbers else []
    return mark.join([*parts, text])


def _decoded(content: bytes) -> str:
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return content.decode("utf-16", "replace")
    return content.decode("utf-8-sig", "replace")


_POSIX = {
    "alpha": "a-zA-Z", "digit": "0-9", "alnum": "a-zA-Z0-9", "upper": "A-Z", "lower": "a-z", "space": r"\s",
    "word": r"\w", "xdigit": "0-9A-Fa-f", "blank": r" \t", "punct": r"!-/:-@\[-`{-~",
}  # fmt: skip


def _expression(asked: Search) -> re.Pattern[str]:
    """The pattern in Python's words."""
    pattern = re.sub(r"\(\?<(?![=!])", "(?P<", asked.pattern).replace(r"\z", r"\Z")
    pattern = re.sub(r"\[:(\w+):\]", lambda match: _POSIX.get(match.group(1), match.group()), pattern)
    flags = re.MULTILINE | (re.IGNORECASE if asked.ignore_case else 0) | (re.DOTALL if asked.multiline else 0)
    try:
        return re.compile(pattern, flags)
    except (re.error, OverflowError) as error:
        raise SearchRejectedError(f"regex parse error:\n    {asked.pattern}\nerror: {error}") from error


_TYPES = {
    "c": "*.{c,h}", "cpp": "*.{C,cc,cpp,cxx,h,hh,hpp,hxx,inl}", "cs": "*.cs", "css": "*.{css,scss}", "csv": "*.csv",
    "docker": "*Dockerfile*", "elixir": "*.{ex,eex,exs}", "go": "*.go", "haskell": "*.{hs,lhs}", "html": "*.{htm,html}",
    "java": "*.{java,jsp}", "js": "*.{js,jsx,vue,cjs,mjs}", "json": "*.json", "kotlin": "*.{kt,kts}", "lua": "*.lua",
    "make": "{[Mm]akefile,GNUmakefile,*.mk,*.mak}", "markdown": "*.{markdown,md,mdown,mkdn}",
    "md": "*.{markdown,md,mdown,mkdn}", "perl": "*.{pl,pm,t}", "php": "*.php", "py": "*.{py,pyi}",
    "python": "*.{py,pyi}", "r": "*.{R,r,Rmd}", "rst": "*.rst", "ruby": "*.{rb,gemspec,rake}", "rust": "*.rs",
    "scala": "*.{scala,sbt}", "sh": "*.{sh,bash,zsh,ksh,csh,tcsh}", "sql": "*.{sql,psql}", "swift": "*.swift",
    "tex": "*.{tex,ltx,cls,sty,bib}", "toml": "{*.toml,Cargo.lock}",
    "ts": "*.{ts,tsx,cts,mts}", "txt": "*.txt", "xml": "*.{xml,xsd,xsl,xslt,svg}",
    "yaml": "*.{yaml,yml}", "zig": "*.zig",
}  # fmt: skip


def _globs_of_type(name: str) -> list[Glob]:
    if not name:
        return []
    if name not in _TYPES:
        raise SearchRejectedError(f"unrecognized file type: {name}")
    return [compile_glob(_TYPES[name])]
