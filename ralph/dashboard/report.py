"""Tables about a queue: all goals, its figures, and one goal in detail."""

import itertools
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ralph.core.limits import Limit
from ralph.core.reason import Cause, NextStep, written
from ralph.core.secrets import without_login
from ralph.core.text import few, format_duration, format_money, local_minute, plural, short_names, timestamp
from ralph.dashboard.reasons import change_line, reason_line, waiting
from ralph.queue.clone import kept_below
from ralph.queue.goals import ACTIVE, BatchGoal, Comment, MergeMode, State, waits_in_vain
from ralph.queue.stats import QueueStats, Sums, Typical
from ralph.queue.submit import Submitted
from ralph.ui.page import PIPES_ONLY, Cell, FactList, Part, Table, TableColumn, TableRow
from ralph.ui.terminal import one_line
from ralph.ui.theme import Look


def row(goal: BatchGoal, *, cut_off: bool = False) -> dict[str, object]:
    """Return a goal as JSON for a list; `cut_off`: the queue has no worker, so nothing in it runs."""
    return {
        "id": goal.label,
        "name": goal.name,
        "title": goal.title,
        "repo": without_login(goal.repo),
        "state": goal.state,
        "reason": reason_line(goal.why),
        "cut_off": cut_off and goal.state is State.RUNNING,
        "attempts": goal.attempts,
        "priority": goal.priority,
        "after": [f"g{number}" for number in goal.after],
        "branch": goal.branch,
        "cost_usd": goal.known_cost,
        "tokens": goal.known_tokens,
        "iterations": goal.iterations,
        "seconds": goal.seconds,
    }


@dataclass(frozen=True, slots=True)
class GoalDetails:
    """Everything that is known about one goal."""

    goal: BatchGoal
    comments: Sequence[Comment]
    clone: Path | None
    mirror: Path | None
    """The mirror that has its branch, if it exists."""
    kept: Sequence[str]
    """The refs in the mirror with work from a removed clone."""
    look: str
    """The command that lists them."""
    cut_off: bool
    paused: bool


def document(known: GoalDetails) -> dict[str, object]:
    """Return one goal as JSON; a missing clone or mirror is empty."""
    goal = known.goal
    return {
        **row(goal, cut_off=known.cut_off),
        "path": goal.path,
        "body": goal.text,
        "starts": goal.starts,
        "merge": goal.merge,
        "settings": dict(goal.settings),
        "clone": str(known.clone or ""),
        "mirror": str(known.mirror or ""),
        "created_at": timestamp(goal.created_at),
        "updated_at": timestamp(goal.updated_at),
        "comments": [
            {"at": timestamp(comment.at), "author": comment.author, "text": comment.text} for comment in known.comments
        ],
        "kept": list(known.kept),
        "paused": known.paused,
    }


_LONGEST, _LONGEST_STEP = 400, 4_000
"""Characters of one fact about a goal. Commands are meant to be copied, so they are not cut."""
_UNKNOWN = "unknown"
_CUT_OFF = "interrupted"
MOST_LISTED = 200
"""Goals in a list without `--all`."""


_LOOKS = {
    _CUT_OFF: Look.WARN,
    State.DRAFT: Look.QUIET,
    State.QUEUED: Look.PLAIN,
    State.RUNNING: Look.ACCENT,
    State.DONE: Look.GOOD,
    State.STUCK: Look.BAD,
    State.CANCELLED: Look.QUIET,
    State.UNDONE: Look.WARN,
}


def overview(
    goals: Sequence[BatchGoal],
    everything: Sequence[BatchGoal],
    *,
    cut_off: bool,
    flag: str = "",
    most: int | None = None,
) -> list[Part]:
    """Return a row for each goal and a line of totals; `everything` is the whole queue, `flag` names it in commands.

    `cut_off`: the queue has no worker, so goals marked as running are interrupted. With more than `most` goals, the
    finished ones that changed longest ago are left out.
    """
    shown = goals if most is None else _foremost(goals, most)
    repos = short_names(goal.repo for goal in goals)
    waits = waiting(everything)
    columns = [
        TableColumn("id", whole=True),
        TableColumn("state", whole=True),
        TableColumn("goal"),
        TableColumn("repo", at_least=100 if len(repos) > 1 else PIPES_ONLY),  # with one goal the totals say nothing new
        TableColumn("tries", right=True, at_least=56),
        TableColumn("cost", right=True),
        TableColumn("changed", at_least=110),
        TableColumn("title", at_least=72),
    ]
    rows = [
        TableRow(
            [
                goal.label,
                _shown_state(goal, cut_off=cut_off),
                goal.name,
                (repos[goal.repo], Look.QUIET),
                str(goal.attempts) if goal.starts else "-",
                cost(goal) or "-",
                (local_minute(goal.updated_at), Look.QUIET),
                goal.title,
            ],
            (_why(goal, waits, cut_off=cut_off, flag=flag), Look.QUIET),
        )
        for goal in shown
    ]
    left_out = len(goals) - len(shown)
    more = [f"and {left_out:,} more: ralph-runs list --all{flag}"] if left_out else []
    return [Table(columns, rows), *more, "", tally(goals, cut_off=cut_off)]


