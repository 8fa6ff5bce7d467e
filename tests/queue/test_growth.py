"""What a queue's commands read and do as it grows: counted in queries, rows and steps, not in seconds."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import event

from ralph.queue.database import connect, default_url
from ralph.queue.goals import BatchGoal, State, Submission, find_cycle, waits_in_vain, whole_order
from ralph.queue.manifest import Wishes, read_batch
from ralph.queue.stats import tally
from ralph.queue.store import Store
from ralph.queue.submit import Submitted
from tests.support.git_repos import make_repo


class Counted:
    """A queue whose queries are counted."""

    def __init__(self, folder: Path) -> None:
        engine = connect(default_url(folder), create=True)
        assert engine is not None
        self.store = Store(engine)
        self.queries: list[str] = []
        event.listen(engine, "before_cursor_execute", self._count)

    def _count(self, _connection: object, _cursor: object, statement: str, *_: object) -> None:
        self.queries.append(statement)

    def cost(self, work: Callable[[], object]) -> int:
        self.queries.clear()
        work()
        return len(self.queries)


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[Counted]:
    counted = Counted(tmp_path)
    yield counted
    counted.store.close()


def asked(number: int, after: tuple[str, ...] = ()) -> Submission:
    return Submission(f"goal-{number}", f"Goal {number}", "text", f"/goals/{number}.md", "/repo", after)


def finish(store: Store, numbers: range) -> None:
    store.submit([asked(number) for number in numbers], State.QUEUED)
    for goal in store.goals():
        if goal.state is State.QUEUED:
            store.move(goal, State.RUNNING)
            store.move(store.goal(goal.id), State.DONE)


def steps(work: Callable[[], object]) -> int:
    """The lines of Python that some work executes: the same on every machine, however busy it is."""
    count = 0

    def trace(_frame: object, _event: str, _argument: object) -> object:
        nonlocal count
        count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)  # pyright: ignore[reportArgumentType]
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def test_adding_takes_a_few_queries_a_goal_however_many_there_are(queue: Counted) -> None:
    few = queue.cost(lambda: queue.store.submit([asked(number) for number in range(20)], State.QUEUED))
    many = queue.cost(lambda: queue.store.submit([asked(number) for number in range(20, 220)], State.QUEUED))
    again = queue.cost(lambda: queue.store.submit([asked(number) for number in range(220)], State.QUEUED))
    assert many <= 10 * few
    assert many <= 2 * 200
    assert again <= 3 * 220


def test_adding_one_goal_reads_none_of_those_that_are_over(queue: Counted) -> None:
    finish(queue.store, range(150))
    queue.cost(queue.store.goals)
    whole_table = set(queue.queries)
    added: list[Submitted] = []
    queries = queue.cost(lambda: added.extend(queue.store.submit([asked(1000, after=("goal-3",))], State.QUEUED)))
    assert added[0].goal.after == (4,)
    assert queries < 15
    assert not whole_table & set(queue.queries)


def test_a_turn_of_the_worker_reads_what_is_active_and_what_it_waits_for(queue: Counted) -> None:
    finish(queue.store, range(40))
    queue.store.submit([asked(50, after=("goal-7",)), asked(51)], State.QUEUED)
    queue.store.submit([asked(52)], State.DRAFT)
    queries = queue.cost(queue.store.active)
    assert [goal.name for goal in queue.store.active()] == ["goal-7", "goal-50", "goal-51"]
    assert queries <= 3
    assert queue.store.counts() == {State.DONE: 40, State.QUEUED: 2, State.DRAFT: 1}


def test_a_refresh_of_the_dashboard_takes_what_nobody_changed_from_the_last_one(queue: Counted) -> None:
    finish(queue.store, range(40))
    queue.store.submit([asked(50), asked(51)], State.QUEUED)
    queue.store.submit([asked(52)], State.DRAFT)
    before = {goal.id: goal for goal in queue.store.refreshed({})}
    assert list(before.values()) == queue.store.goals()
    queue.store.queue(before[43])
    queue.store.move(before[42], State.CANCELLED)
    after = {goal.id: goal for goal in queue.store.refreshed(before)}
    assert list(after.values()) == queue.store.goals()
    assert [after[number].state for number in (41, 42, 43)] == [State.QUEUED, State.CANCELLED, State.QUEUED]
    assert all(after[number] is before[number] for number in range(1, 41))


def test_many_goals_are_found_with_few_queries(queue: Counted) -> None:
    queue.store.submit([asked(number) for number in range(100)], State.DRAFT)
    words = [f"g{number}" for number in range(1, 51)] + [f"goal-{number}" for number in range(50, 100)]
    queries = queue.cost(lambda: queue.store.find_all(words))
    assert [goal.id for goal in queue.store.find_all([*words, "g1"])] == list(range(1, 101))
    assert queries <= 4


def test_reading_goals_takes_each_as_long_as_the_others(tmp_path: Path) -> None:
    def reading(folder: str, count: int) -> int:
        goals = tmp_path / folder
        goals.mkdir()
        for number in range(count):
            (goals / f"goal-{number}.md").write_text(f"## Objective\nWrite {number}.\n")
        said = Wishes(repos=(str(repo),))
        return steps(lambda: read_batch([goals], said, env={}, here=tmp_path))

    repo = make_repo(tmp_path / "repo", {"README.md": "# x\n"})
    reading("warm", 2)
    assert reading("many", 120) <= 15 * reading("few", 12)


@pytest.mark.parametrize("work", [whole_order, waits_in_vain, lambda goals: find_cycle({g.id: g.after for g in goals})])
@pytest.mark.parametrize("shape", ["chain", "wide"])
def test_planning_takes_each_goal_as_long_as_the_others(work: Callable[[list[BatchGoal]], object], shape: str) -> None:
    def goals(count: int) -> list[BatchGoal]:
        parents: dict[int, tuple[int, ...]] = (
            {number: (number - 1,) for number in range(2, count)} if shape == "chain" else {}
        )
        first = State.STUCK if shape == "chain" and work is waits_in_vain else State.QUEUED
        return [
            BatchGoal(
                number, f"g{number}", "", "", "", "/repo", "", first if number == 1 else State.QUEUED, 0.0, 0.0,
                after=parents.get(number, ()),
            )
            for number in range(1, count)
        ]  # fmt: skip

    few, many = goals(50), goals(500)
    assert steps(lambda: work(many)) <= 15 * steps(lambda: work(few))


def test_counting_by_repository_takes_each_goal_as_long_as_the_others() -> None:
    def goals(count: int) -> list[BatchGoal]:
        return [
            BatchGoal(number, "x", "", "", "", f"/repo-{number}", "", State.DONE, 0.0, 0.0) for number in range(count)
        ]

    few, many = goals(30), goals(300)
    agents = {goal.id: f"agent-{goal.id}" for goal in many}
    assert steps(lambda: tally(many, agents, ())) <= 15 * steps(lambda: tally(few, agents, ()))
