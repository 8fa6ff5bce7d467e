"""The way back: a goal's merge reverted on the base, checked on a clean checkout like a merge, and pushed as a claim.

No worker is needed, and a live one is no problem: the second of two pushes finds that the base has moved, and does it
again. A push whose answer was lost is recognised by the trailer that names the merge.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ralph.core.errors import Interrupted, UsageError
from ralph.core.progress import Reporter, TaskProgress, unreported
from ralph.core.reason import Cause, Reason
from ralph.queue.goals import BatchGoal, State
from ralph.queue.merge import trees
from ralph.queue.merge.pipeline import (
    ROUNDS,
    CheckOutcome,
    MergeContext,
    Red,
    Refused,
    Stopped,
    check_checkout,
    check_flags,
    clean_checkout,
)
from ralph.queue.open import QueueAddress
from ralph.queue.paths import QueuePaths, queue_paths
from ralph.queue.repos.mirror import Mirror, open_mirror
from ralph.queue.repos.push import Accepted, Moved, Rejected, push
from ralph.queue.repos.remote import Bare
from ralph.queue.store import Store
from ralph.state.lock import OwnedLock, Owner
from ralph.system.files import remove_tree
from ralph.system.signals import Signals

_UNDOES = "Ralph-Undoes"
"""The trailer that names the merge which a commit takes back."""


@dataclass(frozen=True, slots=True)
class UndoJob:
    """Which merge is to be taken back."""

    mirror: Mirror
    branch: str
    """The base that it was merged to; empty: the default branch."""
    run: str
    """The run whose work it was."""
    goal: str
    title: str
    checkout: Path
    """Where the clean checkout is made, and removed again."""


@dataclass(frozen=True, slots=True)
class LaterMerge:
    """Another goal's merge that came after it; `shared` are files that both changed."""

    commit: str
    run: str
    shared: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UndoneMerge:
    """The base no longer has the work. `revert` is the commit that took it out; empty: nothing of it was left."""

    branch: str
    merge: str
    revert: str
    paths: tuple[str, ...]
    later: tuple[LaterMerge, ...]


@dataclass(frozen=True, slots=True)
class UndoConflict:
    """What came later has changed the same lines of `paths`."""

    paths: tuple[str, ...]
    log: str
    later: tuple[LaterMerge, ...]


UndoOutcome = UndoneMerge | UndoConflict | Red | Refused | Stopped


def require_merged(goal: BatchGoal) -> None:
    """Refuse a goal whose work is not on its base, and say what to do instead."""
    label, branch = goal.label, goal.branch
    match goal.state, goal.why.cause:
        case State.DONE, Cause.KEPT:
            hint = f"its work is only on {branch} in ralph's mirror; to see where: ralph-runs show {label}"
            raise UsageError(f"{label} was not merged (merge mode none): there is nothing to undo", hint)
        case State.DONE, Cause.PUSHED:
            hint = f"close its pull request, and delete the branch: git push --delete origin {branch}"
            raise UsageError(f"{label} was pushed as {branch}, and not merged by ralph: there is nothing to undo", hint)
        case State.DONE, Cause.NOTHING:
            raise UsageError(f"{label} changed no file: there is nothing to undo", f"see: ralph-runs log {label}")
        case State.DONE, _:
            return
        case ((State.QUEUED | State.RUNNING | State.DRAFT | State.STUCK), _):
            raise UsageError(f"{label} is {goal.state}, and not merged: there is nothing to undo", _give_up(goal))
        case _:
            raise UsageError(
                f"{label} is {goal.state}, and not merged: there is nothing to undo", f"see: ralph-runs show {label}"
            )


def _give_up(goal: BatchGoal) -> str:
    return f"give it up: ralph-runs cancel {goal.label}"


