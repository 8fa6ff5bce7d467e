"""One `ralph understand`: a scout reads a throwaway clone of the repository, and only its map comes back."""

import contextlib
import os
import random
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ralph import __version__
from ralph.agents.base import Request
from ralph.config import settings
from ralph.config.environment import AgentEnvironment, Beginning, agent_environment, passed_over, stands
from ralph.config.paths import ralph_dir as paths_ralph_dir
from ralph.config.paths import repo_key
from ralph.core.errors import DiskError, Interrupted, RalphError, UsageError
from ralph.core.events import RunEnded, RunStarted, Tag, Text
from ralph.core.guidance import Act
from ralph.core.text import format_duration, format_money, timestamp
from ralph.core.usage import Spend
from ralph.git.repo import Repo, open_repo
from ralph.run.agent import AgentHost, choose_agent, refusing_a_bad_disk, require_file
from ralph.run.observers import Recorder, note_on_stderr
from ralph.run.prompts import MAP, Prompts
from ralph.run.report import introduction, spent_tokens
from ralph.run.scout import ScoutKit, Survey, scout
from ralph.run.throwaway import PASSES, LeftOut, ThrowawayClone, clean_up_after_a_kill
from ralph.state import project
from ralph.state.journal import Journal, LogFiles
from ralph.state.lock import RepoLock
from ralph.system import environ
from ralph.system.files import replace_file
from ralph.ui.render import Detail

NO_GOAL = "ralph understand"
"""What stands in the lock of the tree instead of a goal's name, in which there is no space."""


@dataclass(frozen=True, slots=True)
class SurveyFlags:
    """What the user asked for on the command line, apart from settings."""

    json: bool
    detail: Detail


