"""The run directory: versioned, atomic. Raw logs, events, progress, result; authority over all but the commits.

$RALPH_DIR/runs/<repo key>/.lock, .archive/
$RALPH_DIR/runs/<repo key>/<goal>/{run.json, begun.json, result.json, dossier.md, progress.jsonl, summary.md,
                                   events.ndjson, steering.jsonl, envrc, agents.md, snapshot/, goal/, logs/}
"""

import contextlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from ralph.core import ndjson
from ralph.core.errors import DiskError, ExitCode, StateError
from ralph.core.events import Event
from ralph.core.guidance import Guidance
from ralph.core.records import NotARecord, from_record, parse, to_json, to_record
from ralph.core.run import CheckRecord, History, Iteration, Run, RunResult
from ralph.core.stall import Stall
from ralph.core.summary import Condensed
from ralph.core.usage import Spend
from ralph.state.result import read_result, record_of
from ralph.system.files import (
    append_line,
    make_private_directory,
    named_in_faults,
    open_to_append,
    replace_file,
    require_room,
)

VERSION = 1


@dataclass(frozen=True, slots=True)
class CondensedRecord:
    """A run's summary in `run.json`; its text is in `summary.md`."""

    not_before: int = 0
    spend: Spend = field(default_factory=Spend)


@dataclass(frozen=True, slots=True)
class RunRecord:
    """`run.json`, and `begun.json`. Every field has a default, because an earlier ralph may not have written it."""

    version: int = 0
    run: str = ""
    goal: str = ""
    repo: str = ""
    goal_path: str = ""
    goal_digest: str = ""
    branch: str = ""
    base: str | None = None
    finished: int | None = None
    spend: Spend = field(default_factory=Spend)
    failures: int = 0
    failed: int = 0
    check: CheckRecord | None = None
    notes: tuple[str, ...] = ()
    guidance: tuple[Guidance, ...] = ()
    heard: int = 0
    obstacles: int = 0
    stall: Stall = field(default_factory=Stall, metadata={"key": "standstill"})
    condensed: CondensedRecord = field(default_factory=CondensedRecord)
    judge: str = ""
    agent: str = ""
    transcript: str = ""
    model: str = ""
    dotenv: Mapping[str, str] = field(default_factory=dict[str, str])
    counted: str = ""
    exit_code: int | None = None

    def as_run(self, history: History) -> Run:
        return Run(
            id=self.run,
            goal=self.goal,
            branch=self.branch,
            base=self.base or None,
            history=history,
            spend=self.spend,
            failures=self.failures,
            failed=self.failed,
            check=None if self.check and self.check.passed else self.check,  # an agent may have written a green one
            notes=self.notes,
            guidance=self.guidance,
            heard=self.heard,
            obstacles=self.obstacles,
            stall=self.stall,
            condensed=Condensed(not_before=self.condensed.not_before, spend=self.condensed.spend),
        )


def read_run_record(file: Path) -> RunRecord:
    """Read a `run.json` or `begun.json`; return an empty record if that is missing or damaged."""
    try:
        return parse(RunRecord, file.read_bytes())
    except (OSError, NotARecord):
        return RunRecord()


def read_progress(directory: Path) -> History:
    """Read the finished iterations of a run directory; a torn line is skipped."""
    history = History()
    try:
        content = (directory / "progress.jsonl").read_bytes()
    except OSError:  # the commits have the same facts
        return history
    for line in content.split(b"\n"):
        with contextlib.suppress(NotARecord):
            history = history.after(parse(Iteration, line))
    return history


@dataclass(frozen=True, slots=True)
class LogFiles:
    """The files for one session's raw output."""

    stdout: Path
    stderr: Path


def mode_of(log: str) -> str:
    """Return the mode in a raw log's name: it follows the time, which ends in Z."""
    return log.partition("Z-")[2].partition("-")[0]


