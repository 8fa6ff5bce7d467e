"""`ralph-runs list` and `show`: the queue, and one goal of it."""

from typing import TYPE_CHECKING, Annotated

import typer

from ralph.cli.runs import flags

if TYPE_CHECKING:  # loaded when a command is called
    from ralph.dashboard.report import Known
    from ralph.queue.goals import BatchGoal
    from ralph.queue.open import Whereabouts
    from ralph.queue.store import Store


def list_(
    state: Annotated[
        str | None,
        typer.Option(metavar="STATE", help="Only goals that are draft, queued, running, done, stuck or cancelled."),
    ] = None,
    db: flags.Db = None,
    as_json: flags.AsJson = False,
) -> None:
    """List the goals of the queue: where each stands, and what it has cost."""
    from ralph.core import ndjson
    from ralph.dashboard import report
    from ralph.dashboard.report import row
    from ralph.queue.news import PAUSED
    from ralph.queue.open import existing, is_cut_off, missing, whereabouts

    wanted = _state(state)
    place = whereabouts(db)
    store = existing(place)
    everything = [] if store is None else store.goals()
    goals = [goal for goal in everything if wanted in (None, goal.state)]
    cut_off = is_cut_off(place, everything)
    if as_json:
        typer.echo(ndjson.encode([row(goal, cut_off=cut_off) for goal in goals]))
    elif goals:
        paused = [place.step(PAUSED)] if store is not None and store.paused else []
        typer.echo("\n".join([*report.overview(goals, everything, cut_off=cut_off, flag=place.flag), *paused]))
    elif everything:
        typer.echo(f"no goal is {wanted}; {report.tally(everything, cut_off=cut_off)}")
    else:
        what = missing(place) if store is None else "the queue is empty"
        typer.echo(f"{what}; {place.step('add goals with: ralph-runs add GOAL.md --queue')}")


def show(goal: flags.Id, db: flags.Db = None, as_json: flags.AsJson = False) -> None:
    """Show a goal: its state and why, attempts, cost, branch, clone, what it comes after, history, the next step."""
    from ralph.core import ndjson
    from ralph.dashboard import report
    from ralph.dashboard.report import document
    from ralph.queue.open import find, whereabouts

    place = whereabouts(db)
    store, (found,) = find(place, [goal])
    known = known_of(found, place, store)
    if as_json:
        typer.echo(ndjson.encode(document(known)))
    else:
        typer.echo("\n".join(report.details(known, store.goals(), flag=place.flag)))


def known_of(goal: "BatchGoal", place: "Whereabouts", store: "Store") -> "Known":
    """Look up what there is of a goal besides its row."""
    from ralph.dashboard import report
    from ralph.dashboard.report import Known
    from ralph.queue.gc import kept
    from ralph.queue.open import is_cut_off
    from ralph.queue.paths import premises
    from ralph.queue.repos.mirror import open_mirror

    working = premises(place.ralph_dir, store.queue_id).clone(goal)
    bare = open_mirror(place.ralph_dir, goal.repo).bare
    has_mirror = bare.path.is_dir()
    return Known(
        goal,
        store.comments(goal),
        clone=working if working.is_dir() else None,
        # A branch that is merged is removed from the mirror: one that is there has work that is nowhere else.
        mirror=bare.path if has_mirror and bare.commit_at(f"refs/heads/{goal.branch}") else None,
        kept=kept(bare, working, goal.branch) if has_mirror else [],
        look=report.look_at_kept(bare.path, working, goal.branch),
        cut_off=is_cut_off(place, [goal]),
        paused=store.paused,
    )


def _state(written: str | None) -> str | None:
    from ralph.core.errors import UsageError
    from ralph.core.text import did_you_mean
    from ralph.queue.goals import State

    if written is not None and written not in list(State):
        raise UsageError(f"--state: {written!r} is not one of {', '.join(State)}{did_you_mean(written, State)}")
    return written
