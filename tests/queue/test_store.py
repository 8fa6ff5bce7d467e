"""The goals table, in a real SQLite file and on a real PostgreSQL server."""

import contextlib
import dataclasses
import json
import sqlite3
import stat
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy as sa

from ralph.core.errors import QueueError, StateError, UsageError
from ralph.core.reason import NO_REASON, Cause, Reason
from ralph.queue.database import GOALS, NEWS, connect, default_url, reading
from ralph.queue.goals import CommentKind, MergeMode, State, Submission
from ralph.queue.news import Budget, Bulletin, GoalStatus, News, NewsKind, decoded
from ralph.queue.store import Store, open_store
from tests.support.postgres import Postgres


def opened(url: str) -> Store:
    store = open_store(url)
    assert store is not None
    return store


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return default_url(tmp_path)
    server: Postgres = request.getfixturevalue("postgres")
    return server.database()


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    store = opened(url)
    yield store
    store.close()


def asked(
    name: str, repo: str = "/repo", *, text: str = "## Objective\nx\n", after: tuple[str, ...] = ()
) -> Submission:
    return Submission(name, name.title(), text, f"/goals/{name}.md", repo, after)


def test_a_goal_comes_back_as_it_was_submitted(store: Store, url: str) -> None:
    submission = Submission(
        "login", "Add login", "text", "/goals/login.md", "/repo", (), 7, "", MergeMode.PR, {"model": "opus"}, True
    )
    (submitted,) = store.submit([submission], State.QUEUED)
    again = opened(url)
    goal = again.goal(submitted.goal.id)
    again.close()
    assert submitted.what == "added"
    assert (goal.label, goal.name, goal.title, goal.branch) == ("g1", "login", "Add login", "ralph/login")
    assert (goal.state, goal.priority, goal.merge) == (State.QUEUED, 7, MergeMode.PR)
    assert (dict(goal.settings), goal.trust_envrc, goal.unmerged) == ({"model": "opus"}, True, None)


def test_the_file_is_private(tmp_path: Path) -> None:
    opened(default_url(tmp_path))
    assert stat.S_IMODE((tmp_path / "runs.sqlite").stat().st_mode) == 0o600


def test_looking_makes_no_file(tmp_path: Path) -> None:
    assert open_store(default_url(tmp_path / "deep"), create=False) is None
    assert not list(tmp_path.iterdir())


def test_after_means_the_goal_of_the_same_repository_first(store: Store) -> None:
    store.submit([asked("a", "/one"), asked("a", "/two")], State.QUEUED)
    (same,) = store.submit([asked("b", "/two", after=("a",))], State.QUEUED)
    (elsewhere,) = store.submit([asked("c", "/three", after=("a",))], State.QUEUED)
    assert same.goal.after == (2,)
    assert elsewhere.goal.after == (1, 2)


def test_a_cycle_is_refused_with_its_names_and_nothing_is_written(store: Store) -> None:
    with pytest.raises(UsageError, match="a after b after a"):
        store.submit([asked("a", after=("b",)), asked("b", after=("a",))], State.QUEUED)
    assert store.goals() == []


def test_an_unknown_parent_is_refused_and_nothing_is_written(store: Store) -> None:
    with pytest.raises(UsageError, match="names logn, which is not in the queue"):
        store.submit([asked("login"), asked("b", after=("logn",))], State.QUEUED)
    assert store.goals() == []


def test_what_is_done_with_the_same_text_is_not_done_again(store: Store) -> None:
    (first,) = store.submit([asked("a")], State.QUEUED)
    assert store.move(first.goal, State.RUNNING)
    assert store.move(store.goal(1), State.DONE)
    (again,) = store.submit([asked("a")], State.QUEUED)
    (changed,) = store.submit([asked("a", text="another")], State.QUEUED)
    assert (again.goal.id, again.what) == (1, "done already")
    assert (changed.goal.id, changed.goal.branch, changed.what) == (2, "ralph/a-g2", "added")


