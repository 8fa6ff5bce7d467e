"""One attempt at a goal: a child `ralph run --json` in the goal's clone, heard event by event."""

import contextlib
import hashlib
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

from ralph.core.errors import ExitCode, RepoError
from ralph.core.events import (
    CheckEnded,
    Event,
    IterationEnded,
    RunStarted,
)
from ralph.core.goal import worded_anew
from ralph.core.reason import Cause, Reason
from ralph.core.records import NotARecord, parse_event
from ralph.core.status import RunStatus, StatusFold
from ralph.core.text import both_ends, exit_words, fenced
from ralph.core.verdict import Verdict
from ralph.git.command import GitKilled
from ralph.queue.goals import LIMIT, MOST_ATTEMPTS, RALPH, USER, BatchGoal, Comment
from ralph.queue.paths import QueuePaths
from ralph.queue.repos.goal_refs import keep_state
from ralph.queue.repos.mirror import Mirror
from ralph.state.journal import read_progress
from ralph.state.result import read_result
from ralph.system.files import make_private_directory, replace_file
from ralph.system.leash import Fault, Leashed, read_fault

_LONGEST_LOG = 6_000
_LONGEST_REMARK = 4_000
_NOT_FOR_THE_RUN = ("repo", "branch", "after", "priority", "merge")
"""Front-matter keys that the queue has already applied: the run is in its clone."""

_STALLED = """
That attempt got nowhere: it repeated itself and changed nothing. Read what it tried, and take another approach. If only
a person can remove the obstacle, say so instead of trying the same thing again.
"""
_RETRY, _REMARKS = "## Retry context", "## Comments from the user"


def goal_text(goal: BatchGoal, comments: Sequence[Comment]) -> str:
    """Return the goal file of an attempt: the goal, how the last attempt failed, and what the user said."""
    more = "\n\n".join(part for part in (_retry_context(goal, comments), _remarks(comments)) if part)
    return worded_anew(goal.text, Path(goal.path), without=_NOT_FOR_THE_RUN, more=more)


def text_digest(goal: BatchGoal) -> str:
    """Tell one wording of a goal from another, whatever an attempt adds to it."""
    return hashlib.sha256(goal_text(goal, ()).encode()).hexdigest()


def _retry_context(goal: BatchGoal, comments: Sequence[Comment]) -> str:
    number = goal.attempts - goal.forgiven
    faults = [comment for comment in comments if comment.author == RALPH]
    if not faults or (number <= 1 and not goal.forgiven):
        return ""
    stalled = _STALLED if faults[-1].why.cause is Cause.STALLED else ""
    return f"""{_RETRY}

This is attempt {max(number, 1)} of {MOST_ATTEMPTS}. The working tree contains the work of earlier attempts:
continue from there, do not start over. This is how the last attempt ended:

{fenced(both_ends(faults[-1].text, _LONGEST_LOG).strip())}
{stalled}
Run the check. Fix every failure, even one that was there before you started. Never edit the check."""


def _remarks(comments: Sequence[Comment]) -> str:
    said = [both_ends(comment.text, _LONGEST_REMARK) for comment in comments if comment.author == USER]
    if not said:
        return ""
    return f"{_REMARKS}\n\n" + "\n\n".join(fenced(text.strip()) for text in said[-10:])


_LONGEST = 4_000