class Understand:
    """A pass: its collaborators, and what each step of it means on disk."""

    def __init__(self, flags: SurveyFlags, written: Mapping[str, object]) -> None:
        self.env = environ.without_redirections()
        self.repo, directory = _place(self.env)
        self.root = self.repo.root
        _require_place_for_map(self.root)
        self.agent = choose_agent(settings.load(env=self.env, root=self.root, flags=written), self.root, self.env)
        require_file(self.agent.settings.scout, "scout", self.root)
        self.prompt = Prompts(self.root / ".ralph" / "prompts").scout(self.root, reply=self.agent.runner.reply)
        self.lock = RepoLock(directory, NO_GOAL, self.root)
        self.journal = Journal(directory / PASSES)
        self.clone = ThrowawayClone(self.repo, self.journal.directory)
        at = timestamp(time.time()).replace(":", "")
        self.kept_map = self.journal.directory / f"codebase-map-{at}.md"
        self.keeps_a_map = False
        self.stage = AgentHost(self.clone.path, flags.detail, as_json=flags.json)

    def carry_out(self) -> int:
        self.lock.probe()
        with contextlib.ExitStack() as held:
            with refusing_a_bad_disk():
                held.enter_context(self.lock)
                clean_up_after_a_kill(self.root, self.journal.directory.parent)
                held.enter_context(self.stage.guardian)
                held.enter_context(self.stage.signals.watched())
                held.callback(self._remove_clone)  # while signals only leave a mark: a second Ctrl-C does not stop it
                held.callback(self.stage.finish_lines)
                self.journal.open()
                held.callback(self.journal.close)
                self.around = self._surround()
                left_out = self._make_clone()
            recorder = self.stage.recorder(self.journal, spent=Spend())
            self.stage.say(self._greeting(), first=True)
            recorder(self._started())
            unsaid = [self.around.note] if self.around.note and not self.stage.greets else []
            for note in (*passed_over(self.root, self.env), *unsaid, *_unseen(left_out)):
                recorder(Text(Tag.SYS, note))
            return self._survey(recorder)

    def _surround(self) -> AgentEnvironment:
        """Settle the environment of the agent before the tree is copied: `.envrc` may add to the tree.

        It is evaluated in the user's repository, where it is trusted; what it names there, PATH say, stays there.
        """
        around = agent_environment(
            stands(self.root, self.env),
            self.env,
            guardian=self.stage.guardian,
            signals=self.stage.signals,
            ralph_dir=paths_ralph_dir(self.env),
            timeout=self.agent.settings.envrc_timeout,
            beginning=Beginning(None),
        )
        env = {name: value for name, value in around.env.items() if name != "OLDPWD"}
        return replace(around, env=env | {"PWD": str(self.clone.path)})

    def _make_clone(self) -> Mapping[str, LeftOut]:
        """Give the next session the repository as the user has it now; return what it will not see."""
        left_out = self.clone.make(self._pause)
        self.map_before = _written(self.clone.path / MAP)
        return left_out

    def _remove_clone(self) -> None:
        try:
            self.clone.remove()
        except DiskError as error:  # the map is written: not worth a failure
            note_on_stderr(
                f"the scout's copy of the repository is left, and the next start removes it: {error.message}"
            )

    def _pause(self) -> None:
        if (number := self.stage.signals.first) is not None:
            raise Interrupted(number)

    def _survey(self, recorder: Recorder) -> int:
        try:
            survey = scout(self._kit(recorder))
            # Whatever it says of its own place is true of the user's.
            survey = replace(survey, map=survey.map.replace(str(self.clone.path), str(self.root)))
            if survey.map:
                self._write(survey.map)
        except Interrupted as stopped:
            survey = Survey("", stopped.exit_code, f"stopped by {stopped.name}")
        except (RalphError, OSError) as error:
            where = error.filename if isinstance(error, OSError) else ""
            fault = error if isinstance(error, RalphError) else DiskError(where or self.journal.directory, error)
            if isinstance(fault, UsageError):  # too late for bad usage: this is a failure
                fault = RalphError(fault.message, fault.hint)
            with contextlib.suppress(DiskError):
                recorder(RunEnded(1, str(fault), proven=False))
            raise fault from error
        recorder(RunEnded(survey.exit_code, survey.reason, proven=False))
        self.stage.say(self._farewell(survey, recorder.status.meter.total))
        return survey.exit_code

    def _kit(self, recorder: Recorder) -> ScoutKit:
        def open_logs() -> LogFiles:
            recorder.status.next_session()
            return self.journal.log_files(self.agent.settings.agent, "scout", 1, timestamp(time.time()))

        return ScoutKit(
            session=self.stage.session_kit(self.agent, recorder, self.around.env),
            request=self._request,
            open_logs=open_logs,
            written_map=self._written_map,
            renew=self._make_clone,
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

    def _written_map(self) -> str:
        """The map that the session wrote to its place in the clone; empty if it wrote none."""
        now = _written(self.clone.path / MAP)
        return now[0].decode("utf-8", "replace").strip() if now != self.map_before else ""

    def _write(self, drawn: str) -> None:
        """Put the map in its place; the one before it is kept in the journal."""
        _require_place_for_map(self.root)  # it was some time ago that this was looked at
        path = self.root / MAP
        before = path.read_bytes() if path.exists() else b""
        if before and before.decode("utf-8", "replace").strip() != drawn:
            replace_file(self.kept_map, before)
            self.keeps_a_map = True
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
        yield "", ""

    def _farewell(self, survey: Survey, spend: Spend) -> Iterator[tuple[str, str]]:
        cost = format_money(spend.cost_usd) if spend.costed else "cost unknown"
        yield "", ""
        if survey.map:
            lines = len(survey.map.splitlines())
            size = f"{lines} line{'' if lines == 1 else 's'}"
            yield "result", f"the map is {MAP}, {size}; workers read it from now on"
            if self.keeps_a_map:
                yield "", f"the one before is kept: {self.kept_map}"
        else:
            yield "result", f"failed: {survey.reason}" if survey.exit_code == 1 else survey.reason
        yield "", f"{cost} · {spent_tokens(spend)} · {format_duration(self.stage.seconds)}"
        yield "files", f"raw logs in {self.journal.logs}"
        if survey.hint:
            yield "next", survey.hint


def _place(env: Mapping[str, str]) -> tuple[Repo, Path]:
    """The repository ralph stands in, and where its runs and passes are journaled."""
    try:
        repo = open_repo(Path.cwd())
    except UsageError as error:
        raise UsageError(error.message, "go to the repository that is to be mapped") from error
    project.require_plain_directory(repo.root)
    ralph_dir = paths_ralph_dir(env)
    if ralph_dir.resolve().is_relative_to(repo.root):
        raise UsageError(f"RALPH_DIR={ralph_dir} lies in the repository itself", "put it elsewhere")
    return repo, ralph_dir / "runs" / repo_key(repo.root)


def _require_place_for_map(root: Path) -> None:
    """Refuse a place where the map cannot be written, or from which a link leads elsewhere."""
    project.require_plain_directory(root)
    place = root / MAP
    if place.is_symlink() or (place.exists() and not place.is_file()):
        raise UsageError(f"{place} is no plain file", "remove it: the map is written there")
    folder = place.parent if place.parent.exists() else root
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"{folder} cannot be written: the map is to be {place}", "make it writable")


def _unseen(left_out: Mapping[str, LeftOut]) -> list[str]:
    """Say what the scout does not see, one line for each reason."""
    lines: list[str] = []
    for why in LeftOut:
        paths = [path for path, reason in left_out.items() if reason is why]
        shown = ", ".join(paths[:5]) + (f" and {len(paths) - 5} more" if len(paths) > 5 else "")
        lines += [f"not shown to the scout ({why}): {shown}"] if paths else []
    return lines


def _written(path: Path) -> tuple[bytes, int]:
    """A file's bytes, and when they were written: a scout that writes the same again has written it. A link is none."""
    with contextlib.suppress(OSError):
        if path.is_file() and not path.is_symlink():
            return path.read_bytes(), path.stat().st_mtime_ns
    return b"", 0
