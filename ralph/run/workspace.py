"""The loop's collaborators on disk: sessions with their logs, and the run's record."""

import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from ralph.core.events import AgentChanged, Event, IterationStarted, SessionStarted, SummaryStarted
from ralph.core.fallback import AgentQuotas
from ralph.core.limits import Allowance, allowance, for_summary
from ralph.core.run import Iteration, Run
from ralph.core.summary import Summary
from ralph.core.text import timestamp
from ralph.core.verdict import Reply
from ralph.run import summarizer
from ralph.run.agent import AgentHost, ChosenAgent, version_of
from ralph.run.observers import Recorder
from ralph.run.prepare import Prepared
from ralph.run.prompts import AgentsMd, Prompts, kept_agents_md
from ralph.run.session import SessionReport, Sessions, run_session
from ralph.run.summarizer import SUMMARIZER, ReadOnlyTree, SummaryWorkspace
from ralph.state.journal import Journal, LogFiles, Saved, mode_of
from ralph.state.project import ProjectLinks
from ralph.system.clock import VisibleWait


class RunFiles:
    """The run's record: its directory, and its copies in the project's `.ralph/`."""

    def __init__(self, prepared: Prepared, journal: Journal, run: Run, counted: str) -> None:
        """Take over from a start; `counted` is the last raw log whose cost is in the run's spend."""
        self.journal, self.last_saved = journal, run
        self._prepared, self._counted = prepared, counted
        self._links = ProjectLinks(prepared.repo.root)

    def save(self, run: Run, exit_code: int | None = None, *, durable: bool = False) -> None:
        self.last_saved = run
        prepared, chosen = self._prepared, self._prepared.settings
        saved = Saved(
            run,
            str(prepared.goal.path),
            prepared.goal.digest,
            check=prepared.check_label,
            agent=chosen.agent,
            transcript=prepared.agent.runner.transcript,
            model=chosen.model,
            exit_code=exit_code,
            dotenv=chosen.said_in(str(prepared.repo.root / ".env")),
            counted=self._counted,
            repo=str(prepared.repo.root),
        )
        self.journal.save(saved, durable=durable)
        self._links.show_budget(
            cost_usd=run.spend.cost_usd,
            max_cost_usd=chosen.limits.cost_usd,
            iterations=len(run.history.iterations),
            max_iterations=chosen.limits.iterations,
        )

    def record(self, iteration: Iteration) -> None:
        self.journal.record(iteration)

    def save_summary(self, run: Run, summary: Summary) -> None:
        summarizer.store(self.journal.summary, summary, run=run.id, goal=run.goal)

    def open_logs(self, agent: str, mode: str, number: int) -> LogFiles:
        """Name the raw logs of a session that is about to start."""
        logs = self.journal.log_files(agent, mode, number, timestamp(time.time()))
        self._counted = logs.stdout.name  # what is saved after the session includes its cost
        return logs

    def show_session(self, events: Sequence[Event], at: str, _lines: bytes) -> None:
        for event in events:
            if isinstance(event, SessionStarted):
                self._links.show_session(mode_of(self._counted), event.session_id, at)


@dataclass(frozen=True, slots=True)
class _StandBy:
    """One agent of a run, and what its sessions share."""

    agent: ChosenAgent
    agents_md: AgentsMd
    workers: Sessions
    summarizers: Sessions


