"""A goal's attempt, from the slot that it waits for to what its child is heard to say."""

import contextlib
import time
from collections.abc import Generator, Iterator
from dataclasses import replace
from pathlib import Path

from ralph.agents.registry import TRANSCRIPTS
from ralph.config import settings
from ralph.core.errors import DiskError, QueueError, RalphError, RepoError
from ralph.core.events import CheckEnded, Event, IterationEnded, RunStarted, Usage, Waiting
from ralph.core.failures import End
from ralph.core.goal import parse_goal
from ralph.core.limits import Limit, Limits, limit_reached
from ralph.core.status import RunStatus
from ralph.core.usage import Spend
from ralph.core.verdict import Verdict
from ralph.git.command import GitKilled
from ralph.queue.budget import Share, share_of
from ralph.queue.child import AttemptKit, AttemptResult, hold_attempt, unheard_end
from ralph.queue.goals import LIMIT, MOST_ATTEMPTS, RALPH, STOPPED, BatchGoal, CommentKind
from ralph.queue.merge.trees import Updated, bring_up_to_date
from ralph.queue.news import Budget, NewsKind
from ralph.queue.repos.goal_refs import reserve, take_up_state
from ralph.queue.repos.prefetch import Repository
from ralph.queue.worker_state import MOMENT, Live, WorkerKit, not_started
from ralph.state.journal import Journal, Saved
from ralph.system import clock
from ralph.system.notify import Occasion