def test_what_is_stuck_is_queued_again_with_all_its_attempts_before_it(store: Store) -> None:
    (first,) = store.submit([asked("a")], State.QUEUED)
    store.move(first.goal, State.RUNNING, attempts=4)
    store.move(store.goal(1), State.STUCK, why=Reason("red"))
    (again,) = store.submit([asked("a", text="clearer")], State.QUEUED)
    assert (again.what, again.goal.state, again.goal.text) == ("queued again", State.QUEUED, "clearer")
    assert (again.goal.attempts, again.goal.forgiven, again.goal.why) == (4, 4, NO_REASON)


def test_a_text_is_not_changed_under_a_running_goal(store: Store) -> None:
    (first,) = store.submit([asked("a")], State.QUEUED)
    store.move(first.goal, State.RUNNING)
    (same,) = store.submit([asked("a")], State.QUEUED)
    assert same.what == "running already"
    with pytest.raises(UsageError, match="g1 is running with another text"):
        store.submit([asked("a", text="another")], State.QUEUED)


def test_an_impossible_transition_is_a_fault(store: Store) -> None:
    (first,) = store.submit([asked("a")], State.DRAFT)
    with pytest.raises(StateError, match="g1 is draft and cannot become done"):
        store.move(first.goal, State.DONE)


def test_of_many_who_claim_a_goal_one_gets_it(store: Store, url: str) -> None:
    (submitted,) = store.submit([asked("a")], State.QUEUED)
    barrier = threading.Barrier(8)

    def claim(own: Store) -> bool:
        barrier.wait(60)
        return own.move(submitted.goal, State.RUNNING, starts=1) is State.RUNNING

    stores = [opened(url) for _ in range(8)]
    with ThreadPoolExecutor(8) as threads:
        won = list(threads.map(claim, stores))
    for own in stores:
        own.close()
    assert sorted(won) == [False] * 7 + [True]


def test_a_queue_that_many_make_at_once_is_made_once(url: str) -> None:
    barrier = threading.Barrier(8)

    def submit(number: int) -> None:
        barrier.wait(60)
        own = opened(url)
        own.submit([asked(f"goal-{number}")], State.QUEUED)
        own.close()

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(submit, range(8)))
    store = opened(url)
    assert [goal.id for goal in store.goals()] == list(range(1, 9))
    store.close()


def test_a_file_that_somebody_else_is_about_to_switch_is_waited_for(tmp_path: Path) -> None:
    """SQLite itself refuses at once to switch a file to its write-ahead log that another process is about to switch."""
    found: list[Store] = []
    opening = threading.Thread(target=lambda: found.append(opened(default_url(tmp_path))))
    with contextlib.closing(sqlite3.connect(tmp_path / "runs.sqlite", isolation_level=None)) as other:
        other.execute("PRAGMA user_version=1")  # not empty, and without a write-ahead log
        other.execute("BEGIN IMMEDIATE")
        opening.start()
        opening.join(0.3)
        assert opening.is_alive(), "it waits"
    opening.join()
    assert [store.goals() for store in found] == [[]]
    found[0].close()


def test_a_running_goal_is_only_marked_for_cancelling(store: Store) -> None:
    (submitted,) = store.submit([asked("a")], State.QUEUED)
    store.move(submitted.goal, State.RUNNING)
    goal = store.cancel(store.goal(1))
    assert (goal.state, goal.cancelling) == (State.RUNNING, True)


def test_comments_come_in_order(store: Store) -> None:
    (submitted,) = store.submit([asked("a")], State.QUEUED)
    store.comment(submitted.goal, "ralph", "red")
    store.comment(submitted.goal, "user", "try the other way")
    assert [(item.author, item.text) for item in store.comments(submitted.goal)] == [
        ("ralph", "red"), ("user", "try the other way"),
    ]  # fmt: skip


def test_a_goal_is_found_by_id_number_or_name(store: Store) -> None:
    store.submit([asked("login"), asked("logout"), asked("login", "/other")], State.DRAFT)
    assert [store.find(word).id for word in ("g2", "2", "logout")] == [2, 2, 2]
    with pytest.raises(UsageError, match=r"several goals are named login: g1 \(/repo\), g3 \(/other\)"):
        store.find("login")
    with pytest.raises(UsageError, match="no goal logot in the queue"):
        store.find("logot")


