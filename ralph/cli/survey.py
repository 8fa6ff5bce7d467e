"""One `ralph understand`: a scout's pass over a work tree that is then as it was, but for the map."""

import contextlib
import random
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ralph import __version__, environ, gitrepo, protected, settings
from ralph.budget import Spend
from ralph.cli.agents import choose_agent, require_file
from ralph.cli.stage import Stage, refusing_a_bad_disk
from ralph.errors import DiskError, Interrupted, RalphError, UsageError
from ralph.events import RunEnded, RunStarted
from ralph.files import replace_file
from ralph.journal import Journal, LogFiles, RepoLock, repo_key
from ralph.prompts import MAP, Prompts
from ralph.quantities import format_duration, format_money, timestamp
from ralph.recorder import Recorder
from ralph.runners import Request
from ralph.scouting import ScoutKit, Survey, scout
from ralph.treesnapshot import TreeSnapshot
from ralph.ui.console import Detail
from ralph.windows import EXCLUDES

_NAME = ".understand"  # no goal is called that: names have no dot


@dataclass(frozen=True, slots=True)
class SurveyFlags:
    """What the user asked for on the command line, apart from settings."""

    json: bool
    detail: Detail


class Surveying:
    """A pass: its collaborators, and what each step of it means on disk."""

    def __init__(self, flags: SurveyFlags, written: Mapping[str, object]) -> None:
        self.env = environ.without_redirections()
        try:
            self.repo = gitrepo.open_repo(Path.cwd())
        except UsageError as error:
            raise UsageError(error.message, "go to the repository that is to be mapped") from error
        self.root = self.repo.root
        protected.require_plain_directory(self.root)
        ralph_dir = settings.ralph_dir(self.env)
        if ralph_dir.resolve().is_relative_to(self.root):
            raise UsageError(f"RALPH_DIR={ralph_dir} lies in the repository itself", "put it elsewhere")
        self.agent = choose_agent(settings.load(env=self.env, root=self.root, flags=written), self.root, self.env)
        require_file(self.agent.settings.scout, "scout", self.root)
        self.prompt = Prompts(self.root / ".ralph" / "prompts").scout(self.root, reply=self.agent.runner.reply)
        directory = ralph_dir / "runs" / repo_key(self.root)
        self.lock = RepoLock(directory, "ralph understand")
        self.journal = Journal(directory / _NAME)
        self.stage = Stage(self.root, flags.detail, as_json=flags.json)

    def carry_out(self) -> int:
        self.lock.probe()
        with contextlib.ExitStack() as held:
            with refusing_a_bad_disk():
                held.enter_context(self.lock)
                held.enter_context(self.stage.guardian)
                held.enter_context(self.stage.signals.watched())
                self.journal.open()
                held.callback(self.journal.close)
                self.repo.exclude(EXCLUDES)
                cut_off = sorted(self.journal.directory.glob("before-*"))
                store = self.journal.directory / f"before-{timestamp(time.time()).replace(':', '')}"
                self.snapshot = TreeSnapshot.take(self.repo, store)
                held.callback(self.snapshot.discard)
                self.map_before = self._drawn()
            recorder = self.stage.recorder(self.journal, spent=Spend())
            self.stage.say(self._greeting(cut_off), first=True)
            recorder(self._started())
            return self._survey(recorder)

    def _survey(self, recorder: Recorder) -> int:
        try:
            survey = scout(self._kit(recorder))
            if survey.map:
                self._write(survey.map)
        except Interrupted as stopped:
            survey = Survey("", stopped.exit_code, f"stopped by {stopped.name}")
        except (RalphError, OSError) as error:
            self._undo()
            fault = (
                error if isinstance(error, RalphError) else DiskError(error.filename or self.journal.directory, error)
            )
            recorder(RunEnded(1, str(fault), proven=False))
            raise fault from error
        recorder(RunEnded(survey.exit_code, survey.reason, proven=False))
        self.stage.say(self._farewell(survey, recorder.meter.total))
        return survey.exit_code

    def _kit(self, recorder: Recorder) -> ScoutKit:
        def open_logs() -> LogFiles:
            recorder.meter = recorder.meter.next_session()
            return self.journal.log_files(self.agent.settings.agent, "scout", 1, timestamp(time.time()))

        return ScoutKit(
            session=self.stage.session_kit(self.agent, recorder),
            request=self._request,
            open_logs=open_logs,
            undo=self._undo,
            drawn=lambda: "" if (drawn := self._drawn()) == self.map_before else drawn,
            observe=recorder,
            now=time.time,
            sleep=time.sleep,
            random=random.random,
            new_id=lambda: str(uuid.uuid4()),
            interrupted=lambda: self.stage.signals.first,
        )

    def _request(self, session_id: str) -> Request:
        return self.agent.request(
            self.prompt,
            session_id,
            self.agent.settings.scout,
            root=self.root,
            env=self.env,
            folder=self.journal.directory,
            read_only=True,
        )

    def _undo(self) -> Sequence[str]:
        return self.snapshot.restore(self.journal.undone, keep=[MAP])

    def _drawn(self) -> str:
        """The map that stands in its place; a link or the like is none."""
        path = self.root / MAP
        with contextlib.suppress(OSError):
            if path.is_file() and not path.is_symlink():
                return path.read_text("utf-8", "replace").strip()
        return ""

    def _write(self, drawn: str) -> None:
        """Put the map in its place; the one before it is kept in the journal."""
        if self.map_before and self.map_before != drawn:
            replace_file(self.journal.directory / "codebase-map.md.before", self.map_before + "\n")
        path = self.root / MAP
        path.parent.mkdir(exist_ok=True)
        replace_file(path, drawn.rstrip() + "\n", mode=0o644)
        for snapshot in self.journal.directory.parent.glob("*/snapshot"):
            # A run that was cut off puts back the files that stood when it began; this one is not its agent's doing.
            replace_file(snapshot / path.name, path.read_bytes(), mode=0o644)

    def _started(self) -> RunStarted:
        return RunStarted(
            goal="",
            run="",
            repo=str(self.root),
            branch=self.repo.branch(),
            agent=self.agent.settings.agent,
            agent_path=self.agent.runner.path,
            transcript=self.agent.runner.transcript,
            model=self.agent.model,
            reasoning=self.agent.settings.reasoning,
            check="",
            continued=False,
            iteration=0,
        )

    def _greeting(self, cut_off: Sequence[Path]) -> Iterator[tuple[str, str]]:
        chosen, runner = self.agent.settings, self.agent.runner
        yield "ralph", f"{__version__} · a scout maps the code base"
        yield "agent", f"{chosen.agent} ({runner.path}) · model {self.agent.model} · reasoning {chosen.reasoning}"
        yield "", f"{runner.permissions} · transcript {runner.transcript}"
        yield "repo", f"{self.root} · branch {self.repo.branch() or '(detached HEAD)'}"
        for note in chosen.notes:
            yield "note", note
        for store in cut_off:
            yield "note", f"an earlier pass was cut off; the tree as it was before that one is in {store}"
        yield "", ""

    def _farewell(self, survey: Survey, spend: Spend) -> Iterator[tuple[str, str]]:
        cost = format_money(spend.cost_usd) if spend.costed else "cost unknown"
        yield "", ""
        if survey.map:
            yield (
                "result",
                f"the map is {MAP}, {len(survey.map.splitlines())} lines; workers read it from now on",
            )
        else:
            yield "result", f"failed: {survey.reason}" if survey.exit_code == 1 else survey.reason
        yield "", f"{cost} · {spend.tokens:,} tokens · {format_duration(self.stage.seconds)}"
        yield "files", f"raw logs in {self.journal.logs}"
        if survey.hint:
            yield "next", survey.hint
