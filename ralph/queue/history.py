"""What a goal of a queue has done and changed: its latest run, and its commits wherever they are kept."""

import contextlib
from collections.abc import Generator
from dataclasses import dataclass, replace
from pathlib import Path

from ralph.core.errors import RepoError, UsageError
from ralph.core.history import PastRun
from ralph.core.reason import Cause
from ralph.git.history import GitCall, commits_on, parent_of
from ralph.queue.goals import BatchGoal, State
from ralph.queue.merge.trees import squash_of
from ralph.queue.open import QueueAddress, is_cut_off, no_run
from ralph.queue.paths import queue_paths
from ralph.queue.repos.mirror import Mirror, open_mirror
from ralph.queue.repos.remote import seeing_only
from ralph.state.past_runs import read_past_run

_MERGED = (Cause.MERGED, Cause.MERGED_EARLIER, Cause.UNDONE)


@dataclass(frozen=True, slots=True)
class PastGoal:
    """The latest run of a goal, and what is needed to look further."""

    goal: BatchGoal
    past: PastRun
    directory: Path
    git: GitCall
    squash: str | None
    """The commit that brought the goal's work to its base, if it was merged."""
    fork: str | None
    """Where the goal's branch last took in its base: what came from there is not the goal's."""


@contextlib.contextmanager
def past_goal(goal: BatchGoal, place: QueueAddress, queue_id: str) -> Generator[PastGoal]:
    """Find what a goal has done; git sees the mirror's commits and the clone's, and none of the clone's settings."""
    paths = queue_paths(place.ralph_dir, queue_id)
    mirror, clone = open_mirror(place.ralph_dir, goal.repo), paths.clone(goal)
    directory = paths.run_directory(goal)
    with seeing_only(clone / ".git" / "objects") as view:

        def git(*args: str) -> tuple[int, str, str]:
            if not mirror.is_usable:
                raise RepoError(
                    f"cannot find the mirror of {goal.repo} on this machine",
                    "run this on the machine where the goal ran",
                )
            return mirror.bare.run(*args, pinned=view.lent())

        commits = commits_on(git, goal.branch) if mirror.is_usable else []
        is_live = goal.state is State.RUNNING and not is_cut_off(place, [goal])
        past = read_past_run(directory, commits, is_live=is_live)
        if not past.iterations and not directory.is_dir():
            raise no_run(goal, place)
        past = replace(past, goal=goal.name, branch=goal.branch, repo=goal.repo)
        squash = squash_of_goal(mirror, goal) if mirror.is_usable else None
        fork = _fork(mirror, git, goal.branch, past.head) if mirror.is_usable and past.head else None
        yield PastGoal(goal, past, directory, git, squash, fork)


def changed_span(found: PastGoal) -> tuple[str | None, str]:
    """Return the commits between which all of a goal's changes lie: those of its merge or, before that, of its run."""
    if found.squash is not None:
        return parent_of(found.git, found.squash), found.squash
    past = found.past
    if past.head is None:
        raise UsageError(
            f"{found.goal.label} {found.goal.name} has no finished iteration yet",
            f"see where it stands: ralph-runs show {found.goal.label}",
        )
    return found.fork or past.base or parent_of(found.git, past.iterations[0].commit), past.head


def squash_of_goal(mirror: Mirror, goal: BatchGoal) -> str | None:
    """Return the commit that brought a goal's work to its base; None before it is merged."""
    if goal.why.cause not in _MERGED:
        return None
    base = mirror.bare.commit_at(f"refs/heads/{goal.why.branch or mirror.base().branch}")
    return squash_of(mirror.bare, base, goal.run) if base and goal.run else None


def _fork(mirror: Mirror, git: GitCall, branch: str, head: str) -> str | None:
    status, out, _ = git("merge-base", mirror.base(branch).tip, head)
    return out.strip() if status == 0 else None
