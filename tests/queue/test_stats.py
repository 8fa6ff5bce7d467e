"""A queue in figures."""

from dataclasses import replace

import pytest

from ralph.core.reason import Reason
from ralph.queue.goals import BatchGoal, Comment, CommentKind, State
from ralph.queue.stats import Sums, Typical, tally


def goal(
    number: int, state: State, cost: float = 0.0, attempts: int = 1, repo: str = "https://me:pw@h/app"
) -> BatchGoal:
    return BatchGoal(
        number, "", "", "", "", repo, "b", state, 0, 0,
        cost_usd=cost, tokens=int(cost * 1000), seconds=cost * 10, attempts=attempts, starts=attempts,
    )  # fmt: skip


GOALS = [
    goal(1, State.DONE, 1.0),
    goal(2, State.DONE, 2.0, attempts=3),
    goal(3, State.DONE, 9.0, repo="../api"),
    goal(4, State.DONE, 0.0),
    goal(5, State.STUCK, 4.0, attempts=4),
    goal(6, State.QUEUED, attempts=0),
]
AGENTS = {1: "claude", 2: "claude", 3: "codex", 4: "codex", 5: "claude", 6: "claude"}


def test_all_that_was_used_and_what_one_goal_that_is_done_takes() -> None:
    found = tally(GOALS, AGENTS, [])
    assert found.states == {State.QUEUED: 1, State.DONE: 4, State.STUCK: 1}
    assert found.attempts == {1: 3, 3: 1}
    assert found.total == Sums(6, 4, 16.0, 16_000, 160.0)
    assert found.typical == Typical(2.0, 2000, 20.0), "one that names nothing is in no median"


@pytest.mark.spec("2.16-a")
def test_by_repository_without_its_password_and_by_agent() -> None:
    found = tally(GOALS, AGENTS, [])
    assert found.repos == {"https://h/app": Sums(5, 3, 7.0, 7000, 70.0), "../api": Sums(1, 1, 9.0, 9000, 90.0)}
    assert found.agents["codex"] == Sums(2, 2, 9.0, 9000, 90.0)


def test_what_no_agent_has_named_is_not_nothing() -> None:
    untold = tally([goal(1, State.DONE), goal(2, State.QUEUED, attempts=0)], {}, []).total
    assert (untold.cost_usd, untold.tokens) == (None, None)
    named = tally([replace(goal(1, State.DONE), costed=True, counted=True)], {}, []).total
    assert (named.cost_usd, named.tokens) == (0.0, 0)
    unworked = tally([goal(2, State.QUEUED, attempts=0)], {}, []).total
    assert (unworked.cost_usd, unworked.tokens) == (0, 0)


def test_what_failed_by_its_reason_the_most_frequent_first() -> None:
    stalled = Reason("stalled: the last 6 iterations changed nothing")
    said = [
        Comment(5, 0.0, "ralph", "the check is red:\nlong log", kind=CommentKind.FAILURE),
        Comment(5, 0.0, "ralph", "Attempt 1 ended with exit code 5", kind=CommentKind.FAILURE, why=stalled),
        Comment(5, 0.0, "user", "no fault at all"),
        Comment(5, 0.0, "ralph", "Attempt 2\n\nThe check was red:\n...", kind=CommentKind.FAILURE, why=stalled),
    ]
    found = tally(GOALS, AGENTS, said)
    assert list(found.failures.items()) == [
        ("stalled: the last 6 iterations changed nothing", 2),
        ("the check is red:", 1),
    ]
    assert found.document()["failures"] == [
        {"reason": "stalled: the last 6 iterations changed nothing", "count": 2},
        {"reason": "the check is red:", "count": 1},
    ]


def test_what_is_said_again_with_conflicts_is_counted_once() -> None:
    kinds = [CommentKind.FAILURE, CommentKind.CONFLICTS, CommentKind.CONFLICTS]
    comments = [Comment(1, float(at), "ralph", "killed", at, kind) for at, kind in enumerate(kinds)]
    assert tally(GOALS, AGENTS, comments).failures == {"killed": 1}


def test_an_empty_queue_has_figures_too() -> None:
    found = tally([], {}, [])
    assert (found.states, found.total, found.typical) == ({}, Sums(0, 0, 0, 0, 0), Typical(None, None, None))
