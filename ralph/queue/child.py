"""One attempt at a goal: a child `ralph run --json` in the goal's clone, heard event by event."""

import contextlib
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

from ralph.core.errors import RepoError
from ralph.core.events import (
    CheckEnded,
    Event,
    IterationEnded,
    RunStarted,
)
from ralph.core.goal import worded_anew
from ralph.core.records import NotARecord, parse_event
from ralph.core.status import RunStatus, StatusFold
from ralph.core.text import both_ends, exit_words, fenced
from ralph.core.verdict import Verdict
from ralph.git.command import GitKilled
from ralph.queue.goals import MOST_ATTEMPTS, RALPH, USER, BatchGoal, Comment
from ralph.queue.paths import QueuePaths
from ralph.queue.repos.goal_refs import keep_state
from ralph.queue.repos.mirror import Mirror
from ralph.state.journal import read_progress, read_result
from ralph.system.files import make_private_directory, replace_file
from ralph.system.leash import Leashed

_LONGEST_LOG = 6_000
_LONGEST_REMARK = 4_000
_NOT_FOR_THE_RUN = ("repo", "branch", "after", "priority", "merge")
"""Keys of the front matter that the queue has heeded: the run stands in its clone already."""

_RETRY, _REMARKS = "## Retry context", "## Comments of the user"


def told(goal: BatchGoal, comments: Sequence[Comment]) -> str:
    """The goal file of an attempt."""
    more = "\n\n".join(part for part in (_retry_context(goal, comments), _remarks(comments)) if part)
    return worded_anew(goal.text, Path(goal.path), without=_NOT_FOR_THE_RUN, more=more)


def was_told(goal: BatchGoal, file: str) -> bool:
    """Tell whether this is the goal file of an attempt at the goal as it reads now."""
    text = told(goal, ())
    return file == text or file.startswith((f"{text}\n{_RETRY}\n", f"{text}\n{_REMARKS}\n"))


def _retry_context(goal: BatchGoal, comments: Sequence[Comment]) -> str:
    number = goal.attempts - goal.forgiven
    faults = [comment.text for comment in comments if comment.author == RALPH]
    if not faults or (number <= 1 and not goal.forgiven):
        return ""
    return f"""{_RETRY}

This is attempt {max(number, 1)} of {MOST_ATTEMPTS}. The working tree holds what the attempts before it have done:
do not start over, go on from there. This is how the last one ended:

{fenced(both_ends(faults[-1], _LONGEST_LOG).strip())}

Run the check. Fix what is red, even if it was red before you came. Never edit the check."""


def _remarks(comments: Sequence[Comment]) -> str:
    said = [both_ends(comment.text, _LONGEST_REMARK) for comment in comments if comment.author == USER]
    if not said:
        return ""
    return f"{_REMARKS}\n\n" + "\n\n".join(fenced(text.strip()) for text in said[-10:])


_UNUSABLE = 2
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
    """What the user can do about it."""
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


@dataclass(frozen=True, slots=True)
class AttemptKit:
    """What an attempt works with."""

    mirror: Mirror
    premises: QueuePaths
    env: Mapping[str, str]
    flags: Sequence[str]
    """Flags of `ralph run` beyond those that the goal's own settings make."""
    stop_requests: Callable[[], int]
    """0: go on; 1: stop; 2: at once."""
    observe: Callable[[Event, RunStatus], None]
    """Called with each event of the child's, and where its run stands then; that counts from this start."""
    at_work: Callable[[Leashed], AbstractContextManager[None]]
    """Entered while the child is at work: other threads may then ask it to end."""


def hold_attempt(goal: BatchGoal, comments: Sequence[Comment], kit: AttemptKit) -> AttemptResult:
    """Work on a goal until its child ends, and save what it has committed."""
    clone, papers = kit.premises.clone(goal), kit.premises.papers(goal)
    make_private_directory(papers)
    replace_file(kit.premises.goal_file(goal), told(goal, comments))
    # --allow-dirty: what a check of the attempt before left in the clone is no user's work to be spared.
    argv = [sys.executable, "-P", "-m", "ralph", "run", str(kit.premises.goal_file(goal)), "--json", "--allow-dirty"]
    heard = _Heard(goal, kit)
    leashed = Leashed(
        [*argv, *setting_flags(goal.settings), *kit.flags],
        cwd=clone,
        environment=kit.env,
        stderr_log=complaints(kit.premises, goal),
    )
    with leashed as child, kit.at_work(child):
        for line in child.lines(kit.stop_requests):
            heard.hear(line)
        exit_code = child.exit_code
    outcome = _outcome(exit_code if exit_code is not None else 1, heard, kit.premises, goal)
    head = ""
    try:
        head = kit.mirror.save(clone, goal.branch, _kept(goal, kit)) or ""
    except GitKilled:  # that says nothing of the clone: the next start finds what has ended here (`unheard_end`)
        raise
    except RepoError:  # the agent has broken its clone: what was saved before is what there is
        pass
    result = read_result(kit.premises.run_directory(goal))
    if outcome.exit_code == 0 and (not head or result is None or head != result.head):
        lost = f"it is done, but its last commits cannot be taken over from {clone}"
        return replace(outcome, exit_code=_UNUSABLE, reason=lost, proven=False)
    return replace(outcome, head=head)


