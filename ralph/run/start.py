"""One start of a run, step by step: look, prepare, open, loop, end."""

import contextlib
from dataclasses import dataclass

from ralph.core.errors import SIGNALLED, BlockedError, DiskError, ExitCode, Interrupted, RalphError, RepoError
from ralph.core.events import Guided, RunEnded, Tag, Text
from ralph.core.guidance import Receipt
from ralph.core.run import Ending, RunResult
from ralph.run.agent import AgentHost, refusing_a_bad_disk, version_of
from ralph.run.cut import clean_up_after_a_cut, was_cut
from ralph.run.dossier import write_dossier
from ralph.run.loop import run_goal
from ralph.run.observers import Recorder, RunNotices, note_on_stderr
from ralph.run.open import OpenRun, open_run, surround, with_baseline, workspace
from ralph.run.prepare import Prepared, RunRequest, settle
from ralph.run.proven import Proven, find_run, prove_again, say_unchanged
from ralph.run.report import (
    farewell,
    greeting,
    hint_of,
    next_steps,
    reason_of,
    run_started,
)
from ralph.run.screen import RunScreen
from ralph.state.inbox import Inbox
from ralph.state.journal import Journal, Saved
from ralph.state.lock import RepoLock


@dataclass(frozen=True, slots=True)
class _Start:
    """A start in progress, which must be ended."""

    prepared: Prepared
    opened: OpenRun
    recorder: Recorder
    screen: RunScreen
    host: AgentHost
    notices: RunNotices
    is_continued: bool


def start_run(asked: RunRequest) -> int:
    """Start or continue a run, hand it to the loop, and record how it ended; return the exit code."""
    flags, root, directory = asked.flags, asked.place.root, asked.directory
    lock, journal = RepoLock(directory, asked.goal.name, root), Journal(directory / asked.goal.name)
    host, notices = AgentHost(root), RunNotices(asked.goal, root)
    screen = RunScreen(host, as_json=flags.json, quiet=flags.quiet, verbose=flags.verbose)
    with contextlib.ExitStack() as held:
        with refusing_a_bad_disk():
            with screen.tasks.shown(f"starting {asked.goal.name}") as lock.report:
                lock.probe()
                _refuse_early(asked, journal)
                held.enter_context(lock)
            inbox_before = Inbox(journal.directory).size
            held.enter_context(host.guardian)
            # before the guardian ends, and with it every process that ralph started
            held.callback(_end_notices, notices, screen, as_json=flags.json)
            held.callback(screen.call_user)
            held.enter_context(host.signals.watched())
            asked.place.clone(screen.tasks)
            repo, cleaned = clean_up_after_a_cut(asked, journal)
            prepared = settle(asked, repo)
            host.open_sandbox(prepared.settings, asked.env, asked.ralph_dir)
            found = find_run(prepared, journal)
            if isinstance(found, Proven) and found.stands:
                return say_unchanged(found, prepared, journal, screen)
            saved = found if isinstance(found, Saved) else None
            surrounded = surround(prepared, saved, journal, host, greets=screen.greets)
            prepared, red = surrounded.prepared, None
            if isinstance(found, Proven):
                with screen.live():
                    red = prove_again(found, prepared, journal, host, screen)
                if red is None:
                    return ExitCode.DONE
            with screen.tasks.shown(f"preparing {asked.goal.name}") as report:
                opened = open_run(surrounded, saved, journal, host, inbox_before, screen.print_check, red, report)
            held.callback(journal.close)
            held.callback(opened.tree.leave)
            if prepared.check is not None and prepared.settings.proof.baseline and saved is None:
                with screen.tasks.shown(f"running {prepared.check.label} on the base"):
                    opened = with_baseline(opened, host)
            held.enter_context(screen.live(prepared.settings.limits, opened.run.spend, opened.inbox))
            notices.begin(prepared.settings.notify, asked.env, opened.run.id)
            screens = [opened.record.show_session, notices.screen]
            recorder = screen.recorder(journal, spent=opened.run.spend, screens=screens)
            start = _Start(prepared, opened, recorder, screen, host, notices, saved is not None)
            _say_first(start, [*cleaned, *surrounded.notes, *opened.said], greets=red is None)
        return _loop(start)


