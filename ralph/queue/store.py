"""The goals of a queue, in the same database as the engine's own tables."""

import contextlib
import re
import time
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from typing import cast

import sqlalchemy as sa

from ralph.core import ndjson
from ralph.core.errors import StateError, UsageError
from ralph.core.progress import Reporter, unreported
from ralph.core.reason import NO_REASON, Cause, Reason
from ralph.core.records import to_record
from ralph.core.secrets import without_login
from ralph.core.text import did_you_mean
from ralph.queue import rows
from ralph.queue.database import (
    COMMENTS,
    GOALS,
    MARKS,
    NEWS,
    checkpoint,
    connect,
    faults_named,
    patient,
    queue_id,
    reading,
    still_there,
)
from ralph.queue.goals import (
    ACTIVE,
    RALPH,
    USER,
    BatchGoal,
    Comment,
    CommentKind,
    GoalFigures,
    State,
    Submission,
    may_become,
)
from ralph.queue.news import Bulletin, News, decoded
from ralph.queue.submit import Submitted, take_in, unknown

_BULLETIN, _PAUSED, _WOKEN = "bulletin", "paused", "woken"
_MOST_NEWS, _PRUNED_AFTER = 5_000, 500
"""News that are kept, or up to so many more."""
_ID = re.compile(r"g?([1-9][0-9]{0,17})", re.ASCII)
_CANCELLED = Reason(cause=Cause.CANCELLED)


