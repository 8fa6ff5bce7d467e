"""A summarizer's session: what stands for the older iterations in later prompts. It may fail; the run goes on."""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from ralph.agents.base import Request
from ralph.core.errors import DiskError, RalphError
from ralph.core.events import Event, SummaryStarted, SummaryWritten, Tag, Text
from ralph.core.failures import TABLE, Policy
from ralph.core.run import Run
from ralph.core.summary import Rhythm, Summary, written
from ralph.core.usage import Meter
from ralph.core.verdict import Reply, Verdict
from ralph.run.session import Logs, SessionKit, SessionReport, run_session
from ralph.system.files import replace_file


class Held(Protocol):
    @property
    def undone(self) -> tuple[str, ...]: ...
    @property
    def secrets(self) -> tuple[str, ...]: ...


@dataclass(frozen=True, slots=True)
class CondensingKit:
    """The collaborators of a summarizer's session, built by the command line."""

    session: SessionKit
    rhythm: Rhythm
    request: Callable[[Run, int, str], Request]
    """The request for a session with this id that condenses the run's iterations up to this one."""
    open_logs: Callable[[Run], Logs]
    undo: Callable[[], Held]
    """Undo what a session must not do to `.ralph/` and the branch; say what it had done, and what secrets committed."""
    changes: Callable[[], Collection[str]]
    """What in the tree is not committed."""
    store: Callable[[Run, Summary], None]
    save: Callable[[Run], None]
    observe: Callable[[Event], None]
    meter: Callable[[], Meter]
    new_id: Callable[[], str]
    leave_if_interrupted: Callable[[], None]


def condense(run: Run, kit: CondensingKit, *, shrink: bool = False) -> Run | None:
    """Have the older iterations condensed if that is due; None: it is not. Only a signal, git or the disk can end this.

    `shrink`: a prompt was too long, so that all but the last few are condensed.
    """
    through = kit.rhythm.due(run.finished, run.condensed, shrink=shrink)
    if through is None:
        return None
    before = kit.changes()
    try:
        request = kit.request(run, through, kit.new_id())
        logs = kit.open_logs(run)
        kit.observe(SummaryStarted(through, request.session_id, str(logs.stdout)))
        report = run_session(request, logs, kit.session)
    except DiskError:  # the next session would have no log either
        raise
    except RalphError as error:
        return _failed(run, through, error.message, kit, passes=shrink)
    spent = kit.meter().session
    run = replace(run.spent(kit.meter().total), condensed=run.condensed.spent(spent))
    _tell_deeds(before, kit)
    if text := _summary_in(report, kit.session.runner.reply):
        summary = written(through, text)
        kit.store(run, summary)  # first: without it nothing may say that it was made
        run = replace(run, condensed=run.condensed.after(summary))
        kit.save(run)
        kit.observe(SummaryWritten(through, spent.cost_usd if spent.costed else None, summary.text))
        return run
    kit.save(run)  # with what it cost, and no word of a failure yet: after a signal the next start makes the summary
    kit.leave_if_interrupted()
    if report.ending.limit is not None:  # the run ends here, and the next start makes the summary
        return run
    passes = shrink or TABLE[report.ending.end].policy in (Policy.WAIT, Policy.BACKOFF)
    return _failed(run, through, f"{_why(report)} (raw log: {report.log})", kit, passes=passes)


def _summary_in(report: SessionReport, reply: Reply) -> str:
    """The answer, whole: of one in words the verdict's summary is only the end. A claim is no summary."""
    answer = report.ending.answer
    if answer is None or answer.verdict is not Verdict.CONTINUE:
        return ""
    return report.text if reply == Reply.WORDS else answer.summary


def _why(report: SessionReport) -> str:
    if report.ending.answer is not None:
        return f"its answer is {report.ending.answer.verdict}"
    return f"{report.ending.end}: {report.ending.reason}" if report.ending.reason else str(report.ending.end)


def _failed(run: Run, through: int, reason: str, kit: CondensingKit, *, passes: bool) -> Run:
    again = kit.rhythm.next_try(run.finished, passes=passes)
    said = f"no summary of iterations 1-{through}: {reason}; the run goes on; the next try is after iteration {again}"
    kit.observe(Text(Tag.SYS, said))
    run = replace(run, condensed=run.condensed.put_off(again))
    kit.save(run)
    return run


def _tell_deeds(before: Collection[str], kit: CondensingKit) -> None:
    """Undo what a session must not do, and say what it did: it was to read only."""
    held = kit.undo()
    for deed in held.undone:
        kit.observe(Text(Tag.SYS, f"the summarizer {deed}; that was undone"))
    for path in held.secrets:
        kit.observe(Text(Tag.SYS, f"the summarizer itself committed what looks like a secret: {path}"))
    if changed := [path for path in kit.changes() if path not in before]:
        shown = ", ".join(changed[:5]) + (f" and {len(changed) - 5} more" if len(changed) > 5 else "")
        kit.observe(Text(Tag.SYS, f"the summarizer was to change nothing, but did: {shown}; the next commit holds it"))


_FIRST_LINE = re.compile(r"# Iterations 1-([1-9][0-9]{0,8}) of run (\S+), goal (\S+)")
_LARGEST = 1 << 16
"""Bytes; none that ralph writes is longer, and all of it goes into prompts."""


@dataclass(frozen=True, slots=True)
class Unusable:
    """A file that does not say what this run has done."""

    reason: str


def store(path: Path, summary: Summary, *, run: str, goal: str) -> None:
    """Write the summary; its first line says what it covers, and of which run."""
    replace_file(path, f"# Iterations 1-{summary.through} of run {run}, goal {goal}\n\n{summary.text}\n")


def stored(path: Path, *, run: str) -> Summary | Unusable | None:
    """Read the summary of this run back, or say why it cannot be; None: there is none."""
    if not path.is_file():
        return Unusable("it is no plain file") if path.exists() else None
    try:
        with path.open("rb") as file:  # as bytes: a carriage return within it stays one
            data = file.read(_LARGEST + 1)
        first, _, rest = data.decode("utf-8").partition("\n")
    except OSError as error:
        return Unusable(f"it cannot be read: {error.strerror}")
    except UnicodeDecodeError as error:
        return Unusable(f"it is not UTF-8 text (byte {error.start})")
    said = _FIRST_LINE.fullmatch(first)
    text = rest.strip()
    if said is None or not text or len(data) > _LARGEST:
        return Unusable("it is damaged")
    if said[2] != run:
        return Unusable(f"it is of run {said[2]}")
    return Summary(int(said[1]), text)


SUMMARIZER = "summarizer"
"""The mode of sessions that condense, as it stands in the names of their logs."""
