"""Which queued goals may start: they are in scope, their account is not refused or waiting, their repository is there.

It also says what stands in the way, once.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from ralph.core.reason import Cause, Reason
from ralph.queue.goals import BatchGoal, MergeMode, State, agent_of, front_matter_of
from ralph.queue.news import NewsKind
from ralph.queue.open import EVERY_GOAL, Scope
from ralph.queue.repos.mirror import USUAL
from ralph.queue.repos.prefetch import Repository
from ralph.queue.worker_state import WorkerContext
from ralph.system.notify import Occasion


class Admission:
    """Asked by the scheduler, before anything starts."""

    def __init__(self, context: WorkerContext, agent: str, scope: Scope = EVERY_GOAL) -> None:
        """`agent` works on a goal that names nobody; no goal outside `scope` starts."""
        self._store, self._repositories, self._gate = context.store, context.repositories, context.gate
        self._worker, self._rules, self._agent, self._scope = context.worker, context.rules, agent, scope
        self._said: set[Reason] = set()
        self._at_hand: dict[str, Repository] = {}
        """The repositories of queued goals, by address: an address is resolved once a turn, not once a goal."""

    def account(self, goal: BatchGoal) -> str:
        """Whose account a goal would use, as far as that is known before it starts."""
        seen = self._worker.accounts.get(goal.id)
        own = agent_of(goal, self._agent) if seen is None else seen
        fallback = self._rules.fallback
        return fallback.account(own, self._gate.state()[0], time.time()) if fallback.names else own

    def holding_back(self) -> Callable[[BatchGoal], bool]:
        """Tell which goals must wait; what only has to be merged uses no account.

        All goals of an account or a repository get the same answer: a fetch that ends after the first of them was
        asked about would have the second one start before it.
        """
        waiting, refused = self._gate.state()
        ready: dict[Path, bool] = {}

        def holds_back(goal: BatchGoal) -> bool:
            if not self._scope.has(goal):
                return True
            account = self.account(goal)
            if (account in waiting or account in refused) and not self._rules.merges_only(goal):
                return True
            repository = self._repository(goal)
            return not ready.setdefault(repository.mirror.path, repository.ready)

        return holds_back

    def behind_with_merges(self, goals: Iterable[BatchGoal]) -> Callable[[BatchGoal], bool]:
        """Return the goals whose attempts must not start, because their repository has proven work waiting to merge.

        `goals` are those to merge, or being merged. A repository's merges run one at a time and compete with attempts
        for the processor: too many attempts pile up proven work on an ever older base. The merge in progress does not
        count, nor do merges of other repositories. If a merge waits for something outside, attempts continue.
        """
        waiting = Counter(self._repository(goal).mirror.path for goal in goals)
        behind: dict[Path, bool] = {}

        def is_behind(goal: BatchGoal) -> bool:
            repository = self._repository(goal)
            path = repository.mirror.path
            return behind.setdefault(path, waiting[path] > 1 and not repository.merges_stand_still)

        return is_behind

    def _repository(self, goal: BatchGoal) -> Repository:
        if goal.repo not in self._at_hand:
            self._at_hand[goal.repo] = self._repositories.known(goal.repo)
        return self._at_hand[goal.repo]

    def turn_away(self, goals: Sequence[BatchGoal]) -> set[int]:
        """Fetch the repositories of queued goals; return the goals whose repository is unavailable."""
        turned_away: set[int] = set()
        out_of_reach: set[str] = set()
        self._at_hand.clear()
        for goal in goals:
            if goal.state is not State.QUEUED or not self._scope.has(goal):
                continue
            if goal.repo not in self._at_hand:
                self._at_hand[goal.repo] = self._repositories.prepared(goal.repo)
            repository = self._at_hand[goal.repo]
            self._tell(goal, repository)
            if repository.fault:
                first = goal.repo not in out_of_reach  # it is one piece of news, however many goals it is about
                self._stick(goal, repository.fault, Occasion.STUCK if first else None)
                turned_away.add(goal.id)
                out_of_reach.add(goal.repo)
        for repo in out_of_reach:
            self._repositories.try_again(repo)
        return turned_away

    def refused(self, goals: Sequence[BatchGoal]) -> dict[int, int]:
        """The queued goals whose account was refused, each with the goal that has met this."""
        mine = (goal for goal in goals if goal.state is State.QUEUED and self._scope.has(goal))
        queued = [goal for goal in mine if not self._rules.merges_only(goal)]
        by = {goal.id: self._gate.blocked_by(self.account(goal)) for goal in queued}
        return {number: blocker for number, blocker in by.items() if blocker is not None}

    def held_back(self, goals: Sequence[BatchGoal]) -> set[int]:
        """The queued goals that this worker does not start, whatever they wait for."""
        return {*self.refused(goals), *(goal.id for goal in self._scope.elsewhere(goals))}

    def _tell(self, goal: BatchGoal, repository: Repository) -> None:
        """Report once what blocks work or merges: the user who started this may still be there."""
        if repository.waiting != goal.why and (repository.waiting or goal.why.cause is Cause.UNREACHABLE):
            self._store.note(goal, why=repository.waiting)
        for why in (repository.waiting, repository.note):
            if why:
                self._say(why, goal.repo)
        if repository.ready and goal.merge is MergeMode.DIRECT:
            self._tell_of_merges(goal, repository)

    def _tell_of_merges(self, goal: BatchGoal, repository: Repository) -> None:
        where = repository.mirror.upstream.shown
        if repository.in_the_way:
            self._say(repository.in_the_way, goal.repo)
        if not repository.has_check and not self._rules.merge_unproven:
            why = Reason(cause=Cause.NO_CHECK, place=where, branch=repository.base)
            if why not in self._said and not self._names_check(goal):  # its text is parsed only where it matters
                self._say(why)
        if repository.mirror.upstream.path is not None and repository.base not in USUAL:
            self._say(Reason(cause=Cause.OTHER_BASE, place=where, branch=repository.base))

    def _say(self, why: Reason, until_merged_to: str = "") -> None:
        if why not in self._said:
            self._said.add(why)
            self._worker.cautions[why] = until_merged_to
            self._worker.tell(NewsKind.NOTE, why)

    def _names_check(self, goal: BatchGoal) -> bool:
        said = {*goal.settings, *front_matter_of(goal.text, goal.path)}
        return "check" in said or "RALPH_CHECK" in self._rules.env

    def _stick(self, goal: BatchGoal, reason: str, event: Occasion | None = Occasion.STUCK) -> None:
        if self._store.move(goal, State.STUCK, comment=reason, why=Reason(reason)):
            self._worker.tell(NewsKind.STUCK, reason, goal, event)
