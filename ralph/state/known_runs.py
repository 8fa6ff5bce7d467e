"""The runs on this machine: which are live, and which one the user means."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ralph.config import paths
from ralph.config.paths import repo_key
from ralph.core.errors import UsageError
from ralph.core.events import Event
from ralph.core.goal import goal_name
from ralph.core.guidance import Act, Guidance, Instruction, Steering
from ralph.core.records import NotARecord, parse_event
from ralph.core.status import RunStatus, status_of
from ralph.core.text import instant, timestamp
from ralph.git import repo
from ralph.state import lock
from ralph.state.inbox import Inbox
from ralph.state.journal import Journal, Saved, read_run_record
from ralph.system import environ

_TAIL = 256 * 1024
"""Bytes at the end of a run's events that are enough to know its state."""


@dataclass(frozen=True, slots=True)
class KnownRun:
    """A run and its directory; `pid` is None if it is not live."""

    goal: str
    goal_path: str
    directory: Path
    pid: int | None
    repo: str
    since: float = 0.0
    """When its live process started."""

    @property
    def is_live(self) -> bool:
        return self.pid is not None

    @property
    def is_finished(self) -> bool:
        """Tell whether its last run is finished, so that no session will read a message."""
        saved = Journal(self.directory).load()
        return not self.is_live and isinstance(saved, Saved) and saved.finished

    def post(self, act: Act, text: str, now: float) -> Instruction:
        """Put a request into its inbox, and return it with its numbers."""
        saved = Journal(self.directory).load()
        if isinstance(saved, Saved) and saved.run.id == environ.without_redirections().get("RALPH_RUN_ID"):
            raise UsageError("an agent's session cannot control its own run", "leave this to the user")
        return Inbox(self.directory).post(act, text, timestamp(now))

    def __str__(self) -> str:
        return f"{self.goal} ({self.goal_path}, {f'process {self.pid}' if self.is_live else 'not live'})"


@dataclass(frozen=True, slots=True)
class KnownRuns:
    """The directories of runs below `$RALPH_DIR/runs`, as seen from the current repository, if any."""

    runs: Path
    here: Path | None

    def live(self) -> list[KnownRun]:
        """The live runs on this machine."""
        return [entry for entry in self._all() if entry.is_live]

    def known(self) -> list[KnownRun]:
        """The live runs, and those of the current repository."""
        own = self._own
        return [entry for entry in self._all() if entry.is_live or entry.directory.parent == own]

    def known_here(self) -> list[KnownRun]:
        """The runs of the current repository."""
        own = self._own
        return [] if own is None else [entry for entry in self._all() if entry.directory.parent == own]

    def archived_here(self) -> list[KnownRun]:
        """The archived runs of that repository."""
        return [] if self._own is None else list(_in_group(self._own / ".archive", None))

    def find_live(self, asked: str | None) -> KnownRun:
        """Return the live run that the user means; refuse none or several."""
        if asked is None:
            return _one_of(self.live(), "no run is live", "start one: ralph run GOAL.md")
        meant = self.meant(asked)
        live = [entry for entry in meant if entry.is_live]
        others = _listed("live runs:", self.live()) or "list the live runs: ralph status"
        what = f"the run of {asked} is not live" if meant else f"there is no run for {asked}"
        return _one_of(live, what, others)

    def find(self, asked: str | None) -> KnownRun:
        """Return the run that the user means, live or not; without a name, a live one."""
        if asked is None:
            return self.find_live(None)
        meant = self.meant(asked)
        live = [entry for entry in meant if entry.is_live]
        return _one_of(live or meant, f"there is no run for {asked}", "list the runs: ralph status")

    def meant(self, asked: str) -> list[KnownRun]:
        """Return the runs that the user may mean: by a goal's file, or by name in the current repository.

        Runs elsewhere count only if the current repository has none with this name.
        """
        path = Path(asked)
        if path.is_file() or "/" in asked:
            place = str(path.parent.resolve() / path.name)
            return [entry for entry in self._all() if entry.goal_path == place]
        found = [
            entry for entry in self._all() if entry.goal == goal_name(path.stem if path.suffix == ".md" else asked)
        ]
        return [entry for entry in found if entry.directory.parent == self._own] or found

    @property
    def _own(self) -> Path | None:
        return None if self.here is None else self.runs / repo_key(self.here)

    def _all(self) -> Iterator[KnownRun]:
        for group in sorted(self.runs.glob("*")) if self.runs.is_dir() else []:
            yield from _in_group(group, lock.holder(group))


