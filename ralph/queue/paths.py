"""Where a queue keeps what it works with, on this machine."""

import contextlib
import re
from dataclasses import dataclass
from pathlib import Path

from ralph.config.paths import repo_key
from ralph.core.errors import DiskError
from ralph.queue.goals import BatchGoal
from ralph.system.files import remove_tree

_CLONE = re.compile(r"g([1-9][0-9]{0,17})-", re.ASCII)


@dataclass(frozen=True, slots=True)
class QueuePaths:
    """The directories of one queue; ids are its own, so no two queues share them."""

    ralph_dir: Path
    root: Path

    def clone(self, goal: BatchGoal) -> Path:
        """The clone that a goal is worked on in, over all its attempts."""
        return self.root / "clones" / f"{goal.label}-{goal.name}"

    def numbers(self) -> set[int]:
        """The numbers of the goals that clones here are named after; there may be no such goals."""
        names = (path.name for path in self.root.glob("clones/g*"))
        return {int(found[1]) for name in names if (found := _CLONE.match(name))}

    def folder(self, goal: BatchGoal) -> Path:
        """Return the folder of a goal's other files: its text for the agent, error logs, checks."""
        return self.root / "goals" / goal.label

    def git_name(self, goal: BatchGoal) -> str:
        """What a goal's refs are called in a mirror, which several queues may share."""
        return f"{self.root.name}/{goal.label}-{goal.name}"

    def goal_file(self, goal: BatchGoal) -> Path:
        return self.folder(goal) / f"{goal.name}.md"

    def run_directory(self, goal: BatchGoal) -> Path:
        """Where the goal's `ralph run` writes."""
        return self.ralph_dir / "runs" / repo_key(self.clone(goal)) / goal.name

    @property
    def checkouts(self) -> Path:
        return self.root / "checkouts"

    def clear(self) -> None:
        """Remove what a worker that was killed left half made or half removed; its successor calls this, alone here."""
        for left in (*self.checkouts.glob("*"), *self.root.glob("clones/.*")):
            if not is_elsewhere(left):
                with contextlib.suppress(DiskError):  # a check that is just being ended may write there still
                    remove_tree(left)


def queue_paths(ralph_dir: Path, queue: str) -> QueuePaths:
    """The place of a queue, by its id."""
    return QueuePaths(ralph_dir, ralph_dir / "batch" / queue)


def is_elsewhere(path: Path) -> bool:
    """Tell whether a link stands for the directory that holds it: then what is in it need not be ralph's."""
    return path.parent.is_symlink()
