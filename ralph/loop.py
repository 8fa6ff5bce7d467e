"""The loop: fresh sessions on one goal until it is proven done or a limit is reached."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from ralph.budget import Limit, Limits, Meter
from ralph.errors import Interrupted
from ralph.events import CheckEnded, Event, IterationEnded, IterationStarted, Tag, Text, Waiting
from ralph.failures import Again, Blocked, Failed, Finished, Tries, decide, describe_denials
from ralph.history import Iteration
from ralph.quantities import timestamp
from ralph.run import CheckRecord, Run, RunResult
from ralph.runners import Request
from ralph.session import Logs, SessionKit, SessionReport, hold_session
from ralph.trailers import commit_message
from ralph.verdict import Answer


class Committed(Protocol):
    @property
    def sha(self) -> str: ...
    @property
    def left_out(self) -> tuple[str, ...]: ...
    @property
    def nested(self) -> tuple[str, ...]: ...


class Held(Protocol):
    @property
    def undone(self) -> tuple[str, ...]: ...
    @property
    def secrets(self) -> tuple[str, ...]: ...


class Proof(Protocol):
    @property
    def exit_code(self) -> int | None: ...
    @property
    def seconds(self) -> float: ...
    @property
    def output(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Kit:
    """The collaborators of a run, built by the command line."""

    session: SessionKit
    limits: Limits
    most_failures: int
    on_denial: str
    request: Callable[[Run, str, bool], Request]
    """The request for the run's next session, with this id; True: shrunk."""
    open_logs: Callable[[Run], Logs]
    undo: Callable[[], Held]
    """Undo what a session must not do to `.ralph/` and the branch; say what it had done, and what secrets committed."""
    commit: Callable[[str], Committed]
    record: Callable[[Iteration], None]
    save: Callable[[Run], None]
    prove: Callable[[int], Proof | None]
    """Run the check on an iteration's work; None: there is no check."""
    observe: Callable[[Event], None]
    meter: Callable[[], Meter]
    now: Callable[[], float]
    elapsed: Callable[[], float]
    sleep: Callable[[float], None]
    random: Callable[[], float]
    new_id: Callable[[], str]
    interrupted: Callable[[], int | None]
    """The signal that asked ralph to end, if one did."""


def pursue(run: Run, kit: Kit) -> RunResult:
    """Hold fresh sessions on the goal until one is proven done or a limit is reached."""
    if (claim := run.unchecked_claim) is not None:
        run = _prove(run, claim, kit)
    if (claim is not None or run.proven) and (result := _done(run)):
        return result
    tries = Tries()
    while (limit := _limit_reached(run, kit)) is None:
        report = _hold(run, kit, shrunk=tries.shrunk)
        run, notes = _after_session(run, report, kit)
        match decide(report.ending, tries, now=kit.now(), jitter=kit.random(), on_denial=kit.on_denial):
            case Again(reason, tries, not_before):
                _tell_failure(reason, report, kit)
                run = run.noted(*notes)
                if not_before is not None and not _wait(reason, not_before, kit):
                    return _limited(run, Limit.DURATION)
            case Failed(reason):
                _tell_failure(reason, report, kit)
                tries, run = Tries(), _failed(run, reason, report, notes, kit)
                if run.failures >= kit.most_failures:
                    return RunResult(run, 1, f"{run.failures} failures in a row; the last: {reason}", proven=False)
            case Blocked(reason, hint):
                _tell_failure(reason, report, kit)
                return RunResult(run, 6, f"blocked: {reason}", proven=False, hint=hint)
            case Finished(answer, blocked):
                tries, run = Tries(), _finish_iteration(run, answer, notes, kit)
                if (claim := run.unchecked_claim) is not None:
                    run = _prove(run, claim, kit)
                    if result := _done(run):
                        return result
                if blocked is not None:
                    return RunResult(run, 6, f"blocked: {blocked.reason}", proven=False, hint=blocked.hint)
    return _limited(run, limit)


def _limit_reached(run: Run, kit: Kit) -> Limit | None:
    _leave_if_interrupted(kit)
    return kit.limits.reached(iterations=run.used_iterations, elapsed=kit.elapsed(), spend=run.spend)


