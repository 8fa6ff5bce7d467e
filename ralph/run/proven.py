"""A goal that an earlier run has proven: whether that still holds, for its text, HEAD and check; and what follows."""

from dataclasses import dataclass, replace

from ralph.core.errors import ExitCode, UsageError
from ralph.core.events import CheckEnded, CheckStarted, RunEnded, Tag, Text
from ralph.core.guidance import Act
from ralph.core.run import CheckRecord, Ending, RunResult
from ralph.core.text import few
from ralph.run.agent import AgentHost
from ralph.run.prepare import Prepared
from ralph.run.report import greeting, reason_of, run_started, short_greeting, still_proven, still_proven_reason
from ralph.run.resume import find_unfinished, refuse_mismatch
from ralph.run.screen import RunScreen
from ralph.run.tree import WorkTree
from ralph.state import project
from ralph.state.inbox import Inbox
from ralph.state.journal import Journal, Saved
from ralph.state.result import ResultRecord, read_result


@dataclass(frozen=True, slots=True)
class Proven:
    """The last run of the goal, which proved this text; HEAD has its work."""

    saved: Saved
    result: ResultRecord
    commit: str
    """The commit at which it was proven."""
    stands: bool
    """Neither HEAD nor the check has changed since."""


def find_run(prepared: Prepared, journal: Journal) -> Saved | Proven | None:
    """Return the run to continue, or the one that proved the goal; None for a new one. Refuse what cannot start."""
    unfinished, goal = find_unfinished(prepared, journal), prepared.goal
    if prepared.flags.resume and unfinished is None:
        raise UsageError(f"there is no unfinished run of {goal.name} to continue", "leave out --continue to start one")
    proven = _find_proven(prepared, journal) if unfinished is None else None
    if proven is not None and proven.stands:
        return proven
    if unfinished is not None:
        refuse_mismatch(unfinished, prepared)
    elif not prepared.flags.allow_dirty and (dirty := prepared.repo.dirty_paths(goal.path)):
        shown = few(dirty, 5)
        raise UsageError(
            f"the working tree has uncommitted changes: {shown}",
            "commit or stash them, or include them in ralph's first commit with --allow-dirty",
        )
    return unfinished or proven


def _find_proven(prepared: Prepared, journal: Journal) -> Proven | None:
    """Find the run that proved the goal's current text; None if the user asks for more."""
    saved, result = journal.load(), read_result(journal.directory)
    flags, goal, repo = prepared.flags, prepared.goal, prepared.repo
    if flags.fresh or not isinstance(saved, Saved) or not saved.finished or saved.goal_digest != goal.digest:
        return None
    if result is None or not result.proven or result.head is None:
        return None
    if _has_unheard_guidance(saved, journal) or (flags.allow_dirty and repo.dirty_paths(goal.path)):
        return None
    if repo.head() == result.head and _same_check(saved, prepared, journal):
        return Proven(saved, result, result.head, stands=True)
    if prepared.check is None or not repo.holds(result.head, result.base):
        return None
    return Proven(saved, result, result.head, stands=False)


def _has_unheard_guidance(saved: Saved, journal: Journal) -> bool:
    words = Inbox(journal.directory, saved.run.heard).read()
    return any(word.act is Act.TELL for word in words) or any(item.told == 0 for item in saved.run.guidance)


def _same_check(saved: Saved, prepared: Prepared, journal: Journal) -> bool:
    """Tell whether the check that proved the goal is unchanged, or there is none."""
    if prepared.check is None:
        return True
    before = project.stored(journal.snapshot)
    now = project.take(prepared.repo.root)
    is_same_file = before is not None and before.has_same("check", now)
    return saved.check == prepared.check_label and (is_same_file or not prepared.check.script)


def say_unchanged(proven: Proven, prepared: Prepared, journal: Journal, screen: RunScreen) -> int:
    """Report that the goal is done, and at which commit; run nothing."""
    reason = still_proven_reason(proven.commit)
    screen.say(short_greeting(prepared), first=True)
    screen.recorder(journal)(run_started(prepared, proven.saved.run), RunEnded(ExitCode.DONE, reason, proven=True))
    screen.say(still_proven(reason, prepared))
    return ExitCode.DONE


def prove_again(
    proven: Proven, prepared: Prepared, journal: Journal, host: AgentHost, screen: RunScreen
) -> CheckRecord | None:
    """Run the check again on proven work; return its result if it is red.

    The run's directory does not change during the check: a kill must not lose the proof.
    """
    repo = prepared.repo
    run, head = replace(proven.saved.run, branch=repo.branch()), repo.head()
    recorder, snapshot = screen.recorder(journal), project.take(repo.root)
    screen.say(greeting(prepared, run, journal.directory), first=True)
    recorder(run_started(prepared, run), Text(Tag.SYS, f"proven at commit {proven.commit[:10]}; checking it again"))
    recorder(CheckStarted(run.finished))
    tree = WorkTree(prepared, host, journal, run, snapshot, screen.print_check)
    report = tree.prove(run.finished)
    tree.leave()
    host.leave_if_interrupted()
    recorder(CheckEnded(report.exit_code, round(report.seconds, 3), report.output))
    if report.exit_code != 0:
        return CheckRecord(0, report.exit_code, report.output)
    snapshot.store(journal.snapshot)
    journal.save(replace(proven.saved, check=prepared.check_label), durable=True)
    result, reason = RunResult(proven.saved.run, Ending.PROVEN), still_proven_reason(head, prepared.check_label)
    sandbox = prepared.around.sandbox.mode
    journal.write_result(result, reason_of(result), head=head, end=proven.result.end, sandbox=sandbox)
    recorder(RunEnded(result.exit_code, reason, proven=True))
    screen.say(still_proven(reason, prepared))
    return None