@dataclass(frozen=True, slots=True)
class AttemptResult:
    """How an attempt ended: by `result.json`, else by the exit code. It is no success where the exit code is none."""

    exit_code: int
    reason: str
    proven: bool = False
    run: str = ""
    cost_usd: float | None = None
    """What the run has cost, over all its starts."""
    iterations: int = 0
    """Those finished in this start."""
    end: str = ""
    """The row of the failure table that the last session ended in."""
    done: str = ""
    """What the run's iterations say of themselves."""
    hint: str = ""
    """What the user can do about it, before the goal is tried again."""
    account: str = ""
    """The agent that worked."""
    check: str = ""
    """What the check said last, if it was red."""
    tokens: int | None = None
    """What the run has used, over all its starts."""
    seconds: float = 0.0
    """How long the goal has been worked on by the end of this start, the earlier ones included; 0: not settled."""
    head: str = ""
    """The last commit that was taken over from its clone: what is merged is this, and nothing else."""
    limit: str = ""
    """The limit that it reached, as the flag that sets it."""
    not_before: float | None = None
    """It ended because it would have had to wait until then, for longer than it may take."""
    lent: bool = False
    """That limit is the budget's of all goals, and none of its own: it has done nothing wrong."""
    cause: Cause = Cause.OTHER
    """What the queue itself has against it, where no run has said anything (`reason`)."""
    used_iterations: int = 0
    """How many iterations its run has used over all its starts, failed sessions included."""
    dossier: str = ""
    """The dossier of a stalled run, shortened in the middle."""

    @property
    def known(self) -> Reason:
        """Why it ended, as a goal's row has it."""
        of_codes: Mapping[int, Cause] = {LIMIT: Cause.LIMIT, ExitCode.STALLED: Cause.STALLED}
        cause = of_codes.get(self.exit_code, Cause.OTHER) if self.cause is Cause.OTHER else self.cause
        return Reason(self.reason, cause, self.limit)


@dataclass(frozen=True, slots=True)
class AttemptContext:
    """What an attempt needs from the worker."""

    mirror: Mirror
    paths: QueuePaths
    env: Mapping[str, str]
    flags: Sequence[str]
    """Flags of `ralph run` beyond those that the goal's own settings make."""
    stop_requests: Callable[[], int]
    """0: go on; 1: stop; 2: at once."""
    observe: Callable[[Event, RunStatus], None]
    """Called with each event of the child's, and where its run stands then; that counts from this start."""
    at_work: Callable[[Leashed], AbstractContextManager[None]]
    """Entered while the child is at work: other threads may then ask it to end."""


def run_attempt(goal: BatchGoal, comments: Sequence[Comment], context: AttemptContext) -> AttemptResult:
    """Work on a goal until its child ends, and save what it has committed."""
    clone, papers = context.paths.clone(goal), context.paths.folder(goal)
    make_private_directory(papers)
    replace_file(context.paths.goal_file(goal), goal_text(goal, comments))
    # --allow-dirty: what a check of the attempt before left in the clone is no user's work to be spared.
    argv = [sys.executable, "-P", "-m", "ralph", "run", str(context.paths.goal_file(goal)), "--json", "--allow-dirty"]
    heard = _Heard(goal, context)
    leashed = Leashed(
        [*argv, *setting_flags(goal.settings), *context.flags],
        cwd=clone,
        environment=context.env,
        stderr_log=stderr_log(context.paths, goal),
    )
    with leashed as child, context.at_work(child):
        for line in child.lines(context.stop_requests):
            heard.hear(line)
        exit_code = child.exit_code
    outcome = _outcome(exit_code if exit_code is not None else ExitCode.FAILED, heard, context.paths, goal)
    head = ""
    try:
        head = context.mirror.save(clone, goal.branch, _kept(goal, context)) or ""
    except GitKilled:  # that says nothing of the clone: the next start finds what has ended here (`missed_end`)
        raise
    except RepoError:  # the agent has broken its clone: what was saved before is what there is
        pass
    result = read_result(context.paths.run_directory(goal))
    if outcome.exit_code == ExitCode.DONE and (not head or result is None or head != result.head):
        lost = f"done, but its last commits cannot be fetched from {clone}"
        return replace(outcome, exit_code=ExitCode.USAGE, reason=lost, proven=False)
    return replace(outcome, head=head)


def missed_end(goal: BatchGoal, context: AttemptContext) -> AttemptResult | None:
    """The end of a run that is done, where nobody came to write that down: the worker was killed, or its git.

    Its child would begin another run, and do everything again. None: it has not come so far, or for another text.
    """
    result = read_result(context.paths.run_directory(goal))
    if not goal.run or result is None or result.run != goal.run or result.exit_code != ExitCode.DONE:
        return None
    if goal.run_text != text_digest(goal):
        return None
    tip = context.mirror.save(context.paths.clone(goal), goal.branch, _kept(goal, context))
    if tip is None or tip != result.head:
        return None
    heard = _Heard(goal, context)
    heard.begun = True
    return replace(_outcome(ExitCode.DONE, heard, context.paths, goal), head=tip)


