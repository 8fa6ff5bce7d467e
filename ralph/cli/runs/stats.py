"""`ralph-runs stats`: what the goals of a queue have come to, and what those left will probably take."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from ralph.cli.runs import flags

if TYPE_CHECKING:  # loaded when the command is called
    from ralph.queue.goals import BatchGoal
    from ralph.queue.open import Whereabouts
    from ralph.queue.stats import Forecast, Sums, Tally, Typical
    from ralph.queue.store import Store

_LABEL = 10
_MOST_REASONS = 10


def stats(db: flags.Db = None, as_json: flags.AsJson = False) -> None:
    """Show the queue in figures: states, attempts, cost, tokens and time, failures, and what is left to come."""
    from ralph.core import ndjson
    from ralph.dashboard import report
    from ralph.queue.goals import agent_of
    from ralph.queue.news import PAUSED
    from ralph.queue.open import existing, is_cut_off, missing, whereabouts
    from ralph.queue.stats import tally

    place = whereabouts(db)
    store = existing(place)
    goals = [] if store is None else store.goals()
    comments = [] if store is None else store.comments_after(0)
    agents = {goal.id: agent_of(goal, place.agent) for goal in goals}
    counted = tally(goals, agents, comments)
    foretold = None if store is None else _forecast(place, store, goals)
    paused = store is not None and store.paused
    if as_json:
        found = {**counted.document(), "forecast": None if foretold is None else asdict(foretold), "paused": paused}
        typer.echo(ndjson.encode(found))
    elif goals:
        lines = _lines(counted, foretold, report.tally(goals, cut_off=is_cut_off(place, goals)))
        typer.echo("\n".join([*lines, *(["", place.step(PAUSED)] if paused else [])]))
    else:
        what = missing(place) if store is None else "the queue is empty"
        typer.echo(f"{what}; {place.step('add goals with: ralph-runs add GOAL.md --queue')}")


def _forecast(place: "Whereabouts", store: "Store", goals: "Sequence[BatchGoal]") -> "Forecast | None":
    """By what the queue worker says of itself, if there is one; else with as many slots as the next one would have."""
    from ralph.queue.open import serving
    from ralph.queue.stats import figures_of, forecast, foretold

    bulletin = store.bulletin() if serving(place.url) else None
    done = figures_of(goals)
    return forecast(goals, done, place.most) if bulletin is None else foretold(goals, done, bulletin)


def _lines(counted: "Tally", foretold: "Forecast | None", states: str) -> list[str]:
    from ralph.ui.terminal import one_line

    took = ", ".join(
        f"{count} took {number} attempt{'' if number == 1 else 's'}" for number, count in counted.attempts.items()
    )
    facts = {
        "goals": states,
        "in all": _used(counted.total),
        "done": took,
        "each": f"{each} (median of those done)" if (each := _used(counted.typical)) else "",
        "left": "" if foretold is None else foretold.words,
    }
    lines = [f"{label:<{_LABEL}} {text}" for label, text in facts.items() if text]
    lines += _groups("repo", counted.repos) + _groups("agent", counted.agents)
    if counted.failures:
        lines += ["", "failures"]
        lines += [f"{count:>5}  {one_line(why, 200)}" for why, count in list(counted.failures.items())[:_MOST_REASONS]]
        if (more := len(counted.failures) - _MOST_REASONS) > 0:
            lines.append(f"       and {more} other reason{'' if more == 1 else 's'}: --json has them")
    return lines


def _used(used: "Sums | Typical") -> str:
    from ralph.core.text import format_duration, format_money

    parts = [
        format_money(used.cost_usd) if used.cost_usd else "",
        f"{used.tokens:,.0f} tokens" if used.tokens else "",
        format_duration(used.seconds) if used.seconds else "",
    ]
    return " · ".join(filter(None, parts))


def _groups(heading: str, groups: "Mapping[str, Sums]") -> list[str]:
    """A row for each; nothing where there is but one: what is said of all is said of it."""
    import sys

    from ralph.core.text import format_duration, format_money
    from ralph.ui.draw import columns
    from ralph.ui.terminal import Outlet

    if len(groups) < 2:
        return []
    rows = [["goals", "done", "cost", "tokens", "time", heading]]
    for name, sums in groups.items():
        cost = "unknown" if sums.cost_usd is None else format_money(sums.cost_usd)
        tokens = "unknown" if sums.tokens is None else f"{sums.tokens:,}"
        figures = [str(sums.goals), str(sums.done), cost, tokens]
        rows.append([*figures, format_duration(sums.seconds) if sums.seconds else "-", name])
    return ["", *columns(rows, [5, 5, 9, 13, 8, 80], Outlet(sys.stdout).width, right=range(5))]
