"""What a key does: to the view, and beyond it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from ralph.dashboard.board import Board
from ralph.queue.goals import LONGEST, BatchGoal, State
from ralph.ui.keys import Key, Paste, is_text


class Asks(StrEnum):
    """What a line at the bottom asks for."""

    FILTER = "filter"
    TELL = "tell"
    CANCEL = "cancel"
    QUIT = "quit"
    SUSPEND = "suspend"
    MEANT = "meant"


@dataclass(frozen=True, slots=True)
class Question:
    """A question, and what has been typed for an answer."""

    asks: Asks
    goal: int = 0
    text: str = ""
    caret: int = 0
    before: str = ""
    """What stood there: it is back if nothing is answered."""
    key: str = ""
    """The key that is asked about."""
    note: str = ""
    """Why the last answer, or what was to be added to it, was not taken."""
    beneath: "Question | None" = None
    """What was asked when this came between: it is asked again after it."""


@dataclass(frozen=True, slots=True)
class View:
    """One person's look at a board."""

    cursor: int = 0
    """The id of the goal that keys are about, so that it stays when rows move; 0: the next frame's first one."""
    row: int = 0
    """Where that goal was in the last frame. If it leaves what is shown, the cursor stays at that place."""
    moved: bool = False
    """Somebody has put the cursor where it is. Until then it is at the first row, and nothing is scrolled away."""
    carried: bool = False
    """The cursor has come to its goal in this way. Nobody has chosen it: a key about it asks first."""
    top: int = 0
    """How many goals are scrolled away."""
    room: int = 10
    """Rows that goals, or a transcript, have had in the last frame."""
    text: str = ""
    state: State | None = None
    """Only goals with this text, in this state, are shown."""
    open: int | None = None
    """The goal whose transcript is read."""
    bottom: int | None = None
    """The last row of it that is shown; None: the latest, whatever comes."""
    detailed: bool = False
    prompt: Question | None = None
    message: str = ""
    helping: bool = False


def shown(board: Board, view: View) -> tuple[BatchGoal, ...]:
    """The goals that are looked at, in their order."""
    if not view.text and view.state is None:
        return board.lineup.goals
    wanted = view.text.casefold()
    return tuple(
        goal
        for goal in board.lineup.goals
        if view.state in (None, goal.state)
        and wanted
        in f"{goal.label} {goal.name} {goal.title} {board.lineup.repositories[goal.repo]} {goal.state}".casefold()
    )


def place(goals: tuple[BatchGoal, ...], view: View) -> int:
    """Where the cursor stands among them."""
    if not view.moved:
        return 0
    stays = max(0, min(view.row, len(goals) - 1))
    return next((number for number, goal in enumerate(goals) if goal.id == view.cursor), stays)


def chosen(board: Board, view: View) -> BatchGoal | None:
    """The goal that keys are about: the one that is open, else the one at the cursor."""
    if view.open is not None:
        return board.lineup.known.get(view.open)
    goals = shown(board, view)
    return goals[place(goals, view)] if goals else None


def scrolled(view: View, goals: tuple[BatchGoal, ...], room: int) -> View:
    """The same view with its cursor at one of these goals and in sight, and no row left empty that one could have.

    A goal that has gone down out of sight by itself (it is done, or cancelled) is not followed there, for what runs is
    above: the cursor stays at its place.
    """
    at, top = place(goals, view), max(0, min(view.top, len(goals) - room))
    if at > view.row and at >= top + room:
        at = min(view.row, len(goals) - 1)
    view = replace(view, cursor=goals[at].id, row=at, carried=view.carried or view.cursor not in (0, goals[at].id))
    return replace(view, top=max(min(top, at), at - room + 1, 0), room=room)


@dataclass(frozen=True, slots=True)
class Cancel:
    goal: int


@dataclass(frozen=True, slots=True)
class Retry:
    goal: int


@dataclass(frozen=True, slots=True)
class Wake:
    goal: int


@dataclass(frozen=True, slots=True)
class Tell:
    goal: int
    text: str


@dataclass(frozen=True, slots=True)
class Pause:
    paused: bool


@dataclass(frozen=True, slots=True)
class Quit:
    """Leave; whoever is the worker stops with that."""


@dataclass(frozen=True, slots=True)
class Suspend:
    """Stop, as Ctrl-Z does."""


Deed = Cancel | Retry | Wake | Tell | Pause | Quit | Suspend


_STATES = (State.RUNNING, State.STUCK, State.QUEUED, State.DRAFT, State.CANCELLED, State.DONE)

Pressed = tuple[View, Deed | None]


def press_all(view: View, board: Board, keys: Sequence[str]) -> tuple[View, list[Deed]]:
    """Take the keys of one read. Whoever has pressed them has seen the board, and nothing of what they came to.

    So a question is answered by a later read alone, and what follows an answer is dropped: of a text that was pasted,
    in a terminal that does not mark that, any letter may be a key.
    """
    if not _takes_text(view) and is_text(keys):
        return replace(view, message="that was too much at once to be keys: press t first to type a text"), []
    deeds: list[Deed] = []
    for key in keys:
        asked = view.prompt
        view, deed = press(view, board, key)
        deeds += [deed] if deed is not None else []
        if (asked is not None and view.prompt is None) or (view.prompt is not None and not _takes_text(view)):
            break
    return view, deeds


