"""`ralph-runs queue`, `retry`, `cancel`, `wake`, `comment`, `tell`, `pause` and `resume`: what the user decides."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from ralph.cli import flags
from ralph.cli.program import say, say_json

if TYPE_CHECKING:
    from ralph.queue.goals import BatchGoal
    from ralph.queue.store import Store


def queue(goals: flags.Ids, db: flags.Db = None, as_json: flags.PrintJson = False) -> None:
    """Queue drafts."""
    _change_goals(goals, db, lambda store, _: store.queue, ("draft",), as_json=as_json)


def retry(goals: flags.Ids, db: flags.Db = None, as_json: flags.PrintJson = False) -> None:
    """Retry stuck, cancelled or undone goals.

    They keep their branches and get as many attempts as a new goal.
    """
    _change_goals(goals, db, lambda store, _: store.retry, ("stuck", "cancelled", "undone"), as_json=as_json)


def cancel(goals: flags.Ids, db: flags.Db = None, as_json: flags.PrintJson = False) -> None:
    """Cancel goals. Running ones are stopped; branches are kept."""
    states = ("draft", "queued", "running", "stuck", "cancelled")
    _change_goals(goals, db, lambda store, alone: lambda goal: store.cancel(goal, alone=alone), states, as_json=as_json)


def wake(goals: flags.Ids, db: flags.Db = None, as_json: flags.PrintJson = False) -> None:
    """Stop waiting for a usage limit and try again now.

    Other goals on the same account can start again, too.
    """
    from ralph.core.errors import UsageError
    from ralph.dashboard import report
    from ralph.queue.open import find, queue_address, serving

    place = queue_address(db)
    store, found = find(place, goals)
    if not serving(place.url):
        raise UsageError(
            "cannot wake a goal: the queue has no worker", f"start one with: {place.command('run', '--all')}"
        )
    bulletin = store.bulletin()
    for goal in found:
        status = None if bulletin is None else bulletin.statuses.get(goal.id)
        if status is None or status.until is None:
            hint = f"see what it does: {place.command('show', goal.label)}"
            raise UsageError(f"cannot wake {goal.label}: it is not waiting for a usage limit", hint)
    store.wake(found)
    if as_json:
        say_json([report.row(goal) for goal in found])
    else:
        say(*(f"{goal.label} {goal.name}: woken" for goal in found))


def comment(
    goal: flags.Id,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The message, in quotes.")],
    db: flags.Db = None,
    as_json: flags.PrintJson = False,
) -> None:
    """Leave a comment for the next session of a goal.

    `ralph-runs show` lists all comments.
    """
    from ralph.cli.queue_show import known_of
    from ralph.dashboard import report
    from ralph.queue.open import find, queue_address

    _refuse_words(text, "comment")
    place = queue_address(db)
    store, (found,) = find(place, [goal])
    store.comment(found, "user", text.strip())
    if as_json:
        say_json(report.document(known_of(found, place, store)))
    elif found.state == "done":
        say(f"{found.label} {found.name}: comment saved, but no agent will read it: the goal is done")
    else:
        who = "the next session" if found.state == "running" else "its next attempt"
        say(f"{found.label} {found.name}: comment saved; {who} reads it")


def tell(
    goal: flags.Id,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The message, in quotes.")],
    db: flags.Db = None,
    as_json: flags.PrintJson = False,
) -> None:
    """Send a message to a goal's agent.

    ralph prints when the agent will read it, and saves it as a comment.
    """
    from ralph.dashboard.actions import passed_on
    from ralph.queue.open import find, queue_address

    _refuse_words(text, "message")
    place = queue_address(db)
    store, (found,) = find(place, [goal])
    when = passed_on(found, text, place, store)
    told = {"id": found.label, "name": found.name, "state": found.state, "heard": when}
    if as_json:
        say_json(told)
    else:
        say(f"{found.label} {found.name}: {when}")


def _refuse_words(text: str, what: str) -> None:
    from ralph.core.errors import UsageError
    from ralph.queue.goals import LONGEST

    if not text.strip():
        command = "comment" if what == "comment" else "tell"
        raise UsageError(f"the {what} is empty", f"ralph-runs {command} ID 'what the next session should know'")
    if len(text) > LONGEST:
        raise UsageError(
            f"the {what} is too long: {len(text):,} characters, at most {LONGEST:,}",
            "put the text into a file in the repository and name that file, or edit the goal file and add it again",
        )


def _change_goals(
    words: Sequence[str],
    db: str | None,
    action: "Callable[[Store, bool], Callable[[BatchGoal], BatchGoal]]",
    states: Sequence[str],
    *,
    as_json: bool,
) -> None:
    from ralph.dashboard import report
    from ralph.queue.news import PAUSED
    from ralph.queue.open import alone, find, queue_address, serving

    place = queue_address(db)
    store, goals = find(place, words)
    with alone(place, store) as cut_off:
        act = action(store, cut_off)
        # Goals that will be refused come first, so that the error comes before anything has changed.
        decided = [act(goal) for goal in sorted(goals, key=lambda goal: goal.state in states)]
    decided.sort(key=lambda goal: [one.id for one in goals].index(goal.id))
    if as_json:
        say_json([report.row(goal, cut_off=cut_off) for goal in decided])
        return
    for goal in decided:
        at_merge = (
            f"interrupted during its merge; {place.command('run', '--all')} cancels it unless the merge succeeded"
        )
        stopping = at_merge if cut_off else "cancelling"
        say(f"{goal.label} {goal.name}: {stopping if goal.cancelling else goal.state}")
    if any(goal.state == "queued" for goal in decided):
        if store.paused:
            say(PAUSED.written(place.flag))
        if not serving(place.url):
            say(f"the queue has no worker; start one with: {place.command('run', '--all')}")


def pause(db: flags.Db = None, as_json: flags.PrintJson = False) -> None:
    """Stop starting goals until `ralph-runs resume`.

    Running goals continue. The pause lasts across restarts of the worker.
    """
    _set_paused(db, paused=True, as_json=as_json)


def resume(db: flags.Db = None, as_json: flags.PrintJson = False) -> None:
    """Start queued goals again."""
    _set_paused(db, paused=False, as_json=as_json)


def _set_paused(db: str | None, *, paused: bool, as_json: bool) -> None:
    from ralph.core.errors import UsageError
    from ralph.queue.goals import State
    from ralph.queue.news import PAUSED
    from ralph.queue.open import existing, missing, queue_address, serving

    place = queue_address(db)
    store = existing(place)
    if store is None:
        raise UsageError(
            f"cannot {'pause' if paused else 'resume'}: {missing(place)}",
            f"add goals first: {place.command('add', 'GOAL.md')}",
        )
    counts = store.counts()  # first: a worker starts queued goals as soon as it sees the change
    is_new, is_served = store.pause(paused=paused), bool(serving(place.url))
    at_work, queued = counts.get(State.RUNNING, 0), counts.get(State.QUEUED, 0)
    running, cut_off = (at_work, 0) if is_served else (0, at_work)
    if as_json:
        facts = {"paused": paused, "changed": is_new, "served": is_served, "running": running}
        facts |= {"cut_off": cut_off, "queued": queued}
        say_json(facts)
        return
    waiting = (f"{cut_off} interrupted, " if cut_off else "") + f"{queued} queued"
    if paused:
        before = "" if is_new else "already "
        say(f"{before}{PAUSED.written(place.flag)} ({running} running, {waiting})")
    else:
        start = "" if is_served else f"; the queue has no worker, start one with: {place.command('run', '--all')}"
        say(f"{'resumed' if is_new else 'not paused'} ({waiting}){start}")
