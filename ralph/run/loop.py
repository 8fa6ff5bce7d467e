"""The loop: fresh sessions on one goal until it is proven done or a limit is reached."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from ralph.core.events import CheckEnded, CheckStarted, Guided, IterationEnded, Tag, Text
from ralph.core.failures import Again, Blocked, Failed, Finished, Limited, Tries, decide, describe_denials
from ralph.core.guidance import Receipt, Steering
from ralph.core.limits import Limit, Limits, limit_reached
from ralph.core.run import CheckRecord, Committed, Held, Iteration, Run, RunResult, commit_message
from ralph.core.stall import StallMark, words_of
from ralph.core.text import timestamp
from ralph.core.verdict import Answer, Verdict, obstacle_in
from ralph.run.check import CheckReport
from ralph.run.session import MeteredObserver, SessionReport
from ralph.system.clock import VisibleWait

STALLED = 5
_CANNOT_RUN = frozenset({126, 127})
"""Exit codes by which shells, `env` and ralph say that a program cannot be started, or is not there."""
USER_STOP = 130
"""Exit code of a run that the user stops with `ralph stop` or a key: as with Ctrl-C, only later."""


class WorkSessions(Protocol):
    """The agent, with its prompts and logs."""

    def work(self, run: Run, *, shrunk: bool) -> SessionReport:
        """Run the run's next session; `shrunk`: with a shorter prompt."""
        ...

    def condense(self, run: Run, *, shrink: bool) -> Run | None:
        """Have the older iterations summarized if that is due (`shrink`: as many as can be); None: it is not."""
        ...


class CheckedTree(Protocol):
    """The working tree, with the check that judges it."""

    @property
    def has_check(self) -> bool: ...
    def undo(self) -> Held:
        """Undo what a session must not do to `.ralph/` and the branch; return that, and which secrets it committed."""
        ...

    def commit(self, message: str) -> Committed: ...
    def prove(self, iteration: int) -> CheckReport:
        """Run the check on an iteration's work."""
        ...

    def same_tree(self, commits: Sequence[str], other: str) -> bool:
        """Tell whether one of several commits holds the same files as another one."""
        ...

    def elsewhere(self) -> str:
        """A digest of all that others committed: on other branches, in repositories within this one."""
        ...


class RunRecords(Protocol):
    """What is kept of a run."""

    def record(self, iteration: Iteration) -> None: ...
    def save(self, run: Run) -> None: ...


@dataclass(frozen=True, slots=True)
class Rules:
    """When a run gives up."""

    limits: Limits
    most_failures: int
    stall_after: int
    on_denial: str


@dataclass(frozen=True, slots=True)
class Workspace:
    """What a run works by, and with; built in `run/workspace`."""

    rules: Rules
    sessions: WorkSessions
    tree: CheckedTree
    records: RunRecords
    observe: MeteredObserver
    steering: Steering
    clock: VisibleWait


_Step = tuple[Run, RunResult | None]
"""The run after a step, and its result if that ended it."""


def run_goal(run: Run, ws: Workspace) -> RunResult:
    """Run fresh sessions on the goal until one is proven done or a limit is reached."""
    tries = Tries()
    run, result = _judge_open_claim(run, ws)
    while result is None and (result := _ended_before_session(run := _heed(run, ws), ws)) is None:
        if (condensed := ws.sessions.condense(run, shrink=tries.shrunk)) is not None:
            run = condensed
            continue  # it took time and money: the limits come first
        report = ws.sessions.work(run, shrunk=tries.shrunk)
        run, notes = _after_session(run, report, ws)
        now, jitter = ws.clock.now(), random.random()  # noqa: S311 - so that not all who wait come back at once
        match decide(report.ending, tries, now=now, jitter=jitter, on_denial=ws.rules.on_denial):
            case Again(reason, tries, not_before):
                run, result = _retry(run, reason, not_before, report, notes, ws)
            case Failed(reason, hint):
                tries, (run, result) = Tries(), _failed(run, reason, hint, report, notes, ws)
            case Limited(reason, limit):
                _tell_failure(reason, report, ws)
                result = _limited(run.noted(*notes), limit)
            case Blocked(reason, hint):
                _tell_failure(reason, report, ws)
                result = _blocked(run.noted(*notes), reason, hint)
            case Finished(answer, blocked):
                tries, (run, result) = Tries(), _finished(run, answer, blocked, notes, ws)
    return result


