"""`ralph-runs list` and `show`: the queue, and one goal of it."""

from typing import Annotated

import typer

from ralph.cli.runs import flags


def list_(
    state: Annotated[
        str | None,
        typer.Option(metavar="STATE", help="Only goals that are draft, queued, running, done, stuck or cancelled."),
    ] = None,
    db: flags.Db = None,
    as_json: flags.AsJson = False,
) -> None:
    """List the goals of the queue: where each stands, and what it has cost."""
    from ralph import jsonline
    from ralph.batch.news import PAUSED
    from ralph.cli.runs import documents, tables
    from ralph.cli.runs.queues import existing, is_cut_off, missing, whereabouts

    wanted = _state(state)
    place = whereabouts(db)
    store = existing(place)
    everything = [] if store is None else store.goals()
    goals = [goal for goal in everything if wanted in (None, goal.state)]
    cut_off = is_cut_off(place, everything)
    if as_json:
        typer.echo(jsonline.encode([documents.row(goal, cut_off=cut_off) for goal in goals]))
    elif goals:
        paused = [place.step(PAUSED)] if store is not None and store.paused else []
        typer.echo("\n".join([*tables.overview(goals, everything, cut_off=cut_off, flag=place.flag), *paused]))
    elif everything:
        typer.echo(f"no goal is {wanted}; {tables.tally(everything, cut_off=cut_off)}")
    else:
        what = missing(place) if store is None else "the queue is empty"
        typer.echo(f"{what}; {place.step('add goals with: ralph-runs add GOAL.md --queue')}")


def show(goal: flags.Id, db: flags.Db = None, as_json: flags.AsJson = False) -> None:
    """Show a goal: its state and why, attempts, cost, branch, clone, what it comes after, history, the next step."""
    from ralph import jsonline
    from ralph.batch.discarding import kept
    from ralph.batch.mirror import open_mirror
    from ralph.batch.premises import premises
    from ralph.cli.runs import documents, tables
    from ralph.cli.runs.queues import find, is_cut_off, whereabouts

    place = whereabouts(db)
    store, (found,) = find(place, [goal])
    working = premises(place.ralph_dir, store.queue_id).clone(found)
    clone = working if working.is_dir() else None
    bare = open_mirror(place.ralph_dir, found.repo).bare
    saved = kept(bare, working, found.branch) if bare.path.is_dir() else []
    # A branch that is merged is removed from the mirror: one that is there has work that is nowhere else.
    mirror = bare.path if bare.path.is_dir() and bare.commit_at(f"refs/heads/{found.branch}") else None
    comments = store.comments(found)
    cut_off = is_cut_off(place, [found])
    if as_json:
        told = documents.document(found, comments, str(clone or ""), str(mirror or ""), cut_off=cut_off)
        typer.echo(jsonline.encode({**told, "kept": saved, "paused": store.paused}))
    else:
        look = tables.look_at_kept(bare.path, working, found.branch) if saved else ""
        circumstances = {"cut_off": cut_off, "paused": store.paused}
        lines = tables.details(found, comments, store.goals(), clone, mirror, look, **circumstances, flag=place.flag)
        typer.echo("\n".join(lines))


def _state(written: str | None) -> str | None:
    from ralph.batch.goals import State
    from ralph.errors import UsageError
    from ralph.nearest import did_you_mean

    if written is not None and written not in list(State):
        raise UsageError(f"--state: {written!r} is not one of {', '.join(State)}{did_you_mean(written, State)}")
    return written
