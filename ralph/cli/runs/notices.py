"""What someone who is away is told of a queue: goals that are done or need a person, quotas, the batch's budget."""

import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from ralph.core.errors import BUG, RalphError, exit_code_of
from ralph.dashboard import report
from ralph.queue.goals import LIMIT, BatchGoal
from ralph.queue.news import Kind, News, Worked
from ralph.queue.open import Whereabouts
from ralph.queue.repos.remote import without_password
from ralph.system.notify import Notice, Notifier, Occasion


class BatchNotices:
    """Passes news on to a screen, and tells the user's command what is worth it. Leave it when the queue is free."""

    def __init__(self, place: Whereabouts, screen: Callable[[News], None]) -> None:
        # No program in an agent's clone is taken for the user's.
        self._notifier = Notifier(place.notify, env=place.env, workplace=place.ralph_dir)
        self._screen = screen
        self._db = place.flag

    def __call__(self, news: News) -> None:
        self._screen(news)
        if news.event is not None:
            self._notifier.tell(self._notice(news, news.event))

    def ended(self, worked: Worked, goals: Sequence[BatchGoal], command: str) -> str:
        """Tell that the batch's own limit was reached: that is no goal's news. `command` goes on with the queue.

        Return what the user is told of it.
        """
        if worked.exit_code != LIMIT:
            return worked.over
        text = f"{worked.over}; {report.tally(goals, cut_off=True)}"
        again = f"go on, with a new budget: ralph-runs {command}{self._db}"
        self._notifier.tell(Notice(Occasion.BUDGET, time.time(), text, exit_code=worked.exit_code, next=again))
        return f"{worked.over}; {again}"

    def failed(self, error: Exception, command: str) -> None:
        """Tell that the queue worker itself has died, of a fault or a bug; and have the error say the next step."""
        again = f"go on with: ralph-runs {command}{self._db}"
        exit_code = exit_code_of(error)
        said = f"a bug in ralph: {type(error).__name__}: {error}" if exit_code == BUG else str(error)
        hint = error.hint if isinstance(error, RalphError) else ""
        what_now = f"{hint}; then {again}" if hint else again
        if isinstance(error, RalphError):
            error.hint = what_now
        else:
            error.add_note(again)
        text = f"the queue worker has ended, and all its goals with it: {said}"
        self._notifier.tell(Notice(Occasion.STUCK, time.time(), text, exit_code=exit_code, next=what_now))

    def _notice(self, news: News, event: Occasion) -> Notice:
        if (goal := news.goal) is None:
            return Notice(event, news.at, news.text)
        # What its run does not wait for cannot be woken.
        waits = event is Occasion.QUOTA and news.kind is Kind.WAITING
        what_now = f"have it try now: ralph-runs wake {goal.label}" if waits else f"ralph-runs show {goal.label}"
        return Notice(
            event,
            news.at,
            news.text,
            goal=goal.name,
            title=goal.title,
            repo=without_password(goal.repo),
            cost_usd=goal.known_cost,
            run=goal.run,
            id=goal.label,
            next=what_now + self._db,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if fault := self._notifier.close():
            self._screen(News(time.time(), Kind.NOTE, fault))
