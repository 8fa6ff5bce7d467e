"""One start of a run: begins or continues it, binds each step of the loop to disk, and writes down how it ended."""

import hashlib
import random
import sys
import time
import uuid
from dataclasses import replace

from ralph import protected
from ralph.check import CheckReport, run_check
from ralph.cli.letters import farewell, greeting
from ralph.cli.prepare import Prepared, RunFlags, session_request
from ralph.errors import Interrupted, RalphError, UsageError
from ralph.events import RunEnded, RunStarted, SessionStarted, Stamped, Tag, Text
from ralph.journal import Journal, RepoLock, Saved, repo_key
from ralph.loop import Kit, pursue
from ralph.process import Child, Signals
from ralph.prompts import Prompts
from ralph.quantities import timestamp
from ralph.recorder import Recorder
from ralph.run import Run, RunResult
from ralph.runners import Launch, Request
from ralph.session import Logs, SessionKit
from ralph.ui.console import Console, Detail, json_screen
from ralph.windows import EXCLUDES, Windows


class Pursuit:
    """One start of a run: its collaborators, and what each step of the loop means on disk."""

    def __init__(self, prepared: Prepared) -> None:
        self.prepared = prepared
        self.goal = prepared.goal
        self.repo = prepared.repo
        self.settings = prepared.settings
        directory = prepared.ralph_dir / "runs" / repo_key(self.repo.root)
        self.lock = RepoLock(directory, self.goal.name)
        self.journal = Journal(directory / self.goal.name)
        self.windows = Windows(self.repo.root)
        self.signals = Signals()
        self.digest = hashlib.sha256(self.goal.text.encode()).hexdigest()
        self.console = Console(sys.stdout, _detail(prepared.flags), str(self.repo.root))
        self.started = time.monotonic()

    def carry_out(self) -> int:
        self.lock.probe()
        self._look(self.journal.load())  # refuse before anything is written
        with self.lock, self.signals.watched():
            saved = self._look(self.journal.load())
            run, recovered = self._begin(saved)
            recorder = self._recorder(run)
            try:
                return self._pursue(run, recorder, recovered)
            finally:
                self.journal.close()

    def _look(self, saved: Saved | None) -> Saved | None:
        """Return the run to continue, None for a new one; refuse what cannot begin."""
        unfinished = saved if saved is not None and not saved.finished and not self.prepared.flags.fresh else None
        if self.prepared.flags.resume and unfinished is None:
            raise UsageError(
                f"there is no unfinished run of {self.goal.name} to continue", "leave out --continue to begin one"
            )
        if unfinished is not None:
            self._refuse_mismatch(unfinished)
        elif not self.prepared.flags.allow_dirty and (dirty := self.repo.dirty_paths(self.goal.path)):
            shown = ", ".join(dirty[:5]) + (f" and {len(dirty) - 5} more" if len(dirty) > 5 else "")
            raise UsageError(
                f"the working tree has changes: {shown}",
                "commit or stash them, or let them join the first commit with --allow-dirty",
            )
        return unfinished

    def _refuse_mismatch(self, saved: Saved) -> None:
        if saved.goal_path != str(self.goal.path):
            raise UsageError(
                f"an unfinished run of the goal {self.goal.name} is of {saved.goal_path}, not of {self.goal.path}",
                "rename one of the files, or archive that run with --fresh",
            )
        here = self.prepared.place.branch or self.repo.branch()
        if saved.run.branch != here:
            raise UsageError(
                f"the unfinished run of {self.goal.name} is on branch {saved.run.branch}, not on {here or 'no branch'}",
                f"switch to it: git switch {saved.run.branch}; or archive that run with --fresh",
            )

    def _begin(self, saved: Saved | None) -> tuple[Run, list[str]]:
        """Make the run directory and the tree ready; say what was found there."""
        said: list[str] = []
        if saved is None:
            previous = self.journal.load()
            if previous is not None and (moved := self.journal.archive(previous.run.id)) and self.prepared.flags.fresh:
                said.append(f"the last run was archived: {moved}")
            if self.prepared.place.branch:
                self.repo.switch(self.prepared.place.branch)
            run = Run(uuid.uuid4().hex[:12], self.goal.name, self.repo.branch(), self.repo.head())
        else:
            run = saved.run
            said.append(f"continuing the unfinished run {run.id} at iteration {run.iteration}; --fresh begins anew")
            if saved.goal_digest != self.digest:
                said.append("the goal's text has changed since; the new text counts")
        self.journal.open()
        self.repo.exclude(EXCLUDES)
        said += self._protect(saved)
        if saved is not None and self.repo.dirty_paths(self.goal.path):
            said.append("an interrupted session left changes in the tree; they stay, and the agent is told")
            run = run.noted(
                "An earlier session was interrupted or failed; what it left in the tree is still there, uncommitted."
            )
        self.windows.link_run(self.goal.name, self.journal.directory)
        self._save(run)
        return run, said

    def _protect(self, saved: Saved | None) -> list[str]:
        """Fix the version of the user's files that rules this run."""
        store = self.journal.snapshot
        if saved is None or not store.is_dir():
            protected.take(self.repo.root, store)
            return []
        if not (changed := protected.changed(self.repo.root, store)):
            return []
        names = ", ".join(f".ralph/{name}" for name in changed)
        if (
            saved.exit_code is not None
        ):  # the last start undid the agent's changes and said goodbye: these are the user's
            protected.take(self.repo.root, store)
            return [f"{names} changed since the last start; the new version rules from now on"]
        protected.restore(self.repo.root, store, self.journal.undone)
        return [
            f"{names} changed while the run was cut off and is restored; the other version is in {self.journal.undone}"
        ]

    def _recorder(self, run: Run) -> Recorder:
        screen = json_screen(sys.stdout) if self.prepared.flags.json else self.console
        return Recorder(self.journal, now=time.time, spent=run.spend, screens=[self._show_session, screen])

    def _pursue(self, run: Run, recorder: Recorder, said: list[str]) -> int:
        if not self.prepared.flags.json:
            for label, text in greeting(self.prepared, run, self.journal.directory):
                self.console.say(label, text)
        recorder(self._run_started(run))
        for note in said:
            recorder(Text(Tag.SYS, note))
        try:
            result = pursue(run, self._kit(recorder))
        except Interrupted as stopped:
            result = RunResult(
                self._last_saved, stopped.exit_code, f"interrupted by signal {stopped.signal_number}", proven=False
            )
        except RalphError as error:
            self._end(RunResult(self._last_saved, error.exit_code, error.message, proven=False), recorder)
            raise
        result = self._end(result, recorder)
        if not self.prepared.flags.json:
            for label, text in farewell(result, self.prepared, self.journal.directory, time.monotonic() - self.started):
                self.console.say(label, text)
        return result.exit_code

    def _end(self, result: RunResult, recorder: Recorder) -> RunResult:
        """Write down how it ended, with everything spent up to now."""
        result = replace(result, run=result.run.spent(recorder.meter.total))
        self._save(result.run, result.exit_code)
        self.journal.write_result(result, self.repo.head())
        recorder(RunEnded(result.exit_code, result.reason, result.proven))
        return result

    def _run_started(self, run: Run) -> RunStarted:
        check = self.prepared.check
        return RunStarted(
            goal=run.goal,
            run=run.id,
            repo=str(self.repo.root),
            branch=run.branch,
            agent=self.settings.agent,
            agent_path=self.prepared.runner.path,
            model=self.settings.model,
            reasoning=self.settings.reasoning,
            check=check.label if check else "",
            continued=bool(run.history.iterations or run.failed),
            iteration=run.iteration,
        )

    # What each step of the loop means on disk.

    def _kit(self, recorder: Recorder) -> Kit:
        session = SessionKit(
            runner=self.prepared.runner,
            start=self._start,
            observe=recorder,
            monotonic=time.monotonic,
            stop_requests=lambda: self.signals.count,
            idle_timeout=self.settings.idle_timeout,
            timeout=self.settings.iteration_timeout,
        )
        return Kit(
            session=session,
            limits=self.settings.limits,
            most_failures=self.settings.failures,
            on_denial=self.settings.on_denial,
            request=self._request,
            open_logs=lambda run: self.journal.log_files(
                self.settings.agent, "worker", run.iteration, timestamp(time.time())
            ),
            restore_protected=lambda: protected.restore(self.repo.root, self.journal.snapshot, self.journal.undone),
            hold_branch=self._hold_branch,
            commit=lambda message: self.repo.commit_all(message, self.goal.path),
            record=self.journal.record,
            save=self._save,
            prove=self._prove,
            observe=recorder,
            meter=lambda: recorder.meter,
            now=time.time,
            elapsed=lambda: time.monotonic() - self.started,
            sleep=time.sleep,
            random=random.random,
            new_id=lambda: str(uuid.uuid4()),
            interrupted=lambda: self.signals.first,
        )

    def _hold_branch(self) -> bool:
        run = self._last_saved
        return self.repo.hold_branch(run.branch, run.history.last.commit if run.history.last else run.base)

    def _request(self, run: Run, session_id: str, shrunk: bool) -> Request:
        prompts = Prompts(self.journal.snapshot / "prompts")
        check = self.prepared.check.label if self.prepared.check else ""
        prompt = prompts.worker(self.goal, run, root=self.repo.root, check=check, shrunk=shrunk)
        return session_request(
            prompt, session_id, self.settings, self.repo.root, self._child_environment(run.iteration)
        )

    def _child_environment(self, iteration: int) -> dict[str, str]:
        return {
            **self.prepared.env,
            "RALPH_GOAL": self.goal.name,
            "RALPH_ITERATION": str(iteration),
            "RALPH_RUN_ID": self._last_saved.id,
        }

    def _start(self, launch: Launch, logs: Logs) -> Child:
        return Child(
            launch.argv,
            cwd=self.repo.root,
            environment=launch.environment,
            stdout_log=logs.stdout,
            stderr_log=logs.stderr,
        )

    def _prove(self, iteration: int) -> CheckReport | None:
        if self.prepared.check is None:
            return None
        protected.restore(self.repo.root, self.journal.snapshot, self.journal.undone)
        log = self.journal.log_files("check", "check", iteration, timestamp(time.time())).stdout.with_suffix(".log")
        return run_check(
            self.prepared.check,
            root=self.repo.root,
            environment=self._child_environment(iteration),
            log=log,
            stop_requested=lambda: self.signals.count > 0,
        )

    def _save(self, run: Run, exit_code: int | None = None) -> None:
        self._last_saved = run
        self.journal.save(run, goal_path=self.goal.path, goal_digest=self.digest, exit_code=exit_code)
        limits = self.settings.limits
        self.windows.show_budget(
            cost_usd=run.spend.cost_usd,
            max_cost_usd=limits.cost_usd,
            iterations=len(run.history.iterations),
            max_iterations=limits.iterations,
        )

    def _show_session(self, stamped: Stamped, _line: str) -> None:
        if isinstance(stamped.event, SessionStarted):
            self.windows.show_session(stamped.event.session_id, stamped.at)


def _detail(flags: RunFlags) -> Detail:
    return Detail.QUIET if flags.quiet else Detail.VERBOSE if flags.verbose else Detail.NORMAL
