"""`ralph-runs run`, `work` and `watch`: a queue worker, and the dashboard of one that runs elsewhere."""

import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ralph.cli import flags
from ralph.cli.queue_add import batch_budget, shown_adding, worker_rules
from ralph.core.errors import SIGNALLED, UsageError

if TYPE_CHECKING:
    from ralph.dashboard.lines import Progress
    from ralph.queue.goals import BatchGoal, Submission
    from ralph.queue.news import Budget, Bulletin, News, Worked
    from ralph.queue.open import QueueAddress, Scope
    from ralph.queue.store import Store
    from ralph.queue.worker_state import WorkerRules
    from ralph.system.signals import Signals

Max = Annotated[str | None, flags.setting("max")]
MergeUnproven = Annotated[
    bool, typer.Option("--merge-unproven", help="Merge finished work even if the repository has no check.")
]
MaxCost = Annotated[
    str | None,
    typer.Option(
        metavar="USD",
        help="Stop when all goals together have cost this much since this start.",
        rich_help_panel=flags.LIMITS,
    ),
]
MaxTokens = Annotated[
    str | None,
    typer.Option(
        metavar="N",
        help="Stop when all goals together have used this many tokens since this start.",
        rich_help_panel=flags.LIMITS,
    ),
]
MaxTime = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Stop after this time (30m, 8h), as Ctrl-C does.", rich_help_panel=flags.LIMITS),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print only the table at the end.", rich_help_panel=flags.OUTPUT)]
AsJson = Annotated[
    bool,
    typer.Option("--json", help="Print only JSON on stdout, one object per line.", rich_help_panel=flags.OUTPUT),
]


@flags.settings("add", "work")
def run(
    *,
    sources: flags.QueuedOrSources = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Work on every queued goal, also those of other repositories.")
    ] = False,
    most: Max = None,
    repo: flags.Repo = None,
    merge_unproven: MergeUnproven = False,
    max_cost: MaxCost = None,
    max_tokens: MaxTokens = None,
    max_time: MaxTime = None,
    trust_envrc: flags.TrustEnvrc = False,
    written: flags.Written,
    db: flags.Db = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print order, clones and limits without starting or writing anything.")
    ] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Queue goals and work until nothing can continue.

    Each goal runs in its own clone and is merged when it is proven. Without goals, ralph works on those queued for the
    repository you are in; goals of other repositories start only with --all.

    Exit codes: 0 all goals are done, 1 some are stuck, cancelled or unfinished, 2 bad usage or input, 3 a bug in ralph,
    4 --max-cost, --max-tokens or --max-time was reached, 6 no goal can start (agent, login, repository or check),
    129/130/143 stopped by a signal. The same command continues.
    """
    from ralph.cli.queue_add import read, refuse_without_goals, wishes, with_merge_modes
    from ralph.queue.open import EVERY_GOAL, queue_address, scope_here, scope_of

    for_runs = flags.among(written, "work")
    place = queue_address(db, most, for_runs)
    budget = batch_budget(place, max_cost, max_tokens, max_time)
    said = wishes(flags.among(written, "add"), repo, trust_envrc=trust_envrc)
    if not sources:
        refuse_without_goals(said)
    scope = EVERY_GOAL if everything or sources else scope_here(Path.cwd())
    goals = with_merge_modes(read(sources or [], said, place).submissions, place, asks=not dry_run)
    if goals and not everything:
        scope = scope_of(goal.repo for goal in goals)
    rules = worker_rules(place, merge_unproven=merge_unproven)
    if dry_run:
        from ralph.dashboard.dry_run import Intentions

        Intentions(place, goals, budget, scope).show(as_json=as_json)
        return
    given: dict[str, object] = {"all": everything or not _is_here(scope), "max": most, **for_runs}
    given |= {"max_cost": max_cost, "max_tokens": max_tokens, "max_time": max_time, "merge_unproven": merge_unproven}
    order = _Order(place, rules, budget, scope, _again("run", given), until_drained=True, as_json=as_json, quiet=quiet)
    raise typer.Exit(_serve(order, goals))


@flags.settings("work")
def work(
    *,
    most: Max = None,
    merge_unproven: MergeUnproven = False,
    max_cost: MaxCost = None,
    max_tokens: MaxTokens = None,
    max_time: MaxTime = None,
    written: flags.Written,
    db: flags.Db = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Serve every goal in the queue until stopped.

    Goals that you add from another terminal start as soon as they can.

    Exit codes: 2 bad usage, or another worker serves this queue, 4 --max-cost, --max-tokens or --max-time was reached,
    6 no queued goal can start (agent, login or check), 129/130/143 stopped by a signal. Running goals continue at the
    next start.
    """
    from ralph.queue.open import EVERY_GOAL, queue_address

    place = queue_address(db, most, written)
    rules = worker_rules(place, merge_unproven=merge_unproven)
    budget = batch_budget(place, max_cost, max_tokens, max_time)
    given: dict[str, object] = {"max": most, **written, "max_cost": max_cost, "max_tokens": max_tokens}
    command = _again("work", {**given, "max_time": max_time, "merge_unproven": merge_unproven})
    order = _Order(place, rules, budget, EVERY_GOAL, command, until_drained=False, as_json=as_json, quiet=quiet)
    raise typer.Exit(_serve(order, ()))


