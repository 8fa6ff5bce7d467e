"""A run of a goal as a value, its history, and the commit messages it is rebuilt from; each step returns a new one."""

import contextlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from ralph.core import ndjson
from ralph.core.errors import ExitCode
from ralph.core.guidance import Guidance, Instruction
from ralph.core.limits import Limit
from ralph.core.proof import Judgement
from ralph.core.stall import Stall
from ralph.core.summary import Condensed
from ralph.core.text import first_sentence, shortened
from ralph.core.usage import Spend
from ralph.core.verdict import Answer, Verdict


@dataclass(frozen=True, slots=True)
class Iteration:
    """One finished step of a run; its commit is the proof that it happened."""

    number: int = field(metadata={"key": "iteration"})
    at: str
    summary: str
    commit: str
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class History:
    """The finished iterations, oldest first."""

    iterations: tuple[Iteration, ...] = ()

    @property
    def next_number(self) -> int:
        return self.iterations[-1].number + 1 if self.iterations else 1

    @property
    def last(self) -> Iteration | None:
        return self.iterations[-1] if self.iterations else None

    def recent(self, most: int) -> Sequence[Iteration]:
        """The latest iterations, which a prompt quotes verbatim."""
        return self.iterations[max(0, len(self.iterations) - most) :]

    def since(self, number: int) -> Sequence[Iteration]:
        """The iterations after the one of this number."""
        return [item for item in self.iterations if item.number > number] if number else self.iterations

    def after(self, iteration: Iteration) -> "History":
        return replace(self, iterations=(*self.iterations, iteration))


@dataclass(frozen=True, slots=True)
class CheckRecord:
    """What the check said of an iteration; `exit_code` None: it ran out of time."""

    iteration: int
    exit_code: int | None
    output: str
    judgement: Judgement | None = None
    """What it is worth if it is green."""

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
    """Messages of the user that no summary has acknowledged yet."""
    heard: int = 0
    """How many of the user's requests it has read."""
    obstacles: int = 0
    """How many sessions in a row have said that a person is needed."""
    stall: Stall = field(default_factory=Stall)
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

    def guided(self, word: Instruction) -> "Run":
        """Take in what the user tells: it changes the situation, whatever stood still before."""
        # Up to version 0.1 all requests were counted: two that are open must not share a number.
        number = max([word.message, *(item.number + 1 for item in self.guidance)])
        guidance = (*self.guidance, Guidance(number, word.text))
        heard = max(self.heard, word.number)
        return replace(self, guidance=guidance, heard=heard, stall=self.stall.forgiven())

    def with_guidance(self, guidance: tuple[Guidance, ...]) -> "Run":
        return replace(self, guidance=guidance)

    def stood(self, stall: Stall) -> "Run":
        return replace(self, stall=stall)

    def given_another_try(self) -> "Run":
        """A new start forgives the failures in a row, which still count against the limit, and what ended the last."""
        return replace(self, failures=0, obstacles=0, stall=self.stall.forgiven())

    def spent(self, spend: Spend) -> "Run":
        return replace(self, spend=spend)


class Trespass(StrEnum):
    """What a session must not do, and ralph undoes."""

    CHANGED_FILES = "changed-files"
    SWITCHED_BRANCH = "switched-branch"
    ATTACHED_HEAD = "attached-head"
    MOVED_BRANCH = "moved-branch"
    UNFINISHED_OPERATION = "unfinished-operation"


@dataclass(frozen=True, slots=True)
class Undone:
    """A trespass that ralph undid; `what` names the changed files, or the git command that was left open."""

    trespass: Trespass
    what: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Held:
    """What ralph undid after a session, and the names of the secrets that the session committed."""

    undone: tuple[Undone, ...]
    secrets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Committed:
    """A commit, and what it left out: files that look like secrets, and repositories inside this one."""

    sha: str
    left_out: tuple[str, ...]
    nested: tuple[str, ...]


class Ending(StrEnum):
    """How a start of a run ended; `run/report` says it in words."""

    PROVEN = "proven"
    UNPROVEN = "unproven"
    """The agent claims DONE, and there is no check."""
    LIMIT = "limit"
    FAILURES = "failures"
    """Too many sessions in a row failed; `fact` says how the last one did."""
    STALLED = "stalled"
    SESSION = "session"
    """A session ended in a way that only the user can fix: login, billing, a permission. `fact` says which."""
    OBSTACLE = "obstacle"
    """Two sessions in a row said that only a person can clear the way; `fact` is what the agent says is in it."""
    NO_CHECK = "no-check"
    """The check cannot run; `fact` is the last line of its output."""
    STOP_KEY = "stop-key"
    STOP_COMMAND = "stop-command"
    QUIT_KEY = "quit-key"
    SIGNAL = "signal"
    FAULT = "fault"
    UNABLE = "unable"
    """A fault that only the user can fix."""
    BUG = "bug"


