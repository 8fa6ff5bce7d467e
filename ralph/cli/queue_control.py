"""`ralph-runs queue`, `retry`, `cancel`, `wake`, `comment`, `tell`, `pause`, `resume`: what the user decides."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from ralph.cli import flags
from ralph.dashboard.actions import passed_on
from ralph.queue.goals import LONGEST

if TYPE_CHECKING:
    from ralph.queue.goals import BatchGoal
    from ralph.queue.store import Store


def queue(goals: flags.Ids, db: flags.Db = None, as_json: flags.PrintJson = False) -> None:
    """Let drafts start."""
    _change_goals(goals, db, lambda store, _: store.queue, ("draft",), as_json=as_json)


def retry(goals: flags.Ids, db: flags.Db = None, as_json: flags.PrintJson = False) -> None:
    """Try goals that are stuck or cancelled again, on the same branch, with as many attempts as a new goal has."""
    _change_goals(goals, db, lambda store, _: store.retry, ("stuck", "cancelled"), as_json=as_json)


def cancel(goals: flags.Ids, db: flags.Db = None, as_json: flags.PrintJson = False) -> None:
    """Give goals up. One that runs is stopped; its branch is kept."""
    states = ("draft", "queued", "running", "stuck", "cancelled")
    _change_goals(goals, db, lambda store, alone: lambda goal: store.cancel(goal, alone=alone), states, as_json=as_json)


def wake(goals: flags.Ids, db: flags.Db = None, as_json: flags.PrintJson = False) -> None:
    """Have goals that wait for a usage limit go on now, and others of the same account start."""
    from ralph.core import ndjson
    from ralph.core.errors import UsageError
    from ralph.dashboard import report
    from ralph.queue.open import find, serving, whereabouts

    place = whereabouts(db)
    store, found = find(place, goals)
    if not serving(place.url):
        raise UsageError("nobody serves the queue: no goal waits", f"start it with: {place.command('run')}")
    bulletin = store.bulletin()
    for goal in found:
        sight = None if bulletin is None else bulletin.sights.get(goal.id)
        if sight is None or sight.until is None:
            raise UsageError(f"{goal.label} does not wait for a usage limit: there is nothing to wake")
    store.wake(found)
    if as_json:
        typer.echo(ndjson.encode([report.row(goal) for goal in found]))
    else:
        typer.echo("\n".join(f"{goal.label} {goal.name}: goes on now" for goal in found))


def comment(
    goal: flags.Id,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to say, quoted.")],
    db: flags.Db = None,
    as_json: flags.PrintJson = False,
) -> None:
    """Say something about a goal: the next session that works on it is told, and `show` keeps it."""
    from ralph.cli.queue_show import known_of
    from ralph.core import ndjson
    from ralph.dashboard import report
    from ralph.queue.open import find, whereabouts

    _refuse_words(text, "comment")
    place = whereabouts(db)
    store, (found,) = find(place, [goal])
    store.comment(found, "user", text.strip())
    if as_json:
        typer.echo(ndjson.encode(report.document(known_of(found, place, store))))
    elif found.state == "done":
        typer.echo(f"{found.label} {found.name}: kept; it is done, and no attempt will read it")
    else:
        who = "the next session" if found.state == "running" else "its next attempt"
        typer.echo(f"{found.label} {found.name}: {who} is told")


def tell(
    goal: flags.Id,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to say, quoted.")],
    db: flags.Db = None,
    as_json: flags.PrintJson = False,
) -> None:
    """Say something to whoever works on a goal, and see when it will be heard. It is kept as a comment."""
    from ralph.core import ndjson
    from ralph.queue.open import find, whereabouts

    _refuse_words(text, "word")
    place = whereabouts(db)
    store, (found,) = find(place, [goal])
    when = passed_on(found, text, place, store)
    told = {"id": found.label, "name": found.name, "state": found.state, "heard": when}
    typer.echo(ndjson.encode(told) if as_json else f"{found.label} {found.name}: {when}")


def _refuse_words(text: str, what: str) -> None:
    from ralph.core.errors import UsageError

    if not text.strip():
        command = "comment" if what == "comment" else "tell"
        raise UsageError("there is nothing to say", f"ralph-runs {command} ID 'what the next session should know'")
    if len(text) > LONGEST:
        raise UsageError(
            f"{len(text):,} characters are too many for a {what} ({LONGEST:,})",
            "write them to a file in the repository, and name it; or change the goal's file, and add it again",
        )


def _change_goals(
    words: Sequence[str],
    db: str | None,
    deed: "Callable[[Store, bool], Callable[[BatchGoal], BatchGoal]]",
    states: Sequence[str],
    *,
    as_json: bool,
) -> None:
    from ralph.core import ndjson
    from ralph.dashboard import report
    from ralph.queue.open import alone, find, whereabouts

    place = whereabouts(db)
    store, goals = find(place, words)
    with alone(place, store) as cut_off:
        act = deed(store, cut_off)
        # Those that it refuses come first: it says so in its own words, and nothing has been changed by then.
        decided = [act(goal) for goal in sorted(goals, key=lambda goal: goal.state in states)]
    decided.sort(key=lambda goal: [one.id for one in goals].index(goal.id))
    if as_json:
        typer.echo(ndjson.encode([report.row(goal, cut_off=cut_off) for goal in decided]))
        return
    for goal in decided:
        at_merge = f"was cut off while it was merged: ralph-runs run{place.flag} gives it up, unless that was done"
        stopping = at_merge if cut_off else "is being cancelled"
        typer.echo(f"{goal.label} {goal.name}: {stopping if goal.cancelling else goal.state}")


def pause(db: flags.Db = None, as_json: flags.PrintJson = False) -> None:
    """Have no queued goal started any more, by any worker, until `ralph-runs resume`; what runs goes on."""
    _set_paused(db, paused=True, as_json=as_json)


def resume(db: flags.Db = None, as_json: flags.PrintJson = False) -> None:
    """Have queued goals started again."""
    _set_paused(db, paused=False, as_json=as_json)


def _set_paused(db: str | None, *, paused: bool, as_json: bool) -> None:
    from ralph.core import ndjson
    from ralph.core.errors import UsageError
    from ralph.queue.goals import State
    from ralph.queue.news import PAUSED
    from ralph.queue.open import existing, missing, serving, whereabouts

    place = whereabouts(db)
    store = existing(place)
    if store is None:
        raise UsageError(
            f"there is nothing to {'pause' if paused else 'resume'}: {missing(place)}",
            f"add goals first: {place.command('add', 'GOAL.md')}",
        )
    counts = store.counts()  # first: a worker that hears of it starts what is queued at once
    is_new, is_served = store.pause(paused=paused), bool(serving(place.url))
    at_work, queued = counts.get(State.RUNNING, 0), counts.get(State.QUEUED, 0)
    running, cut_off = (at_work, 0) if is_served else (0, at_work)
    if as_json:
        facts = {"paused": paused, "changed": is_new, "served": is_served, "running": running}
        facts |= {"cut_off": cut_off, "queued": queued}
        typer.echo(ndjson.encode(facts))
        return
    waiting = (f"{cut_off} cut off, " if cut_off else "") + f"{queued} queued"
    if paused:
        before = "" if is_new else "it was already "
        typer.echo(f"{before}{PAUSED.written(place.flag)} ({running} running, {waiting})")
    else:
        start = "" if is_served else f"; nobody serves the queue, start that with: ralph-runs run{place.flag}"
        typer.echo(f"{'goals are started again' if is_new else 'it was not paused'} ({waiting}){start}")
