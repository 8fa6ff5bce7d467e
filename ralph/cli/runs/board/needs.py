"""What needs a person: what stands still until somebody does something, and what that is."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ralph.batch.forecast import left_of
from ralph.batch.goals import BatchGoal, State
from ralph.cli.runs.board.board import Board
from ralph.cli.runs.board.wording import cells
from ralph.cli.runs.queues import naming
from ralph.cli.runs.tables import next_step
from ralph.ui.paint import Line, Tone
from ralph.ui.sanitise import one_line

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
    found = [*_foremost(board), *_stuck(board), *_in_vain(board), *_cautions(board)]
    return [replace(need, way_out=naming(need.way_out, board.flag)) for need in found]


def needs_lines(board: Board, columns: int, most: int) -> list[Line]:
    """The same as at most so many lines: with their ways out as far as there is room for them, else why alone."""
    wanted = needs(board)
    if not wanted or most < 1:
        return []
    if len(wanted) > most:
        rest = f"  … and {len(wanted) - most + 1} more that need a person"
        folded = [_headline(wanted[0])] if most == 1 else [((rest, Tone.BAD),)]
        return [*map(_headline, wanted[: most - 1]), *folded]
    spare = most - len(wanted)
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
    start = "ralph-runs work (or: ralph-runs run)"
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
        yield Need("paused", f"{_goals(queued)} will not start", "p resumes", Tone.WARN)


def _stuck(board: Board) -> Iterator[Need]:
    told = () if board.bulletin is None else board.bulletin.refused.values()  # with their accounts
    for goal in board.lineup.goals:
        if goal.state is State.STUCK and goal.id not in told:
            followers = [number for number, obstacle in board.lineup.in_vain.items() if obstacle.id == goal.id]
            held_up = f" · holds up {_labels(followers)}" if followers else ""
            yield Need(f"{goal.label} {goal.name}", f"{goal.reason or 'stuck'}{held_up}", _way_out_of(goal))


def _way_out_of(goal: BatchGoal) -> str:
    """As `ralph-runs show` says it, with keys for what they do; they are about the cursor's goal, so whose is said."""
    again, say = f"ralph-runs retry {goal.label}", f"ralph-runs comment {goal.label} '...'"
    see = f"see what it did: ralph-runs logs {goal.label}"
    step = next_step(goal)
    keys = step.replace(again, "r").replace(say, "t").replace(see, "see it: Enter")
    return keys if keys == step else f"at {goal.label}: {keys}"


def _in_vain(board: Board) -> Iterator[Need]:
    """Goals that wait for what nobody lets start; what is stuck says itself whom it holds up."""
    waiting: dict[int, list[int]] = {}
    for number, obstacle in board.lineup.in_vain.items():
        if obstacle.state in (State.DRAFT, State.CANCELLED):
            waiting.setdefault(obstacle.id, []).append(number)
    for number, followers in waiting.items():
        goal = board.lineup.known[number]
        what = "a draft" if goal.state is State.DRAFT else "cancelled"
        way_out = f"ralph-runs queue {goal.label}" if goal.state is State.DRAFT else f"r at {goal.label} tries it again"
        yield Need(f"{goal.label} {goal.name}", f"is {what} · holds up {_labels(followers)}", way_out, Tone.WARN)


def _cautions(board: Board) -> Iterator[Need]:
    """Checks that are missing, checkouts in the way of a merge, agents that a budget cannot hold."""
    goes_on = board.lineup.counts.get(State.QUEUED, 0) + board.lineup.counts.get(State.RUNNING, 0)
    if board.bulletin is not None and goes_on:
        for words in board.bulletin.cautions:
            what, _, more = words.partition(": ")
            yield Need(what, "", more or what, Tone.WARN)


def _labels(numbers: Sequence[int]) -> str:
    named = ", ".join(f"g{number}" for number in sorted(numbers)[:_LABELS])
    return f"{named} and {len(numbers) - _LABELS} more" if len(numbers) > _LABELS else named


def _goals(count: int) -> str:
    return f"{count} goal{'' if count == 1 else 's'}"
