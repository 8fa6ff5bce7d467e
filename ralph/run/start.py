"""One start of a run, step by step: look, prepare, open, loop, end."""

import contextlib
from dataclasses import dataclass

from ralph.core.errors import DiskError, Interrupted, RalphError, RepoError, UsageError
from ralph.core.events import Guided, RunEnded, Tag, Text
from ralph.core.guidance import Receipt
from ralph.core.run import RunResult
from ralph.run.agent import AgentHost, refusing_a_bad_disk, version_of
from ralph.run.loop import STALLED, run_goal
from ralph.run.observers import Recorder, RunNotices, note_on_stderr
from ralph.run.open import OpenRun, open_run, surround, workspace
from ralph.run.prepare import Prepared, RunRequest, settle
from ralph.run.report import farewell, greeting, next_steps, run_started, write_dossier
from ralph.run.resume import clean_up_after_a_cut, find_run, was_cut
from ralph.run.screen import RunScreen
from ralph.run.throwaway import clean_up_after_a_kill
from ralph.state.inbox import Inbox
from ralph.state.journal import Journal
from ralph.state.lock import RepoLock


@dataclass(frozen=True, slots=True)
class _Start:
    """What has begun, and must be ended."""

    prepared: Prepared
    opened: OpenRun
    recorder: Recorder
    screen: RunScreen
    host: AgentHost
    notices: RunNotices
    is_continued: bool


def start_run(asked: RunRequest) -> int:
    """Begin or continue a run, hand it to the loop, and write down how it ended; return the exit code."""
    flags, root, directory = asked.flags, asked.place.root, asked.directory
    lock, journal = RepoLock(directory, asked.goal.name, root), Journal(directory / asked.goal.name)
    host, notices = AgentHost(root), RunNotices(asked.goal, root)
    screen = RunScreen(host, as_json=flags.json, quiet=flags.quiet, verbose=flags.verbose)
    with contextlib.ExitStack() as held:
        with refusing_a_bad_disk():
            lock.probe()
            _refuse_early(asked, journal)
            held.enter_context(lock)
            mail_before = Inbox(journal.directory).size
            clean_up_after_a_kill(root, directory)
            held.enter_context(host.guardian)
            # before the guardian's end, which is that of all that ralph started
            held.callback(_end_notices, notices, screen, as_json=flags.json)
            held.enter_context(host.signals.watched())
            repo, cleaned = clean_up_after_a_cut(asked, journal)
            prepared = settle(asked, repo)
            saved = find_run(prepared, journal)
            surrounded = surround(prepared, saved, journal, host, greets=screen.greets)
            prepared = surrounded.prepared
            opened = open_run(surrounded, saved, journal, host, mail_before)
            held.callback(journal.close)
            held.enter_context(screen.live(prepared.settings.limits, opened.run.spend, opened.inbox))
            notices.begin(prepared.settings.notify, asked.env, opened.run.id)
            screens = [opened.record.show_session, notices.screen]
            recorder = screen.recorder(journal, spent=opened.run.spend, screens=screens)
            start = _Start(prepared, opened, recorder, screen, host, notices, saved is not None)
            _say_first(start, [*cleaned, *surrounded.notes, *opened.said])
        return _loop(start)


def _refuse_early(asked: RunRequest, journal: Journal) -> None:
    """Refuse what can be refused before anything is written."""
    if was_cut(asked, journal):
        return  # what stands in the tree may be the agent's: it is put right under the lock, then read
    if (repo := asked.place.standing()) is not None:
        find_run(settle(asked, repo), journal)
    elif asked.place.root.is_dir():  # the branch is another one: its own check and templates come later
        asked.settings_at(asked.place.root)


def _say_first(start: _Start, said: list[str]) -> None:
    """Say what begins, and what was found."""
    prepared, run = start.prepared, start.opened.run
    version = version_of(prepared.agent, prepared.env) if start.screen.is_live else ""
    start.screen.say(greeting(prepared, run, start.opened.record.journal.directory, version), first=True)
    start.recorder(run_started(prepared, run))
    for guidance in run.guidance:
        start.recorder(Guided(guidance.number, guidance.text, Receipt.MISSING if guidance.told else "received"))
    for note in said:
        start.recorder(Text(Tag.SYS, note))


def _loop(start: _Start) -> int:
    opened, record = start.opened, start.opened.record
    try:
        ws = workspace(start.prepared, opened, start.host, start.screen, start.recorder)
        result = run_goal(opened.run, ws)
    except Interrupted as stopped:
        words = f"stopped by {'q' if start.screen.quit_by_key else stopped.name}"
        result = RunResult(record.last_saved, stopped.exit_code, words, proven=False)
    except OSError as error:
        fault = DiskError(error.filename or record.journal.directory, error)
        _end_in_fault(start, fault)
        raise fault from error
    except RalphError as error:
        late = error.exit_code == UsageError.exit_code  # too late for bad usage: this is a failure
        fault = RalphError(error.message, error.hint) if late else error
        _end_in_fault(start, fault)
        raise fault from error
    except Exception as error:  # a bug: record how the run ended, then let the program report it
        _end_in_fault(start, error)
        raise
    record.save(result.run, result.exit_code, durable=True)
    if result.exit_code == STALLED:
        write_dossier(result, start.prepared, record.journal)
    _write_result(start, result)
    _say_last(start, result)
    return result.exit_code


def _end_in_fault(start: _Start, error: Exception) -> None:
    """Write down as much as still can be; what an open session spent is counted from its log at the next start."""
    code = error.exit_code if isinstance(error, RalphError) else 3
    result = RunResult(start.opened.record.last_saved, code, str(error), proven=False)
    with contextlib.suppress(DiskError):
        _write_result(start, result)
    _say_last(start, result)


def _write_result(start: _Start, result: RunResult) -> None:
    head = None
    with contextlib.suppress(RepoError):  # it may be the repository that is broken
        head = start.prepared.repo.head()
    start.opened.record.journal.write_result(result, head, start.recorder.status.last_end)
    start.recorder(RunEnded(result.exit_code, result.reason, result.proven))


def _say_last(start: _Start, result: RunResult) -> None:
    start.notices.ended(result, next_steps(result, start.prepared))
    seconds, continued = start.host.seconds, start.is_continued
    start.screen.say(farewell(result, start.prepared, seconds, start.recorder.status.times, continued=continued))


def _end_notices(notices: RunNotices, screen: RunScreen, *, as_json: bool) -> None:
    if fault := notices.close():
        if as_json:
            note_on_stderr(fault)
        else:
            screen.say([("note", fault)])
