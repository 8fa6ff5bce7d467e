"""The last line: the keys, or what is asked and typed, or what came of the last key; and the page of help."""

from ralph.cli.runs.board.view import Asks, Prompt, View, chosen
from ralph.dashboard.board import Board
from ralph.ui.draw import Line, Tone, joined, letters_within, line, width
from ralph.ui.terminal import flat

_HELP = (
    ("↑ ↓ j k", "move; PgUp, PgDn, Home and End: further"),
    ("Enter", "open the goal's transcript; Esc goes back"),
    ("/", "only goals with a text in id, name, title, repo"),
    ("f", "only goals of one state; Esc shows all again"),
    ("p", "pause: nothing new is started; again: resume"),
    ("c", "cancel the goal (asks); its branch is kept"),
    ("r", "try again what is stuck or cancelled"),
    ("w", "wake a goal that waits for a usage limit"),
    ("t", "tell the goal's agent something"),
    ("d", "in a transcript: more detail, or less"),
)

_MEANT = {"c": "cancel {}", "r": "try {} again", "t": "tell {} something", "w": "wake {}"}
"""What is asked about a goal that nobody has chosen."""


def keyline(board: Board, view: View, columns: int) -> Line:
    """The bottom line of any screen."""
    if view.prompt is not None:
        return _prompt(board, view.prompt, columns)
    if view.message:
        return line((view.message, Tone.WARN))
    if view.helping:
        return line(("any key goes back", Tone.DIM))
    return _keys(board, view, columns)


def _keys(board: Board, view: View, columns: int) -> Line:
    if view.open is not None:
        keys = [(9, "Esc", "back"), (9, "↑↓", "scroll"), (3, "End", "follow"), (4, "d", "detail")]
    else:
        keys = [(6, "↑↓", "move"), (9, "Enter", "open"), (5, "/", "filter"), (3, "f", "state")]
    goal = chosen(board, view)
    waits = goal is not None and board.is_waiting(goal)
    keys += [*([(8, "w", "wake")] if waits else []), (7, "c", "cancel"), (6, "r", "retry"), (6, "t", "tell")]
    keys += [(4, "p", "resume" if board.paused else "pause"), (8, "?", "help"), (8, "q", _quit(board))]
    parts = [(rank, line((key, Tone.STRONG), (f" {does}", Tone.DIM))) for rank, key, does in keys]
    return joined(parts, columns)


def _quit(board: Board) -> str:
    if not board.ours:
        return "leave"
    return "kill" if board.is_stopping else "stop"


def _end(board: Board) -> str:
    """What is asked before the worker is asked to end: the second time it no longer waits for anybody."""
    return "it is stopping: kill what runs?" if board.is_stopping else "stop? goals go on at the next start"


def _prompt(board: Board, prompt: Prompt, columns: int) -> Line:
    goal = board.lineup.known.get(prompt.goal)
    named = "" if goal is None else f"{goal.label} {goal.name}"
    match prompt.asks:
        case Asks.QUIT:
            return line((_end(board), Tone.WARN), "  y: yes", ("  any other key: no", Tone.DIM))
        case Asks.SUSPEND:
            return _unwatched(columns)
        case Asks.CANCEL:
            return line((f"cancel {named}?", Tone.WARN), "  y: yes", ("  any other key: no", Tone.DIM))
        case Asks.MEANT:
            asked = _MEANT.get(prompt.key, "is {} meant").format(f"g{prompt.goal}")
            said = f"the selection moved by itself: {asked}?"
            return line((said, Tone.WARN), "  y: yes", ("  any other key: no", Tone.DIM))
        case Asks.FILTER:
            return _typing("filter: ", prompt, columns)
        case Asks.TELL:
            return _typing(f"{prompt.note}: " if prompt.note else f"tell {named}: ", prompt, columns)


def _unwatched(columns: int) -> Line:
    """Why Ctrl-Z is not done at once."""
    why = "goals work on, and nobody would watch their budget" if columns >= 100 else "nobody would watch the budget"
    parts = [
        (9, line((why, Tone.WARN))),
        (8, line("Ctrl-Z again: suspend anyway")),
        (7, line("q: stop the goals")),
        (1, line(("any other key: no", Tone.DIM))),
    ]
    return joined(parts, columns)


def _typing(label: str, prompt: Prompt, columns: int) -> Line:
    """What is typed, as far as it fits around the caret."""
    label = letters_within(flat(label), max(columns * 2 // 3 if prompt.note else columns // 2, 1))
    before, at, after = (
        flat(part)
        for part in (
            prompt.text[: prompt.caret],
            prompt.text[prompt.caret : prompt.caret + 1],
            prompt.text[prompt.caret + 1 :],
        )
    )
    room = max(columns - width(label) - 2, 1)
    while width(before) > room:
        before = before[-room:] if len(before) > room else before[1:]
    return (
        (label, Tone.WARN if prompt.note else Tone.CALM),
        (before, Tone.PLAIN),
        (at or " ", Tone.CHOSEN),
        (after, Tone.PLAIN),
    )


def help_page(board: Board) -> list[Line]:
    """What every key does."""
    stop = "kill what runs: the worker stops already" if board.is_stopping else "stop the worker, as Ctrl-C does"
    leave = f"{stop} (asks)" if board.ours else "leave; the worker goes on"
    keys = (*_HELP, ("q", leave))
    return [line(("Keys", Tone.STRONG)), (), *(line((f"  {key:<10}", Tone.STRONG), does) for key, does in keys)]
