"""What keys ask for, done as the commands do it: in the queue, whoever works on it."""

from ralph.cli.runs.board.deeds import Cancel, Deed, Pause, Quit, Retry, Suspend, Tell, Wake
from ralph.cli.runs.steering import passed_on
from ralph.core.errors import RalphError
from ralph.queue.goals import BatchGoal
from ralph.queue.open import Whereabouts, alone
from ralph.queue.store import Store


def perform(deed: Deed, place: Whereabouts, store: Store) -> tuple[str, bool]:
    """Do it, and say what came of it, and whether that was a refusal."""
    try:
        return _perform(deed, place, store), False
    except RalphError as error:
        return f"{error.message}; {error.hint}" if error.hint else error.message, True


def _perform(deed: Deed, place: Whereabouts, store: Store) -> str:
    match deed:
        case Cancel(number):
            with alone(place, store) as cut_off:
                goal = store.cancel(store.goal(number), alone=cut_off)
            return f"{_named(goal)}: {'is being cancelled' if goal.cancelling else goal.state}"
        case Retry(number):
            return f"{_named(store.retry(store.goal(number)))}: queued again"
        case Wake(number):
            goal = store.goal(number)
            store.wake([goal])
            return f"{_named(goal)}: goes on now"
        case Tell(number, text):
            goal = store.goal(number)
            return f"{_named(goal)}: {passed_on(goal, text, place, store)}"
        case Pause(paused):
            store.pause(paused=paused)
            return "nothing new is started until p is pressed again" if paused else "goals start again"
        case Quit() | Suspend():  # not the queue's
            return ""


def _named(goal: BatchGoal) -> str:
    return f"{goal.label} {goal.name}"
