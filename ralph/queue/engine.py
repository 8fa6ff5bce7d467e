"""Durable execution: a goal's work goes on where it was, whatever became of the process. The only door to DBOS."""

import importlib
import os
import socket
import uuid
from collections.abc import Callable, Mapping
from typing import Protocol

from ralph.core.errors import QueueError
from ralph.queue.database import connect, database_file, faults_named
from ralph.queue.goals import BatchGoal

_VERSION = "goals-1"
"""Of the steps below. DBOS takes up nothing of another version, so it is named, not computed from the code."""

_MOST_THREADS = 4096
"""A goal at work is a thread; how many may be at work is the queue worker's to say."""

Record = Mapping[str, object]
"""What a step leaves behind: JSON, for a later process to read."""

WorkOnGoal = Callable[[int, int, bool], None]
"""Works on a goal, by its number and that of its start; the last: there is only something to merge."""


def key(goal: BatchGoal) -> str:
    """What an engine knows the present start of a goal by."""
    return f"{goal.label}.{goal.starts}"


class Engine(Protocol):
    """What a queue worker asks of an engine."""

    def launch(self, work_on: WorkOnGoal) -> set[str]:
        """Begin; take up what a worker that is gone was at, and return the keys of it."""
        ...

    def start(self, goal: BatchGoal, *, merge_only: bool) -> None:
        """Have `work_on` work on a goal that was claimed, in a thread of its own; for each of its starts but once."""
        ...

    def step(self, name: str, work: Callable[[], Record]) -> Record:
        """Do a part of the work, unless that was done already: then say again what came of it."""
        ...


class DbosEngine:
    """DBOS on the database of the queue."""

    def __init__(self, url: str) -> None:
        # DBOS loads it, and as long as it is half loaded, queries of other threads can fail (2.1): the dashboard's did.
        importlib.import_module("sqlalchemy.orm")
        self._url = url

    def launch(self, work_on: WorkOnGoal) -> set[str]:
        from dbos import DBOS, DBOSPortableJSONSerializer

        if database_file(self._url) is not None:
            _see_to_its_tables(self._url)
        DBOS(
            config={
                "name": "ralph-runs",
                "system_database_url": self._url,
                # Never the default: a second process of the same id takes the first one's work from it (3.3.0).
                "executor_id": f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}",
                "application_version": _VERSION,
                "serializer": DBOSPortableJSONSerializer(),  # the default is pickle
                "max_executor_threads": _MOST_THREADS,
                "log_level": "CRITICAL",
                "console_log_level": "CRITICAL",  # it would write over our lines
            }
        )

        @DBOS.workflow(name="goal", max_recovery_attempts=1_000_000)  # every dispatch counts, and none is one too many
        def goal_workflow(goal: int, start: int, merge_only: bool) -> None:
            work_on(goal, start, merge_only)

        self._workflow = goal_workflow
        DBOS.launch()
        left = DBOS.list_workflows(status=["PENDING", "ENQUEUED"], load_input=False, load_output=False)
        # There is no other worker (see `open.sole_worker`), so the last one is dead. DBOS never notices (3.3.0).
        # Underscored, but the public `resume_workflows` is unconditional: it would also take what somebody is at.
        gone = sorted({found.executor_id for found in left if found.executor_id})
        DBOS._recover_pending_workflows(gone)  # pyright: ignore[reportPrivateUsage]
        return {found.workflow_id for found in left}

    def start(self, goal: BatchGoal, *, merge_only: bool) -> None:
        from dbos import DBOS, SetWorkflowID

        with SetWorkflowID(key(goal)):
            DBOS.start_workflow(self._workflow, goal.id, goal.starts, merge_only)

    def step(self, name: str, work: Callable[[], Record]) -> Record:
        from dbos import DBOS
        from sqlalchemy.exc import SQLAlchemyError

        try:
            return DBOS.run_step({"name": name}, work)
        except SQLAlchemyError as error:  # what has been done cannot be written down
            fault = f"cannot write to the queue: {type(error).__name__}"
            raise QueueError(fault, "check its database, then start again") from error


def _see_to_its_tables(url: str) -> None:
    """Make DBOS's tables in a SQLite file, or bring them up to date: all of that at once, or nothing.

    Its own engine has SQLite commit every statement up to the one that writes the version down by itself (3.3.0): a
    worker that was killed between two left a queue in which no other could begin, for the table was there already.
    """
    from dbos import DBOSPortableJSONSerializer
    from dbos._sys_db import SystemDatabase  # as `DBOS.migrate` does, which takes no engine of ours

    engine = connect(url, create=True)
    if engine is None:
        return
    tables = SystemDatabase.create(
        url, engine_kwargs={}, engine=engine, schema=None, serializer=DBOSPortableJSONSerializer(), executor_id=None
    )
    with faults_named(engine.url):
        tables.run_migrations()
    tables.destroy()
    engine.dispose()
