"""A goal's merge, in the lane of its repository: one at a time, beside all other work."""

import contextlib
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from ralph.core.errors import DiskError, QueueError, RalphError, RepoError
from ralph.core.goal import parse_goal
from ralph.core.reason import Cause, Reason
from ralph.core.text import few
from ralph.queue.child import AttemptResult
from ralph.queue.goals import BatchGoal, MergeMode
from ralph.queue.merge import pipeline
from ralph.queue.merge.pipeline import (
    CheckOutcome,
    Merged,
    MergeJob,
    MergeKit,
    OutOfReach,
    Stopped,
    check_checkout,
    landed_already,
    merge_work,
)
from ralph.queue.news import NewsKind
from ralph.queue.repos.prefetch import Repository
from ralph.queue.worker_state import MOMENT, WorkerKit


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
    "What a merge means for its goal, in a line, and what the next attempt needs to know."

    what: MergeFate
    reason: str
    log: str = ""
    cause: Cause = Cause.OTHER

    @property
    def why(self) -> Reason:
        return Reason(self.reason, self.cause)


_WHERE = {MergeMode.NONE: Cause.KEPT, MergeMode.BRANCH: Cause.PUSHED, MergeMode.PR: Cause.PUSHED}


def landing_of(outcome: pipeline.Outcome, base: str) -> MergeResult:
    """Say what an outcome means."""
    match outcome:
        case pipeline.Merged(_, how, mode):
            return MergeResult(MergeFate.DONE, how, cause=_WHERE.get(mode, Cause.OTHER))
        case pipeline.Nothing(_):
            return MergeResult(MergeFate.DONE, "nothing to merge: the work changes no file")
        case pipeline.Conflict(paths, log):
            files = _few(paths)
            said = f"The work conflicts with what is on {base} by now:\n{log}"
            return MergeResult(MergeFate.FAILED, f"conflicts with {base}: {files}", said)
        case pipeline.Red(how, output):
            said = f"The check is red on a clean checkout of the work merged with {base}:\n{output}"
            return MergeResult(MergeFate.FAILED, f"the check is red on a clean checkout ({how})", said)
        case pipeline.Tampered(paths):
            files = ", ".join(paths)
            said = f"The work changes {files}, which judges it and is not the agent's to change. Leave it as it is."
            return MergeResult(MergeFate.FAILED, f"changes {files}, which is not the agent's", said)
        case pipeline.Unresolved(paths):
            files = _few(paths)
            said = f"Conflict markers are left in {files}: resolve them, so that what both sides intended holds."
            return MergeResult(MergeFate.FAILED, f"conflict markers are left in {files}", said)
        case pipeline.Sensitive(paths):
            files = _few(paths)
            said = (
                f"The work adds {files}, which looks like a secret, and nothing that does is pushed."
                " Take it out of the working tree and commit that, or name it otherwise if it is none."
            )
            return MergeResult(MergeFate.FAILED, f"adds what looks like a secret: {files}", said)
        case pipeline.Refused(reason, by_rule):
            return MergeResult(MergeFate.FAILED if by_rule else MergeFate.HELD, reason)
        case pipeline.OutOfReach(reason):
            return MergeResult(MergeFate.HELD, reason)
        case pipeline.Stopped():
            return MergeResult(MergeFate.STOPPED, "stopped before it was merged")


def _few(paths: Sequence[str]) -> str:
    return few(paths, 5)


_PAUSES = (2.0, 5.0, 15.0, 30.0, *([60.0] * 60))
"""Seconds between the tries to merge while the remote is away: an hour, in which only its own lane waits."""

_BRIEFLY = 5
_MOST_KILLED = 3


