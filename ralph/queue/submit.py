"""Taking goals into the queue: each is added, updates the goal of its name, has it tried again, or changes nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import cast

import sqlalchemy as sa

from ralph.core import ndjson
from ralph.core.errors import UsageError
from ralph.core.progress import Reporter, TaskProgress, unreported
from ralph.core.reason import NO_REASON
from ralph.core.text import did_you_mean
from ralph.git.address import place_of
from ralph.queue import rows
from ralph.queue.database import GOALS
from ralph.queue.goals import BatchGoal, MergeMode, State, Submission


class SubmitChange(StrEnum):
    """What became of a goal that was added; programs read these words."""

    ADDED = "added"
    UPDATED = "updated"
    QUEUED = "queued"
    QUEUED_AGAIN = "queued again"
    CONTINUES = "goes on"
    RUNNING = "running already"
    UNCHANGED = "left as it is"
    DONE = "done already"
    UNDONE = "undone"
    """It was taken out again: only `retry` does it once more."""


@dataclass(frozen=True, slots=True)
class Submitted:
    """A goal that was added, and what became of it."""

    goal: BatchGoal
    what: SubmitChange


@dataclass(frozen=True, slots=True)
class SubmitResult:
    """What to do with a goal that is added, and what to write for it."""

    what: SubmitChange
    new: bool = False
    changes: Mapping[str, object] = field(default_factory=dict[str, object])
    if_moved: SubmitChange | None = None
    """What it is instead if the goal comes after others than before."""


class Register:
    """Goals by name and by branch, entered in the order of their ids.

    Two spellings of one repository are one place; each spelling is resolved once.
    """

    def __init__(self) -> None:
        self._places: dict[str, Path] = {}
        self._numbers: dict[str, dict[Path, list[int]]] = {}
        self._branches: set[tuple[Path, str]] = set()

    def enter(self, number: int, name: str, repo: str, branch: str) -> None:
        """Add a goal; it replaces earlier ones of the same name."""
        place = self._place(repo)
        self._numbers.setdefault(name, {}).setdefault(place, []).append(number)
        self._branches.add((place, branch))

    def latest(self, name: str, repo: str) -> int | None:
        """The latest goal of this name in this repository."""
        numbers = self._numbers.get(name, {}).get(self._place(repo))
        return numbers[-1] if numbers else None

    def has_branch(self, branch: str, repo: str) -> bool:
        """Tell whether a goal of this repository has the branch already."""
        return (self._place(repo), branch) in self._branches

    def parents(self, name: str, repo: str, *, of: int) -> list[int]:
        """The goals that `after: name` means for a goal of `repo`: the latest one there, else the latest everywhere."""
        newest = self._newest(name, but=of)
        here = newest.get(self._place(repo))
        return list(newest.values()) if here is None else [here]

    def _newest(self, name: str, *, but: int) -> Mapping[Path, int]:
        others = {
            place: [number for number in numbers if number != but]
            for place, numbers in self._numbers.get(name, {}).items()
        }
        return {place: numbers[-1] for place, numbers in others.items() if numbers}

    def _place(self, repo: str) -> Path:
        if repo not in self._places:
            self._places[repo] = place_of(repo)
        return self._places[repo]


def take_in(
    connection: sa.Connection,
    submissions: Sequence[Submission],
    state: State,
    now: float,
    *,
    alone: bool,
    report: Reporter = unreported,
) -> list[Submitted]:
    """Take goals in, in a transaction of the caller's; `alone`: nobody is at work on any goal."""
    register = _register(connection, submissions)
    numbered: list[tuple[Submission, int, SubmitResult]] = []
    for asked in submissions:
        numbered.append((asked, *_take_in_one(connection, register, asked, state, now, alone=alone)))
        report(TaskProgress("goals", len(numbered), len(submissions)))
    before = rows.by_id(rows.numbered(connection, {number for _, number, _ in numbered}))
    said: list[tuple[int, SubmitChange]] = []
    for asked, number, found in numbered:
        after = _resolved(asked, register, number, connection)
        moved = after != before[number].after
        if moved:
            rows.change(connection, number, {"after": ndjson.encode(list(after))})
        said.append((number, (found.if_moved if moved else None) or found.what))
    if any(asked.after for asked in submissions):  # without one, no circle can be new
        rows.refuse_cycle(connection)
    known = rows.by_id(rows.numbered(connection, before.keys()))
    return [Submitted(known[number], what) for number, what in said]


def _take_in_one(
    connection: sa.Connection, register: Register, asked: Submission, state: State, now: float, *, alone: bool
) -> tuple[int, SubmitResult]:
    latest = register.latest(asked.name, asked.repo)  # also of those of this submission that came before it
    there = None if latest is None else rows.one(connection, latest)
    found = submit(asked, there, state, alone=alone)
    values = {**rows.written(found.changes), "updated_at": now}
    if there is not None and not found.new:
        rows.change(connection, there.id, values)
        return there.id, found
    branch = asked.branch or f"ralph/{asked.name}"
    is_taken = register.has_branch(branch, asked.repo)
    values |= {"name": asked.name, "repo": asked.repo, "state": state, "created_at": now}
    result = connection.execute(GOALS.insert(), {**values, "branch": "" if is_taken else branch})
    number = int(cast("tuple[int]", result.inserted_primary_key)[0])
    if is_taken:
        branch = f"{branch}-g{number}"  # the work of the one before it stays what it is
        rows.change(connection, number, {"branch": branch})
    register.enter(number, asked.name, asked.repo, branch)
    return number, found


