"""The loop: fresh sessions on one goal until it is proven done or a limit is reached."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from ralph.agents.base import Request
from ralph.core.events import CheckEnded, Event, Guided, IterationEnded, IterationStarted, Tag, Text
from ralph.core.failures import Again, Blocked, Failed, Finished, Limited, Tries, decide, describe_denials
from ralph.core.guidance import Receipt, Steering
from ralph.core.limits import Limit, Limits, limit_reached
from ralph.core.run import CheckRecord, Iteration, Run, RunResult, commit_message
from ralph.core.stall import StallMark, words_of
from ralph.core.text import timestamp
from ralph.core.usage import Meter
from ralph.core.verdict import Answer, Verdict, obstacle_in
from ralph.run.session import Logs, SessionKit, SessionReport, run_session
from ralph.system.clock import VisibleWait


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


STALLED = 5
_CANNOT_RUN = frozenset({126, 127})
"""Exit codes by which shells, `env` and ralph say that a program cannot be started, or is not there."""
USER_STOP = 130
"""Exit code of a run that the user stops with `ralph stop` or a key: as with Ctrl-C, only later."""


@dataclass(frozen=True, slots=True)
class Kit:
    """The collaborators of a run, built by the command line."""

    session: SessionKit
    limits: Limits
    most_failures: int
    stall_after: int
    on_denial: str
    request: Callable[[Run, str, bool], Request]
    """The request for the run's next session, with this id; True: shrunk."""
    open_logs: Callable[[Run], Logs]
    condense: Callable[[Run, bool], Run | None]
    """Have the older iterations condensed if that is due (True: as many as can be); None: it is not."""
    undo: Callable[[], Held]
    """Undo what a session must not do to `.ralph/` and the branch; say what it had done, and what secrets committed."""
    commit: Callable[[str], Committed]
    record: Callable[[Iteration], None]
    save: Callable[[Run], None]
    prove: Callable[[int], Proof | None]
    """Run the check on an iteration's work; None: there is no check."""
    same_tree: Callable[[Sequence[str], str], bool]
    """Whether one of several commits holds the same files as another one."""
    elsewhere: Callable[[], str]
    """A digest of all that was committed other than by this run: on other branches, in repositories within this one."""
    observe: Callable[[Event], None]
    meter: Callable[[], Meter]
    helm: Steering
    patience: VisibleWait
    elapsed: Callable[[], float]
    random: Callable[[], float]
    new_id: Callable[[], str]


def run_goal(run: Run, kit: Kit) -> RunResult:
    """Hold fresh sessions on the goal until one is proven done or a limit is reached."""
    if (claim := run.unchecked_claim) is not None:
        run = _prove(run, claim, kit)
    run = _guided(run, kit)
    if (claim is not None or run.proven) and (result := _done(run, kit)):
        return result
    tries = Tries()
    while (result := _ended_before_session(run := _heed(run, kit), kit)) is None:
        if (condensed := kit.condense(run, tries.shrunk)) is not None:
            run = condensed
            continue  # it took time and money: the limits come first
        report = _hold(run, kit, shrunk=tries.shrunk)
        run, notes = _after_session(run, report, kit)
        match decide(report.ending, tries, now=kit.patience.now(), jitter=kit.random(), on_denial=kit.on_denial):
            case Again(reason, tries, not_before):
                _tell_failure(reason, report, kit)
                run = run.noted(_cut_off(reason), *notes)
                if not_before is not None and not _wait(reason, not_before, kit):
                    return replace(_limited(run, Limit.DURATION), not_before=not_before)
            case Failed(reason, hint):
                _tell_failure(f"{reason}; failure {run.failures + 1} of {kit.most_failures} in a row", report, kit)
                tries, run = Tries(), _failed(run, reason, report, notes, kit)
                if run.failures >= kit.most_failures:
                    words = f"{run.failures} failures in a row; the last: {reason}"
                    return RunResult(run, 1, words, proven=False, hint=hint)
            case Limited(reason, limit):
                _tell_failure(reason, report, kit)
                return _limited(run.noted(*notes), limit)
            case Blocked(reason, hint):
                _tell_failure(reason, report, kit)
                return RunResult(run, 6, f"blocked: {reason}", proven=False, hint=hint)
            case Finished(answer, blocked):
                before = run.check
                tries, run = Tries(), _finish_iteration(run, answer, notes, kit)
                if (claim := run.unchecked_claim) is not None:
                    run = _prove(run, claim, kit)
                run = _guided(_acknowledged(run, answer, kit), kit)
                if claim is not None and (result := _done(run, kit) or _unjudged(run, before)):
                    return result
                if blocked is not None:
                    return RunResult(run, 6, f"blocked: {blocked.reason}", proven=False, hint=blocked.hint)
                if claim is not None:
                    run = _take_stock(run, answer, kit)
                    kit.save(run)
                run = _nudged(run, kit)
                if result := _stuck(run, answer, kit):
                    return result
    return result


