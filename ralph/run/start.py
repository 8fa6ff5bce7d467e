"""One start of a run: begins or continues it, hands it to the loop, and writes down how it ended."""

import contextlib
import time
from dataclasses import replace

from ralph.config.environment import Beginning, agent_environment, passed_over, stands
from ralph.config.paths import repo_key
from ralph.core.errors import DiskError, Interrupted, RalphError, RepoError, UsageError
from ralph.core.events import Guided, RunEnded, RunStarted, Tag, Text
from ralph.core.guidance import Act, Instruction, Receipt
from ralph.core.run import Run, RunResult
from ralph.core.status import TimeSpent
from ralph.core.text import both_ends, timestamp
from ralph.git.repo import changes, open_repo
from ralph.run.agent import AgentHost, refusing_a_bad_disk, version_of
from ralph.run.check import require_program
from ralph.run.loop import STALLED, run_goal
from ralph.run.observers import Recorder, RunNotices, note_on_stderr
from ralph.run.prepare import RunFlags, RunRequest, settle
from ralph.run.report import Facts, dossier, farewell, greeting, next_steps
from ralph.run.resume import TakenUp, find_unfinished, new_run_id, refuse_mismatch, take_up
from ralph.run.throwaway import clean_up_after_a_kill
from ralph.run.workspace import Workspace
from ralph.state import project
from ralph.state.inbox import Inbox
from ralph.state.journal import Damaged, Journal, Saved
from ralph.state.lock import RepoLock
from ralph.state.project import EXCLUDES, ProjectLinks, listed
from ralph.system.files import replace_file
from ralph.ui.render import Detail

_LONGEST_QUOTE = 20_000
_PATIENCE_WITH_GIT = 10.0
"""Seconds that a start gives a git at work to end: the commit that a ralph killed with -9 had begun goes on."""


