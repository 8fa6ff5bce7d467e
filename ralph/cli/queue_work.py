"""`ralph-runs run`, `work` and `watch`: a queue worker, and the dashboard of one that runs elsewhere."""

import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ralph.cli import flags
from ralph.cli.queue_add import batch_budget, worker_rules
from ralph.core.errors import UsageError

if TYPE_CHECKING:
    from ralph.dashboard.lines import Progress
    from ralph.queue.goals import BatchGoal, Submission
    from ralph.queue.news import Budget, Bulletin, Worked
    from ralph.queue.open import QueueAddress
    from ralph.queue.store import Store
    from ralph.queue.worker_state import WorkerRules
    from ralph.system.signals import Signals

Max = Annotated[str | None, flags.setting("max")]
MergeUnproven = Annotated[
    bool, typer.Option("--merge-unproven", help="Merge also what no check has proven, for want of one.")
]
MaxCost = Annotated[
    str | None, typer.Option(metavar="USD", help="Stop when all goals together have cost so much, from this start on.")
]
MaxTokens = Annotated[
    str | None, typer.Option(metavar="N", help="Stop when they have used so many tokens, from this start on.")
]
MaxTime = Annotated[str | None, typer.Option(metavar="TIME", help="Stop after so long (30m, 8h), as Ctrl-C does.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print only the table at the end.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object a line, and nothing else, on stdout.")]

_BY_SIGNAL = 128
"""Exit codes above it: stopped by a signal."""


@flags.settings("add")
def run(
    *,
    sources: Annotated[
        list[Path] | None, typer.Argument(metavar="[GOAL...]", help=f"{flags.SOURCES} Without any: what is queued.")
    ] = None,
    most: Max = None,
    repo: flags.Repo = None,
    merge: flags.Merge = None,
    merge_unproven: MergeUnproven = False,
    max_cost: MaxCost = None,
    max_tokens: MaxTokens = None,
    max_time: MaxTime = None,
    trust_envrc: flags.TrustEnvrc = False,
    written: flags.Written,
    db: flags.Db = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print order, clones and limits; start nothing, write nothing.")
    ] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Queue goals, and work until nothing in the queue can go on: each in a clone of its own, proven, then merged.

    Exit codes: 0 all are done, 1 some are stuck, cancelled or unfinished, 2 bad usage or input, 3 a bug in ralph,
    4 --max-cost, --max-tokens or --max-time was reached, 129/130/143 stopped by a signal. The same command goes on.
    """
    from ralph.cli.queue_add import read, wishes
    from ralph.queue.manifest import Wishes
    from ralph.queue.open import existing, has_work, whereabouts

    place = whereabouts(db, most)
    budget = batch_budget(place, max_cost, max_tokens, max_time)
    said = wishes(written, repo, merge, trust_envrc=trust_envrc)
    if not sources and said != Wishes(merge=said.merge):
        raise UsageError(
            "no goal is named, and --repo, --trust-envrc, --agent, --model and the like are for those that are",
            "name the goals; or give only --max, --max-cost, --max-tokens, --max-time, --merge and --merge-unproven",
        )
    batch = read(sources or [], said, place)
    rules = worker_rules(place, said.merge, merge_unproven=merge_unproven)
    if dry_run:
        from ralph.dashboard.dry_run import Intentions

        Intentions(place, batch.submissions, rules.merge, budget).show(as_json=as_json)
        return
    command = _again("run", most, merge, max_cost, max_tokens, max_time, merge_unproven=merge_unproven)
    order = _Order(place, rules, budget, command, until_drained=True, as_json=as_json, quiet=quiet)
    if batch.submissions or has_work(place):
        raise typer.Exit(_serve(order, batch.submissions))
    store = existing(place)
    order.progress.summary([] if store is None else store.goals(), 0)


def work(
    most: Max = None,
    merge: flags.Merge = None,
    merge_unproven: MergeUnproven = False,
    max_cost: MaxCost = None,
    max_tokens: MaxTokens = None,
    max_time: MaxTime = None,
    db: flags.Db = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Serve the queue until stopped: goals that are added from elsewhere start as soon as they can.

    Exit codes: 2 bad usage, or another worker serves this queue, 4 --max-cost, --max-tokens or --max-time was reached,
    129/130/143 stopped by a signal. What was running goes on at the next start.
    """
    from ralph.cli.queue_add import merge_flag
    from ralph.queue.open import whereabouts

    place = whereabouts(db, most)
    rules = worker_rules(place, merge_flag(merge), merge_unproven=merge_unproven)
    budget = batch_budget(place, max_cost, max_tokens, max_time)
    command = _again("work", most, merge, max_cost, max_tokens, max_time, merge_unproven=merge_unproven)
    order = _Order(place, rules, budget, command, until_drained=False, as_json=as_json, quiet=quiet)
    raise typer.Exit(_serve(order, ()))