@dataclass(frozen=True, slots=True)
class _Order:
    """What the user wants from a queue worker."""

    place: "QueueAddress"
    rules: "WorkerRules"
    budget: "Budget"
    scope: "Scope"
    command: str
    """The command that continues with the queue; its goals are in there by then."""
    until_drained: bool
    as_json: bool
    quiet: bool

    @property
    def progress(self) -> "Progress":
        """The screen for the chosen output."""
        from ralph.dashboard.lines import Progress

        return Progress(as_json=self.as_json, quiet=self.quiet, flag=self.place.flag)

    def view(
        self, store: "Store", progress: "Progress", bulletin: "Callable[[], Bulletin]", signals: "Signals"
    ) -> AbstractContextManager[object]:
        """Return the dashboard if someone can see it and press keys, else a screen without one."""
        from ralph.ui.terminal import is_attended, terminal

        screen = terminal(sys.stdout, self.place.env)
        if self.as_json or self.quiet or not screen.lively or not is_attended(sys.stdin):
            return nullcontext()
        from ralph.dashboard.screen import DashboardTerminal, Showing
        from ralph.dashboard.source import BoardSource

        own_terminal = DashboardTerminal(sys.stdin, sys.stdout, screen.colour, lambda: signals.continued)
        return Showing(own_terminal, BoardSource(self.place, store, bulletin), self.place, store, progress, signals)


def _serve(order: _Order, submissions: "Sequence[Submission]") -> int:
    """Add goals, work on the queue, and report how it ended; make no queue if there is nothing to do."""
    from ralph.core.errors import ExitCode, exit_code_of
    from ralph.dashboard.lines import BatchNotices
    from ralph.dashboard.reasons import elsewhere_line, reason_line
    from ralph.queue.goals import State
    from ralph.queue.news import Worked
    from ralph.queue.open import existing, has_work, made, sole_worker
    from ralph.queue.scheduler import WorkOrder
    from ralph.queue.serve import serve

    place, progress = order.place, order.progress
    if order.until_drained and not submissions and not has_work(store := existing(place), order.scope):
        known = [] if store is None else store.goals()
        progress.summary(known, 0, "", elsewhere_line(len(order.scope.elsewhere(known)), place.flag))
        return ExitCode.DONE
    store = made(place)
    worked, over, fault = Worked(0), "", None

    def beside(bulletin: "Callable[[], Bulletin]", signals: "Signals") -> AbstractContextManager[object]:
        progress.asked_to_end = lambda: signals.count > 0
        return order.view(store, progress, bulletin, signals)

    # Take the worker's lock before adding goals: a refusal leaves the queue as it was.
    with BatchNotices(place, progress) as notices, sole_worker(place.url) as still_sole:
        with shown_adding(quiet=order.quiet) as report:
            submitted = store.submit(submissions, State.QUEUED, alone=True, report=report)
        progress.submitted(submitted, store.goals(), order.scope)
        _preflight(order, store, notices)
        named = frozenset(each.goal.id for each in submitted)
        todo = WorkOrder(place.most, order.until_drained, order.budget, order.scope, named, lambda: progress.is_covered)
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
                line_of=reason_line,
                beside=beside,
            )
            over = notices.ended(worked, store.goals(), order.command)
        except Exception as error:  # there may be no terminal
            notices.failed(error, order.command)
            fault = error
    if fault is not None:
        with suppress(Exception):  # the queue can often still be read; if not, the fault is already known
            progress.summary(store.goals(), exit_code_of(fault))
        raise fault
    goals = store.goals()
    again = (
        f"continue with: ralph-runs {order.command}{place.flag}" if _is_cut_short(worked, goals, order.scope) else ""
    )
    progress.summary(goals, worked.exit_code, over, again)
    if place.bell and worked.exit_code not in SIGNALLED:  # who stops it is there
        progress.call_user(goals)
    return worked.exit_code


