"""`result.json`: how a start of a run ended, for people, programs and queue workers."""

from dataclasses import dataclass, field
from pathlib import Path

from ralph.core.proof import JudgedBy, Proof, ProtectedChanges, TestCounts
from ralph.core.records import NotARecord, parse
from ralph.core.run import RunResult

VERSION = 1


@dataclass(frozen=True, slots=True)
class ResultRecord:
    """`result.json`: how a start ended. `end` is the row of the failure table that its last session ended with."""

    version: int
    goal: str
    run: str
    exit_code: int
    end: str = ""
    ending: str = ""
    """How it ended, as a value of `core.run.Ending`; empty if an earlier ralph wrote this."""
    reason: str = ""
    hint: str = ""
    todo: str = ""
    """The hint, without the request to run the same command again."""
    limit: str | None = None
    not_before: float | None = None
    proven: bool = False
    iterations: int = 0
    failed: int = 0  # sessions
    cost_usd: float | None = None
    tokens: int | None = None
    base: str | None = None
    head: str | None = None
    sandbox: str = ""
    proof: Proof | None = None
    """Which files passed the check; null if none were proven."""
    judged_by: JudgedBy | None = None
    """Whose protected files let it pass."""
    why_tree: str = ""
    """Why only the working tree could be judged."""
    protected: ProtectedChanges = field(default_factory=ProtectedChanges)
    tests: TestCounts = field(default_factory=TestCounts)
    lost_tests: int = 0
    newly_skipped: int = 0


def read_result(directory: Path) -> ResultRecord | None:
    """Read how the last start in a run directory ended; None if unknown."""
    try:
        return parse(ResultRecord, (directory / "result.json").read_bytes())
    except (OSError, NotARecord):
        return None


def record_of(
    result: RunResult, reason: str, hint: str = "", *, head: str | None = None, end: str = "", sandbox: str = ""
) -> ResultRecord:
    """Describe how a start ended, with its reason and hint in words.

    `end` is the row of the failure table that its last session ended with.
    """
    run = result.run
    judged = run.check.judgement if result.proven and run.check is not None else None
    return ResultRecord(
        version=VERSION,
        goal=run.goal,
        run=run.id,
        exit_code=result.exit_code,
        end=end,
        ending=result.ending,
        reason=reason,
        hint=hint,
        todo=result.hint,
        limit=result.limit,
        not_before=result.not_before,
        proven=result.proven,
        iterations=len(run.history.iterations),
        failed=run.failed,
        cost_usd=run.spend.cost_usd if run.spend.costed else None,
        tokens=run.spend.tokens if run.spend.knows_tokens else None,
        base=run.base,
        head=head,
        sandbox=sandbox,
        proof=None if judged is None else judged.proof,
        judged_by=None if judged is None else judged.judged_by,
        why_tree="" if judged is None else judged.why_tree,
        protected=ProtectedChanges() if judged is None else judged.changes,
        tests=TestCounts() if judged is None else judged.tests,
        lost_tests=0 if judged is None else judged.lost_tests,
        newly_skipped=0 if judged is None else judged.newly_skipped,
    )
