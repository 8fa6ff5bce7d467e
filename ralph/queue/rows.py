"""Goals as rows of the database, read and written; every function works in a transaction of its caller's."""

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, cast

import sqlalchemy as sa

from ralph.core import ndjson
from ralph.core.errors import UsageError
from ralph.core.reason import NO_REASON, Cause, Reason, recorded_reason
from ralph.core.records import to_record
from ralph.queue.database import GOALS
from ralph.queue.goals import RALPH, BatchGoal, Comment, CommentKind, MergeMode, State, require_no_cycle

_AT_ONCE = 500
"""Values that one query looks up: databases limit how many it may have."""
_LARGEST_ID = 2**31 - 1
_Value = TypeVar("_Value", int, str)
_WRITTEN_AS_JSON = ("after", "settings", "unmerged")
_COLUMNS = tuple(field.name for field in dataclasses.fields(BatchGoal))
_GOALS = sa.select(*(GOALS.c[name] for name in (*_COLUMNS, "reason")))
_NO_ITEMS, _NO_SETTINGS = "[]", "{}"


def every(connection: sa.Connection) -> list[BatchGoal]:
    return chosen(connection, sa.true())


def chosen(connection: sa.Connection, which: sa.ColumnElement[bool]) -> list[BatchGoal]:
    return [_goal(row) for row in connection.execute(_GOALS.where(which).order_by(GOALS.c.id))]


def numbered(connection: sa.Connection, numbers: Collection[int]) -> list[BatchGoal]:
    """The goals of these numbers; one beyond 32 bits, which PostgreSQL would refuse to compare, belongs to none."""
    possible = [number for number in numbers if number <= _LARGEST_ID]
    return [goal for some in chunks(possible) for goal in chosen(connection, GOALS.c.id.in_(some))]


def one(connection: sa.Connection, number: int) -> BatchGoal:
    row = connection.execute(_GOALS.where(GOALS.c.id == number)).one_or_none()
    if row is None:
        raise UsageError(f"goal g{number} does not exist", "see them with: ralph-runs list")
    return _goal(row)


def names(connection: sa.Connection) -> list[str]:
    return list(connection.execute(sa.select(GOALS.c.name).distinct()).scalars())


def by_id(goals: Iterable[BatchGoal]) -> dict[int, BatchGoal]:
    return {goal.id: goal for goal in goals}


def change(connection: sa.Connection, number: int, values: Mapping[str, object]) -> None:
    connection.execute(GOALS.update().where(GOALS.c.id == number), values)


def chunks(values: Collection[_Value]) -> Iterator[list[_Value]]:
    """Values in order, as many at a time as one query may look up."""
    ordered = sorted(values)
    return (ordered[start : start + _AT_ONCE] for start in range(0, len(ordered), _AT_ONCE))


def written(changes: Mapping[str, object]) -> dict[str, object]:
    """Facts about a goal as its columns hold them; a reason has two."""
    values: dict[str, object] = {}
    for name, value in changes.items():
        if isinstance(value, Reason):
            known = None if value.cause is Cause.OTHER else ndjson.encode(to_record(value))
            values |= {"reason": value.said, "why": known}
        else:
            values[name] = ndjson.encode(value) if name in _WRITTEN_AS_JSON and value is not None else value
    return values


def _goal(row: Iterable[object]) -> BatchGoal:
    """Thousands are read at a time: what is usual is not parsed."""
    *columns, reason = row
    values = dict(zip(_COLUMNS, columns, strict=True))
    after, merge, settings, unmerged = values["after"], values["merge"], values["settings"], values["unmerged"]
    values["state"] = State(str(values["state"]))
    values["after"] = () if after == _NO_ITEMS else _numbers(str(after))
    # Without one, an earlier version queued it, and its workers merged to main by default.
    values["merge"] = MergeMode.DIRECT if merge is None else MergeMode(str(merge))
    values["settings"] = {} if settings == _NO_SETTINGS else _texts(str(settings))
    values["unmerged"] = None if unmerged is None else ndjson.mapping(ndjson.decode(str(unmerged)))
    why = values["why"]
    values["why"] = Reason(str(reason)) if why is None else _reason(str(reason), str(why))
    return BatchGoal(**cast("dict[str, Any]", values))  # the columns are the fields


def _reason(said: str, known: str) -> Reason:
    """Read a reason, unless a worker of an earlier version has written another line since."""
    found = recorded_reason(ndjson.mapping(ndjson.decode(known)))
    return found if found.said == said else Reason(said)


def remark(row: sa.Row[Any]) -> Comment:
    kind = CommentKind(row.kind) if row.kind else CommentKind.FAILURE if row.author == RALPH else CommentKind.REMARK
    why = recorded_reason(ndjson.mapping(ndjson.decode(row.why))) if row.why else NO_REASON
    return Comment(row.goal, row.at, row.author, row.text, row.id, kind, why)


def command(written: str | None) -> tuple[str, ...]:
    """The words of a command that news end in."""
    words = () if written is None else ndjson.sequence(ndjson.decode(written))
    return tuple(ndjson.text(word) for word in words)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(ndjson.count(item) for item in ndjson.sequence(ndjson.decode(text)))


def _texts(text: str) -> dict[str, str]:
    return {name: ndjson.text(value) for name, value in ndjson.mapping(ndjson.decode(text)).items()}


def refuse_cycle(connection: sa.Connection) -> None:
    rows = connection.execute(
        sa.select(GOALS.c.id, GOALS.c.after).where(GOALS.c.after != _NO_ITEMS).order_by(GOALS.c.id)
    )

    def names(cycle: Sequence[int]) -> list[str]:
        named = {goal.id: goal.name for goal in numbered(connection, set(cycle))}
        return [named[number] for number in cycle]

    require_no_cycle({row.id: _numbers(row.after) for row in rows}, names)