def _preflight(order: _Order, store: "Store", tell: "Callable[[News], None]") -> None:
    """Look at everything that the goals need, before anything is cloned."""
    from ralph.core.errors import BlockedError
    from ralph.queue.goals import ACTIVE
    from ralph.setup.preflight import preflight

    place, rules = order.place, order.rules
    mine = [goal for goal in store.active() if goal.state in ACTIVE and order.scope.has(goal)]
    try:
        preflight(
            [] if store.paused else [goal for goal in mine if goal.unmerged is None or not rules.merges_only(goal)],
            store,
            env=rules.env,
            ralph_dir=place.ralph_dir,
            tell=tell,
            asks_repositories=order.until_drained,
            quiet=order.quiet,
        )
    except BlockedError as error:
        goes_on = f"continue with: ralph-runs {order.command}{place.flag}"
        raise BlockedError(error.message, f"{error.hint}\nthen {goes_on}" if error.hint else goes_on) from error


def _is_cut_short(worked: "Worked", goals: "Sequence[BatchGoal]", scope: "Scope") -> bool:
    """Tell whether a signal or a key stopped goals that could continue."""
    from ralph.queue.goals import State, waits_in_vain

    in_vain = waits_in_vain(goals)
    unfinished = (goal for goal in goals if goal.state in (State.QUEUED, State.RUNNING) and scope.has(goal))
    return worked.exit_code in SIGNALLED and any(goal.id not in in_vain for goal in unfinished)


def _is_here(scope: "Scope") -> bool:
    """Tell whether `ralph-runs run` means these goals, where the user is."""
    from ralph.queue.open import scope_here

    try:
        here = scope_here(Path.cwd())
    except UsageError:
        return False
    return scope.places is not None and here.places is not None and scope.places <= here.places


def _again(command: str, given: "Mapping[str, object]") -> str:
    """Build the command with all flags that are about the whole queue, as they were given."""
    words = [command]
    for name, value in given.items():
        if value not in (None, False):
            words += [flags.flag(name), *([] if value is True else [str(value)])]
    return shlex.join(words)


def watch(db: flags.Db = None) -> None:
    """Show the dashboard of a queue.

    `watch` starts no goals and works no matter where the worker runs; `q` leaves.

    Keys do what the commands do: pause, cancel, retry, tell. Enter opens a goal's transcript.
    """
    from ralph.core.errors import Interrupted, UsageError
    from ralph.queue.open import existing, missing, queue_address
    from ralph.system.signals import Signals
    from ralph.ui.terminal import is_attended, terminal

    place = queue_address(db)
    screen = terminal(sys.stdout, place.env)
    if not screen.lively or not is_attended(sys.stdin):
        raise UsageError(
            "`watch` needs a terminal of at least 40 columns and 8 rows, without CI or TERM=dumb",
            f"without a terminal, use: {place.command('list')}, or {place.command('log', 'ID', '-f')}",
        )
    store = existing(place)
    if store is None:
        raise UsageError(
            f"cannot watch: {missing(place)}",
            f"add goals with: {place.command('add', 'GOAL.md', '--queue')}",
        )
    from ralph.dashboard.screen import DashboardTerminal, Drawing
    from ralph.dashboard.source import BoardSource

    with Signals().watched() as signals:
        own_terminal = DashboardTerminal(sys.stdin, sys.stdout, screen.colour, lambda: signals.continued)
        Drawing(own_terminal, place, store, BoardSource(place, store)).draw(lambda: signals.count > 0)
    store.close()
    if signals.first is not None:
        raise typer.Exit(Interrupted(signals.first).exit_code)