@dataclass(frozen=True, slots=True)
class Saved:
    """The run directory's record of a goal's last run; `exit_code` is None if it was interrupted."""

    run: Run
    goal_path: str
    goal_digest: str
    check: str
    agent: str
    transcript: str
    model: str
    exit_code: int | None
    dotenv: Mapping[str, str]
    """The settings in `.env`, which an agent can write."""
    counted: str
    """The last raw log whose cost is in the run's spend."""
    through: int | None = None
    """The last iteration that the run's notes and check cover: a kill can leave a later one in `progress.jsonl`.

    None in records of an earlier ralph.
    """
    rebuilt_because: str = ""
    """Why the directory was unusable, if it was."""
    repo: str = ""
    """Where it works; for people and programs that read the file."""

    @property
    def finished(self) -> bool:
        return self.exit_code == ExitCode.DONE


@dataclass(frozen=True, slots=True)
class Damaged:
    """A run directory without a readable record."""

    reason: str


class Journal:
    """The run directory of one goal."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._events: BinaryIO | None = None
        self._seq = 0

    @property
    def snapshot(self) -> Path:
        return self.directory / "snapshot"

    @property
    def undone(self) -> Path:
        return self.directory / "undone"

    @property
    def summary(self) -> Path:
        return self.directory / "summary.md"

    @property
    def logs(self) -> Path:
        return self.directory / "logs"

    def load(self) -> Saved | Damaged | None:
        """Read the last run of this goal, if there is one."""
        path = self.directory / "run.json"
        try:
            document = ndjson.mapping(ndjson.decode(path.read_text("utf-8")))
        except FileNotFoundError:
            return Damaged(f"{path} is missing") if self.directory.is_dir() else None
        except IsADirectoryError:
            return Damaged(f"{path} is a directory")
        except OSError as error:
            raise DiskError(path, error) from error
        except (UnicodeDecodeError, ndjson.Malformed) as error:
            return Damaged(f"{path} is damaged ({error})")
        version = ndjson.count(document.get("version"))
        if version > VERSION:
            raise StateError(
                f"cannot read {path}: it has version {version}, and this ralph knows version {VERSION}",
                "use the ralph that wrote it, or archive that run with --fresh",
            )
        if version < VERSION or not ndjson.text(document.get("run")):
            return Damaged(f"{path} is damaged (it has no run id)")
        try:
            record = from_record(RunRecord, document)
        except NotARecord as error:
            return Damaged(f"{path} is damaged ({error})")
        return Saved(
            record.as_run(read_progress(self.directory)),
            record.goal_path,
            record.goal_digest,
            record.judge,
            record.agent,
            record.transcript,
            record.model,
            record.exit_code,
            record.dotenv,
            record.counted,
            record.finished,
            repo=record.repo,
        )

    def set_aside_damaged(self) -> None:
        """Rename an unreadable `run.json`."""
        path = self.directory / "run.json"
        number = 1
        while (target := self.directory / f"run.json.damaged-{number}").exists():
            number += 1
        if path.exists():
            with named_in_faults(path):
                path.rename(target)

    def ended_proven(self) -> bool:
        """Tell whether `result.json` says that the last run is done, in case `run.json` is damaged."""
        result = read_result(self.directory)
        return result is not None and result.exit_code == ExitCode.DONE

    def ending(self) -> str:
        """Return how the last start ended, in words; empty if unknown."""
        result = read_result(self.directory)
        return "" if result is None else f"{result.reason} (exit {result.exit_code})"

    def archive(self) -> Path | None:
        """Move the last run aside, whole; nothing is ever wiped."""
        if not self.directory.exists():
            return None
        folder = self.directory.parent / ".archive"
        make_private_directory(folder)
        number = 1
        while (target := folder / f"{self.directory.name}-{number}").exists():
            number += 1
        with named_in_faults(target):
            self.directory.rename(target)
        return target

    def open(self) -> None:
        """Prepare the directory for writing; event numbers continue."""
        make_private_directory(self.directory)
        make_private_directory(self.logs)
        require_room(self.directory)
        with named_in_faults(self.directory):
            for earlier in (self.directory / "result.json", self.dossier):  # they are about an earlier start
                earlier.unlink(missing_ok=True)
        path = self.directory / "events.ndjson"
        self._seq = max(self._seq, _last_seq(path))
        self._events = open_to_append(path)

    def close(self) -> None:
        if self._events is not None:
            self._events.close()
            self._events = None

    def write_events(self, events: Sequence[Event], at: str) -> bytes:
        """Number events of one moment and journal them, in one write; return the lines."""
        numbered = enumerate(events, self._seq + 1)
        data = ndjson.encode_lines([{"seq": number, "at": at, **to_json(event)} for number, event in numbered])
        self._seq += len(events)
        if self._events is not None:
            append_line(self._events, data)
        return data

    def log_files(self, agent: str, mode: str, iteration: int, at: str) -> LogFiles:
        """Name the raw logs of a session that is about to start."""
        directory = self.logs / agent
        make_private_directory(directory)
        stem = f"{re.sub(r'[:.]', '', at)}-{mode}-{self.directory.name}-{iteration}"
        return LogFiles(directory / f"{stem}.ndjson", directory / f"{stem}.stderr")

    def session_logs(self, after: str = "") -> list[Path]:
        """Return the raw logs of sessions after the one named `after`, oldest first; their folders name the agents."""
        found = sorted(self.logs.glob("*/*.ndjson"), key=lambda log: log.name)
        return [log for log in found if log.name > after]

    def rewrite_progress(self, history: History) -> None:
        """Rewrite the progress from the commits."""
        lines = (ndjson.encode(to_record(iteration)) + "\n" for iteration in history.iterations)
        replace_file(self.directory / "progress.jsonl", "".join(lines))

    def record(self, iteration: Iteration) -> None:
        """Append a committed iteration to the progress."""
        path = self.directory / "progress.jsonl"
        with open_to_append(path) as file:  # without fsync: the commits can replace what is lost here
            append_line(file, ndjson.encode_line(to_record(iteration)))

    def save(self, saved: Saved, *, durable: bool) -> None:
        """Write the run's state atomically: the file is the old one or the new one.

        Durably at the begin and end of a start. In between, a power cut can only leave an old file, and the
        durable commits have the iterations and spend since.
        """
        run = saved.run
        record = RunRecord(
            version=VERSION,
            run=run.id,
            goal=run.goal,
            repo=saved.repo,
            goal_path=saved.goal_path,
            goal_digest=saved.goal_digest,
            branch=run.branch,
            base=run.base,
            finished=run.finished,
            spend=run.spend,
            failures=run.failures,
            failed=run.failed,
            check=run.check,
            notes=run.notes,
            guidance=run.guidance,
            heard=run.heard,
            obstacles=run.obstacles,
            stall=run.stall,
            condensed=CondensedRecord(run.condensed.not_before, run.condensed.spend),
            judge=saved.check,
            agent=saved.agent,
            transcript=saved.transcript,
            model=saved.model,
            dotenv=dict(saved.dotenv),
            counted=saved.counted,
            exit_code=saved.exit_code,
        )
        text = ndjson.encode(to_record(record)) + "\n"
        replace_file(self.directory / "run.json", text, durable=durable)
        if durable and saved.exit_code is None:
            replace_file(self.directory / "begun.json", text)  # in case a power cut empties the other

    def begun(self) -> RunRecord:
        """Return the record from the last start, in case `run.json` is damaged."""
        return read_run_record(self.directory / "begun.json")

    @property
    def dossier(self) -> Path:
        return self.directory / "dossier.md"

    def write_dossier(self, text: str) -> None:
        """Write the dossier of a stalled run."""
        replace_file(self.dossier, text)

    def write_result(
        self, result: RunResult, reason: str, hint: str = "", *, head: str | None, end: str = "", sandbox: str = ""
    ) -> None:
        """Write how a start ended, and in which sandbox; `end`: the row of the failure table of its last session."""
        record = record_of(result, reason, hint, head=head, end=end, sandbox=sandbox)
        replace_file(self.directory / "result.json", ndjson.encode(to_record(record)) + "\n")


def _last_seq(path: Path) -> int:
    """Return the number of the last event on disk, searching from the file's end."""
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        return 0
    length = 65536
    while True:
        with path.open("rb") as file:
            file.seek(max(0, size - length))
            lines = file.read().split(b"\n")
        numbers = [_seq_of(line) for line in lines]
        if any(numbers) or length >= size:
            return max(numbers, default=0)
        length *= 16


def _seq_of(line: bytes) -> int:
    with contextlib.suppress(ndjson.Malformed):
        return ndjson.count(ndjson.mapping(ndjson.decode(line.decode("utf-8", "replace"))).get("seq"))
    return 0
