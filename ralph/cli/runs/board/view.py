"""What somebody looks at: which goals, which of them, how far scrolled, and what is being typed."""

from dataclasses import dataclass, replace
from enum import StrEnum

from ralph.dashboard.board import Board
from ralph.queue.goals import BatchGoal, State


class Asks(StrEnum):
    """What a line at the bottom asks for."""

    FILTER = "filter"
    TELL = "tell"
    CANCEL = "cancel"
    QUIT = "quit"
    SUSPEND = "suspend"
    MEANT = "meant"


@dataclass(frozen=True, slots=True)
class Prompt:
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
    beneath: "Prompt | None" = None
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
    prompt: Prompt | None = None
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
