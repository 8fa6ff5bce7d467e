"""A summarizer's session: it condenses older iterations for later prompts. If it fails, the run continues."""

import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from ralph.core.errors import DiskError, RalphError
from ralph.core.events import SummaryWritten, Tag, Text
from ralph.core.failures import TABLE, Policy
from ralph.core.run import Held, Run
from ralph.core.summary import Rhythm, Summary, written
from ralph.core.text import few
from ralph.core.verdict import Reply, Verdict
from ralph.run.prompts import said_of
from ralph.run.session import MeteredObserver, SessionReport
from ralph.system.clock import VisibleWait
from ralph.system.files import replace_file


class SummarySessions(Protocol):
    @property
    def reply(self) -> Reply: ...
    def summarize(self, run: Run, through: int) -> SessionReport:
        """Run a session that condenses the run's iterations up to this one."""
        ...


class ReadOnlyTree(Protocol):
    def undo(self) -> Held:
        """Undo a session's changes to `.ralph/` and the branch; return them, and the secrets that it committed."""
        ...

    def changes(self) -> Collection[str]:
        """Return the uncommitted files in the tree."""
        ...


class SummaryRecords(Protocol):
    def save(self, run: Run) -> None: ...
    def save_summary(self, run: Run, summary: Summary) -> None: ...


@dataclass(frozen=True, slots=True)
class SummaryWorkspace:
    """The collaborators for summarizing; built in `run/workspace`."""

    rhythm: Rhythm
    sessions: SummarySessions
    tree: ReadOnlyTree
    records: SummaryRecords
    observe: MeteredObserver
    clock: VisibleWait


def condense(run: Run, ws: SummaryWorkspace, *, shrink: bool = False) -> Run | None:
    """Condense the older iterations if that is due; None if not. Only a signal, git or the disk can end this.

    `shrink`: a prompt was too long, so condense all but the last few.
    """
    through = ws.rhythm.due(run.finished, run.condensed, shrink=shrink)
    if through is None:
        return None
    before = ws.tree.changes()
    try:
        report = ws.sessions.summarize(run, through)
    except DiskError:  # the next session could not write a log either
        raise
    except RalphError as error:
        return _failed(run, through, error.message, ws, passes=shrink)
    spent = ws.observe.meter.session
    run = replace(run.spent(ws.observe.meter.total), condensed=run.condensed.spent(spent))
    _tell_deeds(before, ws)
    if text := _summary_in(report, ws.sessions.reply):
        summary = written(through, text)
        ws.records.save_summary(run, summary)  # first: nothing may refer to it before it exists
        run = replace(run, condensed=run.condensed.after(summary))
        ws.records.save(run)
        ws.observe(SummaryWritten(through, spent.cost_usd if spent.costed else None, summary.text))
        return run
    ws.records.save(run)  # with its cost, not as a failure: after a signal the next start makes the summary
    ws.clock.leave_if_interrupted()
    if report.ending.limit is not None:  # the run ends here; the next start makes the summary
        return run
    passes = shrink or TABLE[report.ending.end].policy in (Policy.WAIT, Policy.BACKOFF)
    return _failed(run, through, f"{_why(report)} (raw log: {report.log})", ws, passes=passes)


def _summary_in(report: SessionReport, reply: Reply) -> str:
    """Return the whole answer (the summary of an answer in words is only its end); a claim is not a summary."""
    answer = report.ending.answer
    if answer is None or answer.verdict is not Verdict.CONTINUE:
        return ""
    return report.text if reply == Reply.WORDS else answer.summary


def _why(report: SessionReport) -> str:
    if report.ending.answer is not None:
        return f"its answer is {report.ending.answer.verdict}"
    return f"{report.ending.end}: {report.ending.reason}" if report.ending.reason else str(report.ending.end)


def _failed(run: Run, through: int, reason: str, ws: SummaryWorkspace, *, passes: bool) -> Run:
    again = ws.rhythm.next_try(run.finished, passes=passes)
    said = f"no summary of iterations 1-{through}: {reason}; the run continues and retries after iteration {again}"
    ws.observe(Text(Tag.SYS, said))
    run = replace(run, condensed=run.condensed.put_off(again))
    ws.records.save(run)
    return run


def _tell_deeds(before: Collection[str], ws: SummaryWorkspace) -> None:
    """Undo what a read-only session must not do, and report it."""
    held = ws.tree.undo()
    for undone in held.undone:
        ws.observe(Text(Tag.SYS, f"the summarizer {said_of(undone)}; ralph undid that"))
    for path in held.secrets:
        ws.observe(Text(Tag.SYS, f"the summarizer committed a file that looks like a secret: {path}"))
    if changed := [path for path in ws.tree.changes() if path not in before]:
        shown = few(changed, 5)
        ws.observe(
            Text(
                Tag.SYS,
                f"the summarizer changed files although it is read-only: {shown}; the next commit includes them",
            )
        )


_FIRST_LINE = re.compile(r"# Iterations 1-([1-9][0-9]{0,8}) of run (\S+), goal (\S+)")
_LARGEST = 1 << 16
"""Bytes; ralph writes no longer one, and all of it goes into prompts."""


@dataclass(frozen=True, slots=True)
class Unusable:
    """A summary file that does not match this run."""

    reason: str


def store(path: Path, summary: Summary, *, run: str, goal: str) -> None:
    """Write the summary; its first line names the run and the iterations."""
    replace_file(path, f"# Iterations 1-{summary.through} of run {run}, goal {goal}\n\n{summary.text}\n")


def stored(path: Path, *, run: str) -> Summary | Unusable | None:
    """Read the summary of this run, or say why it is unusable; None if there is none."""
    if not path.is_file():
        return Unusable("it is not a regular file") if path.exists() else None
    try:
        with path.open("rb") as file:  # as bytes: a carriage return within it stays one
            data = file.read(_LARGEST + 1)
        first, _, rest = data.decode("utf-8").partition("\n")
    except OSError as error:
        return Unusable(f"cannot read it: {error.strerror}")
    except UnicodeDecodeError as error:
        return Unusable(f"it is not UTF-8 text (byte {error.start})")
    said = _FIRST_LINE.fullmatch(first)
    text = rest.strip()
    if said is None or not text or len(data) > _LARGEST:
        return Unusable("it is damaged")
    if said[2] != run:
        return Unusable(f"it belongs to run {said[2]}")
    return Summary(int(said[1]), text)


SUMMARIZER = "summarizer"
"""The mode of summarizer sessions, as written in the names of their logs."""
