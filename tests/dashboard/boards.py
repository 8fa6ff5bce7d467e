"""Boards as a queue comes to have them, at an instant that does not move."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ralph.core.reason import Cause, Reason
from ralph.dashboard.board import Board, GoalPage, Happening, lineup
from ralph.dashboard.frame import Frames
from ralph.dashboard.rows import line, row
from ralph.dashboard.view import View
from ralph.queue.goals import BatchGoal, Comment, State
from ralph.queue.news import Budget, Bulletin, GoalStatus
from ralph.queue.stats import figures_of, foretold
from ralph.ui.terminal import Look, Row, painted

NOW = 1_800_000_000.0
UNCHECKED = "/srv/api.git has no .ralph/check on main: work cannot be proven, so it is not merged"


def frame(board: Board, view: View, columns: int, rows: int) -> tuple[View, list[Row]]:
    """The first frame of a dashboard."""
    return Frames().frame(board, view, columns, rows)


def shown(row: Row, columns: int = 400) -> str:
    """A row as a terminal without colours has it; what is chosen is marked."""
    written = painted(row, columns, colour=False)
    chosen = re.sub("\x1b\\[7m(.*?)\x1b\\[0m", lambda found: f"»{found[1]}«", written)
    return re.sub("\x1b\\[[0-9;]*m", "", chosen).replace("«»", "")


def goal(number: int, name: str, state: State, **facts: Any) -> BatchGoal:
    began = state not in (State.QUEUED, State.DRAFT)
    known: dict[str, Any] = {
        "title": name.replace("-", " ").capitalize(),
        "text": f"# {name}\n",
        "path": f"/goals/{name}.md",
        "repo": "/srv/shop.git",
        "branch": f"ralph/{name}",
        "created_at": NOW - 9000,
        "updated_at": NOW - 600,
        "starts": int(began),
        "attempts": int(began),
        "run": f"{name}-run" if began else "",
    }
    return BatchGoal(id=number, name=name, state=state, **{**known, **facts})


def twelve() -> list[BatchGoal]:
    """Goals in every state that there is."""
    api = {"repo": "/srv/api.git"}
    return [
        goal(
            1,
            "log-in",
            State.DONE,
            cost_usd=1.2,
            tokens=300_000,
            seconds=900.0,
            iterations=4,
            why=Reason("merged: 3f2a91c"),
        ),
        goal(2, "sign-up", State.DONE, cost_usd=0.8, tokens=200_000, seconds=700.0, iterations=3, updated_at=NOW - 60),
        goal(3, "search-index", State.RUNNING, cost_usd=0.5, **api),
        goal(4, "rate-limits", State.RUNNING, cost_usd=2.1, **api),
        goal(5, "dark-mode", State.RUNNING, cost_usd=1.0, iterations=2, seconds=300.0, unmerged={"proven": True}),
        goal(6, "csv-export-with-a-very-long-name", State.RUNNING, cost_usd=0.04, unmerged={"proven": True}),
        goal(7, "payments", State.STUCK, why=Reason("the check is red: tests/test_pay.py"), cost_usd=6.4, attempts=4),
        goal(8, "emails", State.QUEUED, after=(7,)),
        goal(9, "docs", State.QUEUED, priority=3),
        goal(10, "icons", State.QUEUED, after=(3,)),
        goal(11, "later", State.DRAFT),
        goal(12, "no-more", State.CANCELLED, why=Reason("cancelled", Cause.CANCELLED)),
    ]


def bulletin(**facts: Any) -> Bulletin:
    known: dict[str, Any] = {
        "slots": 3,
        "budget": Budget(20.0, None, 8 * 3600.0),
        "spent_usd": 11.0,
        "spent_tokens": 3_400_000,
        "seconds": 4000.0,
        "statuses": {
            3: GoalStatus("Bash make test", NOW - 42, None, 3, 37.0, 0.52, 410_000, NOW - 400),
            4: GoalStatus("waiting", NOW - 100, NOW + 725, 6, 84.0, 2.1, 900_000, NOW - 2000),
        },
        "merging": (5, 6),
    }
    return Bulletin(**{"at": NOW, "host": "mill", "pid": 4321, "since": NOW - 4000, **known, **facts})


def news() -> tuple[Happening, ...]:
    told = [
        ("started", 3, "on ralph/search-index"),
        ("iteration", 3, "iteration 2: indexed the titles"),
        ("check", 5, "green in 12s"),
        ("stuck", 7, "the check is red: tests/test_pay.py"),
        ("note", None, UNCHECKED),
        ("merging", 5, "to main"),
    ]
    return tuple(Happening(NOW - 300 + 20 * at, *each) for at, each in enumerate(told))


def board(goals: Sequence[BatchGoal], **facts: Any) -> Board:
    known: dict[str, Any] = {"bulletin": None, "served": "", "news": (), "ours": True}
    known |= facts
    told = known["bulletin"]
    known.setdefault("forecast", None if told is None else foretold(goals, figures_of(goals), told))
    return Board(NOW, "/home/ann/.ralph/runs.sqlite", lineup(goals), **known)


def empty() -> Board:
    told = bulletin(budget=Budget(), spent_usd=0.0, spent_tokens=0, statuses={}, merging=())
    return board([], bulletin=told, served="process 4321 on mill")


def busy() -> Board:
    return board(twelve(), bulletin=bulletin(), served="process 4321 on mill", news=news())


def needy() -> Board:
    """Everything at once that needs somebody."""
    goals = [
        *twelve(),
        goal(13, "loud-login", State.STUCK, why=Reason("blocked: Invalid API key"), starts=1),
        goal(
            14,
            "big",
            State.STUCK,
            why=Reason("limit reached: --max-iterations", Cause.LIMIT),
            settings={"max_iterations": "3"},
        ),
        goal(15, "after-a-draft", State.QUEUED, after=(11,)),
        goal(16, "red-merge", State.STUCK, why=Reason("push declined: hook"), unmerged={"proven": True}),
    ]
    cautions = (
        Reason(cause=Cause.NO_CHECK, place="/srv/api.git", branch="main"),
        Reason(cause=Cause.DIRTY_CHECKOUT, place="/srv/shop", branch="main", paths=("README.md",)),
    )
    told = bulletin(spent_usd=18.5, refused={"codex": 13}, cautions=cautions)
    return board(goals, bulletin=told, served="process 4321 on mill", news=news())


def quota() -> Board:
    told = bulletin(waits={"claude": NOW + 725, "codex": NOW + 4000}, merging=())
    return board(twelve(), bulletin=told, served="process 4321 on mill", news=news())


def paused() -> Board:
    return board(twelve(), bulletin=bulletin(), served="process 4321 on mill", news=news(), paused=True)


def unserved() -> Board:
    """What `watch` finds where a worker was killed."""
    return board(twelve(), news=news(), ours=False)


def crowd() -> Board:
    """Two hundred goals, most of them to come."""
    states = [State.RUNNING] * 8 + [State.STUCK] * 2 + [State.QUEUED] * 150 + [State.DONE] * 40
    used = {State.DONE: {"cost_usd": 0.5, "seconds": 60.0}, State.STUCK: {"why": Reason("red")}}
    goals = [
        goal(number, f"goal-{number:03}", state, **used.get(state, {})) for number, state in enumerate(states, start=1)
    ]
    statuses = {n: GoalStatus("Edit", NOW - n, None, n, n * 10.0, 0.1 * n, 1000 * n, NOW - 60 * n) for n in range(1, 9)}
    told = bulletin(slots=8, statuses=statuses, merging=(), budget=Budget(), spent_usd=25.0)
    return board(goals, bulletin=told, served="process 4321 on mill", news=news())


def reading() -> Board:
    """A goal's transcript is open."""
    rows = [row(line((f"{'agent':<11}", Look.ACCENT), f"line {number}"), 80) for number in range(1, 61)]
    told = GoalPage(3, rows, 0)
    return board(twelve(), bulletin=bulletin(), served="process 4321 on mill", news=news(), page=told)


STORY = {
    "check": "".join(f"tests/test_pay.py::test_{name} FAILED\n" for name in ("card", "refund", "retry")) + "3 failed",
    "is_green": False,
    "last_words": "Which currency do refunds use?\nThe spec names euros, the API answers dollars.",
}


def stuck() -> Board:
    """The page of a goal that is stuck is known."""
    remark = Comment(7, NOW - 700, "ralph", "attempt 4: the check is red: tests/test_pay.py")
    return replace(busy(), page=GoalPage(7, **STORY, remarks=[remark]))


def settled() -> Board:
    """All that is left is stuck."""
    goals = [each for each in twelve() if each.state in (State.STUCK, State.DONE)]
    told = bulletin(statuses={}, merging=(), is_settled=True)
    return board(goals, bulletin=told, served="this process", news=news())
