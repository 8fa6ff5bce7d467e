"""What a goal's run is heard to say, and what follows for its row, the news, its account and the budget."""

from dataclasses import replace

from ralph.agents.registry import TRANSCRIPTS
from ralph.core.events import AgentChanged, CheckEnded, Event, IterationEnded, RunStarted, Usage, Waiting
from ralph.core.failures import End
from ralph.core.reason import Cause, Reason
from ralph.core.status import RunStatus
from ralph.core.text import exit_words
from ralph.core.usage import Spend
from ralph.core.verdict import Verdict, claim_words
from ralph.queue.child import text_digest
from ralph.queue.goals import BatchGoal
from ralph.queue.news import GREEN, NewsKind
from ralph.queue.worker_state import Live, WorkerContext
from ralph.system.notify import Occasion


class RunEvents:
    """Hears the runs of all goals, each in the thread of its attempt."""

    def __init__(self, context: WorkerContext) -> None:
        self._store, self._gate, self._worker, self._budget = (
            context.store,
            context.gate,
            context.worker,
            context.budget,
        )
        self._blind: set[str] = set()
        """Agents known not to report what the budget is counted in (cost or tokens)."""

    def observe(self, goal: BatchGoal, event: Event, stands: RunStatus) -> None:
        """Take in what a run has said; `stands` is where it stands after that."""
        live, spend = _noted(self._worker.live[goal.id], event), stands.meter.total
        if isinstance(event, RunStarted) and event.cost_usd is not None and event.tokens is not None:
            live = replace(live, before=used_in_all(goal, event.run, event.cost_usd, event.tokens))
        used = {"cost_usd": live.before.cost_usd + spend.cost_usd, "tokens": live.before.tokens + spend.tokens}
        now = replace(live, status=stands, **used)
        self._worker.live[goal.id] = now
        match event:
            case Usage():
                self._check_budget(goal, Spend(now.cost_usd, now.tokens))
            case RunStarted():
                self._worker.accounts[goal.id] = event.agent
                self._store.note(goal, run=event.run, run_text=text_digest(goal), **goal.before(event.run), **used)
                self._budget.found(goal.id, live.before)
                if _says_nothing_of_use(event.transcript):
                    self._say_what_is_unseen(goal, spend)
                if event.envrc_used is False:  # the header's advice is for who stands in the clone
                    words = f".envrc is not used: {event.envrc_why}; trust it with --trust-envrc"
                    self._worker.tell(NewsKind.NOTE, words, goal)
            case AgentChanged():
                self._agent_changed(goal, event)
            case IterationEnded():
                self._store.note(goal, **used)
                self._gate.goes_on(self._worker.accounts.get(goal.id, ""))
                self._say_what_is_unseen(goal, spend)
                is_claim = event.verdict == Verdict.DONE
                said = claim_words(event.summary) if is_claim else event.summary
                self._worker.tell(NewsKind.ITERATION, f"iteration {event.iteration}: {said}", goal)
            case CheckEnded():
                self._worker.tell(NewsKind.CHECK, _judged(event), goal)
            case Waiting(reason, until, end):
                if end == End.USAGE_LIMIT and until is not None:
                    self.hold_back(goal, NewsKind.WAITING, reason, until)
                else:
                    self._worker.tell(NewsKind.WAITING, reason, goal)
            case _:
                pass

    def hold_back(self, goal: BatchGoal, kind: NewsKind, words: str, until: float) -> None:
        """A goal has met its account's usage limit: no other of that account is started before it resets."""
        account = self._worker.accounts.get(goal.id, "")
        if self._gate.wait_for(account, until):
            why = Reason(cause=Cause.QUOTA, who=account, until=until)
            words += f"; {self._worker.worded(why)}"
        self._worker.tell(kind, words, goal, Occasion.QUOTA if self._gate.tell_once(account) else None)

    def _agent_changed(self, goal: BatchGoal, event: AgentChanged) -> None:
        """A goal goes on with another agent: what of the quota that is used up is everybody's."""
        before, self._worker.accounts[goal.id] = self._worker.accounts.get(goal.id, ""), event.agent
        words = f"continues with {event.agent}"
        if event.instead_of and event.until is not None:
            words += f": {event.instead_of} has reached its usage limit"
            if self._gate.wait_for(before, event.until):
                words += f"; {self._worker.worded(Reason(cause=Cause.QUOTA, who=before, until=event.until))}"
        self._worker.tell(NewsKind.NOTE, words, goal)

    def _check_budget(self, goal: BatchGoal, used: Spend) -> None:
        """Write down what a goal has used; if that was the last of the budget, all that is at work ends, now.

        A goal that has used it up alone is held by the limit that it was given: it hears the call out, and wraps up.
        """
        self._budget.note(goal.id, used)
        if reached := self._budget.reached:
            self._worker.halt(reached, but=self._budget.taken_by)

    def _say_what_is_unseen(self, goal: BatchGoal, spend: Spend) -> None:
        """Say once of an agent that it names no cost, or no tokens, where a budget goes by them."""
        budget, account = self._budget.whole, self._worker.accounts.get(goal.id, "its agent")
        unseen = [
            *(["cost"] if budget.cost_usd is not None and not spend.cost_usd and not spend.costed else []),
            *(["tokens"] if budget.tokens is not None and not spend.knows_tokens else []),
        ]
        if unseen and account not in self._blind:
            self._blind.add(account)
            why = Reason(cause=Cause.UNKNOWN_USE, who=account, paths=tuple(unseen))
            self._worker.unseen |= {*unseen}
            self._worker.cautions[why] = ""  # no merge fixes that
            self._worker.tell(NewsKind.NOTE, why)


def _noted(live: Live, event: Event) -> Live:
    """Return what is known of a goal at work, with what only this event says."""
    match event:
        case RunStarted():
            return replace(live, max_iterations=event.max_iterations)
        case CheckEnded():
            return replace(live, is_green=event.exit_code == 0)
        case _:
            return live


def used_in_all(goal: BatchGoal, run: str, cost_usd: float, tokens: int) -> Spend:
    """What a goal has used over all its runs, if this one has used so much."""
    before = goal.before(run)
    return Spend(before["spent_usd"] + cost_usd, int(before["spent_tokens"]) + tokens)


def _says_nothing_of_use(transcript: str) -> bool:
    """Tell whether it is known before any session that none will name what it uses."""
    found = TRANSCRIPTS.get(transcript)
    return found is not None and not found().capabilities.supports_usage_events


def _judged(check: CheckEnded) -> str:
    """What the check has said, in a line."""
    if check.exit_code == 0:
        return GREEN
    lines = [line.strip() for line in check.output.splitlines() if line.strip()]
    how = "out of time" if check.exit_code is None else exit_words(check.exit_code)
    return f"red ({how})" + (f": {lines[-1]}" if lines else "")
