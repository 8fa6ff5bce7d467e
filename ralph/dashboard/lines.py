"""Prints what a queue worker does as it happens, as lines or as JSON, and how it ended."""

import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Self

from ralph.core import ndjson
from ralph.core.errors import ExitCode, RalphError, exit_code_of
from ralph.core.reason import command_line
from ralph.core.secrets import without_login
from ralph.core.text import few, time_of_day, timestamp
from ralph.dashboard import report
from ralph.dashboard.reasons import change_line, elsewhere_line, reason_line
from ralph.dashboard.report import row
from ralph.queue.goals import LIMIT, BatchGoal, State
from ralph.queue.news import PAUSED, News, NewsKind, Worked
from ralph.queue.open import QueueAddress, Scope
from ralph.queue.submit import Submitted
from ralph.system import environ
from ralph.system.notify import Notice, Notifier, Occasion
from ralph.ui import page
from ralph.ui.console import write_json
from ralph.ui.output import Output, QueuedOutput
from ralph.ui.terminal import call_user, one_line, terminal, visible

_NAME = 20
_LONGEST = 4_000
_MOST_WITHHELD = 20
_ALSO = 4
"""Goals that are named beside the first one; the others are counted."""
_OPENINGS: Mapping[str, str] = {
    NewsKind.STARTED: "started ",
    NewsKind.CHECK: "check ",
    NewsKind.WAITING: "waits: ",
    NewsKind.MERGING: "merging ",
    NewsKind.DONE: "done: ",
    NewsKind.RETRY: "will retry: ",
    NewsKind.STUCK: "stuck: ",
    NewsKind.REQUEUED: "queued again: ",
    NewsKind.CANCELLED: "cancelled: ",
}


def worded(kind: str, text: str, command: Sequence[str], flag: str) -> str:
    """Return news as a line, ending in a command that names the queue if needed."""
    return _OPENINGS.get(kind, "") + text + command_line(command, flag)


def _cut(text: str, most: int) -> str:
    """Fold a text into one line of at most this many cells."""
    folded = one_line(text, most) if most > 0 else ""
    if folded.isascii():
        return folded
    from rich.cells import cell_len, set_cell_size

    return folded if cell_len(folded) <= most else f"{set_cell_size(folded, most - 1).rstrip()}…"


def _padded(text: str, columns: int) -> str:
    if text.isascii():
        return text.ljust(columns)
    from rich.cells import cell_len

    return text + " " * (columns - cell_len(text))


