"""What a run has done, iteration by iteration: folded from its events, or read back from its commits."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from ralph.core.events import (
    AgentChanged,
    CheckEnded,
    CheckStarted,
    Compacted,
    Event,
    IterationEnded,
    IterationStarted,
    RunStarted,
    SummaryStarted,
    TurnEnded,
)
from ralph.core.run import Iteration, read_message
from ralph.core.status import StatusFold
from ralph.core.text import timestamp
from ralph.core.usage import Spend
from ralph.core.verdict import Verdict


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The check's result for an iteration; `exit_code` is None if it ran out of time."""

    exit_code: int | None
    seconds: float
    output: str

    @property
    def is_green(self) -> bool:
        return self.exit_code == 0


@dataclass(frozen=True, slots=True)
class PastIteration:
    """A finished iteration, with its time and cost; an unknown figure is None."""

    number: int = field(metadata={"key": "iteration"})
    at: str
    """When it was committed."""
    verdict: Verdict
    summary: str
    commit: str
    check: CheckResult | None = None
    cost_usd: float | None = None
    tokens: int | None = None
    seconds: float | None = None
    """Seconds of its sessions and its check, without waits."""
    sessions: int | None = None
    """More than one if a session failed and was run again."""
    num_turns: int | None = None
    """As its agent counts them, over all its sessions."""
    duration_ms: int | None = None
    """How long these turns took, as its agent says."""
    agent: str | None = None
    """Who did it: the agent of its last session."""
    compactions: int | None = None
    """How often its agent summarized a conversation that had grown too long."""


@dataclass(frozen=True, slots=True)
class PastRun:
    """A run of a goal, as far as known; it may still be live."""

    goal: str
    run: str = ""
    repo: str = ""
    branch: str = ""
    base: str | None = None
    """The commit that it began on."""
    directory: str = ""
    is_live: bool = field(default=False, metadata={"key": "live"})
    state: str = ""
    """How it ended, or what it does now, in words."""
    exit_code: int | None = None
    proven: bool = False
    cost_usd: float | None = None
    tokens: int | None = None
    is_rebuilt: bool = field(default=False, metadata={"key": "rebuilt"})
    """Its directory is lost, so everything comes from its commits."""
    iterations: tuple[PastIteration, ...] = ()
    earlier: tuple[str, ...] = ()
    """The names of the goal's earlier, archived runs, oldest first."""

    @property
    def head(self) -> str | None:
        """The commit of the last iteration."""
        return self.iterations[-1].commit if self.iterations else None

    @property
    def seconds(self) -> float:
        """Return the seconds of all iterations, as far as known."""
        return sum(each.seconds or 0.0 for each in self.iterations)

    def iteration(self, number: int) -> PastIteration | None:
        return next((each for each in self.iterations if each.number == number), None)


@dataclass(slots=True)
class _Took:
    """Time and cost of an iteration so far."""

    spent: Spend
    seconds: float
    """What the run had used before it."""
    agent: str = ""
    sessions: int = 0
    used: Spend | None = None
    took: float | None = None
    check: CheckResult | None = None
    num_turns: int | None = None
    duration_ms: int | None = None
    compactions: int = 0

    def count(self, turn: TurnEnded) -> None:
        """Add what the agent says of a turn."""
        if turn.num_turns is not None:
            self.num_turns = (self.num_turns or 0) + turn.num_turns
        if turn.duration_ms is not None:
            self.duration_ms = (self.duration_ms or 0) + turn.duration_ms