def _refuse_early(asked: RunRequest, journal: Journal) -> None:
    """Refuse what can be refused before anything is written."""
    if was_cut(asked, journal):
        return  # an agent may have changed the tree: it is restored under the lock, then read
    if (repo := asked.place.present()) is not None:
        find_run(settle(asked, repo), journal)
    elif asked.place.root.is_dir():  # another branch: its own check and templates are read later
        asked.settings_at(asked.place.root)


def _say_first(start: _Start, said: list[str], *, greets: bool) -> None:
    """Report what starts and what was found; `greets`: the header was not shown yet."""
    prepared, run = start.prepared, start.opened.run
    version = version_of(prepared.agent, prepared.env) if start.screen.is_live else ""
    if greets:
        start.screen.say(greeting(prepared, run, start.opened.record.journal.directory, version), first=True)
    start.recorder(run_started(prepared, run))
    for guidance in run.guidance:
        start.recorder(Guided(guidance.number, guidance.text, Receipt.MISSING if guidance.told else Receipt.RECEIVED))
    for note in said:
        start.recorder(Text(Tag.SYS, note))


def _loop(start: _Start) -> int:
    opened, record = start.opened, start.opened.record
    try:
        ws = workspace(start.prepared, opened, start.host, start.screen, start.recorder)
        result = run_goal(opened.run, ws)
    except Interrupted as stopped:
        ending = Ending.QUIT_KEY if start.screen.quit_by_key else Ending.SIGNAL
        result = RunResult(record.last_saved, ending, signal=stopped.signal_number)
    except OSError as error:
        fault = DiskError(error.filename or record.journal.directory, error)
        _end_in_fault(start, fault)
        raise fault from error
    except RalphError as error:
        late = error.exit_code == ExitCode.USAGE  # the run has started, so this is a failure rather than bad usage
        fault = RalphError(error.message, error.hint) if late else error
        _end_in_fault(start, fault)
        raise fault from error
    except Exception as error:  # a bug: record the ending, then let the program report it
        _end_in_fault(start, error)
        raise
    record.save(result.run, result.exit_code, durable=True)
    if result.ending is Ending.STALLED:
        _write_dossier(start, result)
    _write_result(start, result)  # last: a program that sees it finds everything else
    _say_last(start, result)
    return result.exit_code


def _write_dossier(start: _Start, result: RunResult) -> None:
    """Write the dossier; a failure to do so changes nothing else."""
    try:
        write_dossier(result, start.prepared, start.opened.record.journal)
    except (RalphError, OSError) as error:
        start.recorder(Text(Tag.SYS, f"cannot write the dossier: {error}"))


def _end_in_fault(start: _Start, error: Exception) -> None:
    """Record as much as possible; the next start counts an open session's spend from its log."""
    is_known = isinstance(error, RalphError)
    ending = Ending.UNABLE if isinstance(error, BlockedError) else Ending.FAULT if is_known else Ending.BUG
    result = RunResult(start.opened.record.last_saved, ending, str(error))
    with contextlib.suppress(DiskError):
        _write_result(start, result)
    _say_last(start, result)


def _write_result(start: _Start, result: RunResult) -> None:
    head = None
    with contextlib.suppress(RepoError):  # the repository itself may be broken
        head = start.prepared.repo.head()
    reason, end = reason_of(result), start.recorder.status.last_end
    sandbox = start.prepared.around.sandbox.mode
    start.opened.record.journal.write_result(result, reason, hint_of(result), head=head, end=end, sandbox=sandbox)
    start.recorder(RunEnded(result.exit_code, reason, result.proven))


def _say_last(start: _Start, result: RunResult) -> None:
    reason = reason_of(result)
    start.notices.ended(result, reason, next_steps(result, start.prepared))
    if start.prepared.settings.bell and result.exit_code not in SIGNALLED:  # the user who stopped it is present
        start.screen.call_at_end(f"{result.run.goal}: {reason}")
    seconds, continued = start.host.seconds, start.is_continued
    start.screen.say(farewell(result, start.prepared, seconds, start.recorder.status.times, continued=continued))


def _end_notices(notices: RunNotices, screen: RunScreen, *, as_json: bool) -> None:
    if fault := notices.close():
        if as_json:
            note_on_stderr(fault)
        else:
            screen.say([("note", fault)])
