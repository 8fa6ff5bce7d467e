"""The goals of a queue, in the same database as the engine's own tables."""

import contextlib
import dataclasses
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import sqlalchemy as sa

from ralph import jsonline
from ralph.batch.bulletin import Bulletin, decoded
from ralph.batch.database import (
    COMMENTS,
    GOALS,
    MARKS,
    NEWS,
    connect,
    faults_named,
    patient,
    queue_id,
    reading,
    still_there,
)
from ralph.batch.goals import BatchGoal, Comment, MergeMode, State, Submission, may_become
from ralph.batch.news import News
from ralph.batch.places import place_of
from ralph.batch.plan import find_cycle
from ralph.batch.remotes import without_password
from ralph.batch.submitting import taken
from ralph.errors import StateError, UsageError
from ralph.nearest import did_you_mean

_BULLETIN, _PAUSED, _WOKEN = "bulletin", "paused", "woken"
_MOST_NEWS, _PRUNED_AFTER = 5_000, 500
"""News that are kept, or up to so many more."""
_WRITTEN_AS_JSON = ("after", "settings", "unmerged")


@dataclass(frozen=True, slots=True)
class Submitted:
    """A goal that was asked for, and what came of that: added, updated, queued again, or left as it is."""

    goal: BatchGoal
    what: str


