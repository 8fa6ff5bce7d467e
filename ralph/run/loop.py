"""The loop: fresh sessions on one goal until it is proven done or a limit is reached."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from ralph.core.events import CheckEnded, CheckStarted, Guided, IterationEnded, Tag, Text
from ralph.core.failures import Again, Blocked, End, Failed, Finished, Limited, Tries, decide, describe_denials
from ralph.core.guidance import Receipt, Steering, StoppedBy
from ralph.core.limits import Limit, Limits
from ralph.core.run import CheckRecord, Committed, Ending, Held, Iteration, Run, RunResult, commit_message
from ralph.core.stall import StallMark, words_of
from ralph.core.text import timestamp
from ralph.core.verdict import Answer, Verdict, obstacle_in
from ralph.proof.check import CheckReport
from ralph.run.prompts import said_of
from ralph.run.session import MeteredObserver, SessionReport
from ralph.system.clock import VisibleWait

_CANNOT_RUN = frozenset({126, 127})
"""Exit codes of shells, `env` and ralph for a program that is missing or cannot be started."""


class WorkSessions(Protocol):
    """The agent, with its prompts and logs."""

    def work(self, run: Run, *, shrunk: bool) -> SessionReport:
        """Run the run's next session; `shrunk`: with a shorter prompt."""
        ...

    def next_start(self, resets_at: float | None, not_before: float | None) -> float | None:
        """Return when the next session can begin after a usage limit: then, or earlier by another agent. None: now."""
        ...

    def condense(self, run: Run, *, shrink: bool) -> Run | None:
        """Summarize the older iterations if that is due (`shrink`: as many as possible); None if not."""
        ...


class CheckedTree(Protocol):
    """The working tree and its check."""

    @property
    def has_check(self) -> bool: ...
    def undo(self) -> Held:
        """Undo a session's changes to `.ralph/` and the branch; return them, and the secrets that it committed."""
        ...

    def commit(self, message: str, *, claims: bool) -> Committed:
        """Commit an iteration; the commit of one that `claims` DONE names the protected files that it changes."""
        ...

    def prove(self, iteration: int) -> CheckReport:
        """Run the check on an iteration's work."""
        ...

    def same_tree(self, commits: Sequence[str], other: str) -> bool:
        """Tell whether one of `commits` has the same files as `other`."""
        ...

    def elsewhere(self) -> str:
        """Return a digest of the commits on other branches and in nested repositories."""
        ...


class RunRecords(Protocol):
    """The stored record of a run."""

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
    """A run's rules and collaborators; built in `run/workspace`."""

    rules: Rules
    sessions: WorkSessions
    tree: CheckedTree
    records: RunRecords
    observe: MeteredObserver
    steering: Steering
    clock: VisibleWait


_Step = tuple[Run, RunResult | None]
"""The run after a step, and its result if the step ended it."""


def run_goal(run: Run, ws: Workspace) -> RunResult:
    """Run fresh sessions on the goal until one is proven done or a limit is reached."""
    tries = Tries()
    run, result = _judge_open_claim(run, ws)
    while result is None and (result := _ended_before_session(run := _listen(run, ws), ws)) is None:
        if (condensed := ws.sessions.condense(run, shrink=tries.shrunk)) is not None:
            run = condensed
            continue  # condensing took time and money: test the limits first
        report = ws.sessions.work(run, shrunk=tries.shrunk)
        run, notes = _after_session(run, report, ws)
        now, jitter = ws.clock.now(), random.random()  # noqa: S311 - so that waiting runs don't all retry at once
        match decide(report.ending, tries, now=now, jitter=jitter, on_denial=ws.rules.on_denial):
            case Again(reason, tries, not_before):
                run, result = _retry(run, reason, not_before, report, notes, ws)
            case Failed(reason, hint):
                tries, (run, result) = Tries(), _failed(run, reason, hint, report, notes, ws)
            case Limited(reason, limit):
                _tell_failure(reason, report, ws)
                result = _limited(run.noted(*notes), limit)
            case Blocked(reason, hint, again):
                _tell_failure(reason, report, ws)
                result = RunResult(run.noted(*notes), Ending.SESSION, reason, hint, again)
            case Finished(answer, blocked):
                tries, (run, result) = Tries(), _finished(run, answer, blocked, notes, ws)
    return result