@pytest.mark.parametrize("words", ["nonsense", "mysql://x/y", "sqlite://", "oracle://"])
def test_a_database_that_ralph_cannot_use_is_refused(words: str) -> None:
    with pytest.raises(UsageError, match="--db"):
        open_store(words)


def test_a_file_that_is_no_database_is_refused_and_kept(tmp_path: Path) -> None:
    file = tmp_path / "runs.sqlite"
    file.write_text("not a database, but somebody's notes" * 100)
    before = file.read_bytes()
    with pytest.raises(UsageError, match="cannot open the queue"):
        open_store(default_url(tmp_path))
    assert file.read_bytes() == before


def test_a_queue_and_its_logs_are_for_its_user_alone_and_a_copy_of_the_file_has_all_of_it(tmp_path: Path) -> None:
    url, file = default_url(tmp_path), tmp_path / "runs.sqlite"
    store, other = opened(url), opened(url)
    store.submit([asked("one")], State.QUEUED)
    for log in ("", "-wal", "-shm"):
        assert stat.S_IMODE((tmp_path / f"runs.sqlite{log}").stat().st_mode) == 0o600
    store.close()
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "runs.sqlite").write_bytes(file.read_bytes())
    copied = opened(default_url(tmp_path / "copy"))
    assert [goal.name for goal in copied.goals()] == ["one"]
    copied.close()
    other.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "runs.sqlite"]


def test_the_rights_of_an_older_queue_are_mended(tmp_path: Path) -> None:
    file, holding = tmp_path / "runs.sqlite", opened(default_url(tmp_path))
    holding.submit([asked("one")], State.QUEUED)
    for log in ("", "-wal", "-shm"):
        (tmp_path / f"runs.sqlite{log}").chmod(0o644)
    opened(default_url(tmp_path)).close()
    assert {stat.S_IMODE(path.stat().st_mode) for path in (file, tmp_path / "runs.sqlite-wal")} == {0o600}
    holding.close()


def test_an_empty_file_is_not_taken_for_an_empty_queue(tmp_path: Path) -> None:
    file = tmp_path / "runs.sqlite"
    file.touch()
    with pytest.raises(UsageError, match="the file is empty, so its goals are lost") as caught:
        open_store(default_url(tmp_path))
    assert f"rm {file}" in caught.value.hint
    assert file.read_bytes() == b""


def test_a_damaged_file_is_named_with_what_helps(tmp_path: Path) -> None:
    store = opened(default_url(tmp_path))
    store.submit([asked(f"goal-{number}") for number in range(200)], State.QUEUED)
    store.close()
    file = tmp_path / "runs.sqlite"
    whole = file.read_bytes()
    file.write_bytes(whole[:100] + b"\xff" * (len(whole) - 100))
    with pytest.raises((UsageError, QueueError)) as caught:
        opened(default_url(tmp_path)).goals()
    assert "damaged" in caught.value.hint
    file.write_bytes(b"\0" * len(whole))
    with pytest.raises(UsageError) as caught:
        open_store(default_url(tmp_path))
    assert "damaged" in caught.value.hint


def test_two_goals_of_one_submission_do_not_share_a_branch(store: Store) -> None:
    one, two = (Submission(name, name, "text", "", "/repo", branch="mine") for name in ("one", "two"))
    assert [each.goal.branch for each in store.submit([one, two], State.QUEUED)] == ["mine", "mine-g2"]


def test_two_spellings_of_a_repository_are_one(store: Store) -> None:
    store.submit([asked("a", "https://example.org/you/app.git")], State.QUEUED)
    (again,) = store.submit([asked("a", "https://example.org/you/app")], State.QUEUED)
    assert (again.goal.id, again.what) == (1, "queued")


def test_what_was_cut_off_is_cancelled_at_once_and_its_old_start_has_no_say(store: Store) -> None:
    (submitted,) = store.submit([asked("one")], State.QUEUED)
    store.move(submitted.goal, State.RUNNING, starts=1, attempts=1)
    cut_off = store.goal(1)
    goal = store.cancel(cut_off, alone=True)
    assert (goal.state, goal.why.cause, goal.cancelling, goal.attempts) == (State.CANCELLED, Cause.CANCELLED, False, 0)
    store.move(store.retry(goal), State.RUNNING, starts=goal.starts + 1)
    assert store.move(cut_off, State.DONE) is None