def _foremost(goals: Sequence[BatchGoal], most: int) -> Sequence[BatchGoal]:
    """At most this many goals in their order: unfinished ones first, then those that ended last."""
    if len(goals) <= most:
        return goals
    over = (State.DONE, State.UNDONE, State.CANCELLED)
    ranked = sorted(goals, key=lambda goal: (goal.state in over, -goal.updated_at if goal.state in over else 0.0))
    kept = {goal.id for goal in ranked[:most]}
    return [goal for goal in goals if goal.id in kept]


_DESTINATIONS: Mapping[MergeMode, str] = {
    MergeMode.DIRECT: "is pushed to its main branch",
    MergeMode.PR: "is pushed as a branch, with a pull request",
    MergeMode.BRANCH: "is pushed as a branch",
    MergeMode.NONE: "is not pushed; it stays in ralph's mirror",
}


def destinations(goals: Iterable[BatchGoal]) -> list[str]:
    """Say where the proven work of unfinished goals goes: one line for each repository and mode."""
    unfinished = [goal for goal in goals if goal.state in ACTIVE]
    repos = short_names(goal.repo for goal in unfinished)
    labels: dict[tuple[str, MergeMode], list[str]] = {}
    for goal in unfinished:
        labels.setdefault((repos[goal.repo], goal.merge), []).append(goal.label)
    modes = Counter(repo for repo, _ in labels)
    return [
        f"proven work on {repo} {_DESTINATIONS[mode]} (merge: {mode})"
        + (f": {few(these, 6)}" if modes[repo] > 1 else "")
        for (repo, mode), these in labels.items()
    ]


def submitted(goals: Sequence[Submitted], *, cut_off: bool = False) -> list[Part]:
    """Return what happened to each added goal."""
    repos = short_names(each.goal.repo for each in goals)
    columns = [
        TableColumn("id", whole=True),
        TableColumn("state", whole=True),
        TableColumn("goal"),
        TableColumn("repo", at_least=72),
    ]
    rows = [
        TableRow(
            [
                each.goal.label,
                _shown_state(each.goal, cut_off=cut_off),
                each.goal.name,
                (repos[each.goal.repo], Look.QUIET),
            ],
            change_line(each),
        )
        for each in goals
    ]
    return [Table(columns, rows)]


def tally(goals: Sequence[BatchGoal], *, cut_off: bool = False) -> str:
    """Return how many goals are in each state, and what they have cost."""
    counts = Counter(_state(goal, cut_off=cut_off) for goal in goals)
    each = ", ".join(f"{counts[state]} {state}" for state in (_CUT_OFF, *State) if counts[state])
    known = sum(goal.cost_usd for goal in goals)
    untold = sum(cost(goal) == _UNKNOWN for goal in goals)
    money = [format_money(known)] if known else []
    unknown = [f"cost of {untold} unknown"] if untold else []
    return " · ".join([f"{plural(len(goals), 'goal')}: {each}", *money, *unknown])


def cost(goal: BatchGoal) -> str:
    """Return what a goal has cost; empty: nothing has run yet."""
    if goal.known_cost is None:
        has_worked = goal.iterations > 0 or (goal.run != "" and goal.state is not State.RUNNING)
        return _UNKNOWN if has_worked else ""
    return format_money(goal.cost_usd) if goal.starts else ""


def _state(goal: BatchGoal, *, cut_off: bool) -> str:
    return _CUT_OFF if cut_off and goal.state is State.RUNNING else goal.state


def _shown_state(goal: BatchGoal, *, cut_off: bool) -> Cell:
    state = _state(goal, cut_off=cut_off)
    return state, _LOOKS[state]


def _why(goal: BatchGoal, waits: dict[int, str], *, cut_off: bool, flag: str = "") -> str:
    if cut_off and goal.state is State.RUNNING:
        return f"{'cancel' if goal.cancelling else 'continue'} with: ralph-runs run{flag} --all"
    if goal.cancelling and goal.state is State.RUNNING:
        return "cancelling"
    return waits.get(goal.id) or ("" if goal.why.cause is Cause.CANCELLED else reason_line(goal.why))