def _judge_open_claim(run: Run, ws: Workspace) -> _Step:
    """Check a claim that the last start did not check."""
    if (claim := run.unchecked_claim) is not None:
        run = _prove(run, claim, ws)
    run = _guided(run, ws)
    return run, _done(run, ws) if claim is not None or run.proven else None


def _retry(
    run: Run, reason: str, not_before: float | None, report: SessionReport, notes: list[str], ws: Workspace
) -> _Step:
    """Try the same iteration again, now or later."""
    _tell_failure(reason, report, ws)
    run = run.noted(_cut_off(reason), *notes)
    if report.ending.end is End.USAGE_LIMIT:
        not_before = ws.sessions.next_start(report.ending.resets_at, not_before)
    if not_before is None or _wait(reason, not_before, ws, end=report.ending.end):
        return run, None
    return run, replace(_limited(run, Limit.DURATION), not_before=not_before)


def _finished(run: Run, answer: Answer, blocked: Blocked | None, notes: list[str], ws: Workspace) -> _Step:
    """Commit an iteration, check its claim, and decide whether the run continues."""
    before = run.check
    run = _finish_iteration(run, answer, notes, ws)
    if (claim := run.unchecked_claim) is not None:
        run = _prove(run, claim, ws)
    run = _guided(_acknowledged(run, answer, ws), ws)
    result = None if claim is None else _done(run, ws) or _unjudged(run, before)
    # The claim may rest on a refused action: only a check outweighs that.
    if result is not None and not (blocked is not None and result.ending is Ending.UNPROVEN):
        return run, result
    if blocked is not None:
        return run, RunResult(run, Ending.SESSION, blocked.reason, blocked.hint, blocked.again)
    if claim is not None:
        run = _take_stock(run, answer, ws)
        ws.records.save(run)
    run = _nudged(run, ws)
    return run, _stuck(run, answer, ws)


def _ended_before_session(run: Run, ws: Workspace) -> RunResult | None:
    """Return the result if a limit is reached or the user asked ralph to stop; None to start a session."""
    ws.clock.leave_if_interrupted()
    limit = ws.rules.limits.reached(iterations=run.used_iterations, elapsed=ws.clock.elapsed(), spend=run.spend)
    if limit is not None:
        return _limited(run, limit)
    if ws.steering.stopping:
        return RunResult(run, Ending.STOP_KEY if ws.steering.stopped_by is StoppedBy.KEY else Ending.STOP_COMMAND)
    return None


def _listen(run: Run, ws: Workspace) -> Run:
    """Read the user's requests; while the run is paused, wait."""
    run = _guided(run, ws)
    while ws.steering.paused and _ended_before_session(run, ws) is None:
        _wait("paused; continue with: ralph resume", None, ws)
        run = _guided(run, ws)
    return run


def _guided(run: Run, ws: Workspace) -> Run:
    ws.steering.listen()
    if told := ws.steering.take_told():
        for word in told:
            run = run.guided(word)
            ws.observe(Guided(run.guidance[-1].number, word.text, Receipt.RECEIVED))
        ws.records.save(run)
    return run


def _limited(run: Run, limit: Limit) -> RunResult:
    return RunResult(run, Ending.LIMIT, limit=limit)


