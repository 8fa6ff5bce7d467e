"""A goal's attempt, from the slot that it waits for to what its child is heard to say."""

import contextlib
import time
from collections.abc import Generator, Iterator
from dataclasses import replace

from ralph.core.errors import DiskError, QueueError, RalphError, RepoError
from ralph.core.failures import End
from ralph.core.limits import Limit, limit_reached
from ralph.core.status import RunStatus
from ralph.core.usage import Spend
from ralph.git.command import GitKilled
from ralph.queue.budget import Share, share_of_goal
from ralph.queue.child import AttemptKit, AttemptResult, hold_attempt, unheard_end
from ralph.queue.goals import LIMIT, MOST_ATTEMPTS, RALPH, STOPPED, BatchGoal, CommentKind
from ralph.queue.merge.trees import Updated, bring_up_to_date
from ralph.queue.news import NewsKind
from ralph.queue.repos.goal_refs import reserve, take_up_state
from ralph.queue.repos.prefetch import Repository
from ralph.queue.run_events import RunEvents, used_in_all
from ralph.queue.worker_state import MOMENT, Live, WorkerKit
from ralph.system import clock


class AttemptTask:
    """Holds attempts, each in the thread that calls it."""

    def __init__(self, kit: WorkerKit) -> None:
        self._store, self._premises, self._repositories = kit.store, kit.premises, kit.repositories
        self._controls, self._rules, self._purse = kit.controls, kit.rules, kit.purse
        self._heard = RunEvents(kit)

    def attempt(self, goal: BatchGoal) -> AttemptResult:
        """Hold one attempt, if need be after a wait for a slot. A fault is an outcome: it is what the step records."""
        try:
            with self._slot(goal) as free:
                if not free:
                    return AttemptResult(STOPPED, "stopped before it started")
                started = clock.monotonic_with_sleep()
                outcome = self._hold(goal)
                return replace(outcome, seconds=round(goal.seconds + clock.monotonic_with_sleep() - started, 3))
        except (DiskError, QueueError) as error:
            self._controls.fault = error  # not the goal's doing: all stops, and goes on at the next start
            return AttemptResult(STOPPED, error.message)
        except OSError as error:  # nor that: no descriptor is left, say
            self._controls.fault = DiskError(error.filename or self._premises.root, error)
            return AttemptResult(STOPPED, self._controls.fault.message)
        except GitKilled as error:  # nor that; whoever kills it, it is tried again
            return AttemptResult(STOPPED, error.message)
        except RalphError as error:
            return AttemptResult(error.exit_code, error.message)

    @contextlib.contextmanager
    def _slot(self, goal: BatchGoal) -> Generator[bool]:
        """Wait for a slot: there are only fewer than goals at work where a worker began with fewer than the last."""
        free = False
        while not self._controls.requests(goal) and not free:
            free = self._controls.slots.acquire(timeout=MOMENT)
        try:
            yield free
        finally:
            if free:
                self._controls.slots.release()

    def _hold(self, goal: BatchGoal) -> AttemptResult:
        repository = self._repositories.known(goal.repo)
        goal = self._with_own_branch(goal, repository)
        repository.mirror.clone(self._premises.clone(goal), goal.branch)
        take_up_state(repository.mirror, goal.branch, self._premises.run_directory(goal))
        kit = AttemptKit(
            mirror=repository.mirror,
            premises=self._premises,
            env=self._rules.env,
            flags=["--trust-envrc"] if goal.trust_envrc else [],
            stop_requests=lambda: self._controls.requests(goal),
            observe=lambda event, stands: self._heard.observe(goal, event, stands),
            at_work=lambda child: self._controls.at_work(goal, child),
        )
        if (over := unheard_end(goal, kit)) is not None:
            if over.cost_usd is not None and over.tokens is not None:
                self._purse.found(goal.id, used_in_all(goal, over.run, over.cost_usd, over.tokens))
            return over
        if goal.attempts > 1:
            self._bring_up_to_date(goal, repository)
        share = share_of_goal(goal, self._purse.lend(goal.id), self._premises, self._rules.env)
        if share.used_up:
            return AttemptResult(LIMIT, limit_reached(share.used_up))
        kit = replace(kit, flags=[*kit.flags, *share.flags])
        number = f", attempt {goal.attempt} of {MOST_ATTEMPTS}" if goal.attempt > 1 else ""
        self._controls.tell(NewsKind.STARTED, f"on {goal.branch}{number}", goal)
        used = Spend(goal.cost_usd, goal.tokens)
        self._controls.live[goal.id] = Live(
            RunStatus("starting"), goal.cost_usd, goal.tokens, time.time(), used, goal.seconds
        )
        comments = self._store.comments(goal)
        self._controls.heard[goal.id] = comments[-1].id if comments else 0
        try:
            outcome = hold_attempt(goal, comments, kit)
        finally:
            del self._controls.heard[goal.id]
            self._controls.spared.discard(goal.id)
        if outcome.not_before is not None and outcome.end == End.USAGE_LIMIT:
            self._heard.hold_back(
                goal, NewsKind.NOTE, "its usage limit lasts longer than it may take", outcome.not_before
            )
        return self._judged_by(share, goal, outcome)

    def _judged_by(self, share: Share, goal: BatchGoal, outcome: AttemptResult) -> AttemptResult:
        """Tell a limit that is the budget's from the goal's own: with what is left for all, if anything, it goes on."""
        if outcome.exit_code != LIMIT or outcome.limit not in share.lent:
            return outcome
        why = "its share of the budget is used up"
        if outcome.limit == Limit.DURATION:  # and what is left of it only grows less
            self._controls.outlasted.add(goal.id)
            why = "it cannot go on within --max-time"
        return replace(outcome, exit_code=STOPPED, reason=why, lent=True)

    def _with_own_branch(self, goal: BatchGoal, repository: Repository) -> BatchGoal:
        """See to it that no goal of another queue, which shares the mirror, works on the same branch."""
        owner = self._premises.git_name(goal)
        if reserve(repository.mirror, goal.branch, owner):
            return goal
        branch = f"{goal.branch}-{self._store.queue_id}"
        if not reserve(repository.mirror, branch, owner):
            raise RepoError(f"{goal.branch} and {branch} are other goals' in the mirror", "name another with `branch:`")
        self._controls.tell(NewsKind.NOTE, f"{goal.branch} is another queue's: works on {branch}", goal)
        self._store.note(goal, branch=branch)
        return replace(goal, branch=branch)

    def _bring_up_to_date(self, goal: BatchGoal, repository: Repository) -> None:
        updated = bring_up_to_date(repository.mirror, self._premises.clone(goal), goal.branch)
        if updated.in_the_way:
            self._controls.tell(NewsKind.NOTE, f"works on without what is new on its base: {updated.in_the_way}", goal)
        if not updated.conflicts and not updated.replaced:
            return
        before = [comment.text for comment in self._store.comments(goal) if comment.author == RALPH]
        told = "\n\n".join([*before[-1:], *_conflicts(updated)])
        if told not in before:  # a worker may have been cut off here
            self._store.comment(goal, RALPH, told, CommentKind.CONFLICTS)


def _conflicts(updated: Updated) -> Iterator[str]:
    """What both sides have changed, for the agent to put right."""
    yield "The base branch was merged into the working tree."
    if updated.conflicts:
        yield (
            "These files have conflicts in them, marked with <<<<<<< and >>>>>>>: resolve them first, so that what both"
            " sides intended holds."
        )
        yield "\n".join(updated.conflicts)
    if updated.replaced:
        yield (
            "These have no lines that could be merged, and are now as they are on the base; `git show"
            f" {updated.tip}^:PATH` is what this branch had there. See that what both sides intended holds."
        )
        yield "\n".join(updated.replaced)
