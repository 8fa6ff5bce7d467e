"""Words for why a goal is in its state: one line for each `Reason`, and what a goal waits for."""

import time
from collections.abc import Sequence

from ralph.core.reason import Cause, Reason, command_line
from ralph.core.text import few, format_duration, format_money, local_time
from ralph.queue.goals import BatchGoal, State, waits_in_vain
from ralph.queue.submit import SubmitChange, Submitted

_MOST_PATHS = 5


def reason_line(why: Reason) -> str:
    """Return the reason in one line; empty without a reason."""
    if why.said:
        return why.said
    match why.cause:
        case Cause.OTHER | Cause.LIMIT | Cause.STALLED:  # the text of a run or of git is the whole line
            return ""
        case Cause.CANCELLED:
            return "cancelled"
        case Cause.STOPPED:
            return f"stopped {why.detail}".rstrip()
        case Cause.CUT_OFF:
            return "interrupted with its worker, and the queue is paused"
        case Cause.OUT_OF_SCOPE:
            return "interrupted with its worker; the next worker was for other repositories"
        case Cause.BUG:
            return f"a bug in ralph: {why.detail}; see {why.place}"
        case Cause.BUDGET | Cause.SHARE | Cause.TOO_LATE | Cause.QUOTA | Cause.REFUSED_ACCOUNT:
            return _not_now(why)
        case Cause.UNREACHABLE:
            return f"{why.detail}; trying again"
        case Cause.REMOTE_AWAY:
            return f"waiting for the remote: {why.detail}"
        case Cause.OFFLINE:
            return f"{why.detail}; work continues on the last fetch, merges wait"
        case Cause.DIRTY_CHECKOUT | Cause.NO_CHECK | Cause.OTHER_BASE | Cause.UNKNOWN_USE:
            return ": ".join(caution(why))
        case _:
            return _merge(why)


def caution(why: Reason) -> tuple[str, str]:
    """Return what is wrong, and what follows from it; the second is empty where it is unknown."""
    match why.cause:
        case Cause.DIRTY_CHECKOUT:
            what = f"{why.place} has {why.branch} checked out with changes in {few(why.paths, 3)}"
            return what, "commit or stash them; merges wait until then"
        case Cause.NO_CHECK:
            then = "work cannot be proven, so it is not merged without --merge-unproven"
            return f"{why.place} has no .ralph/check on {why.branch}", then
        case Cause.OTHER_BASE:
            return why.place, f"work is merged to {why.branch}, its current branch"
        case Cause.UNKNOWN_USE:
            flags = " and ".join(f"--max-{measure}" for measure in why.paths)
            then = f"{why.who} doesn't report {' or '.join(why.paths)}. Use --max-time instead"
            return f"{flags} can't be enforced", then
        case _:
            return reason_line(why), ""


def _not_now(why: Reason) -> str:
    """Why a goal has to wait, for money or for its account."""
    match why.cause:
        case Cause.SHARE:
            return "its share of the budget is used up"
        case Cause.TOO_LATE:
            until = f"; {_account_waits(why)}" if why.who else ""
            return f"no goal can continue within {why.limit}{until}"
        case Cause.QUOTA:
            return _account_waits(why)
        case Cause.REFUSED_ACCOUNT:
            return f"not started: {why.who} rejects our requests, see {why.place}"
        case _ if why.limit == "--max-cost":
            return f"{why.limit}: {format_money(why.used)} of {format_money(why.most)} spent"
        case _ if why.limit == "--max-tokens":
            return f"{why.limit}: {why.used:,.0f} of {why.most:,.0f} tokens used"
        case _:
            return f"{why.limit}: {format_duration(why.most)} used"


def _account_waits(why: Reason) -> str:
    return f"no goal on {why.who} starts before {local_time(why.until, time.time())}"


def _merge(why: Reason) -> str:
    """What happened to proven work, or why it is not merged."""
    match why.cause:
        case Cause.MERGED:
            look = f"; it changes {_listed(why.paths)}: read the change before you trust it" if why.paths else ""
            return f"merged to {why.branch}{look}"
        case Cause.MERGED_EARLIER:
            return f"already merged to {why.branch}"
        case Cause.UNDONE if not why.commit:
            return f"{why.branch} no longer contains any of it"
        case Cause.UNDONE:
            return f"removed from {why.branch} again by {why.commit[:10]}"
        case Cause.NOTHING:
            return "nothing to merge: the work changes no file"
        case Cause.KEPT:
            return f"kept as {why.branch} in {why.place}"
        case Cause.PUSHED:
            return f"pushed as {why.branch}" + (f"; {why.detail}" if why.detail else "")
        case Cause.UNPROVEN:
            return f"{why.detail}: not merged, the work is on {why.branch}; --merge-unproven merges it"
        case Cause.CONFLICTS:
            return f"conflicts with {why.branch}: {_listed(why.paths)}"
        case Cause.RED:
            return f"the check failed on a clean checkout ({why.detail})"
        case Cause.TAMPERED:
            return f"changes {', '.join(why.paths)}, which the agent must not change"
        case Cause.MARKERS:
            return f"unresolved conflict markers in {_listed(why.paths)}"
        case Cause.SENSITIVE:
            return f"adds a file that looks like a secret: {_listed(why.paths)}"
        case _:
            return str(why.cause)


def waiting(goals: Sequence[BatchGoal]) -> dict[int, str]:
    """Return what each waiting goal waits for."""
    known = {goal.id: goal for goal in goals}
    in_vain = waits_in_vain(goals)
    told: dict[int, str] = {}
    for goal in goals:
        unfinished = [known[number] for number in goal.after if known[number].state is not State.DONE]
        if goal.state is not State.QUEUED or not unfinished:
            continue
        if (obstacle := in_vain.get(goal.id)) is not None:
            told[goal.id] = f"waits for {obstacle.label}, which {_standing(obstacle, in_vain)}"
        else:
            told[goal.id] = f"after {', '.join(parent.label for parent in unfinished)}"
    return told


def elsewhere_line(number: int, flag: str) -> str:
    """Say how many queued goals a worker leaves out because they belong to other repositories; empty for none."""
    if not number:
        return ""
    goals = (
        f"{number} queued goals of other repositories stay queued"
        if number > 1
        else "1 queued goal of another repository stays queued"
    )
    return f"{goals}; work on every queued goal: {command_line(('run', '--all'), flag)}"


def _standing(goal: BatchGoal, in_vain: dict[int, BatchGoal]) -> str:
    return "is waiting, too" if goal.id in in_vain else f"is {'a draft' if goal.state is State.DRAFT else goal.state}"


def change_line(submitted: Submitted) -> str:
    """Return what happened to an added goal; for a finished one that was not merged, also where its work is."""
    goal = submitted.goal
    if submitted.what is SubmitChange.DONE and goal.why.cause in (Cause.KEPT, Cause.PUSHED):
        return f"{submitted.what}; {goal.why.cause} as {goal.branch}, not merged"
    return submitted.what


def _listed(paths: Sequence[str]) -> str:
    return few(paths, _MOST_PATHS)