class RunSessions:
    """The sessions of a run: workers, and summarizers in between; by the first agent whose quota is not used up."""

    def __init__(
        self,
        prepared: Prepared,
        host: AgentHost,
        record: RunFiles,
        tree: ReadOnlyTree,
        recorder: Recorder,
        clock: VisibleWait,
    ) -> None:
        self._prepared, self._record, self._recorder, self._clock = prepared, record, recorder, clock
        begun, directory = record.last_saved, record.journal.directory
        text = kept_agents_md(directory, prepared.repo.root, begun.base, begins=not begun.history.iterations)
        agents = (prepared.agent, *prepared.fallbacks)
        self._agents = [self._stand_by(agent, text, host) for agent in agents]
        self._quotas = AgentQuotas((0.0,) * len(agents), prepared.settings.fallback.after)
        self._at = 0
        """Which of them works."""
        self._prompts = Prompts(prepared.repo.root / ".ralph" / "prompts")
        self._summarizing = SummaryWorkspace(prepared.settings.rhythm, self, tree, record, recorder, clock)

    @property
    def reply(self) -> Reply:
        return self._agents[self._at].agent.runner.reply

    def _stand_by(self, agent: ChosenAgent, agents_md: str, host: AgentHost) -> _StandBy:
        prepared = self._prepared
        seat = host.serving(agent)
        quotes = AgentsMd(agents_md, agent.settings, prepared.repo.root, lambda: version_of(agent, prepared.env))
        return _StandBy(agent, quotes, Sessions(agent, seat, self._recorder), Sessions(agent, seat, self._recorder))

    def _turn_to_next(self) -> _StandBy:
        """Choose the agent of the next session; say so if it is another than that of the last one."""
        now = self._clock.now()
        chosen = self._quotas.choose(now)
        if chosen != self._at:
            self._at, agent = chosen, self._agents[chosen].agent
            path, transcript = agent.runner.path, agent.runner.transcript
            wanted = self._prepared.settings.agent if chosen else ""
            until = self._quotas.back_at(chosen, now)
            self._recorder(AgentChanged(agent.settings.agent, path, transcript, agent.model, wanted, until))
        return self._agents[self._at]

    def next_start(self, resets_at: float | None, not_before: float | None) -> float | None:
        now = self._clock.now()
        self._quotas, start = self._quotas.after_limit(self._at, resets_at, not_before, now)
        return start

    def work(self, run: Run, *, shrunk: bool) -> SessionReport:
        prepared, by = self._prepared, self._turn_to_next()
        chosen = by.agent.settings
        prompt = self._prompts.worker(
            prepared.goal,
            run,
            root=prepared.repo.root,
            check=prepared.check_label,
            reply=self.reply,
            agents_md=by.agents_md.to_quote(prepared.env),
            verbatim=chosen.rhythm.verbatim,
            shrunk=shrunk,
        )
        request = by.agent.request(
            prompt,
            str(uuid.uuid4()),
            chosen.worker,
            root=prepared.repo.root,
            env=prepared.environment(run, run.iteration),
            folder=self._record.journal.directory,
            allowance=self._allowance(run),
        )
        logs = self._record.open_logs(chosen.agent, "worker", run.iteration)
        self._recorder(IterationStarted(run.iteration, request.session_id, str(logs.stdout)))
        return run_session(request, logs, by.workers)

    def condense(self, run: Run, *, shrink: bool) -> Run | None:
        return summarizer.condense(run, self._summarizing, shrink=shrink)

    def summarize(self, run: Run, through: int) -> SessionReport:
        prepared, by = self._prepared, self._turn_to_next()
        request = by.agent.request(
            self._prompts.summarizer(prepared.goal, run, through, reply=self.reply),
            str(uuid.uuid4()),
            by.agent.settings.summarizer,
            root=prepared.repo.root,
            env=prepared.environment(run, run.finished),
            folder=self._record.journal.directory,
            read_only=True,
            allowance=for_summary(self._allowance(run)),
        )
        logs = self._record.open_logs(by.agent.settings.agent, SUMMARIZER, run.finished)
        self._recorder(SummaryStarted(through, request.session_id, str(logs.stdout)))
        return run_session(request, logs, by.summarizers)

    def _allowance(self, run: Run) -> Allowance:
        """Return what remains of the limits for a session that starts now."""
        chosen, elapsed = self._prepared.settings, self._clock.elapsed()
        return allowance(chosen.limits, spent=run.spend, elapsed=elapsed, timeout=chosen.iteration_timeout)
