"""A `config.toml`, the user's or a project's: read as dotted names, changed one name at a time."""

import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import cast

import tomli_w

from ralph.core.errors import DiskError, UsageError
from ralph.system.files import replace_file


def read(path: Path, known: Collection[str]) -> dict[str, object]:
    """The entries under their dotted names; a table of a `known` name is a value. Nothing where there is no file."""
    return _flattened(_table(path), known)


def put(path: Path, name: str, value: object) -> str:
    """Write one entry; return a note about what was kept aside, if anything was."""
    table = _table(path)
    *parents, last = name.split(".")
    inner = table
    for parent in parents:
        inner = cast("dict[str, object]", inner.setdefault(parent, {}))
        if not isinstance(inner, dict):  # pyright: ignore[reportUnnecessaryIsInstance] - the file is the user's
            raise UsageError(f"{path}: {parent} is not a table", f"make it one, then set {name} again")
    inner[last] = value
    return _replace(path.resolve(), tomli_w.dumps(table))  # a linked configuration stays linked


def _table(path: Path) -> dict[str, object]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{path}: not TOML: {error}") from error


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
            note = f"comments are not carried over: the file as it was is {kept}"
        replace_file(path, content, mode=path.stat().st_mode & 0o777 if path.exists() else 0o600)
    except DiskError as error:
        raise UsageError(error.message, error.hint) from error
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error
    return note
