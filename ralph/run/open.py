"""The third step of a start: the environment settled, run directory and tree made ready, and what was found there."""

import time
from dataclasses import dataclass, replace

from ralph.config.environment import Beginning, agent_environment, passed_over, stands
from ralph.config.envrc_files import Envrc
from ralph.core.guidance import Act, Instruction, Steering
from ralph.core.run import Run
from ralph.core.text import timestamp
from ralph.run.agent import AgentHost
from ralph.run.check import require_program
from ralph.run.loop import Rules, Workspace
from ralph.run.observers import Recorder
from ralph.run.prepare import Prepared
from ralph.run.resume import TakenUp, new_run_id, take_up
from ralph.run.screen import RunScreen
from ralph.run.workspace import RunFiles, RunSessions, WorkTree
from ralph.state import project
from ralph.state.inbox import Inbox
from ralph.state.journal import Journal, Saved
from ralph.state.project import EXCLUDES, ProjectLinks, listed

_PATIENCE_WITH_GIT = 10.0
"""Seconds that a start gives a git at work to end: the commit that a ralph killed with -9 had begun goes on."""


@dataclass(frozen=True, slots=True)
class Surrounded:
    """A prepared run with the environment of its agent and check; `notes` is what the header does not say of it."""

    prepared: Prepared
    envrc: Envrc
    beginning: Beginning
    notes: list[str]


@dataclass(frozen=True, slots=True)
class OpenRun:
    """A run whose directory and tree are ready; `said` is what was found there."""

    run: Run
    record: RunFiles
    tree: WorkTree
    inbox: Inbox
    said: list[str]


def surround(prepared: Prepared, saved: Saved | None, journal: Journal, host: AgentHost, *, greets: bool) -> Surrounded:
    """Settle the environment of the agent and the check."""
    asked, root, env = prepared.asked, prepared.repo.root, prepared.asked.env
    envrc, trusting = stands(root, env), asked.flags.trust_envrc
    beginning = Beginning(None) if saved is None else Beginning.of(journal.directory)
    around = agent_environment(
        envrc,
        env,
        guardian=host.guardian,
        signals=host.signals,
        ralph_dir=asked.ralph_dir,
        timeout=prepared.settings.envrc_timeout,
        beginning=beginning,
        trusting=trusting,
        by_agent=trusting and prepared.repo.last_changed_by_ralph(envrc.files),
    )
    if prepared.check is not None:
        require_program(prepared.check, root, around.env.get("PATH", ""))
    unsaid = [around.note] if around.note and not greets else []
    return Surrounded(replace(prepared, around=around), envrc, beginning, [*passed_over(root, env), *unsaid])


def open_run(
    surrounded: Surrounded, saved: Saved | None, journal: Journal, host: AgentHost, mail_before: int
) -> OpenRun:
    """Make the run directory and the tree ready; `mail_before` is the size of the inbox when this start began."""
    prepared, goal, repo = surrounded.prepared, surrounded.prepared.goal, surrounded.prepared.repo

    def pause(seconds: float) -> None:
        host.leave_if_interrupted()
        time.sleep(seconds)

    cleared = repo.clear_stale_locks(_PATIENCE_WITH_GIT, pause)
    waiting, archived = _archive(prepared, journal, mail_before) if saved is None else ([], [])
    run = Run(new_run_id(), goal.name, repo.branch(), repo.head())
    taken_up = TakenUp(run, "", []) if saved is None else take_up(saved, prepared, journal)
    run, said = taken_up.run, [*(f"removed a stale {name} of git" for name in cleared), *archived, *taken_up.said]
    if saved is not None and saved.exit_code is None:  # whoever committed: the session that was cut off, or the user
        for path in repo.secrets_since(run.tip):
            said.append(f"committed since the last iteration, and looks like a secret: {path}")
            run = run.noted(said[-1])
    journal.open()
    for word in waiting:
        Inbox(journal.directory).post(word.act, word.text, timestamp(time.time()))
    surrounded.beginning.keep(surrounded.envrc, journal.directory)
    repo.exclude(EXCLUDES)
    snapshot = project.take(repo.root)
    said += _protect(prepared, journal, snapshot, saved)
    if saved is not None:
        journal.rewrite_progress(run.history)
        if repo.dirty_paths(goal.path):
            said.append("an interrupted session left changes in the tree; they stay, and the agent is told")
            run = run.noted("An earlier session was cut off; what it left in the tree is still there, uncommitted.")
    ProjectLinks(repo.root).link_run(goal.name, journal.directory)
    inbox = Inbox(journal.directory, run.heard, stale=0 if saved is None else mail_before)
    record = RunFiles(prepared, journal, run, taken_up.counted)
    tree = WorkTree(prepared, host, journal, run, snapshot)
    record.save(run, durable=True)
    return OpenRun(run, record, tree, inbox, said)


def workspace(prepared: Prepared, opened: OpenRun, host: AgentHost, screen: RunScreen, recorder: Recorder) -> Workspace:
    """Put together what the loop works with."""

    def hear() -> list[Instruction]:
        """What was asked since the last time, also by the key that ends a wait where there is no view."""
        return [*opened.inbox.read(), *(Instruction(0, act, by_key=True) for act in screen.take_asked())]

    chosen, clock = prepared.settings, screen.patience(recorder)
    return Workspace(
        Rules(chosen.limits, chosen.failures, chosen.stall_after, chosen.on_denial),
        RunSessions(prepared, host, opened.record, opened.tree, recorder, clock),
        opened.tree,
        opened.record,
        recorder,
        Steering(hear),
        clock,
    )


def _archive(prepared: Prepared, journal: Journal, mail_before: int) -> tuple[list[Instruction], list[str]]:
    """Move the last run aside; return what the user told it and no session heard, and what is to be said of it."""
    last = journal.load()
    if (moved := journal.archive()) is None:
        return [], []
    heard = last.run.heard if isinstance(last, Saved) else 0
    untold = [item for item in last.run.guidance if item.told == 0] if isinstance(last, Saved) else []
    waiting = [Instruction(item.number, Act.TELL, item.text) for item in untold]
    said = [f"the last run was archived: {moved}"] if prepared.flags.fresh else []
    return [*waiting, *Inbox(moved, heard, stale=mail_before).read()], said


def _protect(prepared: Prepared, journal: Journal, snapshot: project.Snapshot, saved: Saved | None) -> list[str]:
    """Fix the version of the user's files that rules from now on: the one that stands."""
    before = project.stored(journal.snapshot)
    snapshot.store(journal.snapshot)
    if saved is None or before is None or before == snapshot:
        return []
    # The last start undid the agent's changes before it ended, so these are the user's own.
    names = listed(before.changed(prepared.repo.root))
    return [f"{names} changed since the last start; the new version rules from now on"]