def unheard_end(goal: BatchGoal, kit: AttemptKit) -> AttemptResult | None:
    """The end of a run that is done, where nobody came to write that down: the worker was killed, or its git.

    Its child would begin another run, and do everything again. None: it has not come so far, or for another text.
    """
    result = read_result(kit.premises.run_directory(goal))
    if not goal.run or result is None or result.run != goal.run or result.exit_code != 0:
        return None
    if not was_told(goal, _text(kit.premises.goal_file(goal))):
        return None
    tip = kit.mirror.save(kit.premises.clone(goal), goal.branch, _kept(goal, kit))
    if tip is None or tip != result.head:
        return None
    heard = _Heard(goal, kit)
    heard.begun = True
    return replace(_outcome(0, heard, kit.premises, goal), head=tip)


def _kept(goal: BatchGoal, kit: AttemptKit) -> str:
    """What the last commit of the goal's present start is kept as."""
    return f"{kit.premises.git_name(goal)}/{goal.starts}"


def setting_flags(settings: Mapping[str, str]) -> list[str]:
    """Say settings as flags."""
    return [f"--{name.replace('_', '-')}={value}" for name, value in settings.items()]


def complaints(premises: QueuePaths, goal: BatchGoal) -> Path:
    """Where the child of the goal's present start writes what it complains of."""
    return premises.papers(goal) / f"start-{goal.starts}.stderr"


class _Heard:
    """What a child has said so far."""

    def __init__(self, goal: BatchGoal, kit: AttemptKit) -> None:
        self.run, self.account, self.check = goal.run, "", ""
        self.iterations = 0
        self.begun = False
        self.fold = StatusFold("starting")
        self._goal, self._kit = goal, kit

    def hear(self, line: bytes) -> None:
        try:
            event, at = parse_event(line)
        except NotARecord:
            return  # of a newer ralph, or none of ralph's
        self.fold.take(event, at)
        self._take_in(event)
        self._kit.observe(event, self.fold.status)

    def _take_in(self, event: Event) -> None:
        match event:
            case RunStarted():
                self.run, self.account, self.begun = event.run, event.agent, True
            case CheckEnded():
                self.check = "" if event.exit_code == 0 else both_ends(event.output, _LONGEST)
            case IterationEnded():
                self.iterations += 1
                with contextlib.suppress(RepoError):  # it is in the clone, and saved with the next one
                    self._kit.mirror.save(self._kit.premises.clone(self._goal), self._goal.branch, None)
                    directory = self._kit.premises.run_directory(self._goal)
                    keep_state(self._kit.mirror, self._goal.branch, directory)
            case _:
                pass


def _outcome(exit_code: int, heard: _Heard, premises: QueuePaths, goal: BatchGoal) -> AttemptResult:
    # A child that was refused, or killed before it began, has not removed the result of the start before it.
    directory = premises.run_directory(goal)
    result = read_result(directory) if heard.begun else None
    why = _why(exit_code, premises, goal)
    plain = AttemptResult(
        exit_code, why, run=heard.run, iterations=heard.iterations, end=heard.fold.last_end, account=heard.account,
        check=heard.check,
    )  # fmt: skip
    if result is None or result.exit_code != exit_code:
        return plain
    return replace(
        plain,
        reason=result.reason,
        hint=result.hint,
        proven=exit_code == 0 and result.proven,
        done=_done(directory),
        cost_usd=result.cost_usd,
        tokens=result.tokens,
        limit=result.limit or "",
        not_before=result.not_before,
    )


def _text(path: Path) -> str:
    """What a file holds, if it is there and can be read."""
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""


def _done(directory: Path) -> str:
    """What the iterations of a run have done, each in its own words; DONE is a claim, and says nothing of that."""
    said = [" ".join(iteration.summary.split()) for iteration in read_progress(directory).iterations]
    return both_ends("\n".join(f"- {words}" for words in said if words and words != Verdict.DONE), _LONGEST)


def _why(exit_code: int, premises: QueuePaths, goal: BatchGoal) -> str:
    """What a child that left no result has complained of, in a line."""
    lines = _text(complaints(premises, goal)).splitlines()
    faults = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    if exit_code < 0:
        return exit_words(exit_code)
    return faults[-1] if faults else f"ended with exit code {exit_code}"
