"""The merge of a goal: one at a time per repository, while other work continues."""

import contextlib
import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from ralph.core import ndjson
from ralph.core.errors import DiskError, QueueError, RalphError, RepoError
from ralph.core.reason import Cause, Reason, earlier_reason, recorded_reason
from ralph.core.records import to_record
from ralph.core.text import few
from ralph.queue.child import AttemptResult
from ralph.queue.goals import BatchGoal, MergeMode
from ralph.queue.merge import pipeline
from ralph.queue.merge.pipeline import (
    CheckOutcome,
    MergeContext,
    Merged,
    MergeJob,
    OutOfReach,
    Stopped,
    check_checkout,
    check_flags,
    merge_work,
    merged_already,
)
from ralph.queue.news import NewsKind
from ralph.queue.repos.prefetch import Repository
from ralph.queue.worker_state import MOMENT, WorkerContext


class MergeFate(StrEnum):
    "What a merge means for its goal."

    DONE = "done"
    FAILED = "failed"
    """The work must change: another attempt."""
    HELD = "held"
    """The work is good, but something stands in its way that only the user can clear."""
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class MergeResult:
    """What a merge means for its goal, and what the next attempt needs to know."""

    what: MergeFate
    why: Reason
    log: str = ""

    def record(self) -> dict[str, object]:
        """Return what the step leaves behind; a ralph before version 6 of the queue reads `reason` and `cause`."""
        said = {"what": self.what, "reason": self.why.said, "log": self.log, "cause": self.why.cause}
        return {**said, "why": to_record(self.why)}


def recorded_merge(record: Mapping[str, object]) -> MergeResult:
    """Read the record of a merge step, from any version of ralph."""
    line = ndjson.text(record.get("reason"))
    if known := ndjson.mapping(record.get("why")):
        why = recorded_reason(known)
    elif "cause" in record:
        why = recorded_reason({"line": line, "cause": record["cause"]})
    else:
        why = earlier_reason(line)
    return MergeResult(MergeFate(ndjson.text(record.get("what"))), why, ndjson.text(record.get("log")))


def merge_result(outcome: pipeline.Outcome, base: str) -> MergeResult:
    """Decide what an outcome means for the goal."""
    match outcome:
        case pipeline.Merged(_, why):
            return MergeResult(MergeFate.DONE, why)
        case pipeline.Nothing(_):
            return MergeResult(MergeFate.DONE, Reason(cause=Cause.NOTHING))
        case pipeline.Conflict(paths, log):
            said = f"The work conflicts with the current {base}:\n{log}"
            return MergeResult(MergeFate.FAILED, Reason(cause=Cause.CONFLICTS, branch=base, paths=paths), said)
        case pipeline.Red(how, output):
            said = f"The check failed on a clean checkout of the work merged with {base}:\n{output}"
            return MergeResult(MergeFate.FAILED, Reason(cause=Cause.RED, detail=how), said)
        case pipeline.Tampered(paths):
            said = (
                f"The work changes {', '.join(paths)}, which decides whether the work is done."
                " The agent must not change that: leave it as it is."
            )
            return MergeResult(MergeFate.FAILED, Reason(cause=Cause.TAMPERED, paths=paths), said)
        case pipeline.Unresolved(paths):
            said = f"Unresolved conflict markers in {few(paths, 5)}: resolve them so that both sides' changes work."
            return MergeResult(MergeFate.FAILED, Reason(cause=Cause.MARKERS, paths=paths), said)
        case pipeline.Sensitive(paths):
            said = (
                f"The work adds {few(paths, 5)}, which looks like a secret, so it is not pushed."
                " Remove it from the working tree, or rename it if it is not a secret."
            )
            return MergeResult(MergeFate.FAILED, Reason(cause=Cause.SENSITIVE, paths=paths), said)
        case pipeline.Refused(reason, by_rule):
            return MergeResult(MergeFate.FAILED if by_rule else MergeFate.HELD, Reason(reason), reason)
        case pipeline.OutOfReach(reason):
            return MergeResult(MergeFate.HELD, Reason(reason), reason)
        case pipeline.Stopped():
            return MergeResult(MergeFate.STOPPED, Reason(cause=Cause.STOPPED, detail="before it was merged"))


_PAUSES = (2.0, 5.0, 15.0, 30.0, *([60.0] * 60))
"""Seconds between tries to merge while the remote is away: an hour in all, which holds up only its own repository."""

_BRIEFLY = 5
_MOST_KILLED = 3