def _in_group(group: Path, owner: lock.Owner | None) -> Iterator[KnownRun]:
    """Yield the runs of one repository; `owner` is the process of a live one."""
    for directory in sorted(group.glob("[a-z0-9]*")):
        if (directory / "run.json").exists():
            at_it = owner if owner is not None and owner.goal == directory.name else None
            pid, since = (None, 0.0) if at_it is None else (at_it.pid, at_it.since)
            record = read_run_record(directory / "run.json")
            yield KnownRun(directory.name, record.goal_path, directory, pid, record.repo, since)


def latest_events(directory: Path) -> list[tuple[Event, str]]:
    """Return the last events of a run with their times; skip unreadable ones."""
    try:
        with (directory / "events.ndjson").open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _TAIL))
            lines = file.read().split(b"\n")
    except OSError:
        return []
    found: list[tuple[Event, str]] = []
    for line in lines if size <= _TAIL else lines[1:]:
        with contextlib.suppress(NotARecord):
            found.append(parse_event(line))
    return found


def _one_of(found: Sequence[KnownRun], none: str, hint: str) -> KnownRun:
    if not found:
        raise UsageError(none, hint)
    if len(found) > 1:
        raise UsageError(f"{len(found)} runs match", _listed("choose one by its goal file:", found))
    return found[0]


def _listed(opening: str, entries: Sequence[KnownRun]) -> str:
    return f"{opening} {'; '.join(map(str, entries))}" if entries else ""


def known_runs() -> KnownRuns:
    """Return all runs of this machine, those of the current repository first."""
    try:
        here = repo.open_repo(Path.cwd()).root
    except UsageError:
        here = None
    return KnownRuns(paths.ralph_dir(environ.without_redirections()) / "runs", here)


@dataclass(frozen=True, slots=True)
class Outline:
    """The state of a run from its directory."""

    goal: str
    repo: str
    live: bool
    pid: int | None
    directory: str
    state: str
    since: str = ""
    until: float | None = None
    tool: str = ""
    asked: tuple[str, ...] = ()
    """What it does after this iteration: `pause`, `stop`."""
    branch: str = ""
    iteration: int | None = None
    failures: int = 0
    cost_usd: float | None = None
    tokens: int | None = None
    session_cost_usd: float | None = None
    context_pct: float | None = None
    summary: str = ""
    guidance: tuple[Guidance, ...] = ()


def outline(entry: KnownRun) -> Outline:
    """Look up the state of a run."""
    journal = Journal(entry.directory)
    saved = journal.load()
    place = Outline(entry.goal, entry.repo, entry.is_live, entry.pid, str(entry.directory), "")
    if not isinstance(saved, Saved):
        return replace(place, state="its record is damaged; the next start rebuilds it")
    ended = journal.ending() or "interrupted; the same command continues it"
    stands = status_of(latest_events(entry.directory)) if entry.is_live else RunStatus(ended)
    if entry.is_live and stands.ended:  # that was the last start; this one has no events yet
        stands = RunStatus("beginning")
    run, used, last = saved.run, stands.session, saved.run.history.last
    return replace(
        place,
        state=stands.doing,
        since=stands.since,
        until=stands.until,
        tool=stands.tool,
        asked=_asked(entry, stands.is_paused) if entry.is_live else (),
        branch=run.branch,
        iteration=run.iteration,
        failures=run.failed,
        cost_usd=run.spend.cost_usd if run.spend.costed else None,
        tokens=run.spend.tokens if run.spend.knows_tokens else None,
        session_cost_usd=used.cost_usd if used else None,
        context_pct=used.context_pct if used else None,
        summary=last.summary if last else "",
        guidance=run.guidance,
    )


def _asked(entry: KnownRun, is_paused: bool) -> tuple[str, ...]:
    """Return the open requests: a run handles those since its start."""
    steering = Steering(
        lambda: [word for word in Inbox(entry.directory).read() if (instant(word.at) or 0.0) >= entry.since]
    )
    steering.listen()
    pending = {Act.PAUSE: steering.paused and not is_paused, Act.STOP: steering.stopping}
    return tuple(str(act) for act, is_pending in pending.items() if is_pending)