def undo_goal(goal: BatchGoal, place: QueueAddress, store: Store, report: Reporter = unreported) -> UndoOutcome:
    """Take a goal's work out of its base again, and mark it; the same command goes on where one was killed."""
    require_merged(goal)
    paths = queue_paths(place.ralph_dir, store.queue_id)
    checkout = paths.root / "undo" / goal.label
    with OwnedLock(paths.root / "undo.lock", {"goal": goal.label}, _refused), Signals().watched() as signals:
        remove_tree(checkout.parent)  # of one that was killed
        mirror = open_mirror(place.ralph_dir, goal.repo)
        job = UndoJob(mirror, goal.why.branch, goal.run, goal.name, goal.title, checkout)

        def heed(progress: TaskProgress) -> None:
            if (
                signals.first is not None
            ):  # git is in a session of its own: a remote that keeps silent would be waited for
                raise Interrupted(signals.first)
            report(progress)

        def check(there: Path) -> CheckOutcome:
            heed(TaskProgress("running the check"))
            return _check(goal, there, place, paths, signals)

        context = MergeContext(
            check=check,
            interrupted=lambda: signals.count > 0,
            pause=time.sleep,
        )
        outcome = undo_merge(job, context, heed)
        if isinstance(outcome, UndoneMerge):
            why = Reason(cause=Cause.UNDONE, branch=outcome.branch, commit=outcome.revert, detail=outcome.merge)
            remark = f"The work was merged as {outcome.merge[:10]}, and then reverted on {outcome.branch}."
            store.undo(goal, why, remark)
        elif isinstance(outcome, Stopped) and signals.first is not None:
            raise Interrupted(signals.first)
        return outcome


def _refused(owner: Owner) -> UsageError:
    return UsageError(
        f"{owner.goal or 'a goal'} is already being undone by process {owner.pid or '?'} on {owner.host or '?'}",
        "wait until that ends, then run the same command again",
    )


def _check(goal: BatchGoal, checkout: Path, place: QueueAddress, paths: QueuePaths, signals: Signals) -> CheckOutcome:
    """Run the check that judged the merge; where there is none, there is nothing to run."""
    wanted = check_flags(goal)
    if not (checkout / ".ralph" / "check").exists() and not any(flag.startswith("--check=") for flag in wanted):
        return CheckOutcome(0, "there is no check")
    complaints = paths.folder(goal) / "check-undo.stderr"
    return check_checkout(
        checkout, flags=wanted, env=place.env, complaints=complaints, stop_requests=lambda: signals.count
    )


def undo_merge(job: UndoJob, context: MergeContext, report: Reporter = unreported) -> UndoOutcome:
    """Take a goal's work out of its base again; `Unreachable` if the upstream repository is away."""
    bare = job.mirror.bare
    for turn in range(ROUNDS):
        if context.interrupted():
            return Stopped()
        job.mirror.refresh(report)
        branch = job.branch or job.mirror.base().branch
        tip = bare.commit_at(f"refs/heads/{branch}")
        merge = None if tip is None or not job.run else trees.squash_of(bare, tip, job.run)
        if tip is None or merge is None:
            return Refused(f"{branch} of {job.mirror.upstream.shown} no longer contains the merge of {job.goal}")
        paths, later = _changed(bare, f"{merge}^", merge), _later(bare, merge, tip)
        if (earlier := _undone_before(bare, merge, tip)) is not None:
            return UndoneMerge(branch, merge, earlier, paths, later)
        reverted = _reverted(bare, merge, tip)
        if not reverted.tree:
            return Refused(f"{merge[:10]} cannot be reverted on {branch}: {reverted.log}")
        if reverted.conflicts:
            return UndoConflict(reverted.conflicts, reverted.log, later)
        if reverted.tree == bare.git("rev-parse", f"{tip}^{{tree}}").strip():
            return UndoneMerge(branch, merge, "", paths, later)
        identity = job.mirror.upstream.identity(bare)
        commit = trees.commit(bare, reverted.tree, (tip,), _message(job, merge), identity)
        if (unproven := _prove(job, context, commit, reverted.tree)) is not None:
            return unproven
        trees.require_same_tree(bare, reverted.tree, commit)
        match push(job.mirror, commit, branch, expected=tip):
            case Accepted():
                bare.run("update-ref", f"refs/heads/{branch}", commit, tip)
                return UndoneMerge(branch, merge, commit, paths, later)
            case Rejected(reason, by_rule, closed):
                return Refused(f"{reason}{_by_hand(merge) if closed else ''}", by_rule)
            case Moved():
                context.pause(0.1 * turn)
    return Refused(f"{job.mirror.upstream.shown} moved {ROUNDS} times while it was checked")


