"""`batch.toml`: goals, and what is said of each and of all, read into wishes or refused with all that is wrong."""

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from ralph.config import settings
from ralph.core.errors import UsageError
from ralph.core.goal import goal_name
from ralph.core.text import did_you_mean
from ralph.git.address import local_path
from ralph.queue.goals import MergeMode

NAME = "batch.toml"
SETTINGS = ("agent", "model", "reasoning", "max_iterations", "duration", "max_cost", "max_tokens")
"""Settings of a run that a manifest may say of a goal."""
_LEAST_PRIORITY, _MOST_PRIORITY = -(2**63), 2**63 - 1
"""64 bits: SQLite and PostgreSQL store no larger integer."""
_WHOLE_NUMBER = re.compile(r"[+-]?\d+(_\d+)*")


@dataclass(frozen=True, slots=True)
class Wishes:
    """What is said of a goal in one place: the command line, an entry of a manifest, its front matter, the defaults."""

    repos: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    priority: int | None = None
    merge: MergeMode | None = None
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    trust_envrc: bool = False
    """Only the command line can say so."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A goal's file in a manifest, and what is said of it there."""

    file: Path
    wishes: Wishes


@dataclass(frozen=True, slots=True)
class Manifest:
    """A `batch.toml`: what holds for all of its goals, and the goals."""

    defaults: Wishes
    entries: tuple[Entry, ...]


def read_manifest(path: Path) -> Manifest:
    """Read a manifest, or say all that is wrong with it."""
    tables = _tables(path)
    faults: list[str] = []
    faults += [f"unknown table `{name}`" + did_you_mean(name, _TABLES) for name in tables if name not in _TABLES]
    defaults = tables.get("defaults", {})
    if not isinstance(defaults, dict):
        faults.append("`defaults` must be a table: [defaults]")
        defaults = {}
    goals = tables.get("goal", [])
    if not isinstance(goals, list) or not all(isinstance(goal, dict) for goal in cast("list[object]", goals)):
        faults.append("`goal` must be a list of tables: [[goal]]")
        goals = []
    elif not goals:
        faults.append("it names no goal: write a [[goal]] with a `file` for each")
    common = _wishes(cast("dict[str, object]", defaults), _DEFAULTS, "[defaults]", path, faults)
    entries = [
        _entry(table, number, path, faults)
        for number, table in enumerate(cast("list[dict[str, object]]", goals), start=1)
    ]
    if faults:
        told = faults[0] if len(faults) == 1 else "\n" + "\n".join(f"  {fault}" for fault in faults)
        raise UsageError(f"{path}: {told}", f"the keys of a [[goal]] are {', '.join(_ENTRY)}")
    return Manifest(common, tuple(entries))


def _tables(path: Path) -> dict[str, object]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise UsageError(f"{path}: no such manifest", "name a batch.toml, a directory of goals, or goals") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # an integer of 5000 digits is a plain ValueError
        raise UsageError(f"{path}: not TOML: {error}") from error


def _entry(table: Mapping[str, object], number: int, path: Path, faults: list[str]) -> Entry:
    file = table.get("file")
    name = f"goal {number}" + (f" ({file})" if isinstance(file, str) else "")
    if file is None:
        faults.append(f"{name}: it has no `file`")
    wishes = _wishes(table, _ENTRY, name, path, faults)
    return Entry(path.parent / file if isinstance(file, str) else path, wishes)


def _wishes(
    table: Mapping[str, object], keys: Mapping[str, settings.Parser], name: str, path: Path, faults: list[str]
) -> Wishes:
    values: dict[str, object] = {}
    for key, written in table.items():
        if key not in keys:
            faults.append(f"{name}: unknown key `{key}`" + did_you_mean(key, keys))
            continue
        try:
            values[key] = keys[key](written)
        except ValueError as fault:
            faults.append(f"{name}: {key}: {fault}")
    if "repo" in table and "repos" in table:
        faults.append(f"{name}: `repo` and `repos` contradict each other: `repos` is for several")
    repos = cast("tuple[str, ...]", values.get("repos") or ((values["repo"],) if "repo" in values else ()))
    return Wishes(
        tuple(dict.fromkeys(repo_from(repo, path.parent) for repo in repos)),
        names_in(cast("tuple[str, ...]", values.get("after", ()))),
        cast("int | None", values.get("priority")),
        cast("MergeMode | None", values.get("merge")),
        {key: str(table[key]) for key in SETTINGS if key in values},
    )


def _text(written: object) -> str:
    if not isinstance(written, str) or not written.strip():
        raise ValueError(f"{written!r} is no text")
    return written.strip()


def _texts(written: object) -> tuple[str, ...]:
    if not isinstance(written, list) or not written:
        raise ValueError(f"{written!r} is no list of texts")
    return tuple(_text(item) for item in cast("list[object]", written))


def priority(written: object) -> int:
    """Read a priority: a whole number that a database can store."""
    if not isinstance(written, int) or isinstance(written, bool):
        raise ValueError(f"{written!r} is not a whole number")
    if not _LEAST_PRIORITY <= written <= _MOST_PRIORITY:  # not quoted: it may have thousands of digits
        raise ValueError(f"it must be between {_LEAST_PRIORITY} and {_MOST_PRIORITY}")
    return written


def priority_in(text: str) -> int:
    """Read a priority as a command line has it."""
    try:
        number = int(text)
    except ValueError:
        if _WHOLE_NUMBER.fullmatch(text.strip()) is None:
            raise ValueError(f"{text!r} is not a whole number") from None
        number = _MOST_PRIORITY + 1  # Python reads none of more than 4,300 digits
    return priority(number)


def merge_mode(written: object) -> MergeMode:
    """Read a way to merge."""
    if written not in list(MergeMode):
        raise ValueError(f"{written!r} is not one of {', '.join(MergeMode)}")
    return MergeMode(str(written))


_TABLES = ("defaults", "goal")
_DEFAULTS: Mapping[str, Callable[[object], object]] = {
    "repo": _text,
    "repos": _texts,
    "priority": priority,
    "merge": merge_mode,
    **{name: settings.KEYS[name].parse for name in SETTINGS},
}
_ENTRY: Mapping[str, Callable[[object], object]] = {"file": _text, **_DEFAULTS, "after": _texts}


def repo_from(repo: str, base: Path) -> str:
    """An address as it is; a path made absolute, from where it was written."""
    if repo.startswith("file://") or local_path(repo) is None:
        return repo
    return str((base / Path(repo).expanduser()).resolve())


def names_in(written: Iterable[str]) -> tuple[str, ...]:
    """Names of goals; their files may be meant as well."""
    return tuple(goal_name(name.removesuffix(".md")) for name in written)