def answered(view: View, deed: Deed, words: str, *, refused: bool) -> View:
    """The view when it is known what came of a deed; a text that was refused is there to be changed, or tried again."""
    if refused and isinstance(deed, Tell) and view.prompt is None:
        return replace(view, prompt=Question(Asks.TELL, deed.goal, deed.text, len(deed.text), note=words))
    return replace(view, message=words)


def _takes_text(view: View) -> bool:
    return view.prompt is not None and view.prompt.asks in (Asks.FILTER, Asks.TELL)


def press(view: View, board: Board, key: str) -> Pressed:
    """Take a key, by its name or as the letter that it is; or a text that was pasted, which is neither."""
    view = replace(view, message="")
    if isinstance(key, Paste):
        return _paste(view, board, key), None
    if key == Key.SUSPEND:
        return _suspend(view, board)
    if view.prompt is not None:
        return _answer(view, board, view.prompt, key)
    if view.helping:
        return replace(view, helping=False), None
    if view.open is not None and (moved := _scroll(view, board, key)) is not None:
        return moved, None
    if view.open is None and (moved := _move(view, board, key)) is not None:
        return moved, None
    return _command(view, board, key)


def _suspend(view: View, board: Board) -> Pressed:
    """Stop; where nobody would watch over a budget meanwhile that is asked first."""
    prompt = view.prompt
    if prompt is not None and prompt.asks is Asks.SUSPEND:
        return replace(view, prompt=prompt.beneath), Suspend()
    if not board.is_on_guard:
        return view, Suspend()
    return replace(view, prompt=Question(Asks.SUSPEND, beneath=prompt)), None


def _command(view: View, board: Board, key: str) -> Pressed:
    """Keys that mean the same wherever they are pressed."""
    match key:
        case "q" if board.ours:
            return replace(view, prompt=Question(Asks.QUIT)), None
        case "q":
            return view, Quit()
        case "?":
            return replace(view, helping=True), None
        case "p":
            return view, Pause(not board.paused)
        case "c" | "r" | "t" | "w":
            return _about_a_goal(view, board, key)
        case _:
            return view, None


def _about_a_goal(view: View, board: Board, key: str) -> Pressed:
    goal = chosen(board, view)
    if goal is None:
        return replace(view, message="there is no goal here"), None
    if view.carried or view.cursor != goal.id:
        return replace(view, prompt=Question(Asks.MEANT, goal.id, key=key)), None
    match key:
        case "c":
            return _ask_to_cancel(view, goal), None
        case "r":
            return view, Retry(goal.id)
        case "w" if not board.is_waiting(goal):
            return replace(view, message=f"{goal.label} does not wait for a usage limit"), None
        case "w":
            return view, Wake(goal.id)
        case _ if goal.state is State.DONE:  # before anybody types a text in vain
            return replace(view, message=f"{goal.label} is done: nobody works on it any more"), None
        case _:
            return replace(view, prompt=Question(Asks.TELL, goal.id)), None


def _ask_to_cancel(view: View, goal: BatchGoal) -> View:
    if goal.state in (State.DONE, State.CANCELLED):
        return replace(view, message=f"{goal.label} is {goal.state}: there is nothing to cancel")
    return replace(view, prompt=Question(Asks.CANCEL, goal.id))


def _move(view: View, board: Board, key: str) -> View | None:
    """Keys of the list of goals; None: it is none of them."""
    goals = shown(board, view)
    at = place(goals, view)
    page = max(view.room - 1, 1)
    steps = _steps(page)
    ends = {Key.HOME: 0, "g": 0, Key.END: len(goals) - 1, "G": len(goals) - 1}
    if key in steps or key in ends:
        to = ends[key] if key in ends else at + steps[key]
        return _at(view, goals, to) if goals else view
    match key:
        case Key.ENTER | Key.RIGHT:
            return replace(_at(view, goals, at), open=goals[at].id, bottom=None) if goals else view
        case "/":
            return replace(view, prompt=Question(Asks.FILTER, 0, view.text, len(view.text), view.text))
        case "f":
            return _filtered(replace(view, state=_next_state(view.state, board)), board)
        case Key.ESCAPE:
            return _filtered(replace(view, text="", state=None), board)
        case _:
            return None


def _at(view: View, goals: Sequence[BatchGoal], row: int) -> View:
    """The same view with its cursor where somebody wants it, or at the last row in that direction."""
    row = max(0, min(row, len(goals) - 1))
    return replace(view, cursor=goals[row].id, row=row, moved=True, carried=False)


def _filtered(view: View, board: Board) -> View:
    """A view that somebody has change what it shows: a cursor that is at nothing of that begins anew."""
    rows = [row for row, goal in enumerate(shown(board, view)) if goal.id == view.cursor]
    if rows:
        return replace(view, row=rows[0], moved=True)
    return replace(view, cursor=0, row=0, moved=False, carried=False, top=0)