def _ended_before_session(run: Run, kit: Kit) -> RunResult | None:
    """The end of a run that must hold no further session: a limit is reached, or the user asked for it."""
    kit.patience.leave_if_interrupted()
    limit = kit.limits.reached(iterations=run.used_iterations, elapsed=kit.elapsed(), spend=run.spend)
    if limit is not None:
        return _limited(run, limit)
    if kit.helm.stopping:
        return RunResult(run, USER_STOP, f"stopped {kit.helm.stopped_by}", proven=False)
    return None


def _heed(run: Run, kit: Kit) -> Run:
    """Take in what the user asks for; as long as that is a pause, hold it."""
    run = _guided(run, kit)
    while kit.helm.paused and _ended_before_session(run, kit) is None:
        _wait("paused; `ralph resume` goes on", None, kit)
        run = _guided(run, kit)
    return run


def _guided(run: Run, kit: Kit) -> Run:
    kit.helm.listen()
    if told := kit.helm.take_told():
        for word in told:
            kit.observe(Guided(word.number, word.text, "received"))
            run = run.guided(word)
        kit.save(run)
    return run


def _limited(run: Run, limit: Limit) -> RunResult:
    return RunResult(run, 4, limit_reached(limit), proven=False, limit=limit)


def _hold(run: Run, kit: Kit, *, shrunk: bool) -> SessionReport:
    request = kit.request(run, kit.new_id(), shrunk)
    logs = kit.open_logs(run)
    kit.observe(IterationStarted(run.iteration, request.session_id, str(logs.stdout)))
    return run_session(request, logs, kit.session)


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
        kit.patience.leave_if_interrupted()
    return run, notes


def _tell_failure(reason: str, report: SessionReport, kit: Kit) -> None:
    kit.observe(Text(Tag.SYS, f"session ended: {reason} (raw log: {report.log})"))


def _cut_off(reason: str) -> str:
    return f"An earlier session was cut off ({reason}); what it left in the tree, if anything, is still there."


def _wait(reason: str, until: float | None, kit: Kit) -> bool:
    """Wait until then, or until the user has it otherwise; False if the run's duration would end first."""
    duration = float("inf") if kit.limits.duration is None else kit.limits.duration
    if until is not None and kit.elapsed() + until - kit.patience.now() > duration:
        words = f"not waited for: nothing could go on before {timestamp(until)}, and --duration is over by then"
        kit.observe(Text(Tag.SYS, words))
        return False

    def enough() -> bool:
        kit.helm.listen()
        over = kit.helm.roused if until is not None else kit.helm.stopping or not kit.helm.paused
        return over or kit.elapsed() >= duration

    kit.helm.begin_wait()
    kit.patience.wait(reason, until, enough)
    if until is not None and kit.helm.roused and not kit.helm.stopping:
        kit.observe(Text(Tag.SYS, "woken: going on before the time"))
    return True


def _failed(run: Run, reason: str, report: SessionReport, notes: list[str], kit: Kit) -> Run:
    note = f"The last session failed ({reason}); what it left in the tree is still there."
    if report.text:
        note += f" Its last words: {report.text[-2000:]}"
    run = run.after_failure(note).noted(*notes)
    kit.save(run)
    return run


def _finish_iteration(run: Run, answer: Answer, notes: list[str], kit: Kit) -> Run:
    """Commit, then record: the commit is the iteration, the rest can be rebuilt from it.

    What claims DONE is saved before its check, which may take long. All else is saved once, with what it came to.
    """
    number = run.iteration
    message = commit_message(goal=run.goal, run=run.id, iteration=number, answer=answer, spend=run.spend)
    committed = kit.commit(message)
    iteration = Iteration(number, timestamp(kit.patience.now()), answer.summary, committed.sha, answer.verdict)
    run = run.after(iteration).noted(*notes)
    if run.unchecked_claim is None:
        run = _take_stock(run, answer, kit)
    # Side by side: between the two an iteration would count that the saved notes and check do not know of.
    kit.record(iteration)
    kit.save(run)
    for path in committed.left_out:
        kit.observe(Text(Tag.SYS, f"left out of the commit, since it looks like a secret: {path}"))
    for path in committed.nested:
        kit.observe(Text(Tag.SYS, f"left out of the commit, since it is a git repository of its own: {path}"))
    meter = kit.meter()
    cost = meter.session.cost_usd if meter.session.costed else None
    kit.observe(IterationEnded(number, answer.verdict, committed.sha, cost, meter.context_pct, answer.summary))
    return run


