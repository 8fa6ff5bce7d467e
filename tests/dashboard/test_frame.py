"""What the dashboard shows: golden text at three widths, what each must say in any case, and any board at any size."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from ralph.core.reason import Cause, Reason
from ralph.core.text import short_names
from ralph.dashboard.board import Board, GoalPage, Happening, PageKind, SortOrder, lineup
from ralph.dashboard.frame import Frames
from ralph.dashboard.needs import needs, needs_rows
from ralph.dashboard.rows import line as line_of
from ralph.dashboard.rows import row
from ralph.dashboard.view import Asks, Question, View, shown
from ralph.queue.goals import BatchGoal, Comment, State
from ralph.queue.news import Budget, Bulletin, GoalStatus
from ralph.ui.terminal import Look, painted
from tests.dashboard import boards
from tests.dashboard.boards import NOW, frame, goal
from tests.support.frames import same_as_golden
from tests.support.hostile import TEXTS, steering
from tests.support.terminal import Screen

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(autouse=True)
def _wall_clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def screen(board: Board, view: View, columns: int, rows: int) -> list[str]:
    """As a terminal without colours has it; what stands out is marked."""
    return [boards.shown(row, columns).rstrip() for row in frame(board, view, columns, rows)[1]]


def words(board: Board, view: View | None = None, columns: int = 80, rows: int = 24) -> str:
    return "\n".join(screen(board, view or View(), columns, rows))


SCENES: dict[str, tuple[Callable[[], Board], View, Sequence[str]]] = {
    "empty": (boards.empty, View(), ["no goals", "ralph-runs add", "mill:4321"]),
    "busy": (boards.busy, View(), ["4 running", "search-index", "Bash make test", "merging  g5 dark-mode"]),
    "needs": (
        boards.needy,
        View(),
        ["codex  rejects our requests: blocked: Invalid API key", "budget (cost", "g14 big"],
    ),
    "quota": (boards.quota, View(), ["quota    claude  12m05s left", "1h06m left"]),
    "paused": (boards.paused, View(), ["PAUSED", "3 goals will not start"]),
    "unserved": (boards.unserved, View(), ["this queue has no worker", "4 goals interrupted", "ralph-runs work"]),
    "crowd": (boards.crowd, View(cursor=60, row=59, moved=True), ["150 queued", "goal-060", "of 200", "40 done"]),
    "stuck": (
        boards.stuck,
        View(cursor=7, moved=True),
        ["! g7 payments", "Which currency do refunds use?"],
    ),
    "settled": (boards.settled, View(), ["nothing can continue by itself: r retries, q leaves", "g7 payments"]),
    "transcript": (boards.reading, View(open=3), ["line 60", "g3 search-index", "Bash make test 42s", "Esc back"]),
    "help": (boards.busy, View(helping=True), ["pause", "cancel", "stop the worker", "diff", "log", "sort"]),
    "telling": (
        boards.busy,
        View(prompt=Question(Asks.TELL, 3, "use the old index", 17)),
        ["tell g3 search-index: use the old index"],
    ),
}
SIZES = [(40, 10), (80, 24), (100, 30), (120, 40), (200, 50)]


@pytest.mark.parametrize(("columns", "rows"), SIZES)
@pytest.mark.parametrize("name", list(SCENES))
def test_the_screen_is_the_one_that_was_looked_at(name: str, columns: int, rows: int) -> None:
    make, view, said = SCENES[name]
    drawn = screen(make(), view, columns, rows)
    assert len(drawn) == rows
    assert all(cell_len(line.replace("»", "").replace("«", "")) <= columns for line in drawn)
    for text in said if columns >= 100 else ():
        assert text in "\n".join(drawn), text
    assert same_as_golden("\n".join(drawn) + "\n", GOLDEN / f"{name}-{columns}x{rows}.txt")


@pytest.mark.parametrize("colour", [True, False], ids=["16 colours", "no colour"])
@pytest.mark.parametrize("name", ["busy", "stuck"])
def test_a_terminal_shows_it_in_the_looks_that_were_looked_at(name: str, colour: bool) -> None:
    """Through a terminal emulator: what is bold, reverse or coloured there."""
    make, view, _ = SCENES[name]
    terminal = Screen(120, 40)
    rows = frame(make(), view, 120, 40)[1]
    for number, each in enumerate(rows, start=1):
        terminal.feed(f"\x1b[{number};1H{painted(each, 120, colour=colour)}".encode())
    assert same_as_golden(terminal.looks + "\n", GOLDEN / f"{name}-looks-{'colour' if colour else 'plain'}.txt")


def test_no_row_stays_blank_while_a_goal_has_something_to_say() -> None:
    board = replace(boards.reading(), news=boards.news() * 6)
    for columns, rows in ((80, 24), (100, 30), (120, 40)):
        drawn = screen(board, View(), columns, rows)
        assert sum(not line.strip(" │") for line in drawn) <= 1, (columns, rows)


def test_what_runs_comes_first_then_what_is_stuck_then_the_queue_in_its_order_then_what_is_over() -> None:
    labels = [each.label for each in shown(boards.busy(), View())]
    assert labels == ["g3", "g4", "g5", "g6", "g7", "g9", "g8", "g10", "g11", "g12", "g2", "g1"]


def test_what_needs_a_person_stands_above_all_goals_with_the_way_out() -> None:
    drawn = screen(boards.needy(), View(), 200, 44)
    first_goal = next(number for number, line in enumerate(drawn) if "search-index" in line)
    text = "\n".join(drawn[:first_goal])
    for who, way_out in [
        ("codex  rejects our requests", "then press r at g13"),
        ("budget (cost", "--max-..."),
        ("g7 payments", "at g7: see it: Enter; tell it what to do: t; then: r"),
        ("blocks g8", "Enter"),
        ("g14 big", "raise it in the manifest"),
        ("g16 red-merge", "at g16: resolve that, then: r"),
        ("g11 later", "ralph-runs queue g11"),
        ("/srv/shop has main checked out with changes in README.md", "merges wait"),
    ]:
        assert who in text
        assert way_out in text


def test_goals_that_are_stuck_for_the_same_are_one_need() -> None:
    red, limit = "main is red", "limit reached: --max-iterations"
    goals = [goal(number, f"goal-{number}", State.STUCK, why=Reason(red)) for number in range(1, 17)]
    goals += [goal(number, f"goal-{number}", State.STUCK, why=Reason(limit, Cause.LIMIT)) for number in (17, 18)]
    goals += [
        goal(19, "alone", State.STUCK, why=Reason("push declined"), unmerged={"proven": True}),
        goal(20, "later", State.QUEUED, after=(3,)),
    ]
    drawn = screen(boards.board(goals, bulletin=boards.bulletin(), served="x"), View(), 100, 30)
    assert drawn[4:9] == [
        "! 16 goals  main is red · g1, g2, g3, g4 and 12 more · block g20",
        "  → at each: see it: Enter; tell it what to do: t; then: r",
        "! 2 goals  limit reached: --max-iterations · g17, g18",
        "  → raise it in GOAL.md, then: ralph-runs run GOAL.md; the queue works from its own copy",
        "! g19 alone  push declined  → at g19: resolve that, then: r; only the merge runs again",
    ]


@pytest.mark.parametrize(
    ("most", "said"),
    [
        (1, ["! g1 one  why 1"]),
        (
            2,
            [
                "! g1 one  why 1",
                "  … and 8 more that need you",
            ],
        ),
        (
            4,
            [
                "! g1 one  why 1",
                "  → at g1: see it: Enter; tell it what to do: t; then: r",
                "! g2 one  why 2",
                "  … and 7 more that need you",
            ],
        ),
    ],
)
def test_the_first_of_many_needs_keeps_its_way_out(most: int, said: list[str]) -> None:
    goals = [goal(number, "one", State.STUCK, why=Reason(f"why {number}")) for number in range(1, 10)]
    wanted = needs(boards.board(goals))
    assert [boards.shown(row).rstrip() for row in needs_rows(wanted, 60, most)] == said


def test_a_need_is_folded_and_never_cut() -> None:
    why = " ".join(f"word{number}" for number in range(60))
    board = boards.board([goal(1, "one", State.STUCK, why=Reason(why))], served="x")
    for columns, rows in ((80, 24), (120, 40), (200, 50)):
        drawn = " ".join(" ".join(line.strip("│ ") for line in screen(board, View(), columns, rows)).split())
        assert f"{why} → at g1" in drawn or why in drawn


def test_a_way_out_by_keys_fits_also_where_there_is_little_room() -> None:
    assert "→ at g7: see it: Enter; tell it what to do: t; then: r\n" in words(boards.busy(), columns=60)


def test_each_row_tells_iteration_context_cost_and_time_where_there_is_room() -> None:
    (wide,) = (line for line in screen(boards.busy(), View(cursor=9, moved=True), 300, 30) if "● g3" in line)
    assert wide.split()[1:3] == ["●", "g3"]
    for figure in (" 3 ", "━━╸━━━━━  37%", "$0.52", "6m40s", "Bash make test  42s"):
        assert figure in wide
    (narrow,) = (line for line in screen(boards.busy(), View(cursor=9, moved=True), 60, 30) if line.startswith("● g3"))
    assert "$0.52" in narrow
    assert "Bash make test" in narrow
    assert "api" not in narrow


def test_titles_that_say_more_than_names_are_shown_where_there_is_room() -> None:
    title = "Let people pay in euros"
    told = [goal(1, "payments", State.RUNNING, title=title), goal(2, "log-in", State.QUEUED)]
    board = boards.board(told, bulletin=boards.bulletin(), served="x")
    rows = {columns: screen(board, View(cursor=2, moved=True), columns, 18) for columns in (60, 80, 119)}
    assert title not in "\n".join(rows[60])
    heading = next(each for each in rows[80] if " activity" in each)
    assert "title" in heading
    assert re.search(r"payments +Let people p\S*… ", "\n".join(rows[80]))
    assert title in "\n".join(rows[119])
    assert " time " in heading, "a title is worth less than a time"
    repeated = boards.board([goal(1, "log-in", State.RUNNING)], bulletin=boards.bulletin(), served="x")
    assert " title " not in "\n".join(screen(repeated, View(), 119, 18))


def test_a_preview_does_not_begin_with_a_gap() -> None:
    rows = [[], [], row(line_of("agent  hello"), 80)]
    board = replace(boards.busy(), page=GoalPage(3, rows))
    drawn = screen(board, View(), 100, 30)
    facts = next(number for number, each in enumerate(drawn) if each.startswith("iteration 3"))
    assert "agent  hello" in drawn[facts + 1 : facts + 3]


def test_repositories_of_one_name_are_told_apart() -> None:
    repos = ["/srv/a/repo.git", "git@host:b/repo", "/srv/shop/", "/x/b/repo/.git"]
    goals = [goal(number, f"goal-{number}", State.QUEUED, repo=repo) for number, repo in enumerate(repos, start=1)]
    drawn = screen(boards.board(goals, served="x"), View(), 119, 24)
    rows = {number: next(line for line in drawn if f" goal-{number} " in line) for number in range(1, 5)}
    for number, name in {1: "a/repo", 2: "host/b/repo", 3: "shop", 4: "x/b/repo"}.items():
        assert f" {name} " in rows[number]
    assert short_names(["/a/x", "/a/x.git", ""]) == {"/a/x": "a/x", "/a/x.git": "a/x", "": ""}
    secret = ["https://ann:hush@one/b/repo", "https://ann:hush@two/b/repo"]
    assert list(short_names(secret).values()) == ["one/b/repo", "two/b/repo"]


def test_the_time_of_an_attempt_that_is_over_is_counted_once() -> None:
    """Its worker still has it in sight while it is merged."""
    seen = {5: GoalStatus("ended: done", NOW - 9, None, 2, None, 1.0, 0, NOW - 300)}
    drawn = screen(replace(boards.busy(), bulletin=boards.bulletin(statuses=seen)), View(cursor=9, moved=True), 80, 30)
    (row,) = (line for line in drawn if line.startswith("◆ g5"))
    assert " 5m00s " in row


def test_a_goal_is_merging_until_its_row_says_what_became_of_it() -> None:
    """The worker has merged it, and writes that down: it does not look as if it had been taken up again."""
    merged = replace(boards.busy(), bulletin=boards.bulletin(merging=(6,)))
    rows = screen(merged, View(cursor=9, moved=True), 100, 30)
    assert [row.split()[-1] for row in rows if row.startswith(("◆ g5", "◆ g6"))] == ["merging", "merging"]


def test_figures_stand_under_each_other() -> None:
    drawn = screen(boards.busy(), View(cursor=9, moved=True), 80, 30)
    rows = [line for line in drawn if line[:1] in "●◌◆✗" and "$" in line]
    assert len(rows) >= 5
    assert "$0.04" in "".join(rows)
    assert len({line.index(".", line.index("$")) for line in rows}) == 1


def test_an_agent_that_names_no_cost_is_not_shown_as_costing_nothing() -> None:
    unheld = Reason(cause=Cause.UNKNOWN_USE, who="custom", paths=("cost",))
    seen = {3: GoalStatus("Bash", NOW - 9, None, 2, None, 0.0, 0, NOW - 90, costed=False)}
    told = boards.bulletin(statuses=seen, merging=(), spent_usd=0.0, cautions=(unheld,), unseen=("cost",))
    ended = goal(20, "free", State.DONE, iterations=3)
    board = boards.board([*boards.twelve(), ended], bulletin=told, served="process 4321 on mill")
    drawn = screen(board, View(cursor=9, moved=True), 80, 40)
    assert "\ncost unknown: --max-cost can't be enforced · " in "\n".join(drawn)
    assert next(line for line in drawn if "custom doesn't report" in line).endswith("--max-time instead")
    rows = {name: next(line for line in drawn if f" {name} " in line) for name in ("search-index", "free")}
    assert " unknown " in rows["search-index"]
    assert "$" not in "".join(rows.values())
    assert "cannot hold" not in words(boards.busy())
    partly = replace(board, bulletin=replace(told, spent_usd=3.0))
    assert "at least $3.00 of $20.00: --max-cost can't be enforced" in words(partly)


def test_the_budget_that_is_nearest_to_its_end_is_the_last_to_go() -> None:
    told = boards.bulletin(
        budget=Budget(20.0, 9_000_000, 4200.0), spent_usd=3.0, spent_tokens=4_500_000, since=NOW - 4000
    )
    board = boards.board(boards.twelve(), bulletin=told, served="process 4321 on mill")
    cost, tokens, time_left = "$3.00 of $20.00", "4.50M of 9.00M tokens", "1h06m of 1h10m"
    for columns, said in ((200, [cost, tokens, time_left]), (80, [cost, tokens, time_left]), (50, [tokens, time_left])):
        third = screen(board, View(), columns, 24)[2]
        places = [third.find(text) for text in said]
        assert -1 not in places, third
        assert places == sorted(places), "they do not change their places"
        assert ("━" in third) == (columns == 200)
    assert screen(board, View(), 40, 24)[2] == f"{time_left} 95%"
    assert "95%" in screen(board, View(), 80, 10)[1], "the one that a low screen has room for"


def test_the_transcript_stays_where_it_was_scrolled_to_while_more_comes() -> None:
    board = boards.reading()
    before = screen(board, View(open=3, bottom=30), 80, 24)
    assert "line 29" in "\n".join(before)
    assert "rows below" in "\n".join(before)
    assert board.page is not None
    more = [*board.page.rows, *(row(((f"new {number}", Look.PLAIN),), 80) for number in range(50))]
    after = screen(replace(board, page=replace(board.page, rows=more)), View(open=3, bottom=30), 80, 24)
    assert [line for line in before if "line" in line] == [line for line in after if "line" in line]


def test_a_goal_that_its_account_holds_back_says_so() -> None:
    goals = [
        goal(1, "login", State.STUCK, why=Reason("auth")),
        goal(2, "one", State.QUEUED),
        goal(3, "two", State.QUEUED),
    ]
    goals += [goal(4, "merge", State.QUEUED, unmerged={"proven": True}), goal(5, "after", State.QUEUED, after=(2,))]
    told = boards.bulletin(statuses={}, merging=(), refused={"codex": 1}, waits={"claude": NOW + 90})
    agents = {2: "codex", 3: "claude", 4: "codex", 5: "codex"}
    drawn = screen(boards.board(goals, bulletin=told, served="x", agents=agents), View(), 100, 30)
    rows = {name: next(line for line in drawn if f" {name} " in line and line[:1] in "»○") for name in ("one", "two")}
    assert rows["one"].endswith("waiting: codex blocked, see g1")
    assert "waiting for claude's usage" in rows["two"]
    assert rows["two"].endswith("  1m30s left")
    (merge,) = (line for line in drawn if " merge " in line)
    assert merge.endswith("queued")
    (after,) = (line for line in drawn if " after " in line)
    assert after.endswith("after g2")


def test_nobody_foretells_an_end_while_nothing_starts() -> None:
    board = boards.crowd()
    assert " left" in screen(board, View(), 200, 24)[2]
    assert " left" not in screen(replace(board, paused=True), View(), 200, 24)[2]
    goals = [each for each in board.lineup.goals if each.state is not State.RUNNING]
    told = boards.bulletin(statuses={}, merging=(), budget=Budget(), refused={"codex": 9})
    held = replace(board, lineup=lineup(goals), bulletin=told)
    assert " left" not in screen(held, View(), 200, 24)[2]
    assert "to come" in screen(held, View(), 200, 24)[2]


def test_an_agent_that_says_nothing_is_at_work_after_a_while() -> None:
    for seconds, doing in ((3, "starting  3s"), (42, "working  42s")):
        seen = {3: GoalStatus("starting", NOW - seconds, None, 1, None, 0.0, 0, NOW - seconds)}
        board = replace(boards.busy(), bulletin=boards.bulletin(statuses=seen, merging=()))
        assert doing in next(line for line in screen(board, View(), 100, 30) if " search-index " in line)


def test_a_goal_that_has_never_started_has_no_transcript_for_that_reason() -> None:
    told = GoalPage(8, note="no run of this goal on this machine, at\n/a/place")
    board = replace(boards.busy(), page=told)
    assert "  not started yet: waits for g7, which is stuck\n" in words(board, View(open=8))
    gone = replace(board, page=replace(told, goal=1))
    assert "  no run of this goal on this machine, at\n  /a/place\n" in words(gone, View(open=1))


def test_a_worker_that_is_gone_shows_nothing_as_if_it_lived() -> None:
    text = words(boards.unserved())
    assert "Bash make test" not in text
    assert "interrupted" in text


def test_a_worker_that_says_nothing_any_more_is_not_shown_as_if_it_lived() -> None:
    silent = replace(boards.busy(), ours=False, silence=24.0)
    for columns in (60, 80, 200):
        first = screen(silent, View(), columns, 24)[0]
        assert "mill:4321 silent for 24s" in first
    assert "has said nothing" not in words(replace(silent, silence=6.0))


def test_nobody_is_missed_where_nothing_waits_for_a_worker() -> None:
    over = [each for each in boards.twelve() if each.state not in (State.RUNNING, State.QUEUED)]
    text = words(boards.board(over))
    assert "this queue has no worker" not in text
    assert "no worker" in text
    assert "g7 payments" in text
    queued = [goal(1, "next", State.QUEUED)]
    assert "this queue has no worker  no goal starts" in words(boards.board(queued))


def test_what_is_paused_and_not_served_needs_both_and_names_its_queue() -> None:
    board = replace(boards.unserved(), paused=True, flag=" --db 'sqlite:///x'")
    drawn = words(board, columns=120, rows=30)
    assert "4 goals interrupted; the queue is paused" in drawn
    assert (
        "→ p resumes; then: ralph-runs work --db 'sqlite:///x' (or: ralph-runs run --db 'sqlite:///x' --all)" in drawn
    )
    waits = boards.board([goal(1, "later", State.DRAFT), goal(2, "next", State.QUEUED, after=(1,))], flag=" --db x")
    assert "→ ralph-runs queue --db x g1" in words(waits), "what holds goals up is said also where nobody works"
    assert "ralph-runs add --db x GOAL.md" in words(boards.board([], flag=" --db x"))


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_a_queue_that_cannot_be_read_says_so_and_why(columns: int) -> None:
    fault = f"the queue is gone: its file was moved or removed (sqlite:////home/me/{'long/' * 30}runs.sqlite)"
    drawn = words(replace(boards.busy(), fault=fault), columns=columns)
    assert "the queue cannot be read" in drawn.splitlines()[0]
    assert "not up to date  the queue is gone: its file was moved" in drawn


# Any board at any size.

ANY_TEXT = st.one_of(st.sampled_from([text[:2000] for text in TEXTS.values()]), st.text(max_size=30))
MOMENT = st.one_of(st.floats(NOW - 1e6, NOW + 1e6), st.sampled_from([0.0, -1e18, 1e18, 1e300]))
AMOUNT = st.one_of(st.floats(0, 1e6), st.sampled_from([0.0, 1e15]))
COUNT = st.integers(0, 10**15)


@st.composite
def any_goal(draw: st.DrawFn, number: int) -> BatchGoal:
    return goal(
        number,
        draw(ANY_TEXT),
        draw(st.sampled_from(State)),
        title=draw(ANY_TEXT),
        repo=draw(ANY_TEXT),
        branch=draw(ANY_TEXT),
        why=Reason(draw(ANY_TEXT)),
        updated_at=draw(MOMENT),
        starts=draw(st.integers(0, 3)),
        cost_usd=draw(AMOUNT),
        tokens=draw(COUNT),
        seconds=draw(AMOUNT),
        iterations=draw(COUNT),
        cancelling=draw(st.booleans()),
        after=tuple(draw(st.lists(st.integers(1, number - 1), max_size=2))) if number > 1 else (),
        unmerged=draw(st.sampled_from([None, {"proven": True}])),
    )


@st.composite
def any_board(draw: st.DrawFn) -> Board:
    goals = [draw(any_goal(number)) for number in range(1, draw(st.integers(0, 6)) + 1)]
    numbers = st.integers(1, 9)
    statuses = st.builds(
        GoalStatus, ANY_TEXT, MOMENT, st.none() | MOMENT, COUNT, st.none() | st.floats(0, 1e9), AMOUNT, COUNT, MOMENT
    )
    told = st.builds(
        Bulletin,
        at=MOMENT,
        host=ANY_TEXT,
        pid=COUNT,
        since=MOMENT,
        slots=st.integers(1, 99),
        budget=st.builds(Budget, st.none() | AMOUNT, st.none() | COUNT, st.none() | AMOUNT),
        spent_usd=AMOUNT,
        spent_tokens=COUNT,
        statuses=st.dictionaries(numbers, statuses, max_size=3),
        merging=st.lists(numbers, max_size=3, unique=True).map(tuple),
        waits=st.dictionaries(ANY_TEXT, MOMENT, max_size=2),
        refused=st.dictionaries(ANY_TEXT, numbers, max_size=2),
        cautions=st.lists(st.builds(Reason, ANY_TEXT, st.sampled_from(Cause)), max_size=2).map(tuple),
        stopping=st.booleans(),
    )
    happened = st.lists(st.builds(Happening, MOMENT, ANY_TEXT, st.none() | numbers, ANY_TEXT), max_size=4)
    rows = st.lists(st.tuples(ANY_TEXT, st.sampled_from(Look)), max_size=2).map(lambda said: row(tuple(said), 60))
    pages = st.builds(
        GoalPage,
        numbers,
        st.lists(rows, max_size=20),
        st.integers(0, 1000),
        ANY_TEXT,
        st.sampled_from(PageKind),
        check=ANY_TEXT,
        is_green=st.sampled_from([None, True, False]),
        last_words=ANY_TEXT,
        remarks=st.lists(st.builds(Comment, numbers, MOMENT, ANY_TEXT, ANY_TEXT), max_size=2),
    )
    return Board(
        NOW,
        draw(ANY_TEXT),
        lineup(goals),
        tuple(draw(happened)),
        draw(st.none() | told),
        draw(st.sampled_from(["", "process 1 on x"])),
        draw(AMOUNT),
        draw(st.booleans()),
        None,
        draw(st.booleans()),
        draw(ANY_TEXT),
        draw(st.none() | pages),
    )


ANY_VIEW = st.builds(
    View,
    cursor=st.integers(0, 9),
    row=st.integers(0, 9),
    moved=st.booleans(),
    top=st.integers(0, 300),
    room=st.integers(0, 100),
    text=st.sampled_from(["", "a", "zzz"]),
    state=st.none() | st.sampled_from(State),
    open=st.none() | st.integers(1, 9),
    kind=st.sampled_from(PageKind),
    order=st.sampled_from(SortOrder),
    bottom=st.none() | st.integers(-5, 2000),
    prompt=st.none() | st.builds(Question, st.sampled_from(Asks), st.integers(0, 9), ANY_TEXT, st.integers(0, 40)),
    message=ANY_TEXT,
    helping=st.booleans(),
)


@settings(max_examples=100, deadline=None)
@given(board=any_board(), view=ANY_VIEW, columns=st.integers(1, 220), rows=st.integers(0, 60))
def test_any_board_fits_any_terminal_and_lets_no_control_byte_out(
    board: Board, view: View, columns: int, rows: int
) -> None:
    frames = Frames()
    settled, lines = frames.frame(board, view, columns, rows)
    assert len(lines) == rows
    for line in lines:
        written = painted(line, columns, colour=False)
        assert not steering(written)
        letters = re.sub("\x1b\\[[0-9;]*m", "", written)
        assert not set("\n\r\t") & set(letters)
        assert cell_len(letters) <= columns
    again = frames.frame(board, settled, columns, rows)[1]
    assert again == lines  # nothing jumps when nothing happens
    assert again == frame(board, settled, columns, rows)[1]  # and what is kept is what would be drawn anew


def test_what_is_not_shown_is_said_in_the_lowest_terminal() -> None:
    assert "only goals with “docs”" in words(boards.busy(), View(text="docs"), 60, 8)