def _kept(goal: BatchGoal, context: AttemptContext) -> str:
    """What the last commit of the goal's present start is kept as."""
    return f"{context.paths.git_name(goal)}/{goal.starts}"


def setting_flags(settings: Mapping[str, str]) -> list[str]:
    """Say settings as flags."""
    return [f"--{name.replace('_', '-')}={value}" for name, value in settings.items()]


def stderr_log(paths: QueuePaths, goal: BatchGoal) -> Path:
    """Where the child of the goal's present start writes what it complains of."""
    return paths.folder(goal) / f"start-{goal.starts}.stderr"


class _Heard:
    """What a child has said so far."""

    def __init__(self, goal: BatchGoal, context: AttemptContext) -> None:
        self.run, self.account, self.check = goal.run, "", ""
        self.iterations = 0
        self.begun = False
        self.fold = StatusFold("starting")
        self._goal, self._context = goal, context

    def hear(self, line: bytes) -> None:
        try:
            event, at = parse_event(line)
        except NotARecord:
            return  # from a newer ralph, or not from ralph
        self.fold.take(event, at)
        self._take_in(event)
        self._context.observe(event, self.fold.status)

    def _take_in(self, event: Event) -> None:
        match event:
            case RunStarted():
                self.run, self.account, self.begun = event.run, event.agent, True
            case CheckEnded():
                self.check = "" if event.exit_code == 0 else both_ends(event.output, _LONGEST)
            case IterationEnded():
                self.iterations += 1
                with contextlib.suppress(RepoError):  # it is in the clone, and saved with the next one
                    self._context.mirror.save(self._context.paths.clone(self._goal), self._goal.branch, None)
                    directory = self._context.paths.run_directory(self._goal)
                    keep_state(self._context.mirror, self._goal.branch, directory)
            case _:
                pass


def _outcome(exit_code: int, heard: _Heard, paths: QueuePaths, goal: BatchGoal) -> AttemptResult:
    # A child that was refused, or killed before it began, has not removed the result of the start before it.
    directory = paths.run_directory(goal)
    result = read_result(directory) if heard.begun else None
    used = len(read_progress(directory).iterations) if result is None else result.iterations + result.failed
    fault = _fault(exit_code, stderr_log(paths, goal))
    plain = AttemptResult(
        exit_code, fault.message, run=heard.run, iterations=heard.iterations, end=heard.fold.last_end,
        account=heard.account, check=heard.check, hint=fault.hint, used_iterations=used,
    )  # fmt: skip
    if result is None or result.exit_code != exit_code:
        return plain
    return replace(
        plain,
        reason=result.reason,
        hint=result.todo,
        proven=exit_code == ExitCode.DONE and result.proven,
        done=_done(directory),
        cost_usd=result.cost_usd,
        tokens=result.tokens,
        limit=result.limit or "",
        not_before=result.not_before,
        dossier=_dossier(directory) if exit_code == ExitCode.STALLED else "",
    )


def _dossier(directory: Path) -> str:
    """Return the dossier of a stalled run for the next attempt."""
    try:
        return both_ends((directory / "dossier.md").read_text("utf-8", "replace"), _LONGEST)
    except OSError:  # a run that cannot write one has ended all the same
        return ""


def _done(directory: Path) -> str:
    """What the iterations of a run have done, each in its own words; DONE is a claim, and says nothing of that."""
    said = [" ".join(iteration.summary.split()) for iteration in read_progress(directory).iterations]
    return both_ends("\n".join(f"- {words}" for words in said if words and words != Verdict.DONE), _LONGEST)


def _fault(exit_code: int, stderr: Path) -> Fault:
    """Return why a child ended that left no result."""
    if exit_code < 0:
        return Fault(exit_words(exit_code))
    if (fault := read_fault(stderr)) is None:
        return Fault(f"ended with exit code {exit_code}")
    # Faults of the settings, and ways out, are lists.
    ways_out = "; ".join(" ".join(line.split()) for line in fault.hint.splitlines())
    return Fault(" ".join(fault.message.split()), ways_out)
