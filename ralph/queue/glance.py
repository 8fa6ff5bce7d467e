"""The goals of a queue at a glance: for a shell that completes their ids while its user waits.

A SQLite file is read without the database library, which takes 0.1 s to import. Nothing is created or changed.
"""

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from ralph.config import paths, settings
from ralph.system import environ

_OPEN_FIRST = (
    "SELECT id, name, title, state FROM ralph_goals ORDER BY state IN ('done', 'cancelled', 'undone'), id DESC"
)
_FILE = "sqlite:///"
_BUSY = 0.1
"""Seconds for which a file that another process has locked is waited for."""


@dataclass(frozen=True, slots=True)
class Glimpse:
    """What tells a goal from the others."""

    label: str
    name: str
    title: str
    state: str


def glance(db: str | None) -> list[Glimpse]:
    """Read the goals of the queue that a command would use: first those to be worked on, then the latest."""
    env = environ.without_redirections()
    url = settings.load(env=env, flags={} if db is None else {"db": db}).db or ""
    if url and not url.startswith(_FILE):
        from ralph.queue.database import select_from_server

        rows: Iterable[tuple[object, ...]] = select_from_server(url, _OPEN_FIRST)
    else:
        plain = url.removeprefix(_FILE).partition("?")[0]
        rows = _read(Path(plain) if plain else paths.queue_file(paths.ralph_dir(env)))
    return [Glimpse(f"g{number}", str(name), str(title), str(state)) for number, name, title, state in rows]


def _read(file: Path) -> list[tuple[object, ...]]:
    import sqlite3

    # Without a log beside the file nobody is writing to it, and to read it SQLite would create one (3.40).
    how = "mode=ro" if file.with_name(f"{file.name}-wal").exists() else "immutable=1"
    address = f"file:{quote(str(file.absolute()))}?{how}"
    with contextlib.closing(sqlite3.connect(address, uri=True, timeout=_BUSY)) as connection:
        return connection.execute(_OPEN_FIRST).fetchall()
