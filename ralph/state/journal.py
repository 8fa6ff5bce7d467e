"""The run directory: locked, versioned, atomic. Raw logs, events, progress, result; authority over all but the commits.

$RALPH_DIR/runs/<repo key>/.lock, .archive/
$RALPH_DIR/runs/<repo key>/<goal>/{run.json, begun.json, result.json, dossier.md, progress.jsonl, summary.md,
                                   events.ndjson, steering.jsonl, envrc, snapshot/, logs/}
"""

import contextlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

from ralph.core import ndjson
from ralph.core.errors import DiskError, StateError
from ralph.core.events import Event
from ralph.core.guidance import Guidance
from ralph.core.records import to_json
from ralph.core.run import CheckRecord, History, Iteration, Run, RunResult
from ralph.core.stall import Stall, StallMark
from ralph.core.summary import Condensed
from ralph.core.usage import Spend
from ralph.core.verdict import Verdict
from ralph.system.files import (
    append_line,
    make_private_directory,
    named_in_faults,
    open_to_append,
    replace_file,
    require_room,
)

VERSION = 1


def _decoded(data: bytes) -> object:
    with contextlib.suppress(ndjson.Malformed):
        return ndjson.decode(data.decode("utf-8", "replace"))
    return None


@dataclass(frozen=True, slots=True)
class LogFiles:
    """Where one session's raw output goes."""

    stdout: Path
    stderr: Path


def mode_of(log: str) -> str:
    """The mode of the session that the raw log of this name is of: it stands after the instant, which ends in Z."""
    return log.partition("Z-")[2].partition("-")[0]


@dataclass(frozen=True, slots=True)
class Saved:
    """What the run directory knows of the last run of a goal; `exit_code` None: it never said how it ended."""

    run: Run
    goal_path: str
    goal_digest: str
    check: str
    agent: str
    transcript: str
    model: str
    exit_code: int | None
    dotenv: Mapping[str, str]
    """The settings that stood in `.env`, which an agent can write."""
    counted: str
    """The last raw log whose cost is in the run's spend."""
    through: int | None = None
    """The last iteration that the run's notes and check know of: a kill can leave a later one in `progress.jsonl`.

    None: an earlier ralph has not said.
    """
    rebuilt_because: str = ""
    """Why the directory did not tell, if it did not."""

    @property
    def finished(self) -> bool:
        return self.exit_code == 0


