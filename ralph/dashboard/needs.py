"""What needs the user: everything that cannot continue by itself, and what to do about it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from ralph.core.reason import NextStep, Reason, command_line
from ralph.core.text import few, plural
from ralph.dashboard.board import Board
from ralph.dashboard.reasons import caution, reason_line
from ralph.dashboard.report import next_step
from ralph.dashboard.rows import hanging, line, row, text_of, width
from ralph.queue.goals import BatchGoal, State
from ralph.queue.stats import left_of
from ralph.ui.terminal import Look, Row, one_line

_NEARLY = 0.9
"""Share of a budget from which the user should know."""

_LONGEST = 400
_LABELS = 4
"""Goals that are named; the others are counted."""


@dataclass(frozen=True, slots=True)
class Need:
    """Something that does not continue by itself: who, why, and the next step."""

    who: str
    why: str
    way_out: str
    look: Look = Look.BAD


def needs(board: Board) -> list[Need]:
    """Return all needs, the one that blocks most first."""
    return [*_foremost(board), *_stuck(board), *_in_vain(board), *_cautions(board)]


def needs_rows(wanted: Sequence[Need], columns: int, most: int) -> list[Row]:
    """Return needs as at most this many rows, folded and never cut.

    If they do not all fit, only the first one keeps its next step. How many are hidden is always shown.
    """
    if not wanted or most < 1:
        return []
    whole = [_told(need, columns) for need in wanted[:most]]
    if len(wanted) <= most and sum(map(len, whole)) <= most:
        return [each for block in whole for each in block]
    rows = whole[0][: max(most - 1, 1)]
    shown = 1
    for need in wanted[1:most]:
        brief = _told(replace(need, way_out=""), columns)
        if len(rows) + len(brief) + (shown + 1 < len(wanted)) > most:
            break
        rows += brief
        shown += 1
    return [*rows, _rest(len(wanted) - shown, columns)][:most] if shown < len(wanted) or len(whole[0]) > most else rows


def _told(need: Need, columns: int) -> list[Row]:
    """Show who and why, with the next step beside it or below."""
    why = f"  {one_line(need.why, _LONGEST)}" if need.why else ""
    said = line((one_line(need.who, _LONGEST), Look.STRONG), why)
    if need.way_out:
        way_out = f"→ {one_line(need.way_out, _LONGEST)}"
        fits = width(said) + width(line(way_out)) + 4 <= columns
        said = (*said, (f"{'  ' if fits else chr(10)}{way_out}", Look.ACCENT))
    return hanging(("!", need.look), text_of(said, one_row=False), columns)


def _rest(count: int, columns: int) -> Row:
    said = f"  … and {count} more that need you" if count else "  … more: press Enter"
    return row(line((said, Look.BAD)), columns)


def _foremost(board: Board) -> list[Need]:
    """Needs of the whole queue."""
    if board.fault:
        return [Need("not up to date", board.fault, "what you see is older")]
    return [*_refused(board), *_budget(board), *_paused(board)] if board.served else [*_unserved(board)]


def _unserved(board: Board) -> Iterator[Need]:
    cut_off, queued = board.lineup.counts.get(State.RUNNING, 0), board.lineup.counts.get(State.QUEUED, 0)
    if not cut_off and not queued:
        return
    why = f"{plural(cut_off, 'goal')} interrupted" if cut_off else "no goal starts"
    start = f"{command_line(['work'], board.flag)} (or: {command_line(['run', '--all'], board.flag)})"
    if board.paused:
        yield Need("this queue has no worker", f"{why}; the queue is paused", f"p resumes; then: {start}", Look.WARN)
    else:
        yield Need("this queue has no worker", why, start, Look.WARN)


def _refused(board: Board) -> Iterator[Need]:
    if board.bulletin is None:
        return
    for account, number in board.bulletin.refused.items():
        goal = board.lineup.known.get(number)
        why = (
            "rejects our requests: login or billing"
            if goal is None or not goal.why
            else f"rejects our requests: {reason_line(goal.why)}"
        )
        yield Need(account, why, f"fix that, then press r at g{number}; other goals on this account wait")


def _budget(board: Board) -> Iterator[Need]:
    if board.bulletin is None or board.bulletin.stopping:
        return
    whole, left = board.bulletin.budget, left_of(board.bulletin)
    pairs = [
        ("cost", whole.cost_usd, left.cost_usd),
        ("tokens", whole.tokens, left.tokens),
        ("time", whole.seconds, left.seconds),
    ]
    nearly = [name for name, most, rest in pairs if most and rest is not None and rest <= (1 - _NEARLY) * most]
    short = () if board.forecast is None else board.forecast.exceeds(left)
    names = [name for name in ("cost", "tokens", "time") if name in nearly or name in short]
    if names:
        share = "nearly used" if nearly else "probably not enough for the remaining goals"
        ways = "running goals stop when it is used up; continue with the same command and a larger --max-..."
        yield Need(f"budget ({', '.join(names)})", share, ways, Look.WARN)


def _paused(board: Board) -> Iterator[Need]:
    queued = board.lineup.counts.get(State.QUEUED, 0)
    if board.paused and queued:
        yield Need("paused", f"{plural(queued, 'goal')} will not start", "p resumes", Look.WARN)


def _stuck(board: Board) -> Iterator[Need]:
    """Group goals stuck for the same reason with the same next step: a broken main branch blocks many."""
    told = () if board.bulletin is None else board.bulletin.refused.values()  # shown with their accounts
    groups: dict[tuple[Reason, str], list[BatchGoal]] = {}
    for goal in board.lineup.goals:
        if goal.state is State.STUCK and goal.id not in told:
            groups.setdefault((goal.why, _way_out_of(goal, board.flag, "each")), []).append(goal)
    group_of = {goal.id: group for group, goals in groups.items() for goal in goals}
    held_up: dict[tuple[Reason, str], list[int]] = {}
    for number, obstacle in board.lineup.in_vain.items():
        if (group := group_of.get(obstacle.id)) is not None:
            held_up.setdefault(group, []).append(number)
    for (why, way_out), goals in groups.items():
        numbers = [goal.id for goal in goals]
        followers = held_up.get((why, way_out), [])
        is_one = len(goals) == 1
        parts = [
            reason_line(why) or "stuck",
            "" if is_one else _labels(numbers),
            (f"blocks {_labels(followers)}" if is_one else f"block {_labels(followers)}") if followers else "",
        ]
        who = f"{goals[0].label} {goals[0].name}" if is_one else plural(len(goals), "goal")
        yield Need(who, " · ".join(filter(None, parts)), _way_out_of(goals[0], board.flag) if is_one else way_out)


_KEYS = {"retry": "r", "comment": "t", "log": "Enter"}
"""Keys that do what a command does, for the selected goal."""


def _way_out_of(goal: BatchGoal, flag: str, which: str = "") -> str:
    """Word the next step as `ralph-runs show` does, with keys instead of commands; name the goal they apply to.

    `which` names several goals in one word.
    """
    steps = next_step(replace(goal, path="GOAL.md") if which else goal)
    words = steps_by_keys(steps, flag)
    return f"at {which or goal.label}: {words}" if any(map(_keyed, steps)) else words


def steps_by_keys(steps: Iterable[NextStep], flag: str) -> str:
    """Return steps in words, with keys instead of the commands that have one."""
    return "".join(_keyed(step) or step.written(flag) for step in steps)


def _keyed(step: NextStep) -> str:
    """Return a step with the key for its command; empty if no key does it."""
    key = _KEYS.get(step.command[0], "") if step.command else ""
    lead = "see it: " if key == "Enter" else step.lead
    return f"{lead}{key}{step.follow}" if key else ""


def _in_vain(board: Board) -> Iterator[Need]:
    """Goals that wait for a draft or a cancelled goal; stuck goals mention what they block themselves."""
    waiting: dict[int, list[int]] = {}
    for number, obstacle in board.lineup.in_vain.items():
        if obstacle.state in (State.DRAFT, State.CANCELLED, State.UNDONE):
            waiting.setdefault(obstacle.id, []).append(number)
    for number, followers in waiting.items():
        goal = board.lineup.known[number]
        what = "a draft" if goal.state is State.DRAFT else str(goal.state)
        queued = command_line(["queue", goal.label], board.flag)
        way_out = queued if goal.state is State.DRAFT else f"r at {goal.label} retries it"
        yield Need(f"{goal.label} {goal.name}", f"{what} · blocks {_labels(followers)}", way_out, Look.WARN)


def _cautions(board: Board) -> Iterator[Need]:
    """Missing checks, checkouts that block a merge, budgets that cannot be enforced."""
    goes_on = board.lineup.counts.get(State.QUEUED, 0) + board.lineup.counts.get(State.RUNNING, 0)
    if board.bulletin is not None and goes_on:
        for why in board.bulletin.cautions:
            what, then = caution(why)
            yield Need(what, "", then, Look.WARN)


def _labels(numbers: Sequence[int]) -> str:
    return few([f"g{number}" for number in sorted(numbers)], _LABELS)