class MergeTask:
    """Brings work to where it belongs, each goal's in the thread that calls it."""

    def __init__(self, context: WorkerContext) -> None:
        self._store, self._paths, self._repositories = context.store, context.paths, context.repositories
        self._worker, self._rules = context.worker, context.rules

    def merge(self, goal: BatchGoal, outcome: AttemptResult) -> MergeResult:
        """Merge what an attempt has done, as the goal or the rules want it. A fault is a merged, too."""
        mode = goal.merge
        if not self._rules.allow(goal, proven=outcome.proven):
            why = Reason(cause=Cause.UNPROVEN, detail=outcome.reason, branch=goal.branch)
            return MergeResult(MergeFate.HELD, why, "The work is done, but there is no check that proves it.")
        repository = self._repositories.known(goal.repo)
        self._worker.merging[goal.id] = time.time()
        self._worker.wake()  # there is a slot free
        try:
            with self._turn(goal, repository) as ours:
                if ours:
                    return self._merge(goal, outcome, mode, repository)
            return self._stopped(goal, outcome, mode, repository)
        except (DiskError, QueueError) as error:
            self._worker.fault = error
            return MergeResult(MergeFate.STOPPED, Reason(error.message))
        except OSError as error:
            self._worker.fault = DiskError(error.filename or self._paths.root, error)
            return MergeResult(MergeFate.STOPPED, Reason(self._worker.fault.message))
        except RalphError as error:
            return MergeResult(MergeFate.HELD, Reason(error.whole), error.whole)
        finally:
            self._worker.merging.pop(goal.id, None)

    @contextlib.contextmanager
    def _turn(self, goal: BatchGoal, repository: Repository) -> Generator[bool]:
        ours = False
        while not self._worker.requests(goal) and not ours:
            ours = repository.merge_lock.acquire(timeout=MOMENT)
        try:
            if ours:
                repository.merging_since = time.monotonic()
                repository.remote_away = False  # of an outage that an earlier merge gave up on nothing is known now
            yield ours
        finally:
            if ours:
                repository.merging_since = None
                repository.merge_lock.release()

    def _stopped(self, goal: BatchGoal, outcome: AttemptResult, mode: MergeMode, repository: Repository) -> MergeResult:
        """What it means to be stopped before the merge began: a worker that is gone may have pushed it already."""
        merged = None
        if not self._worker.ending and mode is MergeMode.DIRECT:  # it is cancelled, so nobody would look again
            with contextlib.suppress(RepoError):
                merged = merged_already(self._job(goal, outcome, mode, repository))
        return merge_result(merged or Stopped(), "")

    def _merge(self, goal: BatchGoal, outcome: AttemptResult, mode: MergeMode, repository: Repository) -> MergeResult:
        base = repository.mirror.base(goal.branch).branch
        job = self._job(goal, outcome, mode, repository)
        context = MergeContext(
            check=lambda checkout: self._check(goal, checkout, proven=outcome.proven),
            interrupted=lambda: self._worker.requests(goal) > 0,
            pause=lambda seconds: self._worker.pause(goal, seconds),
        )
        self._worker.tell(NewsKind.MERGING, f"to {base}" if mode is MergeMode.DIRECT else f"({mode})", goal)
        here = repository.mirror.upstream.path is not None  # a path that is away does not come back by itself
        for pause in (*(_PAUSES[:_BRIEFLY] if here else _PAUSES), None):
            found = merge_work(job, context)
            repository.remote_away = isinstance(found, OutOfReach)
            if isinstance(found, Stopped):
                return self._stopped(goal, outcome, mode, repository)
            if isinstance(found, Merged):
                self._worker.merged_to(goal.repo)
            if not isinstance(found, OutOfReach) or pause is None:
                return merge_result(found, base)
            why = Reason(cause=Cause.REMOTE_AWAY, detail=found.reason)
            self._store.note(goal, why=why)
            self._worker.tell(NewsKind.WAITING, why, goal)
            self._worker.pause(goal, pause)
            if self._worker.ending or self._worker.requests(goal):
                break
        return self._stopped(goal, outcome, mode, repository)

    def _job(self, goal: BatchGoal, outcome: AttemptResult, mode: MergeMode, repository: Repository) -> MergeJob:
        return MergeJob(
            mirror=repository.mirror,
            branch=goal.branch,
            tip=outcome.head,
            title=goal.title,
            goal=goal.name,
            label=goal.label,
            run=outcome.run,
            attempts=goal.attempts,
            cost_usd=goal.known_cost,
            done=outcome.done,
            mode=mode,
            checkouts=self._paths.checkouts,
        )

    def _check(self, goal: BatchGoal, checkout: Path, *, proven: bool) -> CheckOutcome:
        """Run the check; one that somebody kills says nothing about the work, and is run again."""
        if not proven and not (checkout / ".ralph" / "check").exists():
            return CheckOutcome(0, "there is no check")  # its run had none either, wherever one may be named
        for _ in range(_MOST_KILLED):
            outcome = self._check_once(goal, checkout)
            if outcome.exit_code is None or outcome.exit_code >= 0:
                return outcome
        raise RepoError(f"its check was killed by a signal, {_MOST_KILLED} times")

    def _check_once(self, goal: BatchGoal, checkout: Path) -> CheckOutcome:
        return check_checkout(
            checkout,
            flags=check_flags(goal),
            env=self._rules.env,
            complaints=self._paths.folder(goal) / f"check-{goal.starts}.stderr",
            stop_requests=lambda: self._worker.requests(goal),
        )