@dataclass(frozen=True, slots=True)
class Damaged:
    """A run directory that cannot say what its run is."""

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
            return Damaged(f"{path} is gone") if self.directory.is_dir() else None
        except IsADirectoryError:
            return Damaged(f"{path} is a directory")
        except OSError as error:
            raise DiskError(path, error) from error
        except (UnicodeDecodeError, ndjson.Malformed) as error:
            return Damaged(f"{path} is damaged ({error})")
        version = ndjson.count(document.get("version"))
        if version > VERSION:
            raise StateError(
                f"{path} is of version {version}; this ralph knows version {VERSION}",
                "use the ralph that wrote it, or archive that run with --fresh",
            )
        if version < VERSION or not ndjson.text(document.get("run")):
            return Damaged(f"{path} is damaged (it names no run)")
        exit_code, finished = document.get("exit_code"), document.get("finished")
        return Saved(
            _run_from(document, self._progress()),
            ndjson.text(document.get("goal_path")),
            ndjson.text(document.get("goal_digest")),
            ndjson.text(document.get("judge")),
            ndjson.text(document.get("agent")),
            ndjson.text(document.get("transcript")),
            ndjson.text(document.get("model")),
            exit_code if isinstance(exit_code, int) else None,
            {name: ndjson.text(value) for name, value in ndjson.mapping(document.get("dotenv")).items()},
            ndjson.text(document.get("counted")),
            finished if isinstance(finished, int) else None,
        )

    def set_aside_damaged(self) -> None:
        """Keep an unreadable `run.json` under another name."""
        path = self.directory / "run.json"
        number = 1
        while (target := self.directory / f"run.json.damaged-{number}").exists():
            number += 1
        if path.exists():
            with named_in_faults(path):
                path.rename(target)

    def ended_proven(self) -> bool:
        """Tell whether `result.json` says that the last run is done, for when `run.json` cannot."""
        return self._result().get("exit_code") == 0

    def ending(self) -> str:
        """How the last start ended, in words; empty if it never said."""
        result = self._result()
        return f"{ndjson.text(result.get('reason'))} (exit {result.get('exit_code')})" if result else ""

    def _result(self) -> Mapping[str, object]:
        try:
            return ndjson.mapping(_decoded((self.directory / "result.json").read_bytes()))
        except OSError:
            return {}

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
        """Make the directory ready to be written; numbering of events goes on where it ended."""
        make_private_directory(self.directory)
        make_private_directory(self.logs)
        require_room(self.directory)
        with named_in_faults(self.directory):
            for earlier in (self.directory / "result.json", self.dossier):  # they speak of an earlier start
                earlier.unlink(missing_ok=True)
        path = self.directory / "events.ndjson"
        self._seq = _last_seq(path)
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

    def session_logs(self, agent: str, after: str = "") -> list[Path]:
        """The raw logs of the agent's sessions later than the one named `after`, oldest first."""
        found = sorted((self.logs / agent).glob("*.ndjson"))
        return [log for log in found if log.name > after]

    def rewrite_progress(self, history: History) -> None:
        """Set the progress to what is known to be committed."""
        lines = (ndjson.encode(_progress_entry(iteration)) + "\n" for iteration in history.iterations)
        replace_file(self.directory / "progress.jsonl", "".join(lines))

    def record(self, iteration: Iteration) -> None:
        """Append a finished iteration to the progress; its commit exists already."""
        path = self.directory / "progress.jsonl"
        with open_to_append(path) as file:  # without fsync: what is lost here is told again by the commits
            append_line(file, ndjson.encode_line(_progress_entry(iteration)))

    def save(
        self,
        run: Run,
        *,
        repo: Path,
        goal_path: Path,
        goal_digest: str,
        check: str,
        agent: str,
        transcript: str,
        model: str,
        dotenv: Mapping[str, str],
        counted: str,
        exit_code: int | None = None,
        durable: bool,
    ) -> None:
        """Write where the run stands; atomically, so that the file is the old one or the new one.

        Durably when a start begins and ends. In between a power cut can only make it old, and the commits, which are
        durable, tell the iterations and the spend since.
        """
        document = {
            "version": VERSION,
            "run": run.id,
            "goal": run.goal,
            "repo": str(repo),
            "goal_path": str(goal_path),
            "goal_digest": goal_digest,
            "branch": run.branch,
            "base": run.base,
            "finished": run.finished,
            "spend": asdict(run.spend),
            "failures": run.failures,
            "failed": run.failed,
            "check": None if run.check is None else asdict(run.check),
            "notes": list(run.notes),
            "guidance": [asdict(guidance) for guidance in run.guidance],
            "heard": run.heard,
            "obstacles": run.obstacles,
            "standstill": _standstill_entry(run.standstill),
            "condensed": {"not_before": run.condensed.not_before, "spend": asdict(run.condensed.spend)},
            "judge": check,
            "agent": agent,
            "transcript": transcript,
            "model": model,
            "dotenv": dict(dotenv),
            "counted": counted,
            "exit_code": exit_code,
        }
        text = ndjson.encode(document) + "\n"
        replace_file(self.directory / "run.json", text, durable=durable)
        if durable and exit_code is None:
            replace_file(self.directory / "begun.json", text)  # for when a power cut empties the other

    def at_start(self, name: str) -> str:
        """A word that the last start began with (its judge, agent or transcript), for when `run.json` cannot tell."""
        try:
            document = ndjson.mapping(_decoded((self.directory / "begun.json").read_bytes()))
        except OSError:
            return ""
        return ndjson.text(document.get(name))

    @property
    def dossier(self) -> Path:
        return self.directory / "dossier.md"

    def write_result(self, result: RunResult, head: str | None, end: str = "") -> None:
        """Write how a start ended; `end` is the row of the failure table that its last session ended with."""
        run = result.run
        document = {
            "version": VERSION,
            "goal": run.goal,
            "run": run.id,
            "exit_code": result.exit_code,
            "end": end,
            "reason": result.reason,
            "hint": result.hint,
            "limit": result.limit,
            "not_before": result.not_before,
            "proven": result.proven,
            "iterations": len(run.history.iterations),
            "cost_usd": run.spend.cost_usd if run.spend.costed else None,
            "tokens": run.spend.tokens if run.spend.knows_tokens else None,
            "base": run.base,
            "head": head,
        }
        replace_file(self.directory / "result.json", ndjson.encode(document) + "\n")

    def _progress(self) -> History:
        """Read the finished iterations; a torn last line is tolerated."""
        history = History()
        try:
            content = (self.directory / "progress.jsonl").read_text("utf-8", "replace")
        except FileNotFoundError:
            return history
        for line in content.split("\n"):
            with contextlib.suppress(ndjson.Malformed, ValueError):
                entry = ndjson.mapping(ndjson.decode(line))
                history = history.after(
                    Iteration(
                        ndjson.count(entry.get("iteration")),
                        ndjson.text(entry.get("at")),
                        ndjson.text(entry.get("summary")),
                        ndjson.text(entry.get("commit")),
                        Verdict(ndjson.text(entry.get("verdict"))),
                    )
                )
        return history


