"""`ralph understand`: a scout reads a throwaway clone of the repository, and only its map comes back."""

import contextlib
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ralph.config.environment import passed_over
from ralph.core.errors import SIGNALLED, DiskError, ExitCode, Interrupted, RalphError, UsageError
from ralph.core.events import RunEnded, Tag, Text
from ralph.core.progress import Reporter
from ralph.core.text import few, timestamp
from ralph.core.verdict import Reply
from ralph.run.agent import AgentHost, refusing_a_bad_disk
from ralph.run.observers import Recorder, note_on_stderr, session_screen
from ralph.run.prepare import SurveyRequest, look_to_map, require_place_for_map, surround
from ralph.run.prompts import MAP
from ralph.run.report import signal_name, survey_farewell, survey_greeting, survey_started
from ralph.run.scout import Survey, scout
from ralph.run.screen import RunScreen
from ralph.run.session import SessionReport, Sessions, run_session
from ralph.run.throwaway import PASSES, LeftOut, ThrowawayClone, clean_up_after_a_kill
from ralph.state.journal import Journal
from ralph.state.lock import RepoLock
from ralph.system.files import replace_file

NO_GOAL = "ralph understand"
"""Written into the tree's lock instead of a goal's name, which never has a space."""


@dataclass(frozen=True, slots=True)
class SurveyFlags:
    """The command-line flags that are not settings."""

    json: bool
    quiet: bool
    verbose: bool


def understand_repo(flags: SurveyFlags, written: Mapping[str, object]) -> int:
    """Let a scout map the current repository; return the exit code."""
    asked = look_to_map(written)
    lock, journal = RepoLock(asked.directory, NO_GOAL, asked.repo.root), Journal(asked.directory / PASSES)
    clone = ThrowawayClone(asked.repo, journal.directory)
    kept_map = journal.directory / f"codebase-map-{timestamp(time.time()).replace(':', '')}.md"
    host = AgentHost(clone.path)
    screen = RunScreen(host, as_json=flags.json, quiet=flags.quiet, verbose=flags.verbose)
    with contextlib.ExitStack() as held:
        with refusing_a_bad_disk():
            with screen.tasks.shown("starting") as lock.report:
                lock.probe()
                held.enter_context(lock)
            clean_up_after_a_kill(asked.repo.root, asked.directory)
            held.enter_context(host.guardian)
            held.enter_context(host.signals.watched())
            held.callback(_remove, clone)  # while signals are only noted: a second Ctrl-C does not stop this
            held.callback(screen.call_user)
            held.callback(screen.finish_lines)
            journal.open()
            held.callback(journal.close)
            asked = surround(asked, host)
            held.enter_context(screen.live())
            recorder = screen.recorder(journal, screens=[session_screen(asked.repo, "scout")])
            sessions = _CloneSessions(asked, clone, host, journal, recorder, screen)
            with screen.tasks.shown(f"copying {asked.repo.root.name}") as report:
                left_out = sessions.make_clone(report)
        screen.say(survey_greeting(asked), first=True)
        recorder(survey_started(asked))
        unsaid = [asked.around.note] if asked.around.note and not screen.greets else []
        for note in (*passed_over(asked.repo.root, asked.env), *unsaid, *_unseen(left_out)):
            recorder(Text(Tag.SYS, note))
        survey, kept = _survey(asked, sessions, kept_map, journal, recorder, screen)
        recorder(RunEnded(survey.exit_code, survey.reason, proven=False))
        if asked.agent.settings.bell and survey.exit_code not in SIGNALLED:
            screen.call_at_end(f"map of {asked.repo.root.name}: {survey.reason}")
        screen.say(survey_farewell(survey, recorder.meter.total, host.seconds, journal.logs, kept))
        return survey.exit_code


def _remove(clone: ThrowawayClone) -> None:
    try:
        clone.remove()
    except DiskError as error:  # the map is written, so this is not a failure
        note_on_stderr(f"cannot remove the scout's copy of the repository; the next start removes it: {error.message}")