class Progress:
    """The screen of a queue worker. It remembers which goals it has seen, for the summary."""

    def __init__(self, *, as_json: bool, quiet: bool, flag: str = "") -> None:
        """Make a screen; `flag` names the queue in commands."""
        self.asked_to_end: Callable[[], bool] = lambda: False
        """Whether the user has asked to stop: then a reader that no longer reads is not waited for."""
        self._output = Output(sys.stdout, self._in_haste)
        self._queued = QueuedOutput(self._output)
        self._turn = threading.Lock()
        """A failing view uncovers the lines in its own thread while other threads write."""
        self._json = as_json
        self._quiet = quiet
        self._flag = flag
        self._seen: set[int] = set()
        self._others: Sequence[str] = ()
        """Goals that were not named now but are worked on as well."""
        self._is_apart = True
        """The last output was nothing, or ended in an empty line."""
        self.is_covered = False
        """The dashboard is shown instead of lines."""
        self.has_called = False
        """Whether something else has called the user already."""
        self._withheld: deque[str] = deque(maxlen=_MOST_WITHHELD)

    def _in_haste(self) -> bool:
        return self.asked_to_end()

    def submitted(self, goals: Sequence[Submitted], everything: Sequence[BatchGoal], scope: Scope) -> None:
        """Say what came of the goals that were asked for, which others are worked on and where proven work goes."""
        mine = [goal for goal in everything if scope.has(goal)]
        elsewhere = elsewhere_line(len(scope.elsewhere(everything)), self._flag)
        last = [*map(visible, report.destinations(mine)), *([elsewhere] if elsewhere else [])]
        if not goals:
            if last and not self._json and not self._quiet:
                self._write_lines([*last, ""])
            return
        self._seen |= {each.goal.id for each in goals}
        waiting = (goal for goal in mine if goal.state in (State.QUEUED, State.RUNNING))
        self._others = others = [goal.label for goal in waiting if goal.id not in self._seen]
        if self._json:
            rows = [{**row(each.goal), "what": change_line(each)} for each in goals]
            self._write_json("submitted", {"goals": rows, "also": others})
        elif not self._quiet:
            self._write_lines(
                [
                    *self._page(report.submitted(goals)),
                    *([_others("works", others)] if others else []),
                    *last,
                    "",
                ]
            )

    def __call__(self, news: News) -> None:
        """Show one piece of news."""
        with self._turn:
            self._show(news)

    def _show(self, news: News) -> None:
        if news.goal is not None:
            self._seen.add(news.goal.id)
        if self._quiet and news.command == PAUSED.command:  # with --quiet, say why nothing will happen
            Output(sys.stderr).write(f"note: {PAUSED.written(self._flag)}\n")
        if self._json:
            goal = {} if news.goal is None else {"id": news.goal.label, "name": news.goal.name}
            self._write_json(
                news.kind, {"at": timestamp(news.at), **goal, "text": news.text + command_line(news.command)}
            )
        elif not self._quiet:
            who = "ralph-runs" if news.goal is None else f"{news.goal.label} {news.goal.name}"
            clock = time_of_day(news.at)
            width = self._queued.width
            room = (
                _LONGEST if width is None or self.is_covered else width - _NAME - 12
            )  # lines kept for later are kept whole
            said = _cut(worded(news.kind, news.text, news.command, self._flag), room)
            named = _cut(who, _NAME if width is not None else _LONGEST)
            line = f"{clock}  {_padded(named, _NAME)}  {said}".rstrip()
            if not self.is_covered:
                self._write_lines([line])
            elif news.goal is None:  # the final table shows what happened to goals
                self._withheld.append(line)

    def cover(self) -> None:
        """Stop printing lines: the dashboard shows them."""
        self.is_covered = True

    def uncover(self, note: str = "") -> None:
        """Print lines again, first those about the whole queue; does nothing if lines are already printed."""
        with self._turn:
            if not self.is_covered:
                return
            self.is_covered = False
            lines = [*self._withheld, *([f"note: {visible(note)}"] if note else [])]
            self._withheld.clear()
            if lines:
                self._write_lines(lines)

    def summary(self, goals: Sequence[BatchGoal], exit_code: int, over: str = "", again: str = "") -> None:
        """Print how the goals that were worked on ended; `over`: why the budget ended the work, and the next step.

        `again`: the command that continues if the user stopped the work.
        """
        worked = [goal for goal in goals if goal.id in self._seen]
        waiting = sum(goal.state in (State.QUEUED, State.RUNNING) for goal in goals if goal.id not in self._seen)
        if self._json:
            rows = [row(goal, cut_off=True) for goal in worked]
            self._write_json("summary", {"exit_code": exit_code, "over": over, "goals": rows, "waiting": waiting})
        elif worked:
            # The worker is leaving, so whatever is still marked as running is interrupted.
            self._write_lines(
                [
                    *([] if self._is_apart else [""]),
                    *self._page(report.overview(worked, goals, cut_off=True, flag=self._flag)),
                ]
            )
            if waiting:
                self._write_lines([f"and {waiting} more in the queue, not started: ralph-runs list{self._flag}"])
            if self._quiet and self._others:
                self._write_lines([_others("worked", self._others)])
            if stuck := [goal.label for goal in worked if goal.state is State.STUCK]:
                step = f"ralph-runs show {stuck[0]}{self._flag}{_also(stuck[1:])}"
                self._write_lines([f"why goals are stuck, and what to do: {step}"])
        else:
            queued = any(goal.state in (State.QUEUED, State.RUNNING) for goal in goals)
            whole = f"{report.tally(goals, cut_off=True)}" if goals else ""
            said = [] if queued else ["nothing is queued"]
            self._write_lines([f"no goal was worked on: {'; '.join([*said, *([whole] if whole else [])])}"])
        last = [words for words in (over, again) if words]
        if last and not self._json:
            self._write_lines(last)
        self._queued.finish()

    def call_user(self, goals: Sequence[BatchGoal]) -> None:
        """Have the terminal call its user, unless that has happened: the goals that were worked on have ended."""
        worked = [goal for goal in goals if goal.id in self._seen]
        place = terminal(sys.stdout, environ.inherited())
        if worked and not self._json and not self.has_called:
            call_user(self._output, place, report.tally(worked, cut_off=True))

    def _page(self, parts: Sequence[page.Part]) -> list[str]:
        return page.lines(parts, page.paper(sys.stdout))

    def _write_json(self, kind: str, fields: Mapping[str, object]) -> None:
        write_json(self._queued, ndjson.encode_line({"type": kind, **fields}))

    def _write_lines(self, lines: Sequence[str]) -> None:
        self._is_apart = not lines[-1]
        self._queued.write("".join(f"{line}\n" for line in lines))


