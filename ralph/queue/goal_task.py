"""What happens to one goal: an attempt, then its merge, each a durable step; and what its row says afterwards."""

import threading
import traceback
from collections.abc import Mapping

from ralph.core.errors import DiskError, QueueError, RalphError
from ralph.core.reason import NO_REASON, Cause, Reason, earlier_reason
from ralph.core.records import from_record, to_record
from ralph.queue.attempt import AttemptTask
from ralph.queue.child import AttemptResult
from ralph.queue.discard import discard
from ralph.queue.goals import LIMIT, AttemptEnd, BatchGoal, Fate, MergeMode, State, fate, retry_or_stuck
from ralph.queue.merge.task import MergeFate, MergeResult, MergeTask
from ralph.queue.news import NewsKind
from ralph.queue.repos.goal_refs import release
from ralph.queue.worker_state import BLOCKING, WorkerKit
from ralph.system.files import make_private_directory, replace_file
from ralph.system.notify import Occasion, occasion_of


class GoalTask:
    """Works on goals that were claimed, each in the thread that calls it."""

    def __init__(self, kit: WorkerKit) -> None:
        self._trying, self._lanes = AttemptTask(kit), MergeTask(kit)
        self._store, self._engine, self._premises, self._repositories = (
            kit.store, kit.engine, kit.premises, kit.repositories,
        )  # fmt: skip
        self._gate, self._controls, self._rules = kit.gate, kit.controls, kit.rules

    def pursue(self, number: int, start: int, merge_only: bool) -> None:
        """Do what is to be done for a goal. Which steps there are depends on nothing but the steps' own records."""
        try:
            goal = self._store.goal(number)
            if goal.state is State.RUNNING and goal.starts == start:  # else its row was written, and nothing is left
                self._carry_out(goal, merge_only)
        except (DiskError, QueueError) as error:
            self._park(number, error)
        except OSError as error:
            self._park(number, DiskError(error.filename or self._premises.root, error))
        except Exception as error:  # a bug: nobody else would take the goal out of its state
            try:
                self._give_up(number, start, error)
            except RalphError as worse:
                self._park(number, worse)
        finally:
            self._controls.wake()

    def _park(self, number: int, fault: RalphError) -> None:
        """Stop here for good, for what follows could not be written down; the next start goes on from the last step."""
        self._controls.fault = fault
        self._controls.parked.add(number)
        self._controls.wake()
        threading.Event().wait()

    def _carry_out(self, goal: BatchGoal, merge_only: bool) -> None:
        if merge_only:
            outcome = from_record(AttemptResult, goal.unmerged)
        else:
            try:
                record = self._engine.step("attempt", lambda: to_record(self._trying.attempt(goal)))
                outcome = from_record(AttemptResult, record)
                # Of what is to be merged the row tells already, where a worker was killed at that.
                decided = Fate.MERGE if goal.unmerged is not None else self._after_attempt(goal, outcome)
            finally:
                self._controls.live.pop(goal.id, None)
            if decided is not Fate.MERGE:
                return
        goal = self._store.goal(goal.id)  # with what it has cost by now
        record = self._engine.step("merge", lambda: to_record(self._lanes.land(goal, outcome)))
        earlier = {"cause": earlier_reason(str(record.get("reason"))).cause}  # for a step that wrote the line alone
        self._after_merge(goal, from_record(MergeResult, {**earlier, **record}))

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
        stopped = self._controls.requests(goal) > 0
        asked = stopped or outcome.lent or self._controls.fault is not None  # which is nobody's doing here
        decided = fate(goal, AttemptEnd(outcome.exit_code, outcome.reason, outcome.iterations, asked=asked))
        match decided:
            case Fate.MERGE:
                self._store.note(goal, unmerged=to_record(outcome), **facts)
            case Fate.REQUEUE:
                killed = 0 if outcome.iterations or asked else goal.killed + 1
                # Whatever signal that took; where it was the budget, that is said instead.
                why = (self._controls.over or Reason("stopped")) if stopped else Reason(outcome.reason)
                facts |= {"attempts": goal.attempts - 1, "killed": killed, "why": why}
                became = self._store.move(goal, State.QUEUED, facts)
                self._tell(goal, became, f"{why.line}; it goes on where it was")
            case Fate.RETRY | Fate.STUCK:
                event = occasion_of(outcome.exit_code) or Occasion.STUCK
                if outcome.end in BLOCKING and not self._gate.block(outcome.account, goal.id):
                    event = None  # another goal of that account has met it, and that was said
                said = f"Attempt {goal.attempts} ended with exit code {outcome.exit_code}: {outcome.reason}"
                if outcome.check:
                    said += f"\n\nThe check was red:\n{outcome.check}"
                limited = Reason(outcome.reason, Cause.LIMIT, outcome.limit)
                why = limited if outcome.exit_code == LIMIT else Reason(outcome.reason)
                self._charge(goal, decided, why, said, facts, event, failure=why)
                if decided is Fate.STUCK and outcome.hint:
                    todo = outcome.hint.removesuffix("run this again")
                    self._controls.tell(NewsKind.NOTE, todo, goal, command=("retry", goal.label))
        return decided

    def _after_merge(self, goal: BatchGoal, landing: MergeResult) -> None:
        match landing.what:
            case MergeFate.DONE:
                self._tidy_up(goal)
                if self._store.move(goal, State.DONE, why=landing.why, unmerged=None):
                    self._controls.tell(NewsKind.DONE, landing.reason, goal, Occasion.DONE)
            case MergeFate.FAILED:
                # The run that is to be merged is over: what comes next is another, and pays from what this one left.
                facts = {"unmerged": None, "run": "", **goal.closed()}
                self._charge(goal, retry_or_stuck(goal), landing.why, landing.log or landing.reason, facts)
            case MergeFate.HELD:
                self._charge(goal, Fate.STUCK, landing.why, landing.reason, {})
            case MergeFate.STOPPED:
                became = self._store.move(goal, State.QUEUED, why=landing.why)
                self._tell(goal, became, f"{landing.reason}; it is merged at the next start")

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
        became = self._store.move(goal, to, facts, comment=log, failure=failure, why=why, killed=0)
        self._tell(self._store.goal(goal.id), became, why.line, retry=True, event=event)  # with what it has cost

    def _tell(
        self,
        goal: BatchGoal,
        became: State | None,
        words: str,
        *,
        retry: bool = False,
        event: Occasion | None = Occasion.STUCK,
    ) -> None:
        """Say what a goal that ran has become; nothing if somebody else has decided that."""
        match became:
            case State.CANCELLED:
                branch = self._store.goal(goal.id).branch
                self._controls.tell(
                    NewsKind.CANCELLED, f"what it has committed is kept on {branch}, in the mirror", goal
                )
            case State.QUEUED:
                self._controls.tell(NewsKind.RETRY if retry else NewsKind.REQUEUED, words, goal)
            case State.STUCK:
                self._controls.tell(NewsKind.STUCK, words, goal, event)
            case _:
                pass

    def _tidy_up(self, goal: BatchGoal) -> None:
        """Remove the clone of a goal that is done, where all of it is safe elsewhere."""
        mirror, clone = self._repositories.known(goal.repo).mirror, self._premises.clone(goal)
        try:
            kept = discard(mirror, clone, goal.branch)
            if self._rules.mode(goal) is MergeMode.DIRECT:
                mirror.retire(goal.branch, self._premises.git_name(goal))
                release(mirror, goal.branch)
        except (RalphError, OSError, ValueError) as error:  # it is merged, whatever an agent has made of its clone
            kept = f"{type(error).__name__}: {error}"
        if kept:
            words = f"its clone stays: {clone}: {kept}; remove it all the same with: "
            self._controls.tell(NewsKind.NOTE, words, goal, command=("gc", "--force", goal.label))

    def _give_up(self, number: int, start: int, error: Exception) -> None:
        goal = self._store.goal(number)
        make_private_directory(self._premises.papers(goal))
        file = self._premises.papers(goal) / f"bug-{start}.log"
        replace_file(file, "".join(traceback.format_exception(error)))
        reason = f"a bug in ralph: {type(error).__name__}: {error}; see {file}"
        if goal.state is State.RUNNING and goal.starts == start:
            self._charge(goal, Fate.STUCK, Reason(reason), reason, {})
        else:
            self._controls.tell(NewsKind.NOTE, reason, goal)