class RunStart:
    """One start of a run, from what is refused before anything is written to the last words."""

    def __init__(self, asked: RunRequest) -> None:
        self.asked = asked
        self.goal = asked.goal
        directory = asked.ralph_dir / "runs" / repo_key(asked.place.root)
        self.lock = RepoLock(directory, self.goal.name, asked.place.root)
        self.journal = Journal(directory / self.goal.name)
        self.windows = ProjectLinks(asked.place.root)
        self.stage = AgentHost(asked.place.root, _detail(asked.flags), as_json=asked.flags.json)
        self.notices = RunNotices(self.goal, asked.place.root)

    def carry_out(self) -> int:
        with contextlib.ExitStack() as held:
            with refusing_a_bad_disk():
                self._refuse_early()
                held.enter_context(self.lock)
                self._mail_before = Inbox(self.journal.directory).size
                clean_up_after_a_kill(self.asked.place.root, self.journal.directory.parent)
                held.enter_context(self.stage.guardian)
                held.callback(self._end_notices)  # before the guardian's end, which is that of all that ralph started
                held.enter_context(self.stage.signals.watched())
                ended = self._end_operation_after_a_cut()
                self.repo = self.asked.place.open(self.goal.path)
                restored = self._restore_after_a_cut()
                self._settle()
                saved = self._look()
                noted = self._surround(saved)
                run, said = self._begin(saved)
                held.callback(self.journal.close)
                held.enter_context(self._live_view(run))
                self.notices.begin(self.settings.notify, self.asked.env, run.id)
                screens = [self.workplace.show_session, self.notices.screen]
                recorder = self.stage.recorder(self.journal, spent=run.spend, screens=screens)
                self._open(run, recorder, [*ended, *restored, *noted, *said])
            return self._pursue(run, recorder)

    def _live_view(self, run: Run) -> contextlib.AbstractContextManager[None]:
        return self.stage.live(self.settings.limits, run.spend, self.workplace.mailbox)

    def _refuse_early(self) -> None:
        """Refuse what can be refused before anything is written."""
        self.lock.probe()
        if self._was_cut():
            return  # what stands in the tree may be the agent's: it is put right under the lock, then read
        if (repo := self.asked.place.standing()) is not None:
            self.repo = repo
            self._settle()
            self._look()
        elif self.asked.place.root.is_dir():  # the branch is another one: its own check and templates come later
            self.asked.settings_at(self.asked.place.root)

    def _settle(self) -> None:
        self.prepared = settle(self.asked, self.repo)
        self.settings = self.prepared.settings

    def _was_cut(self) -> bool:
        """Tell whether the run to be continued never said how its last start ended."""
        saved = None if self.asked.flags.fresh else self.journal.load()
        return isinstance(saved, Damaged) or (isinstance(saved, Saved) and saved.exit_code is None)

    def _end_operation_after_a_cut(self) -> list[str]:
        """End the rebase or the like that a session was at when ralph was killed, if it is about the run's branch."""
        saved = self.journal.load() if self._was_cut() else None
        if not isinstance(saved, Saved) or not self.asked.place.root.is_dir():
            return []
        repo = open_repo(self.asked.place.root)
        if not (operation := repo.operation_in_progress()) or repo.operation_branch() != saved.run.branch:
            return []
        repo.hold(saved.run.branch, saved.run.tip)
        return [f"ended `git {operation}`, which the session that was cut off had left unfinished; the files stay"]

    def _restore_after_a_cut(self) -> list[str]:
        """Undo what a session did to the user's files when ralph was killed under it: before they are read."""
        snapshot = project.stored(self.journal.snapshot)
        if snapshot is None or not self._was_cut():
            return []
        undone = listed(snapshot.restore(self.repo.root, self.journal.undone))
        kept = self.journal.undone
        return (
            [f"{undone} changed while the run was cut off: restored; the other version is in {kept}"] if undone else []
        )

    def _look(self) -> Saved | None:
        """Return the run to continue, None for a new one; refuse what cannot begin."""
        unfinished = find_unfinished(self.prepared, self.journal)
        if self.asked.flags.resume and unfinished is None:
            raise UsageError(
                f"there is no unfinished run of {self.goal.name} to continue", "leave out --continue to begin one"
            )
        if unfinished is not None:
            refuse_mismatch(unfinished, self.prepared)
        elif not self.asked.flags.allow_dirty and (dirty := self.repo.dirty_paths(self.goal.path)):
            shown = ", ".join(dirty[:5]) + (f" and {len(dirty) - 5} more" if len(dirty) > 5 else "")
            raise UsageError(
                f"the working tree has changes: {shown}",
                "commit or stash them, or let them join the first commit with --allow-dirty",
            )
        return unfinished

    def _surround(self, saved: Saved | None) -> list[str]:
        """Settle the environment of the agent and the check; tell what of it the header does not say."""
        root, env = self.repo.root, self.asked.env
        self.envrc = stands(root, env)
        self.beginning = Beginning(None) if saved is None else Beginning.of(self.journal.directory)
        trusting = self.asked.flags.trust_envrc
        around = agent_environment(
            self.envrc,
            env,
            guardian=self.stage.guardian,
            signals=self.stage.signals,
            ralph_dir=self.asked.ralph_dir,
            timeout=self.settings.envrc_timeout,
            beginning=self.beginning,
            trusting=trusting,
            by_agent=trusting and self.repo.last_changed_by_ralph(self.envrc.files),
        )
        self.prepared = replace(self.prepared, env=around.env, envrc=around.header)
        if self.prepared.check is not None:
            require_program(self.prepared.check, root, around.env.get("PATH", ""))
        unsaid = [around.note] if around.note and not self.stage.greets else []
        return [*passed_over(root, env), *unsaid]

    def _begin(self, saved: Saved | None) -> tuple[Run, list[str]]:
        """Make the run directory and the tree ready; say what was found there."""
        self._is_continued = saved is not None
        cleared = self.repo.clear_stale_locks(_PATIENCE_WITH_GIT, self._pause)
        waiting, archived = self._archive() if saved is None else ([], [])
        run = Run(new_run_id(), self.goal.name, self.repo.branch(), self.repo.head())
        taken_up = TakenUp(run, "", []) if saved is None else take_up(saved, self.prepared, self.journal)
        run, said = taken_up.run, [*(f"removed a stale {name} of git" for name in cleared), *archived, *taken_up.said]
        if (
            saved is not None and saved.exit_code is None
        ):  # whoever committed: the session that was cut off, or the user
            for path in self.repo.secrets_since(run.tip):
                said.append(f"committed since the last iteration, and looks like a secret: {path}")
                run = run.noted(said[-1])
        self.journal.open()
        for word in waiting:
            Inbox(self.journal.directory).post(word.act, word.text, timestamp(time.time()))
        self.beginning.keep(self.envrc, self.journal.directory)
        self.repo.exclude(EXCLUDES)
        snapshot = project.take(self.repo.root)
        said += self._protect(snapshot, saved)
        if saved is not None:
            self.journal.rewrite_progress(run.history)
            if self.repo.dirty_paths(self.goal.path):
                said.append("an interrupted session left changes in the tree; they stay, and the agent is told")
                run = run.noted("An earlier session was cut off; what it left in the tree is still there, uncommitted.")
        self.windows.link_run(self.goal.name, self.journal.directory)
        mailbox = Inbox(self.journal.directory, run.heard, stale=0 if saved is None else self._mail_before)
        counted = taken_up.counted
        self.workplace = Workspace(
            self.prepared, self.stage, self.journal, mailbox, run=run, snapshot=snapshot, counted=counted
        )
        self.workplace.save(run, durable=True)
        return run, said

    def _archive(self) -> tuple[list[Instruction], list[str]]:
        """Move the last run aside; return what the user told it and no session heard, and what is to be said of it."""
        last = self.journal.load()
        if (moved := self.journal.archive()) is None:
            return [], []
        heard = last.run.heard if isinstance(last, Saved) else 0
        untold = [item for item in last.run.guidance if item.told == 0] if isinstance(last, Saved) else []
        waiting = [Instruction(item.number, Act.TELL, item.text) for item in untold]
        said = [f"the last run was archived: {moved}"] if self.asked.flags.fresh else []
        return [*waiting, *Inbox(moved, heard, stale=self._mail_before).read()], said

    def _pause(self, seconds: float) -> None:
        if (number := self.stage.signals.first) is not None:
            raise Interrupted(number)
        time.sleep(seconds)

    def _protect(self, snapshot: project.Snapshot, saved: Saved | None) -> list[str]:
        """Fix the version of the user's files that rules from now on: the one that stands."""
        before = project.stored(self.journal.snapshot)
        snapshot.store(self.journal.snapshot)
        if saved is None or before is None or before == snapshot:
            return []
        # The last start undid the agent's changes before it ended, so these are the user's own.
        names = listed(before.changed(self.repo.root))
        return [f"{names} changed since the last start; the new version rules from now on"]

    def _open(self, run: Run, recorder: Recorder, said: list[str]) -> None:
        """Say what begins, and what was found."""
        version = version_of(self.prepared.agent, self.prepared.env) if self.stage.is_live else ""
        self.stage.say(greeting(self.prepared, run, self.journal.directory, version), first=True)
        recorder(self._run_started(run))
        for guidance in run.guidance:
            recorder(Guided(guidance.number, guidance.text, Receipt.MISSING if guidance.told else "received"))
        for note in said:
            recorder(Text(Tag.SYS, note))

    def _pursue(self, run: Run, recorder: Recorder) -> int:
        try:
            result = run_goal(run, self.workplace.kit(recorder))
        except Interrupted as stopped:
            words = f"stopped by {'q' if self.stage.quit_by_key else stopped.name}"
            result = RunResult(self.workplace.last_saved, stopped.exit_code, words, proven=False)
        except OSError as error:
            fault = DiskError(error.filename or self.journal.directory, error)
            self._end_in_fault(fault, recorder)
            raise fault from error
        except RalphError as error:
            late = error.exit_code == UsageError.exit_code  # too late for bad usage: this is a failure
            fault = RalphError(error.message, error.hint) if late else error
            self._end_in_fault(fault, recorder)
            raise fault from error
        except Exception as error:
            self._end_in_fault(error, recorder)
            raise
        self.workplace.save(result.run, result.exit_code, durable=True)
        if result.exit_code == STALLED:
            replace_file(self.journal.dossier, self._dossier(result))
        self.journal.write_result(result, self._head(), recorder.status.last_end)
        recorder(RunEnded(result.exit_code, result.reason, result.proven))
        self.notices.ended(result, next_steps(result, self.prepared))
        self._say_farewell(result, recorder.status.times)
        return result.exit_code

    def _say_farewell(self, result: RunResult, times: TimeSpent) -> None:
        self.stage.say(farewell(result, self.prepared, self.stage.seconds, times, continued=self._is_continued))

    def _dossier(self, result: RunResult) -> str:
        logs = self.journal.logs
        checks = sorted((logs / "check").glob("*.log"))
        facts = Facts(
            title=self.goal.title,
            goal_path=self.goal.path,
            repo=self.repo.root,
            check=self.prepared.check_label,
            check_output=both_ends(checks[-1].read_text("utf-8", "replace"), _LONGEST_QUOTE) if checks else "",
            changes=changes(self.repo.root, result.run.base, _LONGEST_QUOTE),
            logs=logs,
        )
        return dossier(result.run, result.reason, facts)

    def _end_in_fault(self, error: Exception, recorder: Recorder) -> None:
        """Write down as much as still can be; what an open session spent is counted from its log at the next start."""
        code = error.exit_code if isinstance(error, RalphError) else 3
        result = RunResult(self.workplace.last_saved, code, str(error), proven=False)
        with contextlib.suppress(DiskError):
            self.journal.write_result(result, self._head(), recorder.status.last_end)
            recorder(RunEnded(result.exit_code, result.reason, result.proven))
        self.notices.ended(result, next_steps(result, self.prepared))
        self._say_farewell(result, recorder.status.times)

    def _end_notices(self) -> None:
        if fault := self.notices.close():
            if self.asked.flags.json:
                note_on_stderr(fault)
            else:
                self.stage.say([("note", fault)])

    def _head(self) -> str | None:
        with contextlib.suppress(RepoError):  # it may be the repository that is broken
            return self.repo.head()
        return None

    def _run_started(self, run: Run) -> RunStarted:
        return RunStarted(
            goal=run.goal,
            run=run.id,
            repo=str(self.repo.root),
            branch=run.branch,
            agent=self.settings.agent,
            agent_path=self.prepared.runner.path,
            transcript=self.prepared.runner.transcript,
            model=self.prepared.agent.model,
            reasoning=self.settings.reasoning,
            check=self.prepared.check_label,
            continued=bool(run.history.iterations or run.failed),
            iteration=run.iteration,
            envrc=self.prepared.envrc,
            cost_usd=run.spend.cost_usd,
            tokens=run.spend.tokens,
        )


def _detail(flags: RunFlags) -> Detail:
    return Detail.QUIET if flags.quiet else Detail.VERBOSE if flags.verbose else Detail.NORMAL