def _others(verb: str, labels: Sequence[str]) -> str:
    return f"also {verb} on other queued goals: {', '.join(labels)}"


def _also(labels: Sequence[str]) -> str:
    """Other goals, in parentheses."""
    return f" (also {few(labels, _ALSO)})" if labels else ""


class BatchNotices:
    """Passes news to a screen, and notifies the user where it matters. Close it once the queue is released."""

    def __init__(self, place: QueueAddress, screen: Callable[[News], None]) -> None:
        # A program in an agent's clone is never used as the notifier.
        self._notifier = Notifier(place.notify, env=place.env, repo_root=place.ralph_dir)
        self._screen = screen
        self._db = place.flag

    def __call__(self, news: News) -> None:
        self._screen(news)
        if news.event is not None:
            self._notifier.tell(self._notice(news, news.event))

    def ended(self, worked: Worked, goals: Sequence[BatchGoal], command: str) -> str:
        """Notify that the batch reached its own limit; `command` continues the queue. Return the text for the user."""
        over = reason_line(worked.over)
        if worked.exit_code != LIMIT:
            return over
        text = f"{over}; {report.tally(goals, cut_off=True)}"
        again = f"continue with a new budget: ralph-runs {command}{self._db}"
        self._notifier.tell(Notice(Occasion.BUDGET, time.time(), text, exit_code=worked.exit_code, next=again))
        return f"{over}; {again}"

    def failed(self, error: Exception, command: str) -> None:
        """Notify that the queue worker itself failed, by a fault or a bug, and add the next step to the error."""
        again = f"continue with: ralph-runs {command}{self._db}"
        exit_code = exit_code_of(error)
        said = f"a bug in ralph: {type(error).__name__}: {error}" if exit_code == ExitCode.BUG else str(error)
        hint = error.hint if isinstance(error, RalphError) else ""
        what_now = f"{hint}; then {again}" if hint else again
        if isinstance(error, RalphError):
            error.hint = what_now
        else:
            error.add_note(again)
        text = f"the queue worker crashed and its goals stopped: {said}"
        self._notifier.tell(Notice(Occasion.STUCK, time.time(), text, exit_code=exit_code, next=what_now))

    def _notice(self, news: News, event: Occasion) -> Notice:
        if (goal := news.goal) is None:
            return Notice(event, news.at, news.text)
        # Only a goal whose run waits can be woken.
        waits = event is Occasion.QUOTA and news.kind is NewsKind.WAITING
        what_now = f"try again now: ralph-runs wake {goal.label}" if waits else f"ralph-runs show {goal.label}"
        return Notice(
            event,
            news.at,
            news.text,
            goal=goal.name,
            title=goal.title,
            repo=without_login(goal.repo),
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
            self._screen(News(time.time(), NewsKind.NOTE, fault))