def _judge_open_claim(run: Run, ws: Workspace) -> _Step:
    """Check what the last start left unchecked."""
    if (claim := run.unchecked_claim) is not None:
        run = _prove(run, claim, ws)
    run = _guided(run, ws)
    return run, _done(run, ws) if claim is not None or run.proven else None


def _retry(
    run: Run, reason: str, not_before: float | None, report: SessionReport, notes: list[str], ws: Workspace
) -> _Step:
    """Have the same iteration tried again, now or later."""
    _tell_failure(reason, report, ws)
    run = run.noted(_cut_off(reason), *notes)
    if not_before is None or _wait(reason, not_before, ws, end=report.ending.end):
        return run, None
    return run, replace(_limited(run, Limit.DURATION), not_before=not_before)


def _finished(run: Run, answer: Answer, blocked: Blocked | None, notes: list[str], ws: Workspace) -> _Step:
    """Commit an iteration, have its claim checked, and see whether the run can go on."""
    before = run.check
    run = _finish_iteration(run, answer, notes, ws)
    if (claim := run.unchecked_claim) is not None:
        run = _prove(run, claim, ws)
    run = _guided(_acknowledged(run, answer, ws), ws)
    if claim is not None and (result := _done(run, ws) or _unjudged(run, before)):
        return run, result
    if blocked is not None:
        return run, _blocked(run, blocked.reason, blocked.hint)
    if claim is not None:
        run = _take_stock(run, answer, ws)
        ws.records.save(run)
    run = _nudged(run, ws)
    return run, _stuck(run, answer, ws)


def _blocked(run: Run, reason: str, hint: str) -> RunResult:
    return RunResult(run, 6, f"blocked: {reason}", proven=False, hint=hint)


def _ended_before_session(run: Run, ws: Workspace) -> RunResult | None:
    """The end of a run that must hold no further session: a limit is reached, or the user asked for it."""
    ws.clock.leave_if_interrupted()
    limit = ws.rules.limits.reached(iterations=run.used_iterations, elapsed=ws.clock.elapsed(), spend=run.spend)
    if limit is not None:
        return _limited(run, limit)
    if ws.steering.stopping:
        return RunResult(run, USER_STOP, f"stopped {ws.steering.stopped_by.words}", proven=False)
    return None


def _heed(run: Run, ws: Workspace) -> Run:
    """Take in what the user asks for; as long as that is a pause, hold it."""
    run = _guided(run, ws)
    while ws.steering.paused and _ended_before_session(run, ws) is None:
        _wait("paused; `ralph resume` goes on", None, ws)
        run = _guided(run, ws)
    return run


def _guided(run: Run, ws: Workspace) -> Run:
    ws.steering.listen()
    if told := ws.steering.take_told():
        for word in told:
            ws.observe(Guided(word.number, word.text, "received"))
            run = run.guided(word)
        ws.records.save(run)
    return run


def _limited(run: Run, limit: Limit) -> RunResult:
    return RunResult(run, 4, limit_reached(limit), proven=False, limit=limit)


