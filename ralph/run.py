"""One pursuit of a goal as a value: each step returns a new one."""

from dataclasses import dataclass, field, replace

from ralph.budget import Limit, Spend
from ralph.history import History, Iteration
from ralph.verdict import Verdict


@dataclass(frozen=True, slots=True)
class CheckRecord:
    """What the check said of an iteration; `exit_code` None: it ran out of time."""

    iteration: int
    exit_code: int | None
    output: str

    @property
    def passed(self) -> bool:
        return self.exit_code == 0


@dataclass(frozen=True, slots=True)
class Run:
    """Where a run stands. `failures` are in a row, `failed` over all; `notes` go into the next prompt."""

    id: str
    goal: str
    branch: str
    base: str | None
    history: History = field(default_factory=History)
    spend: Spend = field(default_factory=Spend)
    failures: int = 0
    failed: int = 0
    check: CheckRecord | None = None
    notes: tuple[str, ...] = ()

    @property
    def iteration(self) -> int:
        """The number of the iteration to be held next; a failure keeps it."""
        return self.history.next_number

    @property
    def tip(self) -> str | None:
        """The commit that its branch is at: the last iteration's, or the one it began on."""
        return self.history.last.commit if self.history.last else self.base

    @property
    def used_iterations(self) -> int:
        """What counts against the limit: a failure counts, too."""
        return len(self.history.iterations) + self.failed

    @property
    def unchecked_claim(self) -> Iteration | None:
        """The last iteration, if it claims DONE and no check has judged it."""
        last = self.history.last
        if (
            last is None
            or last.verdict is not Verdict.DONE
            or (self.check is not None and self.check.iteration == last.number)
        ):
            return None
        return last

    @property
    def proven(self) -> bool:
        """Whether the last iteration claims DONE and its check was green."""
        last = self.history.last
        claimed = last is not None and last.verdict is Verdict.DONE
        return claimed and self.check is not None and self.check.passed and self.unchecked_claim is None

    def after(self, iteration: Iteration) -> "Run":
        return replace(self, history=self.history.after(iteration), failures=0, notes=(), check=None)

    def after_failure(self, note: str) -> "Run":
        return replace(self, failures=self.failures + 1, failed=self.failed + 1, notes=(note,))

    def checked(self, record: CheckRecord) -> "Run":
        return replace(self, check=record)

    def noted(self, *notes: str) -> "Run":
        return replace(self, notes=tuple(dict.fromkeys((*self.notes, *notes))))

    def given_another_try(self) -> "Run":
        """A new start forgives the failures in a row; they still count against the limit."""
        return replace(self, failures=0)

    def spent(self, spend: Spend) -> "Run":
        return replace(self, spend=spend)


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run ended, with the exit code that says so."""

    run: Run
    exit_code: int
    reason: str
    proven: bool
    hint: str = ""
    limit: Limit | None = None