class Store:
    """The goals of one queue. Every method is one transaction; a change says which states it starts from."""

    def __init__(self, engine: sa.Engine, now: Callable[[], float] = time.time) -> None:
        self._engine, self._reader = engine, reading(engine)
        self._now = now
        self.queue_id = queue_id(engine)

    def goals(self) -> list[BatchGoal]:
        """Every goal, by its id."""
        with self._look() as connection:
            return _all(connection)

    def goal(self, number: int) -> BatchGoal:
        """The goal of this number."""
        with self._look() as connection:
            return _one(connection, number)

    def find(self, word: str) -> BatchGoal:
        """The goal that a user means: by its id, or by its name if only one has it."""
        goals = self.goals()
        named = [goal for goal in goals if word in (goal.label, str(goal.id))] or [
            goal for goal in goals if goal.name == word
        ]
        if len(named) == 1:
            return named[0]
        if named:
            which = ", ".join(f"{goal.label} ({without_password(goal.repo)})" for goal in named)
            raise UsageError(f"{word} is the name of several goals: {which}", "say which one by its id")
        near = did_you_mean(word, [name for goal in goals for name in (goal.label, goal.name)])
        raise UsageError(f"there is no goal {word} in the queue{near}", "see them with: ralph-runs list")

    def submit(self, submissions: Sequence[Submission], state: State, *, alone: bool = False) -> list[Submitted]:
        """Take goals in, all of them or none; `alone`: whoever asks is the only queue worker, and not at work yet."""
        with self._transaction() as connection:
            return self._take_in(connection, submissions, state, alone=alone)

    def rehearse(self, submissions: Sequence[Submission], state: State) -> list[BatchGoal]:
        """The goals as they would be with these taken in; refused is what would be, and nothing is written."""
        with faults_named(self._engine.url), self._engine.connect() as connection, connection.begin() as transaction:
            self._take_in(connection, submissions, state, alone=True)
            goals = _all(connection)
            transaction.rollback()
            return goals

    def _take_in(
        self, connection: sa.Connection, submissions: Sequence[Submission], state: State, *, alone: bool
    ) -> list[Submitted]:
        numbered = [(asked, *self._submit(connection, asked, state, alone=alone)) for asked in submissions]
        known = _all(connection)
        for asked, number, _ in numbered:
            after = _resolved(asked, known, _by_id(known)[number])
            connection.execute(GOALS.update().where(GOALS.c.id == number).values(after=jsonline.encode(list(after))))
        known = _all(connection)
        _refuse_cycle(known)
        return [Submitted(_by_id(known)[number], what) for _, number, what in numbered]

    def _submit(self, connection: sa.Connection, asked: Submission, state: State, *, alone: bool) -> tuple[int, str]:
        known = _all(connection)  # with those of this submission that came before it
        where = place_of(asked.repo)
        here = [goal for goal in known if place_of(goal.repo) == where]
        there = next((goal for goal in reversed(here) if goal.name == asked.name), None)
        found = taken(asked, there, state, alone=alone)
        values = {**found.changes, "updated_at": self._now()}
        if there is not None and not found.new:
            connection.execute(GOALS.update().where(GOALS.c.id == there.id).values(**values))
            return there.id, found.what
        values |= {"name": asked.name, "repo": asked.repo, "branch": "", "state": state, "created_at": self._now()}
        result = connection.execute(GOALS.insert().values(**values))
        number = int(cast("tuple[int]", result.inserted_primary_key)[0])
        branch = asked.branch or f"ralph/{asked.name}"
        if any(goal.branch == branch for goal in here):
            branch = f"{branch}-g{number}"  # the work of the one before it stays what it is
        connection.execute(GOALS.update().where(GOALS.c.id == number).values(branch=branch))
        return number, found.what

    def move(
        self,
        goal: BatchGoal,
        to: State,
        facts: Mapping[str, object] | None = None,
        *,
        comment: str = "",
        as_seen: bool = False,
        **more: object,
    ) -> State | None:
        """Take a goal from the state it was seen in to another one; say which. None: somebody was faster.

        A goal that the user wants cancelled does not go on when it stops running. `comment` is ralph's remark on it, in
        the same transaction; `as_seen`: nobody must have written anything about the goal meanwhile.
        """
        if not may_become(goal.state, to):
            raise StateError(f"{goal.label} is {goal.state} and cannot become {to}")
        changes = {**(facts or {}), **more}
        with self._transaction() as connection:
            now = _one(connection, goal.id)
            if as_seen and now.updated_at != goal.updated_at:
                return None
            if goal.state is State.RUNNING:
                if now.cancelling and to in (State.QUEUED, State.STUCK):
                    to, changes = State.CANCELLED, {**changes, "reason": "cancelled"}
                changes["cancelling"] = False  # whatever was wanted of it while it ran is over
            if not self._change(connection, goal, {"state": to, **changes}):
                return None
            if comment:
                self._comment(connection, goal, "ralph", comment)
            return to

    def note(self, goal: BatchGoal, **changes: object) -> bool:
        """Write down facts about a goal, unless it is in another state by now."""
        with self._transaction() as connection:
            return self._change(connection, goal, changes)

    def _change(self, connection: sa.Connection, goal: BatchGoal, changes: Mapping[str, object]) -> bool:
        values = {**_written(changes), "updated_at": self._now()}
        # `starts`, too: whoever is at an earlier start of the goal has no say any more
        seen = sa.and_(GOALS.c.id == goal.id, GOALS.c.state == goal.state, GOALS.c.starts == goal.starts)
        return connection.execute(GOALS.update().where(seen).values(**values)).rowcount == 1

    def queue(self, goal: BatchGoal) -> BatchGoal:
        """Let a draft start."""
        with self._seen_anew(goal) as (connection, now):
            if now.state is not State.DRAFT:
                over = now.state in (State.STUCK, State.CANCELLED)
                hint = f"ralph-runs retry {now.label} tries it again" if over else ""
                raise UsageError(f"{now.label} is no draft: it is {now.state}", hint)
            self._change(connection, now, {"state": State.QUEUED})
        return self.goal(goal.id)

    def retry(self, goal: BatchGoal) -> BatchGoal:
        """Try what is stuck or cancelled again, with as many attempts as a new one has."""
        with self._seen_anew(goal) as (connection, now):
            if now.state not in (State.STUCK, State.CANCELLED):
                hint = f"ralph-runs queue {now.label} lets it start" if now.state is State.DRAFT else ""
                raise UsageError(f"{now.label} is {now.state}: only what is stuck or cancelled is tried again", hint)
            anew = {"forgiven": now.attempts, "killed": 0, "reason": "", "cancelling": False}
            self._change(connection, now, {"state": State.QUEUED, **anew})
        return self.goal(goal.id)

    def cancel(self, goal: BatchGoal, *, alone: bool = False) -> BatchGoal:
        """Give a goal up; one that runs is stopped by the queue worker, which looks for this.

        `alone`: whoever asks keeps queue workers away, so one that is said to run was cut off, and is given up here;
        not if it was at its merge, which may have reached the remote: the next worker looks.
        """
        with self._seen_anew(goal) as (connection, now):
            match now.state:
                case State.DONE:
                    raise UsageError(f"{now.label} is done: there is nothing to cancel")
                case State.RUNNING if alone and now.unmerged is None:
                    # Another start, which never was: the engine still knows the one that was cut off.
                    changes = {"starts": now.starts + 1, "attempts": now.attempts - 1}
                    changes |= {"state": State.CANCELLED, "reason": "cancelled", "cancelling": False}
                    self._change(connection, now, changes)
                case State.RUNNING:
                    self._change(connection, now, {"cancelling": True})
                case State.CANCELLED:
                    pass
                case _:
                    self._change(connection, now, {"state": State.CANCELLED, "reason": "cancelled"})
        return self.goal(goal.id)

    @contextlib.contextmanager
    def as_seen(self, goal: BatchGoal) -> Generator[bool]:
        """Keep a goal from being changed for as long as the context lasts; False: somebody has changed it already."""
        with self._seen_anew(goal) as (_, now):
            yield now == goal

    @contextlib.contextmanager
    def _seen_anew(self, goal: BatchGoal) -> Generator[tuple[sa.Connection, BatchGoal]]:
        """A goal as it is now: a worker may have changed it since the user looked."""
        with self._transaction() as connection:
            yield connection, _one(connection, goal.id)

    def comment(self, goal: BatchGoal, author: str, text: str) -> None:
        """Add a remark to a goal."""
        with self._transaction() as connection:
            self._comment(connection, goal, author, text)

    def _comment(self, connection: sa.Connection, goal: BatchGoal, author: str, text: str) -> None:
        values = {"goal": goal.id, "at": self._now(), "author": author, "text": text}
        connection.execute(COMMENTS.insert().values(**values))

    def comments(self, goal: BatchGoal) -> list[Comment]:
        """The remarks on a goal, oldest first."""
        return self._comments(COMMENTS.c.goal == goal.id)

    def comments_after(self, number: int) -> list[Comment]:
        """The remarks on all goals that came after the one of this number."""
        return self._comments(COMMENTS.c.id > number)

    def _comments(self, chosen: sa.ColumnElement[bool]) -> list[Comment]:
        columns = (COMMENTS.c.goal, COMMENTS.c.at, COMMENTS.c.author, COMMENTS.c.text, COMMENTS.c.id)
        with self._look() as connection:
            rows = connection.execute(sa.select(*columns).where(chosen).order_by(COMMENTS.c.id))
            return [Comment(*row) for row in rows]

    def publish(self, news: News) -> None:
        """Keep what has happened, for whoever watches; of what is long past, nothing."""
        goal = None if news.goal is None else news.goal.id
        with self._transaction() as connection:
            told = connection.execute(NEWS.insert().values(at=news.at, kind=news.kind, goal=goal, text=news.text))
            number = int(cast("tuple[int]", told.inserted_primary_key)[0])
            if number % _PRUNED_AFTER == 0:
                connection.execute(NEWS.delete().where(NEWS.c.id <= number - _MOST_NEWS))

    def news(self, most: int) -> list[tuple[float, str, int | None, str]]:
        """The latest news, oldest first: when, of which kind, about which goal, what."""
        columns = (NEWS.c.at, NEWS.c.kind, NEWS.c.goal, NEWS.c.text)
        with self._look() as connection:
            rows = connection.execute(sa.select(*columns).order_by(NEWS.c.id.desc()).limit(most))
            return [(row.at, row.kind, row.goal, row.text) for row in rows][::-1]

    def post(self, bulletin: Bulletin) -> None:
        """Write down how the queue worker stands, and what goals at work have used: kill -9 loses a moment of that.

        All that is settled when its attempt has ended, though it is not merged yet.
        """
        with self._transaction() as connection:
            self._mark(connection, _BULLETIN, bulletin.encoded())
            for number, sight in bulletin.sights.items():
                trying = (GOALS.c.id == number, GOALS.c.state == State.RUNNING, GOALS.c.unmerged.is_(None))
                used = {"cost_usd": sight.cost_usd, "tokens": sight.tokens, "seconds": sight.worked(bulletin.at)}
                told = {"costed": sight.costed, "counted": sight.tokens > 0}
                used |= {name: True for name, is_told in told.items() if is_told}
                connection.execute(GOALS.update().where(*trying).values(**used))

    def bulletin(self) -> Bulletin | None:
        """What the queue worker said last; it may be gone since."""
        with self._look() as connection:
            value = self._marked(connection, _BULLETIN)
        return None if value is None else decoded(value)

    @property
    def paused(self) -> bool:
        """Whether the user wants nothing started."""
        with self._look() as connection:
            return self._marked(connection, _PAUSED) is not None

    def pause(self, *, paused: bool) -> bool:
        """Have nothing started any more, or again; tell whether that is new."""
        with self._transaction() as connection:
            before = self._marked(connection, _PAUSED) is not None
            self._mark(connection, _PAUSED, str(self._now()) if paused else None)
            return before != paused

    def wake(self, goals: Sequence[BatchGoal]) -> None:
        """Have goals that wait for a usage limit go on now; one that does not wait is left alone."""
        with self._transaction() as connection:
            woken = [*self._woken(connection), *(goal.id for goal in goals)]
            self._mark(connection, _WOKEN, jsonline.encode(woken))

    def take_woken(self) -> list[int]:
        """The goals that are to go on now, handed over once."""
        with self._look() as connection:
            if not self._woken(connection):  # as nearly always
                return []
        with self._transaction() as connection:
            if woken := self._woken(connection):
                self._mark(connection, _WOKEN, None)
            return woken

    def _woken(self, connection: sa.Connection) -> list[int]:
        value = self._marked(connection, _WOKEN)
        return [] if value is None else [jsonline.count(item) for item in jsonline.sequence(jsonline.decode(value))]

    def _marked(self, connection: sa.Connection, name: str) -> str | None:
        return connection.execute(sa.select(MARKS.c.value).where(MARKS.c.name == name)).scalar()

    def _mark(self, connection: sa.Connection, name: str, value: str | None) -> None:
        connection.execute(MARKS.delete().where(MARKS.c.name == name))
        if value is not None:
            connection.execute(MARKS.insert().values(name=name, value=value))

    def be_patient(self, seconds: Callable[[], float]) -> None:
        """Wait so long for a lock of another process's, asked time and again; else half a minute."""
        self._engine = patient(self._engine, seconds)

    def close(self) -> None:
        self._engine.dispose()

    @contextlib.contextmanager
    def _look(self) -> Generator[sa.Connection]:
        """A transaction in which nothing is written, and nobody waits for another."""
        still_there(self._engine.url)
        with faults_named(self._engine.url), self._reader.begin() as connection:
            yield connection

    @contextlib.contextmanager
    def _transaction(self) -> Generator[sa.Connection]:
        still_there(self._engine.url)
        with faults_named(self._engine.url), self._engine.begin() as connection:
            yield connection