class MergeTask:
    """Brings work to where it belongs, each goal's in the thread that calls it."""

    def __init__(self, kit: WorkerKit) -> None:
        self._store, self._premises, self._repositories = kit.store, kit.premises, kit.repositories
        self._controls, self._rules = kit.controls, kit.rules

    def land(self, goal: BatchGoal, outcome: AttemptResult) -> MergeResult:
        """Merge what an attempt has done, as the goal or the rules want it. A fault is a landing, too."""
        mode = self._rules.mode(goal)
        if not self._rules.allow(goal, proven=outcome.proven):
            left = f"not merged, its work is on {goal.branch}; --merge-unproven merges it"
            return MergeResult(MergeFate.HELD, f"{outcome.reason}: {left}", cause=Cause.UNPROVEN)
        repository = self._repositories.known(goal.repo)
        self._controls.merging[goal.id] = time.time()
        self._controls.wake()  # there is a slot free
        try:
            with self._turn(goal, repository) as ours:
                if ours:
                    return self._merge(goal, outcome, mode, repository)
            return self._stopped(goal, outcome, mode, repository)
        except (DiskError, QueueError) as error:
            self._controls.fault = error
            return MergeResult(MergeFate.STOPPED, error.message)
        except OSError as error:
            self._controls.fault = DiskError(error.filename or self._premises.root, error)
            return MergeResult(MergeFate.STOPPED, self._controls.fault.message)
        except RalphError as error:
            return MergeResult(MergeFate.HELD, error.whole)
        finally:
            self._controls.merging.pop(goal.id, None)

    @contextlib.contextmanager
    def _turn(self, goal: BatchGoal, repository: Repository) -> Generator[bool]:
        ours = False
        while not self._controls.requests(goal) and not ours:
            ours = repository.lane.acquire(timeout=MOMENT)
        try:
            if ours:
                repository.merging_since = time.monotonic()
                repository.remote_away = False  # of an outage that an earlier merge gave up on nothing is known now
            yield ours
        finally:
            if ours:
                repository.merging_since = None
                repository.lane.release()

    def _stopped(self, goal: BatchGoal, outcome: AttemptResult, mode: MergeMode, repository: Repository) -> MergeResult:
        """What it means to be stopped before the merge began: a worker that is gone may have pushed it already."""
        merged = None
        if not self._controls.ending and mode is MergeMode.DIRECT:  # it is cancelled, so nobody would look again
            with contextlib.suppress(RepoError):
                merged = landed_already(self._job(goal, outcome, mode, repository))
        return landing_of(merged or Stopped(), "")

    def _merge(self, goal: BatchGoal, outcome: AttemptResult, mode: MergeMode, repository: Repository) -> MergeResult:
        base = repository.mirror.base(goal.branch).branch
        job = self._job(goal, outcome, mode, repository)
        kit = MergeKit(
            check=lambda checkout: self._check(goal, checkout, proven=outcome.proven),
            interrupted=lambda: self._controls.requests(goal) > 0,
            pause=lambda seconds: self._controls.pause(goal, seconds),
        )
        self._controls.tell(NewsKind.MERGING, f"to {base}" if mode is MergeMode.DIRECT else f"({mode})", goal)
        here = repository.mirror.upstream.path is not None  # a path that is away does not come back by itself
        for pause in (*(_PAUSES[:_BRIEFLY] if here else _PAUSES), None):
            found = merge_work(job, kit)
            repository.remote_away = isinstance(found, OutOfReach)
            if isinstance(found, Stopped):
                return self._stopped(goal, outcome, mode, repository)
            if isinstance(found, Merged):
                self._controls.merged_to(goal.repo)
            if not isinstance(found, OutOfReach) or pause is None:
                return landing_of(found, base)
            words = f"waiting for the remote: {found.reason}"
            self._store.note(goal, why=Reason(words))
            self._controls.tell(NewsKind.WAITING, words, goal)
            self._controls.pause(goal, pause)
            if self._controls.ending or self._controls.requests(goal):
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
            checkouts=self._premises.checkouts,
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
        command = goal.settings.get("check") or parse_goal(goal.text, Path(goal.path)).front_matter.get("check")
        flags = [f"--check={command}"] if command else []
        trusting = ["--trust-envrc"] if goal.trust_envrc else []
        return check_checkout(
            checkout,
            flags=[*flags, *trusting],
            env=self._rules.env,
            complaints=self._premises.papers(goal) / f"check-{goal.starts}.stderr",
            stop_requests=lambda: self._controls.requests(goal),
        )
