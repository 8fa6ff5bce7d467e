"""One `ralph pipe`: stages in one tree, each with the conversation before it, and each with a commit of its own."""

import contextlib
import json
import shlex
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ralph.agents.base import Request
from ralph.config import settings
from ralph.config.files import read_text
from ralph.core.errors import BlockedError, ExitCode, Interrupted, RalphError, UsageError
from ralph.core.events import Event, IterationEnded, RunEnded, Tag, Text, ToolStart
from ralph.core.limits import Allowance
from ralph.core.stage import Stage, parse_stage, stage_message
from ralph.core.text import both_ends, few, plural
from ralph.core.verdict import Verdict, obstacle_in
from ralph.run.agent import AgentHost, ChosenAgent, choose_agent, refusing_a_bad_disk
from ralph.run.prepare import SurveyRequest, look_around, surround
from ralph.run.prompts import AgentsMd, Prompts, said_of, standing_agents_md
from ralph.run.report import Lines, headline, signal_name, spent, survey_started
from ralph.run.screen import RunScreen
from ralph.run.turn import Talk, Turns
from ralph.state.git_settings import Protected, cut_in, restore_after_a_cut
from ralph.state.journal import Journal
from ralph.state.lock import RepoLock

_NO_GOAL, _FOLDER, _MODE = "ralph pipe", ".pipe", "stage"
_LONGEST_CONVERSATION, _LONGEST_CALL = 30_000, 300


@dataclass(frozen=True, slots=True)
class PipeFlags:
    """What the user asked for on the command line, apart from settings."""

    stages: Sequence[Path]
    allow_dirty: bool
    json: bool
    quiet: bool
    verbose: bool


@dataclass(frozen=True, slots=True)
class _Step:
    """A stage with the agent that does it."""

    number: int
    stage: Stage
    agent: ChosenAgent


@dataclass
class _Heard:
    """The conversation of a stage, as far as ralph can quote it to another agent."""

    number: int
    stage: Stage
    lines: list[str] = field(default_factory=list[str])

    def screen(self, events: Sequence[Event], _at: str, _lines: bytes) -> None:
        """Listen in, as a screen of the recorder's."""
        for event in events:
            match event:
                case Text(Tag.AI, text):
                    self.lines.append(text)
                case ToolStart(_, name, given):
                    self.lines.append(f"[{name} {json.dumps(dict(given), ensure_ascii=False)[:_LONGEST_CALL]}]")
                case _:
                    pass

    @property
    def told(self) -> Mapping[str, object]:
        conversation = both_ends("\n".join(self.lines), _LONGEST_CONVERSATION)
        return {
            "number": self.number, "title": self.stage.title, "task": self.stage.task, "conversation": conversation
        }  # fmt: skip


