"""What tools are, what they return, and the state that all tools of one session share.

Wordings and shapes here and in the tools are those of Claude Code 2.1.325 unless a comment says otherwise, because
models and harnesses already know them.
"""

import errno
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from ralph.claude_cli.debug import QUIET, Debug
from ralph.claude_cli.instructions import Skill

_DIGESTED = 1 << 20
"""Up to this size a file is compared by content: `touch` and a checkout back and forth change nothing."""

_OUTSIDE = "which is outside the allowed working directories"

INTERRUPTED = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the "
    "new_string was NOT written to the file). STOP what you are doing and wait for the user to tell you how to proceed."
    " Correction to the text above: this call was stopped while running, not refused before it ran. It may have run in "
    "part or in full, and its changes may have been written. No permission prompt was involved. Work it started "
    "elsewhere (a remote command, a background process) may still be running, so check before starting the same work "
    "again. The instruction to stop and wait still stands."
)
"""What is said of a call that an interrupt ended."""
_PREVIEW = 2000


class Access(StrEnum):
    """What a path is used for, in Claude's words."""

    READ = "read from"
    WRITE = "write to"


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What one call came to."""

    content: str
    """The message for the model."""

    is_error: bool = False
    detail: object = None
    """The event's `tool_use_result`: an object for a success, a string for an error."""

    follow_up: str = ""
    """What is said to the model afterwards, as a synthetic user message."""

    blocks: Sequence[Mapping[str, object]] = ()
    """Content blocks that take the place of `content`: an image."""

    was_tried: bool = True
    """False: the tool would not even try, so the model does not learn that the call was allowed."""

    denials: Sequence[Mapping[str, object]] = ()
    """Calls that were refused to a subagent."""

    is_spent: bool = False
    """A subagent has spent the budget: the turn ends without this result."""


class Tool(Protocol):
    """One tool: its description for the model, and its work. `arguments` have passed `input_schema`."""

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def input_schema(self) -> Mapping[str, object]: ...
    def run(self, arguments: Mapping[str, object], desk: "Desk") -> ToolResult: ...


@dataclass(frozen=True, slots=True)
class Seen:
    """A file as the model last saw it; `whole`: all of it."""

    changed_at: int
    size: int
    digest: bytes
    whole: bool


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a path may not be used, in Claude Code's words."""

    message: str
    link: str = ""
    """Where the path leads by a symlink, if it is only by that link outside the allowed directories."""


class Desk:
    """What one session's tools share: where they stand, how far they reach, what they have read."""

    def __init__(
        self,
        cwd: Path,
        *,
        environment: Mapping[str, str],
        scratch: Path,
        add_dirs: Sequence[Path] = (),
        skills: Mapping[str, Skill] | None = None,
        stop: threading.Event | None = None,
        debug: Debug = QUIET,
    ) -> None:
        """`scratch` takes outputs kept whole; it and the folders of `skills` may be read wherever they lie."""
        self.start = cwd.resolve()
        self.cwd = self.start
        """Where a relative path begins; a `cd` in Bash moves it."""
        self.roots = tuple(dict.fromkeys([self.start, *((cwd / folder).resolve() for folder in add_dirs)]))
        self.skills = skills or {}
        self.loaded_skills: dict[str, str] = {}
        folders = [skill.folder.resolve() for skill in self.skills.values() if skill.folder is not None]
        self.readable = (scratch.resolve(), *folders)
        self.environment = environment
        self.scratch = scratch
        self.stop = stop or threading.Event()
        self.debug = debug
        self.hides: Callable[[Path], bool] | None = None
        """Files that no search may show; None: there are none."""
        self.call_id = ""
        """The call that is being run."""
        self.read_files: dict[Path, Seen] = {}
        self._kept = 0

    def locate(self, path: str) -> Path:
        """The absolute path that a model means, links not followed."""
        home = self.environment.get("HOME", "")
        if home and (path == "~" or path.startswith("~/")):
            path = home + path[1:]
        return Path(os.path.normpath(self.cwd / path))

    def refusal(self, path: Path, access: Access) -> Refusal | None:
        """Why the path may not be used in this way, links followed; None: it may."""
        real = path.resolve()
        allowed = self.roots + (self.readable if access is Access.READ else ())
        if any(real.is_relative_to(root) for root in allowed):
            return None
        refused = f"Claude requested permissions to {access} {path}, but you haven't granted it yet."
        if not any(path.is_relative_to(root) for root in allowed):
            return Refusal(refused)
        link = f"{path} resolves through a symlink to {real}, {_OUTSIDE}"
        return Refusal(f"{refused} {link}.", link)

    def saw(self, path: Path, *, whole: bool) -> None:
        """Remember that the model knows what stands in the file now."""
        if (seen := _look_at(path, whole=whole)) is not None:
            self.read_files[path.resolve()] = seen

    def seen(self, path: Path) -> Seen | None:
        return self.read_files.get(path.resolve())

    def has_changed(self, path: Path) -> bool:
        """Tell whether the file is another than the one the model knows."""
        known, now = self.seen(path), _look_at(path, whole=True)
        if known is None or now is None:
            return True
        if known.digest and now.digest:
            return known.digest != now.digest
        return (known.changed_at, known.size) != (now.changed_at, now.size)

    def place_for_output(self, tool: str) -> Path:
        """A new file under `scratch`."""
        self._kept += 1
        self.scratch.mkdir(parents=True, exist_ok=True, mode=0o700)
        return self.scratch / f"{tool.lower()}-{self._kept}.txt"


