"""What a key does: changes to the view, and actions on the queue."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from ralph.dashboard.board import Board, PageKind, SortOrder
from ralph.queue.goals import LONGEST, BatchGoal, State
from ralph.ui.keys import Key, Paste, is_text


class Asks(StrEnum):
    """What the bottom line asks for."""

    FILTER = "filter"
    TELL = "tell"
    CANCEL = "cancel"
    QUIT = "quit"
    SUSPEND = "suspend"
    MEANT = "meant"


@dataclass(frozen=True, slots=True)
class Question:
    """A question, and the answer typed so far."""

    asks: Asks
    goal: int = 0
    text: str = ""
    caret: int = 0
    before: str = ""
    """The filter before typing, restored if the user cancels."""
    key: str = ""
    """The key that the question is about."""
    note: str = ""
    """Why the last input was refused."""
    beneath: "Question | None" = None
    """The question that this one interrupted; it is asked again afterwards."""


@dataclass(frozen=True, slots=True)
class View:
    """One person's view of a board."""

    cursor: int = 0
    """The id of the selected goal, so that it stays when rows move; 0: the first one of the next frame."""
    row: int = 0
    """The row of that goal in the last frame. If the goal disappears, the cursor stays in that row."""
    moved: bool = False
    """The user has moved the cursor. Until then it stays in the first row, and nothing scrolls."""
    carried: bool = False
    """The cursor moved to its goal by itself. The user has not chosen it, so a key about it asks first."""
    top: int = 0
    """How many goals are scrolled away."""
    room: int = 10
    """Rows for goals or a transcript in the last frame."""
    text: str = ""
    state: State | None = None
    """Show only goals with this text, in this state."""
    order: SortOrder = SortOrder.STATE
    open: int | None = None
    """The open goal."""
    kind: PageKind = PageKind.TRANSCRIPT
    """What its page shows."""
    bottom: int | None = None
    """The last visible row; None: follow the latest."""
    detailed: bool = False
    prompt: Question | None = None
    message: str = ""
    helping: bool = False


def shown(board: Board, view: View) -> tuple[BatchGoal, ...]:
    """Return the goals that match the filter, in their order."""
    goals = board.ordered(view.order)
    if not view.text and view.state is None:
        return goals
    wanted = view.text.casefold()
    return tuple(
        goal
        for goal in goals
        if view.state in (None, goal.state)
        and wanted
        in f"{goal.label} {goal.name} {goal.title} {board.lineup.repositories[goal.repo]} {goal.state}".casefold()
    )


def place(goals: tuple[BatchGoal, ...], view: View) -> int:
    """Return the row of the cursor."""
    if not view.moved:
        return 0
    stays = max(0, min(view.row, len(goals) - 1))
    return next((number for number, goal in enumerate(goals) if goal.id == view.cursor), stays)


def chosen(board: Board, view: View) -> BatchGoal | None:
    """Return the goal that keys are about: the open one, else the selected one."""
    if view.open is not None:
        return board.lineup.known.get(view.open)
    goals = shown(board, view)
    return goals[place(goals, view)] if goals else None


