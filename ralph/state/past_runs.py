"""Past runs: read from their directories or, if these are lost, from their commits."""

import contextlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ralph.core.errors import RepoError, UsageError
from ralph.core.goal import goal_name
from ralph.core.history import HistoryFold, PastIteration, PastRun, latest_goal, run_in_commits
from ralph.core.ndjson import LineSplitter
from ralph.core.records import NotARecord, parse_event
from ralph.core.status import status_of
from ralph.git.history import GitCall, commits_on, git_in, parent_of
from ralph.state.journal import Journal, mode_of, read_progress, read_run_record
from ralph.state.known_runs import KnownRun, KnownRuns, known_runs, latest_events
from ralph.state.result import read_result

Commits = Sequence[tuple[str, float, str]]

_CHUNK = 1 << 20
_TELLING = re.compile(
    rb'"type":"(?:run_|agent_changed|iteration_|summary_|check_|session_started|session_ended|turn_ended|compacted|usage|waiting)',
    re.ASCII,
)
"""Events with an iteration's time and cost: one line in a hundred of a busy session."""
_ARCHIVED = re.compile(r"-([1-9][0-9]{0,8})", re.ASCII)
CUT_OFF = "interrupted; the same command continues it"


@dataclass(frozen=True, slots=True)
class FoundRun:
    """A run with its directory (None if lost) and its repository."""

    past: PastRun
    directory: Path | None
    root: Path

    @property
    def git(self) -> GitCall:
        if not self.root.is_dir():
            raise RepoError(
                f"cannot read the repository of this run: {self.root} is missing",
                f"its logs are in {self.past.directory}",
            )
        return git_in(self.root)


def find_past_run(asked: str | None) -> FoundRun:
    """Find the run that the user means: by goal, or by the name of an archived run; else the latest one here."""
    known = known_runs()
    entry = _latest(known) if asked is None else _named(known, asked)
    if entry is not None:
        root = Path(entry.repo) if entry.repo else known.here or Path()
        return FoundRun(_with_commits(entry, root), entry.directory, root)
    found = None if known.here is None else _in_commits(known.here, asked)
    if found is not None and known.here is not None:
        return FoundRun(found, None, known.here)
    if asked is None:
        where = "" if known.here is None else f" for {known.here}"
        raise UsageError(f"there is no run{where} yet", "start one: ralph run GOAL.md; or list all runs: ralph status")
    raise UsageError(f"there is no run for {asked}", "list the runs: ralph status")


def _latest(known: KnownRuns) -> KnownRun | None:
    """Return the latest run of this repository; an archived one only if there is no other."""
    own = known.known_here()
    return max(own or known.archived_here(), key=lambda run: (run.is_live, _changed_at(run.directory)), default=None)


def _changed_at(directory: Path) -> float:
    times = [0.0]
    for name in ("run.json", "progress.jsonl", "events.ndjson", "result.json"):
        with contextlib.suppress(OSError):
            times.append((directory / name).stat().st_mtime)
    return max(times)


def _named(known: KnownRuns, asked: str) -> KnownRun | None:
    with contextlib.suppress(UsageError):
        return known.find(asked)
    if len(known.meant(asked)) > 1:
        return known.find(asked)  # which lists them
    return next((run for run in known.archived_here() if run.directory.name == asked), None)


def _with_commits(entry: KnownRun, root: Path) -> PastRun:
    record = read_run_record(entry.directory / "run.json")
    commits = commits_on(git_in(root), record.branch or "HEAD", record.base) if root.is_dir() else []
    past = read_past_run(entry.directory, commits, is_live=entry.is_live)
    if past.base is None and past.iterations and root.is_dir():
        with contextlib.suppress(RepoError):
            past = replace(past, base=parent_of(git_in(root), past.iterations[0].commit))
    return replace(past, repo=past.repo or str(root))


