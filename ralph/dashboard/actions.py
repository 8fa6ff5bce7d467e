"""Actions that the dashboard performs on its queue, in a thread of their own: a locked database delays neither frames
nor keys.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from types import TracebackType

from ralph.core.errors import RalphError, fault_of
from ralph.core.reason import NextStep, written
from ralph.dashboard.view import Action, Cancel, Leave, Pause, Quit, Retry, Suspend, Tell, Wake
from ralph.queue.goals import BatchGoal
from ralph.queue.open import QueueAddress, alone
from ralph.queue.store import Store

_LONGEST_END = 1.0
"""Seconds to wait at the end for an action in progress: another process may hold a lock for any time."""


class DatabaseThread:
    """Runs one action after the other in a thread of its own. Use as a context manager."""

    def __init__(self) -> None:
        self._asked: deque[Callable[[], None]] = deque()
        self._change = threading.Condition()
        self._since: float | None = None
        """When the current action started."""
        self._fault: Exception | None = None
        self._leaves = False
        self._thread = threading.Thread(target=self._work, name="database", daemon=True)

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
        """Wait at most this long for all actions; tell whether they are done. Raises the fault of a failed action."""
        with self._change:
            is_done = self._change.wait_for(lambda: not self._asked and self._since is None, seconds)
            if self._fault is not None:
                raise self._fault
            return is_done

    @property
    def busy(self) -> float:
        """Seconds that the current action has taken; 0: there is none."""
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
    """Leave a message for a goal's agent, and return when the agent will read it."""
    from ralph.core.errors import UsageError
    from ralph.queue.open import is_cut_off

    if goal.state == "done":
        remark = place.command("comment", goal.label, "'...'")
        raise UsageError(
            f"cannot tell {goal.label} anything: the goal is done",
            f"save it as a comment: {remark}; or add a new goal for it",
        )
    store.comment(goal, "user", text.strip())
    return written(_heard_when(goal, cut_off=is_cut_off(place, [goal]), paused=store.paused), place.flag)


def _heard_when(goal: "BatchGoal", *, cut_off: bool, paused: bool) -> tuple[NextStep, ...]:
    """Tell when a goal's agent reads a message: between two sessions, because a session is never interrupted for it."""
    from ralph.queue.goals import State

    match goal.state:
        case State.RUNNING if cut_off and goal.unmerged is not None:
            lead = "interrupted during its merge; the agent gets this only if the merge fails and the goal is retried: "
            return (NextStep(lead, ("run", "--all")),)
        case State.RUNNING if cut_off and paused:
            lead = "the queue has no worker and is paused; the agent gets this when the goal continues: "
            return NextStep(lead, ("resume",)), NextStep(", then: ", ("run", "--all"))
        case State.RUNNING if cut_off:
            return (
                NextStep("the queue has no worker; the agent gets this when the goal continues: ", ("run", "--all")),
            )
        case State.RUNNING if goal.unmerged is not None:
            return (NextStep("merging; the agent gets this only if the merge fails and the goal is retried"),)
        case State.RUNNING:
            told = "the next session gets this and is asked to acknowledge it; the current one is not interrupted"
            return (NextStep(told),)
        case State.QUEUED if paused:
            return (NextStep("the agent gets this when the goal starts; the queue is paused: ", ("resume",)),)
        case State.QUEUED:
            return (NextStep("the agent gets this when the goal starts"),)
        case State.DRAFT:
            return (NextStep("the agent gets this when the goal starts; queue it with: ", ("queue", goal.label)),)
        case _:
            return (
                NextStep(f"the goal is {goal.state}; the agent gets this when you retry it: ", ("retry", goal.label)),
            )


def perform(action: Action, place: QueueAddress, store: Store) -> tuple[str, bool]:
    """Perform an action; return what happened, and whether it was refused."""
    try:
        return _perform(action, place, store), False
    except RalphError as error:
        return f"{error.message}; {error.hint}" if error.hint else error.message, True


def _perform(action: Action, place: QueueAddress, store: Store) -> str:
    match action:
        case Cancel(number):
            with alone(place, store) as cut_off:
                goal = store.cancel(store.goal(number), alone=cut_off)
            return f"{_named(goal)}: {'cancelling' if goal.cancelling else goal.state}"
        case Retry(number):
            return f"{_named(store.retry(store.goal(number)))}: queued again"
        case Wake(number):
            goal = store.goal(number)
            store.wake([goal])
            return f"{_named(goal)}: woken"
        case Tell(number, text):
            goal = store.goal(number)
            return f"{_named(goal)}: {passed_on(goal, text, place, store)}"
        case Pause(paused):
            store.pause(paused=paused)
            return "paused: running goals continue, nothing new starts; p resumes" if paused else "resumed"
        case Leave() | Quit() | Suspend():  # they do not concern the queue
            return ""


def _named(goal: BatchGoal) -> str:
    return f"{goal.label} {goal.name}"