class AttemptTask:
    """Holds attempts, each in the thread that calls it."""

    def __init__(self, kit: WorkerKit) -> None:
        self._store, self._premises, self._repositories = kit.store, kit.premises, kit.repositories
        self._gate, self._controls, self._rules, self._purse = kit.gate, kit.controls, kit.rules, kit.purse
        self._blind: set[str] = set()
        """Agents of which is known that they do not name what the budget is in."""

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
            observe=lambda event, stands: self._observe(goal, event, stands),
            at_work=lambda child: self._controls.at_work(goal, child),
        )
        if (over := unheard_end(goal, kit)) is not None:
            if over.cost_usd is not None and over.tokens is not None:
                self._purse.found(goal.id, _in_all(goal, over.run, over.cost_usd, over.tokens))
            return over
        if goal.attempts > 1:
            self._bring_up_to_date(goal, repository)
        share = self._share(goal)
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
            self._hold_back(goal, NewsKind.NOTE, "its usage limit lasts longer than it may take", outcome.not_before)
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

    def _share(self, goal: BatchGoal) -> Share:
        """What an attempt that starts now may use."""
        left = self._purse.lend(goal.id)
        earlier = Spend(goal.spent_usd, goal.spent_tokens)
        if left == Budget() and earlier == Spend():
            return Share()
        saved = Journal(self._premises.run_directory(goal)).load()
        run = Spend()
        if isinstance(saved, Saved) and not saved.finished:
            run = saved.run.spend
            if (
                saved.run.id == goal.run
            ):  # a session that was cut off with its worker may be in the queue's figures alone
                run = run.at_least(Spend(goal.cost_usd - goal.spent_usd, goal.tokens - goal.spent_tokens))
        return share_of(self._limits(goal), earlier, run, left)

    def _limits(self, goal: BatchGoal) -> Limits:
        """A goal's own limits, from wherever its child takes them."""
        front_matter = parse_goal(goal.text, Path(goal.path)).front_matter
        clone = self._premises.clone(goal)
        chosen = settings.load(
            env=self._rules.env, root=clone, flags=goal.settings, front_matter=front_matter, goal=Path(goal.path)
        )
        return chosen.limits

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

    def _observe(self, goal: BatchGoal, event: Event, stands: RunStatus) -> None:
        live, spend = self._controls.live[goal.id], stands.meter.total
        if isinstance(event, RunStarted) and event.cost_usd is not None and event.tokens is not None:
            live = replace(live, before=_in_all(goal, event.run, event.cost_usd, event.tokens))
        used = {"cost_usd": live.before.cost_usd + spend.cost_usd, "tokens": live.before.tokens + spend.tokens}
        now = replace(live, standing=stands, **used)
        self._controls.live[goal.id] = now
        match event:
            case Usage():
                self._heed_budget(goal, Spend(now.cost_usd, now.tokens))
            case RunStarted():
                self._controls.accounts[goal.id] = event.agent
                self._store.note(goal, run=event.run, **goal.before(event.run), **used)
                self._purse.found(goal.id, live.before)
                if _says_nothing_of_use(event.transcript):
                    self._say_what_is_unseen(goal, spend)
                if event.envrc_used is False:  # the header's advice is for who stands in the clone
                    words = f".envrc is not used: {event.envrc_why}; --trust-envrc trusts it"
                    self._controls.tell(NewsKind.NOTE, words, goal)
            case IterationEnded():
                self._store.note(goal, **used)
                self._gate.goes_on(self._controls.accounts.get(goal.id, ""))
                self._say_what_is_unseen(goal, spend)
                said = "claims DONE" if event.verdict == Verdict.DONE else event.summary
                self._controls.tell(NewsKind.ITERATION, f"iteration {event.iteration}: {said}", goal)
            case CheckEnded():
                self._controls.tell(NewsKind.CHECK, _judged(event), goal)
            case Waiting(reason, until, end):
                if end == End.USAGE_LIMIT and until is not None:
                    self._hold_back(goal, NewsKind.WAITING, reason, until)
                else:
                    self._controls.tell(NewsKind.WAITING, reason, goal)
            case _:
                pass

    def _hold_back(self, goal: BatchGoal, kind: NewsKind, words: str, until: float) -> None:
        """A goal has met its account's usage limit: no other of that account is started before it resets."""
        account = self._controls.accounts.get(goal.id, "")
        if self._gate.wait_for(account, until):
            words += f"; {not_started(account, until)}"
        self._controls.tell(kind, words, goal, Occasion.QUOTA if self._gate.tell_once(account) else None)

    def _heed_budget(self, goal: BatchGoal, used: Spend) -> None:
        """Write down what a goal has used; if that was the last of the budget, all that is at work ends, now.

        A goal that has used it up alone is held by the limit that it was given: it hears the call out, and wraps up.
        """
        self._purse.note(goal.id, used)
        if reached := self._purse.reached:
            self._controls.halt(reached, but=self._purse.taken_by)

    def _say_what_is_unseen(self, goal: BatchGoal, spend: Spend) -> None:
        """Say once of an agent that it names no cost, or no tokens, where a budget goes by them."""
        budget, account = self._purse.budget, self._controls.accounts.get(goal.id, "its agent")
        unseen = [
            *(["cost"] if budget.cost_usd is not None and not spend.cost_usd and not spend.costed else []),
            *(["tokens"] if budget.tokens is not None and not spend.knows_tokens else []),
        ]
        if unseen and account not in self._blind:
            self._blind.add(account)
            flags = " and ".join(f"--max-{measure}" for measure in unseen)
            words = f"{account} names no {' and no '.join(unseen)}: {flags} cannot hold it; --max-time can"
            self._controls.unseen |= {*unseen}
            self._controls.cautions[words] = ""  # no merge mends that
            self._controls.tell(NewsKind.NOTE, words)


def _in_all(goal: BatchGoal, run: str, cost_usd: float, tokens: int) -> Spend:
    """What a goal has used over all its runs, if this one has used so much."""
    before = goal.before(run)
    return Spend(before["spent_usd"] + cost_usd, int(before["spent_tokens"]) + tokens)


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


def _says_nothing_of_use(transcript: str) -> bool:
    """Tell whether it is known before any session that none will name what it uses."""
    found = TRANSCRIPTS.get(transcript)
    return found is not None and not found().capabilities.supports_usage_events


def _judged(check: CheckEnded) -> str:
    """What the check has said, in a line."""
    if check.exit_code == 0:
        return "green"
    lines = [line.strip() for line in check.output.splitlines() if line.strip()]
    how = "out of time" if check.exit_code is None else f"exit {check.exit_code}"
    return f"red ({how})" + (f": {lines[-1]}" if lines else "")