def _by_hand(merge: str) -> str:
    return f"; revert it on a branch of your own: git revert {merge[:10]}"


def _prove(job: UndoJob, context: MergeContext, commit: str, tree: str) -> Red | Stopped | None:
    """Run the check on a clean checkout of the base without the work; None: it passed."""
    with clean_checkout(job.mirror, job.checkout, commit, tree) as checkout:
        outcome = context.check(checkout)
    if context.interrupted():
        return Stopped()
    return None if outcome.exit_code == 0 else Red(outcome.how or f"exit {outcome.exit_code}", outcome.output)


def _reverted(bare: Bare, merge: str, tip: str) -> trees.MergedTree:
    """The base's files with the merge taken back: a merge of what came since and of what was before, from it on."""
    start = trees.commit(bare, f"{merge}^{{tree}}", (), "start", trees.NOBODY)
    before, since = (
        trees.commit(bare, f"{side}^{{tree}}", (start,), "side", trees.NOBODY) for side in (f"{merge}^", tip)
    )  # fmt: skip
    return trees.merge_trees(bare, since, before)


def _message(job: UndoJob, merge: str) -> str:
    trailers = {"Ralph-Goal": job.goal, "Ralph-Run": job.run, _UNDOES: merge}
    return trees.squash_message(f'Revert "{job.title}"', f"This reverts commit {merge}.", trailers)


def _undone_before(bare: Bare, merge: str, tip: str) -> str | None:
    """The commit on the base that has taken the merge back already: a push whose answer was lost."""
    for commit, undoes in _trailers(bare, merge, tip, _UNDOES):
        if undoes == [merge]:
            return commit
    return None


def _later(bare: Bare, merge: str, tip: str) -> tuple[LaterMerge, ...]:
    """The merges of other goals since, oldest first, but for those that were taken back again."""
    ours = set(_changed(bare, f"{merge}^", merge))
    undone = {undoes for _, values in _trailers(bare, merge, tip, _UNDOES) for undoes in values}
    runs = dict(_trailers(bare, merge, tip, "Ralph-Run"))
    found: list[LaterMerge] = []
    for commit, attempts in _trailers(bare, merge, tip, "Ralph-Attempts"):
        if attempts and runs.get(commit) and commit not in undone:
            shared = [path for path in _changed(bare, f"{commit}^", commit) if path in ours]
            found.append(LaterMerge(commit, runs[commit][0], tuple(shared)))
    return tuple(found)


def _trailers(bare: Bare, merge: str, tip: str, name: str) -> list[tuple[str, list[str]]]:
    """The values of a trailer, for each commit since the merge, oldest first."""
    asked = f"%H%x00%(trailers:key={name},valueonly)%x01"
    out = bare.git("log", "--reverse", f"--format={asked}", f"{merge}..{tip}", "--")
    entries = (entry.strip().partition("\0") for entry in out.split("\x01") if entry.strip())
    return [(sha, values.split()) for sha, _, values in entries]


def _changed(bare: Bare, before: str, after: str) -> tuple[str, ...]:
    out = bare.git("diff-tree", "-r", "-z", "--name-only", "--no-renames", before, after)
    return tuple(path for path in out.split("\0") if path)


def built_on(goal: BatchGoal, goals: Sequence[BatchGoal]) -> list[BatchGoal]:
    """The goals that come after one by their `after`, directly or through others."""
    found, wave = {goal.id}, {goal.id}
    while wave:
        wave = {each.id for each in goals if wave & {*each.after}} - found
        found |= wave
    return [each for each in goals if each.id in found and each.id != goal.id]
