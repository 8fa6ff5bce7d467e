"""Searching without ripgrep, with the same answer. A program of its own: `python -m ralph.agent.tools.plain_search`.

Python's regular expressions are written a little differently, and a pattern made to take for ever does, deaf to
everything: ripgrep's cannot. So a process searches that can be killed. It reads one line of JSON and prints one per
record: ["file", path] before the ["line", text]s of each file that has some, or ["rejected", why].
"""

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import cast

from ralph import jsonline
from ralph.agent.globs import Glob, GlobError, compile_glob
from ralph.agent.tools.search import LONGEST_LINE, Mode, Search, SearchRejectedError, told_path
from ralph.agent.tree import searched_files

_MOST = 1_000_000_000
"""Lines of context that come to all of them."""


def order(asked: Search, cwd: Path) -> bytes:
    """The line that asks for a search."""
    told = {"pattern": asked.pattern, "path": str(asked.path), "mode": asked.mode, "globs": list(asked.globs)}
    told |= {"before": min(asked.before, _MOST), "after": min(asked.after, _MOST), "file_type": asked.file_type}
    told |= {"ignore_case": asked.ignore_case, "only_matching": asked.only_matching, "multiline": asked.multiline}
    return jsonline.encode_line({**told, "numbers": asked.numbers, "cwd": str(cwd)})


def main() -> None:
    """Search as stdin says."""
    told = jsonline.mapping(jsonline.decode(sys.stdin.buffer.readline().decode("utf-8")))
    try:
        for path, lines in search(_asked(told), Path(jsonline.text(told.get("cwd")))):
            _print("file", str(path))
            for line in lines:
                _print("line", line)
    except (SearchRejectedError, GlobError) as error:
        _print("rejected", str(error))
    sys.stdout.flush()


def search(asked: Search, cwd: Path) -> Iterator[tuple[Path, list[str]]]:
    """Search file by file; what is found comes with its file."""
    expression = _expression(asked)
    globs = [compile_glob(glob) for glob in asked.globs]
    types = _globs_of_type(asked.file_type)
    single = asked.path.is_file()
    for path in [asked.path] if single else searched_files(asked.path, partial(_choose, globs, cwd)):
        name = told_path(path, cwd).removeprefix("./")
        if not single and types and not any(kind.matches(name) for kind in types):
            continue
        if found := list(_lines_of(path, name, expression, asked, single=single)):
            yield path, found


def _asked(told: Mapping[str, object]) -> Search:
    return Search(
        pattern=jsonline.text(told.get("pattern")),
        path=Path(jsonline.text(told.get("path"))),
        mode=cast(Mode, told.get("mode")),
        globs=tuple(jsonline.text(glob) for glob in jsonline.sequence(told.get("globs"))),
        file_type=jsonline.text(told.get("file_type")),
        before=jsonline.count(told.get("before")),
        after=jsonline.count(told.get("after")),
        numbers=told.get("numbers") is True,
        ignore_case=told.get("ignore_case") is True,
        only_matching=told.get("only_matching") is True,
        multiline=told.get("multiline") is True,
    )


def _print(kind: str, text: str) -> None:
    sys.stdout.buffer.write(jsonline.encode_line([kind, text]))


def _choose(globs: list[Glob], cwd: Path, path: Path, is_folder: bool) -> bool | None:
    """The last glob that matches decides; a file that none matches is unwanted if some glob asks for others."""
    name = told_path(path, cwd).removeprefix("./")
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


if __name__ == "__main__":
    main()
