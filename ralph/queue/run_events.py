"""What a goal's run is heard to say, and what follows for its row, the news, its account and the budget."""

from dataclasses import replace

from ralph.agents.registry import TRANSCRIPTS
from ralph.core.events import CheckEnded, Event, IterationEnded, RunStarted, Usage, Waiting
from ralph.core.failures import End
from ralph.core.status import RunStatus
from ralph.core.text import exit_words
from ralph.core.usage import Spend
from ralph.core.verdict import Verdict
from ralph.queue.goals import BatchGoal
from ralph.queue.news import NewsKind
from ralph.queue.worker_state import WorkerKit, not_started
from ralph.system.notify import Occasion


class RunEvents:
    """Hears the runs of all goals, each in the thread of its attempt."""

    def __init__(self, kit: WorkerKit) -> None:
        self._store, self._gate, self._controls, self._purse = kit.store, kit.gate, kit.controls, kit.purse
        self._blind: set[str] = set()
        """Agents of which is known that they do not name what the budget is in."""

    def observe(self, goal: BatchGoal, event: Event, stands: RunStatus) -> None:
        """Take in what a run has said; `stands` is where it stands after that."""
        live, spend = self._controls.live[goal.id], stands.meter.total
        if isinstance(event, RunStarted) and event.cost_usd is not None and event.tokens is not None:
            live = replace(live, before=used_in_all(goal, event.run, event.cost_usd, event.tokens))
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
                    self.hold_back(goal, NewsKind.WAITING, reason, until)
                else:
                    self._controls.tell(NewsKind.WAITING, reason, goal)
            case _:
                pass

    def hold_back(self, goal: BatchGoal, kind: NewsKind, words: str, until: float) -> None:
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
        return "green"
    lines = [line.strip() for line in check.output.splitlines() if line.strip()]
    how = "out of time" if check.exit_code is None else exit_words(check.exit_code)
    return f"red ({how})" + (f": {lines[-1]}" if lines else "")