def submit(asked: Submission, there: BatchGoal | None, state: State, *, alone: bool) -> SubmitResult:
    """Decide; `there` is the latest goal of the same name in the same repository, if there is one.

    Nothing is done twice: what is done with the same text stays done. `alone`: no queue worker is at work, so whatever
    is said to be running was cut off.
    """
    merge = asked.merge or (MergeMode.DIRECT if there is None else there.merge)
    said: dict[str, object] = {
        "title": asked.title,
        "text": asked.text,
        "path": asked.path,
        "repo": asked.repo,  # another spelling of the same, with another password say
        "priority": asked.priority,
        "merge": merge,
        "settings": dict(asked.settings),
        "trust_envrc": asked.trust_envrc,
        "agent": asked.agent,
    }
    if there is None:
        return SubmitResult(SubmitChange.ADDED, new=True, changes=said)
    if there.state in (State.DONE, State.UNDONE):
        same = there.text == asked.text  # with which model, or within which limits, does not make it another goal
        what = SubmitChange.DONE if there.state is State.DONE else SubmitChange.UNDONE
        return SubmitResult(what) if same else SubmitResult(SubmitChange.ADDED, new=True, changes=said)
    same = (there.text, dict(there.settings)) == (asked.text, dict(asked.settings))
    had = (there.priority, there.merge, there.trust_envrc)
    updated = not same or had != (asked.priority, merge, asked.trust_envrc)
    if there.state is State.RUNNING and same:
        kept = {name: said[name] for name in ("repo", "priority", "merge", "trust_envrc")}
        what = SubmitChange.CONTINUES if alone or there.cancelling else SubmitChange.RUNNING
        return SubmitResult(what, changes={**kept, "cancelling": False})
    if there.state is State.RUNNING and not alone:
        raise UsageError(
            f"cannot update {asked.name}: {there.label} is running with another text",
            f"cancel it first: ralph-runs cancel {there.label}; or add the new text as a comment",
        )
    if not same and there.unmerged is not None:  # what is to be merged was done for another text: that run is over
        said |= {"unmerged": None, "run": "", **there.closed()}
    if there.state is State.RUNNING:
        charged = there.attempts - (there.unmerged is None)
        said |= {"state": State.QUEUED, "starts": there.starts + 1, "attempts": charged, "cancelling": False}
        return SubmitResult(SubmitChange.UPDATED, changes=said)
    if state is State.DRAFT:
        return SubmitResult(
            SubmitChange.UPDATED if updated else SubmitChange.UNCHANGED, changes=said, if_moved=SubmitChange.UPDATED
        )
    if there.state in (State.STUCK, State.CANCELLED):
        said |= {"state": State.QUEUED, "forgiven": there.attempts, "killed": 0, "why": NO_REASON, "cancelling": False}
        return SubmitResult(SubmitChange.QUEUED_AGAIN, changes=said)
    return SubmitResult(
        SubmitChange.UPDATED if updated else SubmitChange.QUEUED,
        changes=said | {"state": State.QUEUED},
        if_moved=SubmitChange.UPDATED,
    )


def unknown(connection: sa.Connection, submissions: Sequence[Submission]) -> list[Submission]:
    """Return the submissions that have no goal in the queue yet."""
    register = _register(connection, submissions)
    return [asked for asked in submissions if register.latest(asked.name, asked.repo) is None]


def _register(connection: sa.Connection, submissions: Sequence[Submission]) -> Register:
    """What the queue has under the names and branches that a submission is about."""
    names = {name for asked in submissions for name in (asked.name, *asked.after)}
    branches = {asked.branch or f"ralph/{asked.name}" for asked in submissions}
    columns = sa.select(GOALS.c.id, GOALS.c.name, GOALS.c.repo, GOALS.c.branch)
    found: set[tuple[int, str, str, str]] = set()
    for column, wanted in ((GOALS.c.name, names), (GOALS.c.branch, branches)):
        for some in rows.chunks(wanted):
            found |= {
                (row.id, row.name, row.repo, row.branch) for row in connection.execute(columns.where(column.in_(some)))
            }
    register = Register()
    for row in sorted(found):
        register.enter(*row)
    return register


def _resolved(asked: Submission, register: Register, number: int, connection: sa.Connection) -> tuple[int, ...]:
    """The goals that `after` names: in the same repository if one is so called there, else wherever they are."""
    found: list[int] = []
    for name in asked.after:
        parents = register.parents(name, asked.repo, of=number)
        if not parents:
            near = did_you_mean(name, rows.names(connection))
            raise UsageError(
                f"{asked.path}: `after` names {name}, which is not in the queue{near}",
                "add that goal first, or with this one",
            )
        found += parents
    return tuple(dict.fromkeys(found))
