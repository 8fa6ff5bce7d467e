"""The engine on a SQLite file: whatever a worker was at when it was killed, the next one can begin."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from ralph.queue.database import default_url

LAUNCH = """
import os, signal, sys
import sqlalchemy as sa
from ralph.queue.engine import DbosEngine

def executed(_connection, _cursor, statement, *_):
    global left
    left -= statement.lstrip().startswith("CREATE")
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)

left = int(sys.argv[2])
if left:
    sa.event.listen(sa.Engine, "after_cursor_execute", executed)
print(DbosEngine(sys.argv[1]).launch(lambda *_: None), flush=True)
os._exit(0)
"""
"""Launch, and be killed after so many things were made; after none: go on."""


def launch(url: str, killed_after: int) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-c", LAUNCH, url, str(killed_after)]
    return subprocess.run(argv, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("made", [12, *(pytest.param(made, marks=pytest.mark.long) for made in (1, 8, 16, 24, 36))])
def test_a_worker_that_was_killed_while_the_tables_were_made_keeps_no_other_from_beginning(
    tmp_path: Path, made: int
) -> None:
    url = default_url(tmp_path)
    assert launch(url, made).returncode == -signal.SIGKILL
    done = launch(url, 0)
    assert (done.returncode, done.stdout) == (0, "set()\n"), done.stderr


def test_what_is_made_of_its_tables_is_what_it_makes_itself(tmp_path: Path) -> None:
    from dbos import DBOS

    DBOS.migrate(f"sqlite:///{tmp_path}/its-own.sqlite")
    assert launch(default_url(tmp_path), 0).returncode == 0
    with closing(sqlite3.connect(tmp_path / "its-own.sqlite")) as theirs:
        made = theirs.execute("select name, sql from sqlite_master order by name").fetchall()
        version = theirs.execute("select version from dbos_migrations").fetchall()
    with closing(sqlite3.connect(tmp_path / "runs.sqlite")) as ours:
        found = ours.execute("select name, sql from sqlite_master order by name").fetchall()
        assert ours.execute("select version from dbos_migrations").fetchall() == version
    assert set(made) <= set(found)
    assert len(made) > 10


def test_sqlalchemy_is_loaded_whole_before_any_thread_can_ask_for_it() -> None:
    """DBOS loads the ORM. A dashboard that asked the database in the middle of that broke (seen on a busy machine)."""
    script = "import sys; from ralph.queue.engine import DbosEngine; DbosEngine('sqlite://'); print(*sys.modules)"
    asked = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = set(asked.stdout.split())
    assert "sqlalchemy.orm.exc" in loaded
    assert "dbos" not in loaded, "that takes long, and nobody asks for it from another thread"
