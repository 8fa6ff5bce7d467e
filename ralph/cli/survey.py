"""One `ralph understand`: a scout's pass over a work tree that is then as it was, but for the map."""

import contextlib
import random
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ralph import __version__, environ, gitrepo, protected, settings
from ralph.budget import Spend
from ralph.cli.agents import choose_agent, require_file
from ralph.cli.greeting import introduction, spent_tokens
from ralph.cli.ground import Ground, cut_passes, journal_of_passes, refuse_after_a_cut_pass, store_in
from ralph.cli.stage import Stage, refusing_a_bad_disk
from ralph.cli.surroundings import Beginning, Surroundings, passed_over, stands, surround
from ralph.errors import DiskError, Interrupted, RalphError, UsageError
from ralph.events import RunEnded, RunStarted, Tag, Text
from ralph.files import replace_file
from ralph.journal import LogFiles, repo_key
from ralph.prompts import MAP, Prompts
from ralph.quantities import format_duration, format_money, timestamp
from ralph.recorder import Recorder
from ralph.repolock import RepoLock
from ralph.runners import Request
from ralph.scouting import ScoutKit, Survey, scout
from ralph.steering import Act
from ralph.ui.telling import Detail
from ralph.windows import EXCLUDES

NO_GOAL = "ralph understand"
"""What stands in the lock of the tree instead of a goal's name, in which there is no space."""


@dataclass(frozen=True, slots=True)
class SurveyFlags:
    """What the user asked for on the command line, apart from settings."""

    json: bool
    detail: Detail