def test_what_was_cut_off_at_its_merge_is_not_given_up_unseen(store: Store) -> None:
    (submitted,) = store.submit([asked("one")], State.QUEUED)
    store.move(submitted.goal, State.RUNNING, starts=1, attempts=1, unmerged={"proven": True})
    goal = store.cancel(store.goal(1), alone=True)
    assert (goal.state, goal.cancelling) == (State.RUNNING, True)


def test_a_wish_to_cancel_ends_with_the_running(store: Store) -> None:
    (submitted,) = store.submit([asked("a")], State.QUEUED)
    store.move(submitted.goal, State.RUNNING)
    store.cancel(store.goal(1))
    assert store.move(store.goal(1), State.STUCK)
    assert not store.goal(1).cancelling


def test_cancelling_heeds_what_became_of_a_goal_meanwhile(store: Store) -> None:
    (submitted,) = store.submit([asked("a")], State.QUEUED)
    store.move(submitted.goal, State.RUNNING, starts=1)
    assert store.cancel(submitted.goal).cancelling


def test_every_queue_has_a_name_of_its_own(store: Store, tmp_path: Path) -> None:
    other = opened(default_url(tmp_path / "other"))
    assert store.queue_id != other.queue_id
    assert opened(default_url(tmp_path / "other")).queue_id == other.queue_id


@pytest.mark.parametrize("to", [State.QUEUED, State.STUCK])
def test_a_goal_that_is_to_be_cancelled_does_not_go_on(store: Store, to: State) -> None:
    (submitted,) = store.submit([asked("a")], State.QUEUED)
    store.move(submitted.goal, State.RUNNING)
    seen = store.goal(1)
    store.cancel(seen)
    assert store.move(seen, to, comment="a fault", why=Reason("red")) is State.CANCELLED
    goal = store.goal(1)
    assert (goal.state, goal.why.cause, goal.cancelling) == (State.CANCELLED, Cause.CANCELLED, False)
    assert [comment.text for comment in store.comments(goal)] == ["a fault"]


def test_what_is_merged_is_done_though_it_was_to_be_cancelled(store: Store) -> None:
    (submitted,) = store.submit([asked("a")], State.QUEUED)
    store.move(submitted.goal, State.RUNNING)
    seen = store.goal(1)
    store.cancel(seen)
    assert store.move(seen, State.DONE) is State.DONE


def test_a_claim_counts_only_for_what_was_seen(store: Store) -> None:
    (submitted,) = store.submit([asked("a")], State.QUEUED)
    store.submit([asked("a", text="another")], State.QUEUED)
    assert store.move(submitted.goal, State.RUNNING, as_seen=True) is None
    assert store.move(store.goal(1), State.RUNNING, as_seen=True) is State.RUNNING


def test_who_asks_again_for_a_goal_that_is_being_cancelled_has_it(store: Store) -> None:
    (submitted,) = store.submit([asked("a")], State.QUEUED)
    store.move(submitted.goal, State.RUNNING)
    store.cancel(store.goal(1))
    (again,) = store.submit([asked("a")], State.QUEUED)
    assert (again.what, again.goal.cancelling) == ("goes on", False)


def test_after_means_one_repository_however_it_is_spelled(store: Store) -> None:
    store.submit([asked("a", "https://example.org/you/app"), asked("a", "https://example.org/you/api")], State.QUEUED)
    (child,) = store.submit([asked("b", "https://me:new@example.org/you/app.git", after=("a",))], State.QUEUED)
    assert child.goal.after == (1,)


