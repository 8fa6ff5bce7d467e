"""`--dry-run`: which goals would start, in which order, where and with which limits. Nothing is written."""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from ralph.config import settings
from ralph.config.keys import MANIFEST
from ralph.config.settings import Settings
from ralph.core.goal import parse_goal
from ralph.core.limits import Limits, told_limits
from ralph.core.secrets import without_login
from ralph.core.text import plural
from ralph.dashboard import report
from ralph.dashboard.reasons import elsewhere_line, waiting
from ralph.queue.database import default_url
from ralph.queue.goals import BatchGoal, MergeMode, State, Submission, whole_order
from ralph.queue.news import Budget
from ralph.queue.open import QueueAddress, Scope, existing
from ralph.queue.paths import queue_paths
from ralph.queue.store import open_store
from ralph.ui import page
from ralph.ui.page import FactList, Part
from ralph.ui.terminal import one_line
from ralph.ui.theme import Look

_NOT_CHOSEN = "not chosen yet: direct, pr, branch or none"


class Intentions:
    """What a queue worker would do with the queue and these goals."""

    def __init__(self, place: QueueAddress, submissions: Sequence[Submission], budget: Budget, scope: Scope) -> None:
        self._place = place
        self._budget = budget
        self._goals = _rehearsed(place, submissions)
        # Interrupted goals would be continued.
        self._goals = [
            replace(goal, state=State.QUEUED) if goal.state is State.RUNNING else goal for goal in self._goals
        ]
        elsewhere = {goal.id for goal in scope.elsewhere(self._goals)}
        self._order = [goal for goal in whole_order(self._goals) if goal.id not in elsewhere]
        self._elsewhere = len(elsewhere)
        store = existing(place)
        new = submissions if store is None else store.unknown(submissions)
        self._undecided = {(each.name, each.repo) for each in new if each.merge is None}
        self._quarters = queue_paths(place.ralph_dir, "…" if store is None else store.queue_id)

    def show(self, *, as_json: bool) -> None:
        """Print the plan."""
        if as_json:
            page.show_json(self._documents())
        else:
            page.show(self._parts())

    def _documents(self) -> list[dict[str, object]]:
        """The goals in their order, as JSON."""
        waits = waiting(self._goals)
        return [
            {
                **report.row(goal),
                "clone": str(self._quarters.clone(goal)),
                "merge": self._merge(goal),
                "waits": waits.get(goal.id, ""),
                **_limits(chosen),
                "budget": asdict(self._budget),
            }
            for goal in self._order
            for chosen in [self._settings(goal)]
        ]

    def _parts(self) -> list[Part]:
        """The goals in their order, for people."""
        others = elsewhere_line(self._elsewhere, self._place.flag)
        if not self._order:
            return ["nothing is queued", *([others] if others else [])]
        parts: list[Part] = [f"{plural(len(self._order), 'goal')}, at most {self._place.most} at once, in this order:"]
        if self._budget != Budget():
            whole = Limits(cost_usd=self._budget.cost_usd, tokens=self._budget.tokens, duration=self._budget.seconds)
            parts.append(f"for all of them together: {told_limits(whole)}")
        waits = waiting(self._goals)
        for number, goal in enumerate(self._order, start=1):
            chosen = self._settings(goal)
            facts = {
                "repo": f"{without_login(goal.repo)} · branch {goal.branch} · merge {self._merge(goal) or _NOT_CHOSEN}",
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
                "limits": _told(chosen),
                "waits": waits.get(goal.id, ""),
            }
            parts += ["", (one_line(f"{number}. {goal.label} {goal.name}: {goal.title}"), Look.STRONG)]
            told = {f"   {label}": one_line(text, 400) for label, text in facts.items()}
            parts.append(FactList(told, copied=("   clone",)))
        parts += ["", others] if others else []
        return [*parts, "", "Nothing was started or written. A repository's own .ralph/config.toml can add settings."]

    def _merge(self, goal: BatchGoal) -> MergeMode | None:
        """Return where its work goes; None: nothing says so yet."""
        return None if (goal.name, goal.repo) in self._undecided else goal.merge

    def _settings(self, goal: BatchGoal) -> Settings:
        front_matter = parse_goal(goal.text, Path(goal.path)).front_matter
        return settings.load(env=self._place.env, flags=goal.settings, front_matter=front_matter, goal=Path(goal.path))


def _rehearsed(place: QueueAddress, submissions: Sequence[Submission]) -> list[BatchGoal]:
    """The queue as it would be with these goals."""
    if (store := existing(place)) is not None:
        return store.rehearse(submissions, State.QUEUED)
    with tempfile.TemporaryDirectory(prefix="ralph-") as folder:  # a queue that no other process finds
        passing = open_store(default_url(Path(folder)))
        goals = [] if passing is None else passing.rehearse(submissions, State.QUEUED)
        if passing is not None:
            passing.close()
        return goals


def _told(chosen: Settings) -> str:
    told = told_limits(chosen.limits) or "none"
    return f"{told}, because no limit is set" if chosen.limited_by_default else told


def _limits(chosen: Settings) -> Mapping[str, object]:
    return {name: chosen.values[name].value if name in chosen.values else None for name in MANIFEST}