def _look_at(path: Path, *, whole: bool) -> Seen | None:
    import hashlib  # OpenSSL, which no start waits for: only who has read a file needs it

    try:
        status = path.stat()
        content = path.read_bytes() if status.st_size <= _DIGESTED else b""
    except OSError:
        return None
    digest = hashlib.sha256(content).digest() if status.st_size <= _DIGESTED else b""
    return Seen(status.st_mtime_ns, status.st_size, digest, whole)


def failed(message: str) -> ToolResult:
    """The tool tried and could not."""
    return ToolResult(message, is_error=True, detail=f"Error: {message}")


def rejected(message: str) -> ToolResult:
    """The tool would not even try: the call itself makes no sense as things stand."""
    said = f"<tool_use_error>{message}</tool_use_error>"
    return ToolResult(said, is_error=True, detail=f"Error: {message}", was_tried=False)


def crashed(tool: str, message: str) -> ToolResult:
    """The call met something that nobody foresaw."""
    said = f"Error calling tool ({tool}): {message}"
    return ToolResult(f"<tool_use_error>{said}</tool_use_error>", is_error=True, detail=said)


def in_node_words(error: OSError, action: str, path: object) -> str:
    """The error as the original's runtime words it."""
    code = errno.errorcode.get(error.errno or 0, "EIO")
    said = "illegal operation on a directory" if code == "EISDIR" else (error.strerror or str(error)).lower()
    return f"{code}: {said}, {action} '{path}'"


def exists(path: Path) -> bool:
    """Tell whether there is something; a path that leads through a file is a fault, not an absence."""
    try:
        path.stat()
    except FileNotFoundError:
        return False
    return True


def missing(path: Path, desk: Desk) -> str:
    """That the file does not exist, and which one might be meant: the same name with another ending."""
    said = f"File does not exist. Note: your current working directory is {desk.cwd}."
    try:
        near = sorted(other.name for other in path.parent.iterdir() if other.stem == path.stem and other != path)
    except OSError:
        return said
    return f"{said} Did you mean {near[0]}?" if near else said


def format_size(size: int) -> str:
    """A size as people read it: 512 bytes, 29.3KB, 4.8MB."""
    if size < 1024:
        return f"{size} bytes"
    for unit in ("KB", "MB"):
        size_in_unit = size / 1024 if unit == "KB" else size / 1024**2
        if size_in_unit < 1024:
            return f"{size_in_unit:.1f}".removesuffix(".0") + unit
    return f"{size / 1024**3:.1f}".removesuffix(".0") + "GB"


def kept_in_file(text: str, size: int, place: Path) -> str:
    """Return the message for the model instead of the whole output."""
    cut = text.rfind("\n", 0, _PREVIEW)
    preview = text[: cut if cut > _PREVIEW // 2 else _PREVIEW]
    return (
        f"<persisted-output>\nOutput too large ({format_size(size)}). Full output saved to: {place}\n\n"
        f"Preview (first 2KB):\n{preview}\n...\n</persisted-output>"
    )