def _run_from(document: Mapping[str, object], history: History) -> Run:
    condensed = ndjson.mapping(document.get("condensed"))
    check = ndjson.mapping(document.get("check"))
    exit_code = check.get("exit_code")
    return Run(
        id=ndjson.text(document.get("run")),
        goal=ndjson.text(document.get("goal")),
        branch=ndjson.text(document.get("branch")),
        base=ndjson.text(document.get("base")) or None,
        history=history,
        spend=_spend_from(document),
        failures=ndjson.count(document.get("failures")),
        failed=ndjson.count(document.get("failed")),
        check=CheckRecord(
            ndjson.count(check.get("iteration")),
            exit_code if isinstance(exit_code, int) else None,
            ndjson.text(check.get("output")),
        )
        if check
        else None,
        notes=tuple(ndjson.text(note) for note in ndjson.sequence(document.get("notes"))),
        guidance=tuple(map(_guidance, ndjson.sequence(document.get("guidance")))),
        heard=ndjson.count(document.get("heard")),
        obstacles=ndjson.count(document.get("obstacles")),
        standstill=_standstill(ndjson.mapping(document.get("standstill"))),
        condensed=Condensed(not_before=ndjson.count(condensed.get("not_before")), spend=_spend_from(condensed)),
    )


def _guidance(item: object) -> Guidance:
    entry = ndjson.mapping(item)
    return Guidance(ndjson.count(entry.get("number")), ndjson.text(entry.get("text")), ndjson.count(entry.get("told")))


def _standstill(entry: Mapping[str, object]) -> Stall:
    marks = [ndjson.mapping(mark) for mark in ndjson.sequence(entry.get("marks"))]
    return Stall(
        tuple(StallMark(ndjson.text(mark.get("words")), ndjson.text(mark.get("commit"))) for mark in marks),
        ndjson.count(entry.get("idle")),
        ndjson.text(entry.get("elsewhere")),
    )


def _standstill_entry(standstill: Stall) -> dict[str, object]:
    """Written out: `asdict` on fifty marks took a quarter of ralph's own time in an iteration."""
    marks = [{"words": mark.words, "commit": mark.commit} for mark in standstill.marks]
    return {"marks": marks, "idle": standstill.idle, "elsewhere": standstill.elsewhere}


def _spend_from(holder: Mapping[str, object]) -> Spend:
    spend = ndjson.mapping(holder.get("spend"))
    return Spend(
        ndjson.amount(spend.get("cost_usd")) or 0.0,
        ndjson.count(spend.get("tokens")),
        spend.get("costed") is True,
        spend.get("counted") is True,
        spend.get("estimated") is True,
    )


def _progress_entry(iteration: Iteration) -> dict[str, object]:
    return {
        "iteration": iteration.number,
        "at": iteration.at,
        "summary": iteration.summary,
        "commit": iteration.commit,
        "verdict": iteration.verdict,
    }


def _last_seq(path: Path) -> int:
    """The number of the last event on disk, looked for from the file's end."""
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        return 0
    length = 65536
    while True:
        with path.open("rb") as file:
            file.seek(max(0, size - length))
            lines = file.read().split(b"\n")
        numbers = [ndjson.count(ndjson.mapping(_decoded(line)).get("seq")) for line in lines]
        if any(numbers) or length >= size:
            return max(numbers, default=0)
        length *= 16
