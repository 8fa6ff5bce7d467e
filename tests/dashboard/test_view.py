"""What keys do to a view, and what they ask for beyond it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ralph.dashboard.board import Board, PageKind, lineup
from ralph.dashboard.view import (
    Action,
    Asks,
    Cancel,
    Leave,
    Pause,
    Question,
    Quit,
    Retry,
    Suspend,
    Tell,
    View,
    Wake,
    answered,
    chosen,
    press,
    press_all,
    shown,
)
from ralph.queue.goals import State
from ralph.queue.news import Budget
from ralph.ui.keys import Key, Paste, decode
from tests.dashboard import boards
from tests.dashboard.boards import frame


def pressed(board: Board, *keys: str, view: View | None = None) -> tuple[View, list[Action]]:
    """The view after these keys, each drawn as it would be; and all actions."""
    view, actions = view or View(), list[Action]()
    for key in keys:
        view, _ = frame(board, view, 80, 24)
        view, action = press(view, board, key)
        actions += [action] if action is not None else []
    return view, actions


def at(board: Board, view: View) -> str:
    goal = chosen(board, view)
    return "" if goal is None else goal.label


def bottom(board: Board, view: View) -> str:
    return boards.shown(frame(board, view, 120, 24)[1][-1])


@pytest.mark.parametrize(
    ("keys", "label"),
    [
        ([], "g3"),
        (["down"], "g4"),
        (["j", "j"], "g5"),
        (["j", "k"], "g3"),
        (["up"], "g3"),
        (["end"], "g1"),
        (["G", "home"], "g3"),
        (["end", "down"], "g1"),
        (["page down", "page up"], "g3"),
    ],
)
def test_the_cursor_moves_and_stays_within(keys: list[str], label: str) -> None:
    board = boards.busy()
    assert at(board, pressed(board, *keys)[0]) == label


def test_the_cursor_stays_with_its_goal_when_rows_move() -> None:
    board = boards.busy()
    view, _ = pressed(board, "down")
    assert at(board, view) == "g4"
    ended = [replace(goal, state=State.DONE) if goal.id == 3 else goal for goal in boards.twelve()]
    assert at(replace(board, lineup=lineup(ended)), view) == "g4"


def forty(*over: int, state: State = State.DONE) -> Board:
    """Forty goals of which three run, but for these, which are over."""
    states = {number: State.RUNNING if number <= 3 + len(over) else State.QUEUED for number in range(1, 41)}
    states |= dict.fromkeys(over, state)
    return boards.board([boards.goal(number, f"goal-{number}", each) for number, each in states.items()], served="x")


def in_sight(board: Board, view: View) -> list[str]:
    return [goal.label for goal in shown(board, view)[view.top : view.top + view.room]]


def test_what_runs_stays_in_sight_of_who_has_pressed_nothing() -> None:
    view, _ = frame(forty(), View(), 80, 24)
    assert at(forty(), view) == "g1"
    for over in ([1], [1, 2], [1, 2, 3]):
        board = forty(*over)
        view, _ = frame(board, view, 80, 24)
        assert view.top == 0
        running = [goal.label for goal in board.lineup.goals if goal.state is State.RUNNING]
        assert in_sight(board, view)[:3] == running
        assert at(board, view) == running[0]
        asked, actions = press(view, board, "c")
        assert (asked.prompt, actions) == (Question(Asks.MEANT, len(over) + 1, key="c"), None), "nobody has chosen it"


@pytest.mark.parametrize("moves", [[], ["down"], ["down", "up"]])
def test_who_cancels_the_goal_at_the_cursor_still_sees_what_runs(moves: list[str]) -> None:
    view, actions = pressed(forty(), *moves, "c", "y")
    (cancelled,) = actions
    assert isinstance(cancelled, Cancel)
    board = forty(cancelled.goal, state=State.CANCELLED)
    view, _ = frame(board, view, 80, 24)
    assert (view.top, view.carried) == (0, True)
    assert len(in_sight(board, view)) > 5


def test_a_cursor_goes_up_with_its_goal_and_back_to_one_that_was_read() -> None:
    view, _ = frame(forty(), pressed(forty(), *["page down"] * 2)[0], 80, 24)
    label, before = at(forty(), view), view.top
    view, _ = frame(forty(1, 2, 3), view, 80, 24)
    assert (at(forty(1, 2, 3), view), view.top <= before) == (label, True)
    read, _ = pressed(forty(), "down", "enter")
    view, _ = pressed(forty(2), "esc", view=read)
    assert at(forty(2), frame(forty(2), view, 80, 24)[0]) == "g2", "it is done, and was looked at until now"


def five_stuck(*others: int) -> Board:
    """Five goals that are stuck, but for these, which are queued again."""
    states = {number: State.QUEUED if number in others else State.STUCK for number in range(1, 6)}
    return boards.board([boards.goal(number, f"goal-{number}", state) for number, state in states.items()], served="x")


@pytest.mark.parametrize(
    ("moves", "first", "left"),
    [([], Retry(1), "g2"), (["down", "down"], Retry(3), "g4"), (["end"], Retry(5), "g4")],
)
@pytest.mark.parametrize("key", list("rtwc"))
def test_a_goal_that_has_come_to_the_cursor_by_itself_is_asked_about(
    moves: list[str], first: Retry, left: str, key: str
) -> None:
    before, board = five_stuck(), five_stuck(first.goal)
    view, actions = pressed(before, "f", *moves, "r")
    assert (view.state, actions) == (State.STUCK, [first])
    view, _ = frame(board, view, 80, 24)
    assert at(board, view) == left, "the cursor stays at its place"

    view, actions = pressed(board, key, view=view)
    assert (view.prompt, actions) == (Question(Asks.MEANT, int(left[1:]), key=key), [])
    asked = {"c": f"cancel {left}", "r": f"retry {left}", "t": f"send {left} a message", "w": f"wake {left}"}[key]
    said = f"the selection has moved: {asked}?  y: yes  any other key: no"
    assert bottom(board, view) == said
    assert len(said) < 80, "none of it is cut"
    assert pressed(board, *key * 8, view=view)[1] == [], "a key that is held down does not answer for itself"
    meant, actions = pressed(board, "y", view=view)
    match key:
        case "r":
            assert actions == [Retry(int(left[1:]))]
        case "w":
            assert (actions, meant.message) == ([], f"{left} is not waiting for a usage limit")
        case "c":
            assert (actions, meant.prompt) == ([Cancel(int(left[1:]))], None), "nobody is asked the same twice"
        case _:
            assert (actions, meant.prompt) == ([], Question(Asks.TELL, int(left[1:])))


def test_a_goal_that_is_moved_to_or_looked_for_is_not_asked_about() -> None:
    board = five_stuck(3)
    carried, _ = frame(board, pressed(five_stuck(), "f", "down", "down", "r")[0], 80, 24)
    assert pressed(board, "up", "r", view=carried)[1] == [Retry(2)]
    assert pressed(board, "down", "up", "r", view=carried)[1] == [Retry(4)]
    assert pressed(board, "/", *"goal-5", "enter", "r", view=carried)[1] == [Retry(5)]
    assert pressed(board, "f", "r", view=carried)[1] == [Retry(3)], "the only one that is queued"
    assert pressed(board, "enter", "r", view=carried)[1] == [Retry(4)], "its transcript is open"
    erased = ["backspace"] * 6
    keys = ["/", *"goal-1", "enter", "/", *erased, *"goal-5", "esc", "r"]
    assert pressed(board, *keys, view=carried)[1] == [Retry(1)], "goal-5 was looked for, and that was taken back"


def test_a_goal_that_leaves_while_it_is_asked_about_hands_nothing_on() -> None:
    view, _ = frame(five_stuck(3), pressed(five_stuck(), "f", "down", "down", "r")[0], 80, 24)
    asked, _ = pressed(five_stuck(3), "r", view=view)
    assert press(asked, five_stuck(3, 4), "y")[1] is None
    view, actions = pressed(five_stuck(3, 4), "y", view=asked)
    assert (view.prompt, actions) == (Question(Asks.MEANT, 5, key="r"), [])


def test_what_nobody_has_seen_yet_is_asked_about() -> None:
    """The first row after f is known in the next frame alone."""
    view, _ = frame(five_stuck(1), View(), 80, 24)
    view, actions = press_all(view, five_stuck(2), ["f", "f", "r"])
    assert (view.state, actions, view.prompt and view.prompt.asks) == (State.QUEUED, [], Asks.MEANT)


def test_a_goal_is_cancelled_that_was_asked_about_wherever_the_cursor_is_then() -> None:
    view, _ = pressed(five_stuck(), "f", "down", "c")
    assert pressed(five_stuck(2), "y", view=view)[1] == [Cancel(2)]
    view, _ = pressed(five_stuck(), "f", "down", "t", *"go on", view=None)
    assert pressed(five_stuck(2), "enter", view=view)[1] == [Tell(2, "go on")]


def test_a_page_shows_what_was_not_in_sight() -> None:
    board = boards.crowd()
    view, lines = frame(board, View(), 80, 24)
    view, _ = press(view, board, "page down")
    view, after = frame(board, view, 80, 24)
    view, _ = press(view, board, "page down")
    view, later = frame(board, view, 80, 24)
    assert lines != after != later
    assert view.top > 0


def test_a_filter_is_typed_edited_kept_and_left() -> None:
    board = boards.busy()
    view, _ = pressed(board, "/", *"emailx", "backspace")
    assert [goal.name for goal in shown(board, view)] == ["emails"]
    view, _ = pressed(board, "enter", view=view)
    assert (view.prompt, view.text) == (None, "email")
    view, _ = pressed(board, "/", *["backspace"] * 5, *"API", view=view)
    assert {goal.label for goal in shown(board, view)} == {"g3", "g4"}, "the repository counts, in any case"
    view, _ = pressed(board, "esc", view=view)
    assert view.text == "email", "what was typed is forgotten"
    view, _ = pressed(board, "esc", view=view)
    assert (view.text, len(shown(board, view))) == ("", 12)


def test_f_goes_through_the_states_that_there_are() -> None:
    board = boards.crowd()
    view, states = View(), list[State | None]()
    for _ in range(5):
        view, _ = press(view, board, "f")
        states.append(view.state)
    assert states == [State.RUNNING, State.STUCK, State.QUEUED, State.DONE, None]


def test_o_goes_through_the_orders_and_the_cursor_stays_with_its_goal() -> None:
    board, view = boards.busy(), View(cursor=3, moved=True)
    expected = {
        "need": "g7 g8 g4 g3 g5 g6 g9 g10 g11 g12 g2 g1",
        "id": "g1 g2 g3 g4 g5 g6 g7 g8 g9 g10 g11 g12",
        "latest news": "g2 g5 g7 g3 g4 g6 g9 g8 g10 g11 g12 g1",
        "cost": "g7 g4 g1 g5 g2 g3 g6 g9 g8 g10 g11 g12",
        "state": "g3 g4 g5 g6 g7 g9 g8 g10 g11 g12 g2 g1",
    }
    for name, labels in expected.items():
        view, actions = pressed(board, "o", view=view)
        assert [goal.label for goal in shown(board, view)] == labels.split(), name
        assert (at(board, view), actions) == ("g3", [])
        assert bottom(board, view) == f"sorted by {name}"
        drawn = "\n".join(map(boards.shown, frame(board, view, 120, 24)[1]))
        assert (f" 12 goals · by {name} ─" in drawn) is (name != "state")


@pytest.mark.parametrize(("key", "other", "kind"), [("v", "l", PageKind.DIFF), ("l", "v", PageKind.LOG)])
def test_diff_and_log_of_the_selected_goal_are_opened_changed_and_left(key: str, other: str, kind: PageKind) -> None:
    board = boards.busy()
    view, _ = pressed(board, "down", key)
    assert (view.open, view.kind) == (4, kind)
    assert pressed(board, other, view=view)[0].kind not in (kind, PageKind.TRANSCRIPT)
    assert pressed(board, key, view=view)[0].kind is PageKind.TRANSCRIPT
    left, actions = pressed(board, "esc", view=view)
    assert (left.open, at(board, left), actions) == (None, "g4", [])
    nothing, actions = pressed(boards.empty(), key)
    assert (nothing.open, actions) == (None, [])


def test_a_goal_is_cancelled_when_that_was_asked_once() -> None:
    board = boards.busy()
    view, actions = pressed(board, "down", "c")
    assert (view.prompt and view.prompt.asks, actions) == (Asks.CANCEL, [])
    assert pressed(board, "y", view=view)[1] == [Cancel(4)]
    for other in ("n", "esc", "enter", "c", "q"):
        assert pressed(board, other, view=view) == (replace(view, prompt=None), [])


def test_what_is_over_is_not_asked_about() -> None:
    view, actions = pressed(boards.busy(), "end", "c")
    assert (view.message, view.prompt, actions) == ("cannot cancel g1: it is done", None, [])


def test_retry_and_pause_are_done_at_once() -> None:
    board = boards.busy()
    assert pressed(board, *["down"] * 4, "r")[1] == [Retry(7)]
    assert pressed(board, "down", "w")[1] == [Wake(4)]
    assert pressed(board, "w")[1] == [], "it does not wait"
    assert pressed(board, "p")[1] == [Pause(True)]
    assert pressed(boards.paused(), "p")[1] == [Pause(False)]


def test_something_is_told_with_an_editor_of_one_line() -> None:
    board = boards.busy()
    keys = [*"uex", "backspace", "left", *"s", "right", *" the old "]
    view, actions = pressed(board, "t", *keys)
    assert view.prompt is not None
    assert (view.prompt.text, actions) == ("use the old ", [])
    view, actions = pressed(board, "home", "delete", *"U", "enter", view=view)
    assert (view.prompt, actions) == (None, [Tell(3, "Use the old")])


def test_letters_that_are_keys_elsewhere_are_letters_in_a_prompt() -> None:
    assert pressed(boards.busy(), "t", *"quit? j/k", "enter")[1] == [Tell(3, "quit? j/k")]


def test_nothing_is_told_without_words_or_when_it_is_left() -> None:
    assert pressed(boards.busy(), "t", " ", "enter")[1] == []
    assert pressed(boards.busy(), "t", *"no", "esc")[1] == []


def test_who_watches_leaves_at_once_who_works_is_asked() -> None:
    assert pressed(boards.unserved(), "q")[1] == [Leave()]
    assert pressed(boards.settled(), "q")[1] == [Leave()], "nothing stops with it"
    assert pressed(boards.busy(), "q")[1] == []
    assert pressed(boards.busy(), "q", "y")[1] == [Quit()]
    assert pressed(boards.busy(), "q", "esc", "y")[1] == []
    assert pressed(boards.busy(), "q", "q")[1] == [], "held down"


def test_who_stops_a_worker_that_stops_already_is_told_what_that_does() -> None:
    board = replace(boards.busy(), bulletin=boards.bulletin(stopping=True))
    assert bottom(boards.busy(), View()).endswith("q stop")
    assert bottom(board, View()).endswith("q kill")
    asked, actions = pressed(board, "q")
    assert actions == []
    assert "already stopping: kill running goals?  y: yes" in bottom(board, asked)
    assert "stop? goals continue at the next start  y: yes" in bottom(boards.busy(), asked)
    assert "kill running goals" in "".join(boards.shown(line) for line in frame(board, View(helping=True), 80, 24)[1])
    assert bottom(replace(board, ours=False), View()).endswith("q leave")


def test_a_worker_with_a_budget_is_suspended_when_that_was_asked_once() -> None:
    board = boards.busy()
    view, actions = read(board, ["suspend"])
    assert actions == []
    assert "no one watching the budget · Ctrl-Z again: suspend anyway · q: stop the goals" in bottom(board, view)
    for columns, more in ((60, ""), (80, " · q: stop the goals")):
        said = boards.shown(frame(board, view, columns, 24)[1][-1])
        short = f"no one would watch the budget · Ctrl-Z again: suspend anyway{more}"
        assert said == short, "also where there is little room"
    assert read(board, ["suspend"], view=view) == (replace(view, prompt=None), [Suspend()])
    assert read(board, ["suspend", "suspend"])[1] == [], "held down"
    assert read(board, ["suspend"], ["x"], ["suspend"])[1] == []
    assert read(board, ["suspend"], ["q"], ["y"])[1] == [Quit()]
    typing, _ = read(board, ["t"], [*"go on"])
    assert read(board, ["suspend"], ["x"], view=typing) == (typing, []), "what was typed is not lost"
    assert read(board, ["suspend"], ["suspend"], view=typing) == (typing, [Suspend()])


@pytest.mark.parametrize(
    "board",
    [
        replace(boards.busy(), ours=False),
        replace(boards.busy(), bulletin=boards.bulletin(budget=Budget())),
        boards.board([boards.goal(1, "next", State.QUEUED)], bulletin=boards.bulletin(), served="x"),
    ],
    ids=["somebody else's", "no budget", "nothing at work"],
)
def test_where_no_budget_is_left_alone_ctrl_z_is_done_at_once(board: Board) -> None:
    assert read(board, ["suspend"])[1] == [Suspend()]


def test_a_transcript_is_opened_scrolled_and_left() -> None:
    board = boards.reading()
    view, _ = pressed(board, "enter")
    assert (view.open, view.bottom) == (3, None)
    view, _ = pressed(board, "up", "up", view=view)
    assert view.bottom == 58
    view, _ = pressed(board, "home", view=view)
    assert view.bottom == view.room
    view, _ = pressed(board, "down", view=view)
    assert view.bottom == view.room + 1
    view, _ = pressed(board, "page down", "page down", "page down", view=view)
    assert view.bottom is None, "it follows again at the end"
    view, actions = pressed(board, "c", "y", view=view)
    assert actions == [Cancel(3)], "keys are about the goal that is open"
    view, _ = pressed(board, "esc", view=view)
    assert (view.open, at(board, view)) == (None, "g3")


def test_help_is_left_by_any_key_which_does_nothing_else() -> None:
    view, actions = pressed(boards.busy(), "?", "q")
    assert (view.helping, actions) == (False, [])


def test_a_message_lasts_until_the_next_key() -> None:
    view, _ = pressed(boards.busy(), "down", view=View(message="g3 is done"))
    assert view.message == ""


def read(board: Board, *reads: list[str], view: View | None = None) -> tuple[View, list[Action]]:
    """The view after keys that came in these reads, each drawn as it would be; and all actions."""
    view, actions = view or View(), list[Action]()
    for keys in reads:
        view, _ = frame(board, view, 80, 24)
        view, asked_for = press_all(view, board, keys)
        actions += asked_for
    return view, actions


TEXT = "please check the copy, quit early\nand pay, y?\n"


@pytest.mark.parametrize("before", [[], ["enter"], ["?"]])
def test_a_text_that_is_pasted_where_none_is_asked_for_does_nothing(before: list[str]) -> None:
    board = boards.reading()
    shown_before, _ = pressed(board, *before)
    for pasted in (Paste(TEXT), Paste("q"), Paste("p"), Paste("end")):
        view, actions = read(board, [pasted], view=shown_before)
        assert actions == []
        assert (view.prompt, view.open, view.helping) == (None, shown_before.open, shown_before.helping)
        assert (view.cursor, view.message) == (
            frame(board, shown_before, 80, 24)[0].cursor,
            "pasted text is ignored; press t first to send it to a goal",
        )


def test_a_pasted_text_answers_no_question() -> None:
    board = boards.busy()
    assert read(board, ["c"], [Paste("y")])[1] == []
    assert read(board, ["q"], [Paste("y")])[1] == []
    assert read(board, ["c"], [Paste("n")])[0].prompt == Question(Asks.CANCEL, 3), "it is still asked"


def test_a_pasted_text_is_one_line_where_one_is_asked_for() -> None:
    board = boards.busy()
    view, actions = read(board, ["t"], ["o", "h", "left"], [Paste("a\r\n\tb\x1b[31m\x07c\n")], ["!"])
    assert view.prompt is not None
    assert (view.prompt.text, actions) == ("oa b[31mc !h", [])
    assert read(board, ["enter"], view=view)[1] == [Tell(3, "oa b[31mc !h")]
    view, _ = read(board, ["/"], [Paste("ema\n")])
    assert view.text == "ema "
    view, _ = read(board, ["/"], [Paste("emails")])
    assert [goal.name for goal in shown(board, view)] == ["emails"]


def test_a_prompt_does_not_grow_without_end() -> None:
    """It takes what `ralph-runs tell` takes; nothing of a text is lost without a word."""
    board = boards.busy()
    full, _ = read(board, ["t"], ["a"], [Paste("b" * 9_999)])
    assert full.prompt is not None
    assert (len(full.prompt.text), full.prompt.note) == (10_000, "")
    for more, length in ((Paste("cc"), "10,002"), ("c", "10,001")):
        view, _ = read(board, ["left"], [more], view=full)
        assert view.prompt is not None
        assert view.prompt.text == full.prompt.text
        assert f"too long: {length} characters, at most 10,000: " in bottom(board, view)
        assert "too many" not in bottom(board, read(board, ["left"], view=view)[0]), "until the next key"
    assert read(board, ["enter"], view=view)[1] == [Tell(3, full.prompt.text)]


def test_nobody_types_what_nobody_would_read() -> None:
    view, _ = pressed(boards.busy(), "end", "t")
    assert (view.prompt, view.message) == (None, "cannot tell g1 anything: the goal is done")


def test_a_text_that_is_refused_is_not_lost() -> None:
    board = boards.busy()
    view, (told,) = read(board, ["t"], [*"go on", "enter"])
    view = answered(view, told, "the queue is locked; try again", refused=True)
    assert "the queue is locked; try again: go on" in bottom(board, view)
    assert read(board, ["!", "enter"], view=view)[1] == [Tell(3, "go on!")]
    assert answered(View(), told, "it is told", refused=False).message == "it is told"
    assert answered(View(), Retry(1), "no", refused=True) == View(message="no")


def test_a_question_is_answered_by_a_later_read_alone() -> None:
    board = boards.busy()
    view, actions = read(board, ["c", "y"])
    assert (view.prompt and view.prompt.asks, actions) == (Asks.CANCEL, [])
    assert read(board, ["y"], view=view)[1] == [Cancel(3)]
    view, actions = read(board, ["q", "y"])
    assert (view.prompt and view.prompt.asks, actions) == (Asks.QUIT, [])
    assert read(board, ["y"], view=view)[1] == [Quit()]


def test_what_follows_an_answer_in_the_same_read_is_dropped() -> None:
    board = boards.busy()
    assert read(board, ["t"], [*"one", "enter", *"p"])[1] == [Tell(3, "one")]
    assert read(board, ["c"], ["y", "p"])[1] == [Cancel(3)]
    assert read(board, ["c"], ["n", "p"])[1] == []


@pytest.mark.parametrize("text", ["pause", "rm\r", "p\r", "clear", "jq\r", "jkgj\r", "k\rc"])
def test_letters_that_nobody_can_have_typed_are_no_keys(text: str) -> None:
    """In a terminal that does not mark what is pasted."""
    view, actions = read(boards.busy(), decode(text))
    assert actions == []
    assert (view.prompt, "too many keys at once" in view.message) == (None, True)


def test_keys_that_are_held_down_or_come_late_are_heeded() -> None:
    board = boards.busy()
    assert at(board, read(board, ["down"] * 5)[0]) == at(board, read(board, ["j"] * 5)[0]) == "g9"
    assert read(board, ["down", "down", "enter"])[0].open == 5
    assert read(board, decode("jj\r"))[0].open == 5, "a macro, or a slow line"
    assert read(board, decode("Gkj\r"))[0].open == 1
    view, _ = read(board, ["t", "a", "b"])
    assert view.prompt is not None
    assert view.prompt.text == "ab", "a letter that comes at once after t is one of the text"
    assert read(board, ["t"], [*"use the old index", "enter"])[1] == [Tell(3, "use the old index")]


@settings(max_examples=60, deadline=None)
@given(
    keys=st.lists(st.sampled_from([*Key, *"jkgGfpcrtqd/?y ", "ü"]), max_size=25),
    board=st.sampled_from([boards.empty(), boards.busy(), boards.crowd(), boards.reading(), boards.unserved()]),
)
def test_no_keys_break_anything(keys: list[str], board: Board) -> None:
    view, _ = pressed(board, *keys)
    assert len(frame(board, view, 60, 12)[1]) == 12
