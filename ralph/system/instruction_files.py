"""The files with which a repository instructs its agents: CLAUDE.md with rules and imports, else AGENTS.md.

Read as Claude Code 2.1.325 reads them. A repository's links and imports are followed only while they stay inside it: a
stranger must not choose which of this machine's files a model gets to see.
"""

import os
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Kind = Literal["user", "project", "local"]

SOURCES = ("user", "project", "local")
TOP = Path("/")
_DEEPEST = 5
"""Files in a chain of imports, the first one included."""
_LARGEST = 1 << 20
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_NOT_PROSE = re.compile(r"`[^`]*`|<!--.*?-->", re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_IMPORT = re.compile(r"(?:^|[\s*_])@((?:[^\s\\]|\\ )+)", re.MULTILINE)
_TEXT = frozenset({
    "", ".adoc", ".c", ".cfg", ".conf", ".cpp", ".css", ".csv", ".go", ".h", ".html", ".ini", ".java", ".js", ".json",
    ".jsx", ".kt", ".lua", ".md", ".mdc", ".mdx", ".php", ".proto", ".py", ".rb", ".rs", ".rst", ".scss", ".sh", ".sql",
    ".swift", ".toml", ".ts", ".tsx", ".txt", ".vue", ".xml", ".yaml", ".yml",
})  # fmt: skip


def real(path: Path) -> Path:
    """The path with every link followed; one that leads round in circles is itself (`Path.resolve` raises)."""
    return Path(os.path.realpath(path))


def stays_inside(path: Path, *folders: Path) -> bool:
    """Tell whether what `path` leads to lies in one of the folders, links followed."""
    there = real(path)
    return any(there.is_relative_to(real(folder)) for folder in folders)


@dataclass(frozen=True, slots=True)
class Memory:
    """One of these files, as it is read."""

    path: Path
    kind: Kind
    text: str
    of_rules: bool = False
    """It stands in `.claude/rules`, or is imported from there."""


def read_memory(cwd: Path, home: Path, sources: Collection[str] = SOURCES, *, top: Path = TOP) -> list[Memory]:
    """Return everything that applies to a session in `cwd`, the most general first; look no higher than `top`."""
    reader = _MemoryReader(cwd.resolve())
    user: list[Memory] = []
    if "user" in sources:
        user = [*reader.take(home / ".claude" / "CLAUDE.md", "user", home), *reader.take_rules(home, "user")]
    folders = [folder for folder in (*reversed(reader.cwd.parents), reader.cwd) if folder.is_relative_to(top)]
    project = [memory for folder in folders for memory in _in_folder(reader, folder, sources)]
    if all(memory.of_rules for memory in project) and "project" in sources:  # rules alone do not displace AGENTS.md
        project += [memory for folder in folders for memory in reader.take(folder / "AGENTS.md", "project", folder)]
    return [*user, *project]


def imports_in(text: str) -> list[str]:
    """The paths that a text imports with `@`: not in code, not in comments."""
    found = _IMPORT.findall(_NOT_PROSE.sub(" ", "\n".join(_prose(text))))
    paths = (path.partition("#")[0].rstrip("*_").replace("\\ ", " ") for path in found)
    return [path for path in paths if path]


def _in_folder(reader: "_MemoryReader", folder: Path, sources: Collection[str]) -> Iterator[Memory]:
    if "project" in sources:
        yield from reader.take(folder / "CLAUDE.md", "project", folder)
        yield from reader.take(folder / ".claude" / "CLAUDE.md", "project", folder)
        yield from reader.take_rules(folder, "project")
    if "local" in sources:
        yield from reader.take(folder / "CLAUDE.local.md", "local", folder)


def _prose(text: str) -> Iterator[str]:
    """The lines that are no code: neither fenced nor indented."""
    fence = ""
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if fence:
            closes = mark is not None and mark[1].startswith(fence) and not line.strip().strip(fence[0])
            fence = "" if closes else fence
        elif mark:
            fence = mark[1]
        elif not line.startswith(("    ", "\t")):
            yield line


class _MemoryReader:
    """Takes each file once, with what it imports after it."""

    def __init__(self, cwd: Path) -> None:
        self.cwd = cwd
        self._taken: set[Path] = set()

    def take(self, path: Path, kind: Kind, folder: Path, depth: int = 1, *, of_rules: bool = False) -> Iterator[Memory]:
        """Read the file if it stays in `folder`, whose memory it is, or in the working directory."""
        there = real(path)
        if there in self._taken or depth > _DEEPEST or not self._may_read(path, kind, folder):
            return
        text = _text_of(there)
        if text is None:
            return
        self._taken.add(there)
        if _COMMENT.sub("", text).strip():
            yield Memory(path, kind, text, of_rules)
        for name in imports_in(text):
            yield from self.take(_imported(name, path.parent), kind, self.cwd, depth + 1, of_rules=of_rules)

    def take_rules(self, folder: Path, kind: Kind) -> Iterator[Memory]:
        for path in sorted((folder / ".claude" / "rules").rglob("*.md")):
            if self._may_read(path, kind, folder) and not _is_conditional(path):
                yield from self.take(path, kind, folder, of_rules=True)

    def _may_read(self, path: Path, kind: Kind, folder: Path) -> bool:
        """What the user wrote may lead anywhere: it is the user's own choice."""
        return kind == "user" or stays_inside(path, folder, self.cwd)


def _imported(name: str, folder: Path) -> Path:
    if name.startswith("~/"):
        return Path(name).expanduser()
    return folder / name


def _text_of(path: Path) -> str | None:
    try:
        if path.suffix.lower() not in _TEXT or not path.is_file() or path.stat().st_size > _LARGEST:
            return None
        return path.read_text("utf-8", "replace").strip()
    except OSError:
        return None


def _is_conditional(path: Path) -> bool:
    """A rule for some paths only is shown when they come up; here it is not."""
    text = _text_of(path) or ""
    return text.startswith("---") and re.search(r"^paths\s*:", text.split("\n---", 1)[0], re.MULTILINE) is not None