def details(known: GoalDetails, everything: Sequence[BatchGoal], *, flag: str = "") -> list[Part]:
    """Return everything about one goal, and the next step."""
    goal, cut_off = known.goal, known.cut_off
    steps = next_step(goal, waits_in_vain(everything).get(goal.id), cut_off=cut_off, paused=known.paused)
    others = {other.id: other for other in everything}
    starts = plural(goal.starts, "start") if goal.starts != goal.attempts else ""
    facts = {
        "goal": [goal.label, goal.name, goal.title],
        "state": [_state(goal, cut_off=cut_off), _why(goal, waiting(everything), cut_off=cut_off, flag=flag)],
        "attempts": [str(goal.attempts), starts] if goal.starts else [],
        "cost": [cost(goal)],
        "repo": [without_login(goal.repo), f"branch {goal.branch}"],
        "clone": [str(known.clone or "")],
        "work": [f"git fetch {shlex.join([str(known.mirror), goal.branch])}"] if known.mirror else [],
        "saved": [known.look] if known.kept else [],
        "file": [goal.path],
        "priority": [str(goal.priority)] if goal.priority else [],
        "after": [
            ", ".join(f"{others[number].label} {others[number].name} ({others[number].state})" for number in goal.after)
        ],
        "merge": [goal.merge],
        "settings": [f"{name} {value}" for name, value in goal.settings.items()],
        "added": [local_minute(goal.created_at)],
        "changed": [local_minute(goal.updated_at)] if goal.updated_at > goal.created_at else [],
        "next": [written(steps, flag)],
    }
    most = {"next": _LONGEST_STEP, "saved": _LONGEST_STEP}
    said: dict[str, Cell] = {
        label: " · ".join(one_line(part, most.get(label, _LONGEST)) for part in parts if part)
        for label, parts in facts.items()
    }
    said["state"] = (str(said["state"]), _LOOKS[_state(goal, cut_off=cut_off)])
    parts: list[Part] = [FactList(said, copied=("clone", "work", "saved", "file", "next"))]
    for comment, text in _remarks(known.comments):
        author = one_line(comment.author, 40)
        parts += ["", (f"{local_minute(comment.at)}  {author}", Look.QUIET)]
        parts += [f"  {line}".rstrip() for line in text.rstrip().splitlines()]
    return parts


_ATTEMPT = re.compile(r"Attempt (\d+) ")


def _remarks(comments: Sequence[Comment]) -> Iterator[tuple[Comment, str]]:
    """Yield the latest of several attempts in a row that ended in the same way, and its text for all of them."""
    for _, alike in itertools.groupby(comments, lambda each: (each.author, _ATTEMPT.sub("", each.text, count=1))):
        first, *more = alike
        last = more[-1] if more else first
        numbers = [found[1] for each in (first, last) if (found := _ATTEMPT.match(each.text))]
        if more and len(numbers) == 2:
            yield last, _ATTEMPT.sub(f"Attempts {numbers[0]} to {numbers[1]} ", last.text, count=1)
        else:
            yield from ((each, each.text) for each in (first, *more))


def next_step(
    goal: BatchGoal, obstacle: BatchGoal | None = None, *, cut_off: bool = False, paused: bool = False
) -> tuple[NextStep, ...]:
    """Return what the user can do about a goal; `obstacle` is the goal that blocks it."""
    match goal.state:
        case State.DRAFT:
            return (NextStep("queue it: ", ("queue", goal.label)),)
        case State.QUEUED if obstacle is not None:
            return (NextStep(f"fix {obstacle.label} first: ", ("show", obstacle.label)),)
        case State.QUEUED if paused:
            return (NextStep("the queue is paused; resume it: ", ("resume",)),)
        case State.QUEUED:
            return (NextStep("start a worker: ", ("work",)),)
        case State.RUNNING if cut_off and goal.cancelling:
            lead = "interrupted during its merge; drop it, unless the merge succeeded: "
            return (NextStep(lead, ("run", "--all")),)
        case State.RUNNING if cut_off:
            given_up = NextStep("; or cancel it: ", ("cancel", goal.label))
            if not paused:
                return NextStep("interrupted; continue it: ", ("run", "--all")), given_up
            resumed = NextStep("interrupted, and the queue is paused; continue it: ", ("resume",))
            return resumed, NextStep(", then: ", ("run", "--all")), given_up
        case State.RUNNING:
            return (NextStep("watch it: ", ("log", goal.label, "-f")),)
        case State.STUCK:
            return _way_out(goal)
        case State.CANCELLED:
            return (NextStep("retry it: ", ("retry", goal.label)),)
        case State.UNDONE:
            return (NextStep("do it again: ", ("retry", goal.label)),)
        case State.DONE if goal.why.cause in (Cause.MERGED, Cause.MERGED_EARLIER):
            return (NextStep("undo the merge: ", ("undo", goal.label)),)
        case State.DONE:
            return ()


