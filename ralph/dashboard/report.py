"""Goals of a queue as people read them: tables that fit a terminal, and all that is known of one."""

import shlex
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ralph.core.reason import Cause, NextStep, written
from ralph.core.secrets import without_login
from ralph.core.text import format_money, plural, timestamp
from ralph.queue.clone import kept_below
from ralph.queue.goals import BatchGoal, Comment, State, waits_in_vain
from ralph.queue.submit import Submitted
from ralph.ui.draw import columns
from ralph.ui.terminal import Output, one_line, visible


def row(goal: BatchGoal, *, cut_off: bool = False) -> dict[str, object]:
    """A goal in a list; `cut_off`: nobody serves its queue, whatever is said to be running there."""
    return {
        "id": goal.label,
        "name": goal.name,
        "title": goal.title,
        "repo": without_login(goal.repo),
        "state": goal.state,
        "reason": goal.reason,
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
    """All that is known of one goal."""

    goal: BatchGoal
    comments: Sequence[Comment]
    clone: Path | None
    mirror: Path | None
    """Where its branch is to be had, if it is there."""
    kept: Sequence[str]
    """The refs under which the mirror keeps what was only in a clone that is gone."""
    look: str
    """The command that lists them."""
    cut_off: bool
    paused: bool


def document(known: GoalDetails) -> dict[str, object]:
    """All that is known of one goal; a clone or mirror that is not there is empty."""
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


_USUAL_WIDTH = 80
_LABEL = 10
_LONGEST, _LONGEST_STEP = 400, 4_000
"""Characters of what is told of one goal. Commands are copied: they are not cut where a queue has a long address."""
_UNKNOWN = "unknown"
_CUT_OFF = "cut off"


_LIMITS = ("max_iterations", "duration", "max_cost", "max_tokens")


def overview(
    goals: Sequence[BatchGoal], everything: Sequence[BatchGoal], *, cut_off: bool, flag: str = ""
) -> list[str]:
    """A line for each goal, and one on all; `everything` is the queue that they are of, `flag` names it in commands.

    `cut_off`: nobody serves it, so what is said to be running is not.
    """
    repos = short_repos(goal.repo for goal in goals)
    waits = waiting(everything)
    headings = ["id", "state", "goal", "repo", "tries", "cost", ""]
    rows = [headings] + [
        [
            goal.label,
            _state(goal, cut_off=cut_off),
            goal.name,
            repos[goal.repo],
            str(goal.attempts) if goal.starts else "-",
            cost(goal) or "-",
            _why(goal, waits, cut_off=cut_off, flag=flag),
        ]
        for goal in goals
    ]
    widest = [6, 9, 26, 16, 5, 9, _USUAL_WIDTH]
    right = {4, 5}
    if len(repos) < 2:  # it goes without saying
        rows = [row[:3] + row[4:] for row in rows]
        widest = widest[:3] + widest[4:]
        right = {3, 4}
    return [*columns(rows, widest, _width(), right), "", tally(goals, cut_off=cut_off)]


def submitted(goals: Sequence[Submitted], *, cut_off: bool = False) -> list[str]:
    """What came of each goal that was asked for."""
    repos = short_repos(each.goal.repo for each in goals)
    rows = [["id", "state", "goal", "repo", ""]]
    rows += [
        [
            each.goal.label,
            _state(each.goal, cut_off=cut_off),
            each.goal.name,
            repos[each.goal.repo],
            each.what,
        ]
        for each in goals
    ]
    return columns(rows, [6, 9, 30, 20, _USUAL_WIDTH], _width())


def tally(goals: Sequence[BatchGoal], *, cut_off: bool = False) -> str:
    """How many goals there are in which state, and what they have cost."""
    counts = Counter(_state(goal, cut_off=cut_off) for goal in goals)
    each = ", ".join(f"{counts[state]} {state}" for state in (_CUT_OFF, *State) if counts[state])
    known = sum(goal.cost_usd for goal in goals)
    untold = sum(cost(goal) == _UNKNOWN for goal in goals)
    money = [format_money(known)] if known else []
    unknown = [f"cost of {untold} unknown"] if untold else []
    return " · ".join([f"{plural(len(goals), 'goal')}: {each}", *money, *unknown])


def cost(goal: BatchGoal) -> str:
    """What a goal has cost; empty: nothing has been done yet that anybody could have told the cost of."""
    if goal.known_cost is None:
        has_worked = goal.iterations > 0 or (goal.run != "" and goal.state is not State.RUNNING)
        return _UNKNOWN if has_worked else ""
    return format_money(goal.cost_usd) if goal.starts else ""


def waiting(goals: Sequence[BatchGoal]) -> dict[int, str]:
    """Of the queued goals that wait for others: for which."""
    known = {goal.id: goal for goal in goals}
    in_vain = waits_in_vain(goals)
    told: dict[int, str] = {}
    for goal in goals:
        unfinished = [known[number] for number in goal.after if known[number].state is not State.DONE]
        if goal.state is not State.QUEUED or not unfinished:
            continue
        if (obstacle := in_vain.get(goal.id)) is not None:
            told[goal.id] = f"waits for {obstacle.label}, which {_standing(obstacle, in_vain)}"
        else:
            told[goal.id] = f"after {', '.join(parent.label for parent in unfinished)}"
    return told


def _standing(goal: BatchGoal, in_vain: dict[int, BatchGoal]) -> str:
    return "waits itself" if goal.id in in_vain else f"is {'a draft' if goal.state is State.DRAFT else goal.state}"


def _state(goal: BatchGoal, *, cut_off: bool) -> str:
    return _CUT_OFF if cut_off and goal.state is State.RUNNING else goal.state


def _why(goal: BatchGoal, waits: dict[int, str], *, cut_off: bool, flag: str = "") -> str:
    if cut_off and goal.state is State.RUNNING:
        return f"{'is given up' if goal.cancelling else 'goes on'} with: ralph-runs run{flag}"
    if goal.cancelling and goal.state is State.RUNNING:
        return "is being cancelled"
    return waits.get(goal.id) or ("" if goal.why.cause is Cause.CANCELLED else goal.reason)


def details(known: GoalDetails, everything: Sequence[BatchGoal], *, flag: str = "") -> list[str]:
    """All that is known of one goal, and what can be done next."""
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
        "merge": [goal.merge or ""],
        "settings": [f"{name} {value}" for name, value in goal.settings.items()],
        "added": [timestamp(goal.created_at)],
        "next": [written(steps, flag)],
    }
    most = {"next": _LONGEST_STEP, "saved": _LONGEST_STEP}
    said = {
        label: " · ".join(one_line(part, most.get(label, _LONGEST)) for part in parts if part)
        for label, parts in facts.items()
    }
    lines = [f"{label:<{_LABEL}} {text}" for label, text in said.items() if text]
    for comment in known.comments:
        lines += ["", f"{timestamp(comment.at)}  {one_line(comment.author, 40)}"]
        lines += [f"  {line}".rstrip() for line in visible(comment.text).rstrip().splitlines()]
    return lines