def scrolled(view: View, goals: tuple[BatchGoal, ...], room: int) -> View:
    """Return the view scrolled so that its cursor is visible and no row is empty without need.

    If a goal moves out of sight by itself, because it is done or cancelled, the cursor stays in its row instead of
    following it.
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
class Leave:
    """Close the dashboard; nothing else stops."""


@dataclass(frozen=True, slots=True)
class Quit:
    """Stop the worker, which is this process."""


@dataclass(frozen=True, slots=True)
class Suspend:
    """Suspend, as Ctrl-Z does."""


Action = Cancel | Retry | Wake | Tell | Pause | Leave | Quit | Suspend


_PAGES = {"v": PageKind.DIFF, "l": PageKind.LOG}
_STATES = (State.RUNNING, State.STUCK, State.QUEUED, State.DRAFT, State.CANCELLED, State.UNDONE, State.DONE)

Pressed = tuple[View, Action | None]


def press_all(view: View, board: Board, keys: Sequence[str]) -> tuple[View, list[Action]]:
    """Handle the keys of one read. The user pressed them without seeing their effect.

    So only a later read can answer a question, and what follows an answer is dropped: in a terminal that does not mark
    pasted text, any letter could be a key.
    """
    if not _takes_text(view) and is_text(keys):
        return replace(view, message="too many keys at once, ignored; press t first to type a message"), []
    actions: list[Action] = []
    for key in keys:
        asked = view.prompt
        view, action = press(view, board, key)
        actions += [action] if action is not None else []
        if (asked is not None and view.prompt is None) or (view.prompt is not None and not _takes_text(view)):
            break
    return view, actions


def answered(view: View, action: Action, words: str, *, refused: bool) -> View:
    """Return the view once the outcome of an action is known; a refused text stays, to be changed or tried again."""
    if refused and isinstance(action, Tell) and view.prompt is None:
        return replace(view, prompt=Question(Asks.TELL, action.goal, action.text, len(action.text), note=words))
    return replace(view, message=words)


def _takes_text(view: View) -> bool:
    return view.prompt is not None and view.prompt.asks in (Asks.FILTER, Asks.TELL)


def press(view: View, board: Board, key: str) -> Pressed:
    """Handle one key or one pasted text."""
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
    """Suspend; ask first if that leaves a budget unwatched."""
    prompt = view.prompt
    if prompt is not None and prompt.asks is Asks.SUSPEND:
        return replace(view, prompt=prompt.beneath), Suspend()
    if not board.is_on_guard:
        return view, Suspend()
    return replace(view, prompt=Question(Asks.SUSPEND, beneath=prompt)), None


def _command(view: View, board: Board, key: str) -> Pressed:
    """Keys that mean the same everywhere."""
    match key:
        case "q" if _only_leaves(board):
            return view, Leave()
        case "q":
            return replace(view, prompt=Question(Asks.QUIT)), None
        case "?":
            return replace(view, helping=True), None
        case "p":
            return view, Pause(not board.paused)
        case "c" | "r" | "t" | "w":
            return _about_a_goal(view, board, key)
        case _:
            return view, None


def _only_leaves(board: Board) -> bool:
    """Tell whether leaving stops nothing: another process is the worker, or nothing more can be done."""
    return not board.ours or board.is_settled


def _about_a_goal(view: View, board: Board, key: str) -> Pressed:
    goal = chosen(board, view)
    if goal is None:
        return replace(view, message="no goal is selected"), None
    if view.carried or view.cursor != goal.id:
        return replace(view, prompt=Question(Asks.MEANT, goal.id, key=key)), None
    match key:
        case "c":
            return _ask_to_cancel(view, goal), None
        case "r":
            return view, Retry(goal.id)
        case "w" if not board.is_waiting(goal):
            return replace(view, message=f"{goal.label} is not waiting for a usage limit"), None
        case "w":
            return view, Wake(goal.id)
        case _ if goal.state is State.DONE:  # before the user types a text for nothing
            return replace(view, message=f"cannot tell {goal.label} anything: the goal is done"), None
        case _:
            return replace(view, prompt=Question(Asks.TELL, goal.id)), None


def _ask_to_cancel(view: View, goal: BatchGoal) -> View:
    if goal.state in (State.DONE, State.UNDONE, State.CANCELLED):
        return replace(view, message=f"cannot cancel {goal.label}: it is {goal.state}")
    return replace(view, prompt=Question(Asks.CANCEL, goal.id))


def _move(view: View, board: Board, key: str) -> View | None:
    """Keys of the list of goals; None: it is not one of them."""
    goals = shown(board, view)
    at = place(goals, view)
    page = max(view.room - 1, 1)
    steps = _steps(page)
    ends = {Key.HOME: 0, "g": 0, Key.END: len(goals) - 1, "G": len(goals) - 1}
    if key in steps or key in ends:
        to = ends[key] if key in ends else at + steps[key]
        return _at(view, goals, to) if goals else view
    match key:
        case Key.ENTER | Key.RIGHT | "v" | "l":
            kind = _PAGES.get(key, PageKind.TRANSCRIPT)
            return replace(_at(view, goals, at), open=goals[at].id, kind=kind, bottom=None) if goals else view
        case "o":
            orders = list(SortOrder)
            later = orders[(orders.index(view.order) + 1) % len(orders)]
            view = replace(view, order=later, message=f"sorted by {later}")
            return _filtered(view, board) if view.moved else view
        case "/":
            return replace(view, prompt=Question(Asks.FILTER, 0, view.text, len(view.text), view.text))
        case "f":
            return _filtered(replace(view, state=_next_state(view.state, board)), board)
        case Key.ESCAPE:
            return _filtered(replace(view, text="", state=None), board)
        case _:
            return None


def _at(view: View, goals: Sequence[BatchGoal], row: int) -> View:
    """Return the view with its cursor at this row, or at the last one in that direction."""
    row = max(0, min(row, len(goals) - 1))
    return replace(view, cursor=goals[row].id, row=row, moved=True, carried=False)


def _filtered(view: View, board: Board) -> View:
    """Return the view with another filter; a cursor whose goal is hidden starts again at the top."""
    rows = [row for row, goal in enumerate(shown(board, view)) if goal.id == view.cursor]
    if rows:
        return replace(view, row=rows[0], moved=True)
    return replace(view, cursor=0, row=0, moved=False, carried=False, top=0)


def _steps(page: int) -> dict[str, int]:
    """How far movement keys go: a row or a page."""
    return {Key.UP: -1, "k": -1, Key.DOWN: 1, "j": 1, Key.PAGE_UP: -page, Key.PAGE_DOWN: page, " ": page}


def _next_state(now: State | None, board: Board) -> State | None:
    """Return the next state that some goal is in; after the last one, no filter."""
    later = _STATES if now is None else _STATES[_STATES.index(now) + 1 :]
    return next((state for state in later if board.lineup.counts.get(state)), None)


def _scroll(view: View, board: Board, key: str) -> View | None:
    """Keys of a page; None: it is not one of them."""
    page = max(view.room - 1, 1)
    steps = _steps(page)
    end, first = (0, 0) if board.page is None else (board.page.end, board.page.left_out)
    top = min(first + view.room, end)
    follows = view.kind is PageKind.TRANSCRIPT  # other pages start at their top
    match key:
        case Key.ESCAPE | Key.LEFT:  # the open goal stays selected
            return _filtered(replace(view, open=None, bottom=None), board)
        case Key.HOME | "g":
            return replace(view, bottom=top)
        case Key.END | "G":
            return replace(view, bottom=None if follows else end)
        case "d" if view.kind is PageKind.TRANSCRIPT:
            return replace(view, detailed=not view.detailed, bottom=None)
        case "v" | "l" if view.kind is not _PAGES[key]:
            return replace(view, kind=_PAGES[key], bottom=None)
        case "v" | "l" | Key.ENTER:
            return replace(view, kind=PageKind.TRANSCRIPT, bottom=None)
        case _ if key in steps:
            at = (end if follows else top) if view.bottom is None else view.bottom
            to = max(min(at + steps[key], end), top)
            return replace(view, bottom=None if follows and to >= end else to)
        case _:
            return None


def _answer(view: View, board: Board, prompt: Question, key: str) -> Pressed:
    closed = replace(view, prompt=None)
    match prompt.asks:
        case Asks.QUIT if key == "y":
            return closed, Leave() if _only_leaves(board) else Quit()
        case Asks.QUIT:
            return closed, None
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
    """Do what was asked about; cancelling asks its own question."""
    view, action = _about_a_goal(view, board, prompt.key)
    if view.prompt == Question(Asks.CANCEL, prompt.goal):
        return replace(view, prompt=None), Cancel(prompt.goal)
    return view, action


def _paste(view: View, board: Board, pasted: Paste) -> View:
    """Insert pasted text where a text is asked for; ignore it elsewhere."""
    prompt = view.prompt
    if prompt is None or not _takes_text(view):
        return replace(view, message="pasted text is ignored; press t first to send it to a goal")
    words = "".join(letter for letter in re.sub(r"\s+", " ", pasted) if letter.isprintable())
    return _with(view, board, _added(prompt, words))


def _added(prompt: Question, words: str) -> Question:
    """Add to a text, all or nothing: a cut end would not be noticed."""
    if (length := len(prompt.text) + len(words)) > LONGEST:
        return replace(prompt, note=f"too long: {length:,} characters, at most {LONGEST:,}")
    text = prompt.text[: prompt.caret] + words + prompt.text[prompt.caret :]
    return replace(prompt, text=text, caret=prompt.caret + len(words))


def _with(view: View, board: Board, typed: Question) -> View:
    """Apply a filter while it is typed."""
    view = replace(view, prompt=typed)
    return _filtered(replace(view, text=typed.text), board) if typed.asks is Asks.FILTER else view


def _typed(prompt: Question, key: str) -> Question:
    """Edit a line of text by a key."""
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