def open_store(url: str, *, create: bool = True) -> Store | None:
    """Open a queue; without `create` None if there is none yet."""
    engine = connect(url, create=create)
    return None if engine is None else Store(engine)


def _written(changes: Mapping[str, object]) -> dict[str, object]:
    return {
        name: jsonline.encode(value) if name in _WRITTEN_AS_JSON and value is not None else value
        for name, value in changes.items()
    }


def _all(connection: sa.Connection) -> list[BatchGoal]:
    return [_goal(row) for row in connection.execute(sa.select(GOALS).order_by(GOALS.c.id)).mappings()]


def _one(connection: sa.Connection, number: int) -> BatchGoal:
    row = connection.execute(sa.select(GOALS).where(GOALS.c.id == number)).mappings().one_or_none()
    if row is None:
        raise UsageError(f"there is no goal g{number} in the queue", "see them with: ralph-runs list")
    return _goal(row)


_COLUMNS = tuple(field.name for field in dataclasses.fields(BatchGoal))


def _goal(row: sa.RowMapping) -> BatchGoal:
    values = {name: row[name] for name in _COLUMNS}
    merge, unmerged = row["merge"], row["unmerged"]
    values |= {
        "state": State(str(row["state"])),
        "after": tuple(jsonline.count(item) for item in jsonline.sequence(jsonline.decode(str(row["after"])))),
        "merge": None if merge is None else MergeMode(str(merge)),
        "settings": {
            name: jsonline.text(value)
            for name, value in jsonline.mapping(jsonline.decode(str(row["settings"]))).items()
        },
        "unmerged": None if unmerged is None else jsonline.mapping(jsonline.decode(str(unmerged))),
    }
    return BatchGoal(**values)  # the columns are the fields


def _by_id(goals: Iterable[BatchGoal]) -> dict[int, BatchGoal]:
    return {goal.id: goal for goal in goals}


def _resolved(asked: Submission, known: Sequence[BatchGoal], goal: BatchGoal) -> tuple[int, ...]:
    """The goals that `after` names: in the same repository if one is so called there, else wherever they are."""
    found: list[int] = []
    for name in asked.after:
        newest = {place_of(other.repo): other for other in known if other.name == name and other.id != goal.id}
        if not newest:
            near = did_you_mean(name, [other.name for other in known])
            raise UsageError(
                f"{asked.path}: `after` names {name}, which is no goal in the queue{near}",
                "add that one first, or with this one",
            )
        here = newest.get(place_of(asked.repo))
        found += [here.id] if here is not None else [other.id for other in newest.values()]
    return tuple(dict.fromkeys(found))


def _refuse_cycle(known: Sequence[BatchGoal]) -> None:
    if cycle := find_cycle({goal.id: goal.after for goal in known}):
        names = _by_id(known)
        circle = " after ".join(names[number].name for number in cycle)
        raise UsageError(f"these goals wait for each other: {circle}", "take one of these `after` out")
