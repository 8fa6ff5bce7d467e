"""What a run is, when ralph was cut off: the commits say which iterations are finished, the raw logs what was spent."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from ralph.agents.transcript import Transcript, events_in
from ralph.core.events import SessionStarted, Usage
from ralph.core.ndjson import Oversized, lines_in
from ralph.core.run import History, Iteration, IterationMessage, Run, read_message
from ralph.core.text import timestamp
from ralph.core.usage import Meter, Spend

_CHUNK = 1 << 20


class Commit(Protocol):
    """A commit that may be an iteration's."""

    @property
    def sha(self) -> str: ...
    @property
    def at(self) -> float: ...
    @property
    def message(self) -> str: ...


def rebuilt_run(goal: str, branch: str, commits: Sequence[Commit]) -> Run | None:
    """Make a lost run again from its commits: of the runs of this goal on the branch, the newest."""
    ours = [(commit, said) for commit, said in _read(commits) if said.goal == goal]
    if not ours:
        return None
    newest = ours[-1][1].run
    spend = spend_in_commits(newest, commits)
    return Run(id=newest, goal=goal, branch=branch, base=None, history=_history(newest, ours), spend=spend)


def spend_in_commits(run: str, commits: Sequence[Commit]) -> Spend:
    """What the run's commits say was spent. Each figure is cumulative: one that is smaller was not written by ralph."""
    spend = Spend()
    for _, said in _read(commits):
        if said.run == run:
            spend = spend.at_least(said.spend)
    return spend


def reconciled(run: Run, commits: Sequence[Commit], through: int | None = None) -> tuple[Run, list[str]]:
    """Set the run's history to what is committed, and say what that changed.

    `through` is the last iteration that its notes and check know of, where that was saved.
    """
    history = _history(run.id, _read(commits))
    recorded = {item.commit: item for item in run.history.iterations}
    history = History(tuple(_trusted(recorded.get(item.commit), item) for item in history.iterations))
    after, before = (known.next_number - 1 for known in (history, run.history))
    before = before if through is None else min(before, through)
    if history == run.history and after == before:
        return run, []
    if after > before:
        return (
            replace(run, history=history, failures=0, notes=(), check=None),
            [f"iteration {after} was committed but not recorded; it counts"],
        )
    return replace(run, history=history, check=None), [f"the branch holds iterations up to {after}; that counts"]


def spend_in_log(
    log: Path, transcript: Transcript, price: Callable[[Usage], Usage], recall: Callable[[str], Sequence[bytes]]
) -> Spend:
    """Count what a session reported in its raw log, by the same path as when it ran; `recall` adds its own account."""
    meter, session = Meter(), ""

    def lines() -> Iterator[bytes | Oversized]:
        with log.open("rb") as file:
            yield from lines_in(iter(lambda: file.read(_CHUNK), b""))
        yield from recall(session)  # also where its last turn ended well: another may have begun

    for event in events_in(lines(), transcript):
        match event:
            case Usage():
                meter = meter.metered(price(event))
            case SessionStarted():
                session = event.session_id
            case _:
                pass
    return meter.total


def _trusted(recorded: Iteration | None, committed: Iteration) -> Iteration:
    """The record has the better words and time, but only if it speaks of the same iteration."""
    same = recorded is not None and (recorded.number, recorded.verdict) == (committed.number, committed.verdict)
    return recorded if recorded is not None and same else committed


def _read(commits: Sequence[Commit]) -> list[tuple[Commit, IterationMessage]]:
    return [(commit, said) for commit in commits if (said := read_message(commit.message)) is not None]


def _history(run: str, commits: Sequence[tuple[Commit, IterationMessage]]) -> History:
    return History(
        tuple(
            Iteration(said.iteration, timestamp(commit.at), said.summary, commit.sha, said.verdict)
            for commit, said in commits
            if said.run == run
        )
    )