def test_a_queue_of_the_version_before_gets_what_it_lacks_and_keeps_its_goals(store: Store, url: str) -> None:
    store.submit([asked("login")], State.QUEUED)
    store.close()
    engine = sa.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.begin() as connection:
        for column in ("tokens", "spent_tokens", "costed", "counted", "seconds", "iterations", "agent", "why"):
            connection.exec_driver_sql(f"ALTER TABLE ralph_goals DROP COLUMN {column}")
        for column in ("kind", "why"):
            connection.exec_driver_sql(f"ALTER TABLE ralph_comments DROP COLUMN {column}")
        for table in ("ralph_news", "ralph_marks"):
            connection.exec_driver_sql(f"DROP TABLE {table}")
        for index in ("ix_ralph_goals_name", "ix_ralph_goals_branch"):
            connection.exec_driver_sql(f"DROP INDEX {index}")
        if engine.dialect.name == "postgresql":
            connection.exec_driver_sql("ALTER TABLE ralph_goals ALTER COLUMN priority TYPE INTEGER")
        connection.exec_driver_sql("UPDATE ralph_version SET version = 1")
    engine.dispose()

    again = opened(url)
    (goal,) = again.goals()
    assert (goal.name, goal.tokens, goal.seconds, goal.iterations) == ("login", 0, 0.0, 0)
    assert (goal.costed, goal.counted, goal.agent) == (False, False, None)
    most = 2**31 - 1 if engine.dialect.name == "postgresql" else 2**63 - 1  # as the queue was made
    (urgent,) = again.submit([dataclasses.replace(asked("urgent"), priority=most)], State.DRAFT)
    assert urgent.goal.priority == most
    assert again.pause(paused=True)
    again.close()
    later = opened(url)
    assert later.paused, "it is brought up to date once"
    later.close()
    with engine.connect() as connection:
        indexes = {index["name"] for index in sa.inspect(connection).get_indexes("ralph_goals")}
    engine.dispose()
    assert indexes >= {"ix_ralph_goals_name", "ix_ralph_goals_branch", "ix_ralph_goals_state"}


def test_what_the_reasons_of_an_earlier_version_are_about_is_found_out_once(store: Store, url: str) -> None:
    store.submit([asked("limited"), asked("other")], State.QUEUED)
    goal = store.goal(1)
    store.move(
        goal, State.STUCK, why=Reason("limit reached: --max-cost"), comment="Attempt 2 ended with exit code 4: no"
    )
    store.comment(goal, "ralph", "red\n\nThe base branch was merged into the working tree.")
    store.comment(goal, "user", "Attempt 2 ended with exit code 4: says the user")
    store.close()
    engine = sa.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE ralph_version SET version = 4")
        for table, column in (("goals", "why"), ("comments", "why"), ("comments", "kind"), ("news", "command")):
            connection.exec_driver_sql(f"ALTER TABLE ralph_{table} DROP COLUMN {column}")

    again = opened(url)

    assert again.goal(1).why == Reason("limit reached: --max-cost", Cause.LIMIT)
    assert again.goal(2).why == NO_REASON
    assert [(remark.kind, remark.why.said) for remark in again.comments(goal)] == [
        (CommentKind.FAILURE, "no"),
        (CommentKind.CONFLICTS, ""),
        (CommentKind.REMARK, ""),
    ]
    with engine.begin() as connection:  # as a worker of the earlier version that is still at work
        connection.exec_driver_sql("UPDATE ralph_goals SET reason = 'red' WHERE id = 1")
    assert again.goal(1).why == Reason("red")
    again.close()
    engine.dispose()


def test_what_no_goal_can_be_called_is_no_goal(store: Store) -> None:
    """A number beyond 32 bits, and a word that is not UTF-8: a database refuses to look for either."""
    store.submit([asked("20261118120000")], State.QUEUED)
    (found,) = store.find_all(["20261118120000"])
    assert found.name == "20261118120000"
    assert store.some([99_999_999_999]) == []
    for word in ("99999999999", "caf\udce9"):
        with pytest.raises(UsageError, match="no goal"):
            store.find_all([word])


def test_a_queue_of_the_version_before_is_read_on_while_it_is_brought_up_to_date(url: str) -> None:
    store = opened(url)
    store.submit([asked("login")], State.QUEUED)
    engine = sa.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.exec_driver_sql("ALTER TABLE ralph_goals ALTER COLUMN priority TYPE INTEGER")
        connection.exec_driver_sql("UPDATE ralph_version SET version = 3")
    engine.dispose()
    for _ in range(8):  # psycopg prepares a statement that was used five times
        store.goals()
    opened(url).close()
    assert [goal.name for goal in store.goals()] == ["login"]
    store.close()