def _after_session(run: Run, report: SessionReport, ws: Workspace) -> tuple[Run, list[str]]:
    """Count the session's cost, undo its forbidden changes, and stop if asked to; return notes on what was undone."""
    notes: list[str] = []
    held = ws.tree.undo()
    notes += [
        f"The session {said_of(undone)}; ralph undid that. Do not touch `.ralph/` or version control."
        for undone in held.undone
    ]
    for path in held.secrets:
        notes.append(f"the agent committed a file that looks like a secret: {path}")
    if report.denials and ws.rules.on_denial == "continue":
        notes.append(f"{describe_denials(report.denials)}. This is not allowed: find another way.")
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
    return f"An earlier session was interrupted ({reason}); its changes, if any, are still in the tree."


def _wait(reason: str, until: float | None, ws: Workspace, *, end: str = "") -> bool:
    """Wait until then, or until the user wakes the run; False if --duration would end first."""
    duration = float("inf") if ws.rules.limits.duration is None else ws.rules.limits.duration
    if until is not None and ws.clock.elapsed() + until - ws.clock.now() > duration:
        words = f"not waiting: the wait would last until {timestamp(until)}, longer than --duration allows"
        ws.observe(Text(Tag.SYS, words))
        return False

    def enough() -> bool:
        ws.steering.listen()
        over = ws.steering.roused if until is not None else ws.steering.stopping or not ws.steering.paused
        return over or ws.clock.elapsed() >= duration

    ws.steering.begin_wait()
    ws.clock.wait(reason, until, enough, end=end)
    if until is not None and ws.steering.roused and not ws.steering.stopping:
        ws.observe(Text(Tag.SYS, "woken: continuing now"))
    return True


def _failed(run: Run, reason: str, hint: str, report: SessionReport, notes: list[str], ws: Workspace) -> _Step:
    """Count a failure; too many in a row end the run."""
    _tell_failure(f"{reason}; failure {run.failures + 1} of {ws.rules.most_failures} in a row", report, ws)
    note = f"The last session failed ({reason}); its changes are still in the tree."
    if report.text:
        note += f" Its last words: {report.text[-2000:]}"
    run = run.after_failure(note).noted(*notes)
    ws.records.save(run)
    if run.failures < ws.rules.most_failures:
        return run, None
    return run, RunResult(run, Ending.FAILURES, reason, hint)


def _finish_iteration(run: Run, answer: Answer, notes: list[str], ws: Workspace) -> Run:
    """Commit, then record: the commit is the iteration, and the record can be rebuilt from it.

    A claim of DONE is saved before its check, which may take long; everything else is saved once, with its result.
    """
    number = run.iteration
    limit = ws.rules.limits.iterations
    message = commit_message(goal=run.goal, run=run.id, iteration=number, answer=answer, spend=run.spend, limit=limit)
    committed = ws.tree.commit(message, claims=answer.verdict is Verdict.DONE)
    iteration = Iteration(number, timestamp(ws.clock.now()), answer.summary, committed.sha, answer.verdict)
    # Its session got all guidance: that holds even if the check is interrupted and the claim is judged later.
    told = tuple(guidance.told_once_more() for guidance in run.guidance)
    run = run.after(iteration).noted(*notes).with_guidance(told)
    if run.unchecked_claim is None:
        run = _take_stock(run, answer, ws)
    # Together: otherwise a kill in between leaves an iteration that the saved notes and check do not cover.
    ws.records.record(iteration)
    ws.records.save(run)
    for path in committed.left_out:
        ws.observe(Text(Tag.SYS, f"not committed (looks like a secret): {path}"))
    for path in committed.nested:
        ws.observe(Text(Tag.SYS, f"not committed (a separate git repository): {path}"))
    meter = ws.observe.meter
    cost = meter.session.cost_usd if meter.session.costed else None
    ws.observe(IterationEnded(number, answer.verdict, committed.sha, cost, meter.context_pct, answer.summary))
    return run


