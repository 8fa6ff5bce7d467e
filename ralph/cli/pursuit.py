"""One start of a run: begins or continues it, binds each step of the loop to disk, and writes down how it ended."""

import contextlib
import random
import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import replace

from ralph import footprint, gitrepo, protected, summaryfile
from ralph.allowance import Allowance, allowance
from ralph.check import CheckReport, require_program, run_check
from ralph.cli.continuing import SUMMARIZER, find_unfinished, new_run_id, refuse_mismatch, take_up
from ralph.cli.greeting import farewell, greeting
from ralph.cli.ground import refuse_after_a_cut_pass
from ralph.cli.prepare import Asked, RunFlags, settle
from ralph.cli.stage import Stage, refusing_a_bad_disk
from ralph.cli.surroundings import Beginning, home, surround
from ralph.condensing import CondensingKit, condense
from ralph.dossier import Facts, dossier
from ralph.envrc import sources
from ralph.errors import DiskError, Interrupted, RalphError, RepoError, UsageError
from ralph.events import Event, Guided, RunEnded, RunStarted, SessionStarted, Tag, Text
from ralph.excerpt import both_ends
from ralph.files import replace_file
from ralph.journal import Damaged, Journal, LogFiles, Saved, mode_of, repo_key
from ralph.loop import STALLED, Kit, pursue
from ralph.mailbox import Mailbox
from ralph.prompts import Prompts
from ralph.quantities import timestamp
from ralph.recorder import Recorder
from ralph.repolock import RepoLock
from ralph.run import Run, RunResult
from ralph.runners import Request
from ralph.steering import Act, Helm, Word
from ralph.summary import Summary
from ralph.ui.console import Detail
from ralph.ui.keys import WAKE_KEY
from ralph.windows import EXCLUDES, Windows

_LONGEST_QUOTE = 20_000
_PATIENCE_WITH_GIT = 10.0
"""Seconds that a start gives a git at work to end: the commit that a ralph killed with -9 had begun goes on."""