def test_a_pause_is_news_once(store: Store) -> None:
    assert (store.paused, store.pause(paused=False)) == (False, False)
    assert (store.pause(paused=True), store.pause(paused=True), store.paused) == (True, False, True)
    assert (store.pause(paused=False), store.paused) == (True, False)


def test_news_are_kept_in_their_order(store: Store) -> None:
    (submitted,) = store.submit([asked("login")], State.QUEUED)
    for number in range(5):
        store.publish(News(float(number), NewsKind.NOTE, f"word {number}", submitted.goal if number % 2 else None))
    store.publish(News(5.0, NewsKind.NOTE, "go on with: ", command=("retry", "g1")))
    assert store.news(3) == [
        (3.0, "note", submitted.goal.id, "word 3", ()),
        (4.0, "note", None, "word 4", ()),
        (5.0, "note", None, "go on with: ", ("retry", "g1")),
    ]


def test_old_news_go(tmp_path: Path) -> None:
    """Here, thousands are there already."""
    store, engine = opened(default_url(tmp_path)), connect(default_url(tmp_path), create=False)
    assert engine is not None
    with engine.begin() as connection:
        old = [{"at": 0.0, "kind": "note", "text": f"word {number}"} for number in range(1, 6_499)]
        connection.execute(NEWS.insert(), old)
    for word in ("the last but one", "the last"):
        store.publish(News(1.0, NewsKind.NOTE, word))
    kept = store.news(10_000)
    assert (len(kept), kept[0][3], kept[-1][3]) == (5_000, "word 1501", "the last")
    engine.dispose()
    store.close()


def test_a_bulletin_comes_back_and_running_goals_keep_what_it_says_of_them(store: Store) -> None:
    submitted = store.submit([asked("login"), asked("logout")], State.QUEUED)
    running, queued = (each.goal for each in submitted)
    store.move(running, State.RUNNING)
    statuses = {goal.id: GoalStatus("Bash make", 5.0, None, 3, 41.5, 0.25, 1200, 4.0) for goal in (running, queued)}
    bulletin = Bulletin(
        10.0, "here", 77, 1.0, 2, Budget(5.0, None, 3600.0), 0.25, 1200, statuses, (running.id,), {"claude": 99.5},
        {"codex": 2}, (Reason(cause=Cause.NO_CHECK, place="/srv/api"),), ("tokens",), stopping=True,
        fetching={"/srv/api": "6 % receiving"},
    )  # fmt: skip
    assert store.bulletin() is None
    store.post(bulletin)
    assert store.bulletin() == bulletin
    assert [(goal.cost_usd, goal.tokens) for goal in store.goals()] == [(0.25, 1200), (0.0, 0)]
    assert [(goal.costed, goal.counted) for goal in store.goals()] == [(True, True), (False, False)]


def test_what_a_goal_at_work_takes_is_kept_until_its_attempt_has_ended(store: Store) -> None:
    """Whatever becomes of the worker; and no attempt counts twice."""
    (submitted,) = store.submit([asked("login")], State.QUEUED)
    store.move(submitted.goal, State.RUNNING)
    goal = store.goal(submitted.goal.id)

    def posted(at: float, cost: float) -> tuple[float, float]:
        status = GoalStatus("Bash make", cost_usd=cost, started=1000.0, before=40.0)
        store.post(Bulletin(at, "here", 77, 1.0, 2, statuses={goal.id: status}))
        now = store.goal(goal.id)
        return now.seconds, now.cost_usd

    assert [posted(1050.0, 0.1), posted(1062.5, 0.3)] == [(90.0, 0.1), (102.5, 0.3)]
    store.note(goal, unmerged={"proven": True}, seconds=104.0, cost_usd=0.25)
    assert posted(1100.0, 0.3) == (104.0, 0.25), "it is being merged: an estimate has given way to what was named"


