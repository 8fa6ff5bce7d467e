"""What the dashboard asks of its queue is done beside it: a locked database holds up neither frames nor keys."""

import threading
import time
from collections import deque
from collections.abc import Callable
from types import TracebackType

from ralph.core.errors import RalphError, fault_of
from ralph.core.reason import NextStep, written
from ralph.dashboard.view import Cancel, Deed, Pause, Quit, Retry, Suspend, Tell, Wake
from ralph.queue.goals import BatchGoal
from ralph.queue.open import QueueAddress, alone
from ralph.queue.store import Store

_LONGEST_END = 1.0
"""Seconds that whoever leaves waits for what is being done: a lock may be held for as long as anybody likes."""


class DatabaseThread:
    """Does one thing after the other, in a thread of its own. Use as a context manager."""

    def __init__(self) -> None:
        self._asked: deque[Callable[[], None]] = deque()
        self._change = threading.Condition()
        self._since: float | None = None
        """Since when it does what it does."""
        self._fault: Exception | None = None
        self._leaves = False
        self._thread = threading.Thread(target=self._work, name="clerk", daemon=True)

    def __enter__(self) -> "DatabaseThread":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._change:
            self._leaves = True
            self._change.notify_all()
        self._thread.join(_LONGEST_END)

    def do(self, what: Callable[[], None]) -> None:
        with self._change:
            self._asked.append(what)
            self._change.notify_all()

    def wait(self, seconds: float) -> bool:
        """Wait until all is done, at most so long; tell whether it is. A fault of what was done is one here."""
        with self._change:
            is_done = self._change.wait_for(lambda: not self._asked and self._since is None, seconds)
            if self._fault is not None:
                raise self._fault
            return is_done

    @property
    def busy(self) -> float:
        """For how many seconds it has been at one thing; 0: it has nothing to do."""
        since = self._since
        return 0.0 if since is None else time.monotonic() - since

    def _work(self) -> None:
        while True:
            with self._change:
                self._change.wait_for(lambda: self._asked or self._leaves)
                if self._leaves:
                    return
                what, self._since = self._asked.popleft(), time.monotonic()
            fault = fault_of(what)
            with self._change:
                self._since, self._fault = None, self._fault or fault
                self._change.notify_all()


def passed_on(goal: "BatchGoal", text: str, place: "QueueAddress", store: "Store") -> str:
    """Tell whoever works on a goal something, and return when that will be heard."""
    from ralph.core.errors import UsageError
    from ralph.queue.open import is_cut_off

    if goal.state == "done":
        remark = place.command("comment", goal.label, "'...'")
        raise UsageError(
            f"{goal.label} is done: nobody works on it any more",
            f"keep it as a remark: {remark}; or ask for it with another goal",
        )
    store.comment(goal, "user", text.strip())
    return written(_heard_when(goal, cut_off=is_cut_off(place, [goal]), paused=store.paused), place.flag)


def _heard_when(goal: "BatchGoal", *, cut_off: bool, paused: bool) -> tuple[NextStep, ...]:
    """When the agent of a goal hears what it is told: between two sessions, for none is interrupted for it."""
    from ralph.queue.goals import State

    match goal.state:
        case State.RUNNING if cut_off and goal.unmerged is not None:
            lead = "it was cut off at its merge, and is told only if that fails and it is tried again: "
            return (NextStep(lead, ("run",)),)
        case State.RUNNING if cut_off and paused:
            lead = "nobody serves the queue, which is paused; it is told when it goes on: "
            return NextStep(lead, ("resume",)), NextStep(", then: ", ("run",))
        case State.RUNNING if cut_off:
            return (NextStep("nobody serves the queue; it is told when it goes on: ", ("run",)),)
        case State.RUNNING if goal.unmerged is not None:
            return (NextStep("it is being merged, and told only if that fails and it is tried again"),)
        case State.RUNNING:
            told = (
                "the next session of its run is told, and asked to acknowledge it; the one at work is not interrupted"
            )
            return (NextStep(told),)
        case State.QUEUED if paused:
            return (NextStep("it is told when it starts; the queue is paused: ", ("resume",)),)
        case State.QUEUED:
            return (NextStep("it is told when it starts"),)
        case State.DRAFT:
            return (NextStep("it is told when it starts, which it may with: ", ("queue", goal.label)),)
        case _:
            return (NextStep(f"it is {goal.state}, and told when it is tried again: ", ("retry", goal.label)),)


def perform(deed: Deed, place: QueueAddress, store: Store) -> tuple[str, bool]:
    """Do it, and say what came of it, and whether that was a refusal."""
    try:
        return _perform(deed, place, store), False
    except RalphError as error:
        return f"{error.message}; {error.hint}" if error.hint else error.message, True


def _perform(deed: Deed, place: QueueAddress, store: Store) -> str:
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