def _after_session(run: Run, report: SessionReport, ws: Workspace) -> tuple[Run, list[str]]:
    """Count what the session cost, undo what it must not touch, and leave if the user wants to; say what was undone."""
    notes: list[str] = []
    held = ws.tree.undo()
    for deed in held.undone:
        notes.append(
            f"The session {deed.words}; that was undone. `.ralph/` and version control are not yours to touch."
        )
    for path in held.secrets:
        notes.append(f"the agent itself committed what looks like a secret: {path}")
    if report.denials and ws.rules.on_denial == "continue":
        notes.append(f"{describe_denials(report.denials)}. You are not allowed to: find another way.")
    for note in notes:
        ws.observe(Text(Tag.SYS, note))
    run = run.spent(ws.observe.meter.total)
    if report.ending.answer is None:
        ws.records.save(run.noted(*notes))
        ws.clock.leave_if_interrupted()
    return run, notes


def _tell_failure(reason: str, report: SessionReport, ws: Workspace) -> None:
    ws.observe(Text(Tag.SYS, f"session ended: {reason} (raw log: {report.log})"))


def _cut_off(reason: str) -> str:
    return f"An earlier session was cut off ({reason}); what it left in the tree, if anything, is still there."


def _wait(reason: str, until: float | None, ws: Workspace, *, end: str = "") -> bool:
    """Wait until then, or until the user has it otherwise; False if the run's duration would end first."""
    duration = float("inf") if ws.rules.limits.duration is None else ws.rules.limits.duration
    if until is not None and ws.clock.elapsed() + until - ws.clock.now() > duration:
        words = f"not waited for: nothing could go on before {timestamp(until)}, and --duration is over by then"
        ws.observe(Text(Tag.SYS, words))
        return False

    def enough() -> bool:
        ws.steering.listen()
        over = ws.steering.roused if until is not None else ws.steering.stopping or not ws.steering.paused
        return over or ws.clock.elapsed() >= duration

    ws.steering.begin_wait()
    ws.clock.wait(reason, until, enough, end=end)
    if until is not None and ws.steering.roused and not ws.steering.stopping:
        ws.observe(Text(Tag.SYS, "woken: going on before the time"))
    return True


def _failed(run: Run, reason: str, hint: str, report: SessionReport, notes: list[str], ws: Workspace) -> _Step:
    """Count a failure; too many in a row end the run."""
    _tell_failure(f"{reason}; failure {run.failures + 1} of {ws.rules.most_failures} in a row", report, ws)
    note = f"The last session failed ({reason}); what it left in the tree is still there."
    if report.text:
        note += f" Its last words: {report.text[-2000:]}"
    run = run.after_failure(note).noted(*notes)
    ws.records.save(run)
    if run.failures < ws.rules.most_failures:
        return run, None
    words = f"{run.failures} failures in a row; the last: {reason}"
    return run, RunResult(run, 1, words, proven=False, hint=hint)


def _finish_iteration(run: Run, answer: Answer, notes: list[str], ws: Workspace) -> Run:
    """Commit, then record: the commit is the iteration, the rest can be rebuilt from it.

    What claims DONE is saved before its check, which may take long. All else is saved once, with what it came to.
    """
    number = run.iteration
    message = commit_message(goal=run.goal, run=run.id, iteration=number, answer=answer, spend=run.spend)
    committed = ws.tree.commit(message)
    iteration = Iteration(number, timestamp(ws.clock.now()), answer.summary, committed.sha, answer.verdict)
    # Its session was told of all guidance: so it stands also if the check is cut off, and the claim is judged later.
    told = tuple(guidance.told_once_more() for guidance in run.guidance)
    run = run.after(iteration).noted(*notes).with_guidance(told)
    if run.unchecked_claim is None:
        run = _take_stock(run, answer, ws)
    # Side by side: between the two an iteration would count that the saved notes and check do not know of.
    ws.records.record(iteration)
    ws.records.save(run)
    for path in committed.left_out:
        ws.observe(Text(Tag.SYS, f"left out of the commit, since it looks like a secret: {path}"))
    for path in committed.nested:
        ws.observe(Text(Tag.SYS, f"left out of the commit, since it is a git repository of its own: {path}"))
    meter = ws.observe.meter
    cost = meter.session.cost_usd if meter.session.costed else None
    ws.observe(IterationEnded(number, answer.verdict, committed.sha, cost, meter.context_pct, answer.summary))
    return run