def _in_commits(root: Path, asked: str | None) -> PastRun | None:
    """Return a run whose directory is lost, from the commits of this repository."""
    git = git_in(root)
    branches = ["HEAD", *([] if asked is None else [f"refs/heads/ralph/{goal_name(Path(asked).stem)}"])]
    for branch in branches:
        commits = commits_on(git, branch)
        goal = latest_goal([message for _, _, message in commits]) if asked is None else goal_name(Path(asked).stem)
        past = run_in_commits(goal, commits) if goal else None
        if past is not None:
            state = "its directory is missing; this comes from its commits"
            base = parent_of(git, past.iterations[0].commit)
            return replace(past, repo=str(root), base=base, state=state)
    return None


def read_past_run(directory: Path, commits: Commits = (), *, is_live: bool = False) -> PastRun:
    """Read a run from its directory; unrecorded iterations come from its branch's `commits`."""
    journal = Journal(directory)
    record = read_run_record(directory / "run.json")
    record = record if record.run else journal.begun()
    goal = record.goal or _ARCHIVED.sub("", directory.name)
    told = run_in_commits(goal, commits)
    if told is not None and record.run and told.run != record.run:
        told = None
    fold, iterations = _folded(directory), read_progress(directory).iterations
    past: list[PastIteration] = [fold.told(each) for each in iterations]
    known = {each.number for each in past}
    past += [each for each in (() if told is None else told.iterations) if each.number not in known]
    result, spend = read_result(directory), record.spend
    state = _doing(directory) if is_live else CUT_OFF if result is None else result.reason
    return PastRun(
        goal,
        record.run or ("" if told is None else told.run),
        record.repo,
        record.branch,
        record.base or None,
        str(directory),
        is_live,
        state,
        None if result is None or is_live else result.exit_code,
        result is not None and not is_live and result.proven,
        spend.cost_usd if spend.costed else None if told is None or record.run else told.cost_usd,
        spend.tokens if spend.knows_tokens else None if told is None or record.run else told.tokens,
        iterations=tuple(sorted(past, key=lambda each: each.number)),
        earlier=tuple(each.name for each in archived_before(directory)),
    )


def _doing(directory: Path) -> str:
    status = status_of(latest_events(directory))
    return "beginning" if status.ended else status.doing


def _folded(directory: Path) -> HistoryFold:
    fold = HistoryFold()
    for line in _lines(directory / "events.ndjson"):
        if _TELLING.search(line) is not None:
            with contextlib.suppress(NotARecord):
                fold.take(*parse_event(line))
    return fold


def _lines(file: Path) -> Iterator[bytes]:
    splitter = LineSplitter()
    with contextlib.suppress(OSError), file.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            yield from (line for line in splitter.feed(chunk) if isinstance(line, bytes))


def archived_before(directory: Path) -> list[Path]:
    """Return the directories of a goal's earlier runs, oldest first; none for an archived run."""
    folder = directory.parent / ".archive"
    if directory.parent.name == ".archive" or not folder.is_dir():
        return []
    numbered = {
        int(match[1]): path
        for path in folder.iterdir()
        if path.name.startswith(directory.name)
        and (match := _ARCHIVED.fullmatch(path.name, len(directory.name))) is not None
    }
    return [numbered[number] for number in sorted(numbered)]


def session_logs(directory: Path, number: int) -> list[Path]:
    """Return the raw logs of the sessions of one iteration, oldest first."""
    found = (directory / "logs").glob(f"*/*-{number}.ndjson")
    return sorted((log for log in found if mode_of(log.name) == "worker"), key=lambda log: log.name)


def require_iteration(past: PastRun, number: int, look: str) -> PastIteration:
    """Return an iteration of a run; refuse a missing one. `look` is the command that lists them."""
    if (found := past.iteration(number)) is not None:
        return found
    if not past.iterations:
        raise UsageError(f"{past.goal} has no finished iteration yet", f"see where it stands: {look}")
    numbers = f"1 to {past.iterations[-1].number}"
    raise UsageError(f"{past.goal} has no iteration {number}: it has {numbers}", f"see them with: {look}")
