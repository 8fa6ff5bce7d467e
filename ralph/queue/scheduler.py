"""The queue worker: starts what may start, stops what must stop, until the queue is drained or somebody says so."""

import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from ralph.core.errors import Interrupted, QueueError
from ralph.core.guidance import Act
from ralph.core.reason import NO_REASON, Cause, Reason
from ralph.core.text import timestamp
from ralph.queue.admission import Admission
from ralph.queue.engine import WorkOnGoal, key
from ralph.queue.goals import (
    ACTIVE,
    LIMIT,
    USER,
    BatchGoal,
    State,
    batch_exit_code,
    startable,
    waits_in_vain,
)
from ralph.queue.news import PAUSED, Budget, NewsKind, Worked
from ralph.queue.open import EVERY_GOAL, Scope
from ralph.queue.stats import foretold
from ralph.queue.worker_state import MOMENT, BulletinWriter, WorkerContext
from ralph.state.inbox import Inbox
from ralph.system.signals import Signals

_PATIENCE = {1: 60.0, 2: 20.0}
"""Seconds that goals at work have to end, asked once and asked twice: an agent has 25 of them."""
_LAST_PUSH = 3.0
"""The same, asked twice, where nothing but merges is left: a push that hangs answers to nobody."""


@dataclass(frozen=True, slots=True)
class WorkOrder:
    """What a queue worker is to do."""

    slots: int
    until_drained: bool
    budget: Budget
    """What all goals together may use while it works."""
    scope: Scope = EVERY_GOAL
    """The goals that it works on."""
    named: frozenset[int] = frozenset()
    """The goals that the exit code is about; without any, all that it worked on."""
    is_watched: Callable[[], bool] = lambda: False
    """Whether somebody watches who may retry what is stuck: a drained queue with such goals stays open for that."""