def _acknowledged(run: Run, answer: Answer, ws: Workspace) -> Run:
    """See which guidance the summary acknowledges, as it was asked to; the rest is told again, a few times."""
    if not run.guidance:
        return run
    # A DONE in one word has no room for a receipt: if it holds, who claimed it knew what was asked.
    done = answer.verdict is Verdict.DONE and (run.check is None or run.check.passed)
    receipts = [(item, item.receipt_in(answer.summary, done=done)) for item in run.guidance]
    for item, receipt in receipts:
        ws.observe(Guided(item.number, item.text, receipt))
    run = run.with_guidance(tuple(item for item, receipt in receipts if receipt is Receipt.MISSING))
    ws.records.save(run)
    return run


def _take_stock(run: Run, answer: Answer, ws: Workspace) -> Run:
    """See whether the iteration came to more than an earlier one."""
    check = "" if run.check is None else f"{run.check.exit_code} {run.check.output}"
    mark = StallMark(words_of(answer.summary, check), run.tip or "")
    return run.stood(run.standstill.after(mark, same_tree=ws.tree.same_tree, elsewhere=ws.tree.elsewhere))


def _nudged(run: Run, ws: Workspace) -> Run:
    """Have the next prompt say so if many iterations came to the same; tell of an agent that says it is blocked."""
    if run.obstacles == 1:
        ws.observe(Text(Tag.SYS, "the agent says it is blocked; the next session is asked to confirm that"))
    if not ws.rules.stall_after <= run.standstill.idle < 2 * ws.rules.stall_after:
        return run
    nudge = (
        f"The last {run.standstill.idle} iterations came to the same: no file changed, and summary and check said"
        " nothing new. What was tried does not work: take another way, or find out why it does not."
    )
    ws.observe(Text(Tag.SYS, f"no progress in {run.standstill.idle} iterations; the next session is told"))
    run = run.noted(nudge)
    ws.records.save(run)
    return run


def _stuck(run: Run, answer: Answer, ws: Workspace) -> RunResult | None:
    """The end of a run that cannot go on: two sessions say so, or nothing has moved for long."""
    if run.obstacles > 1:
        hint = "clear the way, then run this again"
        return RunResult(run, 6, f"blocked: the agent says: {obstacle_in(answer.summary)}", proven=False, hint=hint)
    if run.standstill.idle >= 2 * ws.rules.stall_after:
        return RunResult(run, STALLED, f"stalled: {run.standstill.idle} iterations came to the same", proven=False)
    return None


def _prove(run: Run, claim: Iteration, ws: Workspace) -> Run:
    """Run the check, if there is one, on the work of an iteration that claims DONE; record what it says."""
    if not ws.tree.has_check:
        return run
    ws.observe(CheckStarted(claim.number))
    proof = ws.tree.prove(claim.number)
    ws.clock.leave_if_interrupted()
    ws.observe(CheckEnded(proof.exit_code, round(proof.seconds, 3), proof.output))
    run = run.checked(CheckRecord(claim.number, proof.exit_code, proof.output))
    ws.records.save(run)
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


def _done(run: Run, ws: Workspace) -> RunResult | None:
    """The end of a run whose last iteration claims DONE, unless its check is red, or the user has asked for more."""
    if run.check is not None and not run.check.passed:
        return None
    if any(guidance.told == 0 for guidance in run.guidance):
        ws.observe(Text(Tag.SYS, "the claim is put off: no session has been told of the latest guidance yet"))
        return None
    if run.check is None:
        return RunResult(run, 0, "done (unproven: no check)", proven=False)
    return RunResult(run, 0, "done", proven=True)
