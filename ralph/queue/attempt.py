"""A goal's attempt, from the slot that it waits for to what its child is heard to say."""

import contextlib
import time
from collections.abc import Generator, Iterator
from dataclasses import replace

from ralph.config.settings import ITERATIONS_BEFORE
from ralph.core.errors import DiskError, QueueError, RalphError, RepoError
from ralph.core.failures import End
from ralph.core.limits import Limit, limit_reached
from ralph.core.reason import Cause, Reason
from ralph.core.status import RunStatus
from ralph.core.usage import Spend
from ralph.git.command import GitKilled
from ralph.queue.budget import Share, share_of_goal
from ralph.queue.child import AttemptContext, AttemptResult, missed_end, run_attempt
from ralph.queue.goals import LIMIT, MOST_ATTEMPTS, RALPH, STOPPED, BatchGoal, CommentKind, failures_of
from ralph.queue.merge.trees import Updated, bring_up_to_date
from ralph.queue.news import NewsKind
from ralph.queue.repos.goal_refs import reserve, take_up_state
from ralph.queue.repos.prefetch import Repository
from ralph.queue.run_events import RunEvents, used_in_all
from ralph.queue.worker_state import MOMENT, Live, WorkerContext
from ralph.system import clock


class AttemptTask:
    """Holds attempts, each in the thread that calls it."""

    def __init__(self, context: WorkerContext) -> None:
        self._store, self._paths, self._repositories = context.store, context.paths, context.repositories
        self._worker, self._rules, self._budget = context.worker, context.rules, context.budget
        self._heard = RunEvents(context)

    def attempt(self, goal: BatchGoal) -> AttemptResult:
        """Hold one attempt, if need be after a wait for a slot. A fault is an outcome: it is what the step records."""
        try:
            with self._slot(goal) as free:
                if not free:
                    return AttemptResult(STOPPED, "", cause=Cause.STOPPED)
                started = clock.monotonic_with_sleep()
                outcome = self._hold(goal)
                return replace(outcome, seconds=round(goal.seconds + clock.monotonic_with_sleep() - started, 3))
        except (DiskError, QueueError) as error:
            self._worker.fault = error  # not the goal's fault: everything stops, and continues at the next start
            return AttemptResult(STOPPED, error.message)
        except OSError as error:  # nor that: no descriptor is left, say
            self._worker.fault = DiskError(error.filename or self._paths.root, error)
            return AttemptResult(STOPPED, self._worker.fault.message)
        except GitKilled as error:  # nor that; a killed git is retried
            return AttemptResult(STOPPED, error.message)
        except RalphError as error:
            return AttemptResult(error.exit_code, error.message, hint=error.hint)

    @contextlib.contextmanager
    def _slot(self, goal: BatchGoal) -> Generator[bool]:
        """Wait for a slot: there are only fewer than goals at work where a worker began with fewer than the last."""
        free = False
        while not self._worker.requests(goal) and not free:
            free = self._worker.slots.acquire(timeout=MOMENT)
        try:
            yield free
        finally:
            if free:
                self._worker.slots.release()

    def _hold(self, goal: BatchGoal) -> AttemptResult:
        repository = self._repositories.known(goal.repo)
        goal = self._with_own_branch(goal, repository)
        self._make_clone(goal, repository)
        take_up_state(repository.mirror, goal.branch, self._paths.run_directory(goal))
        context = AttemptContext(
            mirror=repository.mirror,
            paths=self._paths,
            env=self._rules.env,
            flags=["--trust-envrc"] if goal.trust_envrc else [],
            stop_requests=lambda: self._worker.requests(goal),
            observe=lambda event, stands: self._heard.observe(goal, event, stands),
            at_work=lambda child: self._worker.at_work(goal, child),
        )
        if (over := missed_end(goal, context)) is not None:
            if over.cost_usd is not None and over.tokens is not None:
                self._budget.found(goal.id, used_in_all(goal, over.run, over.cost_usd, over.tokens))
            return over
        if goal.attempts > 1:
            self._bring_up_to_date(goal, repository)
        share = share_of_goal(goal, self._budget.lend(goal.id), self._paths, self._rules.env)
        if share.used_up:
            return AttemptResult(LIMIT, limit_reached(share.used_up), limit=share.limit or "")
        context = replace(context, flags=[*context.flags, *share.flags])
        number = f", attempt {goal.attempt} of {MOST_ATTEMPTS}" if goal.attempt > 1 else ""
        self._worker.tell(NewsKind.STARTED, f"on {goal.branch}{number}", goal)
        self._worker.live[goal.id] = _live(goal, RunStatus("starting"), time.time())
        comments = self._store.comments(goal)
        # The limit on iterations is for each attempt, but all attempts continue one run.
        if goal.run and (failed := failures_of(comments)):
            before = {ITERATIONS_BEFORE: str(failed[-1].why.iterations)}
            context = replace(context, env={**self._rules.env, **before})
        self._worker.heard[goal.id] = comments[-1].id if comments else 0
        try:
            outcome = run_attempt(goal, comments, context)
        finally:
            del self._worker.heard[goal.id]
            self._worker.spared.discard(goal.id)
        if outcome.not_before is not None and outcome.end == End.USAGE_LIMIT:
            self._heard.hold_back(
                goal, NewsKind.NOTE, "the usage limit resets after the goal's --duration", outcome.not_before
            )
        return self._judged_by(share, goal, outcome)

    def _make_clone(self, goal: BatchGoal, repository: Repository) -> None:
        """Make the clone to work in; the goal's row says how far that is."""
        started = time.time()

        def show(far: str) -> None:
            words = ": ".join(filter(None, ["cloning", far]))
            self._worker.live[goal.id] = _live(goal, RunStatus(words), started)

        with self._worker.task(f"cloning {repository.mirror.upstream.shown}", show, goal) as report:
            repository.mirror.clone(self._paths.clone(goal), goal.branch, report)

    def _judged_by(self, share: Share, goal: BatchGoal, outcome: AttemptResult) -> AttemptResult:
        """Separate the budget's limit from the goal's own: the goal continues with the rest of the budget, if any."""
        if outcome.exit_code != LIMIT or outcome.limit not in share.lent:
            return outcome
        if outcome.limit == Limit.DURATION:  # and the remaining time only shrinks
            self._worker.outlasted.add(goal.id)
            return replace(outcome, exit_code=STOPPED, reason="", limit="--max-time", lent=True, cause=Cause.TOO_LATE)
        return replace(outcome, exit_code=STOPPED, reason="", lent=True, cause=Cause.SHARE)

    def _with_own_branch(self, goal: BatchGoal, repository: Repository) -> BatchGoal:
        """See to it that no goal of another queue, which shares the mirror, works on the same branch."""
        owner = self._paths.git_name(goal)
        if reserve(repository.mirror, goal.branch, owner):
            return goal
        branch = f"{goal.branch}-{self._store.queue_id}"
        if not reserve(repository.mirror, branch, owner):
            raise RepoError(
                f"both {goal.branch} and {branch} belong to other goals", "choose another branch with `branch:`"
            )
        self._worker.tell(NewsKind.NOTE, f"{goal.branch} belongs to another queue: using {branch}", goal)
        self._store.note(goal, branch=branch)
        return replace(goal, branch=branch)

    def _bring_up_to_date(self, goal: BatchGoal, repository: Repository) -> None:
        updated = bring_up_to_date(repository.mirror, self._paths.clone(goal), goal.branch)
        if updated.in_the_way:
            self._worker.tell(NewsKind.NOTE, f"continues without the latest main branch: {updated.in_the_way}", goal)
        if not updated.conflicts and not updated.replaced:
            return
        before = [comment for comment in self._store.comments(goal) if comment.author == RALPH]
        if any(comment.why.commit == updated.tip for comment in before):
            return  # a worker was killed right after it wrote this
        text = "\n\n".join([*(comment.text for comment in before[-1:]), *_conflicts(updated)])
        why = Reason(cause=Cause.CONFLICTS, commit=updated.tip, paths=(*updated.conflicts, *updated.replaced))
        self._store.comment(goal, RALPH, text, CommentKind.CONFLICTS, why)


def _live(goal: BatchGoal, status: RunStatus, started: float) -> Live:
    used = Spend(goal.cost_usd, goal.tokens)
    return Live(status, goal.cost_usd, goal.tokens, started, used, goal.seconds)


def _conflicts(updated: Updated) -> Iterator[str]:
    """What both sides have changed, for the agent to put right."""
    yield "The base branch was merged into the working tree."
    if updated.conflicts:
        yield (
            "These files have conflicts, marked with <<<<<<< and >>>>>>>. Resolve them first, so that both sides'"
            " changes work."
        )
        yield "\n".join(updated.conflicts)
    if updated.replaced:
        yield (
            "These files cannot be merged line by line and now have the content of the base. `git show"
            f" {updated.tip}^:PATH` prints this branch's version. Make sure that both sides' changes work."
        )
        yield "\n".join(updated.replaced)
