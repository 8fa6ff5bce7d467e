"""`ralph-runs watch`: the dashboard of a queue that somebody else works on."""

import sys

import typer

from ralph.cli.runs import flags


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
            place.step("without one: ralph-runs list, or ralph-runs logs ID -f"),
        )
    store = existing(place)
    if store is None:
        raise UsageError(
            f"there is nothing to watch: {missing(place)}",
            place.step("add goals with: ralph-runs add GOAL.md --queue"),
        )
    from ralph.dashboard.board import Source
    from ralph.dashboard.screen import Drawing, Ground

    left: list[bool] = []
    with Signals().watched() as signals:
        ground = Ground(sys.stdin, sys.stdout, screen.colour, lambda: signals.continued)
        drawing = Drawing(ground, place, store, Source(place, store), lambda: left.append(True))
        drawing.draw(lambda: bool(left or signals.count))
    store.close()
    if signals.first is not None:
        raise typer.Exit(Interrupted(signals.first).exit_code)
