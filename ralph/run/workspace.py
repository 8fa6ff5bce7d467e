"""What each step of the loop means on disk: sessions and their logs, commits, the check, the run's record."""

import random
import time
import uuid
from collections.abc import Sequence
from dataclasses import replace

from ralph.agents.base import Request
from ralph.core.events import CheckStarted, Event, SessionStarted
from ralph.core.guidance import Instruction, Steering
from ralph.core.limits import Allowance, allowance, for_summary
from ralph.core.run import Run
from ralph.core.summary import Summary
from ralph.core.text import timestamp
from ralph.git import repo
from ralph.git.repo import elsewhere, same_tree
from ralph.run import summarizer
from ralph.run.agent import AgentHost
from ralph.run.check import CheckReport, run_check
from ralph.run.loop import Kit
from ralph.run.observers import Recorder
from ralph.run.prepare import Prepared
from ralph.run.prompts import Prompts
from ralph.run.summarizer import SUMMARIZER, CondensingKit, condense
from ralph.state.inbox import Inbox
from ralph.state.journal import Journal, LogFiles, mode_of
from ralph.state.project import ProjectLinks, Snapshot, listed


class Workspace:
    """Where a run works: its repository, its directory, the stage; bound together for the loop."""

    def __init__(
        self,
        prepared: Prepared,
        stage: AgentHost,
        journal: Journal,
        mailbox: Inbox,
        *,
        run: Run,
        snapshot: Snapshot,
        counted: str,
    ) -> None:
        """Take over where a start has made everything ready; `counted` is the last raw log that is in the spend."""
        self.prepared, self.stage, self.journal = prepared, stage, journal
        self.goal, self.repo, self.settings = prepared.goal, prepared.repo, prepared.settings
        self.last_saved = run
        self._windows = ProjectLinks(self.repo.root)
        self.mailbox = mailbox
        self._snapshot = snapshot
        self._counted = counted
        self._tip = self.repo.head()
        self._owned = self.repo.owned(run.base, self.goal.path)
        self._told_left_out: set[str] = set()
        self._nested: set[str] = set()

    def kit(self, recorder: Recorder) -> Kit:
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
            save=self.save,
            prove=lambda iteration: self._prove(iteration, recorder),
            same_tree=lambda commits, other: same_tree(self.repo.root, commits, other),
            elsewhere=lambda: elsewhere(self.repo.root, self.last_saved.branch, sorted(self._nested)),
            observe=recorder,
            meter=lambda: recorder.status.meter,
            helm=Steering(self._hear),
            patience=self.stage.patience(recorder),
            elapsed=lambda: self.stage.seconds,
            random=random.random,
            new_id=lambda: str(uuid.uuid4()),
        )

    def _hear(self) -> list[Instruction]:
        """The words since the last time, and the key that ends a wait where there is no view."""
        return [*self.mailbox.read(), *(Instruction(0, act, by_key=True) for act in self.stage.take_asked())]

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
            save=self.save,
            observe=recorder,
            meter=lambda: recorder.status.meter,
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
            allowance=for_summary(self._allowance(run)),
        )

    def _store_summary(self, run: Run, summary: Summary) -> None:
        summarizer.store(self.journal.summary, summary, run=run.id, goal=run.goal)

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

    def _undo(self) -> repo.Held:
        """Undo what a session or a check must not do; name what it was."""
        changed = self._snapshot.restore(self.repo.root, self.journal.undone)
        held = self.repo.hold(self.last_saved.branch, self._tip)
        return replace(held, undone=(f"changed {listed(changed)}", *held.undone)) if changed else held

    def _commit(self, message: str) -> repo.Committed:
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
            "RALPH_RUN_ID": self.last_saved.id,
        }

    def _prove(self, iteration: int, recorder: Recorder) -> CheckReport | None:
        if self.prepared.check is None:
            return None
        recorder(CheckStarted(iteration))
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

    def save(self, run: Run, exit_code: int | None = None, *, durable: bool = False) -> None:
        self.last_saved = run
        self.journal.save(
            run,
            repo=self.repo.root,
            goal_path=self.goal.path,
            goal_digest=self.goal.digest,
            check=self.prepared.check_label,
            agent=self.settings.agent,
            transcript=self.prepared.runner.transcript,
            model=self.settings.model,
            dotenv=self.settings.said_in(str(self.repo.root / ".env")),
            counted=self._counted,
            exit_code=exit_code,
            durable=durable,
        )
        limits = self.settings.limits
        self._windows.show_budget(
            cost_usd=run.spend.cost_usd,
            max_cost_usd=limits.cost_usd,
            iterations=len(run.history.iterations),
            max_iterations=limits.iterations,
        )

    def show_session(self, events: Sequence[Event], at: str, _lines: bytes) -> None:
        for event in events:
            if isinstance(event, SessionStarted) and mode_of(self._counted) != SUMMARIZER:
                self._windows.show_session(event.session_id, at)
