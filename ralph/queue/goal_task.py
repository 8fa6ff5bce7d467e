"""What happens to one goal: an attempt, then its merge, each a durable step; and what its row says afterwards."""

import threading
import traceback
from collections.abc import Mapping
from dataclasses import replace

from ralph.core.errors import DiskError, ExitCode, QueueError, RalphError
from ralph.core.reason import NO_REASON, Cause, Reason
from ralph.core.records import from_record, to_record
from ralph.queue.attempt import AttemptTask
from ralph.queue.child import AttemptResult
from ralph.queue.discard import discard
from ralph.queue.goals import (
    AttemptEnd,
    BatchGoal,
    Fate,
    MergeMode,
    State,
    failures_of,
    fate,
    has_stalled,
    retry_or_stuck,
)
from ralph.queue.merge.task import MergeFate, MergeResult, MergeTask, recorded_merge
from ralph.queue.news import NewsKind
from ralph.queue.repos.goal_refs import release
from ralph.queue.worker_state import BLOCKING, WorkerContext
from ralph.system.files import make_private_directory, replace_file
from ralph.system.notify import Occasion, occasion_of


class GoalTask:
    """Works on goals that were claimed, each in the thread that calls it."""

    def __init__(self, context: WorkerContext) -> None:
        self._attempts, self._merges = AttemptTask(context), MergeTask(context)
        self._store, self._engine, self._paths, self._repositories = (
            context.store, context.engine, context.paths, context.repositories,
        )  # fmt: skip
        self._gate, self._worker, self._rules = context.gate, context.worker, context.rules

    def work_on(self, number: int, start: int, merge_only: bool) -> None:
        """Do what is to be done for a goal. Which steps there are depends on nothing but the steps' own records."""
        try:
            goal = self._store.goal(number)
            if goal.state is State.RUNNING and goal.starts == start:  # else its row was written, and nothing is left
                self._carry_out(goal, merge_only)
        except (DiskError, QueueError) as error:
            self._park(number, error)
        except OSError as error:
            self._park(number, DiskError(error.filename or self._paths.root, error))
        except Exception as error:  # a bug: nobody else would take the goal out of its state
            try:
                self._give_up(number, start, error)
            except RalphError as worse:
                self._park(number, worse)
        finally:
            self._worker.wake()

    def _park(self, number: int, fault: RalphError) -> None:
        """Stop here for good, for what follows could not be written down; the next start goes on from the last step."""
        self._worker.fault = fault
        self._worker.parked.add(number)
        self._worker.wake()
        threading.Event().wait()

    def _carry_out(self, goal: BatchGoal, merge_only: bool) -> None:
        if merge_only:
            outcome = from_record(AttemptResult, goal.unmerged)
        else:
            try:
                record = self._engine.step("attempt", lambda: to_record(self._attempts.attempt(goal)))
                outcome = from_record(AttemptResult, record)
                # Of what is to be merged the row tells already, where a worker was killed at that.
                decided = Fate.MERGE if goal.unmerged is not None else self._after_attempt(goal, outcome)
            finally:
                self._worker.live.pop(goal.id, None)
            if decided is not Fate.MERGE:
                return
        goal = self._store.goal(goal.id)  # with what it has cost by now
        record = self._engine.step("merge", lambda: self._merges.merge(goal, outcome).record())
        self._after_merge(goal, recorded_merge(record))

    def _after_attempt(self, goal: BatchGoal, outcome: AttemptResult) -> Fate:
        """Write down what an attempt has come to."""
        before = goal.before(outcome.run)
        # What had no child, or is not known of one, was at no other run; what that one said itself is written already.
        facts: dict[str, object] = {"run": outcome.run, **before} if outcome.run else {}
        if outcome.cost_usd is not None:
            facts |= {"cost_usd": before["spent_usd"] + outcome.cost_usd, "costed": True}
        if outcome.tokens is not None:
            facts |= {"tokens": before["spent_tokens"] + outcome.tokens, "counted": True}
        if outcome.seconds:
            facts["seconds"] = outcome.seconds
        facts["iterations"] = goal.iterations + outcome.iterations
        stopped = self._worker.requests(goal) > 0
        asked = stopped or outcome.lent or self._worker.fault is not None  # which is nobody's doing here
        stalled = outcome.exit_code == ExitCode.STALLED and has_stalled(goal, self._store.comments(goal))
        decided = fate(goal, AttemptEnd(outcome.exit_code, outcome.iterations, asked=asked, has_stalled=stalled))
        match decided:
            case Fate.MERGE:
                self._store.note(goal, unmerged=to_record(outcome), **facts)
            case Fate.REQUEUE:
                killed = 0 if outcome.iterations or asked else goal.killed + 1
                # Whatever signal that took; where it was the budget, that is said instead.
                why = (self._worker.over or Reason(cause=Cause.STOPPED)) if stopped else outcome.known
                facts |= {"attempts": goal.attempts - 1, "killed": killed, "why": why}
                became = self._store.move(goal, State.QUEUED, facts)
                self._tell(goal, became, why, follow="; it continues where it was")
            case Fate.RETRY | Fate.STUCK:
                event = occasion_of(outcome.exit_code) or Occasion.STUCK
                if outcome.end in BLOCKING and not self._gate.block(outcome.account, goal.id):
                    event = None  # another goal of that account has met it, and that was said
                said = f"Attempt {goal.attempts} ended with exit code {outcome.exit_code}: {outcome.reason}"
                if outcome.dossier and decided is Fate.RETRY:
                    said += f"\n\n{outcome.dossier}"
                elif outcome.check:
                    said += f"\n\nThe check was red:\n{outcome.check}"
                failure = replace(outcome.known, iterations=outcome.used_iterations)
                self._charge(goal, decided, outcome.known, said, facts, event, failure=failure)
                if decided is Fate.STUCK and outcome.hint:
                    retry = ("retry", goal.label)
                    self._worker.tell(NewsKind.NOTE, f"{outcome.hint}, then ", goal, command=retry)
        return decided

    def _after_merge(self, goal: BatchGoal, merged: MergeResult) -> None:
        match merged.what:
            case MergeFate.DONE:
                self._tidy_up(goal)
                if self._store.move(goal, State.DONE, why=merged.why, unmerged=None):
                    self._worker.tell(NewsKind.DONE, merged.why, goal, Occasion.DONE)
            case MergeFate.FAILED:
                # The run that is to be merged is over: what comes next is another, and pays from what this one left.
                facts = {"unmerged": None, "run": "", **goal.closed()}
                self._charge(goal, retry_or_stuck(goal), merged.why, merged.log, facts)
            case MergeFate.HELD:
                self._charge(goal, Fate.STUCK, merged.why, merged.log, {})
            case MergeFate.STOPPED:
                became = self._store.move(goal, State.QUEUED, why=merged.why)
                self._tell(goal, became, merged.why, follow="; it will be merged at the next start")

    def _charge(
        self,
        goal: BatchGoal,
        decided: Fate,
        why: Reason,
        log: str,
        facts: Mapping[str, object],
        event: Occasion | None = Occasion.STUCK,
        *,
        failure: Reason = NO_REASON,
    ) -> None:
        """Have a goal pay for an attempt: another one, or it is stuck; either way the reason is kept as a comment."""
        to = State.QUEUED if decided is Fate.RETRY else State.STUCK
        before = failures_of(self._store.comments(goal))[-1:]
        became = self._store.move(goal, to, facts, comment=log, failure=failure, why=why, killed=0)
        is_known = decided is Fate.RETRY and goal.attempt > 1 and [each.why.said for each in before] == [failure.said]
        said = "it failed in the same way again" if is_known and failure.said else why
        self._tell(self._store.goal(goal.id), became, said, retry=True, event=event)  # with what it has cost

    def _tell(
        self,
        goal: BatchGoal,
        became: State | None,
        why: Reason | str,
        *,
        follow: str = "",
        retry: bool = False,
        event: Occasion | None = Occasion.STUCK,
    ) -> None:
        """Say what a goal that ran has become; nothing if somebody else has decided that."""
        match became:
            case State.CANCELLED:
                branch = self._store.goal(goal.id).branch
                self._worker.tell(NewsKind.CANCELLED, f"its commits are kept on {branch} in the mirror", goal)
            case State.QUEUED:
                self._worker.tell(NewsKind.RETRY if retry else NewsKind.REQUEUED, why, goal, follow=follow)
            case State.STUCK:
                self._worker.tell(NewsKind.STUCK, why, goal, event)
            case _:
                pass

    def _tidy_up(self, goal: BatchGoal) -> None:
        """Remove the clone of a goal that is done, where all of it is safe elsewhere."""
        mirror, clone = self._repositories.known(goal.repo).mirror, self._paths.clone(goal)
        try:
            kept = discard(mirror, clone, goal.branch)
            if goal.merge is MergeMode.DIRECT:
                mirror.retire(goal.branch, self._paths.git_name(goal))
                release(mirror, goal.branch)
        except (RalphError, OSError, ValueError) as error:  # it is merged, whatever an agent has made of its clone
            kept = f"{type(error).__name__}: {error}"
        if kept:
            words = f"its clone stays: {clone}: {kept}; remove it anyway with: "
            self._worker.tell(NewsKind.NOTE, words, goal, command=("gc", "--force", goal.label))

    def _give_up(self, number: int, start: int, error: Exception) -> None:
        goal = self._store.goal(number)
        make_private_directory(self._paths.folder(goal))
        file = self._paths.folder(goal) / f"bug-{start}.log"
        replace_file(file, "".join(traceback.format_exception(error)))
        why = Reason(cause=Cause.BUG, detail=f"{type(error).__name__}: {error}", place=str(file))
        if goal.state is State.RUNNING and goal.starts == start:
            self._charge(goal, Fate.STUCK, why, why.detail, {})
        else:
            self._worker.tell(NewsKind.NOTE, why, goal)
