"""Which queued goals may start: their account is not refused or waiting, and their repository is there.

It also says what stands in the way, once.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from ralph.core.reason import Cause, Reason
from ralph.queue.goals import BatchGoal, MergeMode, State, agent_of, front_matter_of
from ralph.queue.news import NewsKind
from ralph.queue.repos.mirror import USUAL
from ralph.queue.repos.prefetch import Repository
from ralph.queue.worker_state import WorkerKit
from ralph.system.notify import Occasion


class Admission:
    """Asked by the scheduler, before anything starts."""

    def __init__(self, kit: WorkerKit, agent: str) -> None:
        """`agent` works on a goal that names nobody."""
        self._store, self._repositories, self._gate = kit.store, kit.repositories, kit.gate
        self._controls, self._rules, self._agent = kit.controls, kit.rules, agent
        self._said: set[str] = set()
        self._at_hand: dict[str, Repository] = {}
        """The repositories of queued goals, by address: an address is resolved once a turn, not once a goal."""

    def account(self, goal: BatchGoal) -> str:
        """Whose account a goal would use, as far as that is known before it starts."""
        if (seen := self._controls.accounts.get(goal.id)) is not None:
            return seen
        return agent_of(goal, self._agent)

    def holding_back(self) -> Callable[[BatchGoal], bool]:
        """Tell which goals must wait; what only has to be merged uses no account.

        All goals of an account or a repository get the same answer: a fetch that ends after the first of them was
        asked about would have the second one start before it.
        """
        waiting, refused = self._gate.state()
        ready: dict[Path, bool] = {}

        def holds_back(goal: BatchGoal) -> bool:
            account = self.account(goal)
            if (account in waiting or account in refused) and not self._rules.merges_only(goal):
                return True
            repository = self._repository(goal)
            return not ready.setdefault(repository.mirror.path, repository.ready)

        return holds_back

    def behind_with_merges(self, goals: Iterable[BatchGoal]) -> Callable[[BatchGoal], bool]:
        """Tell of which goals no attempt may start: their repository has proven work that waits for its turn to merge.

        `goals` are those to be merged, or being merged. Merges of one repository go one at a time, and attempts take
        the processor from them: started regardless, attempts pile up proven work on an ever older base. What is
        merged just now holds nobody up, nor do merges of other repositories, which no attempt here makes longer; and
        where a merge waits for something outside, attempts go on meanwhile.
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
        """See that the repositories of queued goals are fetched; goals of one that cannot be had are stuck: which?"""
        turned_away: set[int] = set()
        out_of_reach: set[str] = set()
        self._at_hand.clear()
        for goal in goals:
            if goal.state is not State.QUEUED:
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
        queued = [goal for goal in goals if goal.state is State.QUEUED and not self._rules.merges_only(goal)]
        by = {goal.id: self._gate.blocked_by(self.account(goal)) for goal in queued}
        return {number: blocker for number, blocker in by.items() if blocker is not None}

    def _tell(self, goal: BatchGoal, repository: Repository) -> None:
        """Say once what hinders work or merges: whoever has started this may still be there."""
        if repository.waiting != goal.why and (repository.waiting or goal.why.cause is Cause.UNREACHABLE):
            self._store.note(goal, why=repository.waiting)
        if repository.note:
            self._say(repository.note, goal.repo)
        if repository.ready and self._rules.mode(goal) is MergeMode.DIRECT:
            self._tell_of_merges(goal, repository)

    def _tell_of_merges(self, goal: BatchGoal, repository: Repository) -> None:
        where = repository.mirror.upstream.shown
        if repository.in_the_way:
            words = f"{repository.in_the_way}: nothing is merged there before they are committed or stashed"
            self._say(words, goal.repo)
        if not repository.has_check and not self._rules.merge_unproven:
            words = f"{where} has no .ralph/check on {repository.base}: what its goals do is unproven, and not merged"
            words += " without --merge-unproven"
            if words not in self._said and not self._names_check(goal):  # its text is parsed only where it matters
                self._say(words)
        if repository.mirror.upstream.path is not None and repository.base not in USUAL:
            self._say(f"{where}: work is merged to {repository.base}, which is its branch at present")

    def _say(self, words: str, until_merged_to: str = "") -> None:
        if words not in self._said:
            self._said.add(words)
            self._controls.cautions[words] = until_merged_to
            self._controls.tell(NewsKind.NOTE, words)

    def _names_check(self, goal: BatchGoal) -> bool:
        said = {*goal.settings, *front_matter_of(goal.text, goal.path)}
        return "check" in said or "RALPH_CHECK" in self._rules.env

    def _stick(self, goal: BatchGoal, reason: str, event: Occasion | None = Occasion.STUCK) -> None:
        if self._store.move(goal, State.STUCK, comment=reason, why=Reason(reason)):
            self._controls.tell(NewsKind.STUCK, reason, goal, event)