class Pursuit:
    """One start of a run: its collaborators, and what each step of the loop means on disk."""

    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        self.goal = asked.goal
        directory = asked.ralph_dir / "runs" / repo_key(asked.place.root)
        self.lock = RepoLock(directory, self.goal.name, asked.place.root)
        self.journal = Journal(directory / self.goal.name)
        self.windows = Windows(asked.place.root)
        self.stage = Stage(asked.place.root, _detail(asked.flags), as_json=asked.flags.json)
        self._counted = ""
        self._told_left_out: set[str] = set()
        self._nested: set[str] = set()

    def carry_out(self) -> int:
        with contextlib.ExitStack() as held:
            with refusing_a_bad_disk():
                self._refuse_early()
                held.enter_context(self.lock)
                refuse_after_a_cut_pass(self.asked.place.root, self.journal.directory.parent)
                held.enter_context(self.stage.guardian)
                held.enter_context(self.stage.signals.watched())
                ended = self._end_operation_after_a_cut()
                self.repo = self.asked.place.open(self.goal.path)
                restored = self._restore_after_a_cut()
                self._settle()
                saved = self._look()
                noted = self._surround(saved)
                run, said = self._begin(saved)
                held.callback(self.journal.close)
                recorder = self.stage.recorder(self.journal, spent=run.spend, screens=[self._show_session])
                self._open(run, recorder, [*ended, *restored, *noted, *said])
            return self._pursue(run, recorder)

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
        repo = gitrepo.open_repo(self.asked.place.root)
        if not (operation := repo.operation_in_progress()) or repo.operation_branch() != saved.run.branch:
            return []
        repo.hold(saved.run.branch, saved.run.tip)
        return [f"ended `git {operation}`, which the session that was cut off had left unfinished; the files stay"]

    def _restore_after_a_cut(self) -> list[str]:
        """Undo what a session did to the user's files when ralph was killed under it: before they are read."""
        snapshot = protected.stored(self.journal.snapshot)
        if snapshot is None or not self._was_cut():
            return []
        undone = _listed(snapshot.restore(self.repo.root, self.journal.undone))
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
        """Settle the environment of the agent and the check; say so if `.envrc` is not used for it."""
        root, env = self.repo.root, self.asked.env
        self.envrc = sources.look(root, home(env))
        self.beginning = Beginning(None) if saved is None else Beginning.of(self.journal.directory)
        around = surround(
            self.envrc,
            self.stage,
            env,
            ralph_dir=self.asked.ralph_dir,
            timeout=self.settings.envrc_timeout,
            beginning=self.beginning,
            trusting=self.asked.flags.trust_envrc,
        )
        self.prepared = replace(self.prepared, env=around.env, envrc=around.header)
        if self.prepared.check is not None:
            require_program(self.prepared.check, root, around.env.get("PATH", ""))
        return [around.note] if around.note else []

    def _begin(self, saved: Saved | None) -> tuple[Run, list[str]]:
        """Make the run directory and the tree ready; say what was found there."""
        cleared = self.repo.clear_stale_locks(_PATIENCE_WITH_GIT, self._pause)
        said = [f"removed a stale {name} of git" for name in cleared]
        if saved is None:
            if (moved := self.journal.archive()) is not None and self.asked.flags.fresh:
                said.append(f"the last run was archived: {moved}")
            run = Run(new_run_id(), self.goal.name, self.repo.branch(), self.repo.head())
        else:
            taken_up = take_up(saved, self.prepared, self.journal)
            run, self._counted = taken_up.run, taken_up.counted
            said += taken_up.said
            if saved.exit_code is None:  # whoever committed meanwhile: the session that was cut off, or the user
                for path in self.repo.secrets_since(run.tip):
                    said.append(f"committed since the last iteration, and looks like a secret: {path}")
                    run = run.noted(said[-1])
        run = self._open_mail(run)
        self._tip = self.repo.head()
        self._owned = self.repo.owned(run.base, self.goal.path)
        self.journal.open()
        self.beginning.keep(self.envrc, self.journal.directory)
        self.repo.exclude(EXCLUDES)
        said += self._protect(saved)
        if saved is not None:
            self.journal.rewrite_progress(run.history)
            if self.repo.dirty_paths(self.goal.path):
                said.append("an interrupted session left changes in the tree; they stay, and the agent is told")
                run = run.noted("An earlier session was cut off; what it left in the tree is still there, uncommitted.")
        self.windows.link_run(self.goal.name, self.journal.directory)
        self._save(run, durable=True)
        return run, said

    def _open_mail(self, run: Run) -> Run:
        """Take in what the user told the run since its last start; what else he asked for was asked of that start."""
        self.mailbox = Mailbox(self.journal.directory, run.heard)
        for word in self.mailbox.read():
            run = run.guided(word) if word.act is Act.TELL else replace(run, heard=word.number)
        return run

    def _hear(self) -> list[Word]:
        """The words since the last time: those of `ralph tell` and the like, and the key that ends a wait."""
        pressed, self.stage.pressed = self.stage.pressed, []
        return [*self.mailbox.read(), *(Word(0, Act.WAKE) for key in pressed if key == WAKE_KEY)]

    def _pause(self, seconds: float) -> None:
        if (number := self.stage.signals.first) is not None:
            raise Interrupted(number)
        time.sleep(seconds)

    def _protect(self, saved: Saved | None) -> list[str]:
        """Fix the version of the user's files that rules from now on: the one that stands."""
        self.snapshot = protected.take(self.repo.root)
        before = protected.stored(self.journal.snapshot)
        self.snapshot.store(self.journal.snapshot)
        if saved is None or before is None or before == self.snapshot:
            return []
        # The last start undid the agent's changes before it ended, so these are the user's own.
        names = _listed(before.changed(self.repo.root))
        return [f"{names} changed since the last start; the new version rules from now on"]

    def _open(self, run: Run, recorder: Recorder, said: list[str]) -> None:
        """Say what begins, and what was found."""
        self.stage.say(greeting(self.prepared, run, self.journal.directory), first=True)
        recorder(self._run_started(run))
        for guidance in run.guidance:
            recorder(Guided(guidance.number, guidance.text, "received"))
        for note in said:
            recorder(Text(Tag.SYS, note))

    def _pursue(self, run: Run, recorder: Recorder) -> int:
        try:
            result = pursue(run, self._kit(recorder))
        except Interrupted as stopped:
            result = RunResult(self._last_saved, stopped.exit_code, f"stopped by {stopped.name}", proven=False)
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
        self._save(result.run, result.exit_code, durable=True)
        if result.exit_code == STALLED:
            replace_file(self.journal.dossier, self._dossier(result))
        self.journal.write_result(result, self.repo.head())
        recorder(RunEnded(result.exit_code, result.reason, result.proven))
        self.stage.say(farewell(result, self.prepared, self.stage.seconds))
        return result.exit_code

    def _dossier(self, result: RunResult) -> str:
        logs = self.journal.logs
        checks = sorted((logs / "check").glob("*.log"))
        facts = Facts(
            title=self.goal.title,
            goal_path=self.goal.path,
            repo=self.repo.root,
            check=self.prepared.check_label,
            check_output=both_ends(checks[-1].read_text("utf-8", "replace"), _LONGEST_QUOTE) if checks else "",
            changes=footprint.changes(self.repo.root, result.run.base, _LONGEST_QUOTE),
            logs=logs,
        )
        return dossier(result.run, result.reason, facts)

    def _end_in_fault(self, error: Exception, recorder: Recorder) -> None:
        """Write down as much as still can be; what an open session spent is counted from its log at the next start."""
        code = error.exit_code if isinstance(error, RalphError) else 3
        result = RunResult(self._last_saved, code, str(error), proven=False)
        head = None
        with contextlib.suppress(RepoError):  # it may be the repository that is broken
            head = self.repo.head()
        with contextlib.suppress(DiskError):
            self.journal.write_result(result, head)
            recorder(RunEnded(result.exit_code, result.reason, result.proven))
        self.stage.say(farewell(result, self.prepared, self.stage.seconds))

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
        )

    # What each step of the loop means on disk.

    def _kit(self, recorder: Recorder) -> Kit:
        condensing = self._condensing_kit(recorder)
        return Kit(
            session=self.stage.session_kit(self.prepared.agent, recorder, self.prepared.env),
            limits=self.settings.limits,
            most_failures=self.settings.failures,
            stall_after=self.settings.stall_after,
            on_denial=self.settings.on_denial,
            request=self._request,
            open_logs=self._open_logs,
            condense=lambda run, shrink: condense(run, condensing, shrink=shrink),
            undo=self._undo,
            commit=self._commit,
            record=self.journal.record,
            save=self._save,
            prove=self._prove,
            same_tree=lambda one, other: footprint.same_tree(self.repo.root, one, other),
            elsewhere=lambda: footprint.elsewhere(self.repo.root, self._last_saved.branch, sorted(self._nested)),
            observe=recorder,
            meter=lambda: recorder.meter,
            helm=Helm(self._hear),
            patience=self.stage.patience(recorder),
            elapsed=lambda: self.stage.seconds,
            random=random.random,
            new_id=lambda: str(uuid.uuid4()),
        )

    def _condensing_kit(self, recorder: Recorder) -> CondensingKit:
        agent = self.prepared.agent
        session = self.stage.session_kit(agent, recorder, self.prepared.env)
        return CondensingKit(
            session=replace(session, estimate=lambda: agent.estimate_in(self.settings.summarizer)),
            rhythm=self.settings.rhythm,
            request=self._summarizer_request,
            open_logs=lambda run: self._open_logs(run, SUMMARIZER),
            undo=self._undo,
            changes=lambda: self.repo.dirty_paths(self.goal.path),
            store=self._store_summary,
            save=self._save,
            observe=recorder,
            meter=lambda: recorder.meter,
            new_id=lambda: str(uuid.uuid4()),
            leave_if_interrupted=self.stage.patience(recorder).leave_if_interrupted,
        )

    def _summarizer_request(self, run: Run, through: int, session_id: str) -> Request:
        prompts = Prompts(self.repo.root / ".ralph" / "prompts")
        prompt = prompts.summarizer(self.goal, run, through, reply=self.prepared.runner.reply)
        return self.prepared.agent.request(
            prompt,
            session_id,
            self.settings.summarizer,
            root=self.repo.root,
            env=self._child_environment(run.finished),
            folder=self.journal.directory,
            read_only=True,
            allowance=self._allowance(run),
        )

    def _store_summary(self, run: Run, summary: Summary) -> None:
        summaryfile.store(self.journal.summary, summary, run=run.id, goal=run.goal)

    def _request(self, run: Run, session_id: str, shrunk: bool) -> Request:
        prompts = Prompts(self.repo.root / ".ralph" / "prompts")
        check, reply = self.prepared.check_label, self.prepared.runner.reply
        prompt = prompts.worker(
            self.goal,
            run,
            root=self.repo.root,
            check=check,
            reply=reply,
            verbatim=self.settings.rhythm.verbatim,
            shrunk=shrunk,
        )
        return self.prepared.agent.request(
            prompt,
            session_id,
            self.settings.worker,
            root=self.repo.root,
            env=self._child_environment(run.iteration),
            folder=self.journal.directory,
            allowance=self._allowance(run),
        )

    def _allowance(self, run: Run) -> Allowance:
        """What of the limits is left for a session that begins now."""
        timeout = self.settings.iteration_timeout
        return allowance(self.settings.limits, spent=run.spend, elapsed=self.stage.seconds, timeout=timeout)

    def _open_logs(self, run: Run, mode: str = "worker") -> LogFiles:
        number = run.iteration if mode == "worker" else run.finished
        logs = self.journal.log_files(self.settings.agent, mode, number, timestamp(time.time()))
        self._counted = logs.stdout.name  # what is saved after the session includes its cost
        return logs

    def _undo(self) -> gitrepo.Held:
        """Undo what a session or a check must not do; name what it was."""
        changed = self.snapshot.restore(self.repo.root, self.journal.undone)
        held = self.repo.hold(self._last_saved.branch, self._tip)
        return replace(held, undone=(f"changed {_listed(changed)}", *held.undone)) if changed else held

    def _commit(self, message: str) -> gitrepo.Committed:
        """Commit; what is left out is told once, not again with every iteration."""
        disturbed = self.repo.head() != self._tip
        committed = self.repo.commit_all(message, self.goal.path, self._owned, disturbed=disturbed)
        self._tip = committed.sha
        news = [path for path in committed.left_out if path not in self._told_left_out]
        nested = [path for path in committed.nested if path not in self._told_left_out]
        self._told_left_out.update(news, nested)
        self._nested.update(committed.nested)
        return replace(committed, left_out=tuple(news), nested=tuple(nested))

    def _child_environment(self, iteration: int) -> dict[str, str]:
        return {
            **self.prepared.env,
            "RALPH_GOAL": self.goal.name,
            "RALPH_ITERATION": str(iteration),
            "RALPH_RUN_ID": self._last_saved.id,
        }

    def _prove(self, iteration: int) -> CheckReport | None:
        if self.prepared.check is None:
            return None
        self._undo()
        log = self.journal.log_files("check", "check", iteration, timestamp(time.time())).stdout.with_suffix(".log")
        report = run_check(
            self.prepared.check,
            guardian=self.stage.guardian,
            root=self.repo.root,
            environment=self._child_environment(iteration),
            log=log,
            stop_requests=lambda: self.stage.signals.count,
        )
        self._undo()  # what the check itself did is not the next session's fault
        return report

    def _save(self, run: Run, exit_code: int | None = None, *, durable: bool = False) -> None:
        self._last_saved = run
        self.journal.save(
            run,
            repo=self.repo.root,
            goal_path=self.goal.path,
            goal_digest=self.goal.digest,
            check=self.prepared.check_label,
            agent=self.settings.agent,
            transcript=self.prepared.runner.transcript,
            model=self.settings.model,
            counted=self._counted,
            exit_code=exit_code,
            durable=durable,
        )
        limits = self.settings.limits
        self.windows.show_budget(
            cost_usd=run.spend.cost_usd,
            max_cost_usd=limits.cost_usd,
            iterations=len(run.history.iterations),
            max_iterations=limits.iterations,
        )

    def _show_session(self, events: Sequence[Event], at: str, _lines: bytes) -> None:
        for event in events:
            if isinstance(event, SessionStarted) and mode_of(self._counted) != SUMMARIZER:
                self.windows.show_session(event.session_id, at)


def _detail(flags: RunFlags) -> Detail:
    return Detail.QUIET if flags.quiet else Detail.VERBOSE if flags.verbose else Detail.NORMAL


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f".ralph/{name}" for name in names)
