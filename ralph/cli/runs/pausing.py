"""`ralph-runs pause` and `resume`: whether queued goals are started."""

import typer

from ralph.cli.runs import flags


def pause(db: flags.Db = None, as_json: flags.AsJson = False) -> None:
    """Have no queued goal started any more, by any worker, until `ralph-runs resume`; what runs goes on."""
    _decide(db, paused=True, as_json=as_json)


def resume(db: flags.Db = None, as_json: flags.AsJson = False) -> None:
    """Have queued goals started again."""
    _decide(db, paused=False, as_json=as_json)


def _decide(db: str | None, *, paused: bool, as_json: bool) -> None:
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
            place.step("add goals first: ralph-runs add GOAL.md"),
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
        typer.echo(f"{before}{place.step(PAUSED)} ({running} running, {waiting})")
    else:
        start = "" if is_served else f"; nobody serves the queue, start that with: ralph-runs run{place.flag}"
        typer.echo(f"{'goals are started again' if is_new else 'it was not paused'} ({waiting}){start}")