class HistoryFold:
    """Folds the events of a run into time and cost of each iteration; summaries count for no iteration."""

    def __init__(self) -> None:
        self._status = StatusFold()
        self._took: dict[int, _Took] = {}
        self._open = 0
        self._agent = ""
        self._is_summary = False
        """The session that is open condenses older iterations."""
        self._judged = 0
        """The iteration that is being checked, or was judged last."""

    def take(self, event: Event, at: str) -> None:
        before, seconds = self._status.meter.total, self._seconds
        self._status.take(event, at)
        match event:
            case RunStarted() | AgentChanged():
                self._agent = event.agent
            case IterationStarted(number):
                if self._open != number or number not in self._took:
                    self._took[number] = _Took(before, seconds)
                self._took[number].sessions += 1
                self._took[number].agent = self._agent
                self._open, self._is_summary = number, False
            case IterationEnded(number) if (took := self._took.get(number)) is not None:
                took.used, took.took = _less(self._status.meter.total, took.spent), self._seconds - took.seconds
                self._open, self._judged = 0, number
            case TurnEnded() if not self._is_summary and (took := self._took.get(self._open)) is not None:
                took.count(event)
            case Compacted() if not self._is_summary and (took := self._took.get(self._open)) is not None:
                took.compactions += 1
            case SummaryStarted():
                self._is_summary = True
            case CheckStarted(number):
                self._judged = number
            case CheckEnded() if (took := self._took.get(self._judged)) is not None:
                took.check = CheckResult(event.exit_code, event.seconds, event.output)
                took.took = None if took.took is None else took.took + event.seconds
            case _:
                pass

    @property
    def _seconds(self) -> float:
        times = self._status.times
        return times.model + times.tools

    def told(self, iteration: Iteration) -> PastIteration:
        """Return an iteration with the facts from its events."""
        known = plainly(iteration)
        if (took := self._took.get(iteration.number)) is None:
            return known
        used = took.used or Spend()
        return replace(
            known,
            check=took.check,
            cost_usd=used.cost_usd if used.costed else None,
            tokens=used.tokens if used.knows_tokens else None,
            seconds=None if took.took is None else round(took.took, 3),
            sessions=took.sessions,
            num_turns=took.num_turns,
            duration_ms=took.duration_ms,
            compactions=took.compactions,
            agent=took.agent or None,
        )


def plainly(iteration: Iteration) -> PastIteration:
    """Return an iteration without further facts."""
    return PastIteration(iteration.number, iteration.at, iteration.verdict, iteration.summary, iteration.commit)


def _less(all_of_it: Spend, before: Spend) -> Spend:
    """Return what was used since; never negative, even if a smaller figure replaced an estimate."""
    return replace(
        all_of_it,
        cost_usd=max(0.0, all_of_it.cost_usd - before.cost_usd),
        tokens=max(0, all_of_it.tokens - before.tokens),
    )


def run_in_commits(goal: str, commits: Iterable[tuple[str, float, str]]) -> PastRun | None:
    """Return the newest run of a goal in these commits (id, time, message; oldest first).

    Figures in the messages are cumulative: an iteration has used the difference to the one before it.
    """
    read = [(sha, at, said) for sha, at, message in commits if (said := read_message(message)) is not None]
    ours = [entry for entry in read if entry[2].goal == goal]
    if not ours:
        return None
    newest, before = ours[-1][2].run, Spend()
    found: list[PastIteration] = []
    for sha, at, said in ours:
        if said.run != newest:
            continue
        used = _less(said.spend, before)
        before = before.at_least(said.spend)
        found.append(
            PastIteration(
                said.iteration,
                timestamp(at),
                said.verdict,
                said.summary,
                sha,
                cost_usd=used.cost_usd if used.costed else None,
                tokens=used.tokens if used.knows_tokens else None,
            )
        )
    return PastRun(
        goal,
        newest,
        cost_usd=before.cost_usd if before.costed else None,
        tokens=before.tokens if before.knows_tokens else None,
        is_rebuilt=True,
        iterations=tuple(found),
    )


def latest_goal(messages: Sequence[str]) -> str | None:
    """Name the goal of the newest iteration among the messages of commits, oldest first."""
    return next((said.goal for message in reversed(messages) if (said := read_message(message)) is not None), None)
