"""`--dry-run`: which goals would be worked on, in which order, where, with which limits. Nothing is written."""

import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from ralph.config import settings
from ralph.config.keys import MANIFEST
from ralph.config.settings import Settings
from ralph.core import ndjson
from ralph.core.goal import parse_goal
from ralph.core.limits import Limits, told_limits
from ralph.core.secrets import without_login
from ralph.core.text import plural
from ralph.dashboard import report
from ralph.dashboard.report import waiting
from ralph.queue.database import default_url
from ralph.queue.goals import BatchGoal, MergeMode, State, Submission, whole_order
from ralph.queue.news import Budget
from ralph.queue.open import QueueAddress, existing
from ralph.queue.paths import queue_paths
from ralph.queue.store import open_store
from ralph.ui.terminal import one_line


class Intentions:
    """What a queue worker would do with the queue as it stands and these goals besides."""

    def __init__(
        self, place: QueueAddress, submissions: Sequence[Submission], merge: MergeMode, budget: Budget
    ) -> None:
        self._place = place
        self._merge = merge
        self._budget = budget
        self._goals = _rehearsed(place, submissions)
        # What was cut off in the middle is taken up again.
        self._goals = [
            replace(goal, state=State.QUEUED) if goal.state is State.RUNNING else goal for goal in self._goals
        ]
        self._order = whole_order(self._goals)
        store = existing(place)
        self._quarters = queue_paths(place.ralph_dir, "…" if store is None else store.queue_id)

    def show(self, *, as_json: bool) -> None:
        """Print them."""
        sys.stdout.write(ndjson.encode(self._documents()) + "\n" if as_json else "\n".join(self._lines()) + "\n")

    def _documents(self) -> list[dict[str, object]]:
        """The goals in their order, for programs."""
        waits = waiting(self._goals)
        return [
            {
                **report.row(goal),
                "clone": str(self._quarters.clone(goal)),
                "merge": goal.merge or self._merge,
                "waits": waits.get(goal.id, ""),
                **_limits(chosen),
                "budget": asdict(self._budget),
            }
            for goal in self._order
            for chosen in [self._settings(goal)]
        ]

    def _lines(self) -> list[str]:
        """The same, for people."""
        if not self._order:
            return ["nothing is queued"]
        lines = [f"{plural(len(self._order), 'goal')}, at most {self._place.most} at once, in this order:"]
        if self._budget != Budget():
            whole = Limits(cost_usd=self._budget.cost_usd, tokens=self._budget.tokens, duration=self._budget.seconds)
            lines.append(f"for all of them together: {told_limits(whole)}")
        waits = waiting(self._goals)
        for number, goal in enumerate(self._order, start=1):
            chosen = self._settings(goal)
            facts = {
                "repo": f"{without_login(goal.repo)} · branch {goal.branch} · merge {goal.merge or self._merge}",
                "clone": str(self._quarters.clone(goal)),
                "agent": " · ".join(
                    filter(
                        None,
                        [
                            chosen.agent,
                            f"model {chosen.model}" if chosen.model else "",
                            f"reasoning {chosen.reasoning}",
                        ],
                    )
                ),
                "limits": told_limits(chosen.limits) or "none",
                "waits": waits.get(goal.id, ""),
            }
            lines += ["", one_line(f"{number}. {goal.label} {goal.name}: {goal.title}")]
            lines += [f"   {label:<8}{one_line(text, 400)}" for label, text in facts.items() if text]
        return [*lines, "", "Nothing was started, nothing written. A repository's own .ralph/config.toml may say more."]

    def _settings(self, goal: BatchGoal) -> Settings:
        front_matter = parse_goal(goal.text, Path(goal.path)).front_matter
        return settings.load(env=self._place.env, flags=goal.settings, front_matter=front_matter, goal=Path(goal.path))


def _rehearsed(place: QueueAddress, submissions: Sequence[Submission]) -> list[BatchGoal]:
    """The queue as it would be with these goals in it."""
    if (store := existing(place)) is not None:
        return store.rehearse(submissions, State.QUEUED)
    with tempfile.TemporaryDirectory(prefix="ralph-") as folder:  # a queue that nobody will find
        passing = open_store(default_url(Path(folder)))
        goals = [] if passing is None else passing.rehearse(submissions, State.QUEUED)
        if passing is not None:
            passing.close()
        return goals


def _limits(chosen: Settings) -> Mapping[str, object]:
    return {name: chosen.values[name].value if name in chosen.values else None for name in MANIFEST}