def _steps(page: int) -> dict[str, int]:
    """How far keys go that move by a row or a page."""
    return {Key.UP: -1, "k": -1, Key.DOWN: 1, "j": 1, Key.PAGE_UP: -page, Key.PAGE_DOWN: page, " ": page}


def _next_state(now: State | None, board: Board) -> State | None:
    """The next state that any goal is in; after the last one all of them."""
    later = _STATES if now is None else _STATES[_STATES.index(now) + 1 :]
    return next((state for state in later if board.lineup.counts.get(state)), None)


def _scroll(view: View, board: Board, key: str) -> View | None:
    """Keys of a transcript; None: it is none of them."""
    page = max(view.room - 1, 1)
    steps = _steps(page)
    end, first = (0, 0) if board.transcript is None else (board.transcript.end, board.transcript.left_out)
    top = min(first + view.room, end)
    match key:
        case Key.ESCAPE | Key.LEFT:  # the goal that was read is the cursor's, wherever it is by now
            return _filtered(replace(view, open=None, bottom=None), board)
        case Key.HOME | "g":
            return replace(view, bottom=top)
        case Key.END | "G":
            return replace(view, bottom=None)
        case "d":
            return replace(view, detailed=not view.detailed, bottom=None)
        case _ if key in steps:
            to = (end if view.bottom is None else view.bottom) + steps[key]
            return replace(view, bottom=None if to >= end else max(to, top))
        case _:
            return None


def _answer(view: View, board: Board, prompt: Question, key: str) -> Pressed:
    closed = replace(view, prompt=None)
    match prompt.asks:
        case Asks.QUIT:
            return closed, Quit() if key == "y" else None
        case Asks.SUSPEND if key == "q":
            return _command(closed, board, key)
        case Asks.SUSPEND:
            return replace(view, prompt=prompt.beneath), None
        case Asks.CANCEL:
            return closed, Cancel(prompt.goal) if key == "y" else None
        case Asks.MEANT if key == "y":
            return _meant(replace(closed, cursor=prompt.goal, moved=True, carried=False), board, prompt)
        case Asks.MEANT:
            return closed, None
        case Asks.FILTER if key == Key.ESCAPE:
            return _filtered(replace(closed, text=prompt.before), board), None
        case Asks.FILTER if key == Key.ENTER:
            return closed, None
        case Asks.TELL if key == Key.ESCAPE:
            return closed, None
        case Asks.TELL if key == Key.ENTER:
            return closed, Tell(prompt.goal, prompt.text.strip()) if prompt.text.strip() else None
        case Asks.FILTER | Asks.TELL:
            return _with(view, board, _typed(prompt, key)), None


def _meant(view: View, board: Board, prompt: Question) -> Pressed:
    """Do what was asked about; whether the goal is to be cancelled is answered by that."""
    view, deed = _about_a_goal(view, board, prompt.key)
    if view.prompt == Question(Asks.CANCEL, prompt.goal):
        return replace(view, prompt=None), Cancel(prompt.goal)
    return view, deed


def _paste(view: View, board: Board, pasted: Paste) -> View:
    """Have a text where one is asked for, in a line; anywhere else it does nothing."""
    prompt = view.prompt
    if prompt is None or not _takes_text(view):
        return replace(view, message="pasted text is no key: press t first to tell it to a goal")
    words = "".join(letter for letter in re.sub(r"\s+", " ", pasted) if letter.isprintable())
    return _with(view, board, _added(prompt, words))


def _added(prompt: Question, words: str) -> Question:
    """A text with more in it; all of that or nothing, for nobody would see what is missing at its end."""
    if (length := len(prompt.text) + len(words)) > LONGEST:
        return replace(prompt, note=f"{length:,} characters are too many ({LONGEST:,})")
    text = prompt.text[: prompt.caret] + words + prompt.text[prompt.caret :]
    return replace(prompt, text=text, caret=prompt.caret + len(words))


def _with(view: View, board: Board, typed: Question) -> View:
    """A filter is heeded while it is typed."""
    view = replace(view, prompt=typed)
    return _filtered(replace(view, text=typed.text), board) if typed.asks is Asks.FILTER else view


def _typed(prompt: Question, key: str) -> Question:
    """A line of text after a key."""
    prompt = replace(prompt, note="")
    text, caret = prompt.text, prompt.caret
    match key:
        case Key.LEFT:
            caret = max(0, caret - 1)
        case Key.RIGHT:
            caret = min(caret + 1, len(text))
        case Key.HOME:
            caret = 0
        case Key.END:
            caret = len(text)
        case Key.BACKSPACE:
            text, caret = text[: max(caret - 1, 0)] + text[caret:], max(caret - 1, 0)
        case Key.DELETE:
            text = text[:caret] + text[caret + 1 :]
        case _ if len(key) == 1 and key.isprintable():
            return _added(prompt, key)
        case _:
            pass
    return replace(prompt, text=text, caret=caret)
