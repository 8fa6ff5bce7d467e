"""The database of a queue: a SQLite file or PostgreSQL, opened so that no two writers get in each other's way.

Readers (`reading`) block nobody, and nobody blocks them.
"""

import contextlib
import re
import shlex
import stat
import tempfile
import time
import uuid
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.schema import CreateColumn

from ralph.config.paths import queue_file
from ralph.core import ndjson
from ralph.core.errors import QueueError, StateError, UsageError
from ralph.core.reason import Cause, Reason, earlier_reason
from ralph.core.records import to_record
from ralph.core.secrets import without_secrets
from ralph.system.files import make_private_directory, named_in_faults

if TYPE_CHECKING:
    import sqlite3

VERSION = 7
_PRIVATE = 0o600

_WORKER_KEY, _WRITER_KEY = 0x72616C70, 0x72616C71
"""Advisory locks of PostgreSQL, in the database of the queue: one for its worker, one for writers."""
_WHO_HOLDS_IT = """
    select application_name from pg_locks join pg_stat_activity using (pid)
    where locktype = 'advisory' and objid = :key and granted and datname = current_database()
"""
_IS_OURS = "select count(*) from pg_locks where locktype = 'advisory' and objid = :key and pid = pg_backend_pid()"
_PATIENCE = 10
"""Seconds that a server has to answer."""

_GLANCE = 2
"""Seconds that it has while a user waits for a shell to complete a word."""

_LOCKED_FOR = 30.0
"""Seconds for which a command waits where another process has locked the file; see `patient`."""
_AT_A_TIME = 5.0
"""Seconds of that which are waited within SQLite, deaf to everything else."""
_SWITCHING = 0.02
"""Seconds after which a file is tried again that another process is switching to a write-ahead log."""
_BUSY, _LOCKED, _IO_FAULT, _CORRUPT, _FULL, _NOT_ONE = 5, 6, 10, 11, 13, 26
"""SQLite's codes for what may pass, whatever the database is (the lowest byte; 3.40 to 3.50)."""