class Surveying:
    """A pass: its collaborators, and what each step of it means on disk."""

    def __init__(self, flags: SurveyFlags, written: Mapping[str, object]) -> None:
        self.env = environ.without_redirections()
        self.repo, directory = _place(self.env)
        self.root = self.repo.root
        place = self.root / MAP
        if place.is_symlink() or (place.exists() and not place.is_file()):
            raise UsageError(f"{place} is no plain file", "remove it: the map is written there")
        self.agent = choose_agent(settings.load(env=self.env, root=self.root, flags=written), self.root, self.env)
        require_file(self.agent.settings.scout, "scout", self.root)
        self.prompt = Prompts(self.root / ".ralph" / "prompts").scout(self.root, reply=self.agent.runner.reply)
        self.lock = RepoLock(directory, NO_GOAL, self.root)
        self.journal = journal_of_passes(directory)
        at = timestamp(time.time()).replace(":", "")
        self.kept_map = self.journal.directory / f"codebase-map-{at}.md"
        self.stage = Stage(self.root, flags.detail, as_json=flags.json)

    def carry_out(self) -> int:
        self.lock.probe()
        with contextlib.ExitStack() as held:
            with refusing_a_bad_disk():
                held.enter_context(self.lock)
                refuse_after_a_cut_pass(self.root, self.journal.directory.parent)
                held.enter_context(self.stage.guardian)
                held.enter_context(self.stage.signals.watched())
                held.callback(self.stage.finish_lines)
                self.journal.open()
                held.callback(self.journal.close)
                self.repo.exclude(EXCLUDES)
                self.around = self._surround()
                store = store_in(self.journal.directory, timestamp(time.time()))
                self.ground = Ground.take(self.repo, store, self.journal.undone, self._pause)
                held.callback(self.ground.leave)
            recorder = self.stage.recorder(self.journal, spent=Spend())
            self.stage.say(self._greeting(), first=True)
            recorder(self._started())
            unsaid = [self.around.note] if self.around.note and not self.stage.greets else []
            for note in (*passed_over(self.root, self.env), *unsaid):
                recorder(Text(Tag.SYS, note))
            return self._survey(recorder)

    def _surround(self) -> Surroundings:
        """Settle the environment of the agent, before the tree is taken down: `.envrc` may add to it."""
        return surround(
            stands(self.root, self.env),
            self.stage,
            self.env,
            ralph_dir=settings.ralph_dir(self.env),
            timeout=self.agent.settings.envrc_timeout,
            beginning=Beginning(None),
        )

    def _pause(self) -> None:
        if (number := self.stage.signals.first) is not None:
            raise Interrupted(number)

    def _survey(self, recorder: Recorder) -> int:
        try:
            survey = scout(self._kit(recorder))
            if survey.map:
                self._write(survey.map)
        except Interrupted as stopped:
            survey = Survey("", stopped.exit_code, f"stopped by {stopped.name}")
        except (RalphError, OSError) as error:
            where = error.filename if isinstance(error, OSError) else ""
            fault = error if isinstance(error, RalphError) else DiskError(where or self.journal.directory, error)
            with contextlib.suppress(RalphError, OSError):  # the fault that came first is told
                self.ground.put_back()
            with contextlib.suppress(DiskError):
                recorder(RunEnded(1, str(fault), proven=False))
            raise fault from error
        recorder(RunEnded(survey.exit_code, survey.reason, proven=False))
        self.stage.say(self._farewell(survey, recorder.meter.total))
        return survey.exit_code

    def _kit(self, recorder: Recorder) -> ScoutKit:
        def open_logs() -> LogFiles:
            recorder.meter = recorder.meter.next_session()
            self.ground.begin_session()
            return self.journal.log_files(self.agent.settings.agent, "scout", 1, timestamp(time.time()))

        return ScoutKit(
            session=self.stage.session_kit(self.agent, recorder, self.around.env),
            request=self._request,
            open_logs=open_logs,
            undo=self.ground.put_back,
            observe=recorder,
            patience=self.stage.patience(recorder),
            woken=self._woken,
            random=random.random,
            new_id=lambda: str(uuid.uuid4()),
        )

    def _woken(self) -> bool:
        return Act.WAKE in self.stage.take_asked()

    def _request(self, session_id: str) -> Request:
        return self.agent.request(
            self.prompt,
            session_id,
            self.agent.settings.scout,
            root=self.root,
            env=self.around.env,
            folder=self.journal.directory,
            read_only=True,
        )

    def _replaces(self, drawn: str) -> bool:
        return bool(self.ground.map) and self.ground.map.decode("utf-8", "replace").strip() != drawn

    def _write(self, drawn: str) -> None:
        """Put the map in its place; the one before it is kept in the journal."""
        path = self.root / MAP
        if self._replaces(drawn):
            replace_file(self.kept_map, self.ground.map)
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
            envrc=self.around.header,
        )

    def _greeting(self) -> Iterator[tuple[str, str]]:
        yield "ralph", f"{__version__} · a scout maps the code base"
        yield from introduction(self.agent, read_only=True)
        yield "repo", f"{self.root} · branch {self.repo.branch() or '(detached HEAD)'}"
        if self.around.header:
            yield "envrc", self.around.header
        for note in self.agent.settings.notes:
            yield "note", note
        if unread := self.ground.unread:
            shown = ", ".join(unread[:5]) + (f" and {len(unread) - 5} more" if len(unread) > 5 else "")
            yield "note", f"cannot be read, and is not put back should the agent change it: {shown}"
        yield "", ""

    def _farewell(self, survey: Survey, spend: Spend) -> Iterator[tuple[str, str]]:
        cost = format_money(spend.cost_usd) if spend.costed else "cost unknown"
        yield "", ""
        if survey.map:
            lines = len(survey.map.splitlines())
            size = f"{lines} line{'' if lines == 1 else 's'}"
            yield "result", f"the map is {MAP}, {size}; workers read it from now on"
            if self._replaces(survey.map):
                yield "", f"the one before is kept: {self.kept_map}"
        else:
            yield "result", f"failed: {survey.reason}" if survey.exit_code == 1 else survey.reason
        yield "", f"{cost} · {spent_tokens(spend)} · {format_duration(self.stage.seconds)}"
        yield "files", f"raw logs in {self.journal.logs}"
        if self.ground.has_undone:
            yield "", f"what the scout had put in place of something, or added, is kept in {self.journal.undone}"
        if survey.hint:
            yield "next", survey.hint


def put_back() -> Iterator[str]:
    """Put the tree back as it was before a pass that was cut off; say what that undid."""
    repo, directory = _place(environ.without_redirections())
    lock, journal = RepoLock(directory, NO_GOAL, repo.root), journal_of_passes(directory)
    lock.probe()
    with lock:
        grounds = cut_passes(repo.root, directory)
        if not grounds:
            raise UsageError("no `ralph understand` was cut off here and left changes: there is nothing to put back")
        deeds: list[str] = []
        for ground in reversed(grounds):  # the oldest last: that is how it was before all of them
            deeds += ground.put_back().deeds
            ground.leave()
    yield from deeds
    yield f"the tree is as it was, but for what is said; what stood there instead is in {journal.undone}"


def _place(env: Mapping[str, str]) -> tuple[gitrepo.Repo, Path]:
    """The repository ralph stands in, and where its runs and passes are journaled."""
    try:
        repo = gitrepo.open_repo(Path.cwd())
    except UsageError as error:
        raise UsageError(error.message, "go to the repository that is to be mapped") from error
    protected.require_plain_directory(repo.root)
    ralph_dir = settings.ralph_dir(env)
    if ralph_dir.resolve().is_relative_to(repo.root):
        raise UsageError(f"RALPH_DIR={ralph_dir} lies in the repository itself", "put it elsewhere")
    return repo, ralph_dir / "runs" / repo_key(repo.root)