_EXIT_CODES = {
    Ending.PROVEN: ExitCode.DONE,
    Ending.UNPROVEN: ExitCode.DONE,
    Ending.LIMIT: ExitCode.LIMIT,
    Ending.FAILURES: ExitCode.FAILED,
    Ending.STALLED: ExitCode.STALLED,
    Ending.SESSION: ExitCode.BLOCKED,
    Ending.OBSTACLE: ExitCode.BLOCKED,
    Ending.NO_CHECK: ExitCode.BLOCKED,
    Ending.STOP_KEY: ExitCode.INTERRUPTED,  # as with Ctrl-C, only later
    Ending.STOP_COMMAND: ExitCode.INTERRUPTED,
    Ending.QUIT_KEY: ExitCode.INTERRUPTED,
    Ending.FAULT: ExitCode.FAILED,
    Ending.UNABLE: ExitCode.BLOCKED,
    Ending.BUG: ExitCode.BUG,
}


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a start of a run ended."""

    run: Run
    ending: Ending
    fact: str = ""
    """What somebody else said about it: the agent, the check, a fault."""
    hint: str = ""
    """What the user can do about it, where the ending alone does not say."""
    again: bool = False
    """Once that is done, the same command goes on."""
    limit: Limit | None = None
    signal: int = 0
    not_before: float | None = None
    """It would have had to wait until then, for longer than its duration allows."""

    @property
    def exit_code(self) -> int:
        return ExitCode.of_signal(self.signal) if self.ending is Ending.SIGNAL else _EXIT_CODES[self.ending]

    @property
    def proven(self) -> bool:
        return self.ending is Ending.PROVEN


@dataclass(frozen=True, slots=True)
class IterationMessage:
    """What the message of an iteration's commit says; `spend` is the run's, cumulative."""

    goal: str
    run: str
    iteration: int
    verdict: Verdict
    spend: Spend
    summary: str


def read_message(message: str) -> IterationMessage | None:
    """Read back what `commit_message` wrote; None if it is no iteration's message."""
    body, _, last = message.rstrip().rpartition("\n\n")
    trailers = dict(line.split(": ", 1) for line in last.splitlines() if ": " in line)
    with contextlib.suppress(KeyError, ValueError):
        cost = trailers["Ralph-Cost-USD"]
        amount = 0.0 if cost == "unknown" else ndjson.amount(float(cost))
        count = trailers["Ralph-Tokens"]
        number, tokens = int(trailers["Ralph-Iteration"]), 0 if count == "unknown" else int(count)
        if amount is None or number < 1 or tokens != ndjson.count(tokens):
            return None  # no figure that ralph would have written
        return IterationMessage(
            trailers["Ralph-Goal"],
            trailers["Ralph-Run"],
            number,
            Verdict(trailers["Ralph-Verdict"]),
            Spend(amount, tokens, cost != "unknown", count != "unknown"),
            body.partition("\n\n")[2].strip(),
        )
    return None


_SCISSORS = "--- >8 ---"
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1b\x7f]")
"""Characters that would end the message, or control the terminal of a reader of the log."""


def message_body(text: str) -> str:
    """A text as it can stand before the trailers of a commit.

    git reads trailers from the last paragraph alone, unless a line before looks like the start of a patch or like
    scissors: such a line is indented.
    """
    lines = _CONTROLS.sub("", text).strip().splitlines()
    return "\n".join(f" {line}" if line.startswith("---") or _SCISSORS in line else line for line in lines)


_LONGEST_SUBJECT = 72


def subject_of(iteration: int, limit: int | None, answer: Answer) -> str:
    """Write the subject of an iteration's commit; `limit` is how many iterations the run may have."""
    opening = f"ralph {iteration}: " if limit is None else f"ralph {iteration}/{limit}: "
    said = "claims DONE" if answer.is_bare else first_sentence(answer.closing or answer.summary)
    return opening + shortened(said or "no summary", _LONGEST_SUBJECT - len(opening))


_MOST_PROTECTED = 50


def with_protected(message: str, paths: Sequence[str]) -> str:
    """Add trailers to the message of a claim: the protected files that the work changes."""
    shown = [" ".join(_CONTROLS.sub("?", path).split()) for path in paths[:_MOST_PROTECTED]]
    more = [f"and {len(paths) - len(shown)} more"] if len(paths) > len(shown) else []
    return message + "".join(f"Ralph-Protected-Changed: {each}\n" for each in (*shown, *more))


def commit_message(
    *, goal: str, run: str, iteration: int, answer: Answer, spend: Spend, limit: int | None = None
) -> str:
    """Write the commit message of an iteration; cost and tokens are the run's, cumulative.

    ralph knows its commits by their trailers alone: up to version 0.1 the subject was `ralph: iteration 3`.
    """
    trailers = {
        "Ralph-Goal": goal,
        "Ralph-Run": run,
        "Ralph-Iteration": str(iteration),
        "Ralph-Verdict": answer.verdict,
        "Ralph-Cost-USD": repr(round(spend.cost_usd, 12)) if spend.costed else "unknown",
        "Ralph-Tokens": str(spend.tokens) if spend.knows_tokens else "unknown",
    }
    body = message_body(answer.summary)
    return f"{subject_of(iteration, limit, answer)}\n\n{body}\n\n" + "".join(
        f"{name}: {value}\n" for name, value in trailers.items()
    )
