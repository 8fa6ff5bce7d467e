"""What the user and the project want every session to know: CLAUDE.md with its imports, else AGENTS.md.

Measured on Claude Code 2.1.325. A repository's files are followed only as far as they stay inside it: a link or an
import must not carry a stranger's choice of this machine's files to a model.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ralph.agent.inside import real, stays_inside

Kind = Literal["user", "project", "local"]

_LABELS: dict[Kind, str] = {
    "user": "user's private global instructions for all projects",
    "project": "project instructions, checked into the codebase",
    "local": "user's private project instructions, not checked in",
}
_INTRODUCTION = (
    "Codebase and user instructions are shown below. Be sure to adhere to these instructions. IMPORTANT: These "
    "instructions OVERRIDE any default behavior and you MUST follow them exactly as written."
)
_DEEPEST = 5
"""Files in a chain of imports, the first one included."""

_LARGEST = 1 << 20
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_NOT_PROSE = re.compile(r"`[^`]*`|<!--.*?-->", re.DOTALL)
_IMPORT = re.compile(r"(?:^|[\s*_])@((?:[^\s\\]|\\ )+)", re.MULTILINE)
_TEXT = frozenset({
    "", ".adoc", ".c", ".cfg", ".conf", ".cpp", ".css", ".csv", ".go", ".h", ".html", ".ini", ".java", ".js", ".json",
    ".jsx", ".kt", ".lua", ".md", ".mdc", ".mdx", ".php", ".proto", ".py", ".rb", ".rs", ".rst", ".scss", ".sh", ".sql",
    ".swift", ".toml", ".ts", ".tsx", ".txt", ".vue", ".xml", ".yaml", ".yml",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Memory:
    """One file of it."""

    path: Path
    kind: Kind
    text: str


_SOURCES = ("user", "project", "local")
_TOP = Path("/")


def read_memory(cwd: Path, home: Path, sources: Collection[str] = _SOURCES, *, top: Path = _TOP) -> list[Memory]:
    """Return everything that holds for a session in `cwd`, the most general first; look no higher than `top`."""
    reader = _Reader(cwd.resolve())
    user: list[Memory] = []
    if "user" in sources:
        user = [*reader.take(home / ".claude" / "CLAUDE.md", "user", home), *reader.take_rules(home, "user")]
    folders = [folder for folder in (*reversed(reader.cwd.parents), reader.cwd) if folder.is_relative_to(top)]
    project = [memory for folder in folders for memory in _in_folder(reader, folder, sources)]
    if not project and "project" in sources:
        project = [memory for folder in folders for memory in reader.take(folder / "AGENTS.md", "project", folder)]
    return [*user, *project]


def instructions(cwd: Path, home: Path, sources: Collection[str] = _SOURCES, *, top: Path = _TOP) -> list[str]:
    """Return the memory as a session is told of it: one text, or none."""
    memories = read_memory(cwd, home, sources, top=top)
    if not memories:
        return []
    parts = [f"Contents of {memory.path} ({_LABELS[memory.kind]}):\n\n{memory.text}" for memory in memories]
    return ["\n\n".join([_INTRODUCTION, *parts])]


def imports_in(text: str) -> list[str]:
    """The paths that a text imports with `@`: not in code, not in comments."""
    found = _IMPORT.findall(_NOT_PROSE.sub(" ", "\n".join(_prose(text))))
    paths = (path.partition("#")[0].rstrip("*_").replace("\\ ", " ") for path in found)
    return [path for path in paths if path]


def _in_folder(reader: "_Reader", folder: Path, sources: Collection[str]) -> Iterator[Memory]:
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


class _Reader:
    """Takes each file once, with what it imports after it."""

    def __init__(self, cwd: Path) -> None:
        self.cwd = cwd
        self._taken: set[Path] = set()

    def take(self, path: Path, kind: Kind, folder: Path, depth: int = 1) -> Iterator[Memory]:
        """Read the file if it stays in `folder`, whose memory it is, or in the working directory."""
        there = real(path)
        if there in self._taken or depth > _DEEPEST or not self._may_read(path, kind, folder):
            return
        text = _text_of(there)
        if text is None:
            return
        self._taken.add(there)
        if text:
            yield Memory(path, kind, text)
        for name in imports_in(text):
            yield from self.take(_imported(name, path.parent), kind, self.cwd, depth + 1)

    def take_rules(self, folder: Path, kind: Kind) -> Iterator[Memory]:
        for path in sorted((folder / ".claude" / "rules").rglob("*.md")):
            if self._may_read(path, kind, folder) and not _is_conditional(path):
                yield from self.take(path, kind, folder)

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