def _survey(
    asked: SurveyRequest,
    sessions: "_CloneSessions",
    kept_map: Path,
    journal: Journal,
    recorder: Recorder,
    screen: RunScreen,
) -> tuple[Survey, Path | None]:
    """Get the map and write it to its place; return also where the previous map is kept, if there was one."""
    try:
        survey = scout(sessions, recorder, screen.visible_wait(recorder))
        # A path in its own clone stands for the same path in the user's repository.
        survey = replace(survey, map=survey.map.replace(str(sessions.path), str(asked.repo.root)))
        return survey, _write(survey.map, asked.repo.root, kept_map) if survey.map else None
    except Interrupted as stopped:
        by = "q" if screen.quit_by_key else signal_name(stopped.signal_number)
        return Survey("", stopped.exit_code, f"stopped by {by}"), None
    except (RalphError, OSError) as error:
        where = error.filename if isinstance(error, OSError) else ""
        fault = error if isinstance(error, RalphError) else DiskError(where or journal.directory, error)
        if isinstance(fault, UsageError):  # the pass has started, so this is a failure rather than bad usage
            fault = RalphError(fault.message, fault.hint)
        with contextlib.suppress(DiskError):
            recorder(RunEnded(ExitCode.FAILED, str(fault), proven=False))
        raise fault from error


class _CloneSessions:
    """The scout's sessions, each in an unchanged clone."""

    def __init__(
        self,
        asked: SurveyRequest,
        clone: ThrowawayClone,
        host: AgentHost,
        journal: Journal,
        recorder: Recorder,
        screen: RunScreen,
    ) -> None:
        self._asked, self._clone, self._host = asked, clone, host
        self._journal, self._recorder, self.woken = journal, recorder, screen.woken
        self._sessions = Sessions(asked.agent, host.serving(asked.agent), recorder)
        self._map_before = (b"", 0)

    @property
    def path(self) -> Path:
        return self._clone.path

    @property
    def reply(self) -> Reply:
        return self._asked.agent.runner.reply

    @property
    def written_map(self) -> str:
        """Return the map that the session wrote to its place in the clone; empty if it wrote none."""
        now = _written(self._clone.path / MAP)
        return now[0].decode("utf-8", "replace").strip() if now != self._map_before else ""

    def survey(self) -> SessionReport:
        agent = self._asked.agent
        request = agent.request(
            self._asked.prompt,
            str(uuid.uuid4()),
            agent.settings.scout,
            root=self._asked.repo.root,
            env=self._asked.around.env,
            folder=self._journal.directory,
            read_only=True,
        )
        self._recorder.status.next_session()
        logs = self._journal.log_files(agent.settings.agent, "scout", 1, timestamp(time.time()))
        return run_session(request, logs, self._sessions)

    def renew(self) -> None:
        self.make_clone(lambda _: self._host.leave_if_interrupted())

    def make_clone(self, report: Reporter) -> Mapping[str, LeftOut]:
        """Give the next session the user's repository as it is now; return what it will not see."""
        left_out = self._clone.make(report)
        self._map_before = _written(self._clone.path / MAP)
        return left_out


def _write(drawn: str, root: Path, kept_map: Path) -> Path | None:
    """Write the map to its place; move a different previous one to the journal, and return its path."""
    require_place_for_map(root)  # some time has passed since the first look
    path, kept = root / MAP, None
    before = path.read_bytes() if path.exists() else b""
    if before and before.decode("utf-8", "replace").strip() != drawn:
        kept = kept_map
        replace_file(kept, before)
    path.parent.mkdir(exist_ok=True)
    replace_file(path, drawn.rstrip() + "\n", mode=0o644)
    for snapshot in kept_map.parent.parent.glob("*/snapshot"):
        # An interrupted run restores the files from its start; its agent did not make this change.
        replace_file(snapshot / path.name, path.read_bytes(), mode=0o644)
    return kept


def _unseen(left_out: Mapping[str, LeftOut]) -> list[str]:
    """List what the scout does not see, one line per reason."""
    lines: list[str] = []
    for why in LeftOut:
        paths = [path for path, reason in left_out.items() if reason is why]
        shown = few(paths, 5)
        lines += [f"hidden from the scout ({why}): {shown}"] if paths else []
    return lines


def _written(path: Path) -> tuple[bytes, int]:
    """Return a file's bytes and change time, because a scout may write the same bytes again; a link does not count."""
    with contextlib.suppress(OSError):
        if path.is_file() and not path.is_symlink():
            return path.read_bytes(), path.stat().st_mtime_ns
    return b"", 0