def run_pipe(flags: PipeFlags, written: Mapping[str, object]) -> int:
    """Do the stages one after the other, up to the first that fails; return the exit code."""
    if folder := next((path for path in flags.stages if path.is_dir()), None):
        raise UsageError(f"cannot read {folder}: it is a directory", "pass Markdown files with one task each")
    if missing := [str(path) for path in flags.stages if not path.is_file()]:
        raise UsageError(f"cannot read {few(missing, 5)}: no such file", "pass Markdown files with one task each")
    stages = [parse_stage(read_text(path), path) for path in flags.stages]
    first = stages[0]
    asked = look_around(written, "go to the repository that the stages are for", first.settings, first.path)
    steps = _steps(stages, asked, written)
    if not cut_in(asked.directory):  # else they are put back first, under the lock
        _refuse_tree(asked, flags)
    journal, host = Journal(asked.directory / _FOLDER), AgentHost(asked.repo.root)
    screen = RunScreen(host, as_json=flags.json, quiet=flags.quiet, verbose=flags.verbose)
    with contextlib.ExitStack() as held:
        with refusing_a_bad_disk():
            held.enter_context(RepoLock(asked.directory, _NO_GOAL, asked.repo.root))
            held.enter_context(host.guardian)
            held.enter_context(host.signals.watched())
            held.callback(screen.finish_lines)
            journal.open()
            held.callback(journal.close)
            restored = restore_after_a_cut(asked.repo.root, asked.directory, journal.undone)
            if restored:
                _refuse_tree(asked, flags)
            asked = surround(asked, host)
        screen.say(_greeting(asked, steps), first=True)
        recorder = screen.recorder(journal)
        recorder(survey_started(asked))
        for note in restored:
            recorder(Text(Tag.SYS, note))
        pipeline = _Pipeline(asked, steps, host, journal, screen)
        held.callback(pipeline.leave)
        code, reason, hint = ExitCode.DONE, "done", ""
        try:
            for step in steps:
                pipeline.do(step)
        except Interrupted as stopped:
            recorder(RunEnded(stopped.exit_code, f"stopped by {signal_name(stopped.signal_number)}", proven=False))
            screen.say(pipeline.farewell())
            raise
        except RalphError as error:
            late = error.exit_code == ExitCode.USAGE  # too late for bad usage: this is a failure
            code, reason = ExitCode.FAILED if late else error.exit_code, error.message
            hint = error.hint
        recorder(RunEnded(code, reason, proven=False))
        screen.say(pipeline.farewell())
        if code != ExitCode.DONE:
            fault = BlockedError if code == ExitCode.BLOCKED else RalphError
            left = steps[len(pipeline.commits)]
            error = fault(f"stage {left.number} ({left.stage.path}) failed: {reason}", hint or pipeline.go_on)
            error.exit_code = code
            raise error
        return code


def _steps(stages: Sequence[Stage], asked: SurveyRequest, written: Mapping[str, object]) -> list[_Step]:
    """Settle the agent of each stage, or say what is wrong with any of them."""
    steps: list[_Step] = []
    for number, stage in enumerate(stages, 1):
        chosen = settings.load(
            env=asked.env, root=asked.repo.root, flags=written, front_matter=stage.settings, goal=stage.path
        )
        agent = choose_agent(chosen, asked.repo.root, asked.env)
        needed = agent.runner.required_tool
        if needed and needed not in chosen.worker.tools:
            worker = replace(chosen.worker, tools=(*chosen.worker.tools, needed))
            agent = replace(agent, settings=replace(chosen, worker=worker))
        steps.append(_Step(number, stage, agent))
    return steps


def _refuse_tree(asked: SurveyRequest, flags: PipeFlags) -> None:
    """Refuse a tree with changes: the first commit would mix them with the stage's work."""
    if operation := asked.repo.operation_in_progress():
        raise UsageError(
            f"a git {operation} is in progress in {asked.repo.root}", f"finish it, or git {operation} --abort"
        )
    if not flags.allow_dirty and (dirty := asked.repo.dirty_paths(tuple(flags.stages))):
        raise UsageError(
            f"the working tree has uncommitted changes: {few(dirty, 5)}",
            "commit or stash them, or include them in the first commit with --allow-dirty",
        )


def _greeting(asked: SurveyRequest, steps: Sequence[_Step]) -> Lines:
    titles = " → ".join(step.stage.title for step in steps)
    yield headline(f"{plural(len(steps), 'stage')}: {titles}")
    yield "repo", f"{asked.repo.root} · branch {asked.repo.branch() or '(detached HEAD)'}"
    yield "", ""


