"""Was each iteration of a batch run exactly once? By what its agents wrote down themselves, and by git's trailers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.batches import Batch, Session, says, shell
from tests.support.git_repos import git

_FORMAT = "%(trailers:key=Ralph-Run,valueonly)%x00%(trailers:key=Ralph-Iteration,valueonly)%x01"
# What an agent knows: its goal, its run, its iteration, and how many of the run's iterations are committed by then.
_COUNT = "git log --format='%(trailers:key=Ralph-Run,valueonly)' | grep -cx \"$RALPH_RUN_ID\""
_ENTRY = '"$RALPH_GOAL $RALPH_RUN_ID $RALPH_ITERATION $count"'


@dataclass(frozen=True, slots=True)
class Began:
    """A session that an agent held: of which run and iteration, and how many iterations were committed before it."""

    goal: str
    run: str
    iteration: int
    finished: int


@dataclass(frozen=True, slots=True)
class Ledger:
    """A file outside of all that ralph keeps, to which every session adds a line as it begins."""

    path: Path

    def writes(self, name: str, iterations: int = 3, *, seconds: float = 0.3, last: str = "") -> list[Session]:
        """Sessions that each write a text of their own; the last one says DONE, after the command `last` if given."""
        text = f"mkdir -p texts; echo Fine. > texts/{name}-$RALPH_ITERATION.txt; sleep {seconds}"
        sessions = [[self.entry(text), says(f"wrote text {number}")] for number in range(1, iterations)]
        return [*sessions, [self.entry(last or text), says("DONE")]]

    def entry(self, then: str = ":") -> list[dict[str, object]]:
        # A grep that is killed says nothing, and is asked again: the line must be whole.
        counted = f'count=; while [ -z "$count" ]; do count=$({_COUNT}); done'
        return shell(f"{counted}; echo {_ENTRY} >> {self.path}; {then}")

    @property
    def lines(self) -> list[Began]:
        text = self.path.read_text() if self.path.exists() else ""
        return [Began(goal, run, int(n), int(m)) for goal, run, n, m in (line.split() for line in text.splitlines())]

    def of(self, goal: str) -> list[Began]:
        return [began for began in self.lines if began.goal == goal]


def committed(batch: Batch) -> dict[str, list[tuple[str, int]]]:
    """The (run, iteration) pairs on every branch that the mirrors keep of goals, oldest first, by the ref's name."""
    found: dict[str, list[tuple[str, int]]] = {}
    for mirror in sorted(batch.ralph_dir.glob("mirrors/**/*.git")):
        for ref in git(mirror, "for-each-ref", "--format=%(refname)", "refs/ralph", "refs/heads/ralph").split():
            if not ref.startswith("refs/ralph/base/"):
                entries = git(mirror, "log", "--reverse", "--first-parent", f"--format={_FORMAT}", ref).split("\x01")
                pairs = ([part.strip() for part in entry.split("\0")] for entry in entries if entry.strip())
                found[f"{mirror.stem}:{ref}"] = [(run, int(number)) for run, number in pairs if number]
    return found


def faults(began: Sequence[Began], branches: Iterable[tuple[str, Sequence[tuple[str, int]]]]) -> list[str]:
    """Whatever was done twice, left out or lost; nothing if each finished iteration was run exactly once."""
    found: list[str] = []
    last: dict[str, int] = {}
    for entry in began:
        if entry.iteration != entry.finished + 1:
            found.append(f"{entry} is not the first unfinished one")
        if entry.iteration < last.get(entry.run, 0):
            found.append(f"{entry} came after iteration {last[entry.run]}")
        last[entry.run] = entry.iteration
    for name, pairs in branches:
        runs: dict[str, list[int]] = defaultdict(list)
        for run, number in pairs:
            runs[run].append(number)
        for run, numbers in runs.items():
            if numbers != list(range(1, len(numbers) + 1)):
                found.append(f"{name} has the iterations {numbers} of {run}")
            if missing := set(numbers) - {entry.iteration for entry in began if entry.run == run}:
                found.append(f"{name} has the iterations {sorted(missing)} of {run}, which no agent knows of")
    return found


def require_each_once(batch: Batch, ledger: Ledger) -> None:
    """Fail if a finished iteration was run again, is there twice, or is lost."""
    branches = committed(batch)
    assert branches, "no branch of a goal is kept"
    found = faults(ledger.lines, branches.items())
    assert not found, "\n".join(found)
