"""One start of a run: begins or continues it, binds each step of the loop to disk, and writes down how it ended."""

import contextlib
import hashlib
import random
import sys
import time
import uuid
from collections.abc import Generator
from dataclasses import replace

from ralph import protected
from ralph.budget import Spend
from ralph.check import CheckReport, run_check
from ralph.cli.letters import farewell, greeting
from ralph.cli.prepare import Prepared, RunFlags, session_request
from ralph.errors import DiskError, Interrupted, RalphError, RepoError, UsageError
from ralph.events import RunEnded, RunStarted, SessionStarted, Stamped, Tag, Text
from ralph.journal import Journal, LogFiles, RepoLock, Saved, repo_key
from ralph.loop import Kit, pursue
from ralph.process import Child, Signals
from ralph.prompts import Prompts
from ralph.quantities import format_money, timestamp
from ralph.recorder import Recorder
from ralph.recovery import rebuilt_run, reconciled, spend_in_log
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
        self._counted = ""

    def carry_out(self) -> int:
        with contextlib.ExitStack() as held:
            with _refusing_a_bad_disk():
                self.lock.probe()
                self._look()  # refuse before anything is written
                held.enter_context(self.lock)
                held.enter_context(self.signals.watched())
                run, said = self._begin(self._look())
                held.callback(self.journal.close)
            return self._pursue(run, self._recorder(run), said)

    def _look(self) -> Saved | None:
        """Return the run to continue, None for a new one; refuse what cannot begin."""
        unfinished = self._unfinished()
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

    def _unfinished(self) -> Saved | None:
        """Find the unfinished run: in its directory or, if that is lost, in the commits it made."""
        if self.prepared.flags.fresh:
            return None
        loaded = self.journal.load()
        if isinstance(loaded, Saved):
            return None if loaded.finished else loaded
        if loaded is not None and self.journal.ended_proven():
            return None
        branch = self.prepared.place.branch or self.repo.branch()
        run = rebuilt_run(self.goal.name, branch, self.repo.iteration_commits(None))
        if loaded is None:  # nothing but commits: those of a run that ended with DONE are finished
            if run is None or run.unchecked_claim is not None:
                return None
            why = "its directory is gone"
        else:
            why = loaded.reason
            if run is None and not self.journal.session_logs(self.settings.agent):
                return None
        if run is None:
            run = Run(_new_run_id(), self.goal.name, branch, self.repo.head())
        else:
            run = replace(run, base=self.repo.parent(run.history.iterations[0].commit))
        return Saved(run, str(self.goal.path), self.digest, exit_code=None, counted="", rebuilt_because=why)

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
        said = [f"removed a stale {name} of git" for name in self.repo.clear_stale_locks()]
        if saved is None:
            if (moved := self.journal.archive()) is not None and self.prepared.flags.fresh:
                said.append(f"the last run was archived: {moved}")
            if self.prepared.place.branch:
                self.repo.switch(self.prepared.place.branch)
            run = Run(_new_run_id(), self.goal.name, self.repo.branch(), self.repo.head())
        else:
            run, recovered = self._recover(saved)
            said += recovered
        self.journal.open()
        self.repo.exclude(EXCLUDES)
        said += self._protect(saved)
        if saved is not None:
            self.journal.rewrite_progress(run.history)
            if self.repo.dirty_paths(self.goal.path):
                said.append("an interrupted session left changes in the tree; they stay, and the agent is told")
                run = run.noted("An earlier session was cut off; what it left in the tree is still there, uncommitted.")
        self.windows.link_run(self.goal.name, self.journal.directory)
        self._save(run)
        return run, said

    def _recover(self, saved: Saved) -> tuple[Run, list[str]]:
        """Take up an unfinished run: what is committed counts, and what was spent, whether it was recorded or not."""
        run, said = reconciled(saved.run, self.repo.iteration_commits(saved.run.base))
        logs = self.journal.session_logs(self.settings.agent, after=saved.counted)
        uncounted = [spend_in_log(log, self.prepared.runner.transcript) for log in logs]
        spent = sum(uncounted, Spend() if saved.rebuilt_because else run.spend)
        if spent.cost_usd > run.spend.cost_usd or spent.tokens > run.spend.tokens:
            if not saved.rebuilt_because:
                more = format_money(spent.cost_usd - run.spend.cost_usd)
                said.append(f"counted what a session that was cut off had spent: {more}")
            run = run.spent(spent)
        self._counted = logs[-1].name if logs else saved.counted
        if saved.rebuilt_because:
            self.journal.set_aside_damaged()
        opening = f"continuing the unfinished run {run.id} at iteration {run.iteration}; --fresh begins anew"
        if saved.rebuilt_because:
            opening += f" ({saved.rebuilt_because}: rebuilt from {len(run.history.iterations)} commits)"
        if saved.goal_digest != self.digest:
            said.append("the goal's text has changed since; the new text counts")
        return run, [opening, *said]

    def _protect(self, saved: Saved | None) -> list[str]:
        """Fix the version of the user's files that rules this run."""
        store = self.journal.snapshot
        if saved is None or not store.is_dir():
            protected.take(self.repo.root, store)
            return []
        if not (changed := protected.changed(self.repo.root, store)):
            return []
        names = ", ".join(f".ralph/{name}" for name in changed)
        if saved.exit_code is not None:  # the last start undid the agent's changes and ended: these are the user's
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
            reason = f"interrupted by signal {stopped.signal_number}"
            result = RunResult(self._last_saved, stopped.exit_code, reason, proven=False)
        except RalphError as error:
            self._end_in_fault(error, recorder)
            raise
        except OSError as error:
            fault = DiskError(error.filename or self.journal.directory, error)
            self._end_in_fault(fault, recorder)
            raise fault from error
        self._end(result, recorder)
        if not self.prepared.flags.json:
            for label, text in farewell(result, self.prepared, self.journal.directory, time.monotonic() - self.started):
                self.console.say(label, text)
        return result.exit_code

    def _end(self, result: RunResult, recorder: Recorder) -> None:
        """Write down how it ended."""
        self._save(result.run, result.exit_code)
        self.journal.write_result(result, self.repo.head())
        recorder(RunEnded(result.exit_code, result.reason, result.proven))

    def _end_in_fault(self, error: RalphError, recorder: Recorder) -> None:
        """Write down as much as still can be; what an open session spent is counted from its log at the next start."""
        with contextlib.suppress(DiskError, RepoError):
            self.journal.write_result(
                RunResult(self._last_saved, error.exit_code, error.message, proven=False), self.repo.head()
            )
            recorder(RunEnded(error.exit_code, error.message, proven=False))

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
            open_logs=self._open_logs,
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

    def _open_logs(self, run: Run) -> LogFiles:
        logs = self.journal.log_files(self.settings.agent, "worker", run.iteration, timestamp(time.time()))
        self._counted = logs.stdout.name  # what is saved after the session includes its cost
        return logs

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
            stop_requests=lambda: self.signals.count,
        )

    def _save(self, run: Run, exit_code: int | None = None) -> None:
        self._last_saved = run
        self.journal.save(
            run, goal_path=self.goal.path, goal_digest=self.digest, counted=self._counted, exit_code=exit_code
        )
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


def _new_run_id() -> str:
    return uuid.uuid4().hex[:12]


@contextlib.contextmanager
def _refusing_a_bad_disk() -> Generator[None]:
    """Before a run has begun, a disk that cannot be written is a reason not to begin."""
    try:
        yield
    except DiskError as error:
        raise UsageError(error.message, error.hint) from error
    except OSError as error:
        fault = DiskError(error.filename or "the disk", error)
        raise UsageError(fault.message, fault.hint) from error
