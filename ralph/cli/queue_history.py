"""`ralph-runs log`, `diff` and `undo`: what a goal did, what it changed, and reverting it."""

from typing import TYPE_CHECKING, Annotated

import typer

from ralph.cli import flags
from ralph.cli.history import LookBack, Number, retell_iteration, show_changes, way_on
from ralph.cli.program import say, say_json, shown_task
from ralph.cli.queue_show import logs

if TYPE_CHECKING:
    from ralph.queue.goals import BatchGoal
    from ralph.queue.open import QueueAddress


def log(
    goal: flags.Id,
    iteration: Number = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Print the transcript, and follow it until the run ends.")
    ] = False,
    db: flags.Db = None,
    as_json: flags.PrintJson = False,
) -> None:
    """Show what a goal's latest run did, iteration by iteration.

    For each iteration: summary, check, cost, time and commit.

    -i shows the conversation of one iteration with the output of its tools. -f shows the whole transcript, and follows
    it while the goal runs. With either, --json prints events.
    """
    from ralph.core.errors import UsageError
    from ralph.core.records import to_record
    from ralph.queue.history import past_goal
    from ralph.queue.open import find, queue_address
    from ralph.ui import history

    if follow and iteration is not None:
        raise UsageError("--follow and --iteration cannot be combined: --follow shows the whole run", "use one of them")
    if follow:
        logs(goal, follow=True, db=db, as_json=as_json)
        return
    place = queue_address(db)
    store, (asked,) = find(place, [goal])
    with past_goal(asked, place, store.queue_id) as found:
        if iteration is not None:
            retell_iteration(found.past, found.directory, iteration, _look_back(asked, place), as_json=as_json)
        elif as_json:
            say_json({"id": asked.label, **to_record(found.past)})
        else:
            say(*history.told(found.past), *way_on(found.past, found.directory, _look_back(asked, place)))


def diff(goal: flags.Id, iteration: Number = None, db: flags.Db = None, as_json: flags.PrintJson = False) -> None:
    """Show what a goal changed, as a patch.

    For merged work, the patch is its commit on the base branch; otherwise, its branch. -i shows one iteration.

    Control characters are escaped. For git apply, take the exact text from --json (key `patch`).
    """
    from ralph.git.history import parent_of
    from ralph.queue.history import changed_span, past_goal
    from ralph.queue.open import find, queue_address
    from ralph.state.past_runs import require_iteration

    place = queue_address(db)
    store, (asked,) = find(place, [goal])
    with past_goal(asked, place, store.queue_id) as found:
        title = f"{asked.label} {asked.name}"
        if iteration is None:
            base, head = changed_span(found)
        else:
            head = require_iteration(found.past, iteration, _look_back(asked, place).log).commit
            base, title = parent_of(found.git, head), f"{title} iteration {iteration}"
        show_changes(found.git, base, head, title, as_json=as_json)


def _look_back(goal: "BatchGoal", place: "QueueAddress") -> LookBack:
    return LookBack(f"{goal.label} {goal.name}", place.command("log", goal.label), place.command("diff", goal.label))


def undo(goal: flags.Id, db: flags.Db = None, as_json: flags.PrintJson = False) -> None:
    """Revert a merged goal on main.

    ralph reverts its commit on a clean checkout, runs the check there, and pushes only if it is green.

    It works with and without a worker, and names the goals that came after it. If the work conflicts with what came
    later, ralph says so and pushes nothing.

    Exit codes: 0 undone, 1 conflicts, a red check or a refused push, 2 there is nothing to undo.
    """
    from ralph.core.errors import RepoError
    from ralph.dashboard import history, report
    from ralph.queue.goals import State
    from ralph.queue.merge.pipeline import Red, Refused
    from ralph.queue.merge.undo import UndoConflict, UndoneMerge, undo_goal
    from ralph.queue.open import find, queue_address

    place = queue_address(db)
    store, (found,) = find(place, [goal])
    if found.state is State.UNDONE:
        if as_json:
            say_json(report.row(found))
        else:
            say(f"{found.label} {found.name}: undone already; do it again: {place.command('retry', found.label)}")
        return
    with shown_task(f"undoing {found.label} {found.name}") as report_progress:
        outcome = undo_goal(found, place, store, report_progress)
    match outcome:
        case UndoneMerge():
            now, goals = store.goal(found.id), store.goals()
            if as_json:
                say_json(history.undone_document(now, outcome, goals))
            else:
                say(*history.undone_parts(now, outcome, goals, place.flag))
        case UndoConflict():
            raise RepoError(*history.conflict_words(found, outcome, store.goals()))
        case Red(how, output):
            raise RepoError(
                f"cannot undo {found.label}: without it the check is red ({how}); nothing was pushed\n{output.strip()}",
                "something that came after it needs it: undo that first, or change it by hand",
            )
        case Refused(reason):
            raise RepoError(f"cannot undo {found.label}: {reason}", f"see it: {place.command('show', found.label)}")
        case _:
            raise RepoError(f"undoing {found.label} was stopped", "run the same command again")