def _limited(run: Run, limit: Limit) -> RunResult:
    return RunResult(run, 4, f"limit reached: {limit}", proven=False, limit=limit)


def _hold(run: Run, kit: Kit, *, shrunk: bool) -> SessionReport:
    request = kit.request(run, kit.new_id(), shrunk)
    logs = kit.open_logs(run)
    kit.observe(IterationStarted(run.iteration, request.session_id, str(logs.stdout)))
    return hold_session(request, logs, kit.session)


def _after_session(run: Run, report: SessionReport, kit: Kit) -> tuple[Run, list[str]]:
    """Count what the session cost, undo what it must not touch, and leave if the user wants to; say what was undone."""
    notes: list[str] = []
    held = kit.undo()
    for deed in held.undone:
        notes.append(f"The session {deed}; that was undone. `.ralph/` and version control are not yours to touch.")
    for path in held.secrets:
        notes.append(f"the agent itself committed what looks like a secret: {path}")
    if report.denials and kit.on_denial == "continue":
        notes.append(f"{describe_denials(report.denials)}. You are not allowed to: find another way.")
    for note in notes:
        kit.observe(Text(Tag.SYS, note))
    run = run.spent(kit.meter().total)
    if report.ending.answer is None:
        kit.save(run.noted(*notes))
        _leave_if_interrupted(kit)
    return run, notes


def _tell_failure(reason: str, report: SessionReport, kit: Kit) -> None:
    kit.observe(Text(Tag.SYS, f"session ended: {reason} (raw log: {report.log})"))


def _wait(reason: str, until: float, kit: Kit) -> bool:
    """Wait, visibly; False if the run's duration ends first."""
    if kit.limits.duration is not None and kit.elapsed() + until - kit.now() > kit.limits.duration:
        return False
    kit.observe(Waiting(reason, until))
    while (left := until - kit.now()) > 0:
        _leave_if_interrupted(kit)
        kit.sleep(min(left, 0.2))
    return True


def _failed(run: Run, reason: str, report: SessionReport, notes: list[str], kit: Kit) -> Run:
    note = f"The last session failed ({reason}); what it left in the tree is still there."
    if report.text:
        note += f" Its last words: {report.text[-2000:]}"
    run = run.after_failure(note).noted(*notes)
    kit.save(run)
    return run


def _finish_iteration(run: Run, answer: Answer, notes: list[str], kit: Kit) -> Run:
    """Commit, then record: the commit is the iteration, the rest can be rebuilt from it."""
    number = run.iteration
    message = commit_message(goal=run.goal, run=run.id, iteration=number, answer=answer, spend=run.spend)
    committed = kit.commit(message)
    iteration = Iteration(number, timestamp(kit.now()), answer.summary, committed.sha, answer.verdict)
    kit.record(iteration)
    run = run.after(iteration).noted(*notes)
    kit.save(run)
    for path in committed.left_out:
        kit.observe(Text(Tag.SYS, f"left out of the commit, since it looks like a secret: {path}"))
    for path in committed.nested:
        kit.observe(Text(Tag.SYS, f"left out of the commit, since it is a git repository of its own: {path}"))
    meter = kit.meter()
    cost = meter.session.cost_usd if meter.session.costed else None
    kit.observe(IterationEnded(number, answer.verdict, committed.sha, cost, meter.context_pct, answer.summary))
    return run


def _prove(run: Run, claim: Iteration, kit: Kit) -> Run:
    """Run the check, if there is one, on the work of an iteration that claims DONE; record what it says."""
    proof = kit.prove(claim.number)
    if proof is None:
        return run
    _leave_if_interrupted(kit)
    kit.observe(CheckEnded(proof.exit_code, round(proof.seconds, 3), proof.output))
    run = run.checked(CheckRecord(claim.number, proof.exit_code, proof.output))
    kit.save(run)
    return run


def _done(run: Run) -> RunResult | None:
    """The end of a run whose last iteration claims DONE, unless its check is red."""
    if run.check is None:
        return RunResult(run, 0, "done (unproven: no check)", proven=False)
    return RunResult(run, 0, "done", proven=True) if run.check.passed else None


def _leave_if_interrupted(kit: Kit) -> None:
    if (number := kit.interrupted()) is not None:
        raise Interrupted(number)