SCHEMA = sa.MetaData()
VERSIONS = sa.Table(
    "ralph_version",
    SCHEMA,
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("queue", sa.Text, nullable=False),  # tells it from every other queue, wherever its database is found
)
GOALS = sa.Table(
    "ralph_goals",
    SCHEMA,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("name", sa.Text, nullable=False, index=True),
    sa.Column("title", sa.Text, nullable=False),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("path", sa.Text, nullable=False),
    sa.Column("repo", sa.Text, nullable=False),
    sa.Column("branch", sa.Text, nullable=False, index=True),
    sa.Column("state", sa.Text, nullable=False, index=True),
    sa.Column("created_at", sa.Float, nullable=False),
    sa.Column("updated_at", sa.Float, nullable=False),
    sa.Column("priority", sa.BigInteger, nullable=False, default=0),
    sa.Column("after", sa.Text, nullable=False, default="[]"),
    sa.Column("merge", sa.Text, nullable=True),
    sa.Column("settings", sa.Text, nullable=False, default="{}"),
    sa.Column("attempts", sa.Integer, nullable=False, default=0),
    sa.Column("forgiven", sa.Integer, nullable=False, default=0),
    sa.Column("starts", sa.Integer, nullable=False, default=0),
    sa.Column("killed", sa.Integer, nullable=False, default=0),
    sa.Column("cost_usd", sa.Float, nullable=False, default=0.0),
    sa.Column("spent_usd", sa.Float, nullable=False, default=0.0),
    sa.Column("tokens", sa.BigInteger, nullable=False, default=0, server_default="0"),
    sa.Column("spent_tokens", sa.BigInteger, nullable=False, default=0, server_default="0"),
    sa.Column("costed", sa.Boolean, nullable=False, default=False, server_default=sa.false()),
    sa.Column("counted", sa.Boolean, nullable=False, default=False, server_default=sa.false()),
    sa.Column("seconds", sa.Float, nullable=False, default=0.0, server_default="0"),
    sa.Column("iterations", sa.Integer, nullable=False, default=0, server_default="0"),
    sa.Column("run", sa.Text, nullable=False, default=""),
    sa.Column("run_text", sa.Text, nullable=False, default="", server_default=""),
    sa.Column("unmerged", sa.Text, nullable=True),
    sa.Column("reason", sa.Text, nullable=False, default=""),
    sa.Column("cancelling", sa.Boolean, nullable=False, default=False),
    sa.Column("trust_envrc", sa.Boolean, nullable=False, default=False),
    sa.Column("agent", sa.Text, nullable=True),  # null in rows of version 3 and before
    sa.Column("why", sa.Text, nullable=True),  # what else is known of the reason
    sqlite_autoincrement=True,  # an id is never given twice
)
COMMENTS = sa.Table(
    "ralph_comments",
    SCHEMA,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("goal", sa.Integer, sa.ForeignKey("ralph_goals.id"), nullable=False, index=True),
    sa.Column("at", sa.Float, nullable=False),
    sa.Column("author", sa.Text, nullable=False),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=True),  # null: a remark of the user's, or what went wrong
    sa.Column("why", sa.Text, nullable=True),  # null: the first line of the text
)
NEWS = sa.Table(
    "ralph_news",
    SCHEMA,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("at", sa.Float, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("goal", sa.Integer, nullable=True),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("command", sa.Text, nullable=True),  # what the text leads up to; null: nothing, or it is in the text
)
MARKS = sa.Table(  # what holds for the queue as a whole, by name
    "ralph_marks",
    SCHEMA,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)


def default_url(ralph_dir: Path) -> str:
    """The queue of someone who set nothing up."""
    return f"sqlite:///{queue_file(ralph_dir)}"


def database_file(url: str) -> Path | None:
    """The file of a SQLite database; None for a server's."""
    parsed = _parsed(url)
    return Path(parsed.database or "") if parsed.get_backend_name() == "sqlite" else None


def connect(url: str, *, create: bool) -> sa.Engine | None:
    """Open a database and see to our tables in it; without `create` None if there is none yet."""
    file = database_file(url)
    if file is not None:
        if not file.exists() and not create:
            return None
        make_private_directory(file.parent)
        _make_private_file(file)
        # As many as ask: each thread that waits for a lock holds one, and the scheduler must not wait for theirs.
        engine = sa.create_engine(_parsed(url), max_overflow=-1)
        _set_up_sqlite(engine)
    else:
        engine = sa.create_engine(_parsed(url))
        _set_up_postgresql(engine)
    try:
        with faults_named(engine.url):
            _see_to_tables(engine)
    except QueueError as error:
        if _refusal(error.__cause__) in (_BUSY, _LOCKED, _IO_FAULT, _FULL):
            raise
        raise UsageError(error.message, error.hint) from error  # it is the wrong one: so far it is only named
    return engine


def _make_private_file(file: Path) -> None:
    """Have the file be there, for nobody but the user: SQLite gives its logs the rights of the file beside them."""
    with named_in_faults(file):
        if not file.exists():
            _make_database(file)
        for each in (file, *(file.with_name(f"{file.name}-{log}") for log in ("wal", "shm"))):
            with contextlib.suppress(FileNotFoundError, PermissionError):
                if each.is_file() and stat.S_IMODE(each.stat().st_mode) != _PRIVATE:
                    each.chmod(_PRIVATE)
        if file.is_file() and file.stat().st_size == 0:
            raise UsageError(
                f"cannot open the queue {file}: the file is empty, so its goals are lost",
                f"put a copy of it in its place; or remove it to begin with a new queue: rm {shlex.quote(str(file))}",
            )


def _make_database(file: Path) -> None:
    """Make a database, whole before it has its name: an empty file is one that was damaged."""
    import sqlite3

    with tempfile.TemporaryDirectory(prefix=".new-", dir=file.parent) as folder:
        new = Path(folder) / file.name
        new.touch(_PRIVATE)
        with contextlib.closing(sqlite3.connect(new)) as connection:
            connection.execute("PRAGMA journal_mode=WAL")
        with contextlib.suppress(FileExistsError):  # another process was faster
            file.hardlink_to(new)


def checkpoint(engine: sa.Engine) -> None:
    """Bring what is in the log into the file, so that a copy of the file alone has all of it; nobody waits for that."""
    import sqlite3

    if engine.dialect.name == "sqlite":
        unreadable = (SQLAlchemyError, sqlite3.Error)
        with contextlib.suppress(*unreadable), contextlib.closing(engine.raw_connection()) as connection:
            connection.cursor().execute("PRAGMA wal_checkpoint(PASSIVE)")


def select_from_server(url: str, statement: str) -> list[tuple[object, ...]]:
    """Read from a server's database as it is: nothing is created or brought up to date."""
    options = {"connect_timeout": _GLANCE}
    engine = sa.create_engine(_parsed(url), connect_args=options, poolclass=sa.NullPool)
    with faults_named(engine.url), reading(engine).begin() as connection:
        return [tuple(row) for row in connection.execute(sa.text(statement))]


def queue_id(engine: sa.Engine) -> str:
    """The name of a queue that no other has: ids of goals are only good within it."""
    with faults_named(engine.url), reading(engine).begin() as connection:
        return str(connection.execute(sa.select(VERSIONS.c.queue)).scalar_one())


_KEPT_ALIVE = {"keepalives": 1, "keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}


@dataclass(frozen=True, slots=True)
class AdvisoryLock:
    """PostgreSQL's lock of a queue, or who has it. The server drops it with the connection, and so with the process."""

    connection: sa.Connection
    holder: str
    """The name of who holds it; empty if it is ours."""

    def is_ours(self) -> bool:
        """Tell whether the connection, and with it the lock, is still there."""
        try:
            held = self.connection.execute(sa.text(_IS_OURS), {"key": _WORKER_KEY}).scalar()
            self.connection.commit()
        except SQLAlchemyError:
            return False
        return bool(held)  # a new connection does not have it


@contextlib.contextmanager
def advisory_lock(url: str, name: str) -> Generator[AdvisoryLock]:
    """Take PostgreSQL's lock of this queue under a name, if nobody has it."""
    options = {"application_name": name, **_KEPT_ALIVE}
    engine = sa.create_engine(_parsed(url), connect_args=options, poolclass=sa.NullPool)
    with faults_named(engine.url), engine.connect() as connection:
        got = connection.execute(sa.select(sa.func.pg_try_advisory_lock(_WORKER_KEY))).scalar()
        connection.commit()
        holder = "" if got else connection.execute(sa.text(_WHO_HOLDS_IT), {"key": _WORKER_KEY}).scalar() or "?"
        yield AdvisoryLock(connection, str(holder))


def advisory_holder(url: str) -> str:
    """The name of who has PostgreSQL's lock of this queue, or nothing; the lock itself is not tried."""
    engine = sa.create_engine(_parsed(url), poolclass=sa.NullPool)
    with faults_named(engine.url), engine.connect() as connection:
        holder = connection.execute(sa.text(_WHO_HOLDS_IT), {"key": _WORKER_KEY}).scalar()
        return "" if holder is None else str(holder) or "?"


@contextlib.contextmanager
def faults_named(url: sa.URL) -> Generator[None]:
    """Translate a database's refusal into a fault that names it; passwords are not shown."""
    try:
        yield
    except PoolTimeout as error:
        raise QueueError(
            f"cannot open the queue {_shown(url)}: too many processes are waiting for it", "start again"
        ) from error
    except DBAPIError as error:
        why = " ".join(str(error.orig).split()).partition(" DETAIL:")[0]
        hint = _HINTS.get(_refusal(error) or 0, "check that it can be reached and written to")
        raise QueueError(f"cannot open the queue {_shown(url)}: {without_secrets(why)}", hint) from error


_HINTS = {
    _BUSY: "another process keeps it locked: find it with fuser or lsof, and stop it",
    _FULL: "free some disk space",
    _CORRUPT: "the file is damaged: put a copy of it in its place, or save what can be read: sqlite3 FILE .recover",
    _NOT_ONE: "the file is damaged, or not a queue: put a copy of it in its place, or name another queue with --db",
}


def _refusal(error: BaseException | None) -> int | None:
    """SQLite's code for why it has refused; None: it has none, or is not asked."""
    code = getattr(error.orig, "sqlite_errorcode", None) if isinstance(error, DBAPIError) else None
    return code & 0xFF if isinstance(code, int) else None


def reading(engine: sa.Engine) -> sa.Engine:
    """The same database, where a transaction sees it as it was at its beginning, and locks nothing."""
    return engine.execution_options(reads_only=True)


def still_there(url: sa.URL) -> None:
    """Refuse a file that was moved or removed: what is open still takes everything, and nobody would ever find it."""
    if url.get_backend_name() == "sqlite" and not Path(url.database or "").exists():
        raise QueueError(
            f"the queue is gone: its file was moved or removed ({_shown(url)})",
            "put it back, or start with a new queue",
        )


def patient(engine: sa.Engine, seconds: Callable[[], float]) -> sa.Engine:
    """The same database, where a lock of somebody else's is waited for as long as this says, asked time and again."""
    return engine.execution_options(locked_for=seconds)


def _parsed(url: str) -> sa.URL:
    try:
        parsed = sa.make_url(url)
        backend = parsed.get_backend_name()
    except (ArgumentError, NoSuchModuleError) as error:
        raise UsageError(
            f"--db: {without_secrets(url)!r} is not a database", "use sqlite:///PATH or postgresql://..."
        ) from error
    if backend == "sqlite" and parsed.database:
        return parsed
    if backend == "postgresql":
        query = {"connect_timeout": str(_PATIENCE), **parsed.query}  # without one a host that is silent hangs us
        return parsed.set(drivername="postgresql+psycopg", query=query)
    raise UsageError(f"--db: ralph cannot use {backend} databases", "use sqlite:///PATH or postgresql://...")


def _shown(url: sa.URL) -> str:
    """An address as its user wrote it, but for the password."""
    written = url.set(drivername=url.get_backend_name()).difference_update_query(["connect_timeout"])
    return without_secrets(written.render_as_string(hide_password=False))


def _set_up_sqlite(engine: sa.Engine) -> None:
    """Lock the file at the start of a write transaction: what it has read must still be true when it writes."""

    def connected(connection: object, _record: object) -> None:
        import sqlite3

        if isinstance(connection, sqlite3.Connection):
            connection.isolation_level = None
            connection.execute(f"PRAGMA busy_timeout={int(_AT_A_TIME * 1000)}")
            _keep_write_ahead_log(connection)
            connection.execute("PRAGMA foreign_keys=ON")

    def begun(connection: sa.Connection) -> None:
        if connection.get_execution_options().get("reads_only"):
            connection.exec_driver_sql("BEGIN DEFERRED")
            return
        since = time.monotonic()
        while True:
            try:
                connection.exec_driver_sql("BEGIN IMMEDIATE")
                return
            except OperationalError as error:
                seconds = connection.get_execution_options().get("locked_for", lambda: _LOCKED_FOR)
                if _refusal(error) != _BUSY or time.monotonic() >= since + seconds():
                    raise

    event.listen(engine, "connect", connected)
    event.listen(engine, "begin", begun)


def _keep_write_ahead_log(connection: "sqlite3.Connection") -> None:
    """Switch the file to a write-ahead log, where readers do not wait for the writer; the file stays that way.

    When two processes switch a new file at the same moment, SQLite refuses one of them at once, whatever its busy
    timeout says: waiting with the read lock that it already holds could last for ever (3.40). So it tries again.
    """
    import sqlite3

    since = time.monotonic()
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != _BUSY or time.monotonic() >= since + _LOCKED_FOR:
                raise
            time.sleep(_SWITCHING)


def _set_up_postgresql(engine: sa.Engine) -> None:
    """Have one writer at a time, as above: two that add the same goal, or make the tables, would do it twice."""

    def begun(connection: sa.Connection) -> None:
        if connection.get_execution_options().get("reads_only"):
            connection.exec_driver_sql("set transaction isolation level repeatable read, read only")
        else:
            connection.exec_driver_sql("select pg_advisory_xact_lock(%s)", (_WRITER_KEY,))

    event.listen(engine, "begin", begun)


def _see_to_tables(engine: sa.Engine) -> None:
    """Make what is not there; where everything is, nothing is locked."""
    with reading(engine).begin() as connection:
        there = set(sa.inspect(connection).get_table_names())
        if there >= set(SCHEMA.tables) and connection.execute(sa.select(VERSIONS.c.version)).scalar() == VERSION:
            return
    with engine.begin() as connection:
        SCHEMA.create_all(connection)
        _bring_up_to_date(connection, engine.url)


def _bring_up_to_date(connection: sa.Connection, url: sa.URL) -> None:
    """Number a new queue, add what an older one lacks, refuse one of a ralph that is yet to come."""
    version = connection.execute(sa.select(VERSIONS.c.version)).scalar()
    if version is None:
        connection.execute(VERSIONS.insert().values(version=VERSION, queue=uuid.uuid4().hex[:8]))
    elif version > VERSION:
        raise StateError(
            f"cannot open the queue {_shown(url)}: it has version {version}, this ralph supports up to {VERSION}",
            "use the newer ralph that wrote it, or another queue with --db",
        )
    elif version < VERSION:
        for table in (GOALS, COMMENTS, NEWS):
            there = {column["name"] for column in sa.inspect(connection).get_columns(table.name)}
            for column in table.columns:  # all that was added so far is nullable or has a default of the server's
                if column.name not in there:
                    added = CreateColumn(column).compile(dialect=connection.dialect)
                    connection.exec_driver_sql(f"ALTER TABLE {table.name} ADD COLUMN {added}")
        _tell_reasons(connection)
        for index in GOALS.indexes:
            index.create(connection, checkfirst=True)
        # On PostgreSQL a priority had 32 bits up to version 3, and keeps them in such a queue: a new type for a column
        # ends the worker of the older ralph that still serves it ("cached plan must not change result type").
        connection.execute(VERSIONS.update().values(version=VERSION))


_ENDED = re.compile(r"\s*Attempt \d+ ended with exit code -?\d+: (.*)")
_MERGED_IN = "The base branch was merged into the working tree."


def _tell_reasons(connection: sa.Connection) -> None:
    """Write down what reasons and remarks are about, where a queue of version 4 or before says it in words alone."""
    for number, line in connection.execute(sa.select(GOALS.c.id, GOALS.c.reason).where(GOALS.c.why.is_(None))).all():
        if (why := earlier_reason(line)).cause is not Cause.OTHER:
            chosen = GOALS.update().where(GOALS.c.id == number)
            connection.execute(chosen.values(why=ndjson.encode(to_record(why))))
    remarks = sa.select(COMMENTS.c.id, COMMENTS.c.text).where(COMMENTS.c.author == "ralph", COMMENTS.c.kind.is_(None))
    for number, text in connection.execute(remarks).all():
        chosen = COMMENTS.update().where(COMMENTS.c.id == number)
        if _MERGED_IN in text:
            connection.execute(chosen.values(kind="conflicts"))
        elif ended := _ENDED.match(text):
            connection.execute(chosen.values(why=ndjson.encode(to_record(Reason(ended[1])))))
