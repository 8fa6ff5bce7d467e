"""The runs that this machine knows of: which are live, and which one the user means."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ralph import jsonline, repolock
from ralph.errors import UsageError
from ralph.events import Event, from_json
from ralph.goal import goal_name
from ralph.journal import repo_key

_TAIL = 256 * 1024
"""Bytes of a run's events that tell where it stands."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A run and its directory; `pid` is None when nobody is at it."""

    goal: str
    directory: Path
    pid: int | None
    repo: str

    @property
    def is_live(self) -> bool:
        return self.pid is not None

    def __str__(self) -> str:
        at = f", process {self.pid}" if self.is_live else ", not live"
        return f"{self.goal} ({self.repo or self.directory}{at})"


@dataclass(frozen=True, slots=True)
class Roster:
    """The directories of runs below `$RALPH_DIR/runs`, seen from the repository that the user stands in, if any."""

    runs: Path
    here: Path | None

    def live(self) -> list[Entry]:
        """The runs that are under way on this machine."""
        return [entry for entry in self._all() if entry.is_live]

    def known(self) -> list[Entry]:
        """The live runs, and those of the repository that the user stands in."""
        own = self._own
        return [entry for entry in self._all() if entry.is_live or entry.directory.parent == own]

    def find_live(self, asked: str | None) -> Entry:
        """The live run that the user means; refuse if that is none or several."""
        found = [entry for entry in self.live() if asked is None or entry.goal == _name(asked)]
        if not found and asked is not None:
            others = [entry for entry in self._all() if entry.goal == _name(asked)]
            why = "it is not under way" if others else "there is none"
            raise UsageError(f"no live run of {asked}: {why}", _listed("live are", self.live()) or "none is live")
        return self._one_of(found, "no run is live", "start one: ralph run GOAL.md")

    def find(self, asked: str | None) -> Entry:
        """The run that the user means, live or not; without a name a live one."""
        if asked is None:
            return self.find_live(None)
        found = [entry for entry in self._all() if entry.goal == _name(asked)]
        live = [entry for entry in found if entry.is_live]
        return self._one_of(live or found, f"there is no run of {asked}", f"start one: ralph run {asked}")

    @property
    def _own(self) -> Path | None:
        return None if self.here is None else self.runs / repo_key(self.here)

    def _one_of(self, found: Sequence[Entry], none: str, hint: str) -> Entry:
        if not found:
            raise UsageError(none, hint)
        here = [entry for entry in found if entry.directory.parent == self._own]
        choice = here if len(found) > 1 and len(here) == 1 else found
        if len(choice) > 1:
            raise UsageError(f"{len(choice)} runs could be meant", _listed("say which goal:", choice))
        return choice[0]

    def _all(self) -> Iterator[Entry]:
        for group in sorted(self.runs.glob("*")) if self.runs.is_dir() else []:
            owner = repolock.holder(group)
            for directory in sorted(group.glob("[a-z0-9]*")):
                if (directory / "run.json").exists():
                    at_it = owner is not None and owner.goal == directory.name
                    yield Entry(
                        directory.name,
                        directory,
                        owner.pid if owner is not None and at_it else None,
                        owner.repo if owner is not None and at_it else _repo_of(directory),
                    )


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
        try:
            entry = jsonline.mapping(jsonline.decode(line.decode("utf-8", "replace")))
            found.append((from_json(entry), jsonline.text(entry.get("at"))))
        except (jsonline.Malformed, ValueError):
            continue
    return found


def _repo_of(directory: Path) -> str:
    """Where a run that nobody is at has worked, as its own record says."""
    try:
        return jsonline.text(jsonline.mapping(jsonline.decode((directory / "run.json").read_text("utf-8"))).get("repo"))
    except (OSError, UnicodeDecodeError, jsonline.Malformed):
        return ""


def _name(asked: str) -> str:
    """A goal is named by its name, or by its file."""
    return goal_name(Path(asked).stem if asked.endswith(".md") or "/" in asked else asked)


def _listed(opening: str, entries: Sequence[Entry]) -> str:
    return f"{opening} {'; '.join(map(str, entries))}" if entries else ""