class QueueWorker:
    """One per queue: see `open.sole_worker`."""

    def __init__(
        self,
        order: WorkOrder,
        context: WorkerContext,
        work_on: WorkOnGoal,
        *,
        admission: Admission,
        bulletin_writer: BulletinWriter,
        signals: Signals,
        still_sole: Callable[[], bool],
    ) -> None:
        self._order, self._work_on, self._admission, self._bulletin_writer = order, work_on, admission, bulletin_writer
        self._signals, self._still_sole = signals, still_sole
        self._store, self._engine, self._paths, self._repositories = (
            context.store, context.engine, context.paths, context.repositories,
        )  # fmt: skip
        self._gate, self._worker, self._rules, self._budget = (
            context.gate,
            context.worker,
            context.rules,
            context.budget,
        )
        self._worked: set[int] = set(order.named)
        self._passed_on: dict[int, int] = {}
        """The last of all comments when those on each goal were passed on."""
        self._active: set[int] = set()
        """The goals that were queued or running at the last turn, or when the work began."""
        self._asked_at = math.inf
        self._is_paused = False
        self._foretold_at = 0
        """How many goals were done when it was last foretold what the others take."""
        self._is_forewarned = False

    def work(self) -> Worked:
        """Work until the queue is drained, the budget spent or a signal came."""
        # Before anything goes on: what is taken up may have ended by the first turn, and its use counts.
        self._active = {goal.id for goal in self._store.active() if goal.state in ACTIVE}
        self._put_back()
        self._take_up(self._engine.launch(self._work_on))
        while True:
            goals = self._store.active()
            self._check_signals()
            self._apply_requests(goals)
            self._check_pause()
            self._check_budget(goals)
            self._bulletin_writer.post()
            running = {goal.id for goal in goals if goal.state is State.RUNNING}
            if not self._worker.ending:
                self._worked |= self._admission.turn_away(goals)
                running |= set() if self._is_paused else self._start(goals)
            self._worker.is_settled = not running and not self._worker.ending and self._is_drained(goals)
            if not running and (self._worker.ending or (self._worker.is_settled and not self._may_go_on())):
                return self._leave()
            if not running and not self._worker.is_settled and (late := self._out_of_time(goals)):
                self._worker.halt(late)
                continue  # which says so, and leaves
            if self._has_waited_enough(running):  # something hangs, a push say: the next start takes it up
                return self._leave()
            self._worker.woken.wait(MOMENT)
            self._worker.woken.clear()

    def _put_back(self) -> None:
        """Have attempts that were cut off wait, if the queue is paused or they are not for this worker.

        That comes before the engine takes them up. A merge that was cut off goes on: it may have reached its remote,
        and it runs no session.
        """
        is_paused = self._store.paused
        for goal in self._store.active():
            is_mine = self._order.scope.has(goal)
            if goal.state is not State.RUNNING or goal.unmerged is not None or (is_mine and not is_paused):
                continue
            if is_mine:
                self._worked.add(goal.id)
            why = Reason(cause=Cause.CUT_OFF if is_mine else Cause.OUT_OF_SCOPE)
            if self._store.move(goal, State.QUEUED, attempts=goal.attempts - 1, why=why) is State.QUEUED:
                self._worker.tell(NewsKind.REQUEUED, why, goal)

    def _take_up(self, unfinished: set[str]) -> None:
        """See to the goals that a worker which is gone had claimed: those that the engine knows go on by themselves."""
        for goal in self._store.active():
            if goal.state is not State.RUNNING:
                continue
            self._worked.add(goal.id)
            if key(goal) in unfinished:
                self._worker.tell(NewsKind.NOTE, "continues: its last worker was interrupted", goal)
            else:  # it was claimed, and no more
                attempts = goal.attempts - (0 if goal.unmerged else 1)
                self._store.move(goal, State.QUEUED, attempts=attempts, why=NO_REASON)

    def _check_signals(self) -> None:
        if self._signals.count:
            self._stop(min(self._signals.count, 2), "stopping")
        if self._worker.fault is None and not self._still_sole():
            self._worker.fault = QueueError("lost the lock of the queue: another worker may have it", "start again")
            self._stop(2, "")
        if self._worker.fault is not None:
            self._stop(1, f"stopping: {self._worker.fault.message}")

    def _stop(self, level: int, words: str) -> None:
        """Ask all work to end: 1 soon, 2 at once."""
        if level > self._worker.stop:
            self._worker.stop = level
            self._asked_at = time.monotonic()
            self._repositories.leave()
            self._worker.tell(
                NewsKind.NOTE, f"{words}; goals continue at the next start" if level == 1 else "stopping at once"
            )

    def _has_waited_enough(self, running: set[int]) -> bool:
        if not self._worker.ending:
            return False
        if running <= self._worker.parked:
            return True
        if not self._worker.stop:  # but the budget is used up: who is not asked to end may take his time
            asked = running - self._worker.merging.keys() - self._worker.spared
            return bool(asked) and time.monotonic() > self._asked_at + _PATIENCE[1]
        only_merges = self._worker.stop > 1 and running <= self._worker.merging.keys()
        patience = _LAST_PUSH if only_merges else _PATIENCE[self._worker.stop]
        return time.monotonic() > self._asked_at + patience

    def _apply_requests(self, goals: Sequence[BatchGoal]) -> None:
        """Pass on what the user has asked of goals that are at work, and see what he has tried again."""
        self._worker.cancelled = frozenset(goal.id for goal in goals if goal.cancelling)
        if blockers := set(self._gate.state()[1].values()):
            decided = (State.QUEUED, State.CANCELLED)
            self._gate.unblock_for({goal.id for goal in self._store.some(blockers) if goal.state in decided})
        running = {goal.id: goal for goal in goals if goal.state is State.RUNNING}
        self._pass_on_comments(running)
        self._wake(running)

    def _wake(self, running: Mapping[int, BatchGoal]) -> None:
        """Have goals go on that wait for a usage limit, and others of their accounts start."""
        for number in self._store.take_woken():
            if (goal := running.get(number)) is not None:
                self._gate.lift(self._admission.account(goal))
                self._worker.outlasted.clear()  # who could not have waited for it may have no need to
                Inbox(self._paths.run_directory(goal)).post(Act.WAKE, "", timestamp(time.time()))

    def _pass_on_comments(self, running: Mapping[int, BatchGoal]) -> None:
        """Send new comments of the user to running sessions; older ones are in their goals' texts."""
        heard = {
            number: max(last, self._passed_on.get(number, 0))
            for number, last in list(self._worker.heard.items())
            if number in running
        }
        comments = self._store.comments_after(min(heard.values())) if heard else []
        for comment in comments:
            if comment.author == USER and comment.id > heard.get(comment.goal, comment.id):
                directory = self._paths.run_directory(running[comment.goal])
                if not directory.is_dir():
                    del heard[comment.goal]  # its run is about to begin: the next time
                    continue
                Inbox(directory).post(Act.TELL, comment.text, timestamp(comment.at))
        if comments:
            self._passed_on |= {number: max(last, comments[-1].id) for number, last in heard.items()}

    def _check_pause(self) -> None:
        if (paused := self._store.paused) == self._is_paused:
            return
        self._is_paused = paused
        if paused:
            self._worker.tell(NewsKind.NOTE, PAUSED.lead, command=PAUSED.command)
        else:
            self._worker.tell(NewsKind.NOTE, "resumed")

    def _check_budget(self, goals: Sequence[BatchGoal]) -> None:
        """See what goals have used that their own events did not say, and how late it is."""
        active = {goal.id for goal in goals if goal.state in ACTIVE}
        self._budget.reckon([*goals, *self._store.some(self._active - active)])  # those that have ended since
        self._active = active
        if reached := self._budget.reached:
            self._worker.halt(reached, but=self._budget.taken_by)
        if not self._worker.over:
            self._foretell(goals)
        elif self._asked_at == math.inf:
            self._asked_at = time.monotonic()
            self._repositories.leave()
            later = "goals continue at the next start, with a new budget"
            words = later if self._has_more(goals) else "nothing more to do"
            self._worker.tell(NewsKind.BUDGET, self._worker.over, follow=f": stopping; {words}")

    def _has_more(self, goals: Sequence[BatchGoal]) -> bool:
        """Tell whether another start would find anything to do by itself."""
        at_work = any(goal.state is State.RUNNING for goal in goals)
        return at_work or bool(self._could_start(goals, self._admission.held_back(goals)))

    def _foretell(self, goals: Sequence[BatchGoal]) -> None:
        """Say once when the rest of the budget will probably not do: there is time to do something about it."""
        if self._is_forewarned or self._budget.whole == Budget():
            return
        if (done := self._store.counts().get(State.DONE, 0)) == self._foretold_at:
            return
        self._foretold_at = done
        elsewhere = {goal.id for goal in self._order.scope.elsewhere(goals)}
        mine = [goal for goal in goals if goal.id not in elsewhere]
        found = foretold(mine, self._store.figures(), self._bulletin_writer.bulletin())
        if found is not None and (short := found.exceeds(self._budget.left)):
            self._is_forewarned = True
            flags = " and ".join(f"--max-{measure}" for measure in short)
            self._worker.tell(NewsKind.NOTE, f"{flags} is probably not enough: {found.words}")

    def _start(self, goals: Sequence[BatchGoal]) -> set[int]:
        """Claim what may start, as far as there are slots; what only has to be merged needs none. Tell which did."""
        began: set[int] = set()
        running = {goal.id for goal in goals if goal.state is State.RUNNING}
        free = self._order.slots - len(running - self._worker.merging.keys())
        holds_back = self._admission.holding_back()
        ready = startable(goals, lambda goal: goal.id in self._worker.outlasted or holds_back(goal))
        proven = [goal for goal in goals if goal.state is State.RUNNING and self._is_proven(goal)]
        is_behind = self._admission.behind_with_merges([*proven, *filter(self._rules.merges_only, ready)])
        for goal in ready:
            merge_only = self._rules.merges_only(goal)
            if not merge_only and (free <= 0 or is_behind(goal)):
                continue
            changes: dict[str, object] = {"starts": goal.starts + 1, "why": NO_REASON}
            if not merge_only:
                changes |= {"attempts": goal.attempts + 1, "unmerged": None}
                if goal.unmerged is not None:  # that run is over: a new one follows, and pays from the rest
                    changes |= {"run": "", **goal.closed()}
            if self._store.move(goal, State.RUNNING, changes, as_seen=True):
                free -= not merge_only
                self._worked.add(goal.id)
                self._engine.start(self._store.goal(goal.id), merge_only=merge_only)
                began.add(goal.id)
        return began

    def _is_proven(self, goal: BatchGoal) -> bool:
        """Tell whether a goal that runs is past its attempt."""
        return goal.unmerged is not None or goal.id in self._worker.merging

    def _is_drained(self, goals: Sequence[BatchGoal]) -> bool:
        """Tell whether nothing of what is queued can start any more by itself."""
        return self._order.until_drained and not self._could_start(goals, self._admission.held_back(goals))

    def _in_vain(self, goals: Sequence[BatchGoal]) -> dict[int, BatchGoal]:
        """The goals of this worker that nothing it does will bring about, each with the goal that it waits for."""
        mine = {goal.id for goal in goals if self._order.scope.has(goal)}
        found = waits_in_vain(goals, self._admission.held_back(goals))
        return {number: parent for number, parent in found.items() if number in mine}

    def _may_go_on(self) -> bool:
        """Tell whether somebody watches who may retry what is stuck, or has just done so.

        That is a goal of this run, or what holds one up. Those are read first: a goal that is retried now is active.
        """
        if not self._order.is_watched():
            return False
        worked = self._store.some(self._worked)
        goals = self._store.active()
        in_the_way = self._in_vain(goals).values()
        is_stuck = any(goal.state is State.STUCK for goal in (*in_the_way, *worked))
        return is_stuck or not self._is_drained(goals)

    def _could_start(self, goals: Sequence[BatchGoal], held_back: Collection[int]) -> set[int]:
        """The queued goals that will start sooner or later, if those that are held back do not."""
        stays = {*held_back, *waits_in_vain(goals, held_back)}
        return {goal.id for goal in goals if goal.state is State.QUEUED} - stays

    def _out_of_time(self, goals: Sequence[BatchGoal]) -> Reason:
        """Why nothing that is queued can start before the time of the budget is over; empty: something can.

        Nobody is kept waiting for that: the time would be over, and nothing done. What serves a queue waits for more.
        """
        seconds = self._budget.left.seconds
        if seconds is None or not self._order.until_drained:
            return NO_REASON
        waits = {account: until for account, until in self._gate.state()[0].items() if until > time.time() + seconds}
        late = {
            goal.id for goal in goals if self._admission.account(goal) in waits and not self._rules.merges_only(goal)
        }
        if self._could_start(goals, {*self._admission.held_back(goals), *late, *self._worker.outlasted}):
            return NO_REASON
        who, until = min(waits.items(), key=lambda wait: wait[1], default=("", 0.0))
        return Reason(cause=Cause.TOO_LATE, limit="--max-time", who=who, until=until)

    def _leave(self) -> Worked:
        self._repositories.leave()
        over = self._over_in_the_end()
        goals = self._store.goals()
        known = {goal.id: goal for goal in goals}
        for number, blocker in self._admission.refused(goals).items():
            account = self._admission.account(known[number])
            why = Reason(cause=Cause.REFUSED_ACCOUNT, who=account, place=known[blocker].label)
            self._store.note(known[number], why=why)
            self._worker.tell(NewsKind.NOTE, why, known[number])
        for number, parent in self._in_vain(goals).items():
            words = f"waits for {parent.label} ({parent.name}), which is {parent.state}"
            is_elsewhere = parent.state is State.QUEUED and not self._order.scope.has(parent)
            words += " and belongs to another repository; work on both: " if is_elsewhere else ""
            command = ("run", "--all") if is_elsewhere else ()
            self._worker.tell(NewsKind.NOTE, words, known[number], command=command)
        if self._worker.fault is not None:
            raise self._worker.fault
        if (number := self._signals.first) is not None:
            return Worked(Interrupted(number).exit_code, over)
        if over and (self._has_more(goals) or not self._order.until_drained):
            return Worked(LIMIT, over)
        queued = (goal.id for goal in goals if goal.state is State.QUEUED and self._order.scope.has(goal))
        left = set[int]() if self._order.named else set(queued)
        return Worked(batch_exit_code(goal for goal in goals if goal.id in self._worked | left), over)

    def _over_in_the_end(self) -> Reason:
        """Why the budget has ended the work; what goals used until they had ended counts, and is in their rows, too."""
        if not (halted := self._worker.over):
            return NO_REASON
        goals = self._store.goals()
        self._budget.reckon(goals)
        over = self._budget.reached or halted
        for goal in goals:
            if goal.state is State.QUEUED and goal.why == halted != over:
                self._store.note(goal, why=over)
        return over