def _way_out(goal: BatchGoal) -> tuple[NextStep, ...]:
    """How a stuck goal continues, by the cause."""
    again = ("retry", goal.label)
    if goal.unmerged is not None and goal.why.cause is Cause.UNPROVEN:
        checked = "; or commit a .ralph/check to the main branch, then: "
        return (
            NextStep("merge it without proof: ", again),
            NextStep(", then: ", ("run", "--all", "--merge-unproven")),
            NextStep(checked, again, "; an agent works on it again"),
        )
    if goal.unmerged is not None:
        return (NextStep("resolve that, then: ", again, "; only the merge runs again"),)
    if goal.why.cause is Cause.LIMIT:
        reached = [each for each in Limit if goal.why.limit in ("", each)]  # unknown for goals from an earlier ralph
        if any(limit.setting in goal.settings for limit in reached):
            return (NextStep("raise it in the manifest or with its flag, then run the same command again"),)
        kept = "; the queue works from its own copy"
        return (NextStep(f"raise it in {goal.path}, then: ", ("run", shlex.quote(goal.path)), kept),)
    if not goal.has_run:
        return (NextStep("fix that, then: ", again),)
    return (
        NextStep("see what it did: ", ("log", goal.label)),
        NextStep("; tell it what to do: ", ("comment", goal.label, "'...'")),
        NextStep("; then: ", again),
    )


def look_at_kept(mirror: Path, clone: Path, branch: str) -> str:
    """Return the command that lists saved work of a removed clone."""
    return shlex.join(["git", "-C", str(mirror), "for-each-ref", *kept_below(clone, branch)])


_MOST_REASONS = 10


def figures(counted: QueueStats, foretold: str, goals: Sequence[BatchGoal], *, cut_off: bool) -> list[Part]:
    """Return a queue in figures: states, attempts, cost, tokens, time, failures; `foretold` is the forecast."""
    took = ", ".join(f"{count} took {plural(number, 'attempt')}" for number, count in counted.attempts.items())
    each = _used(counted.typical)
    facts = {
        "goals": tally(goals, cut_off=cut_off),
        "total": _used(counted.total),
        "done": took,
        "each": f"{each} (median of those done)" if each else "",
        "left": foretold,
    }
    parts: list[Part] = [FactList(facts), *_groups("repo", counted.repos), *_groups("agent", counted.agents)]
    if counted.failures:
        reasons = list(counted.failures.items())
        rows = [TableRow([str(count)], why) for why, count in reasons[:_MOST_REASONS]]
        parts += ["", Table([TableColumn("", right=True, whole=True)], rows, "failures", indent=2)]
        if (more := len(reasons) - _MOST_REASONS) > 0:
            parts.append(f"  and {plural(more, 'other reason')}: see --json")
    return parts


def _used(used: Sums | Typical) -> str:
    parts = [
        format_money(used.cost_usd) if used.cost_usd else "",
        f"{used.tokens:,.0f} tokens" if used.tokens else "",
        format_duration(used.seconds) if used.seconds else "",
    ]
    return " · ".join(filter(None, parts))


def _groups(heading: str, groups: Mapping[str, Sums]) -> list[Part]:
    """A row for each group; nothing for one group, which would repeat the totals."""
    if len(groups) < 2:
        return []
    columns = [
        TableColumn("goals", right=True, whole=True),
        TableColumn("done", right=True, whole=True),
        TableColumn("cost", right=True, whole=True),
        TableColumn("tokens", right=True, whole=True, at_least=56),
        TableColumn("time", right=True, whole=True, at_least=48),
        TableColumn(heading),
    ]
    rows = [
        TableRow(
            [
                str(sums.goals),
                str(sums.done),
                _UNKNOWN if sums.cost_usd is None else format_money(sums.cost_usd),
                _UNKNOWN if sums.tokens is None else f"{sums.tokens:,}",
                format_duration(sums.seconds) if sums.seconds else "-",
                name,
            ]
        )
        for name, sums in groups.items()
    ]
    return ["", Table(columns, rows)]
