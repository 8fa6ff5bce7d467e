"""One pursuit of a goal as a value: each step returns a new one."""

from dataclasses import dataclass, field, replace

from ralph.core.guidance import Guidance, Word
from ralph.core.limits import Limit, Spend
from ralph.core.stall import Standstill
from ralph.core.summary import Condensed
from ralph.core.verdict import Verdict
from ralph.history import History, Iteration


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
    guidance: tuple[Guidance, ...] = ()
    """What the user told it, and no summary has acknowledged yet."""
    heard: int = 0
    """How many of the user's words it has taken in."""
    obstacles: int = 0
    """How many sessions in a row have said that only a person can clear the way."""
    standstill: Standstill = field(default_factory=Standstill)
    condensed: Condensed = field(default_factory=Condensed)

    @property
    def finished(self) -> int:
        """The number of the last iteration; 0 before the first."""
        return self.history.next_number - 1

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
        blocked = iteration.verdict is Verdict.BLOCKED
        return replace(
            self,
            history=self.history.after(iteration),
            failures=0,
            notes=(),
            check=None,
            obstacles=self.obstacles + 1 if blocked else 0,
        )

    def after_failure(self, note: str) -> "Run":
        return replace(self, failures=self.failures + 1, failed=self.failed + 1, notes=(note,))

    def checked(self, record: CheckRecord) -> "Run":
        return replace(self, check=record)

    def noted(self, *notes: str) -> "Run":
        return replace(self, notes=tuple(dict.fromkeys((*self.notes, *notes))))

    def guided(self, word: Word) -> "Run":
        """Take in what the user tells: it changes the situation, whatever stood still before."""
        guidance = (*self.guidance, Guidance(word.number, word.text))
        heard = max(self.heard, word.number)
        return replace(self, guidance=guidance, heard=heard, standstill=self.standstill.forgiven())

    def with_guidance(self, guidance: tuple[Guidance, ...]) -> "Run":
        return replace(self, guidance=guidance)

    def stood(self, standstill: Standstill) -> "Run":
        return replace(self, standstill=standstill)

    def given_another_try(self) -> "Run":
        """A new start forgives the failures in a row, which still count against the limit, and what ended the last."""
        return replace(self, failures=0, obstacles=0, standstill=self.standstill.forgiven())

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
    not_before: float | None = None
    """It would have had to wait until then, for longer than its duration allows."""