def test_cautions_that_an_earlier_ralph_wrote_as_lines_are_read() -> None:
    line = "/srv/api has no check: nothing is merged"
    written = json.loads(Bulletin(10.0, "here", 77, 1.0, 2).encoded()) | {"cautions": [line]}
    read = decoded(json.dumps(written))
    assert read is not None
    assert read.cautions == (Reason(line),)
    assert decoded(json.dumps(written | {"cautions": [7]})) is None


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"at": "now"}', '{"at": 1, "budget": {}, "sights": {"x": 1}}'])
def test_a_bulletin_that_says_something_else_is_none(text: str) -> None:
    assert decoded(text) is None


@contextlib.contextmanager
def locked(file: Path) -> Iterator[threading.Event]:
    """Have somebody else hold a queue's file until that is over."""
    is_held, is_over = threading.Event(), threading.Event()

    def hold() -> None:
        with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as other:
            other.execute("begin exclusive")
            is_held.set()
            is_over.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    is_held.wait()
    try:
        yield is_over
    finally:
        is_over.set()
        holder.join()


def test_a_lock_of_somebody_elses_is_waited_for_as_long_as_is_wanted(tmp_path: Path) -> None:
    store = opened(default_url(tmp_path))
    with locked(tmp_path / "runs.sqlite") as is_over:

        def long() -> float:  # asked when it was locked for longer than SQLite itself waits
            is_over.set()
            return 600.0

        store.be_patient(long)
        assert store.pause(paused=True)
        assert is_over.is_set()
    with locked(tmp_path / "runs.sqlite"):
        store.be_patient(lambda: 0.0)
        with pytest.raises(QueueError, match="database is locked") as refused:
            store.pause(paused=False)
    assert refused.value.exit_code == 1
    assert "another process keeps it locked" in refused.value.hint
    store.close()


def test_who_reads_waits_for_nobody_and_keeps_nobody_waiting(store: Store, url: str) -> None:
    store.submit([asked("a")], State.QUEUED)
    (seen,) = store.goals()
    with store.as_seen(seen):  # which keeps everyone else from writing
        watching = opened(url)  # also who opens a queue only reads
        assert [goal.name for goal in watching.goals()] == ["a"]
        assert (watching.goal(1).name, watching.comments(seen), watching.news(9)) == ("a", [], [])
        assert (watching.bulletin(), watching.paused, watching.take_woken()) == (None, False, [])
        watching.close()


def test_what_somebody_reads_is_not_in_the_way_of_who_writes(store: Store, url: str) -> None:
    """One who is stopped in the middle of it, by Ctrl-Z say, holds nothing."""
    engine = connect(url, create=False)
    assert engine is not None
    with reading(engine).begin() as connection:
        assert connection.execute(sa.select(GOALS)).all() == []
        store.submit([asked("a")], State.QUEUED)
        assert connection.execute(sa.select(GOALS)).all() == [], "it goes on to see what it has seen"
    with reading(engine).begin() as connection:
        assert len(connection.execute(sa.select(GOALS)).all()) == 1
    engine.dispose()


def test_a_file_that_was_moved_away_takes_nothing_more(tmp_path: Path) -> None:
    store = opened(default_url(tmp_path))
    (tmp_path / "runs.sqlite").rename(tmp_path / "elsewhere.sqlite")
    for use in (store.goals, lambda: store.pause(paused=True)):
        with pytest.raises(QueueError, match="is gone: its file was moved or removed"):
            use()
    (tmp_path / "elsewhere.sqlite").rename(tmp_path / "runs.sqlite")
    assert not store.paused
    store.close()


def test_however_many_wait_for_a_lock_others_still_read(tmp_path: Path) -> None:
    store = opened(default_url(tmp_path))
    (submitted,) = store.submit([asked("login")], State.QUEUED)
    store.be_patient(lambda: 600.0)
    waiting = [threading.Thread(target=store.comment, args=(submitted.goal, "user", str(each))) for each in range(20)]
    with locked(tmp_path / "runs.sqlite"):
        for writer in waiting:
            writer.start()
        assert [goal.name for goal in store.goals()] == ["login"]
    for writer in waiting:
        writer.join()
    assert len(store.comments(submitted.goal)) == 20
    store.close()