def next_step(
    goal: BatchGoal, obstacle: BatchGoal | None = None, *, cut_off: bool = False, paused: bool = False
) -> tuple[NextStep, ...]:
    """What the user can do about a goal where it stands; `obstacle` is what it waits for in vain."""
    match goal.state:
        case State.DRAFT:
            return (NextStep("let it start: ", ("queue", goal.label)),)
        case State.QUEUED if obstacle is not None:
            return (NextStep(f"see to {obstacle.label} first: ", ("show", obstacle.label)),)
        case State.QUEUED if paused:
            return (NextStep("the queue is paused; have goals started again: ", ("resume",)),)
        case State.QUEUED:
            return (NextStep("a queue worker takes it up: ", ("work",)),)
        case State.RUNNING if cut_off and goal.cancelling:
            lead = "it was cut off at its merge; if that did not arrive, it is given up by: "
            return (NextStep(lead, ("run",)),)
        case State.RUNNING if cut_off:
            given_up = NextStep("; or give it up: ", ("cancel", goal.label))
            if not paused:
                return NextStep("it was cut off; have it go on: ", ("run",)), given_up
            resumed = NextStep("it was cut off, and the queue is paused; have it go on: ", ("resume",))
            return resumed, NextStep(", then: ", ("run",)), given_up
        case State.RUNNING:
            return (NextStep("watch it: ", ("logs", goal.label, "-f")),)
        case State.STUCK:
            return _way_out(goal)
        case State.CANCELLED:
            return (NextStep("take it up again: ", ("retry", goal.label)),)
        case State.DONE:
            return ()


def _way_out(goal: BatchGoal) -> tuple[NextStep, ...]:
    """How a goal that is stuck gets on, by what it is stuck for."""
    again = ("retry", goal.label)
    if goal.unmerged is not None and goal.why.cause is Cause.UNPROVEN:
        checked = "; or commit a .ralph/check to its main branch, then: "
        return (
            NextStep("merge it without proof: ", again),
            NextStep(", then: ", ("run", "--merge-unproven")),
            NextStep(checked, again, "; it is worked on once more"),
        )
    if goal.unmerged is not None:
        return (NextStep("clear what is in the way, then: ", again, "; only the merge is done again"),)
    if goal.starts == 0:
        return (NextStep("mend that, then: ", again),)
    if goal.why.cause is Cause.LIMIT:
        reached = goal.why.limit.removeprefix("--").replace("-", "_")  # unknown of a goal that an earlier ralph left
        if any(name in goal.settings for name in ([reached] if reached else _LIMITS)):
            return (NextStep("raise it in the manifest or the flag that sets it, then run the same command again"),)
        kept = "; the queue keeps the text that it was given"
        return (NextStep(f"raise it in {goal.path}, then: ", ("run", shlex.quote(goal.path)), kept),)
    return (
        NextStep("see what it did: ", ("logs", goal.label)),
        NextStep("; say what to do: ", ("comment", goal.label, "'...'")),
        NextStep("; then: ", again),
    )


def look_at_kept(mirror: Path, clone: Path, branch: str) -> str:
    """The command that lists what a mirror keeps of a clone that is gone."""
    return shlex.join(["git", "-C", str(mirror), "for-each-ref", *kept_below(clone, branch)])


def short_repos(repos: Iterable[str]) -> dict[str, str]:
    """Repositories by the last part of their addresses, or by as many as tell them apart."""
    parts = {repo: _parts(repo) for repo in dict.fromkeys(repos)}
    short = dict.fromkeys(parts, 1)
    while True:
        names = {repo: "/".join(parts[repo][-count:]) or repo for repo, count in short.items()}
        taken = Counter(names.values())
        alike = [repo for repo, name in names.items() if taken[name] > 1 and short[repo] < len(parts[repo])]
        if not alike:
            return names
        short |= {repo: short[repo] + 1 for repo in alike}


def _parts(repo: str) -> list[str]:
    """The parts of an address, without whoever asks there, and the password."""
    address = repo.rpartition("@")[2].rstrip("/").removesuffix("/.git").removesuffix(".git").replace(":", "/")
    return [part for part in address.split("/") if part]


def _width() -> int | None:
    return Output(sys.stdout).width