class _Pipeline:
    """What the stages have in common: the tree, the conversation so far, and what it has used."""

    def __init__(
        self, asked: SurveyRequest, steps: Sequence[_Step], host: AgentHost, journal: Journal, screen: RunScreen
    ) -> None:
        self._asked, self._steps, self._host, self._journal, self._screen = asked, steps, host, journal, screen
        self._name = uuid.uuid4().hex[:12]
        self._files = tuple(step.stage.path for step in steps)
        self._owned = asked.repo.owned(asked.repo.head(), self._files)
        self._protected, self._branch = Protected(asked.repo, journal), asked.repo.branch()
        self._agents_md = standing_agents_md(asked.repo.root)
        self._heard: list[_Heard] = []
        self.talk = Talk()
        self.commits: list[tuple[str, str]] = []
        """The stages that are done, by their titles, and the commit of each."""

    @property
    def go_on(self) -> str:
        """The command for the stages that are not done; the tree has what the failed one left."""
        left = self._steps[len(self.commits) :]
        command = shlex.join(["ralph", "pipe", *(str(step.stage.path) for step in left), "--allow-dirty"])
        return f"fix it, then run the remaining stages: {command}"

    def leave(self) -> None:
        """Put git's settings back for the last time."""
        self._protected.leave()

    def do(self, step: _Step) -> None:
        """Do one stage, and commit what it leaves."""
        heard, tip = _Heard(step.number, step.stage), self._asked.repo.head()
        turns = Turns(_MODE, self._host, self._journal, self._screen, [heard.screen], self.go_on)

        def make(session_id: str, resumes: str, left: Allowance) -> Request:
            request = step.agent.request(
                self._prompt(step, remembers=bool(resumes)),
                session_id,
                step.agent.settings.worker,
                root=self._asked.repo.root,
                env=self._asked.around.env,
                folder=self._journal.directory,
                allowance=left,
            )
            return replace(request, resumes=resumes)

        self.talk, report = turns.hold(step.agent, self.talk, make, self._keep, step.number)
        recorder = self._screen.recorder(self._journal, spent=self.talk.spend)
        changed = self._protected.undo()
        held = self._asked.repo.hold(self._branch, tip)
        undone = [f"changed {few(changed, 5)}"] if changed else []
        for words in [*undone, *map(said_of, held.undone)]:
            recorder(Text(Tag.SYS, f"the stage {words}; ralph undid that"))
        answer = report.ending.answer
        if answer is None or answer.verdict is Verdict.BLOCKED:
            raise BlockedError(obstacle_in(answer.summary) if answer else "it returned no answer", self.go_on)
        message = stage_message(
            step.stage,
            number=step.number,
            total=len(self._steps),
            pipe=self._name,
            answer=answer,
            spend=self.talk.spend,
        )
        disturbed = self._asked.repo.head() != tip
        committed = self._asked.repo.commit_all(message, self._files, self._owned, disturbed=disturbed)
        for path in (*committed.left_out, *committed.nested):
            recorder(Text(Tag.SYS, f"not committed (looks like a secret, or is a separate git repository): {path}"))
        cost = self.talk.spend.cost_usd if self.talk.spend.costed else None
        recorder(IterationEnded(step.number, answer.verdict, committed.sha, cost, None, answer.summary))
        heard.lines.append(answer.summary)
        self._heard.append(heard)
        self.commits.append((step.stage.title, committed.sha))

    def farewell(self) -> Lines:
        """The last words: the commit of each stage that is done, and what all of them used."""
        yield "", ""
        yield "result", f"{len(self.commits)} of {plural(len(self._steps), 'stage')} done"
        for title, commit in self.commits:
            yield "", f"{commit[:10]} {title}"
        yield "", spent(self.talk.spend)
        yield "files", f"raw logs in {self._journal.logs}"

    def _keep(self, talk: Talk) -> None:
        self.talk = talk

    def _prompt(self, step: _Step, *, remembers: bool) -> str:
        """Return the prompt of a stage. It quotes the conversation so far unless the agent remembers it."""
        settings, root = step.agent.settings, self._asked.repo.root
        quote = AgentsMd(self._agents_md, settings, root, lambda: "").to_quote(self._asked.around.env)
        variables = {
            "number": step.number,
            "total": len(self._steps),
            "title": step.stage.title,
            "task": step.stage.task,
            "earlier": [] if remembers else [each.told for each in self._heard],
        }
        prompts = Prompts(root / ".ralph" / "prompts")
        return prompts.stage(variables, agents_md="" if remembers else quote, reply=step.agent.runner.reply)