class Store:
    """The goals of one queue. Every method is one transaction; a change says which states it starts from."""

    def __init__(self, engine: sa.Engine, now: Callable[[], float] = time.time) -> None:
        self._engine, self._reader = engine, reading(engine)
        self._now = now
        self.queue_id = queue_id(engine)

    def goals(self) -> list[BatchGoal]:
        """Every goal, by its id."""
        with self._look() as connection:
            return rows.every(connection)

    def goal(self, number: int) -> BatchGoal:
        """The goal of this number."""
        with self._look() as connection:
            return rows.one(connection, number)

    def refreshed(self, known: Mapping[int, BatchGoal]) -> list[BatchGoal]:
        """Every goal, by its id; `known` are goals read before, from which those that nobody has changed are taken.

        Goals at work change without a mark, so every active one is read.
        """
        marks = sa.select(GOALS.c.id, GOALS.c.updated_at).where(GOALS.c.state.not_in(ACTIVE))
        with self._look() as connection:
            at_rest = {row.id: row.updated_at for row in connection.execute(marks)}
            same = [
                goal
                for number, at in at_rest.items()
                if (goal := known.get(number)) is not None and goal.updated_at == at and goal.state not in ACTIVE
            ]
            changed = at_rest.keys() - {goal.id for goal in same}
            read = [*rows.numbered(connection, changed), *rows.chosen(connection, GOALS.c.state.in_(ACTIVE))]
        return sorted([*same, *read], key=lambda goal: goal.id)

    def active(self) -> list[BatchGoal]:
        """The goals that are queued or running, and every goal that one of them comes after; by their ids.

        All that a scheduler needs: how many others are over makes no difference to what this reads.
        """
        with self._look() as connection:
            active = rows.chosen(connection, GOALS.c.state.in_(ACTIVE))
            there = {goal.id for goal in active}
            parents = {number for goal in active for number in goal.after} - there
            return sorted([*active, *rows.numbered(connection, parents)], key=lambda goal: goal.id)

    def some(self, numbers: Collection[int]) -> list[BatchGoal]:
        """The goals of these numbers, as far as they exist; by their ids."""
        with self._look() as connection:
            return rows.numbered(connection, numbers)

    def counts(self) -> dict[State, int]:
        """How many goals are in each state that any goal is in."""
        counted = sa.select(GOALS.c.state, sa.func.count()).group_by(GOALS.c.state)
        with self._look() as connection:
            return {State(str(state)): int(count) for state, count in connection.execute(counted)}

    def figures(self) -> GoalFigures:
        """What each goal that is done has used."""
        used = sa.select(GOALS.c.cost_usd, GOALS.c.tokens, GOALS.c.seconds).where(GOALS.c.state == State.DONE)
        with self._look() as connection:
            rows = connection.execute(used).all()
        return GoalFigures([row.cost_usd for row in rows], [row.tokens for row in rows], [row.seconds for row in rows])

    def names(self) -> set[str]:
        """The names of all goals."""
        with self._look() as connection:
            return set(rows.names(connection))

    def find(self, word: str) -> BatchGoal:
        """The goal that a user means: by its id, or by its name if only one has it."""
        return self.find_all([word])[0]

    def find_all(self, words: Sequence[str]) -> list[BatchGoal]:
        """The goals that a user means, each once."""
        with self._look() as connection:
            numbers = {word: int(found[1]) for word in words if (found := _ID.fullmatch(word))}
            by_number = {goal.id: goal for goal in rows.numbered(connection, set(numbers.values()))}
            named = [word for word in dict.fromkeys(words) if numbers.get(word) not in by_number and _is_text(word)]
            by_name: dict[str, list[BatchGoal]] = {}
            for some in rows.chunks(named):
                for goal in rows.chosen(connection, GOALS.c.name.in_(some)):
                    by_name.setdefault(goal.name, []).append(goal)
            found = [_meant(word, by_number.get(numbers.get(word, 0)), by_name, connection) for word in words]
        return list({goal.id: goal for goal in found}.values())

    def submit(
        self,
        submissions: Sequence[Submission],
        state: State,
        *,
        alone: bool = False,
        report: Reporter = unreported,
    ) -> list[Submitted]:
        """Add goals, all of them or none; `alone`: the caller is the only queue worker, and not at work yet."""
        with self._transaction() as connection:
            return take_in(connection, submissions, state, self._now(), alone=alone, report=report)

    def unknown(self, submissions: Sequence[Submission]) -> list[Submission]:
        """Return the submissions that have no goal yet."""
        with self._look() as connection:
            return unknown(connection, submissions)

    def rehearse(self, submissions: Sequence[Submission], state: State) -> list[BatchGoal]:
        """The goals as they would be with these taken in; refused is what would be, and nothing is written."""
        with faults_named(self._engine.url), self._engine.connect() as connection, connection.begin() as transaction:
            take_in(connection, submissions, state, self._now(), alone=True)
            goals = rows.every(connection)
            transaction.rollback()
            return goals

    def move(
        self,
        goal: BatchGoal,
        to: State,
        facts: Mapping[str, object] | None = None,
        *,
        comment: str = "",
        failure: Reason = NO_REASON,
        as_seen: bool = False,
        **more: object,
    ) -> State | None:
        """Take a goal from the state it was seen in to another one; say which. None: somebody was faster.

        A goal that the user wants cancelled does not go on when it stops running. `comment` is ralph's remark on it, in
        the same transaction, and `failure` what it is about, if not its first line; `as_seen`: nobody may have written
        anything about the goal since.
        """
        if not may_become(goal.state, to):
            raise StateError(f"{goal.label} is {goal.state} and cannot become {to}")
        changes = {**(facts or {}), **more}
        with self._transaction() as connection:
            now = rows.one(connection, goal.id)
            if as_seen and now.updated_at != goal.updated_at:
                return None
            if goal.state is State.RUNNING:
                if now.cancelling and to in (State.QUEUED, State.STUCK):
                    to, changes = State.CANCELLED, {**changes, "why": _CANCELLED}
                changes["cancelling"] = False  # whatever was wanted of it while it ran is over
            if not self._change(connection, goal, {"state": to, **changes}):
                return None
            if comment:
                self._comment(connection, goal, RALPH, comment, why=failure)
            return to

    def note(self, goal: BatchGoal, **changes: object) -> bool:
        """Write down facts about a goal, unless it is in another state by now."""
        with self._transaction() as connection:
            return self._change(connection, goal, changes)

    def _change(self, connection: sa.Connection, goal: BatchGoal, changes: Mapping[str, object]) -> bool:
        values = {**rows.written(changes), "updated_at": self._now()}
        # `starts`, too: an earlier start of the goal must not change it any more
        seen = sa.and_(GOALS.c.id == goal.id, GOALS.c.state == goal.state, GOALS.c.starts == goal.starts)
        return connection.execute(GOALS.update().where(seen).values(**values)).rowcount == 1

    def queue(self, goal: BatchGoal) -> BatchGoal:
        """Let a draft start."""
        with self._seen_anew(goal) as (connection, now):
            if now.state is not State.DRAFT:
                over = now.state in (State.STUCK, State.CANCELLED, State.UNDONE)
                hint = f"retry it with: ralph-runs retry {now.label}" if over else ""
                raise UsageError(f"cannot queue {now.label}: it is {now.state}, not a draft", hint)
            self._change(connection, now, {"state": State.QUEUED})
        return self.goal(goal.id)

    def retry(self, goal: BatchGoal) -> BatchGoal:
        """Try what is stuck or cancelled again, with as many attempts as a new one has."""
        with self._seen_anew(goal) as (connection, now):
            if now.state not in (State.STUCK, State.CANCELLED, State.UNDONE):
                hint = f"queue it with: ralph-runs queue {now.label}" if now.state is State.DRAFT else ""
                raise UsageError(f"cannot retry {now.label}: it is {now.state}, not stuck, cancelled or undone", hint)
            anew: dict[str, object] = {"forgiven": now.attempts, "killed": 0, "why": NO_REASON, "cancelling": False}
            if now.state is State.UNDONE:  # what comes now is another run
                anew |= {"run": "", **now.closed()}
            self._change(connection, now, {"state": State.QUEUED, **anew})
        return self.goal(goal.id)

    def cancel(self, goal: BatchGoal, *, alone: bool = False) -> BatchGoal:
        """Give a goal up; one that runs is stopped by the queue worker, which looks for this.

        `alone`: the caller keeps queue workers away, so one that is said to run was cut off, and is given up here;
        not if it was at its merge, which may have reached the remote: the next worker looks.
        """
        with self._seen_anew(goal) as (connection, now):
            match now.state:
                case State.DONE:
                    raise UsageError(f"cannot cancel {now.label}: it is done", f"undo it: ralph-runs undo {now.label}")
                case State.UNDONE:
                    raise UsageError(
                        f"cannot cancel {now.label}: it is undone", "it does not run again unless you retry it"
                    )
                case State.RUNNING if alone and now.unmerged is None:
                    # Another start, which never was: the engine still knows the one that was cut off.
                    changes = {"starts": now.starts + 1, "attempts": now.attempts - 1}
                    changes |= {"state": State.CANCELLED, "why": _CANCELLED, "cancelling": False}
                    self._change(connection, now, changes)
                case State.RUNNING:
                    self._change(connection, now, {"cancelling": True})
                case State.CANCELLED:
                    pass
                case _:
                    self._change(connection, now, {"state": State.CANCELLED, "why": _CANCELLED})
        return self.goal(goal.id)

    def undo(self, goal: BatchGoal, why: Reason, remark: str) -> BatchGoal:
        """Mark a goal whose work was taken out of its base again; its next attempt reads the remark."""
        with self._seen_anew(goal) as (connection, now):
            if now.state is State.DONE and self._change(connection, now, {"state": State.UNDONE, "why": why}):
                self._comment(connection, goal, USER, remark)
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
            yield connection, rows.one(connection, goal.id)

    def comment(
        self, goal: BatchGoal, author: str, text: str, kind: CommentKind | None = None, why: Reason = NO_REASON
    ) -> None:
        """Add a remark to a goal; `why` is what it is about."""
        with self._transaction() as connection:
            self._comment(connection, goal, author, text, kind, why)

    def _comment(
        self,
        connection: sa.Connection,
        goal: BatchGoal,
        author: str,
        text: str,
        kind: CommentKind | None = None,
        why: Reason = NO_REASON,
    ) -> None:
        values = {"goal": goal.id, "at": self._now(), "author": author, "text": text, "kind": kind}
        known = ndjson.encode(to_record(why)) if why else None
        connection.execute(COMMENTS.insert().values(**values, why=known))

    def comments(self, goal: BatchGoal) -> list[Comment]:
        """The remarks on a goal, oldest first."""
        return self._comments(COMMENTS.c.goal == goal.id)

    def comments_after(self, number: int) -> list[Comment]:
        """The remarks on all goals that came after the one of this number."""
        return self._comments(COMMENTS.c.id > number)

    def _comments(self, chosen: sa.ColumnElement[bool]) -> list[Comment]:
        with self._look() as connection:
            found = connection.execute(sa.select(COMMENTS).where(chosen).order_by(COMMENTS.c.id))
            return [rows.remark(row) for row in found]

    def publish(self, news: News) -> None:
        """Keep recent events for everyone who watches; drop old ones."""
        goal = None if news.goal is None else news.goal.id
        with self._transaction() as connection:
            values = {"at": news.at, "kind": news.kind, "goal": goal, "text": news.text}
            command = ndjson.encode(news.command) if news.command else None
            told = connection.execute(NEWS.insert().values(**values, command=command))
            number = int(cast("tuple[int]", told.inserted_primary_key)[0])
            if number % _PRUNED_AFTER == 0:
                connection.execute(NEWS.delete().where(NEWS.c.id <= number - _MOST_NEWS))

    def news(self, most: int) -> list[tuple[float, str, int | None, str, tuple[str, ...]]]:
        """Return the latest news, oldest first: time, kind, goal, text, and the command at its end."""
        with self._look() as connection:
            found = connection.execute(sa.select(NEWS).order_by(NEWS.c.id.desc()).limit(most))
            return [(row.at, row.kind, row.goal, row.text, rows.command(row.command)) for row in found][::-1]

    def post(self, bulletin: Bulletin) -> None:
        """Write down how the queue worker stands, and what goals at work have used: kill -9 loses a moment of that.

        All that is settled when its attempt has ended, though it is not merged yet.
        """
        with self._transaction() as connection:
            self._mark(connection, _BULLETIN, bulletin.encoded())
            for number, status in bulletin.statuses.items():
                trying = (GOALS.c.id == number, GOALS.c.state == State.RUNNING, GOALS.c.unmerged.is_(None))
                used = {"cost_usd": status.cost_usd, "tokens": status.tokens, "seconds": status.worked(bulletin.at)}
                told = {"costed": status.costed, "counted": status.tokens > 0}
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
            self._mark(connection, _WOKEN, ndjson.encode(woken))

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
        return [] if value is None else [ndjson.count(item) for item in ndjson.sequence(ndjson.decode(value))]

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
        checkpoint(self._engine)
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


def _is_text(word: str) -> bool:
    """Tell whether a word of the command line is UTF-8, as every goal's name is; a database takes nothing else."""
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


def _meant(
    word: str, numbered: BatchGoal | None, named: Mapping[str, Sequence[BatchGoal]], connection: sa.Connection
) -> BatchGoal:
    """The goal that a user's word means, by its number or by its name."""
    if numbered is not None:
        return numbered
    found = named.get(word, ())
    if len(found) == 1:
        return found[0]
    if found:
        which = ", ".join(f"{goal.label} ({without_login(goal.repo)})" for goal in found)
        raise UsageError(f"several goals are named {word}: {which}", "use its id")
    known = connection.execute(sa.select(GOALS.c.id, GOALS.c.name).order_by(GOALS.c.id))
    near = did_you_mean(word, [candidate for number, name in known for candidate in (f"g{number}", name)])
    raise UsageError(f"there is no goal {word} in the queue{near}", "see them with: ralph-runs list")