@dataclass(frozen=True, slots=True)
class _Order:
    """What the user wants of a queue worker."""

    place: "QueueAddress"
    rules: "WorkerRules"
    budget: "Budget"
    command: str
    """What goes on with the queue as it was worked on, whose goals are in it by then."""
    until_drained: bool
    as_json: bool
    quiet: bool

    @property
    def progress(self) -> "Progress":
        """A screen of the kind that is wanted."""
        from ralph.dashboard.lines import Progress

        return Progress(as_json=self.as_json, quiet=self.quiet, flag=self.place.flag)

    def view(
        self, store: "Store", progress: "Progress", bulletin: "Callable[[], Bulletin]", signals: "Signals"
    ) -> AbstractContextManager[object]:
        """The dashboard, where somebody can see it and press keys; elsewhere nothing but the lines of `progress`."""
        from ralph.ui.terminal import is_attended, terminal

        screen = terminal(sys.stdout, self.place.env)
        if self.as_json or self.quiet or not screen.lively or not is_attended(sys.stdin):
            return nullcontext()
        from ralph.dashboard.board import BoardSource
        from ralph.dashboard.screen import DashboardTerminal, Showing

        ground = DashboardTerminal(sys.stdin, sys.stdout, screen.colour, lambda: signals.continued)
        return Showing(ground, BoardSource(self.place, store, bulletin), self.place, store, progress, signals)


def _serve(order: _Order, submissions: "Sequence[Submission]") -> int:
    """Take goals in, work, and say how it ended."""
    from ralph.core.errors import exit_code_of
    from ralph.dashboard.lines import BatchNotices
    from ralph.queue.goals import State
    from ralph.queue.news import Worked
    from ralph.queue.open import made, sole_worker
    from ralph.queue.scheduler import WorkOrder
    from ralph.queue.serve import serve

    place, progress = order.place, order.progress
    store = made(place)
    worked, over, fault = Worked(0), "", None

    def beside(bulletin: "Callable[[], Bulletin]", signals: "Signals") -> AbstractContextManager[object]:
        progress.asked_to_end = lambda: signals.count > 0
        return order.view(store, progress, bulletin, signals)

    # Sole before anything is taken in: a refusal leaves the queue as it was.
    with BatchNotices(place, progress) as notices, sole_worker(place.url) as still_sole:
        submitted = store.submit(submissions, State.QUEUED, alone=True)
        progress.submitted(submitted, store.goals())
        named = frozenset(each.goal.id for each in submitted)
        todo = WorkOrder(place.most, order.until_drained, order.budget, named)
        try:
            worked = serve(
                todo,
                order.rules,
                store,
                db=place.url,
                ralph_dir=place.ralph_dir,
                agent=place.agent,
                still_sole=still_sole,
                tell=notices,
                beside=beside,
            )
            over = notices.ended(worked, store.goals(), order.command)
        except Exception as error:  # nobody may be there to see it
            notices.failed(error, order.command)
            fault = error
    if fault is not None:
        with suppress(Exception):  # the queue can often be read still; and if not, that is known already
            progress.summary(store.goals(), exit_code_of(fault))
        raise fault
    goals = store.goals()
    again = f"go on with: ralph-runs {order.command}{place.flag}" if _is_cut_short(worked, goals) else ""
    progress.summary(goals, worked.exit_code, over, again)
    return worked.exit_code


def _is_cut_short(worked: "Worked", goals: "Sequence[BatchGoal]") -> bool:
    """Tell whether a signal, or the key that is one, has left goals that could go on."""
    from ralph.queue.goals import State, waits_in_vain

    in_vain = waits_in_vain(goals)
    goes_on = (goal for goal in goals if goal.state in (State.QUEUED, State.RUNNING) and goal.id not in in_vain)
    return worked.exit_code > _BY_SIGNAL and any(goes_on)


def _again(
    command: str,
    most: str | None,
    merge: str | None,
    cost: str | None,
    tokens: str | None,
    time: str | None,
    *,
    merge_unproven: bool,
) -> str:
    """A command with the flags as they were given that are about the whole queue: none may be lost by being copied."""
    given = {"--max": most, "--max-cost": cost, "--max-tokens": tokens, "--max-time": time, "--merge": merge}
    words = [word for flag, value in given.items() if value is not None for word in (flag, value)]
    return shlex.join([command, *words, *(["--merge-unproven"] if merge_unproven else [])])


def watch(db: flags.Db = None) -> None:
    """Watch a queue in a dashboard, whoever works on it: this starts nothing, and `q` leaves.

    Its keys act on the queue as the commands do: pause, cancel, retry, tell; Enter opens a goal's transcript.
    """
    from ralph.core.errors import Interrupted, UsageError
    from ralph.queue.open import existing, missing, whereabouts
    from ralph.system.signals import Signals
    from ralph.ui.terminal import is_attended, terminal

    place = whereabouts(db)
    screen = terminal(sys.stdout, place.env)
    if not screen.lively or not is_attended(sys.stdin):
        raise UsageError(
            "`watch` needs a terminal, of at least 40 columns and 8 rows (and neither CI nor TERM=dumb)",
            f"without one: {place.command('list')}, or {place.command('logs', 'ID', '-f')}",
        )
    store = existing(place)
    if store is None:
        raise UsageError(
            f"there is nothing to watch: {missing(place)}",
            f"add goals with: {place.command('add', 'GOAL.md', '--queue')}",
        )
    from ralph.dashboard.board import BoardSource
    from ralph.dashboard.screen import DashboardTerminal, Drawing

    left: list[bool] = []
    with Signals().watched() as signals:
        ground = DashboardTerminal(sys.stdin, sys.stdout, screen.colour, lambda: signals.continued)
        drawing = Drawing(ground, place, store, BoardSource(place, store), lambda: left.append(True))
        drawing.draw(lambda: bool(left or signals.count))
    store.close()
    if signals.first is not None:
        raise typer.Exit(Interrupted(signals.first).exit_code)