def _acknowledged(run: Run, answer: Answer, ws: Workspace) -> Run:
    """Remove the guidance that the summary acknowledges; the next sessions get the rest again, a few times."""
    if not run.guidance:
        return run
    done = answer.verdict is Verdict.DONE and (run.check is None or run.check.passed)
    receipts = [(item, item.receipt_in(answer.summary, done=done)) for item in run.guidance]
    for item, receipt in receipts:
        ws.observe(Guided(item.number, item.text, receipt))
    run = run.with_guidance(tuple(item for item, receipt in receipts if receipt is Receipt.MISSING))
    ws.records.save(run)
    return run


def _take_stock(run: Run, answer: Answer, ws: Workspace) -> Run:
    """Count the iteration as progress, or as one without."""
    check = "" if run.check is None else f"{run.check.exit_code} {run.check.output}"
    # Another claim that fails the check in the same way is not progress, whatever its words.
    said = Verdict.DONE if run.check is not None and answer.verdict is Verdict.DONE else answer.summary
    mark = StallMark(words_of(said, check), run.tip or "")
    return run.stood(run.stall.after(mark, same_tree=ws.tree.same_tree, elsewhere=ws.tree.elsewhere))


def _nudged(run: Run, ws: Workspace) -> Run:
    """Add a note for the next session after several iterations without progress; report an agent that is blocked."""
    if run.obstacles == 1:
        ws.observe(Text(Tag.SYS, "the agent says it is blocked; the next session is asked to confirm that"))
    if not ws.rules.stall_after <= run.stall.idle < 2 * ws.rules.stall_after:
        return run
    nudge = (
        f"The last {run.stall.idle} iterations made no progress: no file changed, and neither the summary nor the"
        " check said anything new. This approach does not work: take another one, or find out why it fails."
    )
    ws.observe(Text(Tag.SYS, f"no progress in {run.stall.idle} iterations; telling the next session to change course"))
    run = run.noted(nudge)
    ws.records.save(run)
    return run


def _stuck(run: Run, answer: Answer, ws: Workspace) -> RunResult | None:
    """Return the result of a run that cannot continue: two sessions say so, or it has stalled."""
    if run.obstacles > 1:
        return RunResult(run, Ending.OBSTACLE, obstacle_in(answer.summary), "remove the obstacle", again=True)
    return RunResult(run, Ending.STALLED) if run.stall.idle >= 2 * ws.rules.stall_after else None


def _prove(run: Run, claim: Iteration, ws: Workspace) -> Run:
    """Run the check, if there is one, on the work of an iteration that claims DONE; record its result."""
    if not ws.tree.has_check:
        return run
    ws.observe(CheckStarted(claim.number))
    proof = ws.tree.prove(claim.number)
    ws.clock.leave_if_interrupted()
    ws.observe(CheckEnded(proof.exit_code, round(proof.seconds, 3), proof.output))
    run = run.checked(CheckRecord(claim.number, proof.exit_code, proof.output, proof.judgement))
    ws.records.save(run)
    return run


def _unjudged(run: Run, before: CheckRecord | None) -> RunResult | None:
    """Return the result of a run whose check failed to start twice in the same way; no session fixed that."""
    now = run.check
    if now is None or before is None or now.exit_code not in _CANNOT_RUN:
        return None
    if (now.exit_code, now.output) != (before.exit_code, before.output):
        return None
    why = (now.output.strip().splitlines() or [f"exit {now.exit_code}"])[-1]
    return RunResult(run, Ending.NO_CHECK, why, "try it with `ralph check`, fix it", again=True)


def _done(run: Run, ws: Workspace) -> RunResult | None:
    """Return the result of a run that claims DONE, unless its check is red or the user asked for more."""
    if run.check is not None and not run.check.passed:
        return None
    if any(guidance.told == 0 for guidance in run.guidance):
        ws.observe(Text(Tag.SYS, "DONE postponed: the agent hasn't seen your latest message yet"))
        return None
    return RunResult(run, Ending.UNPROVEN if run.check is None else Ending.PROVEN)
