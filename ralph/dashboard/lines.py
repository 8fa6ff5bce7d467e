"""What a queue worker tells, as it happens: lines for people, or one JSON object a line; and how it ended."""

import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Self

from ralph.core import ndjson
from ralph.core.errors import BUG, RalphError, exit_code_of
from ralph.core.reason import command_line
from ralph.core.secrets import without_login
from ralph.core.text import few, timestamp
from ralph.dashboard import report
from ralph.dashboard.report import row
from ralph.queue.goals import LIMIT, BatchGoal, State
from ralph.queue.news import PAUSED, News, NewsKind, Worked
from ralph.queue.open import QueueAddress
from ralph.queue.submit import Submitted
from ralph.system.notify import Notice, Notifier, Occasion
from ralph.ui.console import write_json
from ralph.ui.draw import cut, padded
from ralph.ui.terminal import Output, QueuedOutput, visible

_NAME = 20
_LONGEST = 4_000
_MOST_WITHHELD = 20
_ALSO = 4
"""Goals that are named beside the first one; of more, how many there are."""
_OPENINGS: Mapping[str, str] = {
    NewsKind.STARTED: "started ",
    NewsKind.CHECK: "check ",
    NewsKind.WAITING: "waits: ",
    NewsKind.MERGING: "merging ",
    NewsKind.DONE: "done: ",
    NewsKind.RETRY: "to be tried again: ",
    NewsKind.STUCK: "stuck: ",
    NewsKind.REQUEUED: "queued again: ",
    NewsKind.CANCELLED: "cancelled: ",
}


def worded(kind: str, text: str, command: Sequence[str], flag: str) -> str:
    """News in a line, with the command that it ends in; that names the queue, which somebody else may read it of."""
    return _OPENINGS.get(kind, "") + text + command_line(command, flag)


