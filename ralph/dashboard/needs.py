"""What needs a person: what stands still until somebody does something, and what that is."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ralph.core.reason import NextStep, Reason, command_line
from ralph.core.text import few, plural
from ralph.dashboard.board import Board
from ralph.dashboard.report import next_step
from ralph.queue.goals import BatchGoal, State
from ralph.queue.stats import left_of
from ralph.ui.draw import Line, Tone, cells, cut, width
from ralph.ui.terminal import one_line

_NEARLY = 0.9
"""Of a budget: then somebody should know."""

_LONGEST = 400
_LABELS = 4
"""Goals that are named; of more, how many there are."""


@dataclass(frozen=True, slots=True)
class Need:
    """Something that does not go on by itself: whose, why, and the way out."""

    who: str
    why: str
    way_out: str
    tone: Tone = Tone.BAD


def needs(board: Board) -> list[Need]:
    """All of it, what holds most up first."""
    return [*_foremost(board), *_stuck(board), *_in_vain(board), *_cautions(board)]


def needs_lines(board: Board, columns: int, most: int) -> list[Line]:
    """The same as at most so many lines: with their ways out as far as there is room for them, else why alone.

    The first one keeps its way out also where not all of them are named.
    """
    wanted = needs(board)
    if not wanted or most < 1:
        return []
    if len(wanted) <= most:
        return _told(wanted, columns, most - len(wanted))
    if most == 1:
        return _told(wanted[:1], columns, 0)
    if most == 2:
        first, *apart = _told(wanted[:1], columns, 1)
        return [first, _with_rest(wanted[0], len(wanted) - 1, columns) if apart else _rest(len(wanted) - 1)]
    foremost, *others = wanted[: most - 1]
    lines = _told([foremost], columns, 1)
    others = others[: most - 1 - len(lines)]
    return [*lines, *_told(others, columns, 0), _rest(len(wanted) - 1 - len(others))]


def _told(wanted: Sequence[Need], columns: int, spare: int) -> list[Line]:
    """A line each, with the way out if that fits; so many of them may have it in a line of its own."""
    lines: list[Line] = []
    for need in wanted:
        whole = (*_headline(need), *_way_out(need))
        if cells(whole) <= columns:
            lines.append(whole)
        elif spare:
            lines += [_headline(need), ((" ", Tone.PLAIN), *_way_out(need))]
            spare -= 1
        else:
            lines.append(_headline(need))
    return lines


def _rest(count: int) -> Line:
    return ((f"  … and {count} more that need a person", Tone.BAD),)


def _with_rest(need: Need, count: int, columns: int) -> Line:
    """A way out, and how many others there are: that much is always in sight."""
    rest = f"  … and {count} more"
    return (("  → ", Tone.DIM), (cut(need.way_out, columns - 4 - width(rest)), Tone.CALM), (rest, Tone.BAD))


def _headline(need: Need) -> Line:
    why = f"  {one_line(need.why, _LONGEST)}" if need.why else ""
    return (("! ", need.tone), (one_line(need.who, _LONGEST), Tone.STRONG), (why, Tone.PLAIN))


def _way_out(need: Need) -> Line:
    return ((" → ", Tone.DIM), (one_line(need.way_out, _LONGEST), Tone.CALM))


def _foremost(board: Board) -> list[Need]:
    """What is about the whole queue."""
    if board.fault:
        return [Need("not up to date", board.fault, "what is shown was read before that")]
    return [*_refused(board), *_budget(board), *_paused(board)] if board.served else [*_unserved(board)]


def _unserved(board: Board) -> Iterator[Need]:
    cut_off, queued = board.lineup.counts.get(State.RUNNING, 0), board.lineup.counts.get(State.QUEUED, 0)
    if not cut_off and not queued:
        return
    why = f"{cut_off} goal{' was' if cut_off == 1 else 's were'} cut off" if cut_off else "nothing is started"
    start = f"{command_line(['work'], board.flag)} (or: {command_line(['run'], board.flag)})"
    if board.paused:
        yield Need("nobody serves this queue", f"{why}, and it is paused", f"p resumes; then: {start}", Tone.WARN)
    else:
        yield Need("nobody serves this queue", why, start, Tone.WARN)


def _refused(board: Board) -> Iterator[Need]:
    if board.bulletin is None:
        return
    for account, number in board.bulletin.refused.items():
        goal = board.lineup.known.get(number)
        why = "refuses us: login or billing" if goal is None or not goal.reason else f"refuses us: {goal.reason}"
        yield Need(account, why, f"mend that, then r at g{number}: whatever uses it waits for that")


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
        share = "nearly used" if nearly else "will probably not do for what is left"
        ways = "what runs is stopped when it is used up; the same command with a larger --max-... goes on"
        yield Need(f"budget ({', '.join(names)})", share, ways, Tone.WARN)


def _paused(board: Board) -> Iterator[Need]:
    queued = board.lineup.counts.get(State.QUEUED, 0)
    if board.paused and queued:
        yield Need("paused", f"{plural(queued, 'goal')} will not start", "p resumes", Tone.WARN)


def _stuck(board: Board) -> Iterator[Need]:
    """Goals that are stuck for one reason, with one way out, are one need: a red main has many of them."""
    told = () if board.bulletin is None else board.bulletin.refused.values()  # with their accounts
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
            why.line or "stuck",
            "" if is_one else _labels(numbers),
            (f"holds up {_labels(followers)}" if is_one else f"hold up {_labels(followers)}") if followers else "",
        ]
        who = f"{goals[0].label} {goals[0].name}" if is_one else plural(len(goals), "goal")
        yield Need(who, " · ".join(filter(None, parts)), _way_out_of(goals[0], board.flag) if is_one else way_out)


_KEYS = {"retry": "r", "comment": "t", "logs": "Enter"}
"""What a key does as a command does it, to the goal that the cursor is at."""


def _way_out_of(goal: BatchGoal, flag: str, which: str = "") -> str:
    """As `ralph-runs show` says it, with keys for what they do; they are about the cursor's goal, so whose is said.

    `which`: in a word for several goals.
    """
    steps = next_step(replace(goal, path="GOAL.md") if which else goal)
    words = "".join(_keyed(step) or step.written(flag) for step in steps)
    return f"at {which or goal.label}: {words}" if any(map(_keyed, steps)) else words


def _keyed(step: NextStep) -> str:
    """A step with the key for its command; empty: there is none."""
    key = _KEYS.get(step.command[0], "") if step.command else ""
    lead = "see it: " if key == "Enter" else step.lead
    return f"{lead}{key}{step.follow}" if key else ""


def _in_vain(board: Board) -> Iterator[Need]:
    """Goals that wait for what nobody lets start; what is stuck says itself whom it holds up."""
    waiting: dict[int, list[int]] = {}
    for number, obstacle in board.lineup.in_vain.items():
        if obstacle.state in (State.DRAFT, State.CANCELLED):
            waiting.setdefault(obstacle.id, []).append(number)
    for number, followers in waiting.items():
        goal = board.lineup.known[number]
        what = "a draft" if goal.state is State.DRAFT else "cancelled"
        queued = command_line(["queue", goal.label], board.flag)
        way_out = queued if goal.state is State.DRAFT else f"r at {goal.label} tries it again"
        yield Need(f"{goal.label} {goal.name}", f"is {what} · holds up {_labels(followers)}", way_out, Tone.WARN)


def _cautions(board: Board) -> Iterator[Need]:
    """Checks that are missing, checkouts in the way of a merge, agents that a budget cannot hold."""
    goes_on = board.lineup.counts.get(State.QUEUED, 0) + board.lineup.counts.get(State.RUNNING, 0)
    if board.bulletin is not None and goes_on:
        for words in board.bulletin.cautions:
            what, _, more = words.partition(": ")
            yield Need(what, "", more or what, Tone.WARN)


def _labels(numbers: Sequence[int]) -> str:
    return few([f"g{number}" for number in sorted(numbers)], _LABELS)
