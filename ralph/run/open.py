"""The third step of a start: settle the environment, prepare the run directory and the tree, report what was found."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from ralph.config.environment import Beginning, agent_environment, passed_over, stands
from ralph.config.envrc_files import Envrc
from ralph.core.guidance import Act, Instruction, Steering
from ralph.core.progress import Reporter, unreported
from ralph.core.run import CheckRecord, Run
from ralph.core.text import timestamp
from ralph.run.agent import AgentHost
from ralph.run.loop import Rules, Workspace
from ralph.run.observers import Recorder
from ralph.run.prepare import Prepared
from ralph.run.resume import TakenUp, new_run_id, take_up
from ralph.run.screen import RunScreen
from ralph.run.tree import WorkTree
from ralph.run.workspace import RunFiles, RunSessions
from ralph.state import project
from ralph.state.inbox import Inbox
from ralph.state.journal import Journal, Saved
from ralph.state.project import EXCLUDES, ProjectLinks, listed
from ralph.system.files import make_private_directory, replace_file

_PATIENCE_WITH_GIT = 10.0
"""Seconds that a start waits for a running git: a commit continues after ralph is killed with -9."""


@dataclass(frozen=True, slots=True)
class Surrounded:
    """A prepared run with the environment of its agent and check; the header does not show its `notes`."""

    prepared: Prepared
    envrc: Envrc
    beginning: Beginning
    notes: list[str]


@dataclass(frozen=True, slots=True)
class OpenRun:
    """A run whose directory and tree are ready; `said` reports what was found there."""

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
        sandbox=host.sandbox,
        signals=host.signals,
        ralph_dir=asked.ralph_dir,
        timeout=prepared.settings.envrc_timeout,
        beginning=beginning,
        trusting=trusting,
        by_agent=trusting and prepared.repo.last_changed_by_ralph(envrc.files),
    )
    prepared = replace(prepared, around=around)
    prepared.require_program()
    unsaid = [around.note] if around.note and not greets else []
    return Surrounded(prepared, envrc, beginning, [*passed_over(root, env), *unsaid])


def open_run(
    surrounded: Surrounded,
    saved: Saved | None,
    journal: Journal,
    host: AgentHost,
    inbox_before: int,
    show: Callable[[bytes], None],
    red: CheckRecord | None = None,
    report: Reporter = unreported,
) -> OpenRun:
    """Make the run directory and the tree ready; `inbox_before` is the size of the inbox when this start began.

    `show` gets what the check prints; `red` is what it said of a tree in which the goal had been proven before.
    """
    prepared, goal, repo = surrounded.prepared, surrounded.prepared.goal, surrounded.prepared.repo
    cleared = repo.clear_stale_locks(_PATIENCE_WITH_GIT, report)
    waiting, archived = _archive(prepared, journal, inbox_before) if saved is None else ([], [])
    run = Run(new_run_id(), goal.name, repo.branch(), repo.head(), check=red)
    taken_up = TakenUp(run, "", []) if saved is None else take_up(saved, prepared, journal)
    run, said = taken_up.run, [*(f"removed git's stale {name}" for name in cleared), *archived, *taken_up.said]
    if saved is not None and saved.exit_code is None:  # committed by the interrupted session, or by the user
        for path in repo.secrets_since(run.tip):
            said.append(f"committed since the last iteration (looks like a secret): {path}")
            run = run.noted(said[-1])
    journal.open()
    if goal.path.is_relative_to(journal.directory):  # a goal from `-p`
        make_private_directory(goal.path.parent)
        replace_file(goal.path, prepared.asked.text)
    for word in waiting:
        Inbox(journal.directory).post(word.act, word.text, timestamp(time.time()))
    surrounded.beginning.keep(surrounded.envrc, journal.directory)
    repo.exclude(EXCLUDES)
    snapshot = project.take(repo.root)
    said += _protect(prepared, journal, snapshot, saved)
    if saved is not None:
        journal.rewrite_progress(run.history)
        if repo.dirty_paths(goal.path):
            said.append("an interrupted session left changes in the tree; ralph keeps them, and the agent will know")
            run = run.noted("An earlier session was interrupted; its changes are still in the tree, uncommitted.")
    ProjectLinks(repo.root).link_run(goal.name, journal.directory)
    inbox = Inbox(journal.directory, run.heard, stale=0 if saved is None else inbox_before)
    record = RunFiles(prepared, journal, run, taken_up.counted)
    tree = WorkTree(prepared, host, journal, run, snapshot, show)
    record.save(run, durable=True)
    return OpenRun(run, record, tree, inbox, said)


def with_baseline(opened: OpenRun, host: AgentHost) -> OpenRun:
    """Run the check on the base; say what it can prove, and give the agent the failures that it inherits."""
    said, notes = opened.tree.find_baseline()
    host.leave_if_interrupted()
    return replace(opened, run=opened.run.noted(*notes), said=[*opened.said, *said])


def workspace(prepared: Prepared, opened: OpenRun, host: AgentHost, screen: RunScreen, recorder: Recorder) -> Workspace:
    """Build the loop's collaborators."""

    def hear() -> list[Instruction]:
        """Return new requests, including a key that ends a wait when there is no live view."""
        return [*opened.inbox.read(), *(Instruction(0, act, by_key=True) for act in screen.take_asked())]

    chosen, clock = prepared.settings, screen.visible_wait(recorder)
    return Workspace(
        Rules(chosen.limits, chosen.failures, chosen.stall_after, chosen.on_denial),
        RunSessions(prepared, host, opened.record, opened.tree, recorder, clock),
        opened.tree,
        opened.record,
        recorder,
        Steering(hear),
        clock,
    )


def _archive(prepared: Prepared, journal: Journal, inbox_before: int) -> tuple[list[Instruction], list[str]]:
    """Move the last run aside; return messages that no session has seen, and what to report."""
    last = journal.load()
    if (moved := journal.archive()) is None:
        return [], []
    heard = last.run.heard if isinstance(last, Saved) else 0
    untold = [item for item in last.run.guidance if item.told == 0] if isinstance(last, Saved) else []
    waiting = [Instruction(item.number, Act.TELL, item.text) for item in untold]
    said = [f"archived the last run: {moved}"] if prepared.flags.fresh else []
    return [*waiting, *Inbox(moved, heard, stale=inbox_before).read()], said


def _protect(prepared: Prepared, journal: Journal, snapshot: project.Snapshot, saved: Saved | None) -> list[str]:
    """Take the current version of the user's files as the one that counts from now on."""
    before = project.stored(journal.snapshot)
    snapshot.store(journal.snapshot)
    if saved is None or before is None or before == snapshot:
        return []
    # The last start undid the agent's changes before it ended, so these are the user's own.
    names = listed(before.changed(prepared.repo.root))
    return [f"{names} changed since the last start; the new version counts from now on"]