class Progress:
    """A screen for a queue worker. It remembers which goals it has heard of, for the summary."""

    def __init__(self, *, as_json: bool, quiet: bool, flag: str = "") -> None:
        """`flag`: how a command names the queue."""
        self.asked_to_end: Callable[[], bool] = lambda: False
        """Whether the user has asked for the end: a reader who has stopped reading is waited for no longer then."""
        self._outlet = QueuedOutput(Output(sys.stdout, self._in_haste))
        self._turn = threading.Lock()
        """A view that breaks uncovers the lines in its own thread, while others write more."""
        self._json = as_json
        self._quiet = quiet
        self._flag = flag
        self._seen: set[int] = set()
        self._others: Sequence[str] = ()
        """Goals that nobody asked for now, and that are worked on as well."""
        self._is_apart = True
        """Nothing stands right above: nothing was written, or an empty line."""
        self.is_covered = False
        """Something else shows what happens, where lines would stand."""
        self._withheld: deque[str] = deque(maxlen=_MOST_WITHHELD)

    def _in_haste(self) -> bool:
        return self.asked_to_end()

    def submitted(self, goals: Sequence[Submitted], everything: Sequence[BatchGoal]) -> None:
        """Say what came of the goals that were asked for, and which others the queue holds: they are worked on, too."""
        if not goals:
            return
        self._seen |= {each.goal.id for each in goals}
        waiting = (goal for goal in everything if goal.state in (State.QUEUED, State.RUNNING))
        self._others = others = [goal.label for goal in waiting if goal.id not in self._seen]
        if self._json:
            rows = [{**row(each.goal), "what": each.what} for each in goals]
            self._write_json("submitted", {"goals": rows, "also": others})
        elif not self._quiet:
            self._write_lines([*report.submitted(goals), *([_others("works", others)] if others else []), ""])

    def __call__(self, news: News) -> None:
        """Show something that has happened."""
        with self._turn:
            self._show(news)

    def _show(self, news: News) -> None:
        if news.goal is not None:
            self._seen.add(news.goal.id)
        if self._quiet and news.command == PAUSED.command:  # who waits for the table should know why there is none
            Output(sys.stderr).write(f"note: {PAUSED.written(self._flag)}\n")
        if self._json:
            goal = {} if news.goal is None else {"id": news.goal.label, "name": news.goal.name}
            self._write_json(
                news.kind, {"at": timestamp(news.at), **goal, "text": news.text + command_line(news.command)}
            )
        elif not self._quiet:
            who = "ralph-runs" if news.goal is None else f"{news.goal.label} {news.goal.name}"
            clock = time.strftime("%H:%M:%S", time.localtime(news.at))
            width = self._outlet.width
            room = _LONGEST if width is None or self.is_covered else width - _NAME - 12  # what is kept is kept whole
            said = cut(worded(news.kind, news.text, news.command, self._flag), room)
            named = cut(who, _NAME if width is not None else _LONGEST)
            line = f"{clock}  {padded(named, _NAME)}  {said}".rstrip()
            if not self.is_covered:
                self._write_lines([line])
            elif news.goal is None:  # what became of goals is in the table at the end
                self._withheld.append(line)

    def cover(self) -> None:
        """Something else shows from now on what happens."""
        self.is_covered = True

    def uncover(self, note: str = "") -> None:
        """Write lines again, those first that were about the whole queue; nothing if they are written already."""
        with self._turn:
            if not self.is_covered:
                return
            self.is_covered = False
            lines = [*self._withheld, *([f"note: {visible(note)}"] if note else [])]
            self._withheld.clear()
            if lines:
                self._write_lines(lines)

    def summary(self, goals: Sequence[BatchGoal], exit_code: int, over: str = "", again: str = "") -> None:
        """Say how the goals that were worked on ended; `over`: why the budget ended all, and what there is to do.

        `again`: what goes on where somebody has stopped it.
        """
        worked = [goal for goal in goals if goal.id in self._seen]
        waiting = sum(goal.state in (State.QUEUED, State.RUNNING) for goal in goals if goal.id not in self._seen)
        if self._json:
            rows = [row(goal, cut_off=True) for goal in worked]
            self._write_json("summary", {"exit_code": exit_code, "over": over, "goals": rows, "waiting": waiting})
        elif worked:
            # Whatever still runs is left behind: the worker goes.
            self._write_lines(
                [*([] if self._is_apart else [""]), *report.overview(worked, goals, cut_off=True, flag=self._flag)]
            )
            if waiting:
                self._write_lines([f"and {waiting} more in the queue, not begun: ralph-runs list{self._flag}"])
            if self._quiet and self._others:
                self._write_lines([_others("worked", self._others)])
            if stuck := [goal.label for goal in worked if goal.state is State.STUCK]:
                step = f"ralph-runs show {stuck[0]}{self._flag}{_also(stuck[1:])}"
                self._write_lines([f"what is stuck, and what to do: {step}"])
        else:
            queued = any(goal.state in (State.QUEUED, State.RUNNING) for goal in goals)
            whole = f"{report.tally(goals, cut_off=True)}" if goals else ""
            said = [] if queued else ["nothing is queued"]
            self._write_lines([f"no goal was worked on: {'; '.join([*said, *([whole] if whole else [])])}"])
        last = [words for words in (over, again) if words]
        if last and not self._json:
            self._write_lines(last)
        self._outlet.finish()

    def _write_json(self, kind: str, fields: Mapping[str, object]) -> None:
        write_json(self._outlet, ndjson.encode_line({"type": kind, **fields}))

    def _write_lines(self, lines: Sequence[str]) -> None:
        self._is_apart = not lines[-1]
        self._outlet.write("".join(f"{line}\n" for line in lines))


def _others(verb: str, labels: Sequence[str]) -> str:
    return f"also {verb} on what else is queued: {', '.join(labels)}"


def _also(labels: Sequence[str]) -> str:
    """Goals besides the one that is named, in brackets."""
    return f" (also {few(labels, _ALSO)})" if labels else ""


class BatchNotices:
    """Passes news on to a screen, and tells the user's command what is worth it. Leave it when the queue is free."""

    def __init__(self, place: QueueAddress, screen: Callable[[News], None]) -> None:
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
        waits = event is Occasion.QUOTA and news.kind is NewsKind.WAITING
        what_now = f"have it try now: ralph-runs wake {goal.label}" if waits else f"ralph-runs show {goal.label}"
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