def _acknowledged(run: Run, answer: Answer, kit: Kit) -> Run:
    """See which guidance the summary acknowledges, as it was asked to; the rest is told again, a few times."""
    if not run.guidance:
        return run
    told = [guidance.told_once_more() for guidance in run.guidance]
    # A DONE in one word has no room for a receipt: if it holds, who claimed it knew what was asked.
    done = answer.verdict is Verdict.DONE and (run.check is None or run.check.passed)
    receipts = [(item, item.receipt_in(answer.summary, done=done)) for item in told]
    for item, receipt in receipts:
        kit.observe(Guided(item.number, item.text, receipt))
    run = run.with_guidance(tuple(item for item, receipt in receipts if receipt is Receipt.MISSING))
    kit.save(run)
    return run


def _take_stock(run: Run, answer: Answer, kit: Kit) -> Run:
    """See whether the iteration came to more than an earlier one."""
    check = "" if run.check is None else f"{run.check.exit_code} {run.check.output}"
    mark = StallMark(words_of(answer.summary, check), run.tip or "")
    return run.stood(run.standstill.after(mark, same_tree=kit.same_tree, elsewhere=kit.elsewhere))


def _nudged(run: Run, kit: Kit) -> Run:
    """Have the next prompt say so if many iterations came to the same; tell of an agent that says it is blocked."""
    if run.obstacles == 1:
        kit.observe(Text(Tag.SYS, "the agent says it is blocked; the next session is asked to confirm that"))
    if not kit.stall_after <= run.standstill.idle < 2 * kit.stall_after:
        return run
    nudge = (
        f"The last {run.standstill.idle} iterations came to the same: no file changed, and summary and check said"
        " nothing new. What was tried does not work: take another way, or find out why it does not."
    )
    kit.observe(Text(Tag.SYS, f"no progress in {run.standstill.idle} iterations; the next session is told"))
    run = run.noted(nudge)
    kit.save(run)
    return run


def _stuck(run: Run, answer: Answer, kit: Kit) -> RunResult | None:
    """The end of a run that cannot go on: two sessions say so, or nothing has moved for long."""
    if run.obstacles > 1:
        hint = "clear the way, then run this again"
        return RunResult(run, 6, f"blocked: the agent says: {obstacle_in(answer.summary)}", proven=False, hint=hint)
    if run.standstill.idle >= 2 * kit.stall_after:
        return RunResult(run, STALLED, f"stalled: {run.standstill.idle} iterations came to the same", proven=False)
    return None


def _prove(run: Run, claim: Iteration, kit: Kit) -> Run:
    """Run the check, if there is one, on the work of an iteration that claims DONE; record what it says."""
    proof = kit.prove(claim.number)
    if proof is None:
        return run
    kit.patience.leave_if_interrupted()
    kit.observe(CheckEnded(proof.exit_code, round(proof.seconds, 3), proof.output))
    run = run.checked(CheckRecord(claim.number, proof.exit_code, proof.output))
    kit.save(run)
    return run


def _unjudged(run: Run, before: CheckRecord | None) -> RunResult | None:
    """The end of a run whose check cannot run, in the same words as the time before: no session has mended that."""
    now = run.check
    if now is None or before is None or now.exit_code not in _CANNOT_RUN:
        return None
    if (now.exit_code, now.output) != (before.exit_code, before.output):
        return None
    why = (now.output.strip().splitlines() or [f"exit {now.exit_code}"])[-1]
    hint = "see for yourself with `ralph check`, mend it, then run this again"
    return RunResult(run, 6, f"blocked: the check cannot run: {why}", proven=False, hint=hint)


def _done(run: Run, kit: Kit) -> RunResult | None:
    """The end of a run whose last iteration claims DONE, unless its check is red, or the user has asked for more."""
    if run.check is not None and not run.check.passed:
        return None
    if any(guidance.told == 0 for guidance in run.guidance):
        kit.observe(Text(Tag.SYS, "the claim is put off: no session has been told of the latest guidance yet"))
        return None
    if run.check is None:
        return RunResult(run, 0, "done (unproven: no check)", proven=False)
    return RunResult(run, 0, "done", proven=True)
