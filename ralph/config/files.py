"""A `config.toml`, the user's or a project's: read as dotted names, changed one name at a time."""

import sys
import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import cast

import tomli_w

from ralph.core.errors import DiskError, UsageError
from ralph.core.goal import Goal, goal_name, parse_goal
from ralph.system.files import replace_file

TOML = 'fix that line; a text needs quotes: key = "text"'
"""What to do about a file that is not TOML."""
_READABLE = "check that you can read that file"
_ENCODED = "save or type it as UTF-8"


def read(path: Path, known: Collection[str]) -> dict[str, object]:
    """Return the entries by dotted names; a table with a `known` name is a value. Empty if the file is missing."""
    return _flattened(_table(path), known)


def put(path: Path, name: str, value: object) -> str:
    """Write one entry; return a note about what was kept aside, if anything was."""
    table = _table(path)
    *parents, last = name.split(".")
    inner = table
    for parent in parents:
        inner = cast("dict[str, object]", inner.setdefault(parent, {}))
        if not isinstance(inner, dict):  # pyright: ignore[reportUnnecessaryIsInstance] - the file is the user's
            raise UsageError(
                f"cannot set {name}: {parent} is not a table in {path}", f"make it a table, then set {name} again"
            )
    inner[last] = value
    return _replace(path.resolve(), tomli_w.dumps(table))  # a linked configuration stays linked


def _table(path: Path) -> dict[str, object]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}", _READABLE) from error
    except UnicodeDecodeError as error:
        raise UsageError(f"cannot read {path}: not UTF-8 text (byte {error.start})", _ENCODED) from error
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"cannot read {path}: invalid TOML: {error}", TOML) from error


def _flattened(table: Mapping[str, object], known: Collection[str], prefix: str = "") -> dict[str, object]:
    flat: dict[str, object] = {}
    for name, value in table.items():
        if isinstance(value, dict) and prefix + name not in known:
            flat |= _flattened(cast("dict[str, object]", value), known, f"{prefix}{name}.")
        else:
            flat[prefix + name] = value
    return flat


def _replace(path: Path, content: str) -> str:
    note = ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        before = path.read_text("utf-8") if path.exists() else ""
        if "#" in before:
            kept = path.with_name(path.name + ".bak")
            kept.write_text(before, "utf-8")
            note = f"comments are not kept in the new file; the old file is {kept}"
        replace_file(path, content, mode=path.stat().st_mode & 0o777 if path.exists() else 0o600)
    except DiskError as error:
        raise UsageError(error.message, error.hint) from error
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}", "check that you can write to that folder") from error
    return note


_LARGEST = 4 * 1024 * 1024
_WHAT = "a goal is a Markdown file with an `## Objective` section"


def read_goal(path: Path) -> Goal:
    """Read a goal file."""
    return goal_in(read_text(path), path)


def read_text(path: Path) -> str:
    """Return the text of a goal file, including its front matter."""
    try:
        if path.exists() and not path.is_dir() and not path.is_file():
            raise UsageError(f"cannot read {path}: not a regular file", _WHAT)
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
        if len(data) > _LARGEST:
            raise UsageError(
                f"cannot read {path}: larger than {_LARGEST // 2**20} MiB",
                "put long texts into other files, and name their paths",
            )
        return data.decode("utf-8")
    except IsADirectoryError:
        raise UsageError(f"cannot read {path}: it is a directory", "pass one Markdown file") from None
    except FileNotFoundError:
        raise UsageError(f"cannot read {path}: no such file", _WHAT) from None
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}", _READABLE) from error
    except UnicodeDecodeError as error:
        raise UsageError(f"cannot read {path}: not UTF-8 text (byte {error.start})", _ENCODED) from error


def read_words(said: str) -> str:
    """Return the goal from `-p`: the words themselves, or stdin with `-`."""
    if said == "-":
        words = read_stdin("-p -")
        if not words.strip():
            raise UsageError("-p -: stdin is empty", 'pipe the goal in: echo "fix the flaky test" | ralph run -p -')
        return words
    if not said.strip():
        raise UsageError("-p is empty", 'describe the goal: ralph run -p "fix the flaky test"')
    if said.endswith(".md") and Path(said).is_file():
        raise UsageError(f"-p takes a sentence, but {said} is a file", f"leave out -p: ralph run {said}")
    try:
        said.encode()
    except UnicodeEncodeError as error:
        raise UsageError("-p: not UTF-8 text", _ENCODED) from error
    return said


def read_stdin(asker: str) -> str:
    """Return all of stdin as text; `asker` is the argument that wants it, for errors."""
    if sys.stdin is None:  # closed before the start
        return ""
    if sys.stdin.isatty():
        sys.stderr.write("Type the text, then press Ctrl-D:\n")
    data = sys.stdin.buffer.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise UsageError(
            f"{asker}: larger than {_LARGEST // 2**20} MiB", "put long texts into other files, and name their paths"
        )
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{asker}: not UTF-8 text (byte {error.start})", _ENCODED) from error


class Folders:
    """The goal files beside each goal, by name. Each folder is listed once, so one object serves one command."""

    def __init__(self) -> None:
        self._listed: dict[Path, dict[str, list[Path]]] = {}

    def refuse_namesake(self, goal: Goal) -> None:
        """Refuse a goal that shares its name with another file: they would share a run, a branch and a clone."""
        for other in self._named(goal.path.parent).get(goal.name, ()):
            if other.name != goal.path.name and not other.samefile(goal.path):
                raise UsageError(f"{goal.path} and {other} have the same name, {goal.name}", "rename one of them")

    def _named(self, folder: Path) -> dict[str, list[Path]]:
        if folder not in self._listed:
            named: dict[str, list[Path]] = {}
            for path in folder.glob("*.md"):
                named.setdefault(goal_name(path.stem), []).append(path)
            self._listed[folder] = named
        return self._listed[folder]


def goal_in(text: str, path: Path, folders: Folders | None = None) -> Goal:
    """Parse a goal from a file's text; refuse it if another file beside it has the same name."""
    goal = parse_goal(text, path.parent.resolve() / path.name)
    (folders or Folders()).refuse_namesake(goal)
    return goal
