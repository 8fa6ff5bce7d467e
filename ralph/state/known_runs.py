"""The runs on this machine: which are live, and which one the user means."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ralph.config import paths
from ralph.config.paths import repo_key
from ralph.core.errors import UsageError
from ralph.core.events import Event
from ralph.core.goal import goal_name
from ralph.core.records import NotARecord, parse_event
from ralph.git import repo
from ralph.state import lock
from ralph.state.journal import read_run_record
from ralph.system import environ

_TAIL = 256 * 1024
"""Bytes of a run's events that tell where it stands."""


@dataclass(frozen=True, slots=True)
class KnownRun:
    """A run and its directory; `pid` is None when nobody is at it."""

    goal: str
    goal_path: str
    directory: Path
    pid: int | None
    repo: str
    since: float = 0.0
    """When whoever is at it began."""

    @property
    def is_live(self) -> bool:
        return self.pid is not None

    def __str__(self) -> str:
        return f"{self.goal} ({self.goal_path}, {f'process {self.pid}' if self.is_live else 'not live'})"


@dataclass(frozen=True, slots=True)
class Roster:
    """The directories of runs below `$RALPH_DIR/runs`, seen from the repository that the user stands in, if any."""

    runs: Path
    here: Path | None

    def live(self) -> list[KnownRun]:
        """The runs that are under way on this machine."""
        return [entry for entry in self._all() if entry.is_live]

    def known(self) -> list[KnownRun]:
        """The live runs, and those of the repository that the user stands in."""
        own = self._own
        return [entry for entry in self._all() if entry.is_live or entry.directory.parent == own]

    def find_live(self, asked: str | None) -> KnownRun:
        """The live run that the user means; refuse if that is none or several."""
        if asked is None:
            return _one_of(self.live(), "no run is live", "start one: ralph run GOAL.md")
        meant = self._meant(asked)
        live = [entry for entry in meant if entry.is_live]
        others = _listed("live are", self.live()) or "none is live"
        why = "it is not under way" if meant else "there is none"
        return _one_of(live, f"no live run of {asked}: {why}", others)

    def find(self, asked: str | None) -> KnownRun:
        """The run that the user means, live or not; without a name a live one."""
        if asked is None:
            return self.find_live(None)
        meant = self._meant(asked)
        live = [entry for entry in meant if entry.is_live]
        return _one_of(live or meant, f"there is no run of {asked}", "see which there are: ralph status")

    def _meant(self, asked: str) -> list[KnownRun]:
        """The runs that the user may mean: by a goal's file that one, by its name those of the repository around him.

        Only where that has none of the name are those elsewhere meant.
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
            owner = lock.holder(group)
            for directory in sorted(group.glob("[a-z0-9]*")):
                if (directory / "run.json").exists():
                    at_it = owner if owner is not None and owner.goal == directory.name else None
                    pid, since = (None, 0.0) if at_it is None else (at_it.pid, at_it.since)
                    record = read_run_record(directory / "run.json")
                    yield KnownRun(directory.name, record.goal_path, directory, pid, record.repo, since)


def latest_events(directory: Path) -> list[tuple[Event, str]]:
    """The last events of a run with their times; what cannot be read is passed over."""
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
        raise UsageError(f"{len(found)} runs could be meant", _listed("name one by its goal's file:", found))
    return found[0]


def _listed(opening: str, entries: Sequence[KnownRun]) -> str:
    return f"{opening} {'; '.join(map(str, entries))}" if entries else ""


def roster() -> Roster:
    """All runs of this machine; those of the repository around the current directory first."""
    try:
        here = repo.open_repo(Path.cwd()).root
    except UsageError:
        here = None
    return Roster(paths.ralph_dir(environ.without_redirections()) / "runs", here)
